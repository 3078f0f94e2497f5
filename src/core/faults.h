/* Planting defects in test builds. In every other build mlsi_fault(id) is the constant false and
 * the faulty branch disappears.
 *
 * With -DMLSI_FAULTS=1 one fault at a time is live: the one named by the environment variable
 * MLSI_FAULT (read once), or chosen by mlsi_fault_select. The list is core/fault_list.h. */
#ifndef MLSI_FAULTS_H
#define MLSI_FAULTS_H

#include <stdbool.h>

enum {
    MLSI_FAULT_NONE = 0,
#define MLSI_FAULT_ROW(name, site, suite, breaks) MLSI_FAULT_##name,
#include "core/fault_list.h"
#undef MLSI_FAULT_ROW
    MLSI_FAULT_COUNT
};

#if defined(MLSI_FAULTS) && MLSI_FAULTS
bool mlsi_fault(int id);
/* Make id the live fault, MLSI_FAULT_NONE none; overrides the environment. */
void mlsi_fault_select(int id);
#else
#define mlsi_fault(id) ((void)(id), false)
#endif

#endif
