/* Training: a graph that computes a loss, a trainer that lowers it, a file from which another run goes on. The
 * network learns XOR; the resumed run ends with the bits of the one that was not interrupted. */
#include "example.h"

enum { PARAMS = 4, HALF = 200 };
static const char *const names[PARAMS] = {"w0", "b0", "w1", "b1"};
static const int64_t shapes[PARAMS][2] = {{2, 8}, {8}, {8, 1}, {1}};

/* A builder that remembers its first failure. */
static mlsys_status st;
static mlsys_value op(mlsys_graph g, const char *name, mlsys_value a, mlsys_value b) {
    const mlsys_value in[2] = {a, b};
    mlsys_value out = 0;
    if (st == MLSYS_OK) st = mlsys_graph_op(g, name, b ? 2 : 1, in, NULL, 1, &out);
    return out;
}

/* Mean of (tanh(x w0 + b0) w1 + b1 - y)^2 over a batch of any size. */
static mlsys_status build(mlsys_graph g, mlsys_value *p, mlsys_value *loss) {
    mlsys_dim xs[2] = {0, 2}, ys[2] = {0, 1};
    mlsys_value x = 0, y = 0;
    st = mlsys_graph_symbol(g, "B", 1, 1024, 1, &xs[0]);
    ys[0] = xs[0];
    if (st == MLSYS_OK) st = mlsys_graph_input(g, "x", MLSYS_F32, 2, xs, &x);
    if (st == MLSYS_OK) st = mlsys_graph_input(g, "y", MLSYS_F32, 2, ys, &y);
    for (int i = 0; i < PARAMS && st == MLSYS_OK; i++)
        st = mlsys_graph_input(g, names[i], MLSYS_F32, i % 2 ? 1 : 2, shapes[i], &p[i]);
    mlsys_value h = op(g, "tanh", op(g, "add", op(g, "matmul", x, p[0]), p[1]), 0);
    mlsys_value error = op(g, "sub", op(g, "add", op(g, "matmul", h, p[2]), p[3]), y);
    *loss = op(g, "reduce_mean", op(g, "mul", error, error), 0);
    return st;
}

static mlsys_status steps(mlsys_trainer t, const mlsys_tensor batch[2], double *loss) {
    mlsys_status s = MLSYS_OK;
    for (int i = 0; i < HALF && s == MLSYS_OK; i++)
        s = mlsys_trainer_step(t, 2, batch, loss);
    return s;
}

static mlsys_status make_batch(mlsys_device cpu, mlsys_stream stream, mlsys_tensor batch[2]) {
    static const float x[8] = {0, 0, 0, 1, 1, 0, 1, 1}, y[4] = {0, 1, 1, 0};
    const int64_t xs[2] = {4, 2}, ys[2] = {4, 1};
    mlsys_status s = mlsys_tensor_create(cpu, MLSYS_F32, 2, xs, &batch[0]);
    if (s == MLSYS_OK) s = mlsys_tensor_create(cpu, MLSYS_F32, 2, ys, &batch[1]);
    if (s == MLSYS_OK) s = mlsys_tensor_write(batch[0], stream, x, sizeof x);
    return s == MLSYS_OK ? mlsys_tensor_write(batch[1], stream, y, sizeof y) : s;
}

int main(void) {
    static const char file[] = "/tmp/mlsys-example-xor.safetensors";
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph g = NULL;
    mlsys_config config = NULL;
    mlsys_trainer run = NULL, resumed = NULL;
    mlsys_tensor batch[2] = {NULL}, w[PARAMS] = {NULL};
    mlsys_value params[PARAMS], loss_value;
    double first, loss, again;

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_graph_create(ctx, &g));
    TRY(build(g, params, &loss_value));
    for (int i = 0; i < PARAMS; i++) {
        TRY(mlsys_tensor_create(cpu, MLSYS_F32, i % 2 ? 1 : 2, shapes[i], &w[i]));
        TRY(mlsys_tensor_random(w[i], stream, "normal", 1, (uint64_t)i));
    }
    TRY(make_batch(cpu, stream, batch));
    TRY(mlsys_config_create(&config));
    TRY(mlsys_config_set_str(config, "optimizer", "adamw"));
    TRY(mlsys_config_set_f64(config, "rate", 0.02));
    TRY(mlsys_trainer_create(g, loss_value, PARAMS, params, w, stream, config, &run));
    TRY(mlsys_trainer_step(run, 2, batch, &first));
    TRY(steps(run, batch, &loss));
    const int files = mlsys_has_feature("jansson");
    if (files) TRY(mlsys_trainer_save(run, file));
    TRY(steps(run, batch, &loss));
    printf("loss %.4f, then %.6f\n", first, loss);
    CLAIM(loss < first / 20);

    if (files) { /* another process would do the same */
        TRY(mlsys_trainer_create(g, loss_value, PARAMS, params, w, stream, config, &resumed));
        TRY(mlsys_trainer_load(resumed, file));
        TRY(steps(resumed, batch, &again));
        printf("resumed from the middle: %.6f\n", again);
        CLAIM(again == loss);
        remove(file);
    }
    rc = 0;
done:
    mlsys_release(resumed);
    mlsys_release(run);
    mlsys_release(config);
    for (int i = 0; i < PARAMS; i++)
        mlsys_release(w[i]);
    mlsys_release(batch[0]);
    mlsys_release(batch[1]);
    mlsys_release(g);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
