/* The table of primitives: one row each. */
#ifndef MLSI_SCHEDULE_PRIMITIVES_H
#define MLSI_SCHEDULE_PRIMITIVES_H

#include "ir/loop/schedule_edit.h"

typedef struct mlsi_primitive_row {
    const char *name;
    mlsi_edit *edit;
    int min_names, max_names, numbers, results;
    /* Names of results that the text leaves out: $0, $1 are the names given. */
    const char *made[MLSI_STEP_RESULTS];
} mlsi_primitive_row;

/* NULL: none. */
const mlsi_primitive_row *mlsi_primitive_get(mlsi_primitive p);

#endif
