/* Datasets: the order of examples is a permutation in every epoch, resumes anywhere, and is the same for all threads. */
#include "support/dataset_case.h"
#include "support/random.h"
#include "train/shuffle.h"

#include <pthread.h>

/* ---- the order ------------------------------------------------------------------------------ */

START_TEST(every_epoch_is_a_permutation) {
    static const int64_t more[] = {511, 512, 513, 1000, 1023, 1024, 1025, 4097, 65536, 70001};
    static unsigned char seen[70001];
    for (int64_t k = 1; k < 300 + (int64_t)(sizeof more / sizeof more[0]); k++) {
        int64_t count = k < 300 ? k : more[k - 300];
        for (int64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (int64_t i = 0; i < count; i++) {
                int64_t at = mlsi_shuffle(7, epoch * 1000003, count, i);
                REQUIRE(at >= 0 && at < count && !seen[at]);
                seen[at] = 1;
            }
        }
    }
    const int64_t huge = ((int64_t)1 << 62) + 12345;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = mlsi_shuffle(7, 1, huge, huge - 1 - i);
        REQUIRE(at >= 0 && at < huge);
    }
}
END_TEST

static int same_order(uint64_t s, int64_t e, uint64_t t, int64_t f, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (mlsi_shuffle(s, e, count, i) != mlsi_shuffle(t, f, count, i)) return 0;
    return 1;
}

START_TEST(epochs_and_seeds_differ) {
    for (int64_t a = 0; a < 20; a++)
        for (int64_t b = 0; b < a; b++) {
            REQUIRE(!same_order(1, a, 1, b, 50));
            REQUIRE(!same_order((uint64_t)a, 3, (uint64_t)b, 3, 50));
        }
    /* Each example is as likely at each place: 6 standard deviations of 20000 draws of 1 in 10. */
    enum { COUNT = 10, DRAWS = 20000, SIX_SIGMA = 255 };
    static int hits[COUNT][COUNT];
    for (int64_t e = 0; e < DRAWS; e++)
        for (int64_t i = 0; i < COUNT; i++)
            hits[i][mlsi_shuffle(5, e, COUNT, i)]++;
    for (int i = 0; i < COUNT * COUNT; i++)
        REQUIRE(abs(hits[i / COUNT][i % COUNT] - DRAWS / COUNT) < SIX_SIGMA);
    /* The order is part of what a saved run resumes: it stays. */
    static const int64_t first[6] = {31036, 31335, 53518, 7023, 50401, 29091};
    for (int64_t i = 0; i < 6; i++)
        ck_assert_int_eq(mlsi_shuffle(1, 0, 60000, i), first[i]);
}
END_TEST

enum { N = 57, WIDTH = 3 };

/* Example i is 100 i, 100 i + 1, 100 i + 2, its label i. */
static mlsys_dataset numbered(const char *text) {
    float x[WIDTH][N];
    int64_t y[N];
    mlsys_tensor all[2], columns;
    for (int i = 0; i < N; i++) {
        y[i] = i;
        for (int k = 0; k < WIDTH; k++)
            x[k][i] = (float)(100 * i + k);
    }
    columns = tensor(MLSYS_F32, 2, (int64_t[]){WIDTH, N}, x);
    OK(mlsys_tensor_transpose(columns, 0, 1, &all[0])); /* examples need not be dense */
    all[1] = tensor(MLSYS_I64, 1, (int64_t[]){N}, y);
    mlsys_dataset d = wrap(2, all, text);
    OK(mlsys_release(columns));
    release(2, all);
    return d;
}

static void take(mlsys_dataset d, int64_t position, int64_t n, int64_t *labels) {
    mlsys_tensor out[2];
    OK(mlsys_dataset_batch(d, position, n, 2, out));
    const float *x = data_of(out[0]);
    memcpy(labels, data_of(out[1]), sizeof *labels * (size_t)n);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < WIDTH; k++)
            REQUIRE(x[i * WIDTH + k] == (float)(100 * labels[i] + k));
    release(2, out);
}

START_TEST(a_run_resumes_at_any_position) {
    enum { EPOCHS = 4, TOTAL = EPOCHS * N };
    test_random r = test_random_seed("resume", 11);
    int64_t whole[TOTAL], part[TOTAL], examples;
    int32_t fields;
    mlsys_dataset d = numbered("seed=9"), same = numbered("seed=9"), plain = numbered("shuffle=0");
    OK(mlsys_dataset_size(d, &examples, &fields));
    ck_assert_int_eq(examples, N);
    ck_assert_int_eq(fields, 2);
    take(d, 0, TOTAL, whole); /* one batch may reach over epochs */
    for (int e = 0; e < EPOCHS; e++) {
        int seen[N] = {0};
        for (int i = 0; i < N; i++)
            REQUIRE(!seen[whole[e * N + i]]++);
    }
    REQUIRE(memcmp(whole, whole + N, sizeof *whole * N));
    for (int64_t at = 0, n; at < TOTAL; at += n) {
        n = test_int(&r, 1, 20);
        if (n > TOTAL - at) n = TOTAL - at;
        take(same, at, n, part + at);
    }
    REQUIRE(!memcmp(whole, part, sizeof whole));
    take(plain, N - 1, 3, part);
    REQUIRE(part[0] == N - 1 && part[1] == 0 && part[2] == 1);
    take(d, INT64_MAX - 5, 5, part);
    OK(mlsys_release(d));
    OK(mlsys_release(same));
    OK(mlsys_release(plain));
}
END_TEST

static void *thread(void *d) {
    int64_t one[64], again[64];
    for (int64_t i = 0; i < 50; i++) {
        take(d, 10 * i, 64, one);
        take(d, 10 * i, 64, again);
        REQUIRE(!memcmp(one, again, sizeof one));
    }
    return NULL;
}

START_TEST(any_thread_may_take_batches) {
    pthread_t t[4];
    mlsys_dataset d = numbered("seed=2");
    for (int i = 0; i < 4; i++)
        REQUIRE(!pthread_create(&t[i], NULL, thread, d));
    for (int i = 0; i < 4; i++)
        REQUIRE(!pthread_join(t[i], NULL));
    OK(mlsys_release(d));
}
END_TEST

START_TEST(blocks_and_refusals_of_tensors) {
    unsigned char blocks[5 * 34];
    mlsys_tensor t, out[1], bad[2];
    mlsys_dataset d;
    for (size_t i = 0; i < sizeof blocks; i++)
        blocks[i] = (unsigned char)(i * 7);
    OK(mlsys_tensor_create(cpu, MLSYS_Q8_0, 2, (int64_t[]){5, 32}, &t));
    OK(mlsys_tensor_write(t, stream, blocks, sizeof blocks));
    d = wrap(1, &t, "shuffle=0");
    OK(mlsys_dataset_batch(d, 3, 2, 1, out));
    REQUIRE(!memcmp(data_of(out[0]), blocks + 3 * 34, 2 * 34));
    release(1, out);
    ck_assert_int_eq(mlsys_dataset_batch(d, 0, 1, 2, bad), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_dataset_batch(d, -1, 1, 1, out), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_dataset_batch(d, 0, 0, 1, out), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_dataset_batch(d, INT64_MAX, 1, 1, out), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_dataset_batch(d, 0, INT64_MAX, 1, out), MLSYS_E_SHAPE);
    REQUIRE(!out[0]);
    OK(mlsys_release(d));
    bad[0] = t;
    OK(mlsys_tensor_create(cpu, MLSYS_F32, 1, (int64_t[]){4}, &bad[1]));
    ck_assert_int_eq(mlsys_dataset_wrap(ctx, 2, bad, NULL, &d), MLSYS_E_SHAPE);
    ck_assert_int_eq(mlsys_dataset_wrap(ctx, 0, bad, NULL, &d), MLSYS_E_ARG);
    mlsys_config c = settings("length=2");
    ck_assert_int_eq(mlsys_dataset_wrap(ctx, 1, &bad[1], c, &d), MLSYS_E_DTYPE);
    ck_assert_int_eq(mlsys_dataset_wrap(ctx, 2, bad, c, &d), MLSYS_E_ARG);
    OK(mlsys_release(c));
    release(2, bad);
}
END_TEST

int main(void) {
    Suite *s = suite_create("dataset");
    TCase *tc = tcase_create("dataset");
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, every_epoch_is_a_permutation);
    tcase_add_test(tc, epochs_and_seeds_differ);
    tcase_add_test(tc, a_run_resumes_at_any_position);
    tcase_add_test(tc, any_thread_may_take_batches);
    tcase_add_test(tc, blocks_and_refusals_of_tensors);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
