#include "support/nest_case.h"

#include "core/dtype.h"
#include "ir/loop/schedule_edit.h"
#include "support/kernel_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Extents of 0 and 1, below, at and beyond usual factors. */
const int64_t nc_bindings[NC_BINDINGS][NC_SYMBOLS] = {{0, 1, 1}, {1, 3, 2},  {3, 5, 7},
                                                      {4, 8, 4}, {5, 13, 9}, {2, 3, 300}};

void nc_build(mlsi_nest *n, mlsi_alloc *a, const char *sample) {
    mlsi_symtab symbols;
    int64_t m, columns, k;
    mlsi_symtab_init(&symbols, a);
    if (mlsi_dim_symbol(&symbols, "M", 0, 40, 1, &m) ||
        mlsi_dim_symbol(&symbols, "N", 1, 40, 1, &columns) ||
        mlsi_dim_symbol(&symbols, "K", 1, 600, 1, &k))
        ck_abort_msg("%s", mlsys_last_error());
    mlsi_nest_init(n, a, &symbols, sample);
    mlsi_symtab_free(&symbols);
    for (int i = 0; i < nest_sample_count; i++) {
        if (strcmp(nest_samples[i].name, sample)) continue;
        nest_samples[i].build(n, m, columns, k);
        if (mlsi_nest_finish(n)) ck_abort_msg("%s: %s", sample, mlsys_last_error());
        return;
    }
    ck_abort_msg("no sample %s", sample);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* scale: products of tiny numbers underflow, and zeros have signs. */
static void fill(const mlsi_view *v, int64_t count, kc_rng *r, double scale) {
    for (int64_t i = 0; i < count; i++) {
        char *at = (char *)v->data + i * mlsi_dtype_size(v->dtype);
        float f = (float)(kc_uniform(r, -2, 2) * scale);
        int32_t i32 = (int32_t)kc_bits(r);
        int64_t i64 = kc_int(r, 0, 2); /* an index of anything with three rows */
        switch (v->dtype) {
        case MLSYS_F32: memcpy(at, &f, sizeof f); break;
        case MLSYS_I32: memcpy(at, &i32, sizeof i32); break;
        case MLSYS_I64: memcpy(at, &i64, sizeof i64); break;
        default: ck_abort_msg("no values of dtype %d", (int)v->dtype);
        }
    }
}

static int64_t count_of(const mlsi_nest *n, const mlsi_loop_buffer *b, const int64_t *binding) {
    int64_t count = 1, extent;
    for (int d = 0; d < b->rank; d++) {
        if (mlsi_dim_eval(&n->tab, b->dims[d], binding, &extent))
            ck_abort_msg("%s", mlsys_last_error());
        count *= extent;
    }
    return count;
}

nest_run nc_run(const mlsi_nest *n, const int64_t *dims, uint64_t seed) {
    nest_run out = {.status = MLSYS_OK};
    mlsi_view *params = calloc((size_t)(n->n_inputs + n->n_outputs) + 1, sizeof *params);
    int64_t *binding = calloc((size_t)n->tab.n_symbols + 1, sizeof *binding);
    memcpy(binding, dims, sizeof *dims * (size_t)n->n_shape_symbols);
    for (int64_t i = 0; i < n->n_buffers; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        if (b->param < 0) continue;
        bool output = b->scope == MLSI_SCOPE_OUTPUT;
        mlsi_view *v = &params[b->param + (output ? n->n_inputs : 0)];
        kc_rng r = kc_seed(seed * 31 + (uint64_t)b->param);
        int64_t count = count_of(n, b, binding);
        v->dtype = b->dtype;
        v->data = malloc((size_t)(count + 1) * (size_t)mlsi_dtype_size(b->dtype));
        if (!output) {
            fill(v, count, &r, seed == NC_TINY ? 1e-30 : 1);
            continue;
        }
        uint64_t bytes = (uint64_t)count * (uint64_t)mlsi_dtype_size(b->dtype);
        memset(v->data, 0xa5, bytes);
        out.n += bytes;
    }
    out.status = mlsi_nest_interpret(n, dims, params);
    snprintf(out.error, sizeof out.error, "%s", out.status ? mlsys_last_error() : "");
    out.bytes = malloc(out.n + 1);
    uint64_t at = 0;
    for (int64_t i = 0; i < n->n_buffers; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        if (b->scope != MLSI_SCOPE_OUTPUT) continue;
        uint64_t bytes = (uint64_t)count_of(n, b, binding) * (uint64_t)mlsi_dtype_size(b->dtype);
        memcpy(out.bytes + at, params[b->param + n->n_inputs].data, bytes);
        at += bytes;
    }
    for (int i = 0; i < n->n_inputs + n->n_outputs; i++)
        free(params[i].data);
    free(params);
    free(binding);
    return out;
}

void nc_run_free(nest_run *r) {
    free(r->bytes);
    r->bytes = NULL;
}

const char *nc_difference(const nest_run *a, const nest_run *b) {
    static char text[500];
    for (int side = 0; side < 2; side++) {
        const nest_run *r = side ? b : a;
        if (!r->status) continue;
        snprintf(text, sizeof text, "the %s one fails: %s", side ? "second" : "first", r->error);
        return text;
    }
    for (uint64_t i = 0; i < a->n || i < b->n; i++) {
        if (a->n == b->n && a->bytes[i] == b->bytes[i]) continue;
        snprintf(text, sizeof text, "byte %llu of %llu differs", (unsigned long long)i,
                 (unsigned long long)a->n);
        return text;
    }
    return NULL;
}

void nc_reverse(const mlsi_nest *n, mlsi_nest *out) {
    if (mlsi_nest_copy(n, out)) ck_abort_msg("%s", mlsys_last_error());
    for (int32_t i = 0; i < out->n_stmts; i++) {
        const mlsi_ls *s = &out->stmts[i];
        if (s->kind != MLSI_LS_FOR || s->loop == MLSI_LOOP_SERIAL) continue;
        if (s->loop == MLSI_LOOP_UNROLLED) continue; /* one after the other */
        mlsi_loop_var v = out->vars[s->var];
        if (v.symbol < 0) continue;
        int64_t last = mlsi_nest_index(out, '-', v.extent, 1);
        int64_t back = mlsi_nest_index(out, '-', last, v.code);
        mlsi_edit_replace(out, 1, &v.symbol, &back);
    }
    if (out->status) ck_abort_msg("%s", mlsys_last_error());
}
