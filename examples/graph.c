/* Graphs: the same program for every batch. A symbol stands for an extent; the text form prints it,
 * parses back, and the reference interpreter runs it without any kernel. */
#include "example.h"

/* p = softmax(x w) for x [B, 3], 1 <= B <= 64. */
static mlsys_status build(mlsys_graph g, mlsys_tensor w, mlsys_value *x) {
    mlsys_dim shape[2] = {0, 3};
    mlsys_config last = NULL;
    mlsys_value v[2] = {0, 0}, y = 0;
    mlsys_status st = mlsys_graph_symbol(g, "B", 1, 64, 1, &shape[0]);
    if (st == MLSYS_OK) st = mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &v[0]);
    if (st == MLSYS_OK) st = mlsys_graph_const(g, w, &v[1]);
    if (st == MLSYS_OK) st = mlsys_graph_op(g, "matmul", 2, v, NULL, 1, &y);
    if (st == MLSYS_OK) st = mlsys_config_create(&last);
    if (st == MLSYS_OK) st = mlsys_config_set_i64(last, "axis", -1);
    if (st == MLSYS_OK) st = mlsys_graph_op(g, "softmax", 1, &y, last, 1, &y);
    if (st == MLSYS_OK) st = mlsys_graph_output(g, "p", y);
    mlsys_release(last);
    *x = v[0];
    return st;
}

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph graph = NULL, again = NULL;
    mlsys_tensor w = NULL, x = NULL, y = NULL;
    mlsys_value input, none;
    const int64_t w_shape[2] = {3, 2}, x_shape[2] = {4, 3};
    const float w_values[6] = {1, 0, 0, 1, 1, 1};
    float out[8];
    char text[4096], text_again[4096];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, w_shape, &w));
    TRY(mlsys_tensor_write(w, stream, w_values, sizeof w_values));
    TRY(mlsys_graph_create(ctx, &graph));
    TRY(build(graph, w, &input));

    TRY(mlsys_graph_verify(graph));
    TRY(mlsys_graph_print(graph, text, sizeof text, NULL));
    printf("%s", text);
    TRY(mlsys_graph_parse(ctx, text, &again));
    TRY(mlsys_graph_print(again, text_again, sizeof text_again, NULL));
    CLAIM(!strcmp(text, text_again));

    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, x_shape, &x));
    TRY(mlsys_tensor_random(x, stream, "uniform", 7, 0));
    TRY(mlsys_graph_interpret(again, stream, 1, &x, 1, &y));
    TRY(mlsys_tensor_read(y, stream, out, sizeof out));
    for (int i = 0; i < 4; i++) {
        printf("%.4f %.4f\n", out[2 * i], out[2 * i + 1]);
        CLAIM(out[2 * i] + out[2 * i + 1] > 0.9999f && out[2 * i] + out[2 * i + 1] < 1.0001f);
    }

    /* Types are checked while the graph grows. */
    const mlsys_value twice[2] = {input, input};
    CLAIM(mlsys_graph_op(graph, "matmul", 2, twice, NULL, 1, &none) == MLSYS_E_SHAPE);
    printf("refused: %s\n", mlsys_last_error());
    rc = 0;
done:
    mlsys_release(y);
    mlsys_release(x);
    mlsys_release(w);
    mlsys_release(again);
    mlsys_release(graph);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
