/* Graphs: the same program for every batch. A symbol stands for an extent; the text form prints it,
 * parses back, and the reference interpreter runs it without any kernel. */
#include "example.h"

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph graph = NULL, again = NULL;
    mlsys_config last = NULL;
    mlsys_tensor w = NULL, x = NULL, y = NULL;
    mlsys_dim batch;
    mlsys_value v[2], product, probabilities;
    const int64_t w_shape[2] = {3, 2}, x_shape[2] = {4, 3};
    float w_values[6] = {1, 0, 0, 1, 1, 1}, out[8];
    char text[4096], text_again[4096];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, w_shape, &w));
    TRY(mlsys_tensor_write(w, stream, w_values, sizeof w_values));

    TRY(mlsys_graph_create(ctx, &graph));
    TRY(mlsys_graph_symbol(graph, "B", 1, 64, 1, &batch)); /* 1 <= B <= 64 */
    const mlsys_dim in_shape[2] = {batch, 3};
    TRY(mlsys_graph_input(graph, "x", MLSYS_F32, 2, in_shape, &v[0]));
    TRY(mlsys_graph_const(graph, w, &v[1]));
    TRY(mlsys_graph_op(graph, "matmul", 2, v, NULL, 1, &product));
    TRY(mlsys_config_create(&last));
    TRY(mlsys_config_set_i64(last, "axis", -1));
    TRY(mlsys_graph_op(graph, "softmax", 1, &product, last, 1, &probabilities));
    TRY(mlsys_graph_output(graph, "p", probabilities));

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
    CLAIM(mlsys_graph_op(graph, "matmul", 2, (mlsys_value[2]){v[0], v[0]}, NULL, 1, &product) ==
          MLSYS_E_SHAPE);
    printf("refused: %s\n", mlsys_last_error());
    rc = 0;
done:
    mlsys_release(y);
    mlsys_release(x);
    mlsys_release(w);
    mlsys_release(last);
    mlsys_release(again);
    mlsys_release(graph);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
