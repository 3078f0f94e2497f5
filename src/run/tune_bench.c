/* Setting one kernel up for trials: its function lowered once more, inputs, the default's outputs. */
#include "run/tune.h"

#include "core/op_attrs.h"
#include "core/rng.h"

#include <string.h>

/* ---- inputs ---------------------------------------------------------------------------------------------------- */

/* Small integers, so that they can be indices; floats of both signs. The random part repeats after a prime number of
 * elements: positions that are mistaken for each other are seen. */
static mlsys_status fill(const mlsi_view *v, uint64_t seed, int input, bool zero) {
    enum { PERIOD = 1000003, INDICES = 16 };
    uint64_t bytes = mlsi_view_bytes(v), done;
    int64_t n = mlsi_view_count(v) < PERIOD ? mlsi_view_count(v) : PERIOD;
    char *data = v->data;
    if (mlsi_dtype_is_block(v->dtype)) {
        done = bytes < PERIOD ? bytes : PERIOD;
        MLSI_TRY(mlsi_rng_fill(data, MLSYS_U8, MLSI_RANDOM_BITS, seed, (uint64_t)input, 0,
                               (int64_t)done));
    } else {
        done = (uint64_t)n * (uint64_t)mlsi_dtype_size(v->dtype);
        if (mlsi_dtype_is_float(v->dtype))
            MLSI_TRY(
                mlsi_rng_fill(data, v->dtype, MLSI_RANDOM_NORMAL, seed, (uint64_t)input, 0, n));
        for (int64_t i = 0; !mlsi_dtype_is_float(v->dtype) && i < n; i++) {
            int64_t x = mlsi_rng_bits32(seed, (uint64_t)input, (uint64_t)i) %
                        (v->dtype == MLSYS_BOOL ? 2 : INDICES);
            mlsi_ref_set_i(v, i, zero ? 0 : x);
        }
    }
    for (uint64_t at = done; at < bytes; at += done)
        memcpy(data + at, data, (size_t)(bytes - at < done ? bytes - at : done));
    return MLSYS_OK;
}

static mlsys_status fill_all(mlsi_tune_bench *b, uint64_t seed, bool zero) {
    for (int i = 0; i < b->n_in; i++)
        MLSI_TRY(fill(&b->in[i], seed, i, zero));
    return MLSYS_OK;
}

static mlsys_status make_view(mlsi_tune_bench *b, const mlsi_type *type, mlsi_view *out) {
    mlsi_layout l;
    void *data;
    MLSI_TRY(mlsi_type_layout(&b->graph.symbols, type, b->binding, &l));
    MLSI_TRY(mlsi_mem_alloc(b->alloc, mlsi_layout_bytes(&l), &data));
    *out = mlsi_view_of(data, &l);
    out->data = data;
    return MLSYS_OK;
}

static mlsys_status make_memory(mlsi_tune_bench *b) {
    const mlsi_func *f = &b->graph.funcs[b->func];
    for (int64_t i = 0; i < f->n_inputs; i++, b->n_in++)
        MLSI_TRY(make_view(b, &f->values[f->inputs[i]].type, &b->in[i]));
    for (int64_t i = 0; i < f->n_outputs; i++) {
        MLSI_TRY(make_view(b, &f->values[f->outputs[i].value].type, &b->out[i]));
        b->n_out++;
        MLSI_TRY(mlsi_mem_zalloc(b->alloc, mlsi_view_bytes(&b->out[i]), 1, (void **)&b->wanted[i]));
    }
    return MLSYS_OK;
}

/* ---- the default ------------------------------------------------------------------------------------------------- */

/* The program's graph may not change: other threads run it. */
static mlsys_status lower(mlsi_tune_bench *b, int32_t func) {
    const mlsi_graph *from = &b->program->graph;
    int32_t flat;
    for (int64_t i = 0; i < from->symbols.n_symbols; i++) {
        const mlsi_symbol *s = &from->symbols.symbols[i];
        int64_t d;
        MLSI_TRY(mlsi_dim_symbol(&b->graph.symbols, s->name, s->min, s->max, s->divisor, &d));
    }
    mlsi_graph_truncate(&b->graph, 0);
    MLSI_TRY(mlsi_graph_import(&b->graph, from, func, &b->source));
    MLSI_TRY(mlsi_flatten_func(&b->graph, b->source, &flat));
    b->func = flat;
    return mlsi_lower_func(&b->graph, flat, b->name, &b->nest);
}

static mlsys_status run_default(mlsi_tune_bench *b, uint64_t seed) {
    mlsi_tune_candidate *d = &b->default_, *list[] = {d};
    MLSI_TRY(mlsi_tune_make(b, NULL, 0, d));
    if (!d->verdict) MLSI_TRY(mlsi_tune_load(b, 1, list));
    if (d->verdict)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "tune: %s has no default: %s", b->name, d->why);
    for (int zero = 0; zero < 2; zero++) { /* not every index may be in range */
        MLSI_TRY(fill_all(b, seed, zero));
        MLSI_TRY(mlsi_tune_compare(b, d));
        if (d->verdict != MLSI_TUNE_FAILED) break;
        if (!zero) d->verdict = 0;
    }
    if (d->verdict == MLSI_TUNE_FAILED)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "tune: %s does not run: %s", b->name, d->why);
    d->verdict = 0; /* there was nothing to compare with */
    for (int i = 0; i < b->n_out; i++)
        memcpy(b->wanted[i], b->out[i].data, (size_t)mlsi_view_bytes(&b->out[i]));
    return MLSYS_OK;
}

mlsys_status mlsi_tune_bench_open(const mlsi_program *p, int32_t func, const int64_t *binding,
                                  uint64_t seed, mlsi_tune_bench *out) {
    mlsi_tune_bench *b = out;
    int64_t n = p->graph.symbols.n_symbols;
    memset(b, 0, sizeof *b);
    b->program = p;
    b->alloc = p->graph.alloc;
    b->name = p->graph.funcs[func].name;
    MLSI_TRY(mlsi_graph_init(&b->graph, p->graph.ctx));
    MLSI_TRY(MLSI_NEW_N(b->alloc, n + 1, &b->binding));
    memcpy(b->binding, binding, sizeof *binding * (size_t)n);
    MLSI_TRY(lower(b, func));
    MLSI_TRY(make_memory(b));
    return run_default(b, seed);
}

void mlsi_tune_bench_close(mlsi_tune_bench *b) {
    mlsi_alloc *a = b->alloc;
    mlsi_tune_candidate_free(b, &b->default_);
    for (int64_t i = 0; i < b->n_modules; i++)
        b->program->backend->unload(a, b->modules[i]);
    mlsi_mem_free(a, b->modules);
    for (int i = 0; i < b->n_in; i++)
        mlsi_mem_free(a, b->in[i].data);
    for (int i = 0; i < b->n_out; i++) {
        mlsi_mem_free(a, b->out[i].data);
        mlsi_mem_free(a, b->wanted[i]);
    }
    mlsi_mem_free(a, b->work);
    mlsi_mem_free(a, b->binding);
    mlsi_nest_free(&b->nest);
    mlsi_graph_free(&b->graph);
}
