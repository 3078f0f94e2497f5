/* The context: allocator, hooks, thread pool, devices, trace, custom ops. */
#ifndef MLSI_CTX_H
#define MLSI_CTX_H

#include "core/handle.h"
#include "core/pool.h"
#include "core/trace.h"

#include <pthread.h>

struct mlsi_config;
struct mlsi_vjp; /* ir/ops/op_def.h */

/* A custom op as registered; the list only grows, and dies with the context. */
typedef struct mlsi_custom_op {
    struct mlsi_custom_op *next;
    char *name;
    mlsys_opdef def;
    /* def.gradient with the graph and the values that it is to see, made by the api. NULL: it has none. */
    mlsys_status (*vjp)(const struct mlsi_custom_op *op, const struct mlsi_config *attrs,
                        struct mlsi_vjp *v);
} mlsi_custom_op;

typedef struct mlsi_ctx {
    mlsi_object object;
    mlsi_alloc alloc;
    mlsi_pool *pool;
    mlsi_trace *trace;
    struct mlsi_log *log;
    _Atomic(mlsi_custom_op *) custom_ops;
    pthread_mutex_t lock; /* registration and devices; never held over a hook */
    int32_t pid;          /* of the creator; a forked child is refused */
    int32_t isa_limit;    /* instruction set to use: the machine's best, at most config "isa" */
    _Atomic uint64_t live_handles;
    _Atomic uint64_t next_serial; /* graphs, storages, programs */
    struct mlsi_device *devices;  /* those in use; not pinned: destroy takes one out */
    int64_t trace_capacity;       /* config "trace_capacity" */
} mlsi_ctx;

/* hooks may be NULL, else complete (see api). hooks->destroy is not called when this fails. */
mlsys_status mlsi_ctx_create(const struct mlsi_config *config, const mlsys_hooks *hooks,
                             mlsys_ctx *out);

/* Line of the context's log; formatted only if somebody listens. area e.g. "model". */
void mlsi_log(mlsi_ctx *ctx, int32_t level, const char *area, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
const mlsi_custom_op *mlsi_custom_op_find(const mlsi_ctx *ctx, const char *name);

/* Settings. Every scope is one table, which mlsys_config_keys prints and mlsi_config_check applies.
 */
typedef struct mlsi_config_key {
    const char *name;
    char type;                /* 'i', 'f', 's' */
    const char *default_text; /* as printed */
    double min, max;          /* bounds of 'i' and 'f' */
    const char *help;
} mlsi_config_key;

typedef struct mlsi_config_entry {
    char *key;
    char type; /* 'i', 'f', 's', 'v' (integer list) */
    int32_t n;
    int64_t i;
    double f;
    char *s;
    int64_t v[16];
} mlsi_config_entry;

typedef struct mlsi_config {
    mlsi_object object;
    mlsi_config_entry *entries;
    int64_t count, cap;
} mlsi_config;

mlsys_status mlsi_config_create(mlsys_config *out);
/* Set or replace key; value gives type and content, its key is not looked at. Texts are copied. */
mlsys_status mlsi_config_set(mlsi_config *c, const char *key, const mlsi_config_entry *value);
/* A new config with the same entries; from may be NULL. */
mlsys_status mlsi_config_copy(const mlsi_config *from, mlsys_config *out);
/* A scope's table as mlsys_config_keys shows it, one line a key. */
void mlsi_config_keys_text(const mlsi_config_key *keys, int n_keys, mlsi_text *out);
const mlsi_config_key *mlsi_ctx_config_keys(int *n);
const mlsi_config_key *mlsi_profile_config_keys(int *n);

/* NULL config = empty. Keys outside the table, wrong types and values out of bounds are errors that
 * name scope, key and value. */
mlsys_status mlsi_config_check(const mlsi_config *c, const char *scope, const mlsi_config_key *keys,
                               int n_keys);
const mlsi_config_entry *mlsi_config_find(const mlsi_config *c, const char *key);
int64_t mlsi_config_i64(const mlsi_config *c, const char *key, int64_t default_);
double mlsi_config_f64(const mlsi_config *c, const char *key, double default_);
const char *mlsi_config_str(const mlsi_config *c, const char *key, const char *default_);

#endif
