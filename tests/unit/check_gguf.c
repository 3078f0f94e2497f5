/* GGUF files that are right: what was written is what is read. */
#include "model/gguf.h"
#include "support/gguf_writer.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct opened {
    mlsi_alloc alloc;
    uint8_t *file;
    size_t size;
    mlsi_gguf *g;
} opened;

static void open_writer(opened *o, gguf_writer *w) {
    o->file = gguf_writer_finish(w, &o->size);
    gguf_writer_free(w);
    mlsi_alloc_init(&o->alloc, NULL);
    mlsys_status st = mlsi_gguf_open(&o->alloc, "t.gguf", o->file, o->size, &o->g);
    ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
}

static void open_everything(opened *o) {
    gguf_writer w;
    gguf_writer_init(&w);
    gguf_put_everything(&w);
    open_writer(o, &w);
}

static void close_opened(opened *o) {
    mlsi_gguf_close(o->g);
    ck_assert_uint_eq(o->alloc.live_bytes, 0);
    free(o->file);
}

START_TEST(integers_keep_value_and_range) {
    static const struct {
        const char *key;
        int64_t value;
    } rows[] = {{"u8", 255},         {"i8", -128},           {"u16", 65535},    {"i16", -32768},
                {"u32", 4294967295}, {"i32", -2147483648LL}, {"i64", INT64_MIN}};
    opened o;
    open_everything(&o);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t v;
        uint64_t u = 7;
        ck_assert_int_eq(mlsi_gguf_get_i64(o.g, rows[i].key, &v), MLSYS_OK);
        ck_assert_int_eq(v, rows[i].value);
        mlsys_status st = mlsi_gguf_get_u64(o.g, rows[i].key, &u);
        ck_assert_int_eq(st, rows[i].value < 0 ? MLSYS_E_FORMAT : MLSYS_OK);
        ck_assert_uint_eq(u, rows[i].value < 0 ? 0 : (uint64_t)rows[i].value);
    }
    uint64_t u;
    int64_t v;
    ck_assert_int_eq(mlsi_gguf_get_u64(o.g, "u64", &u), MLSYS_OK);
    ck_assert(u == UINT64_MAX);
    ck_assert_int_eq(mlsi_gguf_get_i64(o.g, "u64", &v), MLSYS_E_FORMAT);
    ck_assert_str_eq(mlsys_last_error(),
                     "t.gguf: metadata key \"u64\" is 18446744073709551615, above 2^63-1");
    close_opened(&o);
}
END_TEST

START_TEST(floats_bools_and_strings) {
    opened o;
    open_everything(&o);
    double d;
    bool b;
    mlsi_gguf_str s;
    ck_assert_int_eq(mlsi_gguf_get_f64(o.g, "f32", &d), MLSYS_OK);
    ck_assert(d == (double)0.1f);
    ck_assert_int_eq(mlsi_gguf_get_f64(o.g, "f64", &d), MLSYS_OK);
    ck_assert(d == 0.1);
    ck_assert_int_eq(mlsi_gguf_get_f64(o.g, "i16", &d), MLSYS_OK);
    ck_assert(d == -32768.0);
    ck_assert_int_eq(mlsi_gguf_get_f64(o.g, "u64", &d), MLSYS_OK);
    ck_assert(d == 18446744073709551616.0);
    ck_assert_int_eq(mlsi_gguf_get_bool(o.g, "bool", &b), MLSYS_OK);
    ck_assert(b);
    ck_assert_int_eq(mlsi_gguf_get_str(o.g, "str", &s), MLSYS_OK);
    ck_assert_uint_eq(s.len, 11);
    ck_assert_int_eq(memcmp(s.data, "zero\0inside", 11), 0);
    ck_assert(mlsi_gguf_get_str(o.g, "general.architecture", &s) == MLSYS_OK &&
              mlsi_gguf_str_eq(s, "test"));
    ck_assert(!mlsi_gguf_str_eq(s, "tes") && !mlsi_gguf_str_eq(s, "testy"));
    close_opened(&o);
}
END_TEST

START_TEST(absent_and_mistyped_keys) {
    opened o;
    open_everything(&o);
    uint64_t u;
    int64_t i;
    double d;
    bool b;
    mlsi_gguf_str s;
    mlsi_gguf_array a;
    ck_assert_int_eq(mlsi_gguf_get_u64(o.g, "absent", &u), MLSYS_E_NOTFOUND);
    ck_assert_str_eq(mlsys_last_error(), "t.gguf: no metadata key \"absent\"");
    ck_assert_int_eq(mlsi_gguf_get_u64_or(o.g, "absent", 5, &u), MLSYS_OK);
    ck_assert_uint_eq(u, 5);
    ck_assert_int_eq(mlsi_gguf_get_i64_or(o.g, "absent", -5, &i), MLSYS_OK);
    ck_assert_int_eq(i, -5);
    ck_assert_int_eq(mlsi_gguf_get_f64_or(o.g, "absent", 0.5, &d), MLSYS_OK);
    ck_assert(d == 0.5);
    ck_assert_int_eq(mlsi_gguf_get_bool_or(o.g, "absent", true, &b), MLSYS_OK);
    ck_assert(b);
    /* a default never hides a wrong type */
    ck_assert_int_eq(mlsi_gguf_get_u64_or(o.g, "str", 5, &u), MLSYS_E_FORMAT);
    ck_assert_str_eq(mlsys_last_error(),
                     "t.gguf: metadata key \"str\" is string, wanted an integer");
    ck_assert_int_eq(mlsi_gguf_get_i64_or(o.g, "f32", 5, &i), MLSYS_E_FORMAT);
    ck_assert_int_eq(mlsi_gguf_get_f64_or(o.g, "bool", 5, &d), MLSYS_E_FORMAT);
    ck_assert_int_eq(mlsi_gguf_get_bool_or(o.g, "u8", true, &b), MLSYS_E_FORMAT);
    ck_assert_int_eq(mlsi_gguf_get_str(o.g, "array.str", &s), MLSYS_E_FORMAT);
    ck_assert_uint_eq(s.len, 0);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "str", MLSI_GGUF_STR, &a), MLSYS_E_FORMAT);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.str", MLSI_GGUF_F32, &a), MLSYS_E_FORMAT);
    ck_assert_str_eq(mlsys_last_error(),
                     "t.gguf: metadata key \"array.str\" is an array of string, wanted f32");
    ck_assert_ptr_null(mlsi_gguf_find(o.g, ""));
    ck_assert_ptr_null(mlsi_gguf_find(o.g, "zzz"));
    close_opened(&o);
}
END_TEST

START_TEST(arrays) {
    opened o;
    open_everything(&o);
    mlsi_gguf_array a;
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.str", MLSI_GGUF_STR, &a), MLSYS_OK);
    ck_assert_uint_eq(a.count, 4);
    static const char *const words[] = {"a", "", "\xC4\xA0word", "q\"\\\n"};
    for (uint64_t i = 0; i < 4; i++)
        ck_assert(mlsi_gguf_str_eq(mlsi_gguf_array_str(&a, i), words[i]));
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.f32", MLSI_GGUF_F32, &a), MLSYS_OK);
    ck_assert(a.count == 3 && mlsi_gguf_array_f32(&a, 2) == 1e-5f &&
              mlsi_gguf_array_f64(&a, 1) == -1.0);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.f64", MLSI_GGUF_TYPES, &a), MLSYS_OK);
    ck_assert(a.type == MLSI_GGUF_F64 && a.count == 2 && mlsi_gguf_array_f64(&a, 0) == 0.1);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.i32", MLSI_GGUF_I32, &a), MLSYS_OK);
    ck_assert(mlsi_gguf_array_i32(&a, 0) == -1 && mlsi_gguf_array_i64(&a, 2) == 2147483647);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.bool", MLSI_GGUF_BOOL, &a), MLSYS_OK);
    ck_assert(mlsi_gguf_array_bool(&a, 0) && !mlsi_gguf_array_bool(&a, 1));
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.u64", MLSI_GGUF_U64, &a), MLSYS_OK);
    ck_assert(mlsi_gguf_array_i64(&a, 0) == 0 && mlsi_gguf_array_i64(&a, 1) == -1);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.empty", MLSI_GGUF_STR, &a), MLSYS_OK);
    ck_assert_uint_eq(a.count, 0);
    ck_assert_int_eq(mlsi_gguf_get_array(o.g, "array.nested", MLSI_GGUF_ARRAY, &a), MLSYS_OK);
    ck_assert_uint_eq(a.count, 2);
    close_opened(&o);
}
END_TEST

static void expect_text(opened *o, const char *key, bool quoted, uint64_t max, const char *want,
                        int64_t len) {
    mlsi_text t;
    mlsi_text_init(&t, &o->alloc);
    mlsi_gguf_value_text(mlsi_gguf_find(o->g, key), quoted, max, &t);
    ck_assert_int_eq(t.st, MLSYS_OK);
    ck_assert_msg(t.len == len && !memcmp(t.data, want, (size_t)len + 1), "%s: %s", key, t.data);
    mlsi_text_free(&t);
}

START_TEST(values_as_text) {
    static const struct {
        const char *key, *text;
    } rows[] = {{"u8", "255"},
                {"i8", "-128"},
                {"u32", "4294967295"},
                {"u64", "18446744073709551615"},
                {"i64", "-9223372036854775808"},
                {"f32", "0.1"},
                {"f64", "0.1"},
                {"bool", "true"},
                {"array.f32", "[0.5, -1, 1e-05]"},
                {"array.str", "[\"a\", \"\", \"\xC4\xA0word\", \"q\\\"\\\\\\n\"]"},
                {"array.bool", "[true, false, true]"},
                {"array.u64", "[0, 18446744073709551615]"},
                {"array.empty", "[]"},
                {"array.nested", "[[7, 8, 9], [\"x\", \"\"]]"}};
    opened o;
    open_everything(&o);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_text(&o, rows[i].key, false, 100, rows[i].text, (int64_t)strlen(rows[i].text));
    expect_text(&o, "str", false, 100, "zero\0inside", 11);
    expect_text(&o, "str", true, 100, "\"zero\\u0000inside\"", 18);
    expect_text(&o, "array.str", true, 2, "[\"a\", \"\", ... 4 in all]", 23);
    expect_text(&o, "array.nested", true, 1, "[[7, ... 3 in all], ... 2 in all]", 33);
    close_opened(&o);
}
END_TEST

START_TEST(floats_as_text_read_back) {
    static const float values[] = {1e-45f,       3.4028235e38f, 16777216.0f, -0.0f,
                                   0.333333343f, 1e15f,         123456.789f, -1.17549435e-38f};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        gguf_writer w;
        gguf_writer_init(&w);
        gguf_put_f32(&w, "v", values[i]);
        gguf_put_f64(&w, "w", (double)values[i] / 3.0);
        opened o;
        open_writer(&o, &w);
        mlsi_text t;
        mlsi_text_init(&t, &o.alloc);
        mlsi_gguf_value_text(mlsi_gguf_find(o.g, "v"), false, 1, &t);
        ck_assert_msg(strtof(t.data, NULL) == values[i], "%s", t.data);
        ck_assert_int_eq(!signbit(strtof(t.data, NULL)), !signbit(values[i]));
        mlsi_text_free(&t);
        mlsi_gguf_value_text(mlsi_gguf_find(o.g, "w"), false, 1, &t);
        ck_assert_msg(strtod(t.data, NULL) == (double)values[i] / 3.0, "%s", t.data);
        mlsi_text_free(&t);
        close_opened(&o);
    }
}
END_TEST

START_TEST(tensors_of_every_type) {
    static const uint32_t numbers[] = {0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 24, 25, 26, 27, 28, 30};
    opened o;
    open_everything(&o);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "blk.0.type%u.weight", numbers[i]);
        const mlsi_gguf_tensor *t;
        ck_assert_int_eq(mlsi_gguf_tensor_get(o.g, name, &t), MLSYS_OK);
        const mlsi_dtype_info *info = mlsi_dtype_get(t->layout.dtype);
        ck_assert_uint_eq(mlsi_gguf_tensor_type_of(t->layout.dtype), numbers[i]);
        ck_assert_int_eq(t->layout.rank, 2);
        ck_assert_int_eq(t->layout.shape[0], 3);
        ck_assert_int_eq(t->layout.shape[1], info->block_elems);
        ck_assert_int_eq(t->layout.strides[0], info->block_elems);
        ck_assert_uint_eq(t->bytes, 3 * (uint64_t)info->block_bytes);
        ck_assert_uint_eq((uintptr_t)t->data % 32, (uintptr_t)o.file % 32);
    }
    const mlsi_gguf_tensor *t = mlsi_gguf_tensor_find(o.g, "odd");
    ck_assert_int_eq(t->layout.rank, 4); /* written as 3, 1, 2, 5 */
    ck_assert(t->layout.shape[0] == 5 && t->layout.shape[1] == 2 && t->layout.shape[2] == 1 &&
              t->layout.shape[3] == 3 && t->bytes == 120);
    t = mlsi_gguf_tensor_find(o.g, "scalar");
    ck_assert(t->layout.rank == 0 && t->bytes == 4);
    t = mlsi_gguf_tensor_find(o.g, "empty");
    ck_assert(t->bytes == 0 && t->layout.shape[0] == 4 && t->layout.shape[1] == 0);
    ck_assert_int_eq(mlsi_gguf_tensor_get(o.g, "absent", &t), MLSYS_E_NOTFOUND);
    ck_assert_str_eq(mlsys_last_error(), "t.gguf: no tensor \"absent\" among 19");
    ck_assert_ptr_null(t);
    close_opened(&o);
}
END_TEST

START_TEST(tensor_data_and_file_order) {
    gguf_writer w;
    gguf_writer_init(&w);
    w.version = 2;
    gguf_put_alignment(&w, 256);
    const uint64_t three[1] = {3}, two[1] = {2};
    const float x[3] = {1, 2, 3};
    const int64_t y[2] = {-4, 5};
    gguf_put_tensor(&w, "z", 0, 1, three, x);
    gguf_put_tensor(&w, "a", 27, 1, two, y);
    opened o;
    open_writer(&o, &w);
    ck_assert(o.g->version == 2 && o.g->alignment == 256 && o.g->data_start % 256 == 0);
    ck_assert(o.g->n_tensors == 2 && o.g->n_kv == 1);
    ck_assert_str_eq(o.g->tensors[0].name, "z");
    ck_assert_str_eq(o.g->tensors[1].name, "a");
    ck_assert_int_eq(memcmp(mlsi_gguf_tensor_find(o.g, "z")->data, x, sizeof x), 0);
    ck_assert_int_eq(memcmp(mlsi_gguf_tensor_find(o.g, "a")->data, y, sizeof y), 0);
    close_opened(&o);
}
END_TEST

/* Lookup against a linear search, over many names with common prefixes. */
START_TEST(every_key_is_found) {
    enum { N = 1000 };
    gguf_writer w;
    gguf_writer_init(&w);
    for (uint32_t i = 0; i < N; i++) {
        char key[32];
        snprintf(key, sizeof key, "k.%u", i * 7919 % N);
        gguf_put_u32(&w, key, i * 7919 % N);
    }
    opened o;
    open_writer(&o, &w);
    for (uint32_t i = 0; i < N; i++) {
        char key[32];
        uint64_t v;
        snprintf(key, sizeof key, "k.%u", i);
        ck_assert_int_eq(mlsi_gguf_get_u64(o.g, key, &v), MLSYS_OK);
        ck_assert_uint_eq(v, i);
    }
    ck_assert_ptr_null(mlsi_gguf_find(o.g, "k"));
    ck_assert_ptr_null(mlsi_gguf_find(o.g, "k.1000"));
    close_opened(&o);
}
END_TEST

START_TEST(tensor_type_table) {
    int n;
    const mlsys_dtype *all = mlsi_dtype_all(&n);
    for (int i = 0; i < n; i++) {
        uint32_t number = mlsi_gguf_tensor_type_of(all[i]);
        bool stored = number != UINT32_MAX;
        bool expected = all[i] != MLSYS_F8E4M3 && all[i] != MLSYS_F8E5M2 && all[i] != MLSYS_U8 &&
                        all[i] != MLSYS_BOOL;
        ck_assert_int_eq(stored, expected);
        if (stored) ck_assert_int_eq(mlsi_gguf_tensor_type_get(number)->dtype, all[i]);
    }
    ck_assert_uint_eq(mlsi_gguf_tensor_type_of(0), UINT32_MAX);
    ck_assert_ptr_null(mlsi_gguf_tensor_type_get(4));
    ck_assert_ptr_null(mlsi_gguf_tensor_type_get(UINT32_MAX));
    ck_assert_str_eq(mlsi_gguf_type_name(MLSI_GGUF_TYPES), "?");
}
END_TEST

int main(void) {
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("read");
    suite_add_tcase(s, t);
    tcase_add_test(t, integers_keep_value_and_range);
    tcase_add_test(t, floats_bools_and_strings);
    tcase_add_test(t, absent_and_mistyped_keys);
    tcase_add_test(t, arrays);
    tcase_add_test(t, values_as_text);
    tcase_add_test(t, floats_as_text_read_back);
    tcase_add_test(t, tensors_of_every_type);
    tcase_add_test(t, tensor_data_and_file_order);
    tcase_add_test(t, every_key_is_found);
    tcase_add_test(t, tensor_type_table);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
