/* gpt: train a small GPT on the bytes of a text file, then let it write.
 *
 *     gpt --text /usr/share/common-licenses/GPL-3 --steps 500
 *
 * The lesson: build a loss as a graph (model.c), hand it to a trainer, feed it batches; then run another graph
 * with the weights that came out. Weights and batches are functions of the seed; --dump writes both, so that
 * another program can train the same model on the same data. */
#include "model.h"
#include "options.h"
#include "run_log.h"
#include "start.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct settings {
    const char *text, *curve, *dump, *save, *resume, *prompt, *numerics, *device;
    long layers, heads, width, context, batch, steps, threads, seed, sample;
    double rate, weight_decay, temperature;
} settings;

typedef struct run {
    settings how;
    gpt model;
    char *text;
    long bytes;
    mlsys_ctx ctx;
    mlsys_device cpu, device;
    mlsys_stream stream;
    mlsys_trainer trainer;
    mlsys_tensor weights[GPT_MAX_WEIGHTS];
    run_log log;
} run;

#define TRY(call)                                                                                  \
    do {                                                                                           \
        mlsys_status try_ = (call);                                                                \
        if (try_ != MLSYS_OK) return try_;                                                         \
    } while (0)

/* ---- data --------------------------------------------------------------------------------------- */

/* Where row `row` of a step's batch starts: context bytes, and one more to foresee. */
static long start_of(const run *r, long step, long row) {
    uint64_t n = (uint64_t)(r->bytes - r->how.context);
    return (long)(mix(mix((uint64_t)r->how.seed) + (uint64_t)(step * r->how.batch + row)) % n);
}

/* tokens and targets, which are one byte later. */
static void fill_batch(const run *r, long step, int32_t *tokens, int32_t *targets) {
    for (long row = 0; row < r->how.batch; row++) {
        const unsigned char *p = (const unsigned char *)r->text + start_of(r, step, row);
        for (long i = 0; i < r->how.context; i++) {
            *tokens++ = p[i];
            *targets++ = p[i + 1];
        }
    }
}

/* ---- model -------------------------------------------------------------------------------------- */

static mlsys_status initial_weights(run *r) {
    for (int32_t i = 0; i < r->model.n; i++) {
        const gpt_weight *w = &r->model.weights[i];
        void *data;
        uint64_t bytes;
        TRY(mlsys_tensor_create(r->cpu, MLSYS_F32, w->rank, w->shape, &r->weights[i]));
        if (w->spread > 0)
            TRY(mlsys_tensor_random(r->weights[i], r->stream, "normal", (uint64_t)r->how.seed,
                                    (uint64_t)i));
        TRY(mlsys_tensor_data(r->weights[i], &data, &bytes));
        float *p = data;
        for (uint64_t k = 0; k < bytes / sizeof *p; k++)
            p[k] = w->spread > 0 ? p[k] * (float)w->spread : w->start;
    }
    return MLSYS_OK;
}

static mlsys_status make_trainer(run *r) {
    mlsys_graph g;
    mlsys_value weights[GPT_MAX_WEIGHTS], loss;
    mlsys_config c = NULL;
    TRY(gpt_loss_graph(&r->model, r->ctx, r->how.batch, &g, weights, &loss));
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "optimizer", "adamw");
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "rate", r->how.rate);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "weight_decay", r->how.weight_decay);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", r->how.numerics);
    if (st == MLSYS_OK)
        st = mlsys_trainer_create(g, loss, r->model.n, weights, r->weights, r->stream, c,
                                  &r->trainer);
    mlsys_release(c);
    mlsys_release(g);
    return st;
}

static mlsys_status begin(run *r) {
    TRY(start_on(r->how.device, r->how.threads, &r->ctx, &r->cpu, &r->device, &r->stream));
    TRY(initial_weights(r));
    TRY(make_trainer(r));
    return r->how.resume ? mlsys_trainer_load(r->trainer, r->how.resume) : MLSYS_OK;
}

/* ---- dump: what another program needs to do the same --------------------------------------------- */

static FILE *dump_file(const run *r, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", r->how.dump, name);
    FILE *f = fopen(path, "wb");
    if (!f) fprintf(stderr, "%s: cannot be written\n", path);
    return f;
}

/* weights.f32: all of them in order; weights.txt: name and shape of each; batches.i32: tokens, then targets of
 * each step; sizes.txt. 0 after a sentence when a file cannot be written. */
static int dump(const run *r, int32_t *tokens, int32_t *targets) {
    mkdir(r->how.dump, 0777);
    FILE *f = dump_file(r, "weights.f32"), *names = dump_file(r, "weights.txt");
    FILE *batches = dump_file(r, "batches.i32"), *sizes = dump_file(r, "sizes.txt");
    size_t n = (size_t)(r->how.batch * r->how.context);
    int ok = f && names && batches && sizes;
    for (int32_t i = 0; i < r->model.n && ok; i++) {
        const gpt_weight *w = &r->model.weights[i];
        void *data;
        uint64_t bytes;
        ok = mlsys_tensor_data(r->weights[i], &data, &bytes) == MLSYS_OK &&
             fwrite(data, 1, bytes, f) == bytes;
        fprintf(names, "%s %lld %lld\n", w->name, (long long)w->shape[0], (long long)w->shape[1]);
    }
    for (long step = 0; step < r->how.steps && ok; step++) {
        fill_batch(r, step, tokens, targets);
        ok = fwrite(tokens, sizeof *tokens, n, batches) == n &&
             fwrite(targets, sizeof *targets, n, batches) == n;
    }
    if (ok)
        fprintf(sizes,
                "layers %ld\nheads %ld\nwidth %ld\ncontext %ld\nbatch %ld\nsteps %ld\nrate %.17g\n"
                "weight_decay %.17g\n",
                r->how.layers, r->how.heads, r->how.width, r->how.context, r->how.batch,
                r->how.steps, r->how.rate, r->how.weight_decay);
    FILE *all[4] = {f, names, batches, sizes};
    for (int i = 0; i < 4; i++)
        if (all[i] && fclose(all[i])) ok = 0;
    return ok;
}

/* losses.txt: loss and seconds of each step. */
static int dump_losses(const run *r) {
    FILE *f = dump_file(r, "losses.txt");
    for (long i = 0; f && i < r->log.done; i++)
        fprintf(f, "%.9g %.6f\n", r->log.loss[i], r->log.seconds[i]);
    return f && !fclose(f);
}

/* ---- training ----------------------------------------------------------------------------------- */

static mlsys_status train(run *r, mlsys_tensor *batch, int32_t *tokens, int32_t *targets) {
    double first = 0, loss;
    TRY(mlsys_trainer_stat(r->trainer, "step", &first));
    if (!run_log_begin(&r->log, (long)first, r->how.steps, "tokens")) return MLSYS_E_NOMEM;
    TRY(run_log_peak(&r->log, r->device, r->stream));
    for (long step = (long)first; step < r->how.steps; step++) {
        fill_batch(r, step, tokens, targets);
        TRY(mlsys_trainer_step(r->trainer, 2, batch, &loss));
        TRY(mlsys_trainer_stat(r->trainer, "flops", &r->log.flops));
        run_log_step(&r->log, loss, (double)(r->how.batch * r->how.context));
    }
    run_log_end(&r->log);
    return r->how.save ? mlsys_trainer_save(r->trainer, r->how.save) : MLSYS_OK;
}

static mlsys_status train_and_dump(run *r) {
    const int64_t shape[2] = {r->how.batch, r->how.context};
    mlsys_tensor batch[2] = {NULL, NULL};
    void *tokens, *targets;
    mlsys_status st = mlsys_tensor_create(r->cpu, MLSYS_I32, 2, shape, &batch[0]);
    if (st == MLSYS_OK) st = mlsys_tensor_create(r->cpu, MLSYS_I32, 2, shape, &batch[1]);
    if (st == MLSYS_OK) st = mlsys_tensor_data(batch[0], &tokens, NULL);
    if (st == MLSYS_OK) st = mlsys_tensor_data(batch[1], &targets, NULL);
    if (st == MLSYS_OK && r->how.dump && !dump(r, tokens, targets)) st = MLSYS_E_IO;
    if (st == MLSYS_OK) st = train(r, batch, tokens, targets);
    if (st == MLSYS_OK && r->how.dump && !dump_losses(r)) st = MLSYS_E_IO;
    if (st == MLSYS_OK && r->how.curve &&
        !run_log_curve(&r->log, r->how.curve, "gpt: loss by step"))
        st = MLSYS_E_IO;
    mlsys_release(batch[0]);
    mlsys_release(batch[1]);
    return st;
}

/* ---- writing ------------------------------------------------------------------------------------ */

/* A byte by its probability, which is proportional to exp(logit / temperature). */
static int draw(const float *logits, double temperature, double uniform) {
    double sum = 0, top = logits[0];
    int best = 0;
    for (int i = 1; i < GPT_VOCAB; i++)
        if (logits[i] > top) top = logits[best = i];
    if (temperature <= 0) return best;
    for (int i = 0; i < GPT_VOCAB; i++)
        sum += exp((logits[i] - top) / temperature);
    for (int i = 0; i < GPT_VOCAB; i++)
        if ((uniform -= exp((logits[i] - top) / temperature) / sum) < 0) return i;
    return best;
}

static mlsys_status next_byte(run *r, mlsys_program p, mlsys_tensor *in, int64_t n,
                              const unsigned char *text, long step, unsigned char *out) {
    const int64_t shape[2] = {1, n};
    mlsys_tensor logits = NULL;
    float values[GPT_VOCAB];
    void *ids;
    TRY(mlsys_tensor_create(r->cpu, MLSYS_I32, 2, shape, &in[0]));
    mlsys_status st = mlsys_tensor_data(in[0], &ids, NULL);
    for (int64_t i = 0; i < n && st == MLSYS_OK; i++)
        ((int32_t *)ids)[i] = text[i];
    if (st == MLSYS_OK) st = move_to(r->device, r->stream, &in[0]);
    if (st == MLSYS_OK) st = mlsys_program_run(p, r->stream, 1 + r->model.n, in, 1, &logits);
    if (st == MLSYS_OK) st = mlsys_tensor_read(logits, r->stream, values, sizeof values);
    if (st == MLSYS_OK)
        *out = (unsigned char)draw(values, r->how.temperature,
                                   (double)(mix((uint64_t)step) >> 11) / 9007199254740992.0);
    mlsys_release(logits);
    mlsys_release(in[0]);
    return st;
}

static mlsys_status write_sample(run *r, mlsys_program p, mlsys_tensor *in) {
    size_t n = strlen(r->how.prompt), have = n ? n : 1;
    unsigned char *text = malloc(have + (size_t)r->how.sample);
    if (!text) return MLSYS_E_NOMEM;
    memcpy(text, n ? r->how.prompt : "\n", have);
    mlsys_status st = MLSYS_OK;
    for (long i = 0; i < r->how.sample && st == MLSYS_OK; i++, have++) {
        size_t seen = have < (size_t)r->how.context ? have : (size_t)r->how.context;
        st = next_byte(r, p, in, (int64_t)seen, text + have - seen, i, text + have);
    }
    if (st == MLSYS_OK) printf("---\n%.*s\n", (int)have, (const char *)text);
    free(text);
    return st;
}

static mlsys_status sample(run *r) {
    mlsys_tensor in[1 + GPT_MAX_WEIGHTS] = {NULL};
    mlsys_graph g;
    mlsys_program p = NULL;
    TRY(gpt_next_graph(&r->model, r->ctx, &g));
    mlsys_status st = mlsys_graph_compile(g, r->device, NULL, &p);
    mlsys_release(g);
    for (int32_t i = 0; i < r->model.n && st == MLSYS_OK; i++)
        st = mlsys_trainer_tensor(r->trainer, r->model.weights[i].name, &in[1 + i]);
    if (st == MLSYS_OK) st = write_sample(r, p, in);
    for (int32_t i = 0; i < r->model.n; i++)
        mlsys_release(in[1 + i]);
    mlsys_release(p);
    return st;
}

/* ---- main --------------------------------------------------------------------------------------- */

static int parse(int argc, char **argv, settings *s) {
    const option_row rows[] = {
        {"--text", "file to learn from", &s->text, NULL, NULL, NULL},
        {"--layers", "blocks of attention and network", NULL, &s->layers, NULL, NULL},
        {"--heads", "of attention", NULL, &s->heads, NULL, NULL},
        {"--width", "of the residual sum; a multiple of the heads", NULL, &s->width, NULL, NULL},
        {"--context", "bytes that the model looks back", NULL, &s->context, NULL, NULL},
        {"--batch", "rows of a step", NULL, &s->batch, NULL, NULL},
        {"--steps", "in all, also those before --resume", NULL, &s->steps, NULL, NULL},
        {"--rate", "of AdamW", NULL, NULL, &s->rate, NULL},
        {"--weight-decay", "of AdamW; of matrices only", NULL, NULL, &s->weight_decay, NULL},
        {"--seed", "of weights and batches", NULL, &s->seed, NULL, NULL},
        {"--device", "cpu, cuda or cuda:N", &s->device, NULL, NULL, NULL},
        {"--threads", "0: all cores", NULL, &s->threads, NULL, NULL},
        {"--numerics", "exact, stable or fast", &s->numerics, NULL, NULL, NULL},
        {"--curve", "write the losses as an SVG picture", &s->curve, NULL, NULL, NULL},
        {"--dump", "folder for weights, batches and losses", &s->dump, NULL, NULL, NULL},
        {"--save", "write the state at the end", &s->save, NULL, NULL, NULL},
        {"--resume", "go on from a state", &s->resume, NULL, NULL, NULL},
        {"--sample", "bytes to write at the end", NULL, &s->sample, NULL, NULL},
        {"--prompt", "what they go on from", &s->prompt, NULL, NULL, NULL},
        {"--temperature", "of their draw; 0: the likeliest", NULL, NULL, &s->temperature, NULL},
    };
    int go = options_parse(argc, argv, "Train a small GPT on the bytes of a text file.", rows,
                           (int)(sizeof rows / sizeof rows[0]));
    if (go > 0 && (!s->text || s->batch < 1 || s->batch > 4096 || s->steps < 1 || s->sample < 0)) {
        fprintf(stderr, "gpt: --text is needed, --batch within 1..4096, --steps at least 1\n");
        return -1;
    }
    return go;
}

static int prepare(run *r) {
    if (!gpt_init(&r->model, r->how.layers, r->how.heads, r->how.width, r->how.context)) {
        fprintf(stderr, "gpt: no model of these sizes: the heads must divide the width\n");
        return 0;
    }
    r->text = options_read_file(r->how.text, &r->bytes);
    if (!r->text) return 0;
    if (r->bytes > r->how.context) return 1;
    fprintf(stderr, "gpt: %s: %ld bytes, at least %ld needed\n", r->how.text, r->bytes,
            r->how.context + 1);
    return 0;
}

int main(int argc, char **argv) {
    static run r = {.how = {.layers = 4,
                            .heads = 4,
                            .width = 128,
                            .context = 128,
                            .batch = 16,
                            .steps = 500,
                            .seed = 1,
                            .sample = 400,
                            .rate = 1e-3,
                            .weight_decay = 0.01,
                            .temperature = 0.8,
                            .prompt = "",
                            .numerics = "stable",
                            .device = "cpu"}};
    int go = parse(argc, argv, &r.how), failed = 1;
    if (go <= 0) return go ? 2 : 0;
    if (prepare(&r)) {
        mlsys_status st = begin(&r);
        if (st == MLSYS_OK) st = train_and_dump(&r);
        if (st == MLSYS_OK && r.how.sample) st = sample(&r);
        if (st != MLSYS_OK) fprintf(stderr, "gpt: %s\n", mlsys_last_error());
        failed = st != MLSYS_OK;
    }
    for (int32_t i = 0; i < r.model.n; i++)
        mlsys_release(r.weights[i]);
    mlsys_release(r.trainer);
    mlsys_release(r.stream);
    mlsys_release(r.device);
    mlsys_release(r.cpu);
    mlsys_release(r.ctx);
    run_log_free(&r.log);
    free(r.text);
    return failed;
}
