/* Random graphs of what fusion is for, by every road of the compiler: the reference interpreter, a program without fusion,
 * one with fusion and no compiler, one with generated code, and each fused function by the loop interpreter and by its code.
 * The same bits everywhere; no valid graph is refused; what fusion joins has loops and a text.
 *
 * The graphs of a batch are one program, so that they share one start of the compiler. `make fuzz-compiler N=100000` runs
 * many; MLSYS_TEST_SEED chooses others, MLSYS_FUZZ_ONLY=batch,graph runs one graph alone. */
#include "support/fusible_graph.h"
#include "support/program_case.h"
#include "support/random.h"

#include "ir/codegen/codegen.h"
#include "ir/loop/lower.h"
#include "ir/passes/passes.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261130, BATCH = 60, FEW = 2, BINDINGS = 2, MOST_ARGS = 12 * BATCH };

static program_case pc;
static uint64_t seed;

/* The graphs of a batch, called one after the other by one graph. */
typedef struct bundle {
    mlsi_graph all, graphs[BATCH];
    int n, number[BATCH], n_in, n_out, owner[MOST_ARGS]; /* of each output: a graph */
    kc_rng r;
} bundle;

static void abort_with(const bundle *b, int graph, const char *what) {
    mlsi_text t;
    const mlsi_graph *g = graph < 0 ? &b->all : &b->graphs[graph];
    mlsi_text_init(&t, g->alloc);
    mlsi_graph_print(g, &t);
    printf("%s\n%s", what, t.data);
    fflush(stdout);
    ck_abort_msg("%s: graph %d", what, graph < 0 ? -1 : b->number[graph]);
}

static void add_graph(bundle *b, int batch, int number) {
    mlsi_graph *g = &b->graphs[b->n];
    int32_t func, in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    mlsi_attr_control call = {0, 0};
    kc_rng r = kc_seed(seed + 1000003u * (uint64_t)batch + (uint64_t)number);
    OK(mlsi_graph_init(g, pc.ctx));
    fg_graph(&r, g, pc.device);
    OK(mlsi_graph_verify(g));
    OK(mlsi_graph_import(&b->all, g, 0, &func));
    call.fn1 = func;
    const mlsi_func f = b->all.funcs[func];
    for (int64_t i = 0; i < f.n_inputs; i++) {
        mlsi_type t = f.values[f.inputs[i]].type;
        OK(mlsi_build_input(&b->all, 0, NULL, &t, &in[i]));
    }
    OK(mlsi_build_node(&b->all, 0, MLSI_OP_CALL, &call, (int32_t)f.n_inputs, in,
                       (int32_t)f.n_outputs, out));
    for (int64_t o = 0; o < f.n_outputs; o++) {
        OK(mlsi_build_output(&b->all, 0, NULL, out[o]));
        b->owner[b->n_out++] = b->n;
    }
    b->n_in += (int)f.n_inputs;
    b->number[b->n++] = number;
}

static bundle *bundle_new(int batch, int only) {
    int64_t codes[FG_SYMBOLS];
    bundle *b = calloc(1, sizeof *b);
    ck_assert_ptr_nonnull(b);
    OK(mlsi_graph_init(&b->all, pc.ctx));
    OK(fg_symbols(&b->all, codes));
    for (int i = 0; i < BATCH; i++)
        if (only < 0 || i == only) add_graph(b, batch, i);
    b->r = kc_seed(seed ^ (uint64_t)batch << 32);
    return b;
}

static void bundle_free(bundle *b) {
    for (int i = 0; i < b->n; i++)
        mlsi_graph_free(&b->graphs[i]);
    mlsi_graph_free(&b->all);
    free(b);
}

/* ---- functions that became kernels ----------------------------------------------------------------------- */

typedef struct call {
    kc_tensor in[2 * MLSI_MAX_OPERANDS], want[MLSI_MAX_OPERANDS], got[MLSI_MAX_OPERANDS];
    mlsi_view in_views[2 * MLSI_MAX_OPERANDS], want_views[MLSI_MAX_OPERANDS];
    int64_t binding[8];
    int n_in, n_out;
} call;

static kc_tensor tensor_of(const mlsi_graph *g, const mlsi_type *t, const int64_t *binding,
                           kc_rng *r) {
    int64_t shape[MLSYS_MAX_DIMS] = {0};
    for (int d = 0; d < t->rank; d++)
        OK(mlsi_dim_eval(&g->symbols, t->dims[d], binding, &shape[d]));
    return kc_tensor_new(r, t->dtype, t->rank, shape, KC_DENSE);
}

/* Symbols that no input fixes get their maximum, as the interpreter has it; false where inputs have extents that do not say
 * what they are made of, as only a whole program knows. */
static bool bind_call(const mlsi_graph *g, int32_t func, call *c) {
    mlsi_layout layouts[2 * MLSI_MAX_OPERANDS];
    const mlsi_layout *refs[2 * MLSI_MAX_OPERANDS];
    for (int i = 0; i < c->n_in; i++) {
        const mlsi_view *v = &c->in_views[i];
        OK(mlsi_layout_row_major(&layouts[i], v->dtype, v->rank, v->shape));
        refs[i] = &layouts[i];
    }
    return mlsi_bind_inputs(g, func, c->n_in, refs, c->binding) == MLSYS_OK;
}

static bool make_call(const mlsi_graph *g, int32_t func, kc_rng *r, call *c) {
    const mlsi_func *f = &g->funcs[func];
    memset(c, 0, sizeof *c);
    fg_bind(r, c->binding);
    for (c->n_in = 0; c->n_in < f->n_inputs; c->n_in++) {
        c->in[c->n_in] = tensor_of(g, &f->values[f->inputs[c->n_in]].type, c->binding, r);
        c->in_views[c->n_in] = c->in[c->n_in].view;
        kc_fill(r, &c->in[c->n_in], (kc_fill_kind)kc_int(r, 0, 2));
    }
    if (!bind_call(g, func, c)) return false;
    for (c->n_out = 0; c->n_out < f->n_outputs; c->n_out++) {
        const mlsi_type *t = &f->values[f->outputs[c->n_out].value].type;
        c->want[c->n_out] = tensor_of(g, t, c->binding, r);
        c->got[c->n_out] = tensor_of(g, t, c->binding, r);
        c->want_views[c->n_out] = c->want[c->n_out].view;
    }
    OK(mlsi_interpret(g, func, c->n_in, c->in_views, c->n_out, c->want_views));
    return true;
}

static void free_call(call *c) {
    for (int i = 0; i < c->n_in; i++)
        kc_tensor_free(&c->in[i]);
    for (int o = 0; o < c->n_out; o++) {
        kc_tensor_free(&c->want[o]);
        kc_tensor_free(&c->got[o]);
    }
}

/* One function of a graph's text. */
static void print_func(const mlsi_graph *g, int32_t func) {
    char head[32];
    mlsi_text t;
    mlsi_text_init(&t, g->alloc);
    mlsi_graph_print(g, &t);
    snprintf(head, sizeof head, "func %d ", (int)func);
    char *from = strstr(t.data, head), *to = from ? strstr(from, "\n}\n") : NULL;
    if (to) printf("%.*s\n}\n", (int)(to - from), from);
    mlsi_text_free(&t);
}

static void abort_func(const mlsi_program *p, int32_t func, const call *c, const char *what) {
    const mlsi_symtab *tab = &p->graph.symbols;
    mlsi_text t;
    print_func(&p->graph, func);
    if (p->generated[func].made) {
        mlsi_text_init(&t, p->graph.alloc);
        (void)mlsi_codegen_c(&p->generated[func].nest, "kernel", &t);
        printf("%s\n", t.data);
        mlsi_text_free(&t);
    }
    for (int64_t i = 0; c && i < tab->n_symbols; i++)
        printf("%s = %lld\n", tab->symbols[i].name, (long long)c->binding[i]);
    fflush(stdout);
    ck_abort_msg("function %d: %s", func, what);
}

/* Why a function has no kernel: what compile did not tell is asked again. */
static void abort_refused(mlsi_program *p, int32_t func) {
    char why[512] = "nothing refuses it now";
    mlsi_nest n;
    mlsi_text t;
    int32_t flat;
    mlsi_text_init(&t, p->graph.alloc);
    OK(mlsi_flatten_func(&p->graph, func, &flat));
    const int32_t before = (int32_t)p->graph.n_funcs - (flat != func);
    mlsys_status st = mlsi_lower_func(&p->graph, flat, "fused", &n);
    if (st == MLSYS_OK) st = mlsi_generate_schedule(&p->graph.funcs[func], &n);
    if (st == MLSYS_OK) st = mlsi_prove_nest(p, flat, &n);
    if (st == MLSYS_OK) st = mlsi_codegen_c(&n, "kernel", &t);
    if (st != MLSYS_OK) snprintf(why, sizeof why, "%s", mlsys_last_error());
    if (getenv("MLSYS_FUZZ_COLLECT")) {
        printf("refused: %s\n", why);
        print_func(&p->graph, func);
        mlsi_text_free(&t);
        mlsi_nest_free(&n);
        mlsi_graph_truncate(&p->graph, before);
        return;
    }
    abort_func(p, func, NULL, why);
}

/* Also the bytes around each result. */
static void require_same(const mlsi_program *p, int32_t func, call *c, const char *road) {
    char what[160];
    for (int o = 0; o < c->n_out; o++) {
        kc_tensor *t = &c->got[o];
        const mlsi_view *a = &c->want[o].view, *b = &t->view;
        uint64_t bytes = (uint64_t)(mlsi_view_count(b) * mlsi_dtype_size(b->dtype));
        uint64_t head = (uint64_t)((unsigned char *)b->data - t->block), tail = head + bytes;
        if (memcmp(t->block, t->before, head) ||
            memcmp(t->block + tail, t->before + tail, t->bytes - tail)) {
            snprintf(what, sizeof what, "%s: bytes around result %d changed", road, o);
            abort_func(p, func, c, what);
        }
        for (int64_t i = 0, n = mlsi_view_count(a); i < n; i++) {
            if (!memcmp(kc_at(a, i), kc_at(b, i), (size_t)mlsi_dtype_size(a->dtype))) continue;
            double x = kc_get_f(a, i), y = kc_get_f(b, i);
            if (mlsi_dtype_is_float(a->dtype) && x != x && y != y) continue;
            snprintf(what, sizeof what, "%s: result %d element %lld is %.17g, expected %.17g", road,
                     o, (long long)i, y, x);
            abort_func(p, func, c, what);
        }
        memcpy(t->block, t->before, t->bytes);
    }
}

/* The parameter as the nest has it: the same elements over other axes. */
static mlsi_view param_view(const mlsi_nest *n, int i, const mlsi_view *v, const int64_t *binding) {
    int64_t shape[MLSYS_MAX_DIMS] = {0};
    const mlsi_loop_buffer *b = &n->buffers[i];
    mlsi_layout l;
    for (int d = 0; d < b->rank; d++)
        OK(mlsi_dim_eval(&n->tab, b->dims[d], binding, &shape[d]));
    OK(mlsi_layout_row_major(&l, v->dtype, b->rank, shape));
    return mlsi_view_of(v->data, &l);
}

static void run_loops(const mlsi_program *p, int32_t func, call *c) {
    const mlsi_nest *n = &p->generated[func].nest;
    mlsi_view params[3 * MLSI_MAX_OPERANDS];
    for (int i = 0; i < c->n_in + c->n_out; i++)
        params[i] =
            param_view(n, i, i < c->n_in ? &c->in_views[i] : &c->got[i - c->n_in].view, c->binding);
    if (mlsi_nest_interpret(n, c->binding, params) != MLSYS_OK)
        abort_func(p, func, c, mlsys_last_error());
    require_same(p, func, c, "loops");
}

/* In two calls, as two workers would share the tasks. */
static void run_code(const mlsi_program *p, int32_t func, call *c, kc_rng *r) {
    const mlsi_generated *k = &p->generated[func];
    char *data[3 * MLSI_MAX_OPERANDS];
    int64_t tasks;
    uint64_t work;
    for (int i = 0; i < c->n_in + c->n_out; i++)
        data[i] = i < c->n_in ? c->in_views[i].data : c->got[i - c->n_in].view.data;
    OK(mlsi_dim_eval(&k->nest.tab, k->tasks, c->binding, &tasks));
    OK(mlsi_codegen_work(&k->nest, c->binding, &work));
    if (!k->fn) work += (k->blocks.state_bytes + 63) & ~(uint64_t)63;
    char *memory = aligned_alloc(64, (work + 127) & ~(uint64_t)63);
    ck_assert_ptr_nonnull(memory);
    int64_t cut = kc_int(r, 0, tasks);
    mlsi_gen_args a = {
        .data = data, .dims = c->binding, .work = memory, .stream = (int)kc_int(r, 0, 3)};
    for (int part = 0; part < 2; part++) {
        a.begin = part ? cut : 0;
        a.end = part ? tasks : cut;
        memset(memory, 0xa5, work + 1);
        if (k->fn ? k->fn(&a) : k->run_blocks(&k->blocks, &a))
            abort_func(p, func, c, "a bind failed");
        if (memory[work] != (char)0xa5) abort_func(p, func, c, "wrote behind its work memory");
    }
    free(memory);
    require_same(p, func, c, k->fn ? "code" : "blocks");
}

static int check_functions(mlsi_program *p, kc_rng *r, bool compiled) {
    int count = 0;
    bool *called = calloc((size_t)p->graph.n_funcs + 1, sizeof *called);
    const mlsi_func *main = &p->graph.funcs[0];
    ck_assert_ptr_nonnull(called);
    for (int64_t i = 0; i < main->n_nodes; i++)
        if (main->nodes[i].op == MLSI_OP_CALL)
            called[((const mlsi_attr_control *)main->nodes[i].attrs)->fn1] = true;
    for (int32_t f = 0; f < p->graph.n_funcs; f++) {
        call c;
        if (!called[f]) continue;
        if (!p->generated[f].made) {
            abort_refused(p, f);
            continue;
        }
        if (compiled && !p->generated[f].fn) abort_func(p, f, NULL, "has no code");
        for (int k = 0; k < BINDINGS; k++) {
            bool bound = make_call(&p->graph, f, r, &c);
            if (bound && k == 0) run_loops(p, f, &c);
            if (bound && (compiled || p->generated[f].run_blocks)) run_code(p, f, &c, r);
            free_call(&c);
        }
        count++;
    }
    free(called);
    return count;
}

/* ---- whole programs ---------------------------------------------------------------------------------------- */

typedef struct values {
    mlsys_tensor in[MOST_ARGS], want[MOST_ARGS];
} values;

static void make_values(bundle *b, values *v) {
    int64_t binding[FG_SYMBOLS];
    const mlsi_func *f = &b->all.funcs[0];
    fg_bind(&b->r, binding);
    memset(v, 0, sizeof *v);
    for (int i = 0; i < b->n_in; i++) {
        const mlsi_type *t = &f->values[f->inputs[i]].type;
        int64_t shape[MLSYS_MAX_DIMS] = {0};
        for (int d = 0; d < t->rank; d++)
            OK(mlsi_dim_eval(&b->all.symbols, t->dims[d], binding, &shape[d]));
        v->in[i] = pc_random(&pc, &b->r, t->dtype, t->rank, shape);
    }
}

static void pin_all(int n, const mlsys_tensor *handles, mlsi_tensor **tensors) {
    for (int i = 0; i < n; i++)
        OK(mlsi_pin(handles[i], MLSYS_KIND_TENSOR, "test", &tensors[i]));
}

static void unpin_all(int n, mlsi_tensor **tensors) {
    for (int i = 0; i < n; i++)
        mlsi_unpin(tensors[i]);
}

static void interpret(const bundle *b, values *v) {
    mlsi_tensor *tensors[MOST_ARGS];
    mlsi_stream *s;
    OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "test", &s));
    pin_all(b->n_in, v->in, tensors);
    if (mlsi_interpret_tensors(&b->all, s, b->n_in, tensors, b->n_out, v->want) != MLSYS_OK)
        abort_with(b, b->n == 1 ? 0 : -1, mlsys_last_error());
    unpin_all(b->n_in, tensors);
    mlsi_unpin(s);
}

static void run_program(const bundle *b, const mlsi_program *p, const values *v, const char *road) {
    mlsi_tensor *tensors[MOST_ARGS];
    mlsys_tensor got[MOST_ARGS] = {0};
    mlsi_stream *s;
    char what[160];
    OK(mlsi_pin(pc.stream, MLSYS_KIND_STREAM, "test", &s));
    pin_all(b->n_in, v->in, tensors);
    if (mlsi_program_exec(p, s, b->n_in, tensors, b->n_out, got) != MLSYS_OK)
        abort_with(b, b->n == 1 ? 0 : -1, mlsys_last_error());
    unpin_all(b->n_in, tensors);
    mlsi_unpin(s);
    for (int o = 0; o < b->n_out; o++) {
        int64_t at = rg_difference(got[o], v->want[o]);
        if (at < 0) continue;
        snprintf(what, sizeof what, "%s: output %d differs at element %lld", road, o,
                 (long long)at);
        abort_with(b, b->owner[o], what);
    }
    pc_release(b->n_out, got);
}

static int check_road(bundle *b, const char *settings, values *v, bool compiled) {
    mlsys_program handle = pc_compile_inside(&pc, &b->all, settings);
    mlsi_program *p;
    OK(mlsi_pin(handle, MLSYS_KIND_PROGRAM, "test", &p));
    for (int k = 0; k < BINDINGS; k++)
        run_program(b, p, &v[k], settings);
    int kernels = p->generated ? check_functions(p, &b->r, compiled) : 0;
    mlsi_unpin(p);
    OK(mlsys_release(handle));
    return kernels;
}

/* ---- batches --------------------------------------------------------------------------------------------------- */

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static void without_compiler(bool without) {
    static char own[512];
    const char *cc = getenv("MLSYS_CC");
    if (without) {
        snprintf(own, sizeof own, "%s", cc ? cc : "");
        setenv("MLSYS_CC", "/nonexistent/cc", 1);
    } else if (own[0]) {
        setenv("MLSYS_CC", own, 1);
    } else {
        unsetenv("MLSYS_CC");
    }
}

static void check_batch(int batch, int only) {
    static const char *const isas[] = {"numerics=exact fuse=always isa=auto",
                                       "numerics=exact fuse=always isa=portable",
                                       "numerics=exact fuse=always isa=avx2"};
    static const char *const blocks[] = {"numerics=exact fuse=always",
                                         "numerics=exact fuse=always isa=portable",
                                         "numerics=exact fuse=always isa=avx2"};
    bundle *b = bundle_new(batch, only);
    values *v = calloc(BINDINGS, sizeof *v);
    int every = setting("MLSYS_FUZZ_COMPILE", 1), kernels;
    ck_assert_ptr_nonnull(v);
    for (int k = 0; k < BINDINGS; k++) {
        make_values(b, &v[k]);
        interpret(b, &v[k]);
    }
    without_compiler(true);
    (void)check_road(b, "numerics=exact fuse=never", v, false);
    kernels = check_road(b, blocks[batch % 3], v, false);
    without_compiler(false);
    bool compiled = every && batch % every == 0;
    if (compiled) (void)check_road(b, isas[batch / every % 3], v, true);
    printf("batch %d: %d graphs, %d kernels%s\n", batch, b->n, kernels,
           compiled ? ", compiled" : "");
    fflush(stdout);
    for (int k = 0; k < BINDINGS; k++) {
        pc_release(b->n_in, v[k].in);
        pc_release(b->n_out, v[k].want);
    }
    free(v);
    bundle_free(b);
}

START_TEST(every_road_gives_the_same_bits) {
    int batch = _i, only = -1;
    const char *wanted = getenv("MLSYS_FUZZ_ONLY");
    if (wanted) sscanf(wanted, "%d,%d", &batch, &only);
    pc_open(&pc, 2);
    check_batch(batch, only);
    pc_close(&pc);
}
END_TEST

int main(void) {
    int graphs = setting("MLSYS_FUZZ_GRAPHS", FEW * BATCH), first = setting("MLSYS_FUZZ_FIRST", 0);
    Suite *s = suite_create("compiler");
    TCase *tc = tcase_create("graphs");
    seed = test_random_seed("check_compiler", SEED).state;
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, every_road_gives_the_same_bits, first,
                        getenv("MLSYS_FUZZ_ONLY") ? first + 1
                                                  : first + (graphs + BATCH - 1) / BATCH);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
