#include "cuda/driver.h"

#include "core/alloc.h"
#include "core/fork.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The driver does not work in a child of the process that initialised it. */
typedef struct published_driver {
    mlsi_driver driver;
    uint32_t epoch;
    int32_t pid;
} published_driver;

/* The only state of the process: set once, never freed. */
static _Atomic(published_driver *) published;

void mlsi_driver_error(const mlsi_driver *driver, CUresult r, char *text, size_t size) {
    const char *name = NULL, *words = NULL;
    if (driver->get_error_name(r, &name)) name = NULL;
    if (driver->get_error_string(r, &words)) words = NULL;
    if (name && words)
        snprintf(text, size, "%s (%s)", words, name);
    else
        snprintf(text, size, "error %d", r);
}

static mlsys_status find_symbols(void *library, const char *path, mlsi_driver *out) {
    static const char *const names[] = {
#define NAME(member, symbol, parameters) #symbol,
        MLSI_DRIVER_FUNCTIONS(NAME)
#undef NAME
    };
    enum { FUNCTIONS = sizeof names / sizeof names[0] };
    _Static_assert(offsetof(mlsi_driver, version) == FUNCTIONS * sizeof(void *), "a table");
    for (int i = 0; i < FUNCTIONS; i++) {
        void *p = dlsym(library, names[i]);
        if (!p)
            return mlsi_fail(MLSYS_E_DEVICE, "CUDA: %.200s has no %s: the driver is too old", path,
                             names[i]);
        /* ISO C has no cast between the two kinds of pointer */
        memcpy((char *)out + i * sizeof(void *), &p, sizeof p);
    }
    return MLSYS_OK;
}

static mlsys_status initialise(mlsi_driver *driver) {
    char words[200];
    CUresult r = driver->init(0);
    if (!r) r = driver->driver_version(&driver->version);
    if (!r) return MLSYS_OK;
    mlsi_driver_error(driver, r, words, sizeof words);
    return mlsi_fail(MLSYS_E_DEVICE, "CUDA: cuInit: %s", words);
}

/* NODELETE: a driver may have started threads, so it is never unmapped. */
static mlsys_status load(mlsi_driver *driver) {
    const char *own = getenv("MLSYS_CUDA_DRIVER");
    const char *path = own && own[0] ? own : "libcuda.so.1";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return mlsi_fail(MLSYS_E_DEVICE, "CUDA: %.300s", dlerror());
    mlsys_status st = find_symbols(library, path, driver);
    if (st == MLSYS_OK) st = initialise(driver);
    if (st != MLSYS_OK) (void)dlclose(library);
    return st;
}

mlsys_status mlsi_driver_get(const mlsi_driver **out) {
    published_driver *p = atomic_load(&published), *fresh;
    *out = NULL;
    if (!p) {
        MLSI_TRY(MLSI_NEW(&mlsi_alloc_process, &fresh));
        mlsys_status st = load(&fresh->driver);
        fresh->epoch = mlsi_fork_epoch();
        fresh->pid = mlsi_fork_pid();
        /* Two threads may both have loaded it: the tables are the same, one stays. */
        if (st == MLSYS_OK && atomic_compare_exchange_strong(&published, &p, fresh))
            p = fresh;
        else
            mlsi_mem_free(&mlsi_alloc_process, fresh);
        if (st != MLSYS_OK) return st;
    }
    if (p->epoch != mlsi_fork_epoch())
        return mlsi_fail(MLSYS_E_DEVICE, "CUDA: the driver was started in process %d before a fork",
                         p->pid);
    *out = &p->driver;
    return MLSYS_OK;
}
