/* Files of training data are read exactly, and broken ones are refused with a sentence that says where. */
#include "support/dataset_case.h"
#include "support/random.h"
#include "support/skip.h"

#include <math.h>
#if defined(MLSI_HAVE_ZLIB)
#include <zlib.h>
#endif

/* ---- IDX ------------------------------------------------------------------------------------ */

static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,  0,  0,
                                       0, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 255};
static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 200};

static void expect_images(void) {
    char text[160];
    mlsys_tensor out[2];
    int64_t shape[3];
    int32_t rank;
    snprintf(text, sizeof text, "format=idx shuffle=0 labels=%s", other);
    mlsys_dataset d = open_file(text);
    OK(mlsys_dataset_batch(d, 1, 2, 2, out));
    OK(mlsys_tensor_shape(out[0], 3, shape, &rank));
    REQUIRE(rank == 3 && shape[0] == 2 && shape[1] == 2 && shape[2] == 3);
    const unsigned char *p = data_of(out[0]);
    const int64_t *l = data_of(out[1]);
    REQUIRE(!memcmp(p, images + 22, 6) && !memcmp(p + 6, images + 16, 6));
    REQUIRE(l[0] == 200 && l[1] == 9);
    release(2, out);
    OK(mlsys_release(d));
}

static void refuse_images(size_t at, unsigned char byte, size_t bytes, mlsys_status code,
                          const char *part) {
    unsigned char broken[64] = {0};
    memcpy(broken, images, sizeof images);
    if (at < sizeof broken) broken[at] = byte;
    write_file(path, broken, bytes);
    refuse("format=idx", code, part);
}

START_TEST(idx_files) {
    char text[160];
    const size_t whole = sizeof images;
    write_file(path, images, sizeof images);
    write_file(other, labels, sizeof labels);
    expect_images();
    snprintf(text, sizeof text, "format=idx labels=%s", path);
    refuse(text, MLSYS_E_FORMAT, "labels of rank 3");
    write_file(other, "\0\0\x8\1\0\0\0\3abc", 11);
    snprintf(text, sizeof text, "format=idx labels=%s", other);
    refuse(text, MLSYS_E_FORMAT, "3 labels for 2 examples");
    refuse_images(0, 1, whole, MLSYS_E_FORMAT, "not an IDX file");
    refuse_images(2, 13, whole, MLSYS_E_UNSUPPORTED, "type 0x0d");
    refuse_images(3, 0, whole, MLSYS_E_FORMAT, "rank 0");
    refuse_images(3, 9, whole, MLSYS_E_FORMAT, "rank 9");
    refuse_images(7, 0, whole, MLSYS_E_FORMAT, "extent 0 is 0");
    refuse_images(7, 3, whole, MLSYS_E_FORMAT, "28 bytes, its extents say 34");
    refuse_images(99, 0, whole - 1, MLSYS_E_FORMAT, "27 bytes");
    refuse_images(99, 0, whole + 1, MLSYS_E_FORMAT, "29 bytes");
    refuse_images(99, 0, 3, MLSYS_E_FORMAT, "not an IDX file");
    refuse_images(99, 0, 10, MLSYS_E_FORMAT, "header of rank 3");
    memset(text, 0xff, sizeof text);
    memcpy(text, "\0\0\x8\3", 4);
    write_file(path, text, sizeof text);
    refuse("format=idx", MLSYS_E_FORMAT, "63 bits");
    unlink(path);
    refuse("format=idx", MLSYS_E_NOTFOUND, path);
}
END_TEST

/* ---- CSV ------------------------------------------------------------------------------------ */

static void write_text(const char *text) { write_file(path, text, strlen(text)); }

static void refuse_text(const char *text, const char *how, const char *part) {
    write_text(text);
    refuse(how, MLSYS_E_FORMAT, part);
}

START_TEST(csv_tables) {
    mlsys_tensor out[2];
    write_text(
        "\xef\xbb\xbf\"a,1\",b,\"c \"\"q\"\"\",class\r\n"
        "1,-2.5e1,\"3\",7\r\n .5 ,+4.,0x,-9\n1e-45,3.4028235e38,\"x\ny\",9223372036854775807");
    mlsys_dataset d = open_file("format=csv shuffle=0 label=class columns=b,\"a,1\"");
    OK(mlsys_dataset_batch(d, 0, 3, 2, out));
    static const float want[6] = {-25, 1, 4, 0.5f, 3.4028235e38f, 1e-45f};
    static const int64_t classes[3] = {7, -9, INT64_MAX};
    REQUIRE(!memcmp(data_of(out[0]), want, sizeof want));
    REQUIRE(!memcmp(data_of(out[1]), classes, sizeof classes));
    release(2, out);
    OK(mlsys_release(d));
    write_text("1,2\n3,4\n");
    d = open_file("format=csv shuffle=0 header=0 label=1");
    OK(mlsys_dataset_batch(d, 1, 1, 2, out));
    REQUIRE(*(const float *)data_of(out[0]) == 3 && *(const int64_t *)data_of(out[1]) == 4);
    release(2, out);
    OK(mlsys_release(d));
}
END_TEST

START_TEST(csv_numbers_are_the_nearest) {
    enum { NUMBERS = 2000 };
    test_random r = test_random_seed("csv", 3);
    static float want[NUMBERS];
    static char text[NUMBERS * 64];
    size_t n = (size_t)sprintf(text, "x\n");
    for (int i = 0; i < NUMBERS; i++) {
        uint32_t bits;
        do {
            bits = (uint32_t)test_bits(&r);
            memcpy(&want[i], &bits, sizeof bits);
        } while (!isfinite(want[i]));
        n += (size_t)sprintf(text + n, "%.*g\n", 9 + (int)(bits % 40), (double)want[i]);
    }
    /* Just above the middle of two f32 numbers; in f64 it is the middle, which rounds to even. */
    want[0] = 0x1.000002p0f;
    sprintf(text + n, "1.000000059604644775390625000000000000001\n");
    write_text(text);
    mlsys_dataset d = open_file("format=csv shuffle=0");
    mlsys_tensor out[1];
    OK(mlsys_dataset_batch(d, 1, NUMBERS, 1, out));
    const float *got = data_of(out[0]);
    for (int i = 0; i < NUMBERS; i++)
        REQUIRE(got[i] == want[(i + 1) % NUMBERS]);
    release(1, out);
    OK(mlsys_release(d));
}
END_TEST

START_TEST(csv_refusals) {
    const char *labelled = "format=csv label=y";
    refuse_text("", "format=csv", "no line of data");
    refuse_text("x,y\n", "format=csv", "no line of data");
    refuse_text("x,y\n1,2\n3\n", "format=csv", "line 3: 1 fields, the first line has 2");
    refuse_text("x,y\n1,2,3\n", "format=csv", "line 2: more than 2 fields");
    refuse_text("x,y\n1,2\n\n", "format=csv", "line 3, column 1 (x): \"\" is empty");
    refuse_text("x,y\n1,\n", "format=csv", "line 2, column 2 (y): \"\" is empty");
    refuse_text("x,y\n1,1.5.2\n", "format=csv", "line 2, column 2 (y): \"1.5.2\" is not a decimal");
    refuse_text("x,y\n1,\"\n\"\n", "format=csv", "line 2, column 2");
    refuse_text("x,y\n\"\n\",1\n2,nan\n", "format=csv columns=y", "line 4, column 2 (y): \"nan\"");
    refuse_text("x\n0x10\n", "format=csv", "not a decimal");
    refuse_text("x\n1,5\n", "format=csv", "fields");
    refuse_text("x\n1e39\n", "format=csv", "too large for f32");
    refuse_text("x\n1e\n", "format=csv", "not a decimal");
    refuse_text("x\n.\n", "format=csv", "not a decimal");
    refuse_text("x\n\"1\n", "format=csv", "line 2: a quote is not closed");
    refuse_text("x\n\"1\"2\n", "format=csv", "line 2: a quote inside a field");
    refuse_text("x\n1\"2\"\n", "format=csv", "line 2: a quote inside a field");
    refuse_text("x,y\n1,2.0\n", labelled, "column 2 (y): \"2.0\" is not an integer");
    refuse_text("x,y\n1,9223372036854775808\n", labelled, "does not fit i64");
    refuse_text("y\n1\n", labelled, "no column beside the label");
    refuse_text("y,y,x\n1,2,3\n", labelled, "two columns are named \"y\"");
    write_text("x,y\n1,2\n");
    refuse("format=csv label=z", MLSYS_E_NOTFOUND, "no column \"z\" among 2");
    refuse("format=csv columns=x,x", MLSYS_E_ARG, "listed twice");
    refuse("format=csv columns=y label=y", MLSYS_E_ARG, "is the label");
    refuse("format=csv header=0 label=2", MLSYS_E_NOTFOUND, "without a header");
    refuse("format=csv length=4", MLSYS_E_ARG, "key \"length\" has no use for csv");
    refuse("format=tsv", MLSYS_E_ARG, "none of idx, csv, tokens");
    refuse("shuffle=0", MLSYS_E_ARG, "none of idx, csv, tokens");
    refuse("format=csv what=1", MLSYS_E_NOTFOUND, "unknown key");
}
END_TEST

/* ---- tokens --------------------------------------------------------------------------------- */

static void expect_windows(mlsys_dataset d) { /* of 10, 11, ..., 16 by three */
    mlsys_tensor out[2];
    int64_t examples;
    static const int32_t in[6] = {13, 14, 15, 10, 11, 12}, next[6] = {14, 15, 16, 11, 12, 13};
    OK(mlsys_dataset_size(d, &examples, NULL));
    ck_assert_int_eq(examples, 2);
    OK(mlsys_dataset_batch(d, 1, 2, 2, out));
    REQUIRE(!memcmp(data_of(out[0]), in, sizeof in));
    REQUIRE(!memcmp(data_of(out[1]), next, sizeof next));
    release(2, out);
    OK(mlsys_release(d));
}

START_TEST(token_files) {
    uint16_t narrow[7];
    int32_t wide[8];
    mlsys_tensor t, odd, out[2];
    for (int i = 0; i < 7; i++)
        narrow[i] = (uint16_t)(10 + i), wide[i] = 10 + i;
    write_file(path, narrow, sizeof narrow);
    expect_windows(open_file("format=tokens shuffle=0 length=3"));
    refuse("format=tokens", MLSYS_E_ARG, "need \"length\"");
    refuse("format=tokens length=7", MLSYS_E_FORMAT, "7 tokens; an example of length 7 needs 8");
    refuse("format=tokens length=2 dtype=u32", MLSYS_E_FORMAT, "14 bytes are not whole tokens");
    refuse("format=tokens length=2 dtype=f32", MLSYS_E_ARG, "none of u16, u32, i32");
    write_file(path, wide, 28);
    expect_windows(open_file("format=tokens shuffle=0 length=3 dtype=u32"));
    expect_windows(open_file("format=tokens shuffle=0 length=3 dtype=i32"));
    narrow[0] = 65535;
    write_file(path, narrow, sizeof narrow);
    mlsys_dataset d = open_file("format=tokens length=6");
    OK(mlsys_dataset_batch(d, 5, 1, 2, out));
    ck_assert_int_eq(*(const int32_t *)data_of(out[0]), 65535);
    release(2, out);
    OK(mlsys_release(d));
    wide[5] = -1; /* 2^32 - 1 as u32 */
    write_file(path, wide, 28);
    d = open_file("format=tokens shuffle=0 length=3 dtype=u32");
    OK(mlsys_dataset_batch(d, 0, 1, 2, out));
    release(2, out);
    ck_assert_int_eq(mlsys_dataset_batch(d, 0, 2, 2, out), MLSYS_E_FORMAT);
    REQUIRE(!out[0] && !out[1] && strstr(mlsys_last_error(), "token 5 "));
    OK(mlsys_release(d));
    for (int i = 7; i >= 0; i--)
        wide[i] = 17 - i; /* read backwards */
    t = tensor(MLSYS_I32, 1, (int64_t[]){8}, wide);
    OK(mlsys_tensor_slice(t, 0, INT64_MAX, 0, -1, &odd));
    expect_windows(wrap(1, &odd, "shuffle=0 length=3"));
    OK(mlsys_release(t));
    OK(mlsys_release(odd));
}
END_TEST

/* ---- gzip ----------------------------------------------------------------------------------- */

#if defined(MLSI_HAVE_ZLIB)
static size_t packed(const void *data, size_t n, unsigned char *out, size_t cap) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data,
                  .avail_in = (unsigned)n,
                  .next_out = out,
                  .avail_out = (unsigned)cap};
    REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
    REQUIRE(deflateEnd(&z) == Z_OK);
    return cap - z.avail_out;
}

static void refuse_packed(const unsigned char *data, size_t n, const char *how, const char *part) {
    write_file(path, data, n);
    refuse(how, MLSYS_E_FORMAT, part);
}

START_TEST(gzip_files) {
    unsigned char zip[512], broken[512];
    mlsys_stats s = {.size = sizeof s};
    size_t n = packed(labels, sizeof labels, zip, sizeof zip);
    write_file(other, zip, n);
    n = packed(images, sizeof images, zip, sizeof zip);
    write_file(path, zip, n);
    expect_images();
    for (size_t cut = 2; cut < n; cut++)
        refuse_packed(zip, cut, "format=idx", path);
    memcpy(broken, zip, n);
    broken[n - 8] ^= 1;
    refuse_packed(broken, n, "format=idx", "broken gzip data");
    memcpy(broken, zip, n);
    broken[n] = 0;
    refuse_packed(broken, n + 1, "format=idx", path);
    memcpy(broken, images, sizeof images);
    broken[15] = 100;
    n = packed(broken, sizeof images, zip, sizeof zip);
    refuse_packed(zip, n, "format=idx", "28 bytes are packed by the gzip trailer");
    n = packed("x\n1\n", 4, zip, sizeof zip);
    write_file(path, zip, n);
    OK(mlsys_release(open_file("format=csv")));
    memcpy(broken, zip, n);
    memcpy(broken + n, zip, n);
    refuse_packed(broken, 2 * n, "format=csv", path);
    memcpy(broken, zip, n);
    memset(broken + n - 4, 0xff, 4); /* "4 GiB" */
    refuse_packed(broken, n, "format=csv", "cannot be packed in a gzip file of");
    memcpy(broken, zip, n);
    broken[n - 4] = 2;
    refuse_packed(broken, n, "format=csv", "more is packed than the 2 bytes");
    OK(mlsys_ctx_stats(ctx, &s));
    ck_assert_uint_le(s.peak_bytes, 1 << 20);
    ck_assert_int_eq(mlsys_has_feature("zlib"), 1);
}
END_TEST
#else
START_TEST(gzip_files) {
    write_file(path, "\x1f\x8b", 2);
    refuse("format=idx", MLSYS_E_UNSUPPORTED, "no zlib");
    ck_assert_int_eq(mlsys_has_feature("zlib"), 0);
    TEST_SKIP("gzip files: this build has no zlib");
}
END_TEST
#endif

int main(void) {
    Suite *s = suite_create("dataset_files");
    TCase *tc = tcase_create("dataset_files");
    tcase_add_checked_fixture(tc, open_world, close_world);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, idx_files);
    tcase_add_test(tc, csv_tables);
    tcase_add_test(tc, csv_numbers_are_the_nearest);
    tcase_add_test(tc, csv_refusals);
    tcase_add_test(tc, token_files);
    tcase_add_test(tc, gzip_files);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
