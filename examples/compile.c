/* Programs: compile once, know the memory before the run, run many times without allocating. A
 * two-layer network with a symbolic batch. */
#include "example.h"

enum { WIDTH = 64, HIDDEN = 256, BATCH = 32 };

static mlsys_status constant(mlsys_graph g, mlsys_device cpu, mlsys_stream stream, uint64_t key,
                             int64_t rows, int64_t columns, mlsys_value *out) {
    const int64_t shape[2] = {rows, columns};
    mlsys_tensor t = NULL;
    mlsys_status st = mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &t);
    if (st == MLSYS_OK) st = mlsys_tensor_random(t, stream, "normal", key, 0);
    if (st == MLSYS_OK) st = mlsys_graph_const(g, t, out);
    mlsys_release(t); /* the graph keeps it */
    return st;
}

static mlsys_status build(mlsys_graph g, mlsys_device cpu, mlsys_stream stream) {
    mlsys_dim shape[2] = {0, WIDTH};
    mlsys_value a[2], b[2];
    mlsys_status st = mlsys_graph_symbol(g, "B", 1, 1024, 1, &shape[0]);
    if (st == MLSYS_OK) st = mlsys_graph_input(g, "x", MLSYS_F32, 2, shape, &a[0]);
    if (st == MLSYS_OK) st = constant(g, cpu, stream, 1, WIDTH, HIDDEN, &a[1]);
    if (st == MLSYS_OK) st = constant(g, cpu, stream, 2, HIDDEN, WIDTH, &b[1]);
    if (st == MLSYS_OK) st = mlsys_graph_op(g, "matmul", 2, a, NULL, 1, &b[0]);
    if (st == MLSYS_OK) st = mlsys_graph_op(g, "gelu", 1, &b[0], NULL, 1, &b[0]);
    if (st == MLSYS_OK) st = mlsys_graph_op(g, "matmul", 2, b, NULL, 1, &b[0]);
    return st == MLSYS_OK ? mlsys_graph_output(g, "y", b[0]) : st;
}

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph graph = NULL;
    mlsys_program program = NULL;
    mlsys_tensor x = NULL, y = NULL;
    mlsys_cost cost = {.size = sizeof cost};
    mlsys_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    const char *const symbol[1] = {"B"};
    const int64_t binding[1] = {BATCH}, shape[2] = {BATCH, WIDTH};
    uint64_t scratch = 0;
    char text[8192];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_graph_create(ctx, &graph));
    TRY(build(graph, cpu, stream));
    TRY(mlsys_graph_compile(graph, cpu, NULL, &program));
    TRY(mlsys_program_dump(program, MLSYS_DUMP_KERNELS, text, sizeof text, NULL));
    printf("%s\n", text);

    /* Before the run: what will it cost for 32 rows? */
    TRY(mlsys_program_cost(program, 1, symbol, binding, &cost));
    printf("flops %llu, peak %llu bytes, constants %llu bytes, %llu kernels\n",
           (unsigned long long)cost.flops, (unsigned long long)cost.peak_bytes,
           (unsigned long long)cost.constant_bytes, (unsigned long long)cost.kernels);

    /* With the scratch reserved and the output given, a run allocates nothing. */
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &x));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &y));
    TRY(mlsys_tensor_random(x, stream, "normal", 3, 0));
    TRY(mlsys_program_reserve(program, stream, 1, symbol, binding));
    TRY(mlsys_ctx_stats(ctx, &before));
    for (int i = 0; i < 10; i++)
        TRY(mlsys_program_run(program, stream, 1, &x, 1, &y));
    TRY(mlsys_ctx_stats(ctx, &after));
    CLAIM(after.allocations == before.allocations);

    /* The prediction is exact: scratch of the stream, and the output. */
    TRY(mlsys_stream_scratch_bytes(stream, &scratch));
    printf("scratch %llu bytes + output %d bytes\n", (unsigned long long)scratch,
           BATCH * WIDTH * 4);
    CLAIM(cost.peak_bytes == scratch + BATCH * WIDTH * 4);

    TRY(mlsys_program_dump(program, MLSYS_DUMP_MEMPLAN, text, sizeof text, NULL));
    printf("%s\n", text);
    rc = 0;
done:
    mlsys_release(y);
    mlsys_release(x);
    mlsys_release(program);
    mlsys_release(graph);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
