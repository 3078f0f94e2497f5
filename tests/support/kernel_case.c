#include "support/kernel_case.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers -------------------------------------------------------------------------- */

kc_rng kc_seed(uint64_t seed) { return (kc_rng){seed}; }

/* splitmix64 */
uint64_t kc_bits(kc_rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
int64_t kc_int(kc_rng *r, int64_t lo, int64_t hi) {
    return lo + (int64_t)(kc_bits(r) % (uint64_t)(hi - lo + 1));
}
double kc_uniform(kc_rng *r, double lo, double hi) {
    return lo + (hi - lo) * ((double)(kc_bits(r) >> 11) * 0x1p-53);
}

/* ---- tensors --------------------------------------------------------------------------------- */

enum { GUARD = 96 };

static unsigned char poison_at(uint64_t i) { return (unsigned char)(0xa5 ^ (i * 37)); }

static void place_dims(kc_rng *r, mlsi_view *v, kc_layout layout, int64_t *elements) {
    int order[MLSYS_MAX_DIMS];
    int64_t step = layout == KC_PADDED ? kc_int(r, 1, 3) : 1;
    for (int d = 0; d < v->rank; d++)
        order[d] = d;
    for (int d = 0; layout == KC_PERMUTED && d < v->rank; d++) {
        int e = (int)kc_int(r, d, v->rank - 1), t = order[d];
        order[d] = order[e];
        order[e] = t;
    }
    for (int i = v->rank - 1; i >= 0; i--) {
        int d = order[i];
        bool still = layout == KC_BROADCAST && kc_bits(r) % 2;
        v->strides[d] = still ? 0 : step;
        if (!still) step *= v->shape[d] ? v->shape[d] : 1;
        if (layout == KC_PADDED) step += kc_int(r, 0, 2);
    }
    *elements = step;
}

kc_tensor kc_tensor_new(kc_rng *r, mlsys_dtype dtype, int rank, const int64_t *shape,
                        kc_layout layout) {
    kc_tensor t = {.view = {.dtype = dtype, .rank = rank}};
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    int64_t elements, offset = 0;
    for (int d = 0; d < rank; d++)
        t.view.shape[d] = shape[d];
    place_dims(r, &t.view, layout, &elements);
    for (int d = 0; layout == KC_NEGATIVE && d < rank; d++)
        if (shape[d] > 0 && kc_bits(r) % 2) {
            offset += (shape[d] - 1) * t.view.strides[d];
            t.view.strides[d] = -t.view.strides[d];
        }
    /* One element past an aligned address: vector loads must not assume more. */
    int64_t lead = GUARD / info->block_bytes * info->block_bytes + info->block_bytes;
    int64_t data = (elements / info->block_elems + 1) * info->block_bytes;
    t.bytes = (uint64_t)(lead + data + GUARD);
    t.block = aligned_alloc(64, (t.bytes + 63) / 64 * 64);
    t.before = malloc(t.bytes);
    ck_assert_ptr_nonnull(t.block);
    ck_assert_ptr_nonnull(t.before);
    for (uint64_t i = 0; i < t.bytes; i++)
        t.block[i] = poison_at(i);
    t.view.data = t.block + lead + offset / info->block_elems * info->block_bytes;
    memcpy(t.before, t.block, t.bytes);
    return t;
}

void kc_tensor_free(kc_tensor *t) {
    free(t->block);
    free(t->before);
    *t = (kc_tensor){0};
}

void *kc_at(const mlsi_view *v, int64_t i) {
    int64_t offset = 0;
    for (int d = v->rank - 1; d >= 0; d--) {
        offset += i % v->shape[d] * v->strides[d];
        i /= v->shape[d];
    }
    return (char *)v->data + offset * mlsi_dtype_size(v->dtype);
}

int64_t kc_broadcast_index(const mlsi_view *v, const mlsi_view *out, int64_t i) {
    int64_t linear = 0, step = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        int e = d - (out->rank - v->rank);
        int64_t index = i % out->shape[d];
        i /= out->shape[d];
        if (e < 0) continue;
        linear += (v->shape[e] == 1 ? 0 : index) * step;
        step *= v->shape[e];
    }
    return linear;
}

double kc_get_f(const mlsi_view *v, int64_t i) {
    const void *p = kc_at(v, i);
    double d;
    float f;
    uint16_t h;
    switch (v->dtype) {
    case MLSYS_F64: memcpy(&d, p, 8); return d;
    case MLSYS_F32: memcpy(&f, p, 4); return (double)f;
    case MLSYS_F16: memcpy(&h, p, 2); return (double)mlsi_f16_to_f32(h);
    case MLSYS_BF16: memcpy(&h, p, 2); return (double)mlsi_bf16_to_f32(h);
    case MLSYS_F8E4M3: return (double)mlsi_f8e4m3_to_f32(*(const uint8_t *)p);
    case MLSYS_F8E5M2: return (double)mlsi_f8e5m2_to_f32(*(const uint8_t *)p);
    default: return (double)kc_get_i(v, i);
    }
}

int64_t kc_get_i(const mlsi_view *v, int64_t i) {
    const void *p = kc_at(v, i);
    int64_t q;
    int32_t w;
    int16_t h;
    switch (v->dtype) {
    case MLSYS_I64: memcpy(&q, p, 8); return q;
    case MLSYS_I32: memcpy(&w, p, 4); return w;
    case MLSYS_I16: memcpy(&h, p, 2); return h;
    case MLSYS_I8: return *(const int8_t *)p;
    case MLSYS_U8: return *(const uint8_t *)p;
    default: return *(const uint8_t *)p != 0;
    }
}

void kc_set_f(const mlsi_view *v, int64_t i, double x) {
    void *p = kc_at(v, i);
    float f = (float)x;
    uint16_t h;
    switch (v->dtype) {
    case MLSYS_F64: memcpy(p, &x, 8); break;
    case MLSYS_F32: memcpy(p, &f, 4); break;
    case MLSYS_F16: h = mlsi_f64_to_f16(x), memcpy(p, &h, 2); break;
    case MLSYS_BF16: h = mlsi_f64_to_bf16(x), memcpy(p, &h, 2); break;
    case MLSYS_F8E4M3: *(uint8_t *)p = mlsi_f64_to_f8e4m3(x); break;
    case MLSYS_F8E5M2: *(uint8_t *)p = mlsi_f64_to_f8e5m2(x); break;
    default: kc_set_i(v, i, (int64_t)x); break;
    }
}

void kc_set_i(const mlsi_view *v, int64_t i, int64_t x) {
    void *p = kc_at(v, i);
    int64_t w = mlsi_int_wrap(x, v->dtype);
    memcpy(p, &w, (size_t)mlsi_dtype_size(v->dtype)); /* little-endian, as all supported machines */
}

static double any_float(kc_rng *r, mlsys_dtype t) {
    static const double special[] = {0.0,       -0.0, INFINITY, -INFINITY, NAN,      1.0,
                                     -1.0,      0.5,  -2.5,     1e30,      -1e-30,   0x1p-149,
                                     -0x1p-133, 88.0, -104.0,   3.5,       0x1p-126, 16777217.0};
    uint64_t pick = kc_bits(r) % 8;
    if (pick == 0) return special[kc_bits(r) % (sizeof special / sizeof special[0])];
    if (pick == 1) {
        double d;
        uint64_t u = kc_bits(r);
        if (t != MLSYS_F64) return (double)mlsi_bits_f32((uint32_t)u);
        memcpy(&d, &u, 8);
        return d;
    }
    return pick == 2 ? (double)kc_int(r, -4, 4) : kc_uniform(r, -8, 8);
}

static int64_t any_int(kc_rng *r) {
    uint64_t pick = kc_bits(r) % 4;
    if (pick == 0) return kc_int(r, -9, 9);
    if (pick == 1) return (int64_t)(kc_bits(r) % 2 ? INT64_MIN : INT64_MAX) >> kc_int(r, 0, 63);
    return (int64_t)kc_bits(r);
}

void kc_fill(kc_rng *r, kc_tensor *t, kc_fill_kind kind) {
    int64_t n = mlsi_view_count(&t->view);
    mlsys_dtype type = t->view.dtype;
    for (int64_t i = 0; i < n; i++) {
        if (type == MLSYS_BOOL)
            kc_set_i(&t->view, i, (int64_t)(kc_bits(r) % 2));
        else if (mlsi_dtype_is_int(type))
            kc_set_i(&t->view, i, kind == KC_SMALL ? kc_int(r, -9, 9) : any_int(r));
        else if (kind == KC_SMALL)
            kc_set_f(&t->view, i, kc_uniform(r, -2, 2));
        else if (kind == KC_FINITE)
            kc_set_f(&t->view, i, ldexp(kc_uniform(r, -8, 8), -(int)kc_int(r, 0, 12)));
        else
            kc_set_f(&t->view, i, any_float(r, type));
    }
    memcpy(t->before, t->block, t->bytes);
}

/* ---- calling --------------------------------------------------------------------------------- */

const mlsi_kernel *kc_row(mlsi_op op, int i) {
    mlsi_isa best = mlsi_cpu_backend.isa();
    const mlsi_kernel *k;
    for (int j = 0; (k = mlsi_cpu_backend.row(j)) != NULL; j++)
        if (k->op == op && k->isa <= best && i-- == 0) return k;
    return NULL;
}

static mlsi_operand describe(const mlsi_view *v, bool present) {
    mlsi_operand o = {.present = present};
    if (!present) return o;
    o.dtype = v->dtype;
    o.rank = v->rank;
    memcpy(o.shape, v->shape, sizeof o.shape);
    o.contiguous = mlsi_view_contiguous(v);
    o.inner_unit = v->rank == 0 || v->strides[v->rank - 1] == 1 || v->shape[v->rank - 1] == 1;
    return o;
}

bool kc_accepts(const mlsi_kernel *k, const kc_call *c) {
    mlsi_operand in[KC_OPERANDS], out[KC_OPERANDS];
    for (int i = 0; i < c->n_in; i++)
        in[i] = describe(&c->in[i].view, !c->absent[i]), in[i].constant = c->constant[i];
    for (int i = 0; i < c->n_out; i++)
        out[i] = describe(&c->out[i].view, true);
    mlsi_query q = {.op = c->op,
                    .attrs = c->attrs,
                    .n_in = c->n_in,
                    .n_out = c->n_out,
                    .in = in,
                    .out = out,
                    .numerics = MLSI_EXACT};
    return k->accepts(&q);
}

/* Mark the bytes of all elements. */
static unsigned char *element_bytes(const kc_tensor *t) {
    unsigned char *mark = calloc(1, t->bytes ? t->bytes : 1);
    int64_t n = mlsi_view_count(&t->view);
    size_t size = (size_t)mlsi_dtype_size(t->view.dtype);
    for (int64_t i = 0; i < n; i++)
        memset(mark + ((unsigned char *)kc_at(&t->view, i) - t->block), 1, size);
    return mark;
}

static void check_untouched(const kc_tensor *t, bool written, const char *kernel) {
    unsigned char *mark = written ? element_bytes(t) : calloc(1, t->bytes ? t->bytes : 1);
    for (uint64_t i = 0; i < t->bytes; i++)
        if (!mark[i] && t->block[i] != t->before[i]) /* ck_assert would write a record each time */
            ck_abort_msg("%s: byte %llu of %s was changed", kernel, (unsigned long long)i,
                         written ? "an output's guard" : "an input");
    free(mark);
}

enum { PACK_GUARD = 64 };

static unsigned char *pack_constant(const mlsi_kernel *k, const kc_call *c, mlsi_view *in,
                                    mlsi_pool *pool, mlsi_kernel_args *args) {
    if (!k->pack || !c->constant[k->pack_input]) return NULL;
    mlsi_view *constant = &in[k->pack_input];
    uint64_t bytes = k->pack_bytes(constant, c->attrs), room = (bytes + 63) / 64 * 64 + PACK_GUARD;
    unsigned char *packed = aligned_alloc(64, room);
    memset(packed, 0x5a, room);
    k->pack(constant, c->attrs, packed, pool);
    for (uint64_t i = bytes; i < room; i++)
        ck_assert_msg(packed[i] == 0x5a, "%s: packing overran %llu bytes", k->name,
                      (unsigned long long)bytes);
    constant->data = NULL;
    args->packed = packed;
    return packed;
}

mlsys_status kc_run(const mlsi_kernel *k, kc_call *c, int threads) {
    mlsi_alloc alloc;
    mlsi_pool *pool = NULL;
    mlsi_view in[KC_OPERANDS], out[KC_OPERANDS];
    mlsi_alloc_init(&alloc, NULL);
    if (threads > 0) ck_assert_int_eq(mlsi_pool_create(&alloc, threads, &pool), MLSYS_OK);
    for (int i = 0; i < c->n_in; i++) {
        in[i] = c->in[i].view;
        if (c->absent[i]) in[i] = (mlsi_view){0};
    }
    for (int i = 0; i < c->n_out; i++)
        out[i] = c->out[i].view;
    mlsi_kernel_args args = {
        .attrs = c->attrs, .n_in = c->n_in, .n_out = c->n_out, .in = in, .out = out, .pool = pool};
    args.work_bytes = k->work ? k->work(&args, threads > 0 ? threads : 1) : 0;
    unsigned char *work = aligned_alloc(64, (args.work_bytes + 127) / 64 * 64);
    memset(work, 0x5a, (args.work_bytes + 127) / 64 * 64);
    args.work = args.work_bytes ? work : NULL;
    unsigned char *packed = pack_constant(k, c, in, pool, &args);
    mlsys_status st = k->run(&args);
    free(packed);
    for (uint64_t i = args.work_bytes; i < (args.work_bytes + 127) / 64 * 64; i++)
        if (work[i] != 0x5a)
            ck_abort_msg("%s: scratch of %llu bytes overrun", k->name,
                         (unsigned long long)args.work_bytes);
    free(work);
    mlsi_pool_destroy(pool);
    for (int i = 0; i < c->n_in; i++)
        if (!c->absent[i] && c->in[i].block != c->out[0].block)
            check_untouched(&c->in[i], false, k->name);
    for (int i = 0; i < c->n_out; i++)
        check_untouched(&c->out[i], true, k->name);
    return st;
}

static bool same_element(const mlsi_view *a, const mlsi_view *b, int64_t i) {
    if (!memcmp(kc_at(a, i), kc_at(b, i), (size_t)mlsi_dtype_size(a->dtype))) return true;
    return mlsi_dtype_is_float(a->dtype) && isnan(kc_get_f(a, i)) && isnan(kc_get_f(b, i));
}

int kc_check(kc_call *c, const kc_tensor *expected, const char *what) {
    static const int threads[] = {0, 1, 2, 3, 7};
    static unsigned turn;
    int accepted = 0;
    const mlsi_kernel *k;
    for (int r = 0; (k = kc_row(c->op, r)) != NULL; r++) {
        if (!kc_accepts(k, c)) continue;
        accepted++;
        /* All thread counts would be slow; each call takes the next two. */
        for (int repeat = 0; repeat < 2; repeat++) {
            int n = threads[turn++ % 5];
            for (int o = 0; o < c->n_out; o++)
                memcpy(c->out[o].block, c->out[o].before, c->out[o].bytes);
            mlsys_status st = kc_run(k, c, n);
            ck_assert_msg(st == MLSYS_OK, "%s: %s: %s", k->name, what, mlsys_last_error());
            for (int o = 0; o < c->n_out; o++) {
                const mlsi_view *y = &c->out[o].view, *e = &expected[o].view;
                for (int64_t i = 0; i < mlsi_view_count(y); i++)
                    if (!same_element(y, e, i))
                        ck_abort_msg("%s: %s, %d threads: output %d element %lld is %.17g, not "
                                     "%.17g",
                                     k->name, what, n, o, (long long)i, kc_get_f(y, i),
                                     kc_get_f(e, i));
            }
        }
    }
    return accepted;
}

void kc_call_free(kc_call *c) {
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].block != c->out[0].block) kc_tensor_free(&c->in[i]);
    for (int i = 0; i < c->n_out; i++)
        kc_tensor_free(&c->out[i]);
}
