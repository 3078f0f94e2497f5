/* Scalar access and the canonical orders, for reference code: slow and literal. */
#include "ir/ops/reference.h"

#include <string.h>

void mlsi_ref_unravel(int32_t rank, const int64_t *shape, int64_t linear, int64_t *index) {
    for (int d = rank - 1; d >= 0; d--) {
        index[d] = shape[d] ? linear % shape[d] : 0;
        linear = shape[d] ? linear / shape[d] : 0;
    }
}

int64_t mlsi_ref_ravel(int32_t rank, const int64_t *shape, const int64_t *index) {
    int64_t linear = 0;
    for (int d = 0; d < rank; d++)
        linear = linear * shape[d] + index[d];
    return linear;
}

int64_t mlsi_ref_broadcast_index(const mlsi_view *in, const mlsi_view *out, int64_t linear) {
    int64_t index[MLSYS_MAX_DIMS], mine[MLSYS_MAX_DIMS];
    int shift = out->rank - in->rank;
    mlsi_ref_unravel(out->rank, out->shape, linear, index);
    for (int d = 0; d < in->rank; d++)
        mine[d] = in->shape[d] == 1 ? 0 : index[d + shift];
    return mlsi_ref_ravel(in->rank, in->shape, mine);
}

void *mlsi_ref_at(const mlsi_view *v, int64_t linear) {
    int64_t index[MLSYS_MAX_DIMS], offset = 0;
    mlsi_ref_unravel(v->rank, v->shape, linear, index);
    for (int d = 0; d < v->rank; d++)
        offset += index[d] * v->strides[d];
    return (char *)v->data + offset * mlsi_dtype_size(v->dtype);
}

void mlsi_ref_move(const mlsi_view *to, int64_t to_linear, const mlsi_view *from,
                   int64_t from_linear) {
    memcpy(mlsi_ref_at(to, to_linear), mlsi_ref_at(from, from_linear),
           (size_t)mlsi_dtype_size(to->dtype));
}

static uint64_t load(const void *p, int size) {
    uint8_t b;
    uint16_t h;
    uint32_t w;
    uint64_t q;
    switch (size) {
    case 1: memcpy(&b, p, 1); return b;
    case 2: memcpy(&h, p, 2); return h;
    case 4: memcpy(&w, p, 4); return w;
    default: memcpy(&q, p, 8); return q;
    }
}

static void store(void *p, int size, uint64_t v) {
    uint8_t b = (uint8_t)v;
    uint16_t h = (uint16_t)v;
    uint32_t w = (uint32_t)v;
    switch (size) {
    case 1: memcpy(p, &b, 1); break;
    case 2: memcpy(p, &h, 2); break;
    case 4: memcpy(p, &w, 4); break;
    default: memcpy(p, &v, 8); break;
    }
}

double mlsi_ref_get_f(const mlsi_view *v, int64_t linear) {
    uint64_t u = load(mlsi_ref_at(v, linear), mlsi_dtype_size(v->dtype));
    double d;
    switch (v->dtype) {
    case MLSYS_F64: memcpy(&d, &u, 8); return d;
    case MLSYS_F32: return (double)mlsi_bits_f32((uint32_t)u);
    case MLSYS_F16: return (double)mlsi_f16_to_f32((uint16_t)u);
    case MLSYS_BF16: return (double)mlsi_bf16_to_f32((uint16_t)u);
    case MLSYS_F8E4M3: return (double)mlsi_f8e4m3_to_f32((uint8_t)u);
    case MLSYS_F8E5M2: return (double)mlsi_f8e5m2_to_f32((uint8_t)u);
    default: return (double)mlsi_ref_get_i(v, linear);
    }
}

int64_t mlsi_ref_get_i(const mlsi_view *v, int64_t linear) {
    if (mlsi_dtype_is_float(v->dtype)) return mlsi_f64_to_int(mlsi_ref_get_f(v, linear), MLSYS_I64);
    return mlsi_int_wrap((int64_t)load(mlsi_ref_at(v, linear), mlsi_dtype_size(v->dtype)),
                         v->dtype);
}

void mlsi_ref_set_f(const mlsi_view *v, int64_t linear, double value) {
    void *p = mlsi_ref_at(v, linear);
    uint64_t u;
    switch (v->dtype) {
    case MLSYS_F64: memcpy(&u, &value, 8); break;
    case MLSYS_F32: u = mlsi_f32_bits((float)value); break;
    case MLSYS_F16: u = mlsi_f64_to_f16(value); break;
    case MLSYS_BF16: u = mlsi_f64_to_bf16(value); break;
    case MLSYS_F8E4M3: u = mlsi_f64_to_f8e4m3(value); break;
    case MLSYS_F8E5M2: u = mlsi_f64_to_f8e5m2(value); break;
    default: u = (uint64_t)mlsi_f64_to_int(value, v->dtype); break;
    }
    store(p, mlsi_dtype_size(v->dtype), u);
}

/* An integer as an f64 that still rounds rightly to any narrower float: beyond 2^53 an inexact
 * value keeps its lowest bit set (rounding to odd). */
static double sticky_f64(int64_t value) {
    uint64_t mag = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    int drop = 0;
    while (mag >> drop >> 53)
        drop++;
    uint64_t kept = mag >> drop;
    if (kept << drop != mag) kept |= 1;
    double d = ldexp((double)kept, drop);
    return value < 0 ? -d : d;
}

void mlsi_ref_set_i(const mlsi_view *v, int64_t linear, int64_t value) {
    if (v->dtype == MLSYS_F64)
        mlsi_ref_set_f(v, linear, (double)value);
    else if (mlsi_dtype_is_float(v->dtype))
        mlsi_ref_set_f(v, linear, sticky_f64(value));
    else
        store(mlsi_ref_at(v, linear), mlsi_dtype_size(v->dtype),
              (uint64_t)mlsi_int_wrap(value, v->dtype));
}

/* ---- canonical orders ---------------------------------------------------------------------- */

enum { CHUNK = 4096, LANES = 128, SEGMENT = 256 };

typedef double (*combine_fn)(bool f64, double a, double b);
typedef double (*element_fn)(void *user, int64_t i);

typedef struct tree {
    bool f64;
    combine_fn combine;
    double identity;
    int64_t n;
    element_fn next;
    void *user;
} tree;

static double chunk(void *user, int64_t c) {
    const tree *t = user;
    double lane[LANES];
    int64_t first = c * CHUNK, last = t->n - first < CHUNK ? t->n : first + CHUNK;
    for (int j = 0; j < LANES; j++)
        lane[j] = t->identity;
    for (int64_t i = first; i < last; i++) {
        int j = (int)((i - first) % LANES);
        if (mlsi_fault(MLSI_FAULT_OPS_SUM_LANES)) j = 0;
        lane[j] = t->combine(t->f64, lane[j], t->next(t->user, i));
    }
    for (int h = LANES / 2; h >= 1; h /= 2)
        for (int j = 0; j < h; j++)
            lane[j] = t->combine(t->f64, lane[j], lane[j + h]);
    return lane[0];
}

static double reduce_tree(tree t) {
    if (t.n <= CHUNK) return chunk(&t, 0);
    tree up = t;
    up.n = (t.n + CHUNK - 1) / CHUNK;
    up.next = chunk;
    up.user = &t;
    return reduce_tree(up);
}

double mlsi_ref_sum(bool f64, int64_t n, double (*next)(void *user, int64_t i), void *user) {
    return reduce_tree((tree){f64, mlsi_ref_add, 0.0, n, next, user});
}

double mlsi_ref_product(bool f64, int64_t n, double (*next)(void *user, int64_t i), void *user) {
    return reduce_tree((tree){f64, mlsi_ref_mul, 1.0, n, next, user});
}

double mlsi_ref_dot(bool f64, double addend, int64_t k,
                    void (*pair)(void *user, int64_t k, double *a, double *b), void *user) {
    bool last = mlsi_fault(MLSI_FAULT_OPS_ADDEND_LAST);
    double c = last ? -0.0 : addend;
    for (int64_t first = 0; first == 0 || first < k; first += SEGMENT) {
        double s = 0;
        for (int64_t i = first; i < k && i < first + SEGMENT; i++) {
            double a, b;
            pair(user, i, &a, &b);
            s = mlsi_ref_fma(f64, a, b, s);
        }
        if (mlsi_fault(MLSI_FAULT_OPS_DOT_TAIL) && first && k == first + 1) s = 0;
        c = mlsi_ref_add(f64, c, s);
    }
    return last ? mlsi_ref_add(f64, addend, c) : c;
}

double mlsi_ref_addend(const mlsi_ref_args *r, int operand, int64_t i) {
    bool given = r->n_in > operand && r->in[operand].data;
    return given ? mlsi_ref_get_f(&r->in[operand], i) : -0.0;
}

mlsys_status mlsi_ref_index(const char *op, const char *operand, const mlsi_view *ids,
                            int64_t position, int64_t n, int64_t *out) {
    int64_t v = mlsi_ref_get_i(ids, position);
    if (v < -n || v >= n)
        return mlsi_fail(MLSYS_E_ARG, "%s: %s: index %lld at position %lld outside [%lld,%lld)", op,
                         operand, (long long)v, (long long)position, (long long)-n, (long long)n);
    *out = v < 0 && !mlsi_fault(MLSI_FAULT_OPS_INDEX_NEGATIVE) ? v + n : v < 0 ? 0 : v;
    return MLSYS_OK;
}
