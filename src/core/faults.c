#include "core/faults.h"

#if defined(MLSI_FAULTS) && MLSI_FAULTS

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Mutable global state, which the library has in this build only. -1: the environment is unread. */
static _Atomic int live = -1;

static int from_environment(void) {
    static const char *const names[MLSI_FAULT_COUNT] = {
        "",
#define MLSI_FAULT_ROW(name, site, suite, breaks) #name,
#include "core/fault_list.h"
#undef MLSI_FAULT_ROW
    };
    const char *wanted = getenv("MLSI_FAULT");
    for (int i = 1; wanted && i < MLSI_FAULT_COUNT; i++)
        if (!strcmp(names[i], wanted)) return i;
    return MLSI_FAULT_NONE;
}

bool mlsi_fault(int id) {
    int now = atomic_load_explicit(&live, memory_order_relaxed);
    if (now < 0) {
        now = from_environment();
        atomic_store_explicit(&live, now, memory_order_relaxed);
    }
    return now == id;
}

void mlsi_fault_select(int id) { atomic_store_explicit(&live, id, memory_order_relaxed); }

#else
typedef int mlsi_faults_absent; /* ISO C wants a declaration */
#endif
