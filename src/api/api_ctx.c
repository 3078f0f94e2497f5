#include "api/api.h"
#include "core/log.h"

mlsys_status mlsys_hooks_init(mlsys_hooks *h, uint64_t size) {
    API_NOT_NULL(h, "hooks_init: h");
    if (size < sizeof h->size)
        return mlsi_fail(MLSYS_E_ARG, "hooks_init: size is %llu", (unsigned long long)size);
    memset(h, 0, size);
    h->size = size;
    return MLSYS_OK;
}

static mlsys_status read_hooks(const mlsys_hooks *theirs, mlsys_hooks *ours) {
    MLSI_TRY(mlsi_api_struct_in(ours, sizeof *ours, theirs, "ctx_create: hooks"));
    ours->size = sizeof *ours;
    if (!ours->alloc != !ours->dealloc)
        return mlsi_fail(MLSYS_E_ARG, "ctx_create: hooks: alloc and dealloc come together");
    return MLSYS_OK;
}

mlsys_status mlsys_ctx_create(mlsys_config config, const mlsys_hooks *h, mlsys_ctx *out) {
    API_OUT_HANDLE(out, "ctx_create: out");
    mlsys_hooks hooks = {0};
    if (h) MLSI_TRY(read_hooks(h, &hooks));
    mlsi_config *c = NULL;
    if (config) MLSI_TRY(mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "ctx_create: config", &c));
    mlsys_status st = mlsi_ctx_create(c, h ? &hooks : NULL, out);
    mlsi_unpin_exclusive(c);
    return st;
}

mlsys_status mlsys_ctx_read_log(mlsys_ctx ctx, char *buf, uint64_t cap, uint64_t *need) {
    API_TEXT(buf, cap, "ctx_read_log");
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "ctx_read_log: ctx", &c));
    mlsys_status st = mlsi_log_read(c->log, buf, cap, need);
    mlsi_unpin(c);
    return st;
}

mlsys_status mlsys_ctx_stats(mlsys_ctx ctx, mlsys_stats *out) {
    API_NOT_NULL(out, "ctx_stats: out");
    uint64_t size = out->size;
    if (size < sizeof size)
        return mlsi_fail(MLSYS_E_ARG, "ctx_stats: out->size is %llu", (unsigned long long)size);
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "ctx_stats: ctx", &c));
    mlsys_stats now = {.size = size,
                       .live_bytes = atomic_load(&c->alloc.live_bytes),
                       .peak_bytes = atomic_load(&c->alloc.peak_bytes),
                       .allocations = atomic_load(&c->alloc.allocations),
                       .live_handles = mlsi_handle_live(c)};
    mlsi_unpin(c);
    memcpy(out, &now, size < sizeof now ? size : sizeof now);
    return MLSYS_OK;
}

/* ---- profile -------------------------------------------------------------------------------- */

static mlsys_status profile_start(mlsi_ctx *ctx, const mlsi_config *config) {
    int n;
    const mlsi_config_key *keys = mlsi_profile_config_keys(&n);
    MLSI_TRY(mlsi_config_check(config, "profile", keys, n));
    MLSI_TRY(
        mlsi_trace_reserve(ctx->trace, mlsi_config_i64(config, "capacity", ctx->trace_capacity)));
    mlsi_trace_enable(ctx->trace, true);
    return MLSYS_OK;
}

mlsys_status mlsys_profile_start(mlsys_ctx ctx, mlsys_config config) {
    mlsi_ctx *x;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "profile_start: ctx", &x));
    mlsi_config *c = NULL;
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "profile_start: config", &c);
    if (st == MLSYS_OK) st = profile_start(x, c);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(x);
    return st;
}

mlsys_status mlsys_profile_stop(mlsys_ctx ctx) {
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "profile_stop: ctx", &c));
    mlsi_trace_enable(c->trace, false);
    mlsi_unpin(c);
    return MLSYS_OK;
}

mlsys_status mlsys_profile_read(mlsys_ctx ctx, char *buf, uint64_t cap, uint64_t *need) {
    API_TEXT(buf, cap, "profile_read");
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "profile_read: ctx", &c));
    mlsi_text text;
    mlsi_text_init(&text, &c->alloc);
    mlsi_trace_json(c->trace, &text);
    mlsys_status st = mlsi_text_out(&text, buf, cap, need);
    mlsi_unpin(c);
    return st;
}
