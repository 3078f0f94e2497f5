/* One kernel on the bench: candidates are made, proved, compiled, run, compared, timed. */
#include "run/tune.h"

#include "ir/loop/schedule.h"

#include "core/faults.h"
#include "core/hash.h"
#include "core/op_attrs.h"
#include "core/rng.h"
#include "core/trace.h"

#include <stdio.h>
#include <string.h>

/* ---- candidates -------------------------------------------------------------------------------------------- */

static void refuse(mlsi_tune_candidate *c, mlsi_tune_verdict verdict) {
    c->verdict = verdict;
    snprintf(c->why, sizeof c->why, "%.199s", mlsys_last_error());
}

static mlsys_status write_candidate(mlsi_tune_bench *b, mlsi_tune_candidate *c, int number) {
    mlsi_generated *k = &c->kernel;
    char name[32];
    MLSI_TRY(mlsi_nest_copy(&b->nest, &k->nest));
    if (c->schedule) {
        MLSI_TRY(mlsi_schedule_apply(&k->nest, c->schedule));
        MLSI_TRY(mlsi_nest_move_invariants(&k->nest));
        MLSI_TRY(mlsi_tune_prove(b, &k->nest));
    } else {
        MLSI_TRY(mlsi_generate_schedule(&b->graph.funcs[b->source], &k->nest));
        MLSI_TRY(mlsi_tune_prove_default(b, &k->nest));
    }
    MLSI_TRY(mlsi_codegen_tasks(&k->nest, &k->tasks));
    snprintf(name, sizeof name, "mlsi_t%d", number);
    MLSI_TRY(mlsi_codegen_c(&k->nest, name, &k->text));
    return k->text.st;
}

mlsys_status mlsi_tune_make(mlsi_tune_bench *b, const char *schedule, int number,
                            mlsi_tune_candidate *c) {
    memset(c, 0, sizeof *c);
    c->kernel.made = true;
    mlsi_text_init(&c->kernel.text, b->alloc);
    if (schedule) MLSI_TRY(mlsi_mem_strdup(b->alloc, schedule, &c->schedule));
    mlsys_status st = write_candidate(b, c, number);
    if (st == MLSYS_E_NOMEM) return st;
    if (st != MLSYS_OK) {
        refuse(c, MLSI_TUNE_REFUSED);
        return MLSYS_OK;
    }
    const char *body = strchr(c->kernel.text.data, '{'); /* behind the name */
    c->code = mlsi_hash_mix(mlsi_hash_bytes(MLSI_HASH_SEED, body, strlen(body)));
    return MLSYS_OK;
}

void mlsi_tune_candidate_free(mlsi_tune_bench *b, mlsi_tune_candidate *c) {
    if (!c->kernel.made) return;
    mlsi_nest_free(&c->kernel.nest);
    mlsi_text_free(&c->kernel.text);
    mlsi_mem_free(b->alloc, c->schedule);
    memset(c, 0, sizeof *c);
}

/* The name in the module is in the text: "int64_t mlsi_t7(". */
static void function_name(const mlsi_tune_candidate *c, char name[32]) {
    const char *at = strstr(c->kernel.text.data, "int64_t mlsi_t") + strlen("int64_t ");
    size_t n = strcspn(at, "(");
    snprintf(name, 32, "%.*s", (int)(n < 31 ? n : 31), at);
}

static mlsys_status load_module(mlsi_tune_bench *b, int n, mlsi_tune_candidate *const *c) {
    const mlsi_backend *backend = b->program->backend;
    mlsi_text text;
    char name[32];
    mlsi_module *m = NULL;
    mlsi_text_init(&text, b->alloc);
    for (int i = 0; i < n; i++)
        mlsi_text_add(&text, "%s\n", c[i]->kernel.text.data);
    mlsys_status st = text.st;
    if (st == MLSYS_OK) st = MLSI_GROW(b->alloc, &b->modules, &b->cap_modules, b->n_modules + 1);
    if (st == MLSYS_OK) st = backend->load_once(b->alloc, text.data, b->program->isa_limit, &m);
    mlsi_text_free(&text);
    if (st != MLSYS_OK) return st;
    b->modules[b->n_modules++] = m;
    for (int i = 0; i < n; i++) {
        function_name(c[i], name);
        c[i]->kernel.fn = backend->function(m, name);
    }
    return MLSYS_OK;
}

mlsys_status mlsi_tune_load(mlsi_tune_bench *b, int n, mlsi_tune_candidate *const *c) {
    mlsi_tune_candidate *open[64];
    int n_open = 0;
    for (int i = 0; i < n && n_open < 64; i++)
        if (!c[i]->verdict && !c[i]->kernel.fn) open[n_open++] = c[i];
    if (!n_open) return MLSYS_OK;
    mlsys_status st = load_module(b, n_open, open);
    if (st == MLSYS_OK || st == MLSYS_E_NOMEM) return st;
    for (int i = 0; i < n_open; i++) { /* whose fault was it? */
        st = n_open > 1 ? load_module(b, 1, &open[i]) : st;
        if (st == MLSYS_E_NOMEM) return st;
        if (st != MLSYS_OK) refuse(open[i], MLSI_TUNE_FAILED);
    }
    return MLSYS_OK;
}

/* ---- runs --------------------------------------------------------------------------------------------------------- */

static mlsys_status reserve(mlsi_tune_bench *b, const mlsi_tune_candidate *c) {
    uint64_t bytes;
    void *work;
    MLSI_TRY(mlsi_generated_work(b->program, &c->kernel, b->binding, &bytes));
    if (b->work && bytes <= b->work_bytes) return MLSYS_OK;
    MLSI_TRY(mlsi_mem_alloc(b->alloc, bytes, &work));
    mlsi_mem_free(b->alloc, b->work);
    b->work = work;
    b->work_bytes = bytes;
    return MLSYS_OK;
}

static mlsys_status run(mlsi_tune_bench *b, const mlsi_tune_candidate *c) {
    const mlsi_kernel_args args = {.n_in = b->n_in,
                                   .n_out = b->n_out,
                                   .in = b->in,
                                   .out = b->out,
                                   .work = b->work,
                                   .work_bytes = b->work_bytes,
                                   .pool = b->program->graph.ctx->pool};
    return mlsi_generated_run(&c->kernel, b->binding, &args);
}

/* NaNs are equal to each other (docs/numerics.md). */
static bool same(const mlsi_view *got, const char *wanted) {
    mlsi_view other = *got;
    other.data = (char *)(uintptr_t)wanted;
    if (!memcmp(got->data, wanted, (size_t)mlsi_view_bytes(got))) return true;
    if (!mlsi_dtype_is_float(got->dtype)) return false;
    int64_t n = mlsi_view_count(got), size = mlsi_dtype_size(got->dtype);
    for (int64_t i = 0; i < n; i++) {
        if (!memcmp((char *)got->data + i * size, wanted + i * size, (size_t)size)) continue;
        double x = mlsi_ref_get_f(got, i), y = mlsi_ref_get_f(&other, i);
        if (x == x || y == y) return false;
    }
    return true;
}

mlsys_status mlsi_tune_compare(mlsi_tune_bench *b, mlsi_tune_candidate *c) {
    mlsys_status st = reserve(b, c);
    for (int i = 0; i < b->n_out; i++)
        memset(b->out[i].data, 0xa5, (size_t)mlsi_view_bytes(&b->out[i]));
    int64_t start = mlsi_now_ns();
    if (st == MLSYS_OK) st = run(b, c);
    c->first_ns = mlsi_now_ns() - start;
    if (st == MLSYS_E_NOMEM) return st;
    if (st != MLSYS_OK) {
        refuse(c, MLSI_TUNE_FAILED);
        return MLSYS_OK;
    }
    if (mlsi_fault(MLSI_FAULT_TUNE_COMPARE)) return MLSYS_OK;
    for (int i = 0; i < b->n_out; i++)
        if (!same(&b->out[i], b->wanted[i])) {
            c->verdict = MLSI_TUNE_DIFFERS;
            snprintf(c->why, sizeof c->why, "output %d has other bits than the default's", i);
            return MLSYS_OK;
        }
    return MLSYS_OK;
}

/* ---- time --------------------------------------------------------------------------------------------------------- */

static mlsys_status sample(mlsi_tune_bench *b, const mlsi_tune_candidate *c, int64_t runs,
                           int64_t *least) {
    int64_t start = mlsi_now_ns();
    for (int64_t i = 0; i < runs; i++)
        MLSI_TRY(run(b, c));
    int64_t ns = (mlsi_now_ns() - start) / runs;
    if (ns < 1) ns = 1;
    if (!*least || ns < *least) *least = ns;
    return MLSYS_OK;
}

/* So many runs that a sample is long against the clock and the start of threads. */
static mlsys_status runs_of(mlsi_tune_bench *b, const mlsi_tune_candidate *c, int64_t *runs) {
    int64_t ns = 0;
    MLSI_TRY(sample(b, c, 1, &ns)); /* warms caches and pages */
    if (ns < MLSI_TUNE_SAMPLE_NS) {
        ns = 0;
        MLSI_TRY(sample(b, c, 1, &ns));
    }
    *runs = ns < MLSI_TUNE_SAMPLE_NS ? MLSI_TUNE_SAMPLE_NS / ns : 1;
    return MLSYS_OK;
}

mlsys_status mlsi_tune_time(mlsi_tune_bench *bench, const mlsi_tune_candidate *a,
                            const mlsi_tune_candidate *b, int least, int most, int64_t ns[2]) {
    const mlsi_tune_candidate *both[2] = {a, b};
    int64_t runs;
    ns[0] = ns[1] = 0;
    MLSI_TRY(reserve(bench, a));
    MLSI_TRY(reserve(bench, b));
    MLSI_TRY(runs_of(bench, a, &runs));
    MLSI_TRY(run(bench, b));
    for (int i = 0; i < most; i++) {
        for (int k = 0; k < 2; k++)
            MLSI_TRY(sample(bench, both[(i + k) % 2], runs, &ns[(i + k) % 2]));
        if (i + 1 >= least && ns[1] / 3 > ns[0] / 2) break;
    }
    return MLSYS_OK;
}
