/* dce: a rewrite visits live nodes only, so keeping all of them drops the dead ones. */
#include "ir/passes/passes.h"

mlsys_status mlsi_pass_dce(mlsi_pass_ctx *p, int32_t func) {
    return mlsi_rewrite_run(p, func, mlsi_rewrite_keep, NULL);
}
