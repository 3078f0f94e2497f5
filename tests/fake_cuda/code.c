/* Modules, kernels, launches, graphs. */
#include "state.h"

#include <stdio.h>

/* An image is "FAKE" and the text whose kernels it has. */
EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options,
                                   void **values) {
    (void)n, (void)options, (void)values;
    CURRENT("cuModuleLoadDataEx");
    if (memcmp(image, "FAKE", 4)) return fake_done(INVALID_IMAGE);
    CUmodule m = fake_make(sizeof *m);
    const char *text = (const char *)image + 4;
    if (!m || !(m->text = fake_make(strlen(text) + 1)))
        return fake_drop(m), fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    strcpy(m->text, text);
    if (fake_runs() && !(m->shim = cuda_shim_load(text))) {
        fprintf(stderr, "fake CUDA: %s\n", cuda_shim_error());
        fake_drop(m->text);
        return fake_drop(m), fake_done(INVALID_IMAGE);
    }
    fake.modules++;
    return *out = m, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuModuleUnload(CUmodule m) {
    CUresult r = fake_current("cuModuleUnload");
    for (CUfunction f = m->functions, next; f; f = next) {
        next = f->next;
        fake_drop(f);
    }
    cuda_shim_unload(m->shim);
    fake_drop(m->text);
    fake_drop(m);
    return fake.modules--, fake_done(r);
}
EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    CURRENT("cuModuleGetFunction");
    char call[256] = " ";
    strncat(strncat(call, name, sizeof call - 3), "(", 2);
    if (!strstr(m->text, call)) return fake_done(CUDA_ERROR_NOT_FOUND);
    CUfunction f = fake_make(sizeof *f);
    if (!f) return fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < fake.n_kernels; i++)
        if (!strcmp(fake.kernels[i].name, name)) f->kernel = &fake.kernels[i];
    if (m->shim) {
        f->shim = m->shim;
        f->call = cuda_shim_kernel(m->shim, name);
        f->n_params = cuda_shim_parameters(m->shim, name, f->bytes);
        f->waits = !strncmp(name, "mlsi_row_", 9);
    }
    snprintf(f->name, sizeof f->name, "%s", name);
    f->shared_most = 48 << 10;
    f->next = m->functions;
    m->functions = f;
    return *out = f, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuFuncGetAttribute(int *out, int attribute, CUfunction f) {
    (void)attribute, (void)f;
    CURRENT("cuFuncGetAttribute");
    return *out = 1024, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value) {
    CURRENT("cuFuncSetAttribute");
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return fake_done(INVALID_VALUE);
    f->shared_most = value;
    return fake.attribute_sets++, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction f, int threads,
                                                            size_t shared) {
    CURRENT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *out = threads < 1 || shared > (size_t)f->shared_most ? 0 : 2048 / threads;
    return fake_done(CUDA_SUCCESS);
}
/* A launch's parameters are the caller's until it returns. */
static bool keep_arguments(op *o, CUfunction f, void **params) {
    size_t bytes = sizeof(void *) * (size_t)f->n_params;
    for (int i = 0; i < f->n_params; i++)
        bytes += (f->bytes[i] + 15) & ~(size_t)15;
    o->shim = f;
    o->arguments = fake_make(bytes + 16);
    if (!o->arguments) return false;
    char *at = (char *)(((uintptr_t)(o->arguments + f->n_params) + 15) & ~(uintptr_t)15);
    for (int i = 0; i < f->n_params; i++) {
        o->arguments[i] = at;
        memcpy(at, params[i], f->bytes[i]);
        at += (f->bytes[i] + 15) & ~(size_t)15;
    }
    return true;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned tx,
                               unsigned ty, unsigned tz, unsigned shared, CUstream s, void **params,
                               void **extra) {
    CURRENT("cuLaunchKernel");
    if (y * z * ty * tz != 1 || extra || !x || !tx || tx > 1024 ||
        shared > (unsigned)f->shared_most)
        return fake_done(INVALID_VALUE);
    op o = {.kind = OP_LAUNCH, .kernel = f->kernel, .blocks = x, .threads = tx, .shared = shared};
    o.poisoned = ++fake.launches == fake.poison;
    if (getenv("FAKE_CUDA_LOG"))
        fprintf(stderr, "launch %s: %u blocks of %u threads, %u bytes shared\n", f->name, x, tx,
                shared);
    if (f->call && !keep_arguments(&o, f, params)) return fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; f->kernel && i < f->kernel->n_params; i++)
        memcpy(&o.params[i], params[i], 8);
    return fake_done(fake_give(s, &o));
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, uint64_t flags) {
    (void)flags;
    CURRENT("cuGraphInstantiateWithFlags");
    if (!(*out = fake_make(sizeof **out))) return fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    (*out)->first = g->first;
    g->first = NULL;
    return fake.execs++, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
    CURRENT("cuGraphLaunch");
    op o = {.kind = OP_GRAPH, .graph = e->first};
    return fake_done(fake_give(s, &o));
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec e) {
    CUresult r = fake_current("cuGraphExecDestroy");
    fake_run_streams();
    fake_free_ops(e->first);
    fake_drop(e);
    return fake.execs--, fake_done(r);
}
EXPORT CUresult cuGraphDestroy(CUgraph g) {
    CUresult r = fake_current("cuGraphDestroy");
    fake_free_ops(g->first);
    fake_drop(g);
    return fake.graphs--, fake_done(r);
}
