/* Trains a small network on labelled images. Killed and started again with the same --save, it goes on from the last
 * epoch's end, and ends with the weights of a run that was not interrupted.
 *
 *     train --network mlp --epochs 5 --save mlp.safetensors --curve mlp.svg */
#include "network.h"
#include "run_log.h"
#include "start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *network, *data, *device, *numerics, *trace, *save, *curve, *precision, *optimizer;
    long epochs, batch, threads, seed, limit;
    double rate;
} options;

typedef struct training {
    options how;
    network net;
    mlsys_dataset train, test;
    int64_t n_train, n_test;
    mlsys_ctx ctx;
    mlsys_device cpu, device;
    mlsys_stream stream;
    mlsys_trainer trainer;
    mlsys_program classes;
    run_log log;
} training;

/* ---- data ---------------------------------------------------------------------------------- */

static mlsys_config order_of(training *t, int shuffle) {
    mlsys_config c = NULL;
    if (mlsys_config_create(&c) != MLSYS_OK) return NULL;
    mlsys_config_set_i64(c, "shuffle", shuffle);
    mlsys_config_set_i64(c, "seed", t->how.seed);
    return c;
}

/* FOLDER/NAME-images-idx3-ubyte and FOLDER/NAME-labels-idx1-ubyte, compressed (.gz) or not. */
static mlsys_status open_images(training *t, const char *name, int shuffle, mlsys_dataset *out) {
    char pixels[4096], labels[4096];
    mlsys_status st = MLSYS_E_NOTFOUND;
    for (int zipped = 1; zipped >= 0 && st == MLSYS_E_NOTFOUND; zipped--) {
        const char *end = zipped ? ".gz" : "";
        mlsys_config c = order_of(t, shuffle);
        snprintf(pixels, sizeof pixels, "%s/%s-images-idx3-ubyte%s", t->how.data, name, end);
        snprintf(labels, sizeof labels, "%s/%s-labels-idx1-ubyte%s", t->how.data, name, end);
        st = mlsys_config_set_str(c, "format", "idx");
        if (st == MLSYS_OK) st = mlsys_config_set_str(c, "labels", labels);
        if (st == MLSYS_OK) st = mlsys_dataset_open(t->ctx, pixels, c, out);
        mlsys_release(c);
    }
    if (st == MLSYS_E_NOTFOUND)
        fprintf(stderr, "no data (Debian: apt-get install dataset-fashion-mnist)\n");
    return st;
}

/* The first n examples of *d, shuffled: --limit. */
static mlsys_status first_examples(training *t, int64_t n, mlsys_dataset *d) {
    mlsys_tensor fields[2] = {0};
    mlsys_dataset all = *d;
    mlsys_config c = order_of(t, 1);
    mlsys_status st = mlsys_dataset_batch(all, 0, n, 2, fields);
    if (st == MLSYS_OK) st = mlsys_dataset_wrap(t->ctx, 2, fields, c, d);
    mlsys_release(fields[0]);
    mlsys_release(fields[1]);
    mlsys_release(all);
    mlsys_release(c);
    return st;
}

/* The side of the images, which must be square. */
static mlsys_status open_data(training *t, int64_t *side) {
    mlsys_tensor one[2] = {0};
    int64_t shape[3] = {0};
    int limited = t->how.limit > 0;
    mlsys_status st = open_images(t, "train", !limited, &t->train);
    if (st == MLSYS_OK) st = open_images(t, "t10k", 0, &t->test);
    if (st == MLSYS_OK) st = mlsys_dataset_size(t->train, &t->n_train, NULL);
    if (st == MLSYS_OK) st = mlsys_dataset_size(t->test, &t->n_test, NULL);
    if (limited && t->how.limit < t->n_train) t->n_train = t->how.limit;
    if (st == MLSYS_OK && limited) st = first_examples(t, t->n_train, &t->train);
    if (st == MLSYS_OK) st = mlsys_dataset_batch(t->train, 0, 1, 2, one);
    if (st == MLSYS_OK) st = mlsys_tensor_shape(one[0], 3, shape, NULL);
    mlsys_release(one[0]);
    mlsys_release(one[1]);
    *side = shape[1] == shape[2] ? shape[1] : -1;
    return st;
}

/* ---- the run ------------------------------------------------------------------------------- */

static void release_all(int n, mlsys_tensor *t) {
    for (int i = 0; i < n; i++) {
        mlsys_release(t[i]);
        t[i] = NULL;
    }
}

static mlsys_status first_value(training *t, int i, mlsys_tensor *out) {
    const parameter *p = &t->net.parameters[i];
    void *data;
    uint64_t bytes;
    mlsys_status st = mlsys_tensor_create(t->cpu, MLSYS_F32, p->rank, p->shape, out);
    if (st == MLSYS_OK)
        st = mlsys_tensor_random(*out, t->stream, "normal", (uint64_t)t->how.seed, (uint64_t)i);
    if (st == MLSYS_OK) st = mlsys_tensor_data(*out, &data, &bytes);
    for (uint64_t k = 0; st == MLSYS_OK && k < bytes / sizeof(float); k++)
        ((float *)data)[k] *= (float)p->spread;
    return st;
}

/* The rate falls along half a cosine to a hundredth. */
static mlsys_status settings(const training *t, mlsys_config c) {
    int64_t batches = (t->n_train + t->how.batch - 1) / t->how.batch;
    mlsys_status st = mlsys_config_set_str(c, "optimizer", t->how.optimizer);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", t->how.numerics);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "precision", t->how.precision);
    if (st == MLSYS_OK)
        st = mlsys_config_set_f64(c, "rate", t->how.rate > 0 ? t->how.rate : t->net.rate);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "schedule", "cosine");
    if (st == MLSYS_OK) st = mlsys_config_set_i64(c, "steps", batches * t->how.epochs + 1);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "floor", 0.01);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "weight_decay", 0);
    return st;
}

static mlsys_status make_trainer(training *t) {
    mlsys_graph g = NULL;
    mlsys_config c = NULL;
    mlsys_tensor initial[MAX_PARAMETERS] = {0};
    mlsys_value loss, parameters[MAX_PARAMETERS];
    mlsys_status st = network_loss(&t->net, t->ctx, &g, &loss, parameters);
    if (st == MLSYS_OK) st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = settings(t, c);
    for (int i = 0; i < t->net.n && st == MLSYS_OK; i++)
        st = first_value(t, i, &initial[i]);
    if (st == MLSYS_OK)
        st =
            mlsys_trainer_create(g, loss, t->net.n, parameters, initial, t->stream, c, &t->trainer);
    release_all(MAX_PARAMETERS, initial);
    mlsys_release(c);
    mlsys_release(g);
    return st;
}

static mlsys_status make_classes(training *t) {
    mlsys_graph g = NULL;
    mlsys_config c = NULL;
    mlsys_status st = network_classes(&t->net, t->ctx, &g);
    if (st == MLSYS_OK) st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", t->how.numerics);
    if (st == MLSYS_OK) st = mlsys_graph_compile(g, t->device, c, &t->classes);
    mlsys_release(c);
    mlsys_release(g);
    return st;
}

static mlsys_status begin(training *t) {
    int64_t side = 0;
    mlsys_status st =
        start_on(t->how.device, t->how.threads, &t->ctx, &t->cpu, &t->device, &t->stream);
    if (st == MLSYS_OK) st = open_data(t, &side);
    if (st == MLSYS_OK && (side < 1 || !network_of(t->how.network, side, &t->net))) {
        fprintf(stderr, "no network \"%s\" for images of %lldx%lld\n", t->how.network,
                (long long)side, (long long)side);
        st = mlsys_set_error(MLSYS_E_ARG, "nothing to train");
    }
    if (st == MLSYS_OK) st = make_trainer(t);
    if (st == MLSYS_OK) st = make_classes(t);
    if (st == MLSYS_OK && t->how.save) {
        st = mlsys_trainer_load(t->trainer, t->how.save);
        if (st == MLSYS_E_NOTFOUND) st = MLSYS_OK; /* the first start */
    }
    return st;
}

static mlsys_status accuracy(training *t, double *out) {
    enum { AT_ONCE = 1000 };
    int64_t classes[AT_ONCE], right = 0;
    mlsys_status st = MLSYS_OK;
    for (int64_t first = 0; first < t->n_test && st == MLSYS_OK; first += AT_ONCE) {
        int64_t n = t->n_test - first < AT_ONCE ? t->n_test - first : AT_ONCE;
        mlsys_tensor in[1 + MAX_PARAMETERS] = {0}, example[2] = {0}, result[1] = {0};
        int64_t labels[AT_ONCE];
        st = mlsys_dataset_batch(t->test, first, n, 2, example);
        if (st == MLSYS_OK) st = move_to(t->device, t->stream, &example[0]);
        in[0] = example[0];
        for (int k = 0; k < t->net.n && st == MLSYS_OK; k++)
            st = mlsys_trainer_tensor(t->trainer, t->net.parameters[k].name, &in[1 + k]);
        if (st == MLSYS_OK)
            st = mlsys_program_run(t->classes, t->stream, 1 + t->net.n, in, 1, result);
        if (st == MLSYS_OK)
            st = mlsys_tensor_read(result[0], t->stream, classes, sizeof *classes * (uint64_t)n);
        if (st == MLSYS_OK)
            st = mlsys_tensor_read(example[1], t->stream, labels, sizeof *labels * (uint64_t)n);
        for (int64_t i = 0; i < n && st == MLSYS_OK; i++)
            right += classes[i] == labels[i];
        release_all(2, example);
        release_all(MAX_PARAMETERS, in + 1);
        mlsys_release(result[0]);
    }
    *out = (double)right / (double)t->n_test;
    return st;
}

static uint64_t coin(uint64_t z) { /* bits that look random, of a number */
    z = (z + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Half of the images, by their number in the run: left becomes right. A shoe is a shoe, and the network sees twice
 * as many. */
static mlsys_status mirror_some(const training *t, mlsys_tensor images, int64_t position,
                                int64_t n) {
    void *data;
    const int64_t side = t->net.side;
    mlsys_status st = mlsys_tensor_data(images, &data, NULL);
    for (int64_t i = 0; i < n && st == MLSYS_OK; i++) {
        uint8_t *row = (uint8_t *)data + i * side * side;
        if (coin(coin((uint64_t)t->how.seed) + (uint64_t)(position + i)) & 1) continue;
        for (int64_t y = 0; y < side; y++, row += side)
            for (int64_t x = 0; x < side / 2; x++) {
                uint8_t left = row[x];
                row[x] = row[side - 1 - x];
                row[side - 1 - x] = left;
            }
    }
    return st;
}

/* Batch i of an epoch; the last one may be smaller. */
static mlsys_status train_step(training *t, int64_t epoch, int64_t i, double *loss) {
    int64_t first = i * t->how.batch, left = t->n_train - first;
    int64_t n = left < t->how.batch ? left : t->how.batch;
    mlsys_tensor batch[2] = {0};
    const int64_t position = epoch * t->n_train + first;
    mlsys_status st = mlsys_dataset_batch(t->train, position, n, 2, batch);
    if (st == MLSYS_OK && t->net.mirrored) st = mirror_some(t, batch[0], position, n);
    if (st == MLSYS_OK) st = mlsys_trainer_step(t->trainer, 2, batch, loss);
    release_all(2, batch);
    if (st == MLSYS_OK) st = mlsys_trainer_stat(t->trainer, "flops", &t->log.flops);
    if (st == MLSYS_OK) run_log_step(&t->log, *loss, (double)n);
    return st;
}

static mlsys_status train(training *t) {
    int64_t batches = (t->n_train + t->how.batch - 1) / t->how.batch;
    double done = 0, share = 0;
    mlsys_status st = mlsys_trainer_stat(t->trainer, "batches", &done);
    if (st == MLSYS_OK &&
        !run_log_begin(&t->log, (long)done, (long)(batches * t->how.epochs), "images"))
        st = mlsys_set_error(MLSYS_E_NOMEM, "no memory for the losses");
    if (st == MLSYS_OK) st = run_log_peak(&t->log, t->device, t->stream);
    for (int64_t epoch = (int64_t)done / batches; epoch < t->how.epochs && st == MLSYS_OK;
         epoch++) {
        double sum = 0, loss = 0, begun = run_seconds();
        for (int64_t i = 0; i < batches && st == MLSYS_OK; i++) {
            st = train_step(t, epoch, i, &loss);
            sum += loss;
        }
        double seconds = run_seconds() - begun;
        if (st == MLSYS_OK && t->how.save) st = mlsys_trainer_save(t->trainer, t->how.save);
        if (st == MLSYS_OK) st = accuracy(t, &share);
        if (st == MLSYS_OK)
            printf("epoch %lld: loss %.4f, test accuracy %.2f %%, %.0f images/s\n",
                   (long long)epoch + 1, sum / (double)batches, 100 * share,
                   (double)t->n_train / seconds);
        fflush(stdout);
    }
    return st;
}

static mlsys_status write_trace(training *t) {
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
    puts(
        "usage: train [options]\n"
        "Trains a network on labelled images and prints its accuracy on the test set.\n"
        "  --network NAME    mlp or conv (default mlp)\n"
        "  --data FOLDER     IDX files (default /usr/share/datasets/fashion-mnist)\n"
        "  --epochs N        passes over the data (default 10)\n"
        "  --batch N         images in a step (default 128)\n"
        "  --rate X          highest learning rate (default: the network's)\n"
        "  --device NAME     cpu, cuda or cuda:N (default cpu)\n"
        "  --threads N       of the library (default: all processors)\n"
        "  --seed N          of the weights and the order of the images (default 1)\n"
        "  --limit N         use the first N training images only\n"
        "  --optimizer NAME  sgd, adam, adamw, adafactor, lion or muon (default adamw)\n"
        "  --precision P     f32, bf16 or f16 (default f32)\n"
        "  --save FILE       write the state after each epoch, and go on from it when it is there\n"
        "  --curve FILE      write the losses as an SVG picture\n"
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
        } rows[] = {{"--optimizer", &o->optimizer, NULL, NULL},
                    {"--precision", &o->precision, NULL, NULL},
                    {"--save", &o->save, NULL, NULL},
                    {"--curve", &o->curve, NULL, NULL},
                    {"--network", &o->network, NULL, NULL},
                    {"--data", &o->data, NULL, NULL},
                    {"--numerics", &o->numerics, NULL, NULL},
                    {"--trace", &o->trace, NULL, NULL},
                    {"--device", &o->device, NULL, NULL},
                    {"--epochs", NULL, &o->epochs, NULL},
                    {"--batch", NULL, &o->batch, NULL},
                    {"--threads", NULL, &o->threads, NULL},
                    {"--seed", NULL, &o->seed, NULL},
                    {"--limit", NULL, &o->limit, NULL},
                    {"--rate", NULL, NULL, &o->rate}};
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

int main(int argc, char **argv) {
    training t = {.how = {.network = "mlp",
                          .optimizer = "adamw",
                          .precision = "f32",
                          .data = "/usr/share/datasets/fashion-mnist",
                          .numerics = "stable",
                          .device = "cpu",
                          .epochs = 10,
                          .batch = 128,
                          .seed = 1}};
    int go = parse(argc, argv, &t.how);
    if (go <= 0) {
        usage();
        return go ? 2 : 0;
    }
    mlsys_status st = begin(&t);
    if (st == MLSYS_OK && t.how.trace) st = mlsys_profile_start(t.ctx, NULL);
    if (st == MLSYS_OK) st = train(&t);
    if (st == MLSYS_OK) run_log_end(&t.log);
    if (st == MLSYS_OK && t.how.curve && !run_log_curve(&t.log, t.how.curve, t.how.network))
        st = mlsys_set_error(MLSYS_E_IO, "no curve");
    if (st == MLSYS_OK && t.how.trace) st = write_trace(&t);
    if (st != MLSYS_OK) fprintf(stderr, "train: %s\n", mlsys_last_error());
    run_log_free(&t.log);
    mlsys_release(t.train);
    mlsys_release(t.test);
    mlsys_release(t.trainer);
    mlsys_release(t.classes);
    mlsys_release(t.stream);
    mlsys_release(t.device);
    mlsys_release(t.cpu);
    mlsys_release(t.ctx);
    return st != MLSYS_OK;
}
