/* Datasets and tapes when each allocation of each call fails in turn, alone or with all later ones: the call says
 * E_NOMEM, works when it is tried again, with the same bits, and at the end nothing is left. */
#include "support/failing_alloc.h"

#include <check.h>
#include <mlsys/mlsys.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static failing_alloc memory;
static int64_t failures;

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s: %s", #call, mlsys_last_error());                 \
    } while (0)

/* steady: a call that failed gave back all it had taken. */
#define TRY(call, steady)                                                                          \
    do {                                                                                           \
        for (int64_t n_ = 1;; n_++) {                                                              \
            int64_t blocks_ = memory.blocks;                                                       \
            memory.all_after = n_ % 2;                                                             \
            memory.fail_at = memory.calls + n_;                                                    \
            mlsys_status st_ = (call);                                                             \
            memory.fail_at = 0;                                                                    \
            if (st_ == MLSYS_OK) break;                                                            \
            failures++;                                                                            \
            if (st_ != MLSYS_E_NOMEM) ck_abort_msg("%s: %s", #call, mlsys_last_error());           \
            if ((steady) && memory.blocks != blocks_)                                              \
                ck_abort_msg("%s: %lld blocks stayed", #call,                                      \
                             (long long)(memory.blocks - blocks_));                                \
        }                                                                                          \
    } while (0)

static mlsys_ctx ctx;
static mlsys_device device;
static mlsys_stream stream;

static void open_world(void) {
    mlsys_hooks hooks = failing_alloc_hooks(&memory);
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "threads", 2));
    OK(mlsys_ctx_create(c, &hooks, &ctx));
    OK(mlsys_release(c));
    OK(mlsys_device_get(ctx, MLSYS_CPU, 0, &device));
    OK(mlsys_stream_create(device, NULL, &stream));
    failures = 0;
}

static void close_world(void) {
    mlsys_stats stats = {.size = sizeof stats};
    OK(mlsys_release(stream));
    OK(mlsys_release(device));
    OK(mlsys_ctx_stats(ctx, &stats));
    ck_assert_uint_eq(stats.live_handles, 0);
    OK(mlsys_release(ctx));
    ck_assert_int_eq(memory.blocks, 0);
    ck_assert_int_eq(memory.bytes, 0);
    ck_assert_int_gt(failures, 10);
}

static void use(mlsys_dataset d, int n_fields) {
    mlsys_tensor out[2];
    TRY(mlsys_dataset_batch(d, 3, 5, n_fields, out), 1);
    for (int i = 0; i < n_fields; i++)
        OK(mlsys_release(out[i]));
    OK(mlsys_release(d));
}

static void use_file(const void *bytes, size_t n, const char *keys[][2], int64_t length,
                     int n_fields) {
    char path[] = "/tmp/mlsys-oom-XXXXXX";
    mlsys_config c;
    mlsys_dataset d;
    int fd = mkstemp(path);
    ck_assert(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && !close(fd));
    OK(mlsys_config_create(&c));
    for (int i = 0; keys[i][0]; i++)
        OK(mlsys_config_set_str(c, keys[i][0], keys[i][1]));
    if (length) OK(mlsys_config_set_i64(c, "length", length));
    TRY(mlsys_dataset_open(ctx, path, c, &d), 1);
    OK(mlsys_release(c));
    unlink(path);
    use(d, n_fields);
}

START_TEST(datasets) {
    static const unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 3, 0, 1, 2};
    static const char csv[] = "a,b,\"c d\"\n1,2,3\n4,5,6\n7,8,9\n";
    const uint16_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
#if defined(MLSI_HAVE_ZLIB)
    static const unsigned char zipped[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00,
                                           0x02, 0x03, 0x63, 0x60, 0xe0, 0x60, 0x64, 0x60,
                                           0x60, 0x60, 0x66, 0x60, 0x64, 0x02, 0x00, 0xe9,
                                           0xec, 0x55, 0xf9, 0x0b, 0x00, 0x00, 0x00}; /* idx */
    use_file(zipped, sizeof zipped, (const char *[][2]){{"format", "idx"}, {NULL, NULL}}, 0, 1);
#endif
    use_file(idx, sizeof idx, (const char *[][2]){{"format", "idx"}, {NULL, NULL}}, 0, 1);
    use_file(csv, sizeof csv - 1,
             (const char *[][2]){
                 {"format", "csv"}, {"columns", "\"c d\",a"}, {"label", "b"}, {NULL, NULL}},
             0, 2);
    use_file(ids, sizeof ids, (const char *[][2]){{"format", "tokens"}, {NULL, NULL}}, 2, 2);
    mlsys_tensor t;
    mlsys_dataset d;
    OK(mlsys_tensor_create(device, MLSYS_F32, 2, (int64_t[]){4, 3}, &t));
    OK(mlsys_tensor_random(t, stream, "normal", 1, 1));
    TRY(mlsys_dataset_wrap(ctx, 1, &t, NULL, &d), 1);
    OK(mlsys_release(t));
    use(d, 1);
}
END_TEST

/* y = tanh(x w^T) * x[:, 1:3], through views; then the gradient. */
static void forward_and_back(mlsys_tensor x, mlsys_tensor w, float dx[6], int inject) {
    mlsys_tape tape;
    mlsys_tensor in[2], wt, part, h = NULL, t = NULL, y = NULL, d = NULL;
    if (inject)
        TRY(mlsys_tape_create(stream, &tape), 1);
    else
        OK(mlsys_tape_create(stream, &tape));
    OK(mlsys_tensor_transpose(w, 0, 1, &wt));
    OK(mlsys_tensor_slice(x, 1, 1, 3, 1, &part));
    in[0] = x, in[1] = wt;
    if (inject)
        TRY(mlsys_op_run(stream, "matmul", 2, in, NULL, 1, &h), 0);
    else
        OK(mlsys_op_run(stream, "matmul", 2, in, NULL, 1, &h));
    if (inject)
        TRY(mlsys_op_run(stream, "tanh", 1, &h, NULL, 1, &t), 0);
    else
        OK(mlsys_op_run(stream, "tanh", 1, &h, NULL, 1, &t));
    in[0] = t, in[1] = part;
    if (inject)
        TRY(mlsys_op_run(stream, "mul", 2, in, NULL, 1, &y), 0);
    else
        OK(mlsys_op_run(stream, "mul", 2, in, NULL, 1, &y));
    if (inject)
        TRY(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &d), 0);
    else
        OK(mlsys_tape_gradient(tape, 1, &y, NULL, 1, &x, &d));
    OK(mlsys_tensor_read(d, stream, dx, 24));
    if (inject) {
        TRY(mlsys_tape_detach(tape, d), 0);
        TRY(mlsys_tape_clear(tape), 1);
    }
    mlsys_tensor all[] = {wt, part, h, t, y, d};
    for (int i = 0; i < 6; i++)
        OK(mlsys_release(all[i]));
    OK(mlsys_release(tape));
}

START_TEST(tapes) {
    mlsys_tensor x, w;
    float plain[6], injected[6];
    OK(mlsys_tensor_create(device, MLSYS_F32, 2, (int64_t[]){2, 3}, &x));
    OK(mlsys_tensor_create(device, MLSYS_F32, 2, (int64_t[]){2, 3}, &w));
    OK(mlsys_tensor_random(x, stream, "normal", 1, 1));
    OK(mlsys_tensor_random(w, stream, "normal", 1, 2));
    forward_and_back(x, w, plain, 0);
    forward_and_back(x, w, injected, 1);
    ck_assert(!memcmp(plain, injected, sizeof plain));
    OK(mlsys_release(x));
    OK(mlsys_release(w));
}
END_TEST

int main(void) {
    Suite *s = suite_create("oom_data");
    TCase *tc = tcase_create("oom_data");
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, datasets);
    tcase_add_test(tc, tapes);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
