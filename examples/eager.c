/* Eager calls: one op of the table at a time, with attributes in a config. Here the softmax of the
 * scaled scores of a small attention, step by step, and the same by the op `attention`. */
#include "example.h"

#include <math.h>

enum { TOKENS = 3, DIM = 4 };

static mlsys_status op(mlsys_stream s, const char *name, mlsys_tensor a, mlsys_tensor b,
                       mlsys_config attrs, mlsys_tensor *out) {
    mlsys_tensor in[2] = {a, b};
    return mlsys_op_run(s, name, b ? 2 : 1, in, attrs, 1, out);
}

/* softmax(q k^T / 2) v, one op at a time; what lies between is released at once. */
static mlsys_status by_steps(mlsys_stream s, mlsys_device cpu, mlsys_config last_axis,
                             mlsys_tensor q, mlsys_tensor k, mlsys_tensor v, mlsys_tensor *out) {
    const float half = 0.5f; /* 1 / sqrt(DIM) */
    mlsys_tensor kt = NULL, scores = NULL, scale = NULL, scaled = NULL, weights = NULL;
    mlsys_status st = mlsys_tensor_transpose(k, 0, 1, &kt);
    if (st == MLSYS_OK) st = mlsys_matmul(s, q, kt, &scores);
    if (st == MLSYS_OK) st = mlsys_tensor_create(cpu, MLSYS_F32, 0, NULL, &scale);
    if (st == MLSYS_OK) st = mlsys_tensor_write(scale, s, &half, sizeof half);
    if (st == MLSYS_OK) st = op(s, "mul", scores, scale, NULL, &scaled); /* a scalar broadcasts */
    if (st == MLSYS_OK) st = op(s, "softmax", scaled, NULL, last_axis, &weights);
    if (st == MLSYS_OK) st = mlsys_matmul(s, weights, v, out);
    mlsys_release(kt);
    mlsys_release(scores);
    mlsys_release(scale);
    mlsys_release(scaled);
    mlsys_release(weights);
    return st;
}

/* The same whole. attention wants [batch, tokens, heads, dim]: views of the same memory. */
static mlsys_status at_once(mlsys_stream s, mlsys_tensor q, mlsys_tensor k, mlsys_tensor v,
                            mlsys_tensor *out) {
    const int64_t heads[4] = {1, TOKENS, 1, DIM};
    mlsys_tensor in[3] = {NULL, NULL, NULL};
    mlsys_status st = mlsys_tensor_reshape(q, 4, heads, &in[0], NULL);
    if (st == MLSYS_OK) st = mlsys_tensor_reshape(k, 4, heads, &in[1], NULL);
    if (st == MLSYS_OK) st = mlsys_tensor_reshape(v, 4, heads, &in[2], NULL);
    if (st == MLSYS_OK) st = mlsys_op_run(s, "attention", 3, in, NULL, 1, out);
    for (int i = 0; i < 3; i++)
        mlsys_release(in[i]);
    return st;
}

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_config axis = NULL;
    mlsys_tensor qkv[3] = {NULL, NULL, NULL}, steps = NULL, whole = NULL, none = NULL;
    const int64_t shape[2] = {TOKENS, DIM};
    float a[TOKENS * DIM], b[TOKENS * DIM];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    for (int i = 0; i < 3; i++) {
        /* Random numbers are a function of (key, stream, position): the same on every machine. */
        TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &qkv[i]));
        TRY(mlsys_tensor_random(qkv[i], stream, "normal", 42, (uint64_t)i));
    }
    TRY(mlsys_config_create(&axis));
    TRY(mlsys_config_set_i64(axis, "axis", -1));
    TRY(by_steps(stream, cpu, axis, qkv[0], qkv[1], qkv[2], &steps));
    TRY(at_once(stream, qkv[0], qkv[1], qkv[2], &whole));

    TRY(mlsys_tensor_read(steps, stream, a, sizeof a));
    TRY(mlsys_tensor_read(whole, stream, b, sizeof b));
    for (int i = 0; i < TOKENS * DIM; i++) {
        printf("%9.5f %9.5f\n", a[i], b[i]);
        CLAIM(fabsf(a[i] - b[i]) < 1e-5f); /* two orders of the same sum */
    }

    /* An op says what it takes, and what was wrong. */
    CLAIM(op(stream, "softmaxx", steps, NULL, NULL, &none) == MLSYS_E_NOTFOUND);
    printf("refused: %s\n", mlsys_last_error());
    TRY(mlsys_config_set_i64(axis, "axis", 5));
    CLAIM(op(stream, "softmax", steps, NULL, axis, &none) != MLSYS_OK);
    printf("refused: %s\n", mlsys_last_error());
    rc = 0;
done:
    for (int i = 0; i < 3; i++)
        mlsys_release(qkv[i]);
    mlsys_release(steps);
    mlsys_release(whole);
    mlsys_release(axis);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
