#include "cuda_shim/cuda_shim.h"

#include "cuda_shim/machine.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

struct cuda_shim_module {
    void *lib;
    unsigned char *shared;
};

static char error[4096];
static cuda_shim_machine machine;

const char *cuda_shim_error(void) { return error; }

/* ---- fibers -------------------------------------------------------------------------------------------------- */

/* A context is entered once with ucontext, and then changed to by _longjmp, which makes no system call. Sanitizers know the
 * former only. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SWITCH_BY_CONTEXT 1
#else
#define SWITCH_BY_CONTEXT 0
#endif

enum { STACK = 256 * 1024 };
typedef enum fiber_state { FIBER_IDLE, FIBER_READY, FIBER_AT_BARRIER, FIBER_AT_WARP } fiber_state;

typedef struct fiber {
    ucontext_t context;
    jmp_buf at;
    bool entered;
    fiber_state state;
} fiber;

static fiber fibers[CUDA_SHIM_THREADS];
static fiber scheduler;
static unsigned current;
static char *stacks;
static void (*run_kernel)(void **params);
static void **run_params;

static void change(fiber *from, fiber *to) {
    if (SWITCH_BY_CONTEXT) {
        swapcontext(&from->context, &to->context);
        return;
    }
    if (_setjmp(from->at)) return;
    if (to->entered) _longjmp(to->at, 1);
    to->entered = true;
    setcontext(&to->context);
}

static void fiber_main(void) {
    for (;;) {
        fiber *self = &fibers[current];
        run_kernel(run_params);
        self->state = FIBER_IDLE;
        change(self, &scheduler);
    }
}

static void wait_in(fiber_state state) {
    fiber *self = &fibers[current];
    self->state = state;
    change(self, &scheduler);
}
static void barrier(void) { wait_in(FIBER_AT_BARRIER); }
static void warp_barrier(void) { wait_in(FIBER_AT_WARP); }
static void no_barrier(void) { abort(); } /* the launch asked for no shared memory */

/* Abandoned fibers begin anew. */
static void prepare(unsigned threads, bool fresh) {
    if (!stacks)
        stacks = mmap(NULL, (size_t)CUDA_SHIM_THREADS * STACK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    scheduler.entered = true;
    for (unsigned t = 0; t < threads; t++) {
        fiber *f = &fibers[t];
        if (fresh || !f->context.uc_stack.ss_sp) {
            getcontext(&f->context);
            f->context.uc_stack.ss_sp = stacks + (size_t)t * STACK;
            f->context.uc_stack.ss_size = STACK;
            f->entered = false;
            makecontext(&f->context, fiber_main, 0);
        }
        f->state = FIBER_READY;
    }
}

/* ---- a block --------------------------------------------------------------------------------------------------- */

static unsigned count(unsigned first, unsigned end, fiber_state state) {
    unsigned n = 0;
    for (unsigned t = first; t < end; t++)
        n += fibers[t].state == state;
    return n;
}

static void release(unsigned first, unsigned end) {
    for (unsigned t = first; t < end; t++)
        fibers[t].state = FIBER_READY;
}

/* False where nobody can go on. */
static bool release_waiting(unsigned threads) {
    bool any = false;
    if (count(0, threads, FIBER_AT_BARRIER) == threads) {
        release(0, threads);
        return true;
    }
    for (unsigned w = 0; w < threads; w += 32) {
        const unsigned end = w + 32 < threads ? w + 32 : threads;
        if (count(w, end, FIBER_AT_WARP) != end - w) continue;
        release(w, end);
        any = true;
    }
    return any;
}

static bool run_block(const cuda_shim_launch *l) {
    prepare(l->threads, false);
    for (;;) {
        for (unsigned i = 0; i < l->threads; i++) {
            const unsigned t = l->order == CUDA_SHIM_DESCENDING ? l->threads - 1 - i : i;
            if (fibers[t].state != FIBER_READY) continue;
            machine.thread.x = current = t;
            change(&scheduler, &fibers[t]);
        }
        if (count(0, l->threads, FIBER_IDLE) == l->threads) return true;
        if (release_waiting(l->threads)) continue;
        snprintf(error, sizeof error,
                 "block %u: %u threads ended, %u wait at a barrier, %u in a warp", machine.block.x,
                 count(0, l->threads, FIBER_IDLE), count(0, l->threads, FIBER_AT_BARRIER),
                 count(0, l->threads, FIBER_AT_WARP));
        prepare(l->threads, true);
        return false;
    }
}

bool cuda_shim_run(cuda_shim_module *m, const cuda_shim_launch *l) {
    if (!l->threads || l->threads > CUDA_SHIM_THREADS || l->shared_bytes > CUDA_SHIM_SHARED) {
        snprintf(error, sizeof error, "launch: %u threads, %u bytes of shared memory", l->threads,
                 l->shared_bytes);
        return false;
    }
    run_kernel = (void (*)(void **))(uintptr_t)l->kernel;
    run_params = l->params;
    machine.block_dim.x = l->threads;
    machine.grid_dim.x = l->blocks;
    const bool waits = l->waits || l->shared_bytes;
    machine.barrier = waits ? barrier : no_barrier;
    machine.warp_barrier = waits ? warp_barrier : no_barrier;
    for (unsigned b = 0; b < l->blocks; b++) {
        machine.block.x = b;
        memset(m->shared, 0xa5, l->shared_bytes);
        if (waits && !run_block(l)) return false;
        for (unsigned t = 0; !waits && t < l->threads; t++) {
            machine.thread.x = t;
            run_kernel(run_params);
        }
    }
    return true;
}

/* ---- modules ---------------------------------------------------------------------------------------------------- */

/* A function for each kernel that unpacks a launch's parameters. */
static void write_calls(FILE *f, const char *text) {
    static const char mark[] = "__global__ void ";
    for (const char *p = strstr(text, mark); p; p = strstr(p, mark)) {
        static const char bounds[] = "__launch_bounds__(";
        p += sizeof mark - 1;
        if (!strncmp(p, bounds, sizeof bounds - 1)) p = strchr(p, ')') + 1;
        p += strspn(p, " \n");
        const int n = (int)strcspn(p, "( ");
        fprintf(f,
                "extern \"C\" void cuda_shim_call_%.*s(void **params) { cuda_shim_call(%.*s, "
                "params); }\n"
                "extern \"C\" int cuda_shim_sizes_%.*s(size_t *out) { return cuda_shim_sizes(%.*s, "
                "out); }\n",
                n, p, n, p, n, p, n, p);
    }
}

static bool compile(const char *source, const char *library, const char *log) {
    char folder[] = __FILE__, command[2048];
    const char *cxx = getenv("CXX");
    *strrchr(folder, '/') = '\0';
    snprintf(command, sizeof command,
             "%s -std=c++17 -O1 -fPIC -shared -ffp-contract=off -fno-strict-aliasing -fwrapv "
             "-fno-math-errno -w '-D__launch_bounds__(n)=' -I%s -include %s/device.h -x c++ %s -o "
             "%s >%s 2>&1",
             cxx && *cxx ? cxx : "c++", folder, folder, source, library, log);
    const int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    FILE *f = fopen(log, "r");
    size_t n = f ? fread(error, 1, sizeof error - 1, f) : 0;
    error[n] = '\0';
    if (f) fclose(f);
    return false;
}

static cuda_shim_module *open_library(const char *library) {
    cuda_shim_module *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    cuda_shim_machine **p = m->lib ? dlsym(m->lib, "cuda_shim") : NULL;
    if (!p) {
        snprintf(error, sizeof error, "%s", dlerror());
        free(m);
        return NULL;
    }
    *p = &machine;
    m->shared = dlsym(m->lib, "ml_shared");
    return m;
}

cuda_shim_module *cuda_shim_load(const char *text) {
    char folder[] = "/tmp/cuda_shim_XXXXXX", source[64], library[64], log[64];
    cuda_shim_module *m = NULL;
    if (!mkdtemp(folder)) return NULL;
    snprintf(source, sizeof source, "%s/kernels.cu", folder);
    snprintf(library, sizeof library, "%s/kernels.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    FILE *f = fopen(source, "w");
    if (f) {
        fputs(text, f);
        fputs("\n", f);
        write_calls(f, text);
        fclose(f);
        if (compile(source, library, log)) m = open_library(library);
    }
    if (getenv("CUDA_SHIM_KEEP")) return m;
    unlink(source);
    unlink(library);
    unlink(log);
    rmdir(folder);
    return m;
}

void cuda_shim_unload(cuda_shim_module *m) {
    if (!m) return;
    dlclose(m->lib);
    free(m);
}

int cuda_shim_parameters(const cuda_shim_module *m, const char *name, size_t *bytes) {
    char call[256];
    snprintf(call, sizeof call, "cuda_shim_sizes_%s", name);
    int (*sizes)(size_t * out) = (int (*)(size_t *))(uintptr_t)dlsym(m->lib, call);
    return sizes ? sizes(bytes) : -1;
}

void *cuda_shim_kernel(const cuda_shim_module *m, const char *name) {
    char call[256];
    snprintf(call, sizeof call, "cuda_shim_call_%s", name);
    return dlsym(m->lib, call);
}
