/* generate: answer a prompt with a language model from a GGUF file, streaming, and say how fast.
 *
 *   generate --model FILE --prompt TEXT [--chat] [--system TEXT] [--max-tokens N] ...
 *
 * The lesson: open a model, make a generator, append a prompt, take tokens until the end. */
#include "start.h"

#include <mlsys/mlsys.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) {                                                                  \
            fprintf(stderr, "generate: %s\n", mlsys_last_error());                                 \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

static const char usage[] =
    "usage: generate --model FILE --prompt TEXT [options]\n"
    "  --chat             wrap the prompt in the model's chat template\n"
    "  --system TEXT      system message (with --chat)\n"
    "  --max-tokens N     stop after N new tokens (default 256)\n"
    "  --context N        cache capacity in tokens\n"
    "  --device NAME      cpu, cuda or cuda:N (default cpu)\n"
    "  --threads N        worker threads (default: all cores)\n"
    "  --numerics MODE    exact, stable or fast\n"
    "  --act TYPE         activations of quantised products: f32 or int8\n"
    "  --kv TYPE          cache dtype: f32, f16 or bf16\n"
    "  --temperature T --top-k K --top-p P --min-p P --repetition-penalty R --seed S\n"
    "  --quiet            the text only, no figures\n"
    "  --help             this text\n";

typedef struct options {
    const char *model, *prompt, *system, *device;
    long max_tokens;
    int chat, quiet;
} options;

/* Long options that are settings of the context ('c') or of the generator ('g'). */
static const struct {
    const char *flag, *key;
    char scope, type;
} settings[] = {
    {"--threads", "threads", 'c', 'i'},
    {"--isa", "isa", 'c', 's'},
    {"--context", "context", 'g', 'i'},
    {"--numerics", "numerics", 'g', 's'},
    {"--act", "act", 'g', 's'},
    {"--kv", "kv", 'g', 's'},
    {"--temperature", "temperature", 'g', 'f'},
    {"--top-k", "top_k", 'g', 'i'},
    {"--top-p", "top_p", 'g', 'f'},
    {"--min-p", "min_p", 'g', 'f'},
    {"--seed", "seed", 'g', 'i'},
    {"--repetition-penalty", "repetition_penalty", 'g', 'f'},
    {"--chunk", "chunk", 'g', 'i'},
};

static int set(mlsys_config c, const char *key, char type, const char *value) {
    if (type == 'i') return mlsys_config_set_i64(c, key, strtoll(value, NULL, 10));
    if (type == 'f') return mlsys_config_set_f64(c, key, strtod(value, NULL));
    return mlsys_config_set_str(c, key, value);
}

/* 0 = go on, 1 = stop with an error, 2 = help was printed. */
static int parse(int argc, char **argv, options *o, mlsys_config ctx, mlsys_config gen) {
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        size_t s = 0, n = sizeof settings / sizeof settings[0];
        if (!strcmp(a, "--help")) return fputs(usage, stdout), 2;
        if (!strcmp(a, "--chat")) {
            o->chat = 1;
            continue;
        }
        if (!strcmp(a, "--quiet")) {
            o->quiet = 1;
            continue;
        }
        if (!value) return fprintf(stderr, "generate: %s needs a value\n%s", a, usage), 1;
        i++;
        if (!strcmp(a, "--model")) {
            o->model = value;
            continue;
        }
        if (!strcmp(a, "--prompt")) {
            o->prompt = value;
            continue;
        }
        if (!strcmp(a, "--system")) {
            o->system = value;
            continue;
        }
        if (!strcmp(a, "--device")) {
            o->device = value;
            continue;
        }
        if (!strcmp(a, "--max-tokens")) {
            o->max_tokens = strtol(value, NULL, 10);
            continue;
        }
        while (s < n && strcmp(settings[s].flag, a))
            s++;
        if (s == n) return fprintf(stderr, "generate: unknown option %s\n%s", a, usage), 1;
        if (set(settings[s].scope == 'c' ? ctx : gen, settings[s].key, settings[s].type, value))
            return fprintf(stderr, "generate: %s\n", mlsys_last_error()), 1;
    }
    if (o->model && o->prompt) return 0;
    return fprintf(stderr, "generate: --model and --prompt are needed\n%s", usage), 1;
}

static double stat_of(mlsys_generator g, const char *name) {
    double v = 0;
    return mlsys_generator_stat(g, name, &v) == MLSYS_OK ? v : 0;
}

static void print_figures(mlsys_ctx ctx, mlsys_generator g) {
    mlsys_stats stats = {.size = sizeof stats};
    double pt = stat_of(g, "prefill_tokens"), ps = stat_of(g, "prefill_seconds");
    double dt = stat_of(g, "decode_tokens"), ds = stat_of(g, "decode_seconds");
    mlsys_ctx_stats(ctx, &stats);
    fprintf(stderr, "\nprefill %.0f tokens, %.1f tokens/s; decode %.0f tokens, %.1f tokens/s\n", pt,
            ps > 0 ? pt / ps : 0, dt, ds > 0 ? dt / ds : 0);
    fprintf(stderr,
            "memory: peak %.1f MB (cache %.1f MB, scratch %.1f MB), the model file is mapped\n",
            (double)stats.peak_bytes / 1e6, stat_of(g, "cache_bytes") / 1e6,
            stat_of(g, "scratch_bytes") / 1e6);
}

int main(int argc, char **argv) {
    options o = {.max_tokens = 256, .device = "cpu"};
    mlsys_config ctx_config = NULL, gen_config = NULL;
    mlsys_ctx ctx = NULL;
    mlsys_device device = NULL;
    mlsys_stream stream = NULL;
    mlsys_model model = NULL;
    mlsys_generator generator = NULL;
    char *text = malloc(MLSYS_GENERATOR_TEXT);
    int rc = 1, parsed;
    if (!text) goto done;
    CK(mlsys_config_create(&ctx_config));
    CK(mlsys_config_create(&gen_config));
    parsed = parse(argc, argv, &o, ctx_config, gen_config);
    if (parsed) {
        rc = parsed == 1;
        goto done;
    }
    CK(mlsys_ctx_create(ctx_config, NULL, &ctx));
    CK(device_of(ctx, o.device, &device));
    CK(mlsys_stream_create(device, NULL, &stream));
    if (!o.quiet) fprintf(stderr, "loading %s\n", o.model);
    CK(mlsys_model_open(ctx, o.model, NULL, &model));
    CK(mlsys_generator_create(model, stream, gen_config, &generator));
    if (o.chat)
        CK(mlsys_generator_chat(generator, o.system, o.prompt));
    else
        CK(mlsys_generator_append(generator, o.prompt));
    for (long i = 0; i < o.max_tokens; i++) {
        int32_t id;
        CK(mlsys_generator_next(generator, &id, text, MLSYS_GENERATOR_TEXT, NULL));
        fputs(text, stdout);
        fflush(stdout);
        if (id < 0) break;
    }
    putchar('\n');
    if (!o.quiet) print_figures(ctx, generator);
    rc = 0;
done:
    free(text);
    mlsys_release(generator);
    mlsys_release(model);
    mlsys_release(stream);
    mlsys_release(device);
    mlsys_release(ctx);
    mlsys_release(gen_config);
    mlsys_release(ctx_config);
    return rc;
}
