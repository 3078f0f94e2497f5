/* One product computed eagerly, then the same in a compiled graph. This is the program of
 * README.md. */
#include <mlsys/mlsys.h>
#include <stdio.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != MLSYS_OK) {                                                                  \
            fprintf(stderr, "%s\n", mlsys_last_error());                                           \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_tensor x = NULL, w = NULL, eager = NULL, y = NULL;
    mlsys_graph graph = NULL;
    mlsys_program program = NULL;
    const int64_t x_shape[2] = {2, 3}, w_shape[2] = {3, 2};
    const float x_values[6] = {1, 2, 3, 4, 5, 6}, w_values[6] = {1, 0, 0, -1, 1, 0};
    float out[4];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, x_shape, &x));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, w_shape, &w));
    TRY(mlsys_tensor_write(x, stream, x_values, sizeof x_values));
    TRY(mlsys_tensor_write(w, stream, w_values, sizeof w_values));

    /* Now: one op of the table. */
    mlsys_tensor operands[2] = {x, w};
    TRY(mlsys_op_run(stream, "matmul", 2, operands, NULL, 1, &eager));
    TRY(mlsys_tensor_read(eager, stream, out, sizeof out));
    printf("eager    %g %g %g %g\n", out[0], out[1], out[2], out[3]);

    /* Later, many times: the same op and a relu as a program. */
    mlsys_value v[2], product, result;
    TRY(mlsys_graph_create(ctx, &graph));
    TRY(mlsys_graph_input(graph, "x", MLSYS_F32, 2, x_shape, &v[0]));
    TRY(mlsys_graph_const(graph, w, &v[1]));
    TRY(mlsys_graph_op(graph, "matmul", 2, v, NULL, 1, &product));
    TRY(mlsys_graph_op(graph, "relu", 1, &product, NULL, 1, &result));
    TRY(mlsys_graph_output(graph, "y", result));
    TRY(mlsys_graph_compile(graph, cpu, NULL, &program));
    TRY(mlsys_program_run(program, stream, 1, &x, 1, &y));
    TRY(mlsys_tensor_read(y, stream, out, sizeof out));
    printf("compiled %g %g %g %g\n", out[0], out[1], out[2], out[3]);
    rc = 0;
done:
    /* Any order is right; NULL is accepted. */
    mlsys_release(ctx);
    mlsys_release(cpu);
    mlsys_release(stream);
    mlsys_release(x);
    mlsys_release(w);
    mlsys_release(eager);
    mlsys_release(y);
    mlsys_release(graph);
    mlsys_release(program);
    return rc;
}
