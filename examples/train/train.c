/* Trains a small network on labelled images: the forward pass, the gradients and the optimiser are one compiled
 * program, whose weights are updated in place.
 *
 *     train --network mlp --epochs 5 */
#include "images.h"
#include "network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct options {
    const char *network, *data, *numerics, *trace;
    long epochs, batch, threads, seed, limit;
    double rate;
} options;

typedef struct trainer {
    options how;
    network net;
    images train, test;
    mlsys_ctx ctx;
    mlsys_device cpu;
    mlsys_stream stream;
    mlsys_program step, classes;
    mlsys_tensor state[3 * MAX_PARAMETERS]; /* parameters, first moments, second moments */
    int64_t count, *order;
    uint64_t random;
} trainer;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- data ---------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void shuffle(trainer *t) {
    for (int64_t i = t->train.count - 1; i > 0; i--) {
        int64_t j = (int64_t)(next_random(&t->random) % (uint64_t)(i + 1)), x = t->order[i];
        t->order[i] = t->order[j];
        t->order[j] = x;
    }
}

/* Left becomes right: a shoe is a shoe, and the network sees twice as many. */
static void mirror(uint8_t *pixels, int64_t height, int64_t width) {
    for (int64_t y = 0; y < height; y++, pixels += width)
        for (int64_t x = 0; x < width / 2; x++) {
            uint8_t left = pixels[x];
            pixels[x] = pixels[width - 1 - x];
            pixels[width - 1 - x] = left;
        }
}

/* Images and labels number first .. first + n in the order (NULL: as they lie in the file). */
static mlsys_status batch_of(trainer *t, const images *set, const int64_t *order, int64_t first,
                             int64_t n, mlsys_tensor *pixels, mlsys_tensor *labels) {
    const int64_t shape[3] = {n, set->height, set->width}, area = set->height * set->width;
    void *p, *l;
    mlsys_status st = mlsys_tensor_create(t->cpu, MLSYS_U8, 3, shape, pixels);
    if (st == MLSYS_OK) st = mlsys_tensor_create(t->cpu, MLSYS_I64, 1, shape, labels);
    if (st == MLSYS_OK) st = mlsys_tensor_data(*pixels, &p, NULL);
    if (st == MLSYS_OK) st = mlsys_tensor_data(*labels, &l, NULL);
    for (int64_t i = 0; i < n && st == MLSYS_OK; i++) {
        int64_t from = order ? order[first + i] : first + i;
        uint8_t *to = (uint8_t *)p + i * area;
        memcpy(to, set->pixels + from * area, (size_t)area);
        if (order && t->net.mirrored && next_random(&t->random) & 1)
            mirror(to, set->height, set->width);
        ((int64_t *)l)[i] = set->labels[from];
    }
    return st;
}

/* ---- state --------------------------------------------------------------------------------- */

static mlsys_status compile(trainer *t, mlsys_status st, mlsys_graph g, mlsys_program *out) {
    mlsys_config c = NULL;
    if (st == MLSYS_OK) st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", t->how.numerics);
    if (st == MLSYS_OK) st = mlsys_graph_compile(g, t->cpu, c, out);
    mlsys_release(c);
    mlsys_release(g);
    return st;
}

static mlsys_status scaled_normal(trainer *t, mlsys_tensor x, int64_t n, double spread,
                                  uint64_t stream) {
    void *p;
    mlsys_status st = mlsys_tensor_data(x, &p, NULL);
    if (st != MLSYS_OK) return st;
    if (spread == 0) {
        memset(p, 0, sizeof(float) * (size_t)n);
        return MLSYS_OK;
    }
    st = mlsys_tensor_random(x, t->stream, "normal", (uint64_t)t->how.seed, stream);
    for (int64_t i = 0; i < n && st == MLSYS_OK; i++)
        ((float *)p)[i] *= (float)spread;
    return st;
}

static mlsys_status begin(trainer *t) {
    mlsys_config c = NULL;
    mlsys_graph g;
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK && t->how.threads) st = mlsys_config_set_i64(c, "threads", t->how.threads);
    if (st == MLSYS_OK) st = mlsys_ctx_create(c, NULL, &t->ctx);
    mlsys_release(c);
    if (st == MLSYS_OK) st = mlsys_device_get(t->ctx, MLSYS_CPU, 0, &t->cpu);
    if (st == MLSYS_OK) st = mlsys_stream_create(t->cpu, NULL, &t->stream);
    if (st == MLSYS_OK) st = network_step(&t->net, t->ctx, &g);
    if (st == MLSYS_OK) st = compile(t, st, g, &t->step);
    if (st == MLSYS_OK) st = network_classes(&t->net, t->ctx, &g);
    if (st == MLSYS_OK) st = compile(t, st, g, &t->classes);
    for (int i = 0; i < 3 * t->net.n && st == MLSYS_OK; i++) {
        const parameter *p = &t->net.parameters[i % t->net.n];
        int64_t n = 1;
        for (int d = 0; d < p->rank; d++)
            n *= p->shape[d];
        st = mlsys_tensor_create(t->cpu, MLSYS_F32, p->rank, p->shape, &t->state[i]);
        if (st == MLSYS_OK)
            st = scaled_normal(t, t->state[i], n, i < t->net.n ? p->spread : 0, (uint64_t)i);
    }
    return st;
}

/* ---- training ------------------------------------------------------------------------------ */

static mlsys_status scalar(trainer *t, mlsys_dtype dtype, const void *value, uint64_t bytes,
                           mlsys_tensor *out) {
    mlsys_status st = mlsys_tensor_create(t->cpu, dtype, 0, NULL, out);
    return st == MLSYS_OK ? mlsys_tensor_write(*out, t->stream, value, bytes) : st;
}

static void release_all(int n, mlsys_tensor *t) {
    for (int i = 0; i < n; i++) {
        mlsys_release(t[i]);
        t[i] = NULL;
    }
}

static mlsys_status train_step(trainer *t, int64_t first, int64_t n, double rate, float *loss) {
    const int states = 3 * t->net.n;
    const float lr = (float)rate;
    mlsys_tensor in[FIRST_PARAMETER + 3 * MAX_PARAMETERS] = {0}, out[3 * MAX_PARAMETERS + 1] = {0};
    t->count++;
    mlsys_status st = batch_of(t, &t->train, t->order, first, n, &in[0], &in[1]);
    if (st == MLSYS_OK) st = scalar(t, MLSYS_F32, &lr, sizeof lr, &in[2]);
    if (st == MLSYS_OK) st = scalar(t, MLSYS_I64, &t->count, sizeof t->count, &in[3]);
    memcpy(in + FIRST_PARAMETER, t->state, sizeof *in * (size_t)states);
    if (st == MLSYS_OK)
        st = mlsys_program_run(t->step, t->stream, FIRST_PARAMETER + states, in, states + 1, out);
    if (st == MLSYS_OK) st = mlsys_tensor_read(out[states], t->stream, loss, sizeof *loss);
    release_all(FIRST_PARAMETER, in);
    if (st == MLSYS_OK) { /* the new state, in the memory of the old one */
        release_all(states, t->state);
        memcpy(t->state, out, sizeof *out * (size_t)states);
        mlsys_release(out[states]);
    }
    return st;
}

static mlsys_status accuracy(trainer *t, double *out) {
    enum { AT_ONCE = 1000 };
    int64_t classes[AT_ONCE], right = 0;
    mlsys_status st = MLSYS_OK;
    for (int64_t first = 0; first < t->test.count && st == MLSYS_OK; first += AT_ONCE) {
        int64_t n = t->test.count - first < AT_ONCE ? t->test.count - first : AT_ONCE;
        mlsys_tensor in[1 + MAX_PARAMETERS] = {0}, labels = NULL, result[1] = {0};
        st = batch_of(t, &t->test, NULL, first, n, &in[0], &labels);
        memcpy(in + 1, t->state, sizeof *in * (size_t)t->net.n);
        if (st == MLSYS_OK)
            st = mlsys_program_run(t->classes, t->stream, 1 + t->net.n, in, 1, result);
        if (st == MLSYS_OK)
            st = mlsys_tensor_read(result[0], t->stream, classes, sizeof *classes * (uint64_t)n);
        for (int64_t i = 0; i < n && st == MLSYS_OK; i++)
            right += classes[i] == t->test.labels[first + i];
        mlsys_release(in[0]);
        mlsys_release(labels);
        mlsys_release(result[0]);
    }
    *out = (double)right / (double)t->test.count;
    return st;
}

/* The rate falls along half a cosine to a hundredth. */
static double rate_at(const trainer *t, int64_t step, int64_t steps) {
    double x = (double)step / (double)steps;
    double highest = t->how.rate > 0 ? t->how.rate : t->net.rate;
    return highest * (0.01 + 0.99 * 0.5 * (1 + cos(3.14159265358979 * x)));
}

static mlsys_status train(trainer *t) {
    int64_t batches = (t->train.count + t->how.batch - 1) / t->how.batch;
    int64_t steps = batches * t->how.epochs;
    double start = now(), share;
    mlsys_status st = MLSYS_OK;
    for (long epoch = 0; epoch < t->how.epochs && st == MLSYS_OK; epoch++) {
        double sum = 0, begun = now();
        shuffle(t);
        for (int64_t i = 0; i < batches && st == MLSYS_OK; i++) {
            int64_t first = i * t->how.batch, left = t->train.count - first;
            float loss = 0;
            st = train_step(t, first, left < t->how.batch ? left : t->how.batch,
                            rate_at(t, t->count, steps), &loss);
            sum += loss;
            if (i % 20 && i + 1 < batches) continue;
            double done = (double)t->count / (double)steps, rest = (now() - start) * (1 / done - 1);
            fprintf(stderr, "\repoch %ld of %ld, batch %lld of %lld, loss %.4f, %.0f s left   ",
                    epoch + 1, t->how.epochs, (long long)i + 1, (long long)batches,
                    sum / (double)(i + 1), rest);
        }
        double seconds = now() - begun;
        if (st == MLSYS_OK) st = accuracy(t, &share);
        fprintf(stderr, "\r%80s\r", "");
        if (st == MLSYS_OK)
            printf("epoch %ld: loss %.4f, test accuracy %.2f %%, %.0f images/s\n", epoch + 1,
                   sum / (double)batches, 100 * share, (double)t->train.count / seconds);
        fflush(stdout);
    }
    return st;
}

static mlsys_status write_trace(trainer *t) {
    uint64_t need = 0;
    mlsys_status st = mlsys_profile_read(t->ctx, NULL, 0, &need);
    char *text = st == MLSYS_E_BUFFER || st == MLSYS_OK ? malloc(need) : NULL;
    FILE *f = text ? fopen(t->how.trace, "w") : NULL;
    if (text) st = mlsys_profile_read(t->ctx, text, need, NULL);
    int ok = f && st == MLSYS_OK && fputs(text, f) >= 0;
    if (f && fclose(f)) ok = 0;
    free(text);
    if (!ok) fprintf(stderr, "train: cannot write %s\n", t->how.trace);
    return st;
}

/* ---- the program --------------------------------------------------------------------------- */

static void usage(void) {
    puts("usage: train [options]\n"
         "Trains a network on labelled images and prints its accuracy on the test set.\n"
         "  --network NAME    mlp or conv (default mlp)\n"
         "  --data FOLDER     IDX files (default /usr/share/datasets/fashion-mnist)\n"
         "  --epochs N        passes over the data (default 5)\n"
         "  --batch N         images in a step (default 128)\n"
         "  --rate X          highest learning rate (default: the network's)\n"
         "  --threads N       of the library (default: all processors)\n"
         "  --seed N          of the weights and the order of the images (default 1)\n"
         "  --limit N         use the first N training images only\n"
         "  --trace FILE      write what the last steps did, for chrome://tracing or Perfetto\n"
         "  --numerics MODE   exact, stable or fast (default stable)\n"
         "  --help            this text");
}

/* 1: go on; 0: --help was asked for; -1: not understood. */
static int parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        const struct {
            const char *name;
            const char **text;
            long *number;
            double *real;
        } rows[] = {{"--network", &o->network, NULL, NULL},   {"--data", &o->data, NULL, NULL},
                    {"--numerics", &o->numerics, NULL, NULL}, {"--trace", &o->trace, NULL, NULL},
                    {"--epochs", NULL, &o->epochs, NULL},     {"--batch", NULL, &o->batch, NULL},
                    {"--threads", NULL, &o->threads, NULL},   {"--seed", NULL, &o->seed, NULL},
                    {"--limit", NULL, &o->limit, NULL},       {"--rate", NULL, NULL, &o->rate}};
        size_t k = 0, n = sizeof rows / sizeof rows[0];
        char *end = "";
        if (!strcmp(argv[i], "--help")) return 0;
        while (k < n && strcmp(argv[i], rows[k].name))
            k++;
        if (k == n || ++i == argc) return -1;
        if (rows[k].text) *rows[k].text = argv[i];
        if (rows[k].number) *rows[k].number = strtol(argv[i], &end, 10);
        if (rows[k].real) *rows[k].real = strtod(argv[i], &end);
        if (*end) return -1;
    }
    return o->epochs >= 1 && o->batch >= 1 && o->batch <= 4096 && o->threads >= 0 ? 1 : -1;
}

static int prepare(trainer *t) {
    if (!images_read(&t->train, t->how.data, "train") ||
        !images_read(&t->test, t->how.data, "t10k"))
        return 0;
    if (t->how.limit > 0 && t->how.limit < t->train.count) t->train.count = t->how.limit;
    t->order = malloc(sizeof *t->order * (size_t)t->train.count);
    for (int64_t i = 0; t->order && i < t->train.count; i++)
        t->order[i] = i;
    t->random = (uint64_t)t->how.seed;
    if (t->train.height == t->train.width && network_of(t->how.network, t->train.width, &t->net))
        return t->order != NULL;
    fprintf(stderr, "no network \"%s\" for images of %lldx%lld\n", t->how.network,
            (long long)t->train.height, (long long)t->train.width);
    return 0;
}

int main(int argc, char **argv) {
    trainer t = {.how = {.network = "mlp",
                         .data = "/usr/share/datasets/fashion-mnist",
                         .numerics = "stable",
                         .epochs = 5,
                         .batch = 128,
                         .seed = 1,
                         .rate = 0}};
    int go = parse(argc, argv, &t.how), failed = 1;
    if (go <= 0) {
        usage();
        return go ? 2 : 0;
    }
    if (prepare(&t)) {
        mlsys_status st = begin(&t);
        if (st == MLSYS_OK && t.how.trace) st = mlsys_profile_start(t.ctx, NULL);
        if (st == MLSYS_OK) st = train(&t);
        if (st == MLSYS_OK && t.how.trace) st = write_trace(&t);
        if (st != MLSYS_OK) fprintf(stderr, "train: %s\n", mlsys_last_error());
        failed = st != MLSYS_OK;
    }
    release_all(3 * MAX_PARAMETERS, t.state);
    mlsys_release(t.step);
    mlsys_release(t.classes);
    mlsys_release(t.stream);
    mlsys_release(t.cpu);
    mlsys_release(t.ctx);
    images_free(&t.train);
    images_free(&t.test);
    free(t.order);
    return failed;
}
