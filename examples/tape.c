/* Gradients of eager ops: a tape records what runs on a stream. Here the line y = 2 x - 1 is found from points by
 * gradient descent, one op at a time. */
#include "example.h"

#include <math.h>

enum { POINTS = 16, STEPS = 200 };

static mlsys_status op(mlsys_stream s, const char *name, mlsys_tensor a, mlsys_tensor b,
                       mlsys_tensor *out) {
    mlsys_tensor in[2] = {a, b};
    return mlsys_op_run(s, name, b ? 2 : 1, in, NULL, 1, out);
}

/* The mean of (slope x + offset - y)^2; what lies between is released at once, for the tape keeps it. */
static mlsys_status loss_of(mlsys_stream s, mlsys_tensor slope, mlsys_tensor offset, mlsys_tensor x,
                            mlsys_tensor y, mlsys_tensor *out) {
    mlsys_tensor t[4] = {NULL, NULL, NULL, NULL};
    mlsys_status st = op(s, "mul", x, slope, &t[0]);
    if (st == MLSYS_OK) st = op(s, "add", t[0], offset, &t[1]);
    if (st == MLSYS_OK) st = op(s, "sub", t[1], y, &t[2]);
    if (st == MLSYS_OK) st = op(s, "mul", t[2], t[2], &t[3]);
    if (st == MLSYS_OK) st = op(s, "reduce_mean", t[3], NULL, out);
    for (int i = 0; i < 4; i++)
        mlsys_release(t[i]);
    return st;
}

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_tape tape = NULL;
    mlsys_tensor w[2] = {NULL, NULL}, dw[2] = {NULL, NULL}, x = NULL, y = NULL, loss = NULL;
    const int64_t shape[1] = {POINTS};
    float points[POINTS], values[POINTS], weight[2] = {0, 0}, slope, error = 0;

    for (int i = 0; i < POINTS; i++) {
        points[i] = (float)i / POINTS;
        values[i] = 2 * points[i] - 1;
    }
    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 1, shape, &x));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 1, shape, &y));
    TRY(mlsys_tensor_write(x, stream, points, sizeof points));
    TRY(mlsys_tensor_write(y, stream, values, sizeof values));
    for (int k = 0; k < 2; k++)
        TRY(mlsys_tensor_create(cpu, MLSYS_F32, 0, NULL, &w[k]));

    TRY(mlsys_tape_create(stream, &tape));
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < 2; k++)
            TRY(mlsys_tensor_write(w[k], stream, &weight[k], sizeof weight[k]));
        TRY(loss_of(stream, w[0], w[1], x, y, &loss));
        TRY(mlsys_tape_gradient(tape, 1, &loss, NULL, 2, w, dw));
        TRY(mlsys_tape_clear(tape)); /* or it would grow from step to step */
        TRY(mlsys_tensor_read(loss, stream, &error, sizeof error));
        mlsys_release(loss);
        loss = NULL;
        for (int k = 0; k < 2; k++) {
            TRY(mlsys_tensor_read(dw[k], stream, &slope, sizeof slope));
            weight[k] -= 0.8f * slope;
            mlsys_release(dw[k]);
            dw[k] = NULL;
        }
    }
    printf("y = %.4f x %+.4f, error %.2e\n", (double)weight[0], (double)weight[1], (double)error);
    CLAIM(fabsf(weight[0] - 2) < 1e-2f && fabsf(weight[1] + 1) < 1e-2f);
    rc = 0;
done:
    for (int k = 0; k < 2; k++) {
        mlsys_release(w[k]);
        mlsys_release(dw[k]);
    }
    mlsys_release(loss);
    mlsys_release(x);
    mlsys_release(y);
    mlsys_release(tape);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
