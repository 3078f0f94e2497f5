/* Copies against an element-by-element model: any layouts, any overlap. */
#include "core/tensor.h"
#include "support/random.h"
#include "support/require.h"

#include <stdlib.h>
#include <string.h>

static mlsys_ctx ctx;
static mlsys_device device;
static mlsys_stream stream;

static void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

static void setup(void) {
    check_ok(mlsys_ctx_create(NULL, NULL, &ctx));
    check_ok(mlsys_device_get(ctx, MLSYS_CPU, 0, &device));
    check_ok(mlsys_stream_create(device, NULL, &stream));
}

static void teardown(void) {
    mlsys_stats s = {.size = sizeof s};
    check_ok(mlsys_ctx_stats(ctx, &s));
    ck_assert_uint_eq(s.live_handles, 2); /* every test released its tensors */
    check_ok(mlsys_release(stream));
    check_ok(mlsys_release(device));
    check_ok(mlsys_release(ctx));
}

static mlsys_tensor tensor_new(mlsys_dtype dtype, int32_t ndim, const int64_t *shape) {
    mlsys_tensor t;
    check_ok(mlsys_tensor_create(device, dtype, ndim, shape, &t));
    return t;
}

/* 0, 1, 2, ... */
static mlsys_tensor tensor_iota(int32_t ndim, const int64_t *shape) {
    mlsys_tensor t = tensor_new(MLSYS_I32, ndim, shape);
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    int32_t *v = malloc((size_t)n * 4 + 1);
    for (int64_t i = 0; i < n; i++)
        v[i] = (int32_t)i;
    check_ok(mlsys_tensor_write(t, stream, v, (uint64_t)n * 4));
    free(v);
    return t;
}

typedef struct random_pair {
    mlsi_layout dst, src;
} random_pair;

/* A dst that never overlaps itself (a padded, permuted, partly reversed dense layout) and a src of
 * any strides, over the same shape. Strides in units of `unit` elements, the last of blocks is 1.
 */
static random_pair pair_random(test_random *r, mlsys_dtype dtype, int64_t max_elements) {
    int64_t block = mlsi_dtype_get(dtype)->block_elems;
    random_pair p = {{.dtype = dtype}, {.dtype = dtype}};
    int32_t rank = (int32_t)test_int(r, block > 1, 8);
    int order[MLSYS_MAX_DIMS];
    int64_t room = max_elements, stride = test_int(r, 1, block > 1 ? 1 : 3);
    for (int d = 0; d < rank; d++) {
        int64_t n = test_int(r, 0, 19) ? test_int(r, 1, room < 12 ? room : 12) : 0;
        p.dst.shape[d] = p.src.shape[d] = n;
        room /= n ? n : 1;
        order[d] = d;
    }
    for (int d = rank - 1 - (block > 1); d > 0; d--) { /* the last dim of blocks stays innermost */
        int e = (int)test_int(r, 0, d), t = order[d];
        order[d] = order[e];
        order[e] = t;
    }
    bool nice = test_int(r, 0, 1);
    for (int k = rank - 1; k >= 0; k--) {
        int d = order[k];
        bool innermost = block > 1 && d == rank - 1;
        p.dst.strides[d] = innermost || test_int(r, 0, 2) ? stride : -stride;
        p.src.strides[d] = innermost ? 1 : nice ? p.dst.strides[d] : test_int(r, -9, 9);
        stride *= p.dst.shape[d] ? p.dst.shape[d] : 1;
        if (!innermost && !test_int(r, 0, 3)) stride += test_int(r, 0, 2);
    }
    p.dst.rank = p.src.rank = rank;
    if (block > 1) { /* counted in blocks so far */
        for (int d = 0; d < rank - 1; d++)
            p.dst.strides[d] *= block, p.src.strides[d] *= block;
        p.dst.shape[rank - 1] *= block, p.src.shape[rank - 1] *= block;
    }
    return p;
}

/* Visit all indices (whole blocks): the byte offset of each under both layouts. */
static int64_t visit(const random_pair *p, int64_t *dst, int64_t *src) {
    const mlsi_dtype_info *info = mlsi_dtype_get(p->dst.dtype);
    int64_t block = info->block_elems, index[MLSYS_MAX_DIMS] = {0}, n = 0;
    int rank = p->dst.rank;
    for (int d = 0; d < rank; d++)
        if (!p->dst.shape[d]) return 0;
    for (;;) {
        int64_t a = p->dst.offset, b = p->src.offset;
        for (int d = 0; d < rank; d++) {
            a += index[d] * p->dst.strides[d];
            b += index[d] * p->src.strides[d];
        }
        dst[n] = a / block * info->block_bytes;
        src[n++] = b / block * info->block_bytes;
        int d = rank - 1;
        while (d >= 0) {
            index[d] += d == rank - 1 ? block : 1;
            if (index[d] < p->dst.shape[d]) break;
            index[d--] = 0;
        }
        if (d < 0) return n;
    }
}

enum { MEMORY = 1 << 15, PAIR_ELEMENTS = 3000 };

static void fill(test_random *r, unsigned char *p, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        p[i] = (unsigned char)test_bits(r);
}

/* Put a layout's reach at a random place in memory; false when it does not fit. */
static bool place(test_random *r, mlsi_layout *l, int64_t spread) {
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    int64_t low, high, block = info->block_elems, room = MEMORY / info->block_bytes;
    l->offset = 0;
    check_ok(mlsi_layout_bounds(l, &low, &high));
    int64_t blocks = (high - low) / block;
    if (blocks > room / 2) return false;
    l->offset =
        -low +
        block * test_int(r, room / 2 - blocks / 2 - spread < 0 ? 0 : room / 2 - blocks / 2 - spread,
                         room / 2 - blocks / 2);
    return true;
}

static void copy_case(test_random *r, mlsys_dtype dtype, bool overlapping, int64_t elements) {
    static unsigned char memory[2][MEMORY], model[MEMORY];
    static int64_t dst_at[PAIR_ELEMENTS * 2], src_at[PAIR_ELEMENTS * 2];
    random_pair p = pair_random(r, dtype, elements);
    if (!place(r, &p.dst, 40) || !place(r, &p.src, 40)) return;
    check_ok(mlsi_layout_validate(&p.dst));
    REQUIRE(!mlsi_layout_self_overlaps(&p.dst));
    int64_t unit = mlsi_dtype_get(dtype)->block_bytes, n = visit(&p, dst_at, src_at);
    unsigned char *to = memory[0], *from = memory[!overlapping];
    static int refresh;
    if (refresh++ % 16 == 0) fill(r, memory[0], MEMORY), fill(r, memory[1], MEMORY);
    memcpy(model, to, MEMORY);
    for (int64_t i = 0; i < n; i++)
        memcpy(model + dst_at[i], from + src_at[i], (size_t)unit);
    mlsi_view dst = mlsi_view_of(to, &p.dst), src = mlsi_view_of(from, &p.src);
    if (overlapping)
        check_ok(mlsi_copy_overlapping(&mlsi_alloc_process, &dst, &src));
    else
        mlsi_copy_view(&dst, &src);
    if (memcmp(model, to, MEMORY)) ck_abort_msg("wrong copy");
}

#if defined(__SANITIZE_THREAD__)
enum { ROUNDS = 3000 }; /* one thread only, and slow there */
#else
enum { ROUNDS = 100000 };
#endif

START_TEST(copies_match_a_model) {
    static const mlsys_dtype dtypes[] = {MLSYS_U8,  MLSYS_F16,  MLSYS_F32,
                                         MLSYS_F64, MLSYS_Q4_0, MLSYS_Q6_K};
    test_random r = test_random_seed("copy", 7);
    for (int i = 0; i < ROUNDS; i++)
        copy_case(&r, dtypes[i % 6], i % 4 == 3, i % 50 ? 60 : PAIR_ELEMENTS);
}
END_TEST

/* Plane copies: every pair of inner dims, tile edges included. */
START_TEST(transpositions_of_all_edges) {
    test_random r = test_random_seed("transpose", 8);
    static const int64_t extents[] = {1, 2, 3, 4, 5, 15, 16, 17, 31, 33, 64};
    static const mlsys_dtype dtypes[] = {MLSYS_I8, MLSYS_I16, MLSYS_I32, MLSYS_I64};
    static unsigned char a[3 * 64 * 64 * 8], b[3 * 64 * 64 * 8];
    fill(&r, a, sizeof a);
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 11; i++)
            for (int j = 0; j < 11; j++)
                for (int flip = 0; flip < 4; flip++) {
                    int64_t m = extents[i], n = extents[j], unit = mlsi_dtype_size(dtypes[t]);
                    mlsi_view src = {.data = a,
                                     .dtype = dtypes[t],
                                     .rank = 3,
                                     .shape = {3, m, n},
                                     .strides = {m * n, 1, m}};
                    mlsi_view dst = {.data = b,
                                     .dtype = dtypes[t],
                                     .rank = 3,
                                     .shape = {3, m, n},
                                     .strides = {m * n, n, 1}};
                    if (flip & 1) src.data = a + (m - 1) * unit, src.strides[1] = -1;
                    if (flip & 2) dst.data = b + (n - 1) * unit, dst.strides[2] = -1;
                    memset(b, 0xee, sizeof b);
                    mlsi_copy_view(&dst, &src);
                    for (int64_t k = 0; k < 3 * m * n; k++) {
                        int64_t z = k / (m * n), y = k / n % m, x = k % n;
                        int64_t from = z * src.strides[0] + y * src.strides[1] + x * src.strides[2];
                        int64_t to = z * dst.strides[0] + y * dst.strides[1] + x * dst.strides[2];
                        REQUIRE(!memcmp((char *)src.data + from * unit,
                                        (char *)dst.data + to * unit, (size_t)unit));
                    }
                    REQUIRE(3 * m * n * unit == (int64_t)sizeof b || b[3 * m * n * unit] == 0xee);
                }
}
END_TEST

/* ---- BO-05: dst and src are shifted views of one tensor -------------------------------------- */

static void shifted_copy(mlsys_tensor t, int32_t rank, const int64_t *shape, const int64_t *shift) {
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= shape[d];
    int32_t *before = malloc((size_t)count * 4), *after = malloc((size_t)count * 4);
    check_ok(mlsys_tensor_random(t, stream, "bits", 5, 9));
    check_ok(mlsys_tensor_read(t, stream, before, (uint64_t)count * 4));
    mlsys_tensor dst = t, src = t, next;
    mlsys_retain(t), mlsys_retain(t);
    for (int d = 0; d < rank; d++) {
        int64_t s = shift[d], up = s > 0 ? s : 0, down = s < 0 ? -s : 0;
        check_ok(mlsys_tensor_slice(dst, d, up, shape[d] - down, 1, &next));
        mlsys_release(dst), dst = next;
        check_ok(mlsys_tensor_slice(src, d, down, shape[d] - up, 1, &next));
        mlsys_release(src), src = next;
    }
    check_ok(mlsys_tensor_copy(dst, src, stream));
    check_ok(mlsys_tensor_read(t, stream, after, (uint64_t)count * 4));
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, from = 0, step = 1;
        bool moved = true;
        for (int d = rank - 1; d >= 0; d--) {
            int64_t x = rest % shape[d] - shift[d];
            rest /= shape[d];
            moved = moved && x >= 0 && x < shape[d];
            from += x * step;
            step *= shape[d];
        }
        REQUIRE(after[i] == before[moved ? from : i]);
    }
    mlsys_release(dst), mlsys_release(src);
    free(before), free(after);
}

START_TEST(copies_between_shifted_views) {
    int64_t small[] = {3, 16, 16}, large[] = {1024, 2048};
    mlsys_tensor t = tensor_new(MLSYS_I32, 3, small), u = tensor_new(MLSYS_I32, 2, large);
    for (int64_t a = -1; a <= 1; a++)
        for (int64_t b = -1; b <= 1; b++) {
            for (int64_t c = -1; c <= 1; c++)
                shifted_copy(t, 3, small, (int64_t[]){a, b, c});
            shifted_copy(u, 2, large, (int64_t[]){a, b});
        }
    /* A transposed view of a square onto itself. */
    int64_t square[] = {64, 64};
    mlsys_tensor s = tensor_iota(2, square), turned;
    check_ok(mlsys_tensor_transpose(s, 0, 1, &turned));
    check_ok(mlsys_tensor_copy(s, turned, stream));
    int32_t got[64 * 64];
    check_ok(mlsys_tensor_read(s, stream, got, sizeof got));
    for (int i = 0; i < 64 * 64; i++)
        REQUIRE(got[i] == i % 64 * 64 + i / 64);
    /* Reading into and writing from the tensor's own memory. */
    void *data;
    check_ok(mlsys_tensor_data(s, &data, NULL));
    check_ok(mlsys_tensor_read(turned, stream, data, sizeof got));
    check_ok(mlsys_tensor_read(s, stream, got, sizeof got));
    for (int i = 0; i < 64 * 64; i++)
        REQUIRE(got[i] == i);
    mlsys_release(s), mlsys_release(turned), mlsys_release(t), mlsys_release(u);
}
END_TEST

int main(void) {
    Suite *s = suite_create("copy");
    TCase *t = tcase_create("copy");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, copies_match_a_model);
    tcase_add_test(t, transpositions_of_all_edges);
    tcase_add_test(t, copies_between_shifted_views);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
