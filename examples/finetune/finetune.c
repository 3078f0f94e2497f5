/* finetune: go on training a language model on a text file, wholly or by low-rank adapters (LoRA), write it as a
 * GGUF file, and let that file write a little.
 *
 *     finetune --model SmolLM2.gguf --text notes.txt --lora 8 --steps 100 --output tuned.gguf
 *
 * The lesson: a model's graph in mode "train" gives logits; a loss on them makes it a graph to train; what the
 * trainer reaches adapts the model, which saves, opens and generates like any other. */
#include "options.h"
#include "run_log.h"
#include "start.h"
#include "tuning.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_OUT_WINDOWS = 8, SAMPLE_CONTEXT = 512 };

typedef struct settings {
    const char *model, *text, *output, *save, *resume, *curve, *prompt, *targets, *dtype,
        *optimizer;
    const char *numerics, *checkpoint;
    long lora, steps, length, batch, threads, seed, sample;
    double rate, alpha;
    int all;
} settings;

typedef struct run {
    settings how;
    mlsys_ctx ctx;
    mlsys_device cpu;
    mlsys_stream stream;
    mlsys_model model;
    int32_t *ids;
    long n_ids, n_train; /* the rest is held out */
    tuning tuning;
    mlsys_trainer trainer;
    run_log log;
} run;

#define TRY(call)                                                                                  \
    do {                                                                                           \
        mlsys_status try_ = (call);                                                                \
        if (try_ != MLSYS_OK) return try_;                                                         \
    } while (0)

static mlsys_status fail(const char *why) { return mlsys_set_error(MLSYS_E_ARG, why); }

/* ---- data --------------------------------------------------------------------------------------- */

/* The last tenth of the tokens is held out. */
static mlsys_status read_tokens(run *r) {
    mlsys_tokenizer tokenizer;
    long bytes = 0;
    uint64_t need = 0;
    char *text = options_read_file(r->how.text, &bytes);
    if (!text) return fail("no text");
    mlsys_status st = mlsys_model_tokenizer(r->model, &tokenizer);
    if (st == MLSYS_OK) {
        r->ids = malloc(sizeof *r->ids * ((size_t)bytes + 8)); /* a token has at least a byte */
        st = r->ids ? mlsys_tokenizer_encode(tokenizer, text, (uint64_t)bytes, 0, r->ids,
                                             (uint64_t)bytes + 8, &need)
                    : mlsys_set_error(MLSYS_E_NOMEM, "no memory");
        mlsys_release(tokenizer);
    }
    free(text);
    r->n_ids = (long)need;
    r->n_train = r->n_ids - r->n_ids / 10;
    if (st == MLSYS_OK && r->n_ids / 10 <= r->how.length)
        st = fail("the text is too short: a tenth of its tokens must be more than --length");
    return st;
}

/* Row number `row` of all rows ever trained on: a function of the seed. */
static long start_of(const run *r, long row) {
    uint64_t n = (uint64_t)(r->n_train - r->how.length);
    return (long)(mix(mix((uint64_t)r->how.seed) + (uint64_t)row) % n);
}

static void fill_row(const run *r, long from, int32_t *tokens, int32_t *targets) {
    memcpy(tokens, r->ids + from, sizeof *tokens * (size_t)r->how.length);
    memcpy(targets, r->ids + from + 1, sizeof *targets * (size_t)r->how.length);
}

/* tokens and targets [batch, length], and where their memory is. */
typedef struct batch {
    mlsys_tensor both[2];
    int32_t *tokens, *targets;
} batch;

static mlsys_status batch_create(const run *r, long rows, batch *b) {
    const int64_t shape[2] = {rows, r->how.length};
    void *p[2] = {NULL, NULL};
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 2; i++) {
        TRY(mlsys_tensor_create(r->cpu, MLSYS_I32, 2, shape, &b->both[i]));
        TRY(mlsys_tensor_data(b->both[i], &p[i], NULL));
    }
    b->tokens = p[0], b->targets = p[1];
    return MLSYS_OK;
}

static void batch_release(batch *b) {
    mlsys_release(b->both[0]);
    mlsys_release(b->both[1]);
}

/* ---- the loss on what is held out ----------------------------------------------------------------- */

/* Mean of windows spread evenly over the held-out tokens, with the weights or adapters given. */
static mlsys_status held_out(const run *r, mlsys_program p, mlsys_tensor *in, double *out) {
    batch b;
    double sum = 0;
    mlsys_status st = batch_create(r, 1, &b);
    in[0] = b.both[0];
    in[1 + r->tuning.n] = b.both[1];
    for (long i = 0; i < HELD_OUT_WINDOWS && st == MLSYS_OK; i++) {
        mlsys_tensor result[2] = {NULL, NULL};
        long room = r->n_ids - r->n_train - r->how.length - 1;
        void *loss;
        fill_row(r, r->n_train + room * i / (HELD_OUT_WINDOWS - 1), b.tokens, b.targets);
        st = mlsys_program_run(p, r->stream, 2 + r->tuning.n, in, 2, result);
        if (st == MLSYS_OK) st = mlsys_tensor_data(result[1], &loss, NULL);
        if (st == MLSYS_OK) sum += *(float *)loss;
        mlsys_release(result[0]);
        mlsys_release(result[1]);
    }
    batch_release(&b);
    *out = sum / HELD_OUT_WINDOWS;
    return st;
}

/* trained: with what the trainer has reached, else with what it started from. */
static mlsys_status evaluate(const run *r, int trained, double *out) {
    const tuning *t = &r->tuning;
    mlsys_program p = NULL;
    mlsys_tensor *in = calloc((size_t)t->n + 2, sizeof(mlsys_tensor));
    mlsys_status st = in ? MLSYS_OK : mlsys_set_error(MLSYS_E_NOMEM, "no memory");
    if (st == MLSYS_OK) st = mlsys_graph_compile(t->g, r->cpu, NULL, &p);
    for (int i = 0; i < t->n && st == MLSYS_OK; i++)
        st = trained ? mlsys_trainer_tensor(r->trainer, t->names[i], &in[1 + i])
                     : mlsys_retain(in[1 + i] = t->start[i]);
    if (st == MLSYS_OK) st = held_out(r, p, in, out);
    for (int i = 0; in && i < t->n; i++)
        mlsys_release(in[1 + i]);
    free(in);
    mlsys_release(p);
    return st;
}

/* ---- training ----------------------------------------------------------------------------------- */

static mlsys_status make_trainer(run *r) {
    tuning *t = &r->tuning;
    mlsys_config c;
    TRY(mlsys_config_create(&c));
    mlsys_status st = mlsys_config_set_str(c, "optimizer", r->how.optimizer);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "rate", r->how.rate);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "weight_decay", 0);
    if (st == MLSYS_OK) st = mlsys_config_set_f64(c, "clip", 1);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", r->how.numerics);
    if (st == MLSYS_OK && *r->how.checkpoint)
        st = mlsys_config_set_str(c, "checkpoint", r->how.checkpoint);
    if (st == MLSYS_OK)
        st = mlsys_trainer_create(t->g, t->loss, t->n, t->values, t->start, r->stream, c,
                                  &r->trainer);
    mlsys_release(c);
    if (st == MLSYS_OK && r->how.resume) st = mlsys_trainer_load(r->trainer, r->how.resume);
    return st;
}

static mlsys_status train(run *r) {
    double first = 0, loss;
    batch b;
    TRY(mlsys_trainer_stat(r->trainer, "step", &first));
    if (!run_log_begin(&r->log, (long)first, r->how.steps, "tokens"))
        return mlsys_set_error(MLSYS_E_NOMEM, "no memory");
    TRY(run_log_peak(&r->log, r->cpu, r->stream));
    mlsys_status st = batch_create(r, r->how.batch, &b);
    for (long step = (long)first; step < r->how.steps && st == MLSYS_OK; step++) {
        for (long row = 0; row < r->how.batch; row++)
            fill_row(r, start_of(r, step * r->how.batch + row), b.tokens + row * r->how.length,
                     b.targets + row * r->how.length);
        st = mlsys_trainer_step(r->trainer, 2, b.both, &loss);
        if (st == MLSYS_OK) st = mlsys_trainer_stat(r->trainer, "flops", &r->log.flops);
        if (st == MLSYS_OK) run_log_step(&r->log, loss, (double)(r->how.batch * r->how.length));
    }
    batch_release(&b);
    if (st == MLSYS_OK) run_log_end(&r->log);
    if (st == MLSYS_OK && r->how.save) st = mlsys_trainer_save(r->trainer, r->how.save);
    if (st == MLSYS_OK && r->how.curve &&
        !run_log_curve(&r->log, r->how.curve, "fine-tuning: loss by step"))
        st = fail("no curve");
    return st;
}

/* ---- the result --------------------------------------------------------------------------------- */

static mlsys_status write_sample(run *r, mlsys_model m, const char *which) {
    static char text[MLSYS_GENERATOR_TEXT];
    mlsys_generator g = NULL;
    mlsys_config c;
    TRY(mlsys_config_create(&c));
    mlsys_status st = mlsys_config_set_i64(c, "context", SAMPLE_CONTEXT);
    if (st == MLSYS_OK) st = mlsys_generator_create(m, r->stream, c, &g);
    mlsys_release(c);
    if (st == MLSYS_OK) st = mlsys_generator_append(g, r->how.prompt);
    if (st == MLSYS_OK) printf("--- %s: %s", which, r->how.prompt);
    for (long i = 0; i < r->how.sample && st == MLSYS_OK; i++) {
        int32_t id;
        st = mlsys_generator_next(g, &id, text, sizeof text, NULL);
        if (st == MLSYS_OK) fputs(text, stdout);
        if (id < 0) break;
    }
    printf("\n");
    mlsys_release(g);
    return st;
}

static mlsys_status save_and_generate(run *r) {
    mlsys_model tuned = NULL, saved = NULL;
    mlsys_config c = NULL;
    mlsys_status st = tuning_result(&r->tuning, r->trainer, &tuned);
    if (st == MLSYS_OK && !r->how.output) st = write_sample(r, tuned, "after");
    if (st == MLSYS_OK && r->how.output) {
        st = mlsys_config_create(&c);
        if (st == MLSYS_OK) st = mlsys_config_set_str(c, "dtype", r->how.dtype);
        if (st == MLSYS_OK) st = mlsys_model_save(tuned, r->how.output, c);
        if (st == MLSYS_OK) st = mlsys_model_open(r->ctx, r->how.output, NULL, &saved);
        if (st == MLSYS_OK) st = write_sample(r, saved, r->how.output);
    }
    mlsys_release(c);
    mlsys_release(saved);
    mlsys_release(tuned);
    return st;
}

/* ---- main --------------------------------------------------------------------------------------- */

static mlsys_status begin(run *r) {
    TRY(start_on_cpu(r->how.threads, &r->ctx, &r->cpu, &r->stream));
    TRY(mlsys_model_open(r->ctx, r->how.model, NULL, &r->model));
    TRY(read_tokens(r));
    r->tuning = (tuning){.model = r->model,
                         .cpu = r->cpu,
                         .stream = r->stream,
                         .rank = r->how.all ? 0 : r->how.lora,
                         .alpha = r->how.alpha,
                         .targets = r->how.targets,
                         .batch = r->how.batch,
                         .length = r->how.length};
    return tuning_build(&r->tuning, (unsigned long)r->how.seed);
}

static mlsys_status tune(run *r) {
    double before = 0, after = 0;
    mlsys_stats stats = {.size = sizeof stats};
    TRY(begin(r));
    printf("%ld tokens, %ld of them held out; %d tensors are trained\n", r->n_ids,
           r->n_ids - r->n_train, r->tuning.n);
    TRY(evaluate(r, 0, &before));
    if (r->how.sample) TRY(write_sample(r, r->model, "before"));
    TRY(make_trainer(r));
    TRY(train(r));
    TRY(evaluate(r, 1, &after));
    TRY(save_and_generate(r));
    TRY(mlsys_ctx_stats(r->ctx, &stats));
    printf("held-out loss %.5f before, %.5f after; peak memory %.0f MB beside the mapped file\n",
           before, after, (double)stats.peak_bytes / 1e6);
    return MLSYS_OK;
}

static int parse(int argc, char **argv, settings *s) {
    const option_row rows[] = {
        {"--model", "GGUF file to start from", &s->model, NULL, NULL, NULL},
        {"--text", "file to learn from", &s->text, NULL, NULL, NULL},
        {"--lora", "train adapters of this rank", NULL, &s->lora, NULL, NULL},
        {"--alpha", "their scale is alpha / rank", NULL, NULL, &s->alpha, NULL},
        {"--targets", "matrices that get them", &s->targets, NULL, NULL, NULL},
        {"--all", "train all weights instead", NULL, NULL, NULL, &s->all},
        {"--steps", "in all, also those before --resume", NULL, &s->steps, NULL, NULL},
        {"--length", "tokens of a row", NULL, &s->length, NULL, NULL},
        {"--batch", "rows of a step", NULL, &s->batch, NULL, NULL},
        {"--optimizer", "as the trainer knows them", &s->optimizer, NULL, NULL, NULL},
        {"--rate", "of the optimizer", NULL, NULL, &s->rate, NULL},
        {"--checkpoint", "what the backward pass computes again", &s->checkpoint, NULL, NULL, NULL},
        {"--seed", "of adapters and batches", NULL, &s->seed, NULL, NULL},
        {"--threads", "0: all cores", NULL, &s->threads, NULL, NULL},
        {"--numerics", "exact, stable or fast", &s->numerics, NULL, NULL, NULL},
        {"--output", "GGUF file to write", &s->output, NULL, NULL, NULL},
        {"--dtype", "of what changed in it: f32, f16, bf16", &s->dtype, NULL, NULL, NULL},
        {"--save", "write the trainer's state at the end", &s->save, NULL, NULL, NULL},
        {"--resume", "go on from such a state", &s->resume, NULL, NULL, NULL},
        {"--curve", "write the losses as an SVG picture", &s->curve, NULL, NULL, NULL},
        {"--prompt", "what samples go on from", &s->prompt, NULL, NULL, NULL},
        {"--sample", "tokens of a sample", NULL, &s->sample, NULL, NULL},
    };
    int go = options_parse(argc, argv, "Train a language model further on a text file.", rows,
                           (int)(sizeof rows / sizeof rows[0]));
    if (go > 0 && (!s->model || !s->text || s->steps < 1 || s->length < 2 || s->batch < 1 ||
                   s->batch > 4096 || (!s->all && s->lora < 1) || s->sample < 0)) {
        fprintf(stderr, "finetune: --model and --text are needed, and positive numbers\n");
        return -1;
    }
    return go;
}

int main(int argc, char **argv) {
    static run r = {.how = {.targets = "attn_q,attn_v",
                            .dtype = "f16",
                            .optimizer = "adamw",
                            .numerics = "stable",
                            .checkpoint = "",
                            .prompt = "In the beginning",
                            .lora = 8,
                            .alpha = 16,
                            .steps = 100,
                            .length = 128,
                            .batch = 4,
                            .seed = 1,
                            .sample = 48,
                            .rate = 1e-3}};
    int go = parse(argc, argv, &r.how);
    if (go <= 0) return go ? 2 : 0;
    mlsys_status st = tune(&r);
    if (st != MLSYS_OK) fprintf(stderr, "finetune: %s\n", mlsys_last_error());
    tuning_release(&r.tuning);
    mlsys_release(r.trainer);
    mlsys_release(r.model);
    mlsys_release(r.stream);
    mlsys_release(r.cpu);
    mlsys_release(r.ctx);
    run_log_free(&r.log);
    free(r.ids);
    return st != MLSYS_OK;
}
