/* mlsys_model_adapt, mlsys_model_save and the keys of training graphs: what is refused, with which sentence,
 * and that a failure leaves everything as it was. */
#include "support/objects.h"
#include "support/require.h"
#include "support/tiny_model.h"
#include "support/trained_model.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static generation_world world;

static void open_world(void) { generation_open_tiny(&world, NULL); }
static void close_world(void) { generation_close_tiny(&world); }

static mlsys_tensor tensor(mlsys_dtype dtype, int64_t rows, int64_t columns) {
    const int64_t shape[2] = {rows, columns};
    mlsys_tensor t;
    void *p;
    uint64_t bytes;
    check_ok(mlsys_tensor_create(world.device, dtype, columns ? 2 : 1, shape, &t));
    check_ok(mlsys_tensor_data(t, &p, &bytes));
    memset(p, 0, bytes);
    return t;
}

/* ---- refusals ----------------------------------------------------------------------------------- */

static void refuse_adapt(mlsys_status want, const char *part, const char *first, mlsys_tensor a,
                         const char *second, mlsys_tensor b) {
    const char *names[2] = {first, second};
    mlsys_tensor tensors[2] = {a, b};
    mlsys_model out = world.model;
    generation_expect(mlsys_model_adapt(world.model, second ? 2 : 1, names, tensors, NULL, &out),
                      want, part);
    ck_assert_ptr_null(out);
    check_ok(mlsys_release(a));
    check_ok(mlsys_release(b));
}

START_TEST(adapting_names_what_does_not_fit) {
    const char *q = "blk.0.attn_q.weight", *a = "blk.0.attn_q.lora_a", *b = "blk.0.attn_q.lora_b";
    enum { W = TINY_WIDTH };
    refuse_adapt(MLSYS_E_NOTFOUND, "blk.9.attn_q.weight", "blk.9.attn_q.weight",
                 tensor(MLSYS_F32, W, W), NULL, NULL);
    refuse_adapt(MLSYS_E_SHAPE, "f32[64,63], expected f32[64,64]", q, tensor(MLSYS_F32, W, W - 1),
                 NULL, NULL);
    refuse_adapt(MLSYS_E_DTYPE, "i32[64,64]", q, tensor(MLSYS_I32, W, W), NULL, NULL);
    refuse_adapt(MLSYS_E_ARG, "twice", q, tensor(MLSYS_F32, W, W), q, tensor(MLSYS_F32, W, W));
    refuse_adapt(MLSYS_E_ARG, "without \"blk.0.attn_q.lora_b\"", a, tensor(MLSYS_F32, 4, W), NULL,
                 NULL);
    refuse_adapt(MLSYS_E_ARG, "without \"blk.0.attn_q.lora_a\"", b, tensor(MLSYS_F32, W, 4), NULL,
                 NULL);
    refuse_adapt(MLSYS_E_SHAPE, "expected f32[64,4]", a, tensor(MLSYS_F32, 4, W), b,
                 tensor(MLSYS_F32, W, 5));
    refuse_adapt(MLSYS_E_SHAPE, "expected f32[64,4]", b, tensor(MLSYS_F32, W, 5), a,
                 tensor(MLSYS_F32, 4, W));
    refuse_adapt(MLSYS_E_SHAPE, "f32[4,65], expected f32[4,64]", a, tensor(MLSYS_F32, 4, W + 1), b,
                 tensor(MLSYS_F32, W, 4));
    refuse_adapt(MLSYS_E_SHAPE, "rank 0", a, tensor(MLSYS_F32, 0, W), b, tensor(MLSYS_F32, W, 1));
    refuse_adapt(MLSYS_E_SHAPE, "lora_a", b, tensor(MLSYS_F32, W, 4), a, tensor(MLSYS_F32, W, 0));
    refuse_adapt(MLSYS_E_NOTFOUND, "token_embd.weight", "token_embd.lora_a",
                 tensor(MLSYS_F32, 4, W), "token_embd.lora_b", tensor(MLSYS_F32, TINY_VOCAB, 4));
    refuse_adapt(MLSYS_E_NOTFOUND, "output_norm.weight", "output_norm.lora_a",
                 tensor(MLSYS_F32, 4, W), "output_norm.lora_b", tensor(MLSYS_F32, W, 4));
    mlsys_tensor t = tensor(MLSYS_F32, W, W), turned;
    check_ok(mlsys_tensor_transpose(t, 0, 1, &turned));
    check_ok(mlsys_release(t));
    refuse_adapt(MLSYS_E_SHAPE, "row-major", q, turned, NULL, NULL);
}
END_TEST

static void refuse_graph(const char *part, const generation_option *options) {
    mlsys_graph g;
    mlsys_config c = generation_config(options);
    generation_expect(mlsys_model_graph(world.model, c, &g), MLSYS_E_ARG, part);
    ck_assert_ptr_null(g);
    check_ok(mlsys_release(c));
}

START_TEST(keys_of_the_other_mode_are_refused) {
    refuse_graph("mode \"trian\"", OPTIONS(STR("mode", "trian")));
    refuse_graph("\"chunk\"", OPTIONS(STR("mode", "train"), INT("chunk", 8)));
    refuse_graph("\"kv\"", OPTIONS(STR("mode", "train"), STR("kv", "f16")));
    refuse_graph("\"logits\"", OPTIONS(STR("mode", "train"), STR("logits", "all")));
    refuse_graph("\"trainable\"", OPTIONS(STR("trainable", "all")));
    refuse_graph("\"lora_rank\"", OPTIONS(INT("lora_rank", 4)));
    refuse_graph("\"lora_rank\"", OPTIONS(STR("mode", "train"), INT("lora_rank", 4)));
    refuse_graph("trainable \"some\"", OPTIONS(STR("mode", "train"), STR("trainable", "some")));
    refuse_graph("name 1", OPTIONS(STR("mode", "train"), STR("trainable", "lora"),
                                   STR("lora_targets", "attn_q,attn_x")));
    refuse_graph("name 0",
                 OPTIONS(STR("mode", "train"), STR("trainable", "lora"), STR("lora_targets", "")));
    refuse_graph("name 0", OPTIONS(STR("mode", "train"), STR("trainable", "lora"),
                                   STR("lora_targets", "token_embd")));
}
END_TEST

START_TEST(values_are_found_by_name) {
    mlsys_graph g;
    mlsys_value v = 1;
    mlsys_config c = generation_config(OPTIONS(STR("mode", "train")));
    check_ok(mlsys_model_graph(world.model, c, &g));
    check_ok(mlsys_release(c));
    check_ok(mlsys_graph_find(g, "tokens", &v));
    check_ok(mlsys_graph_find(g, "logits", &v));
    check_ok(mlsys_graph_find(g, "blk.1.ffn_up.weight", &v));
    generation_expect(mlsys_graph_find(g, "blk.1.ffn_up", &v), MLSYS_E_NOTFOUND, "blk.1.ffn_up");
    ck_assert_int_eq(v, 0);
    check_ok(mlsys_release(g));
}
END_TEST

/* ---- saving ------------------------------------------------------------------------------------- */

static char folder[64], path[96];

static void open_folder(void) {
    open_world();
    snprintf(folder, sizeof folder, "/tmp/mlsys-save-%ld", (long)getpid());
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    mkdir(folder, 0700);
}
static void close_folder(void) {
    unlink(path);
    rmdir(folder);
    close_world();
}

static int files_in_folder(void) {
    DIR *d = opendir(folder);
    int n = 0;
    REQUIRE(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static uint8_t *contents(const char *name, size_t *bytes) {
    FILE *f = fopen(name, "rb");
    REQUIRE(f);
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*bytes);
    REQUIRE(fread(p, 1, *bytes, f) == *bytes);
    fclose(f);
    return p;
}

/* Nothing changed: the file of a v3 writer with the same alignment is the same file. */
START_TEST(an_unchanged_model_is_the_same_file) {
    char original[64];
    size_t n, n_original;
    snprintf(original, sizeof original, "/tmp/mlsys-generation-%ld.gguf", (long)getpid());
    check_ok(mlsys_model_save(world.model, path, NULL));
    uint8_t *a = contents(original, &n_original), *b = contents(path, &n);
    ck_assert_uint_eq(n, n_original);
    ck_assert_mem_eq(a, b, n);
    free(a);
    free(b);
    ck_assert_int_eq(files_in_folder(), 1);
}
END_TEST

/* A matrix that turns f32, a vector that stays f32 whatever is asked, and the type of most of the file. */
START_TEST(changed_tensors_have_the_dtype_asked_for) {
    static const struct {
        const char *dtype, *embedding, *norm;
    } rows[] = {{"f32", "f32[264,64]", "f32[64]"}, {"bf16", "bf16[264,64]", "f32[64]"}};
    const char *names[2] = {"token_embd.weight", "output_norm.weight"};
    mlsys_tensor tensors[2] = {tensor(MLSYS_F16, TINY_VOCAB, TINY_WIDTH),
                               tensor(MLSYS_F64, TINY_WIDTH, 0)};
    mlsys_model m, saved;
    static char text[1 << 16];
    check_ok(mlsys_model_adapt(world.model, 2, names, tensors, NULL, &m));
    check_ok(mlsys_model_describe(m, text, sizeof text, NULL));
    REQUIRE(strstr(text, "token_embd.weight: f16[264,64]") &&
            strstr(text, "output_norm.weight: f64[64]"));
    for (int i = 0; i < 2; i++) {
        mlsys_config c = generation_config(OPTIONS(STR("dtype", rows[i].dtype)));
        check_ok(mlsys_model_save(m, path, c));
        check_ok(mlsys_release(c));
        check_ok(mlsys_model_open(world.ctx, path, NULL, &saved));
        check_ok(mlsys_model_describe(saved, text, sizeof text, NULL));
        REQUIRE(strstr(text, rows[i].embedding) && strstr(text, rows[i].norm));
        REQUIRE(strstr(text, "blk.0.attn_q.weight: q4_1[64,64]"));
        check_ok(mlsys_release(saved));
    }
    mlsys_config c = generation_config(OPTIONS(STR("dtype", "q8_0")));
    generation_expect(mlsys_model_save(m, path, c), MLSYS_E_ARG, "q8_0");
    check_ok(mlsys_release(c));
    check_ok(mlsys_release(m));
    check_ok(mlsys_release(tensors[0]));
    check_ok(mlsys_release(tensors[1]));
}
END_TEST

/* A full disk, played by the limit of a file's size: the old file stays, and nothing lies beside it. */
START_TEST(a_failed_save_leaves_the_old_file) {
    struct rlimit old, small = {.rlim_cur = 20000, .rlim_max = 20000};
    size_t before, after;
    check_ok(mlsys_model_save(world.model, path, NULL));
    uint8_t *a = contents(path, &before);
    ck_assert_uint_gt(before, 20000);
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    mlsys_status st = mlsys_model_save(world.model, path, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    generation_expect(st, MLSYS_E_IO, path);
    uint8_t *b = contents(path, &after);
    ck_assert_uint_eq(before, after);
    ck_assert_mem_eq(a, b, before);
    ck_assert_int_eq(files_in_folder(), 1);
    free(a);
    free(b);
    generation_expect(mlsys_model_save(world.model, "/nonexistent/x.gguf", NULL), MLSYS_E_NOTFOUND,
                      "/nonexistent/x.gguf");
    generation_expect(mlsys_model_save(world.model, folder, NULL), MLSYS_E_IO, folder);
    snprintf(path, sizeof path, "%s.tmp-0", folder);
    ck_assert_int_ne(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/model.gguf", folder);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("model_save");
    TCase *adapt = tcase_create("adapt"), *save = tcase_create("save");
    tcase_add_checked_fixture(adapt, open_world, close_world);
    tcase_add_test(adapt, adapting_names_what_does_not_fit);
    tcase_add_test(adapt, keys_of_the_other_mode_are_refused);
    tcase_add_test(adapt, values_are_found_by_name);
    tcase_add_checked_fixture(save, open_folder, close_folder);
    tcase_add_test(save, an_unchanged_model_is_the_same_file);
    tcase_add_test(save, changed_tensors_have_the_dtype_asked_for);
    tcase_add_test(save, a_failed_save_leaves_the_old_file);
    suite_add_tcase(suite, adapt);
    suite_add_tcase(suite, save);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
