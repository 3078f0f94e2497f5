/* Tensors through the public functions. */
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

static void expect_i32(mlsys_tensor t, int64_t n, const int32_t *want) {
    int32_t got[64];
    memset(got, 0x5a, sizeof got);
    check_ok(mlsys_tensor_read(t, stream, got, (uint64_t)n * 4));
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i]) ck_abort_msg("element %d is %d, not %d", (int)i, got[i], want[i]);
    check_ok(mlsys_release(t));
}

/* ---- views through the API ------------------------------------------------------------------- */

START_TEST(views_read_what_they_name) {
    mlsys_tensor t = tensor_iota(2, (int64_t[]){2, 3}), v;
    check_ok(mlsys_tensor_transpose(t, 0, -1, &v));
    expect_i32(v, 6, (int32_t[]){0, 3, 1, 4, 2, 5});
    check_ok(mlsys_tensor_permute(t, 2, (int32_t[]){0, 1}, &v));
    expect_i32(v, 6, (int32_t[]){0, 1, 2, 3, 4, 5});
    check_ok(mlsys_tensor_slice(t, 1, -1, INT64_MIN, -2, &v));
    expect_i32(v, 4, (int32_t[]){2, 0, 5, 3});
    check_ok(mlsys_tensor_reverse(t, -2, &v));
    expect_i32(v, 6, (int32_t[]){3, 4, 5, 0, 1, 2});
    check_ok(mlsys_tensor_broadcast(t, 3, (int64_t[]){2, 2, 3}, &v));
    expect_i32(v, 12, (int32_t[]){0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
    check_ok(mlsys_tensor_view(t, 2, (int64_t[]){2, 2}, (int64_t[]){-1, 0}, 4, &v));
    expect_i32(v, 4, (int32_t[]){4, 4, 3, 3});
    check_ok(mlsys_tensor_view(t, 0, NULL, NULL, 5, &v));
    expect_i32(v, 1, (int32_t[]){5});
    check_ok(mlsys_tensor_slice(t, 0, 2, 2, 1, &v)); /* empty */
    expect_i32(v, 0, NULL);
    check_ok(mlsys_release(t));
}
END_TEST

START_TEST(views_share_and_copies_do_not) {
    mlsys_tensor t = tensor_iota(2, (int64_t[]){2, 3}), turned, v, c;
    uint64_t id, other;
    int32_t copied = -1;
    check_ok(mlsys_tensor_transpose(t, 0, 1, &turned));
    check_ok(mlsys_tensor_reshape(t, 2, (int64_t[]){3, -1}, &v, &copied));
    ck_assert_int_eq(copied, 0);
    check_ok(mlsys_tensor_reshape(turned, 1, (int64_t[]){6}, &c, &copied));
    ck_assert_int_eq(copied, 1);
    check_ok(mlsys_tensor_storage_id(t, &id));
    check_ok(mlsys_tensor_storage_id(v, &other));
    ck_assert_uint_eq(id, other);
    check_ok(mlsys_tensor_storage_id(c, &other));
    ck_assert_uint_ne(id, other);
    int32_t seven = 7;
    mlsys_tensor one;
    check_ok(mlsys_tensor_view(t, 0, NULL, NULL, 1, &one));
    check_ok(mlsys_tensor_write(one, stream, &seven, 4));
    check_ok(mlsys_release(one));
    expect_i32(c, 6, (int32_t[]){0, 3, 1, 4, 2, 5});
    check_ok(mlsys_release(t)); /* the views keep the storage */
    expect_i32(turned, 6, (int32_t[]){0, 3, 7, 4, 2, 5});
    expect_i32(v, 6, (int32_t[]){0, 7, 2, 3, 4, 5});
}
END_TEST

START_TEST(facts) {
    mlsys_tensor t = tensor_new(MLSYS_F16, 2, (int64_t[]){2, 3}), v;
    int64_t shape[8], strides[8], offset;
    int32_t ndim, contiguous, overlaps;
    uint64_t low, high, bytes;
    mlsys_dtype dtype;
    void *base, *data;
    check_ok(mlsys_tensor_slice(t, 0, 1, INT64_MIN, -1, &v));
    check_ok(mlsys_tensor_shape(v, 8, shape, &ndim));
    check_ok(mlsys_tensor_strides(v, 8, strides, &offset));
    check_ok(mlsys_tensor_dtype(v, &dtype));
    ck_assert_int_eq(dtype, MLSYS_F16);
    ck_assert_int_eq(ndim, 2);
    ck_assert(shape[0] == 2 && shape[1] == 3 && strides[0] == -3 && strides[1] == 1 && offset == 3);
    check_ok(mlsys_tensor_bounds(v, &low, &high));
    ck_assert(low == 0 && high == 12);
    check_ok(mlsys_tensor_layout(v, &contiguous, &overlaps));
    ck_assert(!contiguous && !overlaps);
    check_ok(mlsys_tensor_data(t, &base, &bytes));
    ck_assert_uint_eq(bytes, 12);
    ck_assert_uint_eq((uintptr_t)base % 64, 0);
    check_ok(mlsys_tensor_data(v, &data, &bytes));
    ck_assert_ptr_eq(data, (char *)base + 6);
    ck_assert_uint_eq(bytes, 6);
    ck_assert_int_eq(mlsys_tensor_shape(v, 1, shape, &ndim), MLSYS_E_BUFFER);
    ck_assert_int_eq(mlsys_tensor_shape(v, 2, NULL, &ndim), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tensor_shape(v, -1, shape, &ndim), MLSYS_E_ARG);
    check_ok(mlsys_tensor_shape(v, 0, NULL, &ndim));
    check_ok(mlsys_release(v));
    check_ok(mlsys_tensor_slice(t, 0, 0, 0, 1, &v));
    check_ok(mlsys_tensor_bounds(v, &low, &high));
    ck_assert(low == 0 && high == 0);
    check_ok(mlsys_tensor_layout(v, &contiguous, &overlaps));
    ck_assert(contiguous && !overlaps);
    check_ok(mlsys_release(v));
    check_ok(mlsys_release(t));
}
END_TEST

static void expect_error(mlsys_status st, mlsys_status want, const char *sentence, void *out) {
    if (st != want || !strstr(mlsys_last_error(), sentence) || out)
        ck_abort_msg("%s \"%s\", wanted %s \"%s\"", mlsys_status_name(st), mlsys_last_error(),
                     mlsys_status_name(want), sentence);
}

START_TEST(refusals_name_the_trouble) {
    mlsys_tensor t = tensor_iota(2, (int64_t[]){2, 3}), v = NULL, flat = NULL;
    int64_t shape[9] = {2, 3}, strides[2] = {3, 1};
    char bytes[64];
#define REFUSED(call, status, sentence) expect_error(call, status, sentence, v)
    REFUSED(mlsys_tensor_create(device, 99, 2, shape, &v), MLSYS_E_DTYPE,
            "tensor_create: shape: unknown dtype 99");
    REFUSED(mlsys_tensor_create(device, MLSYS_F32, 9, shape, &v), MLSYS_E_SHAPE, "rank 9");
    REFUSED(mlsys_tensor_create(device, MLSYS_F32, 2, NULL, &v), MLSYS_E_ARG, "NULL");
    REFUSED(mlsys_tensor_create(device, MLSYS_F32, 2, shape, NULL), MLSYS_E_ARG, "out is NULL");
    REFUSED(mlsys_tensor_view(t, 2, shape, strides, 1, &v), MLSYS_E_SHAPE,
            "elements 1..6 of a storage of 6");
    REFUSED(mlsys_tensor_view(t, 2, shape, strides, -1, &v), MLSYS_E_SHAPE, "elements -1..4");
    REFUSED(mlsys_tensor_view(t, 1, (int64_t[]){0}, NULL, 7, &v), MLSYS_E_SHAPE, "offset 7");
    REFUSED(mlsys_tensor_permute(t, 1, (int32_t[]){0}, &v), MLSYS_E_ARG, "ndim is 1");
    REFUSED(mlsys_tensor_permute(t, 2, (int32_t[]){1, 1}, &v), MLSYS_E_ARG, "not a permutation");
    REFUSED(mlsys_tensor_permute(t, 2, NULL, &v), MLSYS_E_ARG, "perm is NULL");
    REFUSED(mlsys_tensor_transpose(t, 0, 2, &v), MLSYS_E_ARG,
            "tensor_transpose: axis1 2 is outside [-2, 2)");
    REFUSED(mlsys_tensor_slice(t, 0, 0, 1, 0, &v), MLSYS_E_ARG, "step is 0");
    REFUSED(mlsys_tensor_reverse(t, -3, &v), MLSYS_E_ARG, "axis -3");
    REFUSED(mlsys_tensor_broadcast(t, 2, (int64_t[]){2, 4}, &v), MLSYS_E_SHAPE, "cannot become 4");
    REFUSED(mlsys_tensor_reshape(t, 2, (int64_t[]){-1, -1}, &v, NULL), MLSYS_E_SHAPE, "both -1");
    REFUSED(mlsys_tensor_reshape(t, 2, (int64_t[]){-1, 4}, &v, NULL), MLSYS_E_SHAPE, "inferred");
    REFUSED(mlsys_tensor_reshape(t, 2, (int64_t[]){-1, 0}, &v, NULL), MLSYS_E_SHAPE, "inferred");
    REFUSED(mlsys_tensor_reshape(t, 2, (int64_t[]){-2, 3}, &v, NULL), MLSYS_E_SHAPE, "extent -2");
    REFUSED(mlsys_tensor_reshape(t, 1, (int64_t[]){5}, &v, NULL), MLSYS_E_SHAPE, "6 elements");
    REFUSED(mlsys_tensor_write(t, stream, bytes, 23), MLSYS_E_ARG,
            "bytes is 23, the tensor has 24");
    REFUSED(mlsys_tensor_read(t, stream, NULL, 24), MLSYS_E_ARG, "NULL");
    check_ok(mlsys_tensor_broadcast(t, 3, (int64_t[]){2, 2, 3}, &flat));
    REFUSED(mlsys_tensor_write(flat, stream, bytes, 48), MLSYS_E_ARG, "i32[2,2,3] overlaps itself");
    REFUSED(mlsys_tensor_copy(flat, flat, stream), MLSYS_E_ARG, "overlaps itself");
    REFUSED(mlsys_tensor_random(flat, stream, "bits", 0, 0), MLSYS_E_ARG, "overlaps itself");
    REFUSED(mlsys_tensor_copy(t, flat, stream), MLSYS_E_SHAPE,
            "dst is i32[2,3], src is i32[2,2,3]");
    REFUSED(mlsys_tensor_random(t, stream, "gamma", 0, 0), MLSYS_E_ARG, "gamma");
    REFUSED(mlsys_tensor_random(t, stream, "normal", 0, 0), MLSYS_E_DTYPE, "floats");
#undef REFUSED
    check_ok(mlsys_release(flat));
    check_ok(mlsys_release(t));
}
END_TEST

/* ---- wrapped memory -------------------------------------------------------------------------- */

static void count_done(void *user) { ++*(int *)user; }

START_TEST(wrap_borrows_until_the_last_use) {
    int32_t memory[6] = {0, 1, 2, 3, 4, 5};
    int done = 0;
    mlsys_tensor t, v;
    check_ok(mlsys_tensor_wrap(device, MLSYS_I32, 2, (int64_t[]){2, 3}, (int64_t[]){-3, 1}, 3,
                               memory, sizeof memory, count_done, &done, &t));
    check_ok(mlsys_tensor_transpose(t, 0, 1, &v));
    check_ok(mlsys_release(t));
    ck_assert_int_eq(done, 0);
    expect_i32(v, 6, (int32_t[]){3, 0, 4, 1, 5, 2});
    ck_assert_int_eq(done, 1);
}
END_TEST

START_TEST(wrap_gives_back_on_failure) {
    int32_t memory[6] = {0};
    int done = 0;
    mlsys_tensor t;
    int64_t shape[] = {2, 3};
    ck_assert_int_eq(mlsys_tensor_wrap(device, MLSYS_I32, 2, shape, NULL, 1, memory, sizeof memory,
                                       count_done, &done, &t),
                     MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsys_tensor_wrap(device, MLSYS_I32, 2, shape, NULL, 0, (char *)memory + 1, 24,
                                       count_done, &done, &t),
                     MLSYS_E_ARG);
    ck_assert_int_eq(
        mlsys_tensor_wrap(device, MLSYS_I32, 2, shape, NULL, 0, NULL, 24, count_done, &done, &t),
        MLSYS_E_ARG);
    ck_assert_int_eq(
        mlsys_tensor_wrap(NULL, MLSYS_I32, 2, shape, NULL, 0, memory, 24, count_done, &done, &t),
        MLSYS_E_HANDLE);
    ck_assert_int_eq(mlsys_tensor_wrap(device, MLSYS_I32, 1, (int64_t[]){3}, (int64_t[]){INT64_MAX},
                                       0, memory, 24, count_done, &done, &t),
                     MLSYS_E_SHAPE);
    ck_assert_int_eq(done, 0);
    check_ok(mlsys_tensor_wrap(device, MLSYS_I32, 1, (int64_t[]){0}, NULL, 0, NULL, 0, count_done,
                               &done, &t));
    check_ok(mlsys_release(t));
    ck_assert_int_eq(done, 1);
}
END_TEST

/* ---- blocks -----------------------------------------------------------------------------------
 */

START_TEST(block_tensors_move_whole_blocks) {
    enum { ROWS = 3, BLOCKS = 4, BYTES = 20 }; /* q4_1: 32 elements in 20 bytes */
    unsigned char all[ROWS * BLOCKS * BYTES], got[sizeof all];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (unsigned char)(i * 7);
    mlsys_tensor t = tensor_new(MLSYS_Q4_1, 2, (int64_t[]){ROWS, BLOCKS * 32}), v, w;
    uint64_t low, high;
    check_ok(mlsys_tensor_write(t, stream, all, sizeof all));
    check_ok(mlsys_tensor_slice(t, 1, 32, 96, 1, &v)); /* blocks 1 and 2 */
    check_ok(mlsys_tensor_slice(v, 0, -1, 0, -1, &w)); /* rows 2 and 1 */
    check_ok(mlsys_tensor_bounds(w, &low, &high));
    ck_assert(low == (BLOCKS + 1) * BYTES && high == (2 * BLOCKS + 3) * BYTES);
    check_ok(mlsys_tensor_read(w, stream, got, 2 * 2 * BYTES));
    ck_assert(!memcmp(got, all + (2 * BLOCKS + 1) * BYTES, 2 * BYTES));
    ck_assert(!memcmp(got + 2 * BYTES, all + (BLOCKS + 1) * BYTES, 2 * BYTES));
    mlsys_release(w);
    ck_assert_int_eq(mlsys_tensor_slice(t, 1, 16, 48, 1, &w), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsys_tensor_transpose(t, 0, 1, &w), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsys_tensor_reverse(t, 1, &w), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsys_tensor_view(t, 1, (int64_t[]){32}, NULL, 16, &w), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsys_tensor_random(t, stream, "bits", 1, 1), MLSYS_E_DTYPE);
    mlsys_release(v), mlsys_release(t);
}
END_TEST

/* ---- contexts and devices ---------------------------------------------------------------- */

START_TEST(two_contexts_do_not_mix) {
    mlsys_ctx other;
    mlsys_device d;
    mlsys_stream s;
    check_ok(mlsys_ctx_create(NULL, NULL, &other));
    check_ok(mlsys_device_get(other, MLSYS_CPU, 0, &d));
    check_ok(mlsys_stream_create(d, NULL, &s));
    mlsys_tensor a = tensor_iota(1, (int64_t[]){3}), b;
    check_ok(mlsys_tensor_create(d, MLSYS_I32, 1, (int64_t[]){3}, &b));
    int32_t v[3];
    ck_assert_int_eq(mlsys_tensor_read(a, s, v, sizeof v), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tensor_copy(a, b, stream), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tensor_copy(a, b, s), MLSYS_E_ARG);
    uint64_t id_a, id_b;
    check_ok(mlsys_tensor_storage_id(a, &id_a));
    check_ok(mlsys_tensor_storage_id(b, &id_b));
    ck_assert_uint_ne(id_a, id_b);
    mlsys_release(a), mlsys_release(b), mlsys_release(s), mlsys_release(d), mlsys_release(other);
}
END_TEST

START_TEST(device_describes_itself) {
    char text[256];
    uint64_t need;
    check_ok(mlsys_device_describe(device, text, sizeof text, &need));
    ck_assert_uint_eq(need, strlen(text) + 1);
    ck_assert_msg(strstr(text, "\"type\":\"cpu\"") && strstr(text, "\"isa\":\"") &&
                      strstr(text, "\"threads\":"),
                  "%s", text);
    ck_assert_int_eq(mlsys_device_describe(device, text, 5, &need), MLSYS_E_BUFFER);
    ck_assert_str_eq(text, "{\"ty");
    check_ok(mlsys_device_describe(device, NULL, 0, &need));
    ck_assert_int_eq(mlsys_device_describe(device, NULL, 5, &need), MLSYS_E_ARG);
}
END_TEST

int main(void) {
    Suite *s = suite_create("tensor");
    TCase *t = tcase_create("tensor");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, views_read_what_they_name);
    tcase_add_test(t, views_share_and_copies_do_not);
    tcase_add_test(t, facts);
    tcase_add_test(t, refusals_name_the_trouble);
    tcase_add_test(t, wrap_borrows_until_the_last_use);
    tcase_add_test(t, wrap_gives_back_on_failure);
    tcase_add_test(t, block_tensors_move_whole_blocks);
    tcase_add_test(t, two_contexts_do_not_mix);
    tcase_add_test(t, device_describes_itself);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
