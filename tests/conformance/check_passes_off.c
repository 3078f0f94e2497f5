/* The compiler against itself: each optional pass off, all of them off, random subsets, fusion always, by cost and never: a
 * program's bits are those of the graph, whatever the passes made of it. MLSYS_TEST_ALL: 100 subsets of each subject; the
 * real models are tried where their files are. */
#include "ir/passes/passes.h"
#include "support/fusible_graph.h"
#include "support/generation.h"
#include "support/program_case.h"
#include "support/random.h"
#include "support/skip.h"
#include "support/trained_model.h"
#include "support/training.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261201, MOST = 512, GRAPHS = 20 };

static program_case pc;

/* ---- settings ------------------------------------------------------------------------------------------ */

static int optional_passes(const char **names) {
    int n = 0;
    for (const mlsi_pass *p = mlsi_pipeline; p->name; p++)
        if (!p->required) names[n++] = p->name;
    return n;
}

/* Number 0: everything on; then each pass off, all off, and random subsets; fusion in turns. False behind the last. */
static bool setting(int number, int subsets, kc_rng *r, char *out, size_t size) {
    static const char *const fuse[] = {"always", "auto", "never"};
    const char *names[32];
    int n = optional_passes(names), used = 0;
    if (number > n + 1 + subsets) return false;
    used = snprintf(out, size, "numerics=exact fuse=%s passes_off=", fuse[number % 3]);
    if (number == 1) used = snprintf(out, size, "numerics=exact fuse=always passes_off=");
    for (int i = 0; i < n; i++) {
        bool off = number == n + 1 || (number > n + 1 ? kc_int(r, 0, 1) : i == number - 1);
        if (off)
            used += snprintf(out + used, size - (size_t)used, "%s%s",
                             out[used - 1] == '=' ? "" : ",", names[i]);
    }
    return true;
}

static int subsets(int few) { return getenv("MLSYS_TEST_ALL") ? 100 : few; }

/* ---- a graph and inputs for it ----------------------------------------------------------------------------- */

typedef struct subject {
    const mlsi_graph *g;
    int64_t binding[8];
    uint64_t seed;
    int64_t tokens; /* integers lie below it */
    mlsys_tensor want[MOST];
} subject;

static void make_inputs(const subject *s, mlsys_tensor *in) {
    kc_rng r = kc_seed(s->seed);
    const mlsi_func *f = &s->g->funcs[0];
    for (int64_t i = 0; i < f->n_inputs; i++) {
        const mlsi_type *t = &f->values[f->inputs[i]].type;
        int64_t shape[MLSYS_MAX_DIMS] = {0};
        for (int d = 0; d < t->rank; d++)
            OK(mlsi_dim_eval(&s->g->symbols, t->dims[d], s->binding, &shape[d]));
        in[i] = pc_random(&pc, &r, t->dtype, t->rank, shape);
        mlsi_view v = rg_view(in[i]);
        unsigned char none = 0, before = 0;
        kc_tensor k = {.view = v, .block = &none, .before = &before};
        if (!s->tokens) continue;
        kc_fill(&r, &k, KC_SMALL);
        for (int64_t e = 0; mlsi_dtype_is_int(t->dtype) && e < mlsi_view_count(&v); e++)
            kc_set_i(&v, e, t->rank ? kc_int(&r, 0, s->tokens - 1) : 0);
    }
}

/* The first run says what the others must give: of the interpreter where that is not too slow. */
static void first_run(subject *s, const char *settings) {
    int n_in = (int)s->g->funcs[0].n_inputs, n_out = (int)s->g->funcs[0].n_outputs;
    mlsys_tensor in[MOST];
    ck_assert_int_le(n_in, MOST);
    ck_assert_int_le(n_out, MOST);
    make_inputs(s, in);
    if (settings) {
        mlsys_program p = pc_compile_inside(&pc, s->g, settings);
        OK(mlsys_program_run(p, pc.stream, n_in, in, n_out, s->want));
        OK(mlsys_release(p));
    } else {
        mlsi_tensor *tensors[MOST];
        mlsi_stream *stream;
        OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "test", &stream));
        for (int i = 0; i < n_in; i++)
            OK(mlsi_pin(in[i], MLSYS_KIND_TENSOR, "test", &tensors[i]));
        OK(mlsi_interpret_tensors(s->g, stream, n_in, tensors, n_out, s->want));
        for (int i = 0; i < n_in; i++)
            mlsi_unpin(tensors[i]);
        mlsi_unpin(stream);
    }
    pc_release(n_in, in);
}

static void check_setting(const subject *s, const char *name, const char *settings) {
    int n_in = (int)s->g->funcs[0].n_inputs, n_out = (int)s->g->funcs[0].n_outputs;
    mlsys_tensor in[MOST], got[MOST] = {0};
    mlsys_program p = pc_compile_inside(&pc, s->g, settings);
    make_inputs(s, in); /* a run may overwrite donated ones */
    OK(mlsys_program_run(p, pc.stream, n_in, in, n_out, got));
    for (int o = 0; o < n_out; o++) {
        int64_t at = rg_difference(got[o], s->want[o]);
        ck_assert_msg(at < 0, "%s: %s: output %d differs at element %lld", name, settings, o,
                      (long long)at);
    }
    pc_release(n_in, in);
    pc_release(n_out, got);
    OK(mlsys_release(p));
}

static void check_subject(subject *s, const char *name, const char *first, int n_subsets) {
    kc_rng r = kc_seed(s->seed + 1);
    char settings[256];
    int n = 0;
    first_run(s, first);
    for (; setting(n, n_subsets, &r, settings, sizeof settings); n++)
        check_setting(s, name, settings);
    pc_release((int)s->g->funcs[0].n_outputs, s->want);
    printf("%s: %d settings\n", name, n);
}

static void check_graph(mlsys_graph handle, subject *s, const char *name, const char *first,
                        int n_subsets) {
    mlsi_graph *g;
    OK(mlsi_pin(handle, MLSYS_KIND_GRAPH, "test", &g));
    s->g = g;
    check_subject(s, name, first, n_subsets);
    mlsi_unpin(g);
}

/* ---- subjects ------------------------------------------------------------------------------------------------ */

/* The functions of fusions run as block code, so that a setting costs no start of the compiler. */
START_TEST(random_graphs) {
    uint64_t seed = test_random_seed("check_passes_off", SEED).state;
    setenv("MLSYS_CC", "/nonexistent/cc", 1);
    pc_open(&pc, 2);
    for (int i = 0; i < GRAPHS; i++) {
        mlsi_graph g;
        char name[32];
        kc_rng r = kc_seed(seed + (uint64_t)i);
        subject s = {.g = &g, .seed = seed + 1000 + (uint64_t)i};
        OK(mlsi_graph_init(&g, pc.ctx));
        if (i % 2) {
            const rg_options o = {
                .nodes = 24, .inputs = 4, .outputs = 4, .symbols = true, .control = true};
            rg_graph(&r, &g, pc.device, &o);
            rg_extents e = rg_bind(&r);
            s.binding[0] = e.b, s.binding[1] = e.l, s.binding[2] = e.s;
        } else {
            fg_graph(&r, &g, pc.device);
            fg_bind(&r, s.binding);
        }
        snprintf(name, sizeof name, "graph %d", i);
        check_subject(&s, name, NULL, subsets(4));
        mlsi_graph_free(&g);
    }
    pc_close(&pc);
}
END_TEST

START_TEST(training_step) {
    training t;
    mlsys_value dx[TR_PARAMS];
    tn_open(&t, 2);
    pc = t.pc;
    OK(mlsys_graph_gradient(t.g, 1, &t.loss, NULL, TR_PARAMS, t.params, NULL, dx));
    OK(mlsys_graph_output(t.g, "loss", t.loss));
    for (int i = 0; i < TR_PARAMS; i++)
        OK(mlsys_graph_output(t.g, NULL, dx[i]));
    subject s = {.binding = {5}, .seed = 7, .tokens = TR_CLASSES};
    check_graph(t.g, &s, "training step", NULL, subsets(2));
    tn_close(&t);
}
END_TEST

/* pc's device and stream are those of the world that has the model open. */
static void use_world(const generation_world *w) {
    memset(&pc, 0, sizeof pc);
    pc.ctx_handle = w->ctx, pc.device_handle = w->device, pc.stream = w->stream;
    OK(mlsi_pin(pc.ctx_handle, MLSYS_KIND_CTX, "ctx", &pc.ctx));
    OK(mlsi_pin(pc.device_handle, MLSYS_KIND_DEVICE, "device", &pc.device));
}

static void leave_world(void) {
    mlsi_unpin(pc.device);
    mlsi_unpin(pc.ctx);
}

static void check_model(const generation_world *w, const char *name, int64_t length,
                        int n_subsets) {
    mlsys_graph g;
    mlsys_config c = generation_config(OPTIONS(INT("context", 64)));
    OK(mlsys_model_graph(w->model, c, &g));
    OK(mlsys_release(c));
    use_world(w);
    subject s = {.binding = {1, length}, .seed = 9, .tokens = 200};
    check_graph(g, &s, name, "numerics=exact fuse=never", n_subsets);
    leave_world();
    OK(mlsys_release(g));
}

START_TEST(tiny_model) {
    generation_world w;
    generation_open_tiny(&w, NULL);
    check_model(&w, "tiny model", 5, subsets(1));
    generation_close_tiny(&w);
}
END_TEST

START_TEST(tiny_model_trained) {
    generation_world w;
    trained_model t;
    generation_open_tiny(&w, NULL);
    trained_create(&t, &w, w.model, NULL, "exact", 0, 1);
    use_world(&w);
    subject s = {.binding = {2, 7}, .seed = 11, .tokens = 200};
    check_graph(t.g, &s, "language model's training step", "numerics=exact fuse=never", subsets(0));
    leave_world();
    trained_release(&t);
    generation_close_tiny(&w);
}
END_TEST

static void real_model(const char *variable) {
    const char *path = getenv(variable);
    generation_world w;
    if (!path) {
        TEST_SKIP("passes off on a real model: %s is not set", variable);
    }
    generation_open(&w, path, NULL);
    check_model(&w, variable, 4, subsets(0));
    generation_close(&w);
}

START_TEST(smollm2) { real_model("MLSYS_MODEL_SMOLLM2"); }
END_TEST
START_TEST(gemma3) { real_model("MLSYS_MODEL_GEMMA3"); }
END_TEST

int main(void) {
    Suite *s = suite_create("passes off");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 3600);
    tcase_add_test(tc, random_graphs);
    tcase_add_test(tc, training_step);
    tcase_add_test(tc, tiny_model);
    tcase_add_test(tc, tiny_model_trained);
    tcase_add_test(tc, smollm2);
    tcase_add_test(tc, gemma3);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
