#include "support/random_graph.h"

#include <check.h>
#include <math.h>
#include <string.h>

void rg_fill(kc_rng *r, const mlsi_view *v) {
    char none = 0, before = 0;
    kc_tensor t = {.view = *v, .block = (unsigned char *)&none, .before = (unsigned char *)&before};
    kc_fill_kind kind = (kc_fill_kind)(kc_bits(r) % 3);
    kc_fill(r, &t, kind);
}

rg_extents rg_bind(kc_rng *r) {
    return (rg_extents){kc_int(r, 1, 4), kc_int(r, 0, 6), 2 * kc_int(r, 1, 3)};
}

mlsi_view rg_view(mlsys_tensor t) {
    mlsi_tensor *x;
    if (mlsi_pin(t, MLSYS_KIND_TENSOR, "test", &x) != MLSYS_OK)
        ck_abort_msg("%s", mlsys_last_error());
    mlsi_view v = mlsi_tensor_view_of(x);
    mlsi_unpin(x);
    return v;
}

void rg_inputs(kc_rng *r, const mlsi_graph *g, mlsys_device device, rg_extents e,
               mlsys_tensor *out) {
    const mlsi_func *f = &g->funcs[0];
    int64_t binding[8];
    for (int64_t s = 0; s < g->symbols.n_symbols; s++) {
        char c = g->symbols.symbols[s].name[0];
        binding[s] = c == 'B' ? e.b : c == 'L' ? e.l : e.s;
    }
    for (int64_t i = 0; i < f->n_inputs; i++) {
        const mlsi_type *t = &f->values[f->inputs[i]].type;
        int64_t shape[MLSYS_MAX_DIMS];
        for (int d = 0; d < t->rank; d++)
            ck_assert_int_eq(mlsi_dim_eval(&g->symbols, t->dims[d], binding, &shape[d]), MLSYS_OK);
        ck_assert_int_eq(mlsys_tensor_create(device, t->dtype, t->rank, shape, &out[i]), MLSYS_OK);
        mlsi_view v = rg_view(out[i]);
        rg_fill(r, &v);
    }
}

int64_t rg_difference(mlsys_tensor a, mlsys_tensor b) {
    mlsi_view x = rg_view(a), y = rg_view(b);
    if (x.dtype != y.dtype || x.rank != y.rank) return 0;
    for (int d = 0; d < x.rank; d++)
        if (x.shape[d] != y.shape[d]) return 0;
    if (mlsi_dtype_is_block(x.dtype)) { /* dense, as all that the tests make */
        const mlsi_dtype_info *info = mlsi_dtype_get(x.dtype);
        int64_t bytes = mlsi_view_count(&x) / info->block_elems * info->block_bytes;
        return memcmp(x.data, y.data, (size_t)bytes) ? 0 : -1;
    }
    for (int64_t i = 0, n = mlsi_view_count(&x); i < n; i++) {
        if (!memcmp(kc_at(&x, i), kc_at(&y, i), (size_t)mlsi_dtype_size(x.dtype))) continue;
        if (!mlsi_dtype_is_float(x.dtype) || !isnan(kc_get_f(&x, i)) || !isnan(kc_get_f(&y, i)))
            return i;
    }
    return -1;
}

mlsys_tensor rg_random_view(kc_rng *r, mlsys_tensor t) {
    mlsys_tensor v = NULL;
    int64_t shape[MLSYS_MAX_DIMS];
    mlsys_status st = MLSYS_OK;
    int32_t rank = rg_view(t).rank;
    switch (rank ? kc_int(r, 0, 3) : 3) {
    case 0: st = mlsys_tensor_transpose(t, 0, rank - 1, &v); break;
    case 1: st = mlsys_tensor_reverse(t, (int32_t)kc_int(r, 0, rank - 1), &v); break;
    case 2: st = mlsys_tensor_slice(t, 0, kc_int(r, 0, 1), INT64_MAX, 2, &v); break;
    default:
        shape[0] = kc_int(r, 1, 3);
        st = mlsys_tensor_shape(t, MLSYS_MAX_DIMS - 1, shape + 1, &rank);
        if (st == MLSYS_OK) st = mlsys_tensor_broadcast(t, rank + 1, shape, &v);
        break;
    }
    if (st != MLSYS_OK) ck_abort_msg("constant: %s", mlsys_last_error());
    ck_assert_int_eq(mlsys_release(t), MLSYS_OK);
    return v;
}
