#include <mlsys/mlsys.h>

int32_t version_seen_by_unit_b(void);

int32_t version_seen_by_unit_b(void) { return MLSYS_VERSION_NUMBER; }
