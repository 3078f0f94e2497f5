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

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_config last = NULL;
    mlsys_tensor q = NULL, k = NULL, v = NULL, kt = NULL, scores = NULL, scale = NULL,
                 scaled = NULL;
    mlsys_tensor weights = NULL, steps = NULL, whole = NULL, q4 = NULL, k4 = NULL, v4 = NULL;
    const int64_t shape[2] = {TOKENS, DIM}, heads[4] = {1, TOKENS, 1, DIM};
    const float half = 0.5f; /* 1 / sqrt(DIM) */
    float a[TOKENS * DIM], b[TOKENS * DIM];

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &q));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &k));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &v));
    /* Random numbers are a function of (key, stream, position): the same on every machine. */
    TRY(mlsys_tensor_random(q, stream, "normal", 42, 0));
    TRY(mlsys_tensor_random(k, stream, "normal", 42, 1));
    TRY(mlsys_tensor_random(v, stream, "normal", 42, 2));

    TRY(mlsys_tensor_transpose(k, 0, 1, &kt));
    TRY(mlsys_matmul(stream, q, kt, &scores));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 0, NULL, &scale));
    TRY(mlsys_tensor_write(scale, stream, &half, sizeof half));
    TRY(op(stream, "mul", scores, scale, NULL, &scaled)); /* a scalar broadcasts */
    TRY(mlsys_config_create(&last));
    TRY(mlsys_config_set_i64(last, "axis", -1));
    TRY(op(stream, "softmax", scaled, NULL, last, &weights));
    TRY(mlsys_matmul(stream, weights, v, &steps));

    /* attention wants [batch, tokens, heads, dim]: views of the same memory. */
    TRY(mlsys_tensor_reshape(q, 4, heads, &q4, NULL));
    TRY(mlsys_tensor_reshape(k, 4, heads, &k4, NULL));
    TRY(mlsys_tensor_reshape(v, 4, heads, &v4, NULL));
    mlsys_tensor in[3] = {q4, k4, v4};
    TRY(mlsys_op_run(stream, "attention", 3, in, NULL, 1, &whole));

    TRY(mlsys_tensor_read(steps, stream, a, sizeof a));
    TRY(mlsys_tensor_read(whole, stream, b, sizeof b));
    for (int i = 0; i < TOKENS * DIM; i++) {
        printf("%9.5f %9.5f\n", a[i], b[i]);
        CLAIM(fabsf(a[i] - b[i]) < 1e-5f); /* two orders of the same sum */
    }

    /* An op says what it takes, and what was wrong. */
    CLAIM(op(stream, "softmaxx", scaled, NULL, NULL, &whole) == MLSYS_E_NOTFOUND);
    printf("refused: %s\n", mlsys_last_error());
    TRY(mlsys_config_set_i64(last, "axis", 5));
    CLAIM(mlsys_op_run(stream, "softmax", 1, &scaled, last, 1, &in[0]) != MLSYS_OK);
    printf("refused: %s\n", mlsys_last_error());
    rc = 0;
done:;
    mlsys_tensor all[] = {q, k, v, kt, scores, scale, scaled, weights, steps, whole, q4, k4, v4};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mlsys_release(all[i]);
    mlsys_release(last);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
