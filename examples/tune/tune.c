/* tune: search faster schedules for the kernels of a program, then compile with what was found.
 *
 *   tune                                     a norm with a gate of its own, f32[B,512]
 *   tune --program FILE --size B=8           IR text, as mlsys_graph_print writes it, at that size
 *   tune --budget-ms 60000                   one that was interrupted goes on where it was
 *
 * The lesson: tuning changes no program. It writes down what it learned ($MLSYS_CACHE/tune, or ~/.cache/mlsys/tune), and
 * "tune" = "replay" compiles by these records: the same records, the same code, the same bits, only faster. */
#include "options.h"
#include "start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != MLSYS_OK) {                                                                  \
            fprintf(stderr, "tune: %s\n", mlsys_last_error());                                     \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

static const char block[] = "mlsys-ir 1\n"
                            "symbol B 1 4096 1\n"
                            "functions 1\n"
                            "func 0 \"main\" {\n"
                            "  %0 = input \"x\" : f32[B,512]\n"
                            "  %1 = input \"weight\" : f32[512]\n"
                            "  %2 = rms_norm(%0, %1) {axis=1, eps=1e-05} : f32[B,512]\n"
                            "  %3 = silu(%2) : f32[B,512]\n"
                            "  %4 = mul(%3, %0) : f32[B,512]\n"
                            "  output \"y\" %4\n"
                            "}\n";

/* A line whenever a kernel's best schedule changes. A search can be stopped here: return 1. */
static int32_t progress(void *user, const mlsys_tune_progress *at) {
    double *last = user;
    if (at->best != *last)
        printf("%6.1f s  %s, %lld draws: %.3f of the default's time  %s\n",
               (double)at->elapsed_ms * 1e-3, at->kernel, (long long)at->number, at->best,
               *at->schedule ? at->schedule : "(the default)");
    *last = at->best;
    return 0;
}

static mlsys_status open_graph(const char *path, mlsys_ctx ctx, mlsys_graph *g) {
    long bytes;
    if (!path) return mlsys_graph_parse(ctx, block, g);
    char *text = options_read_file(path, &bytes);
    if (!text) return mlsys_set_error(MLSYS_E_IO, "the program cannot be read");
    mlsys_status st = mlsys_graph_parse(ctx, text, g);
    free(text);
    return st;
}

static mlsys_status compile(mlsys_graph g, mlsys_device cpu, const char *tune, mlsys_program *out) {
    mlsys_config c = NULL;
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "fuse", "always");
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "tune", tune);
    if (st == MLSYS_OK) st = mlsys_graph_compile(g, cpu, c, out);
    mlsys_release(c);
    return st;
}

/* size: "B=8", or NULL: every symbol at its maximum. */
static mlsys_status tune(mlsys_program p, char *size, long budget_ms, long candidates, long seed,
                         mlsys_tune_report *report) {
    char *equals = size ? strchr(size, '=') : NULL;
    const char *names[1] = {size};
    int64_t values[1] = {0};
    double last = -1;
    mlsys_config c = NULL;
    if (size && !equals) return mlsys_set_error(MLSYS_E_ARG, "--size is NAME=NUMBER");
    if (equals) values[0] = strtoll(equals + 1, NULL, 10), *equals = 0;
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_i64(c, "budget_ms", budget_ms);
    if (st == MLSYS_OK) st = mlsys_config_set_i64(c, "candidates", candidates);
    if (st == MLSYS_OK) st = mlsys_config_set_i64(c, "seed", seed);
    if (st == MLSYS_OK)
        st = mlsys_program_tune(p, size ? 1 : 0, names, values, c, progress, &last, report);
    mlsys_release(c);
    return st;
}

static mlsys_status print_code(mlsys_program p) {
    uint64_t need = 0;
    mlsys_status st = mlsys_program_dump(p, MLSYS_DUMP_CODE, NULL, 0, &need);
    char *text = st == MLSYS_OK ? malloc((size_t)need) : NULL;
    if (st == MLSYS_OK && !text) st = mlsys_set_error(MLSYS_E_NOMEM, "no memory for the text");
    if (st == MLSYS_OK) st = mlsys_program_dump(p, MLSYS_DUMP_CODE, text, need, NULL);
    if (st == MLSYS_OK) fputs(text, stdout);
    free(text);
    return st;
}

int main(int argc, char **argv) {
    const char *program = NULL, *size_text = NULL;
    long budget_ms = 10000, candidates = 256, seed = 0, threads = 0;
    int code = 0;
    const option_row rows[] = {
        {"--program", "a graph in IR text", &program, NULL, NULL, NULL},
        {"--size", "NAME=NUMBER of a symbol; others at their maximum", &size_text, NULL, NULL,
         NULL},
        {"--budget-ms", "time for the search", NULL, &budget_ms, NULL, NULL},
        {"--candidates", "draws for each kernel", NULL, &candidates, NULL, NULL},
        {"--seed", "of the draws", NULL, &seed, NULL, NULL},
        {"--threads", "worker threads, 0: all processors", NULL, &threads, NULL, NULL},
        {"--code", "print the C that replay gives", NULL, NULL, NULL, &code},
    };
    int go = options_parse(argc, argv, "Search faster schedules for a program's kernels.", rows,
                           (int)(sizeof rows / sizeof rows[0]));
    if (go <= 0) return go < 0;
    int rc = 1;
    char size[256];
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph graph = NULL;
    mlsys_program plain = NULL, tuned = NULL;
    mlsys_tune_report r = {.size = sizeof r};
    snprintf(size, sizeof size, "%s", size_text ? size_text : "");
    TRY(start_on_cpu(threads, &ctx, &cpu, &stream));
    TRY(open_graph(program, ctx, &graph));
    TRY(compile(graph, cpu, "off", &plain));
    TRY(tune(plain, size_text ? size : NULL, budget_ms, candidates, seed, &r));
    printf("%lld kernels, %lld faster than by default; %lld candidates timed, %lld known, %lld not "
           "proved, %lld with other bits\n%.1f us -> %.1f us\n",
           (long long)r.kernels, (long long)r.improved, (long long)r.measured, (long long)r.resumed,
           (long long)r.refused, (long long)r.different, r.default_ns * 1e-3, r.best_ns * 1e-3);
    TRY(compile(graph, cpu, "replay", &tuned));
    if (code) TRY(print_code(tuned));
    rc = 0;
done:
    mlsys_release(tuned);
    mlsys_release(plain);
    mlsys_release(graph);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
