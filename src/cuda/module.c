#include "cuda/module.h"

#include "cuda/device.h"

#include <stdio.h>
#include <string.h>

enum { SHARED_WITHOUT_ASKING = 48 << 10 };

/* ---- load, find -------------------------------------------------------------------------------------- */

mlsys_status mlsi_cuda_module_load(mlsi_accel *d, mlsi_alloc *a, const mlsi_cuda_image *images,
                                   int64_t n, mlsi_accel_module **out) {
    mlsi_accel_module *m;
    *out = NULL;
    MLSI_TRY(mlsi_mem_zalloc(a, 1, sizeof *m + (uint64_t)n * sizeof m->modules[0], (void **)&m));
    m->device = d;
    m->alloc = a;
    mlsys_status st = mlsi_cuda_enter(d);
    if (st == MLSYS_OK) {
        for (int64_t i = 0; i < n && st == MLSYS_OK; i++) {
            CUresult r = d->driver->module_load(&m->modules[i], images[i].data, 0, NULL, NULL);
            st = mlsi_cuda_check(d, r, "cuModuleLoadDataEx", "");
            if (st == MLSYS_OK) m->n++;
        }
        mlsi_cuda_leave(d);
    }
    if (st != MLSYS_OK)
        mlsi_cuda_unload(a, m);
    else
        *out = m;
    return st;
}

void mlsi_cuda_unload(mlsi_alloc *a, mlsi_accel_module *m) {
    if (!m) return;
    if (m->n && mlsi_cuda_enter_to_free(m->device)) {
        for (int64_t i = 0; i < m->n; i++)
            (void)m->device->driver->module_unload(m->modules[i]);
        mlsi_cuda_leave(m->device);
    }
    for (mlsi_accel_kernel *k = m->kernels, *next; k; k = next) {
        next = k->next;
        mlsi_mem_free(a, k);
    }
    mlsi_mem_free(a, m);
}

static mlsi_accel_kernel *find(mlsi_accel_module *m, const char *name) {
    const mlsi_driver *driver = m->device->driver;
    mlsi_accel_kernel *k;
    CUfunction f = NULL;
    CUresult r = CUDA_ERROR_NOT_FOUND;
    for (k = m->kernels; k; k = k->next)
        if (!strcmp(k->name, name)) return k;
    for (int64_t i = 0; i < m->n && r == CUDA_ERROR_NOT_FOUND; i++)
        r = driver->module_get_function(&f, m->modules[i], name);
    size_t bytes = strlen(name) + 1;
    if (mlsi_cuda_check(m->device, r, "cuModuleGetFunction", "") != MLSYS_OK ||
        mlsi_mem_zalloc(m->alloc, 1, sizeof *k + bytes, (void **)&k) != MLSYS_OK)
        return NULL;
    memcpy(k->name, name, bytes);
    k->module = m;
    k->function = f;
    atomic_store(&k->shared_most, SHARED_WITHOUT_ASKING);
    k->next = m->kernels;
    return m->kernels = k;
}

mlsi_accel_kernel *mlsi_cuda_kernel(mlsi_accel_module *m, const char *name) {
    mlsi_accel *d = m->device;
    if (mlsi_cuda_enter(d) != MLSYS_OK) return NULL;
    pthread_mutex_lock(&d->lock);
    mlsi_accel_kernel *k = find(m, name);
    pthread_mutex_unlock(&d->lock);
    mlsi_cuda_leave(d);
    return k;
}

/* ---- launch --------------------------------------------------------------------------------------------- */

/* Above 48 KiB a kernel's dynamic shared memory is to be asked for; it is, once for each larger amount. */
static mlsys_status allow_shared(mlsi_accel_kernel *k, uint32_t bytes) {
    mlsi_accel *d = k->module->device;
    int own = 0;
    if (bytes <= atomic_load(&k->shared_most)) return MLSYS_OK;
    CUresult r =
        d->driver->func_get_attribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, k->function);
    MLSI_TRY(mlsi_cuda_check(d, r, "cuFuncGetAttribute", ""));
    if (bytes > (uint32_t)d->shared_most || own > d->shared_most - (int)bytes)
        return mlsi_fail(MLSYS_E_UNSUPPORTED,
                         "CUDA device %d: %s takes %llu bytes of shared memory, a block has %d",
                         d->index, k->name, (unsigned long long)bytes + (unsigned)own,
                         d->shared_most);
    pthread_mutex_lock(&d->lock);
    mlsys_status st = MLSYS_OK;
    if (bytes > atomic_load(&k->shared_most)) {
        r = d->driver->func_set_attribute(
            k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
        st = mlsi_cuda_check(d, r, "cuFuncSetAttribute", "");
        if (st == MLSYS_OK) atomic_store(&k->shared_most, bytes);
    }
    pthread_mutex_unlock(&d->lock);
    return st;
}

uint32_t mlsi_cuda_resident(mlsi_accel_kernel *k, uint32_t threads, uint32_t shared_bytes) {
    mlsi_accel *d = k->module->device;
    int blocks = 0;
    if (mlsi_cuda_enter(d) != MLSYS_OK) return 1;
    mlsys_status st = allow_shared(k, shared_bytes);
    if (st == MLSYS_OK)
        st = mlsi_cuda_check(d,
                             d->driver->occupancy(&blocks, k->function, (int)threads, shared_bytes),
                             "cuOccupancyMaxActiveBlocksPerMultiprocessor", "");
    if (st != MLSYS_OK) blocks = 0;
    mlsi_cuda_leave(d);
    return blocks > 0 && d->multiprocessors > 0 ? (uint32_t)blocks * (uint32_t)d->multiprocessors
                                                : 1;
}

static mlsys_status launch(mlsi_queue *q, const mlsi_launch *l, const char *what) {
    mlsi_accel *d = q->device;
    if (!l->blocks || !l->threads)
        return mlsi_fail(MLSYS_E_ARG, "CUDA: %s: %u blocks of %u threads", what, l->blocks,
                         l->threads);
    MLSI_TRY(allow_shared(l->kernel, l->shared_bytes));
    if (!q->launches++) snprintf(q->first, sizeof q->first, "%s", what);
    CUresult r = d->driver->launch(l->kernel->function, l->blocks, 1, 1, l->threads, 1, 1,
                                   l->shared_bytes, q->stream, l->params, NULL);
    return mlsi_cuda_issued(q, r, "cuLaunchKernel", what);
}

mlsys_status mlsi_cuda_launch(mlsi_queue *q, const mlsi_launch *l) {
    MLSI_TRY(mlsi_cuda_enter(q->device));
    mlsys_status st = launch(q, l, l->what ? l->what : l->kernel->name);
    mlsi_cuda_leave(q->device);
    return st;
}
