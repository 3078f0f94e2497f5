/* Safetensors files: what is written reads back; every broken rule of a file is refused by name. */
#include "model/safetensors.h"
#include "support/program_case.h"
#include "support/skip.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static program_case pc;
static char folder[64], path[96];

static void setup(void) {
    strcpy(folder, "/tmp/mlsys-st-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.safetensors", folder);
    pc_open(&pc, 1);
}

static void teardown(void) {
    pc_close(&pc);
    unlink(path);
    ck_assert_msg(rmdir(folder) == 0, "something was left in %s", folder);
}

#if !defined(MLSI_HAVE_JANSSON)

START_TEST(absent) {
    mlsys_model m;
    pc_expect(mlsys_tensors_save(path, 0, NULL, NULL, 0, NULL, NULL), MLSYS_E_UNSUPPORTED,
              "built without jansson");
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fwrite("\2\0\0\0\0\0\0\0{}", 1, 10, f);
    fclose(f);
    pc_expect(mlsys_model_open(pc.ctx_handle, path, NULL, &m), MLSYS_E_UNSUPPORTED, "jansson");
    TEST_SKIP("safetensors: built without jansson");
}
END_TEST

#else

static void write_bytes(const void *p, size_t n) {
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert(fwrite(p, 1, n, f) == n);
    ck_assert(fclose(f) == 0);
}

/* Header, then n bytes 0, 1, 0, 1, ... */
static void write_file(const char *header, size_t n) {
    uint64_t length = strlen(header);
    char all[4096] = {0};
    memcpy(all, &length, 8);
    memcpy(all + 8, header, length);
    for (size_t i = 0; i < n; i++)
        all[8 + length + i] = (char)(i % 2);
    write_bytes(all, 8 + length + n);
}

static char *read_whole(size_t *n) {
    static char all[1 << 16];
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    *n = fread(all, 1, sizeof all, f);
    fclose(f);
    return all;
}

static mlsys_status try_open(void) {
    mlsys_model m = NULL;
    mlsys_status st = mlsys_model_open(pc.ctx_handle, path, NULL, &m);
    ck_assert((st == MLSYS_OK) == (m != NULL));
    OK(mlsys_release(m));
    if (st != MLSYS_OK) {
        ck_assert_msg(mlsys_last_status() == st, "%s", mlsys_last_error());
        ck_assert_msg(strstr(mlsys_last_error(), "a.safetensors") != NULL, "%s",
                      mlsys_last_error());
    }
    return st;
}

static const mlsys_dtype all_dtypes[] = {MLSYS_F64,    MLSYS_F32,    MLSYS_F16, MLSYS_BF16,
                                         MLSYS_F8E4M3, MLSYS_F8E5M2, MLSYS_I64, MLSYS_I32,
                                         MLSYS_I16,    MLSYS_I8,     MLSYS_U8,  MLSYS_BOOL};
enum { DTYPES = (int)(sizeof all_dtypes / sizeof all_dtypes[0]) };

START_TEST(round_trip) {
    static const char *const keys[] = {"format", "text", "empty"};
    static const char *const values[] = {"pt", "a \"quoted\" line\nand \xc3\xa9, \xe2\x82\xac", ""};
    const int64_t shape[3] = {3, 2, 5}, empty[2] = {0, 4};
    kc_rng r = kc_seed(5);
    mlsys_tensor t[DTYPES + 3];
    char names_of[DTYPES + 3][32], text[128];
    const char *names[DTYPES + 3];
    uint64_t need;
    mlsys_model m;
    for (int i = 0; i < DTYPES; i++)
        t[i] = pc_random(&pc, &r, all_dtypes[i], 3, shape);
    t[DTYPES] = pc_random(&pc, &r, MLSYS_F32, 0, NULL);
    t[DTYPES + 1] = pc_random(&pc, &r, MLSYS_I16, 2, empty);
    const int32_t perm[3] = {2, 0, 1};
    OK(mlsys_tensor_permute(t[1], 3, perm, &t[DTYPES + 2]));
    for (int i = 0; i < DTYPES + 3; i++) {
        snprintf(names_of[i], sizeof names_of[i], "layer.%d/\xc3\xbc \"%d\"", i, i * 7);
        names[i] = names_of[i];
    }
    OK(mlsys_tensors_save(path, DTYPES + 3, names, t, 3, keys, values));
    OK(mlsys_model_open(pc.ctx_handle, path, NULL, &m));
    for (int i = 0; i < DTYPES + 3; i++) {
        mlsys_tensor back;
        OK(mlsys_model_tensor(m, names[i], &back));
        ck_assert_msg(rg_difference(back, t[i]) < 0, "%s", names[i]);
        mlsi_view v = rg_view(back);
        ck_assert((uintptr_t)v.data % (uintptr_t)mlsi_dtype_align(v.dtype) == 0);
        OK(mlsys_release(back));
    }
    for (int k = 0; k < 3; k++) {
        OK(mlsys_model_meta(m, keys[k], text, sizeof text, &need));
        ck_assert_str_eq(text, values[k]);
    }
    char lines[4096];
    OK(mlsys_model_describe(m, lines, sizeof lines, &need));
    ck_assert_msg(strstr(lines, "format: safetensors\n") && strstr(lines, "tensors: 15\n") &&
                      strstr(lines, ": f8e4m3[3,2,5], 30 bytes"),
                  "%s", lines);
    pc_release(1, &t[0]);
    pc_expect(mlsys_model_tensor(m, "x", &t[0]), MLSYS_E_NOTFOUND, "no tensor \"x\" among 15");
    OK(mlsys_release(m));
    OK(mlsys_model_open(pc.ctx_handle, path, NULL, &m));
    OK(mlsys_model_tensor(m, names[0], &t[0]));
    OK(mlsys_release(m)); /* the tensor keeps the file */
    ck_assert(rg_view(t[0]).dtype == MLSYS_F64);
    pc_release(DTYPES + 3, t);
}
END_TEST

START_TEST(legal_but_odd) {
    mlsys_model m;
    mlsys_tensor t;
    /* an f32 at byte 1, empty tensors on a border, spaces and line ends, the data in another order */
    write_file("{ \"b\": {\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]},\n"
               "\"a\":{\"shape\":[1],\"data_offsets\":[0,1],\"dtype\":\"U8\"},"
               "\"e\":{\"dtype\":\"I64\",\"shape\":[0,9],\"data_offsets\":[1,1]}} \n  ",
               5);
    OK(mlsys_model_open(pc.ctx_handle, path, NULL, &m));
    OK(mlsys_model_tensor(m, "b", &t));
    mlsi_view v = rg_view(t);
    ck_assert(memcmp(v.data, "\1\0\1\0", 4) == 0 && (uintptr_t)v.data % 4 == 0);
    OK(mlsys_release(t));
    OK(mlsys_release(m));
    write_file("{}", 0);
    OK(mlsys_model_open(pc.ctx_handle, path, NULL, &m));
    mlsys_graph g;
    ck_assert(mlsys_model_graph(m, NULL, &g) != MLSYS_OK); /* no architecture */
    OK(mlsys_release(m));
    write_file("{\"__metadata__\":{\"a\":\"b\"}}", 0);
    OK(try_open());
}
END_TEST

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
static const struct {
    const char *header;
    size_t data;
    mlsys_status code;
    const char *text;
} broken[] = {
    {"{", 0, MLSYS_E_FORMAT, "header"},
    {"{}x", 0, MLSYS_E_FORMAT, "end of file expected"},
    {"[]", 0, MLSYS_E_FORMAT, "no JSON object"},
    {" {}", 0, MLSYS_E_FORMAT, "no JSON object"},
    {"{\"a\":1}", 0, MLSYS_E_FORMAT, "tensor \"a\": not an object of dtype"},
    {"{\"a\":{}}", 0, MLSYS_E_FORMAT, "tensor \"a\": not an object of dtype"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]}}", 1, MLSYS_E_FORMAT,
     "tensor \"a\": data_offsets is no list"},
    {"{" T("a", "X8", "[1]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "dtype \"X8\" is unknown"},
    {"{" T("a", "U32", "[1]", "[0,4]") "}", 4, MLSYS_E_UNSUPPORTED, "dtype U32 is not supported"},
    {"{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, MLSYS_E_FORMAT,
     "dtype is no text"},
    {"{" T("a", "U8", "1", "[0,1]") "}", 1, MLSYS_E_FORMAT, "shape is no list"},
    {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "at most 8"},
    {"{" T("a", "U8", "[-1]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "an extent is no integer"},
    {"{" T("a", "U8", "[1.0]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "an extent is no integer"},
    {"{" T("a", "U8", "[99999999999999999999]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "integer"},
    {"{" T("a", "F64", "[4294967296,4294967296]", "[0,0]") "}", 0, MLSYS_E_FORMAT,
     "do not fit 63 bits"},
    {"{" T("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0, MLSYS_E_FORMAT, "63 bits"},
    {"{" T("a", "U8", "[1]", "[0]") "}", 1, MLSYS_E_FORMAT, "no list of two"},
    {"{" T("a", "U8", "[1]", "[\"0\",1]") "}", 1, MLSYS_E_FORMAT, "data_offsets[0] is no integer"},
    {"{" T("a", "U8", "[1]", "[1,0]") "}", 1, MLSYS_E_FORMAT, "data_offsets [1, 0]"},
    {"{" T("a", "U8", "[2]", "[0,2]") "}", 1, MLSYS_E_FORMAT, "[0, 2] in 1 bytes of data"},
    {"{" T("a", "U8", "[2]", "[9223372036854775805,9223372036854775807]") "}", 1, MLSYS_E_FORMAT,
     "in 1 bytes"},
    {"{" T("a", "F32", "[1]", "[0,3]") "}", 3, MLSYS_E_FORMAT, "3 bytes of data, dtype and shape"},
    {"{" T("a", "U8", "[]", "[0,0]") "}", 0, MLSYS_E_FORMAT, "0 bytes of data, dtype and shape"},
    {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[1,3]") "}", 3, MLSYS_E_FORMAT,
     "tensor \"b\" overlaps another one"},
    {"{" T("a", "U8", "[2]", "[0,2]") "," T("b", "U8", "[2]", "[0,2]") "}", 2, MLSYS_E_FORMAT,
     "overlaps another one"},
    {"{" T("a", "U8", "[1]", "[0,1]") "," T("b", "U8", "[1]", "[2,3]") "}", 3, MLSYS_E_FORMAT,
     "tensor \"b\" leaves a gap"},
    {"{" T("a", "U8", "[1]", "[1,2]") "}", 2, MLSYS_E_FORMAT, "tensor \"a\" leaves a gap"},
    {"{" T("a", "U8", "[1]", "[0,1]") "}", 2, MLSYS_E_FORMAT, "1 bytes behind the last tensor"},
    {"{}", 1, MLSYS_E_FORMAT, "1 bytes behind the last tensor"},
    {"{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[0,1]") "}", 1, MLSYS_E_FORMAT,
     "duplicate object key"},
    {"{" T("", "U8", "[1]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "tensor name"},
    {"{" T("a\\nb", "U8", "[1]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "control character at byte 1"},
    {"{" T("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1, MLSYS_E_FORMAT, "header"},
    {"{\"\xff\":1}", 0, MLSYS_E_FORMAT, "header"},
    {"{\"__metadata__\":[]}", 0, MLSYS_E_FORMAT, "__metadata__ is no object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, MLSYS_E_FORMAT, "metadata \"a\" is no text"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, MLSYS_E_FORMAT, "duplicate"},
    {"{" T("b", "BOOL", "[3]", "[0,3]") "," T("c", "U8", "[1]", "[3,4]") "}", 4, 0, ""},
};

START_TEST(broken_files) {
    write_file(broken[_i].header, broken[_i].data);
    pc_expect(try_open(), broken[_i].code, broken[_i].text);
}
END_TEST

START_TEST(broken_bytes) {
    char all[256] = {0};
    static const char header[] = "{" T("b", "BOOL", "[3]", "[0,3]") "}";
    uint64_t n = strlen(header);
    memcpy(all, &n, 8);
    memcpy(all + 8, header, n);
    all[8 + n + 2] = 2;
    write_bytes(all, 8 + n + 3);
    pc_expect(try_open(), MLSYS_E_FORMAT, "tensor \"b\": element 2 is 2, no bool");
    for (int bit = 8; bit < 64; bit++) { /* a length that is wrong by a power of two */
        uint64_t wrong = n ^ (uint64_t)1 << bit;
        memcpy(all, &wrong, 8);
        write_bytes(all, 8 + n + 3);
        pc_expect(try_open(), MLSYS_E_FORMAT, "a header of");
    }
    /* as deep as the header's limit allows is too deep for the parser, and no stack is lost over it */
    size_t deep = 200000;
    char *text = malloc(deep + 16);
    n = deep + 5;
    memcpy(text, &n, 8);
    memcpy(text + 8, "{\"a\":", 5);
    memset(text + 13, '[', deep);
    write_bytes(text, deep + 13);
    free(text);
    pc_expect(try_open(), MLSYS_E_FORMAT, "depth");
}
END_TEST

static void save_small(void) {
    static const char *const names[] = {"one", "two"}, *const key = "k", *const value = "v";
    const float f[4] = {1, 2, 3, 4};
    const int64_t n = 4;
    mlsys_tensor t[2] = {pc_f32(&pc, 4, f), pc_tensor(&pc, MLSYS_U8, 1, &n, f)};
    OK(mlsys_tensors_save(path, 2, names, t, 1, &key, &value));
    pc_release(2, t);
}

START_TEST(truncated_at_every_byte) {
    size_t n;
    save_small();
    char *all = read_whole(&n);
    for (size_t i = 0; i < n; i++) {
        write_bytes(all, i);
        ck_assert_msg(try_open() == MLSYS_E_FORMAT, "%zu of %zu bytes", i, n);
    }
    all[n] = 0;
    write_bytes(all, n + 1);
    pc_expect(try_open(), MLSYS_E_FORMAT, "behind the last tensor");
}
END_TEST

START_TEST(refused_saves_leave_the_old_file) {
    const int64_t n32 = 32;
    const char *names[2] = {"one", "one"}, *key[2] = {"k", "k"}, *value[2] = {"v", "\xff"};
    mlsys_tensor t[2] = {pc_f32(&pc, 1, (const float[]){1}), pc_f32(&pc, 1, (const float[]){2})};
    mlsys_tensor block = pc_tensor(&pc, MLSYS_Q8_0, 1, &n32, NULL);
    size_t n, after;
    char before[1024];
    save_small();
    const char *whole = read_whole(&n);
    memcpy(before, whole, n);
    pc_expect(mlsys_tensors_save(path, 2, names, t, 0, NULL, NULL), MLSYS_E_ARG,
              "tensor name \"one\" is given twice");
    pc_expect(mlsys_tensors_save(path, 1, names, t, 2, key, value), MLSYS_E_ARG,
              "metadata key \"k\" is given twice");
    pc_expect(mlsys_tensors_save(path, 1, names, t, 1, key + 1, value + 1), MLSYS_E_ARG,
              "no UTF-8 text");
    names[0] = "\xc3";
    pc_expect(mlsys_tensors_save(path, 1, names, t, 0, NULL, NULL), MLSYS_E_ARG, "no UTF-8 text");
    names[0] = "";
    pc_expect(mlsys_tensors_save(path, 1, names, t, 0, NULL, NULL), MLSYS_E_ARG, "no name");
    names[0] = "__metadata__";
    pc_expect(mlsys_tensors_save(path, 1, names, t, 0, NULL, NULL), MLSYS_E_ARG, "reserved");
    pc_expect(mlsys_tensors_save(path, 1, names + 1, &block, 0, NULL, NULL), MLSYS_E_DTYPE, "q8_0");
    pc_release(1, &t[1]);
    pc_expect(mlsys_tensors_save(path, 2, key, t, 0, NULL, NULL), MLSYS_E_HANDLE, "tensors");
    pc_expect(mlsys_tensors_save(NULL, 0, NULL, NULL, 0, NULL, NULL), MLSYS_E_ARG, "path is NULL");
    pc_expect(mlsys_tensors_save(path, -1, NULL, NULL, 0, NULL, NULL), MLSYS_E_ARG, "n is -1");
    pc_expect(mlsys_tensors_save(path, 1, NULL, t, 0, NULL, NULL), MLSYS_E_ARG, "names");
    pc_expect(mlsys_tensors_save(path, 1, names + 1, t, 1, key, NULL), MLSYS_E_ARG, "values");
    pc_expect(mlsys_tensors_save("/nowhere/at/all", 1, names + 1, t, 0, NULL, NULL),
              MLSYS_E_NOTFOUND, "/nowhere/at/all");
    pc_expect(mlsys_tensors_save(folder, 1, names + 1, t, 0, NULL, NULL), MLSYS_E_IO, "rename");
    whole = read_whole(&after);
    ck_assert(after == n && !memcmp(before, whole, n));
    pc_release(1, t);
    OK(mlsys_release(block));
}
END_TEST

#endif

int main(void) {
    Suite *s = suite_create("safetensors");
    TCase *tc = tcase_create("safetensors");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
#if defined(MLSI_HAVE_JANSSON)
    tcase_add_test(tc, round_trip);
    tcase_add_test(tc, legal_but_odd);
    tcase_add_loop_test(tc, broken_files, 0, (int)(sizeof broken / sizeof broken[0]));
    tcase_add_test(tc, broken_bytes);
    tcase_add_test(tc, truncated_at_every_byte);
    tcase_add_test(tc, refused_saves_leave_the_old_file);
#else
    tcase_add_test(tc, absent);
#endif
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
