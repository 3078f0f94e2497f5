/* A layer, a loss and an optimiser that the library does not have, trained on y = sin(3 x): softsign with a
 * gradient rule from C, sqrt(1 + d^2), and momentum whose direction alone counts. A step is one program. */
#include "example.h"

#include <math.h>

enum { POINTS = 64, WIDE = 24, WEIGHTS = 4, STEPS = 600, IN = 3 + 2 * WEIGHTS, OUT = IN - 2 };

/* The layer: y = x / (1 + |x|). */
static mlsys_status infer(void *user, int32_t n_in, const mlsys_dtype *dtypes, const int32_t *ndims,
                          const int64_t *in_shapes, mlsys_config attrs, int32_t n_out,
                          mlsys_dtype *out_dtypes, int32_t *out_ndims, int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    if (dtypes[0] != MLSYS_F32) return mlsys_set_error(MLSYS_E_DTYPE, "softsign: x is not f32");
    out_dtypes[0] = dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, MLSYS_MAX_DIMS * sizeof *in_shapes);
    return MLSYS_OK;
}

static mlsys_status run(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                        mlsys_config attrs, int32_t n_out, const mlsys_tensor *out) {
    (void)user, (void)stream, (void)n_in, (void)attrs, (void)n_out;
    void *x, *y; /* dense here; custom_op.c asks for the layout */
    uint64_t bytes;
    mlsys_status st = mlsys_tensor_data(in[0], &x, NULL);
    if (st == MLSYS_OK) st = mlsys_tensor_data(out[0], &y, &bytes);
    for (uint64_t i = 0; st == MLSYS_OK && i < bytes / sizeof(float); i++)
        ((float *)y)[i] = ((const float *)x)[i] / (1 + fabsf(((const float *)x)[i]));
    return st;
}

/* Builds with graph ops, and remembers its first failure. */
static mlsys_status status;
static mlsys_value op(mlsys_graph g, const char *name, mlsys_value a, mlsys_value b) {
    mlsys_value in[2] = {a, b}, out = 0;
    if (status == MLSYS_OK) status = mlsys_graph_op(g, name, b ? 2 : 1, in, NULL, 1, &out);
    return out;
}
static mlsys_value number(mlsys_graph g, double value) {
    mlsys_config c = NULL;
    mlsys_value out = 0;
    if (status == MLSYS_OK && !(status = mlsys_config_create(&c)) &&
        !(status = mlsys_config_set_str(c, "dtype", "f32")) &&
        !(status = mlsys_config_set_f64(c, "value", value)) &&
        !(status = mlsys_config_set_i64s(c, "shape", 0, NULL)))
        status = mlsys_graph_op(g, "full", 0, NULL, c, 1, &out);
    mlsys_release(c);
    return out;
}

/* dx = dy (1 - |y|)^2, as nodes: so it is compiled with the rest, and differentiates again. */
static mlsys_status gradient(void *user, mlsys_graph g, int32_t n_in, const mlsys_value *in,
                             mlsys_config attrs, int32_t n_out, const mlsys_value *out,
                             const mlsys_value *dout, const int32_t *wanted, mlsys_value *din) {
    (void)user, (void)n_in, (void)in, (void)attrs, (void)n_out, (void)wanted;
    mlsys_value rest = op(g, "sub", number(g, 1), op(g, "abs", out[0], 0));
    din[0] = op(g, "mul", dout[0], op(g, "mul", rest, rest));
    return status;
}

/* The loss: mean(sqrt(1 + (y - t)^2)) - 1. */
static mlsys_value loss_of(mlsys_graph g, mlsys_value y, mlsys_value t) {
    mlsys_value d = op(g, "sub", y, t), one = number(g, 1), d2 = op(g, "mul", d, d);
    return op(g, "sub", op(g, "reduce_mean", op(g, "sqrt", op(g, "add", d2, one), 0), 0), one);
}

/* The optimiser: m' = 0.9 m + g, w' = w - rate m' / rms(m'). */
static mlsys_value update(mlsys_graph g, mlsys_value w, mlsys_value dw, mlsys_value *m,
                          mlsys_value rate) {
    *m = op(g, "add", op(g, "mul", *m, number(g, 0.9)), dw);
    mlsys_value size = op(g, "sqrt", op(g, "reduce_mean", op(g, "mul", *m, *m), 0), 0);
    return op(g, "sub", w, op(g, "div", op(g, "mul", *m, rate), size));
}

static const int64_t shapes[WEIGHTS][2] = {{1, WIDE}, {1, WIDE}, {WIDE, 1}, {1, 1}},
                     column[2] = {POINTS, 1};

/* Inputs: x, t, rate, then each weight and its momentum; outputs: the new ones, and the loss. */
static mlsys_status build(mlsys_graph g) {
    mlsys_value x, t, rate, w[WEIGHTS], m[WEIGHTS], dw[WEIGHTS], loss;
    if ((status = mlsys_graph_input(g, "x", MLSYS_F32, 2, column, &x)) ||
        (status = mlsys_graph_input(g, "t", MLSYS_F32, 2, column, &t)) ||
        (status = mlsys_graph_input(g, "rate", MLSYS_F32, 0, NULL, &rate)))
        return status;
    for (int i = 0; i < 2 * WEIGHTS && status == MLSYS_OK; i++) {
        mlsys_value *v = i % 2 ? &m[i / 2] : &w[i / 2];
        status = mlsys_graph_input(g, NULL, MLSYS_F32, 2, shapes[i / 2], v);
        if (status == MLSYS_OK) status = mlsys_graph_donate(g, *v);
    }
    mlsys_value h = op(g, "softsign", op(g, "add", op(g, "matmul", x, w[0]), w[1]), 0);
    loss = loss_of(g, op(g, "add", op(g, "matmul", h, w[2]), w[3]), t);
    if (status == MLSYS_OK) status = mlsys_graph_gradient(g, 1, &loss, NULL, WEIGHTS, w, NULL, dw);
    for (int i = 0; i < WEIGHTS && status == MLSYS_OK; i++)
        if (!(status = mlsys_graph_output(g, NULL, update(g, w[i], dw[i], &m[i], rate))))
            status = mlsys_graph_output(g, NULL, m[i]);
    return status == MLSYS_OK ? mlsys_graph_output(g, "loss", loss) : status;
}

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph g = NULL;
    mlsys_program step = NULL;
    mlsys_tensor in[IN] = {NULL}, out[OUT] = {NULL};
    mlsys_opdef def;
    float loss = 0, zeros[WIDE] = {0}, x[POINTS], t[POINTS];
    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_opdef_init(&def, sizeof def));
    def.name = "softsign", def.n_in = def.n_out = 1;
    def.infer = infer, def.run = run, def.gradient = gradient;
    TRY(mlsys_op_register(ctx, &def));
    TRY(mlsys_graph_create(ctx, &g));
    TRY(build(g));
    TRY(mlsys_graph_compile(g, cpu, NULL, &step));
    for (int i = 0; i < POINTS; i++)
        x[i] = (float)(2 * i) / (POINTS - 1) - 1, t[i] = sinf(3 * x[i]);
    for (int i = 0; i < IN; i++) {
        const int64_t *shape = i < 3 ? column : shapes[(i - 3) / 2];
        TRY(mlsys_tensor_create(cpu, MLSYS_F32, i == 2 ? 0 : 2, shape, &in[i]));
        if (i < 2) TRY(mlsys_tensor_write(in[i], stream, i ? t : x, sizeof x));
        if (i > 2 && i % 2)
            TRY(mlsys_tensor_random(in[i], stream, "normal", 7, (uint64_t)i));
        else if (i > 2)
            TRY(mlsys_tensor_write(in[i], stream, zeros, (uint64_t)(shape[0] * shape[1]) * 4));
    }
    for (int i = 0; i < STEPS; i++) {
        const float rate = 0.03f * (1 - (float)i / STEPS);
        TRY(mlsys_tensor_write(in[2], stream, &rate, sizeof rate));
        TRY(mlsys_program_run(step, stream, IN, in, OUT, out));
        TRY(mlsys_tensor_read(out[OUT - 1], stream, &loss, sizeof loss));
        mlsys_release(out[OUT - 1]);
        for (int k = 0; k < OUT - 1; k++) /* the new state, in the memory of the old one */
            mlsys_release(in[3 + k]), in[3 + k] = out[k];
        memset(out, 0, sizeof out);
    }
    printf("loss after %d steps: %.6f\n", STEPS, (double)loss);
    CLAIM(loss < 1e-3f);
    rc = 0;
done:
    for (int i = 0; i < IN; i++)
        mlsys_release(in[i]);
    mlsys_release(step), mlsys_release(g), mlsys_release(stream), mlsys_release(cpu);
    return mlsys_release(ctx), rc;
}
