#include "core/ctx.h"

#include "core/backend.h"
#include "core/fork.h"
#include "core/log.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS_MAX = 1024, TRACE_EVENTS_DEFAULT = 65536, TRACE_EVENTS_MAX = 1 << 24 };

static const mlsi_config_key ctx_keys[] = {
    {"threads", 'i', "all processors", 1, THREADS_MAX,
     "threads that compute, the caller included; default: processors this process may use"},
    {"isa", 's', "auto", 0, 0,
     "highest instruction set to use: auto, portable, avx2, avx512; never changes exact results"},
    {"log_level", 'i', "2", 0, MLSYS_LOG_DEBUG,
     "0 nothing, 1 errors, 2 warnings, 3 information, 4 debugging"},
    {"trace_capacity", 'i', "65536", 1, TRACE_EVENTS_MAX,
     "events kept by profile_start when its config does not say"},
};

const mlsi_config_key *mlsi_ctx_config_keys(int *n) {
    *n = (int)(sizeof ctx_keys / sizeof ctx_keys[0]);
    return ctx_keys;
}

const mlsi_config_key *mlsi_profile_config_keys(int *n) {
    static const mlsi_config_key keys[] = {
        {"capacity", 'i', "trace_capacity of the ctx", 1, TRACE_EVENTS_MAX,
         "events kept; older ones are dropped"},
    };
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

static int usable_processors(void) {
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? (int)sysconf(_SC_NPROCESSORS_ONLN)
                                                   : CPU_COUNT(&set);
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : n;
}

static mlsys_status isa_limit_of(const char *name, int32_t *out) {
    static const struct {
        const char *name;
        mlsi_isa isa;
    } names[] = {{"auto", MLSI_ISA_AVX512},
                 {"portable", MLSI_ISA_PORTABLE},
                 {"avx2", MLSI_ISA_AVX2},
                 {"avx512", MLSI_ISA_AVX512}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(names[i].name, name)) {
            /* Asked once: cpuid traps in a virtual machine, and takes 20 us or more there. */
            mlsi_isa best = mlsi_cpu_backend.isa();
            *out = names[i].isa < best ? names[i].isa : best;
            return MLSYS_OK;
        }
    return mlsi_fail(MLSYS_E_ARG,
                     "ctx: key \"isa\" is none of auto, portable, avx2, avx512: \"%s\"", name);
}

static void free_custom_ops(mlsi_ctx *ctx) {
    mlsi_custom_op *op = atomic_load(&ctx->custom_ops);
    while (op) {
        mlsi_custom_op *next = op->next;
        if (op->def.destroy) op->def.destroy(op->def.user);
        mlsi_mem_free(&ctx->alloc, op->name);
        mlsi_mem_free(&ctx->alloc, op);
        op = next;
    }
}

/* Everything but the hooks' user, which outlives the last dealloc. */
static void ctx_free(mlsi_ctx *ctx) {
    mlsi_pool_destroy(ctx->pool);
    free_custom_ops(ctx);
    mlsi_trace_destroy(ctx->trace);
    mlsi_log_destroy(ctx->log);
    mlsi_alloc last; /* the context's own memory is freed through a copy of its allocator */
    mlsi_alloc_init(&last, &ctx->alloc.hooks);
    atomic_store(&last.live_bytes, atomic_load(&ctx->alloc.live_bytes));
    mlsi_mem_free(&last, ctx);
}

static void ctx_destroy(mlsi_object *object) {
    mlsys_hooks hooks = ((mlsi_ctx *)object)->alloc.hooks;
    ctx_free((mlsi_ctx *)object);
    if (hooks.destroy) hooks.destroy(hooks.user);
}

static mlsys_status ctx_alloc(const mlsys_hooks *hooks, mlsi_ctx **out) {
    mlsi_alloc first;
    mlsi_alloc_init(&first, hooks);
    MLSI_TRY(MLSI_NEW(&first, out));
    mlsi_alloc *a = &(*out)->alloc;
    mlsi_alloc_init(a, hooks);
    atomic_store(&a->live_bytes, atomic_load(&first.live_bytes));
    atomic_store(&a->peak_bytes, atomic_load(&first.peak_bytes));
    atomic_store(&a->allocations, atomic_load(&first.allocations));
    return MLSYS_OK;
}

mlsys_status mlsi_ctx_create(const mlsi_config *config, const mlsys_hooks *hooks, mlsys_ctx *out) {
    int32_t isa_limit = MLSI_ISA_PORTABLE;
    MLSI_TRY(mlsi_config_check(config, "ctx", ctx_keys, sizeof ctx_keys / sizeof ctx_keys[0]));
    MLSI_TRY(isa_limit_of(mlsi_config_str(config, "isa", "auto"), &isa_limit));
    int threads = (int)mlsi_config_i64(config, "threads", usable_processors());
    int level = (int)mlsi_config_i64(config, "log_level", MLSYS_LOG_WARN);
    mlsi_ctx *ctx;
    MLSI_TRY(ctx_alloc(hooks, &ctx));
    ctx->pid = mlsi_fork_pid();
    ctx->isa_limit = isa_limit;
    ctx->trace_capacity = mlsi_config_i64(config, "trace_capacity", TRACE_EVENTS_DEFAULT);
    pthread_mutex_init(&ctx->lock, NULL);
    mlsys_status st;
    MLSI_TRY_GOTO(fail, st, mlsi_log_create(&ctx->alloc, level, &ctx->log));
    MLSI_TRY_GOTO(fail, st, mlsi_trace_create(&ctx->alloc, 0, &ctx->trace));
    MLSI_TRY_GOTO(fail, st, mlsi_pool_create(&ctx->alloc, threads, &ctx->pool));
    MLSI_TRY_GOTO(fail, st,
                  mlsi_handle_create(&ctx->object, MLSYS_KIND_CTX, NULL, ctx_destroy, out));
    if (mlsi_pool_threads(ctx->pool) < threads)
        mlsi_log(ctx, MLSYS_LOG_WARN, "ctx", "only %d of %d threads could be started",
                 mlsi_pool_threads(ctx->pool), threads);
    return MLSYS_OK;
fail:
    ctx_free(ctx); /* hooks.destroy is not called: the caller keeps user */
    return st;
}

const mlsi_custom_op *mlsi_custom_op_find(const mlsi_ctx *ctx, const char *name) {
    for (mlsi_custom_op *op = atomic_load(&ctx->custom_ops); op; op = op->next)
        if (!strcmp(op->name, name)) return op;
    return NULL;
}
