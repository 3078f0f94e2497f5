/* GGUF files that break a rule: each is refused by a sentence that names file, field and value,
 * without a wrong read, a leak, or memory out of proportion. */
#include "model/gguf.h"
#include "support/gguf_writer.h"

/* The fuzz target is the soundness check of an opened index. */
#include "fuzz/fuzz_gguf.c"

#include <check.h>
#include <stdio.h>

/* Opens and closes; fails the test when anything stays allocated or memory exceeds the bound.
 * Called often, and a passed ck_assert costs a message to the runner. */
static mlsys_status open_bytes(const uint8_t *file, size_t size) {
    mlsi_alloc a;
    mlsi_gguf *g;
    mlsi_alloc_init(&a, NULL);
    mlsys_status st = mlsi_gguf_open(&a, "t.gguf", file, size, &g);
    if (a.peak_bytes > 10 * (uint64_t)size + 128 * 1024) ck_abort_msg("memory out of proportion");
    if ((st == MLSYS_OK) != (g != NULL)) ck_abort_msg("status %d, index %p", st, (void *)g);
    mlsi_gguf_close(g);
    if (a.live_bytes) ck_abort_msg("leak");
    return st;
}

static mlsys_status open_writer(gguf_writer *w) {
    size_t size;
    uint8_t *file = gguf_writer_finish(w, &size);
    gguf_writer_free(w);
    mlsys_status st = open_bytes(file, size);
    free(file);
    return st;
}

static void expect(gguf_writer *w, mlsys_status want, const char *text) {
    mlsys_status st = open_writer(w);
    ck_assert_msg(st == want, "status %d, wanted %d (%s): %s", st, want, text, mlsys_last_error());
    ck_assert_msg(strstr(mlsys_last_error(), text) != NULL, "\"%s\" is not in: %s", text,
                  mlsys_last_error());
    gguf_writer_init(w);
}

START_TEST(preamble) {
    gguf_writer w;
    size_t size;
    gguf_writer_init(&w);
    static const uint32_t versions[] = {0, 1, 4, 0xFFFFFFFFu};
    for (size_t i = 0; i < 4; i++) {
        char text[64];
        snprintf(text, sizeof text, "t.gguf: GGUF version %u is not supported", versions[i]);
        w.version = versions[i];
        expect(&w, MLSYS_E_UNSUPPORTED, text);
    }
    w.version = 0x03000000;
    expect(&w, MLSYS_E_UNSUPPORTED, "t.gguf: the file is big-endian");
    uint8_t *file = gguf_writer_finish(&w, &size);
    file[3] = 'f';
    ck_assert_int_eq(open_bytes(file, size), MLSYS_E_FORMAT);
    ck_assert_str_eq(mlsys_last_error(),
                     "t.gguf: not a GGUF file: the first bytes are 47 47 55 66, "
                     "not \"GGUF\"");
    free(file);
    mlsi_gguf *g;
    ck_assert_int_eq(
        mlsi_gguf_open(&mlsi_alloc_process, "t.gguf", (const void *)(uintptr_t)4, 100, &g),
        MLSYS_E_ARG);
    ck_assert_ptr_null(g);
}
END_TEST

/* Counts and lengths around every power of two and just below 2^64. */
START_TEST(hostile_counts_and_lengths) {
    for (int bit = 0; bit <= 64; bit++) {
        for (int delta = -8; delta <= 8; delta++) {
            uint64_t v = (bit < 64 ? (uint64_t)1 << bit : 0) + (uint64_t)(int64_t)delta;
            gguf_writer w;
            gguf_writer_init(&w);
            gguf_put_str(&w, "k", "v");
            w.n_kv = v;
            if (v > 1) ck_assert_int_ne(open_writer(&w), MLSYS_OK);
            gguf_writer_free(&w);
            gguf_writer_init(&w);
            gguf_put_str(&w, "k", "v");
            w.n_tensors = v;
            if (v > 0) ck_assert_int_ne(open_writer(&w), MLSYS_OK);
            gguf_writer_free(&w);
            for (uint32_t type = 0; type < 14; type++) { /* array lengths, 13: a string's length */
                if (v <= 64) continue;                   /* fits in the padding */
                gguf_writer_init(&w);
                if (type < 13)
                    gguf_put_array(&w, "k", type, 0, NULL);
                else
                    gguf_put_str(&w, "k", "");
                memcpy(w.kv.data + w.kv.len - 8, &v, 8);
                /* the last entry: a length that wraps would leave nothing to stumble over */
                if (delta & 1) gguf_put_raw(&w, "pad", 0, "0123456789abcdef", 1);
                ck_assert_int_eq(open_writer(&w), MLSYS_E_FORMAT);
            }
            gguf_writer_init(&w);
            gguf_put_u8(&w, "k", 1);
            memcpy(w.kv.data, &v, 8); /* key length */
            if (v != 1) ck_assert_int_eq(open_writer(&w), MLSYS_E_FORMAT);
            gguf_writer_free(&w);
        }
    }
}
END_TEST

START_TEST(metadata_rules) {
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_put_u8(&w, "k", 1);
    gguf_put_str(&w, "k", "2");
    expect(&w, MLSYS_E_FORMAT, "t.gguf: metadata key \"k\" occurs twice");
    gguf_put_raw(&w, "k", 13, "", 1);
    expect(&w, MLSYS_E_FORMAT, "t.gguf: metadata \"k\": value type 13 is unknown (0 to 12)");
    gguf_put_array(&w, "k", 77, 0, NULL);
    expect(&w, MLSYS_E_FORMAT, "t.gguf: metadata \"k\": array element type 77 is unknown");
    gguf_put_raw(&w, "k", 7, "\002", 1);
    expect(&w, MLSYS_E_FORMAT, "metadata \"k\": bool 0 has the value 2, neither 0 nor 1");
    gguf_put_array(&w, "k", 7, 3, "\000\001\377");
    expect(&w, MLSYS_E_FORMAT, "metadata \"k\": bool 2 has the value 255");
    gguf_put_u8(&w, "", 1);
    expect(&w, MLSYS_E_FORMAT, "t.gguf: metadata 0: key has 0 bytes, allowed are 1 to 65535");
    char *key = malloc(65537);
    memset(key, 'k', 65536);
    key[65536] = 0;
    gguf_put_u8(&w, key, 1);
    expect(&w, MLSYS_E_FORMAT, "metadata 0: key has 65536 bytes");
    key[65535] = 0;
    gguf_put_u8(&w, key, 1);
    ck_assert_int_eq(open_writer(&w), MLSYS_OK);
    gguf_writer_init(&w);
    key[200] = 0;
    gguf_put_raw(&w, key, 13, "", 1);
    expect(&w, MLSYS_E_FORMAT, "kkk...\": value type 13");
    free(key);
    static const char *const bad[] = {"a\nb",
                                      "a\x7F",
                                      "\x80",
                                      "\xC1\x80",
                                      "\xE0\x80\x80",
                                      "\xED\xA0\x80",
                                      "\xF4\x90\x80\x80",
                                      "\xC3",
                                      "\xF0\x9F\x98",
                                      "\xFF",
                                      "\t"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gguf_put_u8(&w, bad[i], 1);
        expect(&w, MLSYS_E_FORMAT, "metadata 0: key is not printable UTF-8: byte ");
    }
    gguf_put_u8(&w, "k", 1);
    w.kv.data[8] = 0; /* a NUL inside */
    expect(&w, MLSYS_E_FORMAT, "metadata 0: key is not printable UTF-8: byte 0 is 0x00");
}
END_TEST

START_TEST(alignment_rules) {
    gguf_writer w;
    gguf_writer_init(&w);
    static const uint32_t bad[] = {0, 1, 4, 12, 33, 0xFFFFFFFFu};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "must be a power of two of at least 8, is %u", bad[i]);
        gguf_put_u32(&w, "general.alignment", bad[i]);
        expect(&w, MLSYS_E_FORMAT, text);
    }
    gguf_put_u64(&w, "general.alignment", 32);
    expect(&w, MLSYS_E_FORMAT, "metadata \"general.alignment\": must be u32, is u64");
    gguf_put_u32(&w, "general.alignment", 0x80000000u);
    ck_assert_int_eq(open_writer(&w), MLSYS_OK); /* no tensor needs the data section */
    gguf_writer_init(&w);
    const uint64_t one[1] = {1};
    gguf_put_alignment(&w, 64);
    gguf_put_tensor_raw(&w, "x", 1, 1, one, 0, 32);
    gguf_bytes_add(&w.data, NULL, 128);
    expect(&w, MLSYS_E_FORMAT, "tensor \"x\": offset 32 is not a multiple of the alignment 64");
}
END_TEST

START_TEST(nesting) {
    for (int depth = 1; depth <= 6; depth++) {
        gguf_writer w;
        gguf_writer_init(&w);
        gguf_put_raw(&w, "k", 9, NULL, 0);
        for (int i = 1; i < depth; i++) {
            gguf_bytes_u32(&w.kv, 9);
            gguf_bytes_u64(&w.kv, 1);
        }
        gguf_bytes_u32(&w.kv, 0);
        gguf_bytes_u64(&w.kv, 0);
        mlsys_status st = open_writer(&w);
        ck_assert_int_eq(st, depth <= MLSI_GGUF_MAX_NESTING ? MLSYS_OK : MLSYS_E_UNSUPPORTED);
    }
    ck_assert_str_eq(mlsys_last_error(), "t.gguf: metadata \"k\": arrays are nested deeper than 4");
}
END_TEST

START_TEST(tensor_rules) {
    gguf_writer w;
    gguf_writer_init(&w);
    const uint64_t dims[5] = {32, 1, 1, 1, 1}, odd[2] = {33, 2}, huge[1] = {(uint64_t)1 << 63};
    gguf_put_tensor_raw(&w, "x", 1, 1, dims, 10, 0);
    expect(&w, MLSYS_E_UNSUPPORTED, "t.gguf: tensor \"x\": type 10 (Q2_K) is not supported");
    gguf_put_tensor_raw(&w, "x", 1, 1, dims, 31, 0);
    expect(&w, MLSYS_E_UNSUPPORTED, "t.gguf: tensor \"x\": type 31 (unknown) is not supported");
    gguf_put_tensor_raw(&w, "x", 5, 5, dims, 0, 0);
    expect(&w, MLSYS_E_FORMAT, "t.gguf: tensor \"x\": has 5 dims, GGUF allows 4");
    gguf_put_tensor_raw(&w, "x", 0xFFFFFFFFu, 4, dims, 0, 0);
    expect(&w, MLSYS_E_FORMAT, "has 4294967295 dims");
    gguf_put_tensor_raw(&w, "x", 2, 2, odd, 3, 0);
    expect(&w, MLSYS_E_FORMAT, "dim 0 is 33, not a multiple of the 32 elements of a Q4_1 block");
    gguf_put_tensor_raw(&w, "x", 0, 0, NULL, 3, 0);
    expect(&w, MLSYS_E_FORMAT, "dim 0 is 1, not a multiple");
    gguf_put_tensor_raw(&w, "x", 1, 1, huge, 24, 0);
    expect(&w, MLSYS_E_FORMAT, "dim 0 is 9223372036854775808, above 2^63-1");
    gguf_put_tensor_raw(&w, "", 1, 1, dims, 0, 0);
    expect(&w, MLSYS_E_FORMAT, "t.gguf: tensor 0: name has 0 bytes");
    gguf_put_tensor(&w, "x", 0, 1, dims, NULL);
    gguf_put_tensor(&w, "y", 0, 1, dims, NULL);
    gguf_put_tensor(&w, "x", 0, 1, dims, NULL);
    expect(&w, MLSYS_E_FORMAT, "t.gguf: tensor name \"x\" occurs twice");
    gguf_put_tensor_raw(&w, "x", 1, 1, dims, 0, 0);
    gguf_bytes_add(&w.data, NULL, 96);
    expect(&w, MLSYS_E_FORMAT,
           "tensor \"x\": needs 128 bytes at offset 0 of the data, the file has 96 bytes of data");
    gguf_put_tensor_raw(&w, "x", 1, 1, dims, 0, (uint64_t)0 - 32);
    gguf_bytes_add(&w.data, NULL, 256);
    expect(&w, MLSYS_E_FORMAT, "needs 128 bytes at offset 18446744073709551584");
}
END_TEST

START_TEST(overlap) {
    const uint64_t n[1] = {32}, zero[1] = {0}; /* 128 bytes */
    for (uint64_t second = 0; second <= 256; second += 32) {
        gguf_writer w;
        gguf_writer_init(&w);
        gguf_put_tensor_raw(&w, "a", 1, 1, n, 0, 128);
        gguf_put_tensor_raw(&w, "e", 1, 1, zero, 0, 160); /* empty: never overlaps */
        gguf_put_tensor_raw(&w, "b", 1, 1, n, 0, second);
        gguf_bytes_add(&w.data, NULL, 384);
        bool apart = second == 0 || second == 256;
        ck_assert_int_eq(open_writer(&w), apart ? MLSYS_OK : MLSYS_E_FORMAT);
        if (!apart) ck_assert_ptr_nonnull(strstr(mlsys_last_error(), "overlap: 128 bytes at file"));
    }
}
END_TEST

/* BO-14. The oracle multiplies in 128 bits, one factor at a time. */
START_TEST(dims_grid) {
    static const uint64_t grid[] = {0,
                                    1,
                                    2,
                                    (uint64_t)1 << 31,
                                    ((uint64_t)1 << 32) + 1,
                                    ((uint64_t)1 << 42) + 1,
                                    INT64_MAX,
                                    (uint64_t)1 << 63,
                                    UINT64_MAX};
    static const struct {
        uint32_t type, elems, bytes;
    } types[] = {{0, 1, 4},      {1, 1, 2},      {2, 32, 18}, {3, 32, 20},
                 {6, 32, 22},    {7, 32, 24},    {8, 32, 34}, {12, 256, 144},
                 {13, 256, 176}, {14, 256, 210}, {24, 1, 1},  {25, 1, 2},
                 {26, 1, 4},     {27, 1, 8},     {28, 1, 8},  {30, 1, 2}};
    enum { G = sizeof grid / sizeof grid[0], PRESENT = 64 };
    int accepted = 0;
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        for (int i = 0; i < G * G * G * G; i++) {
            uint64_t ne[4] = {grid[i % G], grid[i / G % G], grid[i / G / G % G],
                              grid[i / G / G / G]};
            unsigned __int128 count = 1;
            bool legal = ne[0] % types[k].elems == 0, empty = false;
            for (int d = 0; d < 4; d++) {
                count *= ne[d] ? ne[d] : 1;
                empty = empty || ne[d] == 0;
                if (ne[d] > INT64_MAX || count > INT64_MAX) {
                    legal = false;
                    break;
                }
            }
            legal = legal && count * types[k].bytes <= INT64_MAX;
            legal = legal && (empty || count / types[k].elems * types[k].bytes <= PRESENT);
            gguf_writer w;
            gguf_writer_init(&w);
            gguf_put_tensor_raw(&w, "x", 4, 4, ne, types[k].type, 0);
            gguf_bytes_add(&w.data, NULL, PRESENT);
            mlsys_status st = open_writer(&w);
            if (st != (legal ? MLSYS_OK : MLSYS_E_FORMAT))
                ck_abort_msg("type %u dims %llu %llu %llu %llu: status %d", types[k].type,
                             (unsigned long long)ne[0], (unsigned long long)ne[1],
                             (unsigned long long)ne[2], (unsigned long long)ne[3], st);
            accepted += legal;
        }
    }
    ck_assert_int_gt(accepted, 1000); /* the grid holds both kinds */
}
END_TEST

static uint8_t *everything(bool pad_end, size_t *size) {
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_put_everything(&w);
    w.pad_end = pad_end;
    /* the last tensor is empty: end with one that has bytes */
    const uint64_t n[1] = {5};
    gguf_put_random(&w, "last", 0, 1, n, 1, 1.0f);
    uint8_t *file = gguf_writer_finish(&w, size);
    gguf_writer_free(&w);
    return file;
}

START_TEST(every_truncation) {
    size_t size;
    uint8_t *file = everything(false, &size);
    ck_assert_int_eq(open_bytes(file, size), MLSYS_OK);
    for (size_t n = 0; n < size; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        memcpy(cut, file, n);
        ck_assert_msg(open_bytes(cut, n) == MLSYS_E_FORMAT, "%zu of %zu bytes were accepted", n,
                      size);
        /* what was needed, and what there is */
        const char *e = mlsys_last_error();
        ck_assert_msg(strstr(e, "needs") || strstr(e, "do not fit"), "%zu bytes: %s", n, e);
        LLVMFuzzerTestOneInput(cut, n);
        free(cut);
    }
    free(file);
}
END_TEST

START_TEST(every_bit_flip) {
    size_t size;
    uint8_t *file = everything(true, &size);
    for (size_t i = 0; i < size * 8; i++) {
        file[i / 8] ^= (uint8_t)(1u << i % 8);
        LLVMFuzzerTestOneInput(file, size);
        file[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    free(file);
}
END_TEST

/* ---- allocation failure --------------------------------------------------------------------- */

typedef struct failing {
    int left; /* successful calls until the failure */
    bool for_ever;
} failing;

static void *failing_alloc(void *user, mlsys_devtype type, int32_t index, uint64_t bytes,
                           uint64_t align) {
    failing *f = user;
    void *p = NULL;
    (void)type, (void)index;
    bool fail = f->for_ever ? f->left <= 0 : f->left == 0;
    f->left--;
    return fail || posix_memalign(&p, align, bytes) ? NULL : p;
}

static void failing_dealloc(void *user, mlsys_devtype type, int32_t index, void *p,
                            uint64_t bytes) {
    (void)user, (void)type, (void)index, (void)bytes;
    free(p);
}

START_TEST(allocation_failures) {
    size_t size;
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_put_everything(&w);
    const char **many = calloc(20000, sizeof *many); /* string tables outgrow one chunk */
    for (int i = 0; i < 20000; i++)
        many[i] = "w";
    for (int i = 0; i < 5; i++) {
        char key[32];
        snprintf(key, sizeof key, "many.%d", i);
        gguf_put_strs(&w, key, 20000, many);
    }
    uint8_t *file = gguf_writer_finish(&w, &size);
    gguf_writer_free(&w);
    free(many);
    for (int mode = 0; mode < 2; mode++) {
        int n = 0;
        for (mlsys_status st = MLSYS_E_NOMEM; st != MLSYS_OK; n++) {
            failing f = {.left = n, .for_ever = mode};
            mlsys_hooks h = {
                .size = sizeof h, .user = &f, .alloc = failing_alloc, .dealloc = failing_dealloc};
            mlsi_alloc a;
            mlsi_gguf *g;
            mlsi_alloc_init(&a, &h);
            st = mlsi_gguf_open(&a, "t.gguf", file, size, &g);
            ck_assert_msg(st == MLSYS_OK || st == MLSYS_E_NOMEM, "%s", mlsys_last_error());
            mlsi_gguf_close(g);
            ck_assert_uint_eq(a.live_bytes, 0);
            ck_assert_int_lt(n, 1000);
        }
        ck_assert_int_gt(n, 6); /* there were that many places to fail at */
    }
    free(file);
}
END_TEST

int main(void) {
    Suite *s = suite_create("gguf_reject");
    TCase *t = tcase_create("reject");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, preamble);
    tcase_add_test(t, hostile_counts_and_lengths);
    tcase_add_test(t, metadata_rules);
    tcase_add_test(t, alignment_rules);
    tcase_add_test(t, nesting);
    tcase_add_test(t, tensor_rules);
    tcase_add_test(t, overlap);
    tcase_add_test(t, dims_grid);
    tcase_add_test(t, every_truncation);
    tcase_add_test(t, every_bit_flip);
    tcase_add_test(t, allocation_failures);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
