/* compile: copy the graph, run the passes, lower. */
#include "run/program.h"

#include "core/trace.h"

#include <string.h>

#if defined(MLSI_DEBUG) && MLSI_DEBUG
enum { ALWAYS_PROVE = 1 };
#else
enum { ALWAYS_PROVE = 0 };
#endif

static const mlsi_config_key keys[] = {
    {"numerics", 's', "stable", 0, 0, "exact, stable or fast (docs/numerics.md)"},
    {"plan", 'i', "1", 0, 1, "0 gives every buffer memory of its own"},
    {"passes_off", 's', "", 0, 0, "comma-separated optional passes to leave out"},
    {"verify", 'i', "0", 0, 1,
     "1 verifies the graph after every pass and has certificates, nests and plans proved"},
    {"fuse", 's', "auto", 0, 0,
     "auto, always (however little it saves) or never: neighbours become one generated kernel"},
    {"isa", 's', "auto", 0, 0, "highest instruction set: auto, portable, avx2, avx512"},
    {"tune", 's', "off", 0, 0,
     "off, or replay: schedules that mlsys_program_tune recorded for this machine (nothing is "
     "timed)"},
    {"jit", 's', "auto", 0, 0,
     "auto, always or never: a C compiler makes the kernels; those of small programs are "
     "interpreted in tiles"}};

const mlsi_config_key *mlsi_compile_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

static int index_of(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return i;
    return -1;
}

mlsys_status mlsi_compile_options_read(mlsi_ctx *ctx, const mlsi_config *c,
                                       mlsi_compile_options *o) {
    static const char *const modes[] = {"exact", "stable", "fast"};
    static const char *const isas[] = {"portable", "avx2", "avx512", "auto"};
    int n;
    const mlsi_config_key *table = mlsi_compile_config_keys(&n);
    MLSI_TRY(mlsi_config_check(c, "compile", table, n));
    const char *mode = mlsi_config_str(c, "numerics", "stable");
    const char *isa = mlsi_config_str(c, "isa", "auto");
    int m = index_of(modes, 3, mode), i = index_of(isas, 4, isa);
    if (m < 0)
        return mlsi_fail(MLSYS_E_ARG, "compile: numerics \"%s\" is not exact, stable or fast",
                         mode);
    if (i < 0)
        return mlsi_fail(MLSYS_E_ARG, "compile: isa \"%s\" is not auto, portable, avx2 or avx512",
                         isa);
    static const char *const fuses[] = {"never", "auto", "always"};
    const char *fuse = mlsi_config_str(c, "fuse", "auto");
    int f = index_of(fuses, 3, fuse);
    if (f < 0)
        return mlsi_fail(MLSYS_E_ARG, "compile: fuse \"%s\" is not auto, always or never", fuse);
    static const char *const tunes[] = {"off", "replay"};
    const char *tune = mlsi_config_str(c, "tune", "off");
    int t = index_of(tunes, 2, tune);
    if (t < 0) return mlsi_fail(MLSYS_E_ARG, "compile: tune \"%s\" is not off or replay", tune);
    o->replay = t == 1;
    o->fuse_least = f - 1; /* -1, 0 or 1 */
    static const char *const jits[] = {"auto", "always", "never"};
    const char *jit = mlsi_config_str(c, "jit", "auto");
    int j = index_of(jits, 3, jit);
    if (j < 0)
        return mlsi_fail(MLSYS_E_ARG, "compile: jit \"%s\" is not auto, always or never", jit);
    o->jit = (mlsi_jit)j;
    o->numerics = (mlsi_numerics)(m + MLSI_EXACT);
    o->isa_limit = i < ctx->isa_limit ? (mlsi_isa)i : (mlsi_isa)ctx->isa_limit;
    o->plan_reuse = mlsi_config_i64(c, "plan", 1) != 0;
    o->verify = mlsi_config_i64(c, "verify", 0) != 0;
    o->passes_off = mlsi_config_str(c, "passes_off", "");
    return MLSYS_OK;
}

void mlsi_program_free(mlsi_program *p) {
    mlsi_alloc *a = p->graph.alloc;
    mlsi_routines_free(p);
    mlsi_generated_free(p);
    mlsi_compile_report_free(&p->report, a);
    mlsi_mem_free(a, p->packed);
    mlsi_mem_free(a, p->const_ranges);
    mlsi_graph_free(&p->graph);
    mlsi_unpin(p->host);
    mlsi_unpin(p->device);
}

static mlsys_status build(mlsi_program *p, const mlsi_graph *g, const mlsi_compile_options *o) {
    int32_t func;
    mlsi_pass_ctx pass = {&p->graph, p->host, p->backend, p->isa_limit, p->numerics, o->fuse_least};
    if (p->backend->accel && !pass.fuse_least)
        pass.fuse_least = 1; /* a launch costs more than that */
    pass.prove = p->prove;
    pass.report = &p->report;
    MLSI_TRY(mlsi_compile_report_init(&p->report, p->graph.alloc));
    MLSI_TRY(mlsi_graph_verify(g));
    /* All symbols, in their order, so that one that nothing uses can still be named. */
    for (int64_t i = 0; i < g->symbols.n_symbols; i++) {
        const mlsi_symbol *s = &g->symbols.symbols[i];
        int64_t d;
        MLSI_TRY(mlsi_dim_symbol(&p->graph.symbols, s->name, s->min, s->max, s->divisor, &d));
    }
    /* The copy's main is the imported function, so that it is function 0 of its own graph. */
    mlsi_graph_truncate(&p->graph, 0);
    MLSI_TRY(mlsi_graph_import(&p->graph, g, 0, &func));
    if (p->graph.funcs[func].n_inputs > MLSI_MAX_ARGS ||
        p->graph.funcs[func].n_outputs > MLSI_MAX_ARGS)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "compile: more than %d inputs or outputs",
                         MLSI_MAX_ARGS);
    MLSI_TRY(mlsi_passes_run(&pass, o->passes_off, o->verify));
    MLSI_TRY(mlsi_generate(p));
    if (p->plan_reuse) pass.peak = mlsi_routine_peak, pass.planner = p;
    MLSI_TRY(mlsi_passes_run_late(&pass, o->passes_off, o->verify));
    int64_t start = mlsi_now_ns();
    mlsys_status st = mlsi_lower_program(p);
    if (st == MLSYS_OK && p->backend->accel) st = mlsi_accel_constants(p);
    if (st == MLSYS_OK) mlsi_accel_number_errors(p);
    p->replays = st == MLSYS_OK && mlsi_can_replay(p);
    p->report.lower_ns = mlsi_now_ns() - start;
    return st;
}

/* The device of constants and of steps that run on the host. */
static mlsys_status pin_host(mlsi_device *device, mlsi_device **out) {
    mlsys_device handle;
    if (mlsi_is_host(device)) {
        mlsi_repin(device);
        return *out = device, MLSYS_OK;
    }
    MLSI_TRY(mlsi_device_get(device->object.ctx, MLSYS_CPU, 0, &handle));
    mlsys_status st = mlsi_pin(handle, MLSYS_KIND_DEVICE, "compile: host", out);
    mlsys_release(handle);
    return st;
}

mlsys_status mlsi_program_init(mlsi_program *p, const mlsi_graph *g, mlsi_device *device,
                               const mlsi_compile_options *o) {
    memset(p, 0, sizeof *p);
    MLSI_TRY(mlsi_graph_init(&p->graph, g->ctx));
    mlsys_status st = pin_host(device, &p->host);
    if (st != MLSYS_OK) return mlsi_graph_free(&p->graph), st;
    p->device = device;
    mlsi_repin(device);
    p->serial = atomic_fetch_add(&g->ctx->next_serial, 1) + 1;
    p->numerics = o->numerics;
    p->plan_reuse = o->plan_reuse;
    p->prove = o->verify || ALWAYS_PROVE;
    p->replay = o->replay;
    p->jit = o->jit;
    p->backend = mlsi_is_host(device) ? &mlsi_cpu_backend : &mlsi_cuda_backend;
    p->isa_limit = o->isa_limit;
    st = build(p, g, o);
    if (st != MLSYS_OK) mlsi_program_free(p);
    return st;
}

static void destroy(mlsi_object *self) {
    mlsi_program *p = (mlsi_program *)self;
    mlsi_alloc *a = p->graph.alloc;
    mlsi_program_free(p);
    mlsi_mem_free(a, p);
}

mlsys_status mlsi_program_create(const mlsi_graph *g, mlsi_device *device,
                                 const mlsi_compile_options *o, mlsys_program *out) {
    mlsi_program *p;
    *out = NULL;
    MLSI_TRY(MLSI_NEW(g->alloc, &p));
    mlsys_status st = mlsi_program_init(p, g, device, o);
    if (st == MLSYS_OK) {
        st = mlsi_handle_create(&p->object, MLSYS_KIND_PROGRAM, g->ctx, destroy, out);
        if (st != MLSYS_OK) mlsi_program_free(p);
    }
    if (st != MLSYS_OK) mlsi_mem_free(g->alloc, p);
    return st;
}
