/* Custom ops: a program adds an op of its own, without touching the library. It then runs eagerly
 * and in graphs like a built-in one. Here "softsign": y = x / (1 + |x|), on contiguous f32. */
#include "example.h"

#include <math.h>

/* Same dtype and shape as the input; symbolic extents are passed on unchanged. */
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
    (void)stream, (void)n_in, (void)attrs, (void)n_out;
    void *x, *y;
    uint64_t bytes, room;
    int32_t contiguous;
    mlsys_status st = mlsys_tensor_layout(in[0], &contiguous, NULL);
    if (st == MLSYS_OK && !contiguous)
        st = mlsys_set_error(MLSYS_E_UNSUPPORTED, "softsign: x is not contiguous");
    if (st == MLSYS_OK) st = mlsys_tensor_data(in[0], &x, &bytes);
    if (st == MLSYS_OK) st = mlsys_tensor_data(out[0], &y, &room);
    if (st != MLSYS_OK) return st;
    int64_t shape[MLSYS_MAX_DIMS], n = 1;
    int32_t ndim;
    st = mlsys_tensor_shape(in[0], MLSYS_MAX_DIMS, shape, &ndim);
    for (int i = 0; i < ndim; i++)
        n *= shape[i];
    for (int64_t i = 0; i < n && st == MLSYS_OK; i++) {
        float v = ((const float *)x)[i];
        ((float *)y)[i] = v / (1 + fabsf(v));
    }
    ++*(int *)user;
    return st;
}

int main(void) {
    int rc = 1, calls = 0;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph graph = NULL;
    mlsys_program program = NULL;
    mlsys_tensor x = NULL, eager = NULL, y = NULL;
    mlsys_opdef def;
    mlsys_value v[2];
    const int64_t shape[1] = {4};
    const float values[4] = {-3, 0, 1, 9};
    float out[4];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_opdef_init(&def, sizeof def));
    def.name = "softsign";
    def.user = &calls;
    def.n_in = def.n_out = 1;
    def.infer = infer;
    def.run = run;
    TRY(mlsys_op_register(ctx, &def));

    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 1, shape, &x));
    TRY(mlsys_tensor_write(x, stream, values, sizeof values));
    TRY(mlsys_op_run(stream, "softsign", 1, &x, NULL, 1, &eager));

    TRY(mlsys_graph_create(ctx, &graph));
    TRY(mlsys_graph_input(graph, "x", MLSYS_F32, 1, shape, &v[0]));
    TRY(mlsys_graph_op(graph, "softsign", 1, v, NULL, 1, &v[1]));
    TRY(mlsys_graph_op(graph, "neg", 1, &v[1], NULL, 1, &v[1]));
    TRY(mlsys_graph_output(graph, "y", v[1]));
    TRY(mlsys_graph_compile(graph, cpu, NULL, &program));
    TRY(mlsys_program_run(program, stream, 1, &x, 1, &y));

    TRY(mlsys_tensor_read(eager, stream, out, sizeof out));
    printf("softsign      %g %g %g %g\n", out[0], out[1], out[2], out[3]);
    CLAIM(out[0] == -0.75f && out[1] == 0 && out[2] == 0.5f && out[3] == 0.9f);
    TRY(mlsys_tensor_read(y, stream, out, sizeof out));
    printf("neg(softsign) %g %g %g %g\n", out[0], out[1], out[2], out[3]);
    CLAIM(out[0] == 0.75f && out[2] == -0.5f && calls == 2);
    rc = 0;
done:
    mlsys_release(y);
    mlsys_release(eager);
    mlsys_release(x);
    mlsys_release(program);
    mlsys_release(graph);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
