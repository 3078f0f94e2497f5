/* Gradients of conv and pool over symbolic spatial extents: one program for all sizes has, at each of them, the bits of
 * the gradient of the graph with that size. What no expression can say is refused by name. */
#include "support/program_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer {
    const char *op, *attrs; /* key=value,value ... */
    int64_t w[4];           /* of a conv */
} layer;

enum { LAYERS = 3, CHANNELS = 4, MOST_IN = 2 + LAYERS };
typedef struct chain {
    layer layers[LAYERS];
    int64_t least, divisor; /* of H and W */
} chain;

static const chain chains[] = {
    {{{"conv", "pads=1,1,1,1", {3, 4, 3, 3}}}, 3, 1},
    {{{"conv", "strides=2,1 pads=1,0,2,1 dilations=1,2 groups=2", {6, 2, 3, 2}}}, 3, 1},
    {{{"conv", "strides=3,2", {2, 4, 2, 1}}}, 3, 1}, /* the last cells may meet no window */
    {{{"conv", "strides=2,2", {18, 4, 2, 2}}}, 4, 2},
    {{{"conv", "transposed=1 strides=2,3 pads=1,0,0,1 output_pads=1,2", {4, 3, 3, 2}}}, 3, 1},
    {{{"conv", "transposed=1 dilations=2,1 groups=2", {4, 2, 2, 3}}}, 3, 1},
    {{{"pool", "kernel=2,2 strides=2,2", {0}}}, 3, 1},
    {{{"pool", "kernel=3,3 strides=2,2 pads=1,1,1,1", {0}}}, 3, 1},
    {{{"pool", "kernel=3,2 kind=average", {0}}}, 4, 1},
    {{{"pool", "kernel=2,3 strides=2,3 pads=1,1,0,2 kind=average count_pad=1", {0}}}, 4, 1},
    {{{"pool", "kernel=3,2 strides=2,1 pads=1,0,1,1 kind=average", {0}}}, 4, 1},
    {{{"pool", "kernel=2,2 dilations=2,3 kind=sum", {0}}}, 5, 1},
    {{{"pool", "kernel=1,2 strides=3,3 kind=sum", {0}}}, 3, 1}, /* gaps between windows */
    {{{"conv", "strides=2,2 pads=1,1,1,1", {4, 4, 3, 3}},
      {"pool", "kernel=2,2 strides=2,2", {0}},
      {"conv", "pads=1,1,1,1", {2, 4, 3, 3}}},
     5,
     1},
    {{{"conv", "pads=1,1,1,1", {5, 4, 3, 3}},
      {"pool", "kernel=2,2 strides=2,2 kind=average", {0}},
      {"conv", "transposed=1 strides=2,2", {5, 2, 2, 2}}},
     4,
     4},
};
enum { CHAINS = (int)(sizeof chains / sizeof chains[0]) };

static bool is_scalar(const char *key) {
    return !strcmp(key, "groups") || !strcmp(key, "transposed") || !strcmp(key, "count_pad");
}

static mlsys_config config_of(const char *attrs) {
    mlsys_config c;
    char text[128], *save = NULL, *more = NULL;
    OK(mlsys_config_create(&c));
    snprintf(text, sizeof text, "%s", attrs);
    for (char *key = strtok_r(text, " ", &save); key; key = strtok_r(NULL, " ", &save)) {
        char *value = strchr(key, '=');
        int64_t v[8];
        int32_t n = 0;
        *value++ = 0;
        if (!strcmp(key, "kind")) {
            OK(mlsys_config_set_str(c, key, value));
            continue;
        }
        for (char *s = strtok_r(value, ",", &more); s; s = strtok_r(NULL, ",", &more))
            v[n++] = atoll(s);
        OK(is_scalar(key) ? mlsys_config_set_i64(c, key, v[0])
                          : mlsys_config_set_i64s(c, key, n, v));
    }
    return c;
}

/* Inputs x, the weights, the seed; outputs their gradients but the seed's. */
typedef struct built {
    mlsys_graph g;
    mlsys_value in[MOST_IN];
    int n_in, n_x;
} built;

static mlsys_value add_layer(built *b, const layer *l, mlsys_value x) {
    mlsys_value in[2] = {x}, y;
    bool conv = !strcmp(l->op, "conv");
    if (conv) {
        OK(mlsys_graph_input(b->g, "", MLSYS_F32, 4, l->w, &in[1]));
        b->in[b->n_in++] = in[1];
    }
    mlsys_config c = config_of(l->attrs);
    OK(mlsys_graph_op(b->g, l->op, conv ? 2 : 1, in, c, 1, &y));
    OK(mlsys_release(c));
    return y;
}

static mlsys_value build_forward(built *b, const program_case *pc, const chain *c, bool symbolic,
                                 int64_t h, int64_t w) {
    mlsys_dim shape[4] = {2, CHANNELS, h, w};
    memset(b, 0, sizeof *b);
    OK(mlsys_graph_create(pc->ctx_handle, &b->g));
    if (symbolic) {
        OK(mlsys_graph_symbol(b->g, "H", c->least, 64, c->divisor, &shape[2]));
        OK(mlsys_graph_symbol(b->g, "W", c->least, 64, c->divisor, &shape[3]));
    }
    OK(mlsys_graph_input(b->g, "x", MLSYS_F32, 4, shape, &b->in[b->n_in++]));
    mlsys_value y = b->in[0];
    for (int i = 0; i < LAYERS && c->layers[i].op; i++)
        y = add_layer(b, &c->layers[i], y);
    return y;
}

static void build(built *b, const program_case *pc, const chain *c, bool symbolic, int64_t h,
                  int64_t w) {
    mlsys_value y = build_forward(b, pc, c, symbolic, h, w), dx[MOST_IN];
    mlsys_dtype dtype;
    int64_t shape[8];
    int32_t rank;
    OK(mlsys_graph_type(b->g, y, &dtype, 8, shape, &rank));
    b->n_x = b->n_in;
    OK(mlsys_graph_input(b->g, "seed", dtype, rank, shape, &b->in[b->n_in++]));
    OK(mlsys_graph_gradient(b->g, 1, &y, &b->in[b->n_x], b->n_x, b->in, NULL, dx));
    for (int i = 0; i < b->n_x; i++)
        OK(mlsys_graph_output(b->g, "", dx[i]));
}

/* Values that are often equal, so that maxima have ties. */
static void fill(const program_case *pc, const built *fixed, mlsys_tensor *in) {
    kc_rng r = kc_seed(17);
    for (int i = 0; i < fixed->n_in; i++) {
        mlsys_dtype dtype;
        int64_t shape[8];
        int32_t rank;
        OK(mlsys_graph_type(fixed->g, fixed->in[i], &dtype, 8, shape, &rank));
        in[i] = pc_tensor(pc, dtype, rank, shape, NULL);
        mlsi_view v = rg_view(in[i]);
        for (int64_t k = 0; k < mlsi_view_count(&v); k++)
            ((float *)v.data)[k] = i ? (float)kc_uniform(&r, -1, 1) : (float)kc_int(&r, -3, 3);
    }
}

START_TEST(bits_of_the_fixed_size) {
    static const int64_t sizes[][2] = {{0, 0}, {1, 2}, {2, 1}, {3, 5}, {8, 4}, {13, 7}};
    const chain *c = &chains[_i];
    program_case pc;
    built any, fixed;
    pc_open(&pc, 2);
    build(&any, &pc, c, true, 0, 0);
    mlsys_program program = pc_compile(&pc, any.g, "numerics=exact");
    mlsys_program portable = pc_compile(&pc, any.g, "numerics=exact isa=portable");
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t h = c->least + c->divisor * sizes[s][0], w = c->least + c->divisor * sizes[s][1];
        mlsys_tensor in[MOST_IN], want[MOST_IN] = {NULL}, got[MOST_IN] = {NULL};
        build(&fixed, &pc, c, false, h, w);
        fill(&pc, &fixed, in);
        mlsys_program of_size = pc_compile(&pc, fixed.g, "numerics=exact");
        OK(mlsys_program_run(of_size, pc.stream, fixed.n_in, in, fixed.n_x, want));
        for (int way = 0; way < 3; way++) {
            if (way == 2)
                OK(mlsys_graph_interpret(any.g, pc.stream, any.n_in, in, any.n_x, got));
            else
                OK(mlsys_program_run(way ? portable : program, pc.stream, any.n_in, in, any.n_x,
                                     got));
            for (int i = 0; i < any.n_x; i++)
                ck_assert_msg(rg_difference(got[i], want[i]) < 0,
                              "chain %d, %d x %d, way %d: gradient %d", _i, (int)h, (int)w, way, i);
            pc_release(any.n_x, got);
        }
        pc_release(fixed.n_x, want);
        pc_release(fixed.n_in, in);
        OK(mlsys_release(of_size));
        OK(mlsys_release(fixed.g));
    }
    OK(mlsys_release(program));
    OK(mlsys_release(portable));
    OK(mlsys_release(any.g));
    pc_close(&pc);
}
END_TEST

/* Numbers of windows that may be 0, or more than a kernel may have. */
START_TEST(refused_by_name) {
    static const struct {
        layer l;
        int64_t least, most;
        const char *text; /* by the weights or x; NULL: not refused */
        bool by_w;
    } cases[] = {
        {{"conv", "", {2, 4, 3, 3}}, 2, 9, "conv: gradient over H-2 windows along axis 2", true},
        {{"conv", "", {2, 4, 3, 3}},
         3,
         1 << 30,
         "windows along axis 2, outside [1,16777216]",
         true},
        {{"conv", "", {2, 4, 3, 3}}, 2, 9, NULL, false},
        {{"pool", "kernel=2,2", {0}}, 1, 9, "pool: gradient over H-1 windows along axis 2", false},
        {{"pool", "kernel=2,2 strides=1,3", {0}}, 2, 9, NULL, false},
    };
    program_case pc;
    built b;
    pc_open(&pc, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mlsys_dim shape[4] = {2, CHANNELS, 0, 8};
        mlsys_value dx;
        memset(&b, 0, sizeof b);
        OK(mlsys_graph_create(pc.ctx_handle, &b.g));
        OK(mlsys_graph_symbol(b.g, "H", cases[i].least, cases[i].most, 1, &shape[2]));
        OK(mlsys_graph_input(b.g, "x", MLSYS_F32, 4, shape, &b.in[b.n_in++]));
        mlsys_value y = add_layer(&b, &cases[i].l, b.in[0]);
        mlsys_status st =
            mlsys_graph_gradient(b.g, 1, &y, NULL, 1, &b.in[cases[i].by_w], NULL, &dx);
        if (cases[i].text)
            pc_expect(st, MLSYS_E_UNSUPPORTED, cases[i].text);
        else
            OK(st);
        OK(mlsys_release(b.g));
    }
    pc_close(&pc);
}
END_TEST

int main(void) {
    Suite *s = suite_create("symbolic_windows");
    TCase *t = tcase_create("windows");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, bits_of_the_fixed_size, 0, CHAINS);
    tcase_add_test(t, refused_by_name);
    suite_add_tcase(s, t);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
