#include "state.h"

#include <pthread.h>
#include <stdio.h>

EXPORT fake_cuda fake = {.devices = 1, .memory = (uint64_t)1 << 30, .nvrtc_newest = 120};

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

void *fake_make(size_t bytes) {
    object *o = calloc(1, sizeof *o + bytes);
    if (!o) return NULL;
    *o = (object){.next = objects, .link = &objects};
    if (objects) objects->link = &o->next;
    objects = o;
    return o + 1;
}
void fake_drop(void *p) {
    object *o = (object *)p - 1;
    if (!p) return;
    *o->link = o->next;
    if (o->next) o->next->link = o->link;
    free(o);
}

CUresult fake_done(CUresult r) {
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

CUresult fake_begin(const char *name) {
    pthread_mutex_lock(&lock);
    return planned(name);
}

/* For calls on a context. */
CUresult fake_current(const char *name) {
    CUresult r = fake_begin(name);
    if (!depth || !stack[depth - 1]->refs) return fake.bad_context++, CUDA_ERROR_INVALID_CONTEXT;
    return stack[depth - 1]->dead ? stack[depth - 1]->dead : r;
}

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
    return *out = fake.devices, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuDeviceGet(CUdevice *out, int index) {
    BEGIN("cuDeviceGet");
    return *out = index, fake_done(index < fake.devices ? CUDA_SUCCESS : INVALID_DEVICE);
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice d) {
    (void)d;
    BEGIN("cuDeviceGetName");
    strncpy(name, "Fake \"H\" 9", (size_t)size);
    return fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuDeviceGetAttribute(int *out, int attribute, CUdevice d) {
    (void)d;
    BEGIN("cuDeviceGetAttribute");
    *out = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT              ? 132
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? 227 << 10
                                                                                : 0;
    return fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice d) {
    (void)d;
    BEGIN("cuDeviceTotalMem");
    return *out = fake.memory, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice d) {
    BEGIN("cuDevicePrimaryCtxRetain");
    if (!primary[d].refs++) fake.contexts++;
    return *out = &primary[d], fake_done(CUDA_SUCCESS);
}
/* The last owner's release frees all; what a healthy context still had is a leak. */
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) {
    CUresult r = fake_begin("cuDevicePrimaryCtxRelease");
    if (--primary[d].refs) return fake_done(r);
    fake.contexts--;
    CUresult dead = primary[d].dead;
    primary[d].dead = CUDA_SUCCESS;
    if (fake.contexts) return fake_done(r);
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
        fake_drop(objects + 1);
    fake.allocations = fake.host_allocations = fake.streams = fake.events = fake.modules = 0;
    fake.graphs = fake.execs = 0;
    fake.bytes = 0;
    return fake_done(r);
}
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext c) {
    BEGIN("cuCtxPushCurrent");
    if (depth == DEPTH) return fake_done(INVALID_VALUE);
    stack[depth++] = c;
    fake.depth++;
    return fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out) {
    CUresult r = fake_begin("cuCtxPopCurrent");
    *out = stack[--depth];
    fake.depth--;
    return fake_done(r);
}

/* ---- memory ------------------------------------------------------------------------------------------ */

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) {
    CURRENT("cuMemAlloc");
    region *g = calloc(1, sizeof *g);
    void *p = NULL;
    if (!g || bytes > fake.memory - fake.bytes || posix_memalign(&p, 512, bytes))
        return free(g), fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    memset(p, 0xcd, bytes < 4 << 20 ? bytes : 4 << 20);
    *g = (region){regions, p, bytes};
    regions = g;
    fake.allocations++;
    fake.bytes += bytes;
    return *out = (CUdeviceptr)(uintptr_t)p, fake_done(CUDA_SUCCESS);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
    CUresult r = fake_current("cuMemFree");
    for (region **link = &regions; *link; link = &(*link)->next) {
        region *g = *link;
        if ((CUdeviceptr)(uintptr_t)g->p != p) continue;
        *link = g->next;
        fake.bytes -= g->bytes;
        fake.allocations--;
        fake.frees++;
        free(g->p);
        free(g);
        return fake_done(r);
    }
    return fake_done(r ? r : INVALID_VALUE);
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CURRENT("cuMemGetInfo");
    *free_bytes = fake.memory - fake.bytes;
    return *total = fake.memory, fake_done(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    (void)flags;
    CURRENT("cuMemHostAlloc");
    if (!(*out = fake_make(bytes))) return fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    return fake.host_allocations++, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuMemFreeHost(void *p) {
    CUresult r = fake_current("cuMemFreeHost");
    fake_run_streams(); /* the device may be reading it */
    fake_drop(p);
    return fake.host_allocations--, fake_done(r);
}

static bool inside(const char *p, size_t bytes) {
    for (const region *g = regions; g; g = g->next)
        if (p >= g->p && bytes <= g->bytes && (size_t)(p - g->p) <= g->bytes - bytes) return true;
    return false;
}

/* ---- work ---------------------------------------------------------------------------------------------- */

static CUresult run_ops(const op *first);

static CUresult run_shim(const op *o) {
    const cuda_shim_launch l = {.kernel = o->shim->call,
                                .blocks = o->blocks,
                                .threads = o->threads,
                                .shared_bytes = o->shared,
                                .waits = o->shim->waits,
                                .params = o->arguments};
    if (cuda_shim_run(o->shim->shim, &l)) return CUDA_SUCCESS;
    fprintf(stderr, "fake CUDA: %s\n", cuda_shim_error());
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

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
        return o->shim ? run_shim(o) : CUDA_SUCCESS;
    default: return run_ops(o->graph);
    }
}

static CUresult run_ops(const op *first) {
    CUresult r = CUDA_SUCCESS;
    for (const op *o = first; o && !r; o = o->next)
        r = run_op(o);
    return r;
}

void fake_free_ops(op *first) {
    for (op *o = first, *next; o; o = next) {
        next = o->next;
        fake_drop(o->arguments);
        fake_drop(o);
    }
}

/* All that the stream was given; an error of it kills the context. */
static CUresult run_stream(CUstream s) {
    CUresult dead = stack[depth - 1]->dead; /* then nothing runs any more */
    CUresult r = !s || dead ? dead : run_ops(s->first);
    if (!s) return r;
    fake_free_ops(s->first);
    s->first = NULL;
    s->end = &s->first;
    if (r) stack[depth - 1]->dead = r;
    return r;
}

CUresult fake_give(CUstream s, const op *o) {
    if (!s) return run_op(o);
    op *copy = fake_make(sizeof *copy);
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
    return fake_done(fake_give(s, &o));
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
    return fake_done(fake_give(s, &o));
}

void fake_run_streams(void) {
    for (CUstream s = streams; s; s = s->next)
        if (!s->capturing) (void)run_stream(s);
}

/* ---- streams and events ----------------------------------------------------------------------------------- */

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
    CURRENT("cuStreamCreate");
    CUstream s = fake_make(sizeof *s);
    if (!s || flags != CU_STREAM_NON_BLOCKING) return fake_drop(s), fake_done(INVALID_VALUE);
    s->end = &s->first;
    s->next = streams;
    streams = s;
    fake.streams++;
    return *out = s, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuStreamDestroy_v2(CUstream s) {
    CUresult r = fake_current("cuStreamDestroy");
    for (CUstream *link = &streams; *link; link = &(*link)->next)
        if (*link == s) {
            *link = s->next;
            break;
        }
    if (run_stream(s) && !r) r = stack[depth - 1]->dead;
    fake_drop(s);
    return fake.streams--, fake_done(r);
}

/* Waiting for a stream that captures spoils the capture. */
static bool spoils(CUstream s) {
    if (s && s->capturing) s->invalid = true;
    return s && s->capturing;
}
EXPORT CUresult cuStreamSynchronize(CUstream s) {
    CURRENT("cuStreamSynchronize");
    fake.syncs++;
    return fake_done(spoils(s) ? CAPTURE_UNSUPPORTED : run_stream(s));
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream s, int mode) {
    CURRENT("cuStreamBeginCapture");
    if (s->capturing || mode != CU_STREAM_CAPTURE_MODE_RELAXED) return fake_done(INVALID_VALUE);
    result = run_stream(s);
    s->capturing = !result;
    s->invalid = false;
    return fake_done(result);
}
EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *out) {
    CUresult r = fake_current("cuStreamEndCapture");
    bool was = s->capturing, invalid = s->invalid || r;
    op *first = s->first;
    s->capturing = s->invalid = false;
    s->first = NULL;
    s->end = &s->first;
    *out = NULL;
    if (!was || invalid) return fake_free_ops(first), fake_done(r ? r : CAPTURE_INVALIDATED);
    if (!(*out = fake_make(sizeof **out))) return fake_done(CUDA_ERROR_OUT_OF_MEMORY);
    (*out)->first = first;
    return fake.graphs++, fake_done(CUDA_SUCCESS);
}
EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags) {
    CURRENT("cuEventCreate");
    if (flags != CU_EVENT_DISABLE_TIMING || !(*out = fake_make(sizeof **out)))
        return fake_done(INVALID_VALUE);
    return fake.events++, fake_done(CUDA_SUCCESS);
}
/* An event that is still to come stays, as the driver has it. */
EXPORT CUresult cuEventDestroy_v2(CUevent e) {
    CUresult r = fake_current("cuEventDestroy");
    for (CUstream s = streams; s && e->pending; s = s->next)
        (void)run_stream(s);
    fake_drop(e);
    return fake.events--, fake_done(r);
}
EXPORT CUresult cuEventRecord(CUevent e, CUstream s) {
    CURRENT("cuEventRecord");
    if (spoils(s)) return fake_done(CAPTURE_UNSUPPORTED);
    op o = {.kind = OP_EVENT, .event = e};
    e->pending++;
    return fake_done(fake_give(s, &o));
}
EXPORT CUresult cuEventQuery(CUevent e) {
    CURRENT("cuEventQuery");
    return fake_done(e->pending ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}
EXPORT CUresult cuEventSynchronize(CUevent e) {
    CURRENT("cuEventSynchronize");
    for (CUstream s = streams; s && e->pending && !result; s = s->next)
        if (!s->capturing) result = run_stream(s);
    return fake_done(result);
}
