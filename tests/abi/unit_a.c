/* Two C units that include the public header link together: it defines nothing. */
#include <mlsys/mlsys.h>
#include <stdio.h>

int32_t version_seen_by_unit_b(void);

int main(void) {
    if (mlsys_version() != MLSYS_VERSION_NUMBER || version_seen_by_unit_b() != mlsys_version()) {
        fprintf(stderr, "header and library disagree on the version\n");
        return 1;
    }
    printf("mlsys_hooks %u\nmlsys_stats %u\nmlsys_opdef %u\nmlsys_cost %u\n"
           "mlsys_gradient_report %u\nmlsys_tune_progress %u\nmlsys_tune_report %u\n",
           (unsigned)sizeof(mlsys_hooks), (unsigned)sizeof(mlsys_stats),
           (unsigned)sizeof(mlsys_opdef), (unsigned)sizeof(mlsys_cost),
           (unsigned)sizeof(mlsys_gradient_report), (unsigned)sizeof(mlsys_tune_progress),
           (unsigned)sizeof(mlsys_tune_report));
    return 0;
}
