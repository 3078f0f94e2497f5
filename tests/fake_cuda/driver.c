#include "fake_cuda.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT fake_cuda fake = {.devices = 1, .memory = (uint64_t)1 << 30, .nvrtc_newest = 120};

enum { INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_IMAGE = 200, CAPTURE_UNSUPPORTED = 900 };
enum { CAPTURE_INVALIDATED = 901, DEPTH = 16, PARAMS = 32 };

typedef enum op_kind { OP_COPY, OP_FILL, OP_EVENT, OP_LAUNCH, OP_GRAPH } op_kind;

typedef struct op {
    struct op *next;
    op_kind kind;
    char *to;
    const char *from;
    size_t bytes;
    unsigned char byte;
    bool to_host, from_host, poisoned;
    CUevent event;
    const fake_kernel *kernel;
    unsigned blocks, threads, shared;
    uint64_t params[PARAMS];
    struct op *graph;
} op;

struct CUevent_st {
    int64_t pending;
};
struct CUstream_st {
    op *first, **end;
    bool capturing, invalid;
    CUstream next;
};
struct CUfunc_st {
    CUfunction next;
    const fake_kernel *kernel;
    int shared_most;
};
struct CUmod_st {
    char *text;
    CUfunction functions;
};
struct CUgraph_st {
    op *first;
};
struct CUgraphExec_st {
    op *first;
};
typedef struct region {
    struct region *next;
    char *p;
    size_t bytes;
} region;
struct CUctx_st {
    int refs;
    CUresult dead;
};

static struct CUctx_st primary[8];
static region *regions;
static CUstream streams;
/* All objects, so that the end of the last context frees what nobody did. */
typedef struct object {
    struct object *next, **link;
    uint64_t align_to_16[2];
} object;
static object *objects;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread CUcontext stack[DEPTH];
static __thread int depth;

static void *make(size_t bytes) {
    object *o = calloc(1, sizeof *o + bytes);
    if (!o) return NULL;
    *o = (object){.next = objects, .link = &objects};
    if (objects) objects->link = &o->next;
    objects = o;
    return o + 1;
}
static void drop(void *p) {
    object *o = (object *)p - 1;
    if (!p) return;
    *o->link = o->next;
    if (o->next) o->next->link = o->link;
    free(o);
}

static CUresult done(CUresult r) {
    pthread_mutex_unlock(&lock);
    return r;
}

/* Does this call fail by order? */
static CUresult planned(const char *name) {
    if (fake.fail_in && strcmp(fake.fail_in, name)) return CUDA_SUCCESS;
    if (++fake.calls != fake.fail_at) return CUDA_SUCCESS;
    fake.failed_in = name;
    if (fake.fail_with >= CUDA_ERROR_ILLEGAL_ADDRESS && fake.fail_with < 800 && depth)
        stack[depth - 1]->dead = fake.fail_with;
    return fake.fail_with;
}

static CUresult begin(const char *name) {
    pthread_mutex_lock(&lock);
    return planned(name);
}

/* For calls on a context. */
static CUresult current(const char *name) {
    CUresult r = begin(name);
    if (!depth || !stack[depth - 1]->refs) return fake.bad_context++, CUDA_ERROR_INVALID_CONTEXT;
    return stack[depth - 1]->dead ? stack[depth - 1]->dead : r;
}

#define BEGIN(name)                                                                                \
    CUresult result = begin(name);                                                                 \
    if (result) return done(result)
#define CURRENT(name)                                                                              \
    CUresult result = current(name);                                                               \
    if (result) return done(result)

/* ---- devices and contexts ------------------------------------------------------------------------- */

EXPORT CUresult cuGetErrorName(CUresult r, const char **out) {
    *out = r == CUDA_ERROR_ILLEGAL_ADDRESS  ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : r == CUDA_ERROR_OUT_OF_MEMORY  ? "CUDA_ERROR_OUT_OF_MEMORY"
           : r == CUDA_ERROR_INVALID_HANDLE ? "CUDA_ERROR_INVALID_HANDLE"
           : r == CUDA_ERROR_NO_DEVICE      ? "CUDA_ERROR_NO_DEVICE"
                                            : NULL;
    return *out ? CUDA_SUCCESS : INVALID_VALUE;
}
EXPORT CUresult cuGetErrorString(CUresult r, const char **out) {
    (void)r;
    *out = "words of the driver";
    return CUDA_SUCCESS;
}
EXPORT CUresult cuInit(unsigned flags) { return flags ? INVALID_VALUE : fake.init; }
EXPORT CUresult cuDriverGetVersion(int *out) { return *out = 13000, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetCount(int *out) {
    BEGIN("cuDeviceGetCount");
    return *out = fake.devices, done(CUDA_SUCCESS);
}
EXPORT CUresult cuDeviceGet(CUdevice *out, int index) {
    BEGIN("cuDeviceGet");
    return *out = index, done(index < fake.devices ? CUDA_SUCCESS : INVALID_DEVICE);
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice d) {
    (void)d;
    BEGIN("cuDeviceGetName");
    strncpy(name, "Fake \"H\" 9", (size_t)size);
    return done(CUDA_SUCCESS);
}
EXPORT CUresult cuDeviceGetAttribute(int *out, int attribute, CUdevice d) {
    (void)d;
    BEGIN("cuDeviceGetAttribute");
    *out = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT              ? 132
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 227 << 10
                                                                                : 0;
    return done(CUDA_SUCCESS);
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice d) {
    (void)d;
    BEGIN("cuDeviceTotalMem");
    return *out = fake.memory, done(CUDA_SUCCESS);
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) {
    BEGIN("cuDevicePrimaryCtxRetain");
    if (!primary[d].refs++) fake.contexts++;
    return *out = &primary[d], done(CUDA_SUCCESS);
}
/* The last owner's release frees all; what a healthy context still had is a leak. */
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    CUresult r = begin("cuDevicePrimaryCtxRelease");
    if (--primary[d].refs) return done(r);
    fake.contexts--;
    CUresult dead = primary[d].dead;
    primary[d].dead = CUDA_SUCCESS;
    if (fake.contexts) return done(r);
    if (!dead)
        fake.left += fake.allocations + fake.host_allocations + fake.streams + fake.events +
                     fake.modules + fake.graphs + fake.execs;
    for (region *g = regions, *next; g; g = next) {
        next = g->next;
        free(g->p);
        free(g);
    }
    regions = NULL;
    streams = NULL;
    while (objects)
        drop(objects + 1);
    fake.allocations = fake.host_allocations = fake.streams = fake.events = fake.modules = 0;
    fake.graphs = fake.execs = 0;
    fake.bytes = 0;
    return done(r);
}
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext c) {
    BEGIN("cuCtxPushCurrent");
    stack[depth++] = c;
    fake.depth++;
    return done(CUDA_SUCCESS);
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out) {
    CUresult r = begin("cuCtxPopCurrent");
    *out = stack[--depth];
    fake.depth--;
    return done(r);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    CURRENT("cuMemAlloc");
    region *g = calloc(1, sizeof *g);
    void *p = NULL;
    if (!g || bytes > fake.memory - fake.bytes || posix_memalign(&p, 512, bytes))
        return free(g), done(CUDA_ERROR_OUT_OF_MEMORY);
    memset(p, 0xcd, bytes < 4 << 20 ? bytes : 4 << 20);
    *g = (region){regions, p, bytes};
    regions = g;
    fake.allocations++;
    fake.bytes += bytes;
    return *out = (CUdeviceptr)(uintptr_t)p, done(CUDA_SUCCESS);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
    CUresult r = current("cuMemFree");
    for (region **link = &regions; *link; link = &(*link)->next) {
        region *g = *link;
        if ((CUdeviceptr)(uintptr_t)g->p != p) continue;
        *link = g->next;
        fake.bytes -= g->bytes;
        fake.allocations--;
        fake.frees++;
        free(g->p);
        free(g);
        return done(r);
    }
    return done(r ? r : INVALID_VALUE);
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CURRENT("cuMemGetInfo");
    *free_bytes = fake.memory - fake.bytes;
    return *total = fake.memory, done(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    CURRENT("cuMemHostAlloc");
    if (!(*out = make(bytes))) return done(CUDA_ERROR_OUT_OF_MEMORY);
    return fake.host_allocations++, done(CUDA_SUCCESS);
}
EXPORT CUresult cuMemFreeHost(void *p) {
    CUresult r = current("cuMemFreeHost");
    drop(p);
    return fake.host_allocations--, done(r);
}

static bool inside(const char *p, size_t bytes) {
    for (const region *g = regions; g; g = g->next)
        if (p >= g->p && bytes <= g->bytes && (size_t)(p - g->p) <= g->bytes - bytes) return true;
    return false;
}

/* ---- work ---------------------------------------------------------------------------------------------- */

static CUresult run_ops(const op *first);

static CUresult run_op(const op *o) {
    void *params[PARAMS];
    switch (o->kind) {
    case OP_COPY:
        if (!(o->to_host || inside(o->to, o->bytes)) ||
            !(o->from_host || inside(o->from, o->bytes)))
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        memcpy(o->to, o->from, o->bytes);
        return CUDA_SUCCESS;
    case OP_FILL:
        if (!inside(o->to, o->bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
        memset(o->to, o->byte, o->bytes);
        return CUDA_SUCCESS;
    case OP_EVENT: o->event->pending--; return CUDA_SUCCESS;
    case OP_LAUNCH:
        if (o->poisoned) return CUDA_ERROR_ILLEGAL_ADDRESS;
        for (int i = 0; i < PARAMS; i++)
            params[i] = (void *)(uintptr_t)&o->params[i];
        if (o->kernel) o->kernel->run(params, o->blocks, o->threads, o->shared);
        return CUDA_SUCCESS;
    default: return run_ops(o->graph);
    }
}

static CUresult run_ops(const op *first) {
    CUresult r = CUDA_SUCCESS;
    for (const op *o = first; o && !r; o = o->next)
        r = run_op(o);
    return r;
}

static void free_ops(op *first) {
    for (op *o = first, *next; o; o = next) {
        next = o->next;
        drop(o);
    }
}

/* All that the stream was given; an error of it kills the context. */
static CUresult run_stream(CUstream s) {
    CUresult r = s ? run_ops(s->first) : CUDA_SUCCESS;
    if (!s) return r;
    free_ops(s->first);
    s->first = NULL;
    s->end = &s->first;
    if (r) stack[depth - 1]->dead = r;
    return r;
}

static CUresult give(CUstream s, const op *o) {
    if (!s) return run_op(o);
    op *copy = make(sizeof *copy);
    if (!copy) return CUDA_ERROR_OUT_OF_MEMORY;
    *copy = *o;
    copy->next = NULL;
    *s->end = copy;
    s->end = &copy->next;
    return fake.deferred || s->capturing ? CUDA_SUCCESS : run_stream(s);
}

static CUresult copy(CUstream s, void *to, bool to_host, const void *from, bool from_host,
                     size_t n) {
    op o = {.kind = OP_COPY,
            .to = to,
            .from = from,
            .bytes = n,
            .to_host = to_host,
            .from_host = from_host};
    return done(give(s, &o));
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s) {
    CURRENT("cuMemcpyHtoDAsync");
    return copy(s, (void *)(uintptr_t)to, false, from, true, n);
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s) {
    CURRENT("cuMemcpyDtoHAsync");
    return copy(s, to, true, (void *)(uintptr_t)from, false, n);
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s) {
    CURRENT("cuMemcpyDtoDAsync");
    return copy(s, (void *)(uintptr_t)to, false, (void *)(uintptr_t)from, false, n);
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t n, CUstream s) {
    CURRENT("cuMemsetD8Async");
    op o = {.kind = OP_FILL, .to = (char *)(uintptr_t)to, .byte = byte, .bytes = n};
    return done(give(s, &o));
}

/* ---- streams and events ----------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    CURRENT("cuStreamCreate");
    CUstream s = make(sizeof *s);
    if (!s || flags != CU_STREAM_NON_BLOCKING) return drop(s), done(INVALID_VALUE);
    s->end = &s->first;
    s->next = streams;
    streams = s;
    fake.streams++;
    return *out = s, done(CUDA_SUCCESS);
}
EXPORT CUresult cuStreamDestroy_v2(CUstream s) {
    CUresult r = current("cuStreamDestroy");
    for (CUstream *link = &streams; *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    if (run_stream(s) && !r) r = stack[depth - 1]->dead;
    drop(s);
    return fake.streams--, done(r);
}

/* Waiting for a stream that captures spoils the capture. */
static bool spoils(CUstream s) {
    if (s && s->capturing) s->invalid = true;
    return s && s->capturing;
}
EXPORT CUresult cuStreamSynchronize(CUstream s) {
    CURRENT("cuStreamSynchronize");
    fake.syncs++;
    return done(spoils(s) ? CAPTURE_UNSUPPORTED : run_stream(s));
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
    CURRENT("cuStreamBeginCapture");
    if (s->capturing || mode != CU_STREAM_CAPTURE_MODE_RELAXED) return done(INVALID_VALUE);
    result = run_stream(s);
    s->capturing = !result;
    s->invalid = false;
    return done(result);
}
EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
    CUresult r = current("cuStreamEndCapture");
    bool was = s->capturing, invalid = s->invalid || r;
    op *first = s->first;
    s->capturing = s->invalid = false;
    s->first = NULL;
    s->end = &s->first;
    *out = NULL;
    if (!was || invalid) return free_ops(first), done(r ? r : CAPTURE_INVALIDATED);
    if (!(*out = make(sizeof **out))) return done(CUDA_ERROR_OUT_OF_MEMORY);
    (*out)->first = first;
    return fake.graphs++, done(CUDA_SUCCESS);
}
EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags) {
    CURRENT("cuEventCreate");
    if (flags != CU_EVENT_DISABLE_TIMING || !(*out = make(sizeof **out)))
        return done(INVALID_VALUE);
    return fake.events++, done(CUDA_SUCCESS);
}
/* An event that is still to come stays, as the driver has it. */
EXPORT CUresult cuEventDestroy_v2(CUevent e) {
    CUresult r = current("cuEventDestroy");
    for (CUstream s = streams; s && e->pending; s = s->next)
        (void)run_stream(s);
    drop(e);
    return fake.events--, done(r);
}
EXPORT CUresult cuEventRecord(CUevent e, CUstream s) {
    CURRENT("cuEventRecord");
    if (spoils(s)) return done(CAPTURE_UNSUPPORTED);
    op o = {.kind = OP_EVENT, .event = e};
    e->pending++;
    return done(give(s, &o));
}
EXPORT CUresult cuEventQuery(CUevent e) {
    CURRENT("cuEventQuery");
    return done(e->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}
EXPORT CUresult cuEventSynchronize(CUevent e) {
    CURRENT("cuEventSynchronize");
    for (CUstream s = streams; s && e->pending && !result; s = s->next)
        if (!s->capturing) result = run_stream(s);
    return done(result);
}

/* ---- code ---------------------------------------------------------------------------------------------------- */

/* An image is "FAKE" and the text whose kernels it has. */
EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, int *options,
                                   void **values) {
    (void)n, (void)options, (void)values;
    CURRENT("cuModuleLoadDataEx");
    if (memcmp(image, "FAKE", 4)) return done(INVALID_IMAGE);
    CUmodule m = make(sizeof *m);
    const char *text = (const char *)image + 4;
    if (!m || !(m->text = make(strlen(text) + 1))) return drop(m), done(CUDA_ERROR_OUT_OF_MEMORY);
    strcpy(m->text, text);
    fake.modules++;
    return *out = m, done(CUDA_SUCCESS);
}
EXPORT CUresult cuModuleUnload(CUmodule m) {
    CUresult r = current("cuModuleUnload");
    for (CUfunction f = m->functions, next; f; f = next) {
        next = f->next;
        drop(f);
    }
    drop(m->text);
    drop(m);
    return fake.modules--, done(r);
}
EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
    CURRENT("cuModuleGetFunction");
    char call[256] = " ";
    strncat(strncat(call, name, sizeof call - 3), "(", 2);
    if (!strstr(m->text, call)) return done(CUDA_ERROR_NOT_FOUND);
    CUfunction f = make(sizeof *f);
    if (!f) return done(CUDA_ERROR_OUT_OF_MEMORY);
    for (int i = 0; i < fake.n_kernels; i++)
        if (!strcmp(fake.kernels[i].name, name)) f->kernel = &fake.kernels[i];
    f->shared_most = 48 << 10;
    f->next = m->functions;
    m->functions = f;
    return *out = f, done(CUDA_SUCCESS);
}
EXPORT CUresult cuFuncGetAttribute(int *out, int attribute, CUfunction f) {
    (void)attribute, (void)f;
    CURRENT("cuFuncGetAttribute");
    return *out = 1024, done(CUDA_SUCCESS);
}
EXPORT CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value) {
    CURRENT("cuFuncSetAttribute");
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return done(INVALID_VALUE);
    f->shared_most = value;
    return fake.attribute_sets++, done(CUDA_SUCCESS);
}
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction f, int threads,
                                                            size_t shared) {
    CURRENT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *out = threads < 1 || shared > (size_t)f->shared_most ? 0 : 2048 / threads;
    return done(CUDA_SUCCESS);
}
EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned tx,
                               unsigned ty, unsigned tz, unsigned shared, CUstream s, void **params,
                               void **extra) {
    CURRENT("cuLaunchKernel");
    if (y * z * ty * tz != 1 || extra || !x || !tx || tx > 1024 ||
        shared > (unsigned)f->shared_most)
        return done(INVALID_VALUE);
    op o = {.kind = OP_LAUNCH, .kernel = f->kernel, .blocks = x, .threads = tx, .shared = shared};
    o.poisoned = ++fake.launches == fake.poison;
    for (int i = 0; f->kernel && i < f->kernel->n_params; i++)
        memcpy(&o.params[i], params[i], 8);
    return done(give(s, &o));
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, uint64_t flags) {
    (void)flags;
    CURRENT("cuGraphInstantiateWithFlags");
    if (!(*out = make(sizeof **out))) return done(CUDA_ERROR_OUT_OF_MEMORY);
    (*out)->first = g->first;
    g->first = NULL;
    return fake.execs++, done(CUDA_SUCCESS);
}
EXPORT CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
    CURRENT("cuGraphLaunch");
    op o = {.kind = OP_GRAPH, .graph = e->first};
    return done(give(s, &o));
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec e) {
    CUresult r = current("cuGraphExecDestroy");
    for (CUstream s = streams; s; s = s->next)
        if (!s->capturing) (void)run_stream(s);
    free_ops(e->first);
    drop(e);
    return fake.execs--, done(r);
}
EXPORT CUresult cuGraphDestroy(CUgraph g) {
    CUresult r = current("cuGraphDestroy");
    free_ops(g->first);
    drop(g);
    return fake.graphs--, done(r);
}
