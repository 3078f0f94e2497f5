/* DLPack: what we export is right field by field, what we import is used and given back once. */
#include "core/tensor.h"
#include "support/require.h"

#include <string.h>

/* The producer's and consumer's side, written from the specification, apart from the library's. */
typedef struct foreign {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct foreign *self);
    uint64_t flags;
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} foreign;

enum { READ_ONLY = 1, IS_COPIED = 2, HOST = 1 };

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
    ck_assert_uint_eq(s.live_handles, 2);
    mlsys_release(stream), mlsys_release(device), mlsys_release(ctx);
}

START_TEST(every_dtype_has_its_code) {
    static const struct {
        mlsys_dtype dtype;
        int code, bits;
    } rows[] = {{MLSYS_F64, 2, 64},  {MLSYS_F32, 2, 32},    {MLSYS_F16, 2, 16},
                {MLSYS_BF16, 4, 16}, {MLSYS_F8E4M3, 10, 8}, {MLSYS_F8E5M2, 12, 8},
                {MLSYS_I64, 0, 64},  {MLSYS_I32, 0, 32},    {MLSYS_I16, 0, 16},
                {MLSYS_I8, 0, 8},    {MLSYS_U8, 1, 8},      {MLSYS_BOOL, 6, 8}};
    int n, exported = 0;
    const mlsys_dtype *all = mlsi_dtype_all(&n);
    for (int i = 0; i < n; i++) {
        mlsys_tensor t, back;
        foreign *m = NULL;
        mlsys_dtype dtype;
        check_ok(mlsys_tensor_create(device, all[i], 1, (int64_t[]){256}, &t));
        mlsys_status st = mlsys_tensor_to_dlpack(t, NULL, 0, (void **)&m);
        if (mlsi_dtype_is_block(all[i])) {
            ck_assert_int_eq(st, MLSYS_E_UNSUPPORTED);
            ck_assert_ptr_null(m);
            mlsys_release(t);
            continue;
        }
        check_ok(st);
        ck_assert_int_eq(rows[exported].dtype, all[i]);
        ck_assert_int_eq(m->code, rows[exported].code);
        ck_assert_int_eq(m->bits, rows[exported++].bits);
        ck_assert_int_eq(m->lanes, 1);
        check_ok(mlsys_tensor_from_dlpack(device, m, NULL, &back));
        check_ok(mlsys_tensor_dtype(back, &dtype));
        ck_assert_int_eq(dtype, all[i]);
        mlsys_release(back), mlsys_release(t);
    }
    ck_assert_int_eq(exported, 12);
}
END_TEST

START_TEST(exports_describe_views) {
    mlsys_tensor t, v, w;
    foreign *m;
    void *base;
    check_ok(mlsys_tensor_create(device, MLSYS_F32, 3, (int64_t[]){2, 1, 3}, &t));
    check_ok(mlsys_tensor_data(t, &base, NULL));
    check_ok(mlsys_tensor_reverse(t, 2, &v));
    check_ok(mlsys_tensor_view(v, 3, (int64_t[]){2, 1, 3}, (int64_t[]){3, 77, -1}, 2, &w));
    check_ok(mlsys_tensor_to_dlpack(w, stream, 0, (void **)&m));
    ck_assert(m->major == 1 && m->flags == 0 && m->device_type == HOST && m->device_id == 0);
    ck_assert_int_eq(m->ndim, 3);
    ck_assert_ptr_eq((char *)m->data + m->byte_offset, (char *)base + 8);
    ck_assert(m->shape[0] == 2 && m->shape[1] == 1 && m->shape[2] == 3);
    ck_assert(m->strides[0] == 3 && m->strides[2] == -1);
    ck_assert_int_eq(m->strides[1], -3); /* extent 1: as if dense, not 77 */
    mlsys_release(t), mlsys_release(v), mlsys_release(w);
    ((float *)m->data)[-2] = 5; /* the export keeps the memory */
    check_ok(mlsys_dlpack_free(m));
    check_ok(mlsys_dlpack_free(NULL));
}
END_TEST

START_TEST(exports_of_empty_scalar_broadcast_and_copy) {
    mlsys_tensor t, v;
    foreign *m;
    check_ok(mlsys_tensor_create(device, MLSYS_U8, 2, (int64_t[]){0, 3}, &t));
    check_ok(mlsys_tensor_to_dlpack(t, NULL, 0, (void **)&m));
    ck_assert(m->data == NULL && m->ndim == 2 && m->shape[0] == 0 && m->strides);
    mlsys_dlpack_free(m), mlsys_release(t);

    check_ok(mlsys_tensor_create(device, MLSYS_U8, 0, NULL, &t));
    check_ok(mlsys_tensor_to_dlpack(t, NULL, 0, (void **)&m));
    ck_assert(m->data && m->ndim == 0);
    mlsys_dlpack_free(m);
    check_ok(mlsys_tensor_write(t, stream, "\x07", 1));
    check_ok(mlsys_tensor_broadcast(t, 1, (int64_t[]){4}, &v));
    check_ok(mlsys_tensor_to_dlpack(v, NULL, 0, (void **)&m));
    ck_assert(m->flags == READ_ONLY && m->strides[0] == 0);
    mlsys_dlpack_free(m);
    check_ok(mlsys_tensor_to_dlpack(v, NULL, 2, (void **)&m)); /* a copy may be written */
    ck_assert(m->flags == IS_COPIED && m->strides[0] == 1);
    ck_assert(!memcmp(m->data, "\x07\x07\x07\x07", 4));
    mlsys_dlpack_free(m);
    ck_assert_int_eq(mlsys_tensor_to_dlpack(v, NULL, 4, (void **)&m), MLSYS_E_ARG);
    mlsys_release(v), mlsys_release(t);
}
END_TEST

/* ---- import --------------------------------------------------------------------------------- */

typedef struct producer {
    foreign m;
    int deleted;
    int64_t shape[8], strides[8];
    float data[12];
} producer;

static void producer_delete(foreign *self) { ((producer *)self->manager)->deleted++; }

static void producer_init(producer *p) {
    *p = (producer){.m = {.major = 1,
                          .minor = 9,
                          .manager = p,
                          .deleter = producer_delete,
                          .data = p->data,
                          .device_type = HOST,
                          .ndim = 2,
                          .code = 2,
                          .bits = 32,
                          .lanes = 1,
                          .shape = p->shape,
                          .strides = p->strides},
                    .shape = {3, 4},
                    .strides = {4, 1}};
    for (int i = 0; i < 12; i++)
        p->data[i] = (float)i;
}

static void expect_values(mlsys_tensor t, int n, const float *want) {
    float got[12];
    check_ok(mlsys_tensor_read(t, stream, got, (uint64_t)n * 4));
    for (int i = 0; i < n; i++)
        REQUIRE(got[i] == want[i]);
}

START_TEST(imports_read_the_producers_memory) {
    producer p;
    mlsys_tensor t, v;
    producer_init(&p);
    check_ok(mlsys_tensor_from_dlpack(device, &p.m, stream, &t));
    expect_values(t, 12, p.data);
    p.data[5] = -1;
    expect_values(t, 12, p.data);
    check_ok(mlsys_tensor_slice(t, 0, 0, 1, 1, &v));
    mlsys_release(t);
    ck_assert_int_eq(p.deleted, 0);
    mlsys_release(v);
    ck_assert_int_eq(p.deleted, 1);

    producer_init(&p); /* no strides: row-major */
    p.m.strides = NULL;
    p.m.byte_offset = 8;
    p.shape[0] = 2, p.shape[1] = 5;
    check_ok(mlsys_tensor_from_dlpack(device, &p.m, stream, &t));
    expect_values(t, 10, p.data + 2);
    mlsys_release(t);
    ck_assert_int_eq(p.deleted, 1);

    producer_init(&p); /* rows backwards: data is the last row */
    p.m.data = p.data + 8;
    p.strides[0] = -4;
    check_ok(mlsys_tensor_from_dlpack(device, &p.m, NULL, &t));
    expect_values(t, 12, (float[]){8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3});
    float ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    check_ok(mlsys_tensor_write(t, stream, ones, sizeof ones));
    ck_assert(p.data[0] == 1 && p.data[11] == 1);
    ck_assert_int_eq(mlsys_tensor_view(t, 1, (int64_t[]){13}, NULL, 0, &v), MLSYS_E_SHAPE);
    mlsys_release(t);
    ck_assert_int_eq(p.deleted, 1);
}
END_TEST

START_TEST(imports_keep_read_only_and_allow_empty) {
    producer p;
    mlsys_tensor t;
    producer_init(&p);
    p.m.flags = READ_ONLY;
    check_ok(mlsys_tensor_from_dlpack(device, &p.m, NULL, &t));
    ck_assert_int_eq(mlsys_tensor_random(t, stream, "normal", 0, 0), MLSYS_E_ARG);
    ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "read-only"));
    foreign *m;
    check_ok(mlsys_tensor_to_dlpack(t, NULL, 0, (void **)&m));
    ck_assert_uint_eq(m->flags, READ_ONLY);
    mlsys_release(t);
    ck_assert_int_eq(p.deleted, 0); /* the export still holds it */
    mlsys_dlpack_free(m);
    ck_assert_int_eq(p.deleted, 1);

    producer_init(&p);
    p.m.data = NULL;
    p.shape[1] = 0;
    check_ok(mlsys_tensor_from_dlpack(device, &p.m, NULL, &t));
    expect_values(t, 0, NULL);
    mlsys_release(t);
    ck_assert_int_eq(p.deleted, 1);
}
END_TEST

static void expect_import(producer *p, mlsys_status want, const char *sentence) {
    mlsys_tensor t;
    mlsys_status st = mlsys_tensor_from_dlpack(device, &p->m, NULL, &t);
    if (st != want || t || !strstr(mlsys_last_error(), sentence))
        ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
    REQUIRE(p->deleted == 0); /* the caller keeps ownership */
    producer_init(p);
}

START_TEST(imports_refuse_what_they_cannot_mean) {
    producer p;
    producer_init(&p);
    p.m.major = 2;
    p.m.code = 77; /* a newer version: nothing else is looked at */
    expect_import(&p, MLSYS_E_VERSION, "DLPack 2.9");
    p.m.major = 0;
    expect_import(&p, MLSYS_E_VERSION, "DLPack 0.9");
    p.m.device_type = 2;
    expect_import(&p, MLSYS_E_DEVICE, "device type 2");
    p.m.lanes = 4;
    expect_import(&p, MLSYS_E_DTYPE, "lanes 4");
    p.m.code = 5;
    expect_import(&p, MLSYS_E_DTYPE, "code 5");
    p.m.bits = 4;
    expect_import(&p, MLSYS_E_DTYPE, "bits 4");
    p.m.ndim = 9;
    expect_import(&p, MLSYS_E_SHAPE, "rank 9");
    p.m.ndim = -1;
    expect_import(&p, MLSYS_E_SHAPE, "rank -1");
    p.m.shape = NULL;
    expect_import(&p, MLSYS_E_ARG, "NULL");
    p.shape[1] = -4;
    expect_import(&p, MLSYS_E_SHAPE, "negative");
    p.shape[0] = INT64_MAX;
    expect_import(&p, MLSYS_E_SHAPE, "overflow");
    p.strides[0] = INT64_MAX / 2;
    expect_import(&p, MLSYS_E_SHAPE, "overflow");
    p.strides[0] = INT64_MIN;
    expect_import(&p, MLSYS_E_SHAPE, "overflow");
    p.m.data = NULL;
    expect_import(&p, MLSYS_E_ARG, "data is NULL");
    p.m.byte_offset = 2;
    expect_import(&p, MLSYS_E_ARG, "aligned");
    ck_assert_int_eq(mlsys_tensor_from_dlpack(device, NULL, NULL, &(mlsys_tensor){0}), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_tensor_from_dlpack(NULL, &p.m, NULL, &(mlsys_tensor){0}),
                     MLSYS_E_HANDLE);
    ck_assert_int_eq(p.deleted, 0);
}
END_TEST

/* The context and its memory live until the consumer is done. */
START_TEST(exports_outlive_the_context) {
    mlsys_ctx c;
    mlsys_device d;
    mlsys_tensor t;
    foreign *m;
    check_ok(mlsys_ctx_create(NULL, NULL, &c));
    check_ok(mlsys_device_get(c, MLSYS_CPU, 0, &d));
    check_ok(mlsys_tensor_create(d, MLSYS_F32, 1, (int64_t[]){4}, &t));
    check_ok(mlsys_tensor_to_dlpack(t, NULL, 0, (void **)&m));
    mlsys_release(t), mlsys_release(d), mlsys_release(c);
    memset(m->data, 0, 16);
    check_ok(mlsys_tensor_from_dlpack(device, m, NULL, &t)); /* into another context */
    expect_values(t, 4, (float[]){0, 0, 0, 0});
    mlsys_release(t);
}
END_TEST

int main(void) {
    Suite *s = suite_create("dlpack");
    TCase *t = tcase_create("dlpack");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, every_dtype_has_its_code);
    tcase_add_test(t, exports_describe_views);
    tcase_add_test(t, exports_of_empty_scalar_broadcast_and_copy);
    tcase_add_test(t, imports_read_the_producers_memory);
    tcase_add_test(t, imports_keep_read_only_and_allow_empty);
    tcase_add_test(t, imports_refuse_what_they_cannot_mean);
    tcase_add_test(t, exports_outlive_the_context);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
