/* Every row of tests/op_cases.h, and random graphs, as exported programs: the file of each, many of them compiled together, must give the bits of
 * the reference interpreter. */
#include "support/op_case.h"
#include "support/program_case.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* VARIANTS of a row, all of them with MLSYS_TEST_ALL. */
enum { SEED = 20261207, ROWS = 64, SOME = 2, MOST = 4096, GRAPHS = 40 };

typedef int (*run_fn)(const void *const *inputs, void *const *outputs);

typedef struct call {
    char text[512];
    int n_in, n_out;
    kc_tensor in[KC_OPERANDS], want[KC_OPERANDS];
} call;

static program_case pc;
static call *calls;
static int n_calls;
static char folder[40];

static void setup(void) {
    pc_open(&pc, 1);
    calls = calloc(MOST, sizeof *calls);
    ck_assert_ptr_nonnull(calls);
    n_calls = 0;
    strcpy(folder, "/tmp/mlsys-exported-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void) {
    for (int i = 0; i < n_calls; i++) {
        for (int k = 0; k < calls[i].n_in; k++)
            kc_tensor_free(&calls[i].in[k]);
        for (int k = 0; k < calls[i].n_out; k++)
            kc_tensor_free(&calls[i].want[k]);
    }
    free(calls);
    pc_close(&pc);
}

/* script sees the folder as $F. */
static int shell(const char *script) {
    char command[600];
    snprintf(command, sizeof command, "F='%s'; %s", folder, script);
    return system(command);
}

/* g as file number n_calls; binding: values of its symbols, NULL where nothing depends on them. */
static void write_file(const mlsi_graph *g, const char *settings, const int64_t *binding) {
    char path[100], name[40];
    const char *names[8];
    mlsys_config c;
    const int n = binding ? (int)g->symbols.n_symbols : 0;
    mlsys_program p = pc_compile_inside(&pc, g, settings);
    ck_assert_int_le(n, 8);
    for (int i = 0; i < n; i++)
        names[i] = g->symbols.symbols[i].name;
    snprintf(path, sizeof path, "%s/%d.part", folder, n_calls);
    snprintf(name, sizeof name, "g%d", n_calls);
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_str(c, "name", name));
    if (mlsys_program_export(p, path, n, names, binding, c) != MLSYS_OK)
        ck_abort_msg("%s: %s", calls[n_calls].text, mlsys_last_error());
    OK(mlsys_release(c));
    OK(mlsys_release(p));
}

static bool same(const mlsi_view *want, const mlsi_view *got) {
    const mlsi_dtype_info *info = mlsi_dtype_get(want->dtype);
    int64_t n = mlsi_view_count(want) / info->block_elems;
    mlsi_view x = *want, y = *got;
    for (int64_t i = 0; i < n; i++) {
        if (!memcmp((char *)want->data + i * info->block_bytes,
                    (char *)got->data + i * info->block_bytes, (size_t)info->block_bytes))
            continue;
        x.rank = y.rank = 1, x.strides[0] = y.strides[0] = 1, x.shape[0] = y.shape[0] = n;
        if (!mlsi_dtype_is_float(want->dtype) || !isnan(kc_get_f(&x, i)) || !isnan(kc_get_f(&y, i)))
            return false;
    }
    return true;
}

static void run_call(const call *c, run_fn fn) {
    kc_rng r = kc_seed(1);
    kc_tensor got[KC_OPERANDS];
    const void *inputs[KC_OPERANDS];
    void *outputs[KC_OPERANDS];
    for (int i = 0; i < c->n_in; i++)
        inputs[i] = c->in[i].view.data;
    for (int o = 0; o < c->n_out; o++) {
        const mlsi_view *v = &c->want[o].view;
        got[o] = kc_tensor_new(&r, v->dtype, v->rank, v->shape, KC_DENSE);
        memset(got[o].block, 0xa5, got[o].bytes);
        outputs[o] = got[o].view.data;
    }
    int status = fn(inputs, outputs);
    ck_assert_msg(status == 0, "%s: step %d failed", c->text, status);
    for (int o = 0; o < c->n_out; o++) {
        ck_assert_msg(same(&c->want[o].view, &got[o].view), "%s: result %d differs", c->text, o);
        kc_tensor_free(&got[o]);
    }
}

/* One file of all: what each brings along besides its own functions is guarded. */
static void compile_and_run(void) {
    char path[100], name[40];
    if (shell("cd $F && cat *.part >all.c && ${MLSYS_CC:-cc} -std=c99 -O0 -w -shared -fPIC all.c "
              "-o all.so"))
        ck_abort_msg("does not build: see %s", folder);
    snprintf(path, sizeof path, "%s/all.so", folder);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(handle != NULL, "%s", handle ? "" : dlerror());
    for (int i = 0; i < n_calls; i++) {
        run_fn fn;
        snprintf(name, sizeof name, "g%d_run", i);
        void *p = dlsym(handle, name);
        ck_assert_ptr_nonnull(p);
        memcpy(&fn, &p, sizeof fn);
        run_call(&calls[i], fn);
    }
    dlclose(handle);
    ck_assert_int_eq(shell("rm -r $F"), 0);
}

/* ---- ops ------------------------------------------------------------------------------------------------- */

static void add_variant(const op_variant *v, kc_rng *r) {
    mlsi_view in[KC_OPERANDS], out[KC_OPERANDS];
    mlsi_graph g;
    call *c = &calls[n_calls];
    ck_assert_int_lt(n_calls, MOST);
    op_variant_text(v, c->text, sizeof c->text);
    if (op_variant_graph(pc.ctx, v, &g) != MLSYS_OK)
        ck_abort_msg("%s: %s", c->text, mlsys_last_error());
    for (int i = 0; i < v->n_in; i++) {
        const mlsi_type *t = &v->in[i].type;
        if (v->in[i].absent) continue;
        c->in[c->n_in] = kc_tensor_new(r, t->dtype, t->rank, t->dims, KC_DENSE);
        op_operand_fill(r, &c->in[c->n_in], &v->in[i]);
        in[c->n_in] = c->in[c->n_in].view;
        c->n_in++;
    }
    for (; c->n_out < v->n_out; c->n_out++) {
        const mlsi_type *t = mlsi_type_of(&g, 0, g.funcs[0].outputs[c->n_out].value);
        c->want[c->n_out] = kc_tensor_new(r, t->dtype, t->rank, t->dims, KC_DENSE);
        out[c->n_out] = c->want[c->n_out].view;
    }
    if (mlsi_interpret(&g, 0, c->n_in, in, c->n_out, out) != MLSYS_OK)
        ck_abort_msg("%s: %s", c->text, mlsys_last_error());
    write_file(&g, "numerics=exact", NULL);
    mlsi_graph_free(&g);
    n_calls++;
}

START_TEST(ops) {
    kc_rng r = kc_seed(SEED + (uint64_t)_i);
    for (int i = _i * ROWS; i < (_i + 1) * ROWS && i < op_case_count; i++) {
        op_variant v;
        int variants = 0;
        while (op_case_variant(&op_cases[i], variants, NULL, &v))
            variants++;
        for (int k = 0; k < (getenv("MLSYS_TEST_ALL") ? variants : SOME); k++) {
            op_case_variant(&op_cases[i],
                            getenv("MLSYS_TEST_ALL") ? k : (int)kc_int(&r, 0, variants - 1), NULL,
                            &v);
            add_variant(&v, &r);
        }
    }
    compile_and_run();
}
END_TEST

/* ---- random graphs -------------------------------------------------------------------------------------------- */

static kc_tensor dense_copy(kc_rng *r, mlsys_tensor t) {
    mlsi_view v = rg_view(t);
    kc_tensor x = kc_tensor_new(r, v.dtype, v.rank, v.shape, KC_DENSE);
    mlsi_copy_view(&x.view, &v);
    return x;
}

/* As a run does: what no input fixes is at its maximum. */
static void bind_symbols(const mlsi_graph *g, int n_in, const mlsys_tensor *in, int64_t *binding) {
    const mlsi_layout *layouts[16];
    mlsi_tensor *pinned[16];
    for (int i = 0; i < n_in; i++) {
        OK(mlsi_pin(in[i], MLSYS_KIND_TENSOR, "input", &pinned[i]));
        layouts[i] = &pinned[i]->layout;
    }
    OK(mlsi_bind_inputs(g, 0, n_in, layouts, binding));
    for (int i = 0; i < n_in; i++)
        mlsi_unpin(pinned[i]);
}

static void add_graph(kc_rng *r, int number) {
    const rg_options how = {
        .nodes = 4 + number % 20, .inputs = 3, .outputs = 3, .symbols = number % 2};
    mlsys_tensor in[16], out[16] = {NULL};
    int64_t binding[8];
    mlsi_graph g;
    call *c = &calls[n_calls];
    snprintf(c->text, sizeof c->text, "random graph %d", number);
    OK(mlsi_graph_init(&g, pc.ctx));
    rg_graph(r, &g, pc.device, &how);
    rg_extents e = rg_bind(r);
    c->n_in = (int)g.funcs[0].n_inputs;
    c->n_out = (int)g.funcs[0].n_outputs;
    ck_assert_int_le(c->n_in, 16);
    ck_assert_int_le(c->n_out, 16);
    rg_inputs(r, &g, pc.device_handle, e, in);
    pc_interpret_inside(&pc, &g, c->n_in, in, c->n_out, out);
    bind_symbols(&g, c->n_in, in, binding);
    for (int i = 0; i < c->n_in; i++)
        c->in[i] = dense_copy(r, in[i]);
    for (int o = 0; o < c->n_out; o++)
        c->want[o] = dense_copy(r, out[o]);
    write_file(&g,
               number % 4 < 2 ? "numerics=exact fuse=always" : "numerics=exact fuse=never plan=0",
               binding);
    pc_release(c->n_in, in);
    pc_release(c->n_out, out);
    mlsi_graph_free(&g);
    n_calls++;
}

START_TEST(random_graphs) {
    const char *first = getenv("MLSYS_EXPORT_FIRST");
    uint64_t seed = SEED + 100 + (first ? strtoull(first, NULL, 10) : 0);
    kc_rng r = kc_seed(seed);
    for (int i = 0; i < GRAPHS; i++)
        add_graph(&r, i);
    compile_and_run();
}
END_TEST

int main(void) {
    Suite *s = suite_create("exported");
    TCase *all[] = {tcase_create("ops"), tcase_create("random graphs")};
    tcase_add_loop_test(all[0], ops, 0, (op_case_count + ROWS - 1) / ROWS);
    tcase_add_test(all[1], random_graphs);
    for (int i = 0; i < 2; i++) {
        tcase_add_checked_fixture(all[i], setup, teardown);
        tcase_set_timeout(all[i], 600);
        suite_add_tcase(s, all[i]);
    }
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
