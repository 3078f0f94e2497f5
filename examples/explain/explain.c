/* explain: what the compiler makes of a program, level by level.
 *
 *   explain                                  a small block of its own
 *   explain --program FILE --fuse always     IR text, as mlsys_graph_print writes it
 *   explain --model FILE.gguf --level fusion a model's decode step
 *   explain ... --picture graph.svg --map memory.svg
 *
 * The lesson: everything between a graph and its kernels can be asked for (mlsys_program_dump). */
#include "options.h"
#include "start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != MLSYS_OK) {                                                                  \
            fprintf(stderr, "explain: %s\n", mlsys_last_error());                                  \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

/* A gated block with a norm before it, as a layer's code writes it (the norm twice), and a softmax of the result. */
static const char block[] = "mlsys-ir 1\n"
                            "symbol B 1 32 1\n"
                            "functions 1\n"
                            "func 0 \"main\" {\n"
                            "  %0 = input \"x\" : f32[B,64]\n"
                            "  %1 = input \"norm\" : f32[64]\n"
                            "  %2 = input \"gate\" : f32[64,128]\n"
                            "  %3 = input \"up\" : f32[64,128]\n"
                            "  %4 = input \"down\" : f32[128,64]\n"
                            "  %5 = rms_norm(%0, %1) {eps=1e-05} : f32[B,64]\n"
                            "  %6 = matmul(%5, %2) : f32[B,128]\n"
                            "  %7 = rms_norm(%0, %1) {eps=1e-05} : f32[B,64]\n"
                            "  %8 = matmul(%7, %3) : f32[B,128]\n"
                            "  %9 = silu(%6) : f32[B,128]\n"
                            "  %10 = mul(%9, %8) : f32[B,128]\n"
                            "  %11 = matmul(%10, %4) : f32[B,64]\n"
                            "  %12 = add(%0, %11) : f32[B,64]\n"
                            "  %13 = full() {dtype=f32, shape=[], value=0.125} : f32[]\n"
                            "  %14 = mul(%12, %13) : f32[B,64]\n"
                            "  %15 = softmax(%14) : f32[B,64]\n"
                            "  output \"y\" %12\n"
                            "  output \"p\" %15\n"
                            "}\n";

typedef struct request {
    const char *program, *model, *level, *fuse, *numerics, *isa, *picture, *map;
    long threads;
} request;

/* Each level: a dump of the program; the first one of a program that was compiled without its optional passes. */
static const struct level {
    const char *name, *title;
    int what;
} levels[] = {
    {"before", "tensor IR before the passes that are optional", MLSYS_DUMP_GRAPH},
    {"after", "tensor IR as compiled", MLSYS_DUMP_GRAPH},
    {"passes", "passes", MLSYS_DUMP_PASSES},
    {"fusion", "fusion: bytes before and after, and why not", MLSYS_DUMP_FUSION},
    {"code", "generated C", MLSYS_DUMP_CODE},
    {"kernels", "steps", MLSYS_DUMP_KERNELS},
    {"cost", "cost at the symbols' maxima", MLSYS_DUMP_COST},
    {"memory", "memory plan", MLSYS_DUMP_MEMPLAN},
};

static mlsys_status open_graph(const request *r, mlsys_ctx ctx, mlsys_graph *g) {
    mlsys_model model = NULL;
    long bytes;
    if (r->model) {
        mlsys_status st = mlsys_model_open(ctx, r->model, NULL, &model);
        if (st == MLSYS_OK) st = mlsys_model_graph(model, NULL, g);
        mlsys_release(model);
        return st;
    }
    if (!r->program) return mlsys_graph_parse(ctx, block, g);
    char *text = options_read_file(r->program, &bytes);
    if (!text) return mlsys_set_error(MLSYS_E_IO, "the program cannot be read");
    mlsys_status st = mlsys_graph_parse(ctx, text, g);
    free(text);
    return st;
}

static mlsys_status compile(const request *r, mlsys_graph g, mlsys_device cpu, int plain,
                            mlsys_program *out) {
    mlsys_config c = NULL;
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", r->numerics);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "isa", r->isa);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "fuse", plain ? "never" : r->fuse);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "jit", "always"); /* the code is to be shown */
    if (st == MLSYS_OK && plain)
        st = mlsys_config_set_str(
            c, "passes_off", "simplify,fold,cse,transpose,simplify2,fold2,cse2,dce,hoist,order");
    if (st == MLSYS_OK) st = mlsys_graph_compile(g, cpu, c, out);
    mlsys_release(c);
    return st;
}

/* A dump into f: first its size is asked for. */
static mlsys_status print(mlsys_program p, int what, FILE *f) {
    uint64_t need = 0;
    mlsys_status st = mlsys_program_dump(p, what, NULL, 0, &need);
    char *text = st == MLSYS_OK ? malloc((size_t)need) : NULL;
    if (st == MLSYS_OK && !text) st = mlsys_set_error(MLSYS_E_NOMEM, "no memory for the text");
    if (st == MLSYS_OK) st = mlsys_program_dump(p, what, text, need, NULL);
    if (st == MLSYS_OK && fputs(text, f) < 0)
        st = mlsys_set_error(MLSYS_E_IO, "the text cannot be written");
    free(text);
    return st;
}

static mlsys_status print_levels(const request *r, mlsys_program plain, mlsys_program p) {
    int known = 0, all = !strcmp(r->level, "all");
    mlsys_status st = MLSYS_OK;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0] && st == MLSYS_OK; i++) {
        if (!all && strcmp(r->level, levels[i].name)) continue;
        known = 1;
        if (all) printf("\n==== %s ====\n\n", levels[i].title);
        st = print(i ? p : plain, levels[i].what, stdout);
    }
    return known ? st : mlsys_set_error(MLSYS_E_ARG, "--level names no level (see --help)");
}

static mlsys_status draw(mlsys_program p, int what, const char *path) {
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!path) return MLSYS_OK;
    if (!f) return mlsys_set_error(MLSYS_E_IO, "the picture cannot be written");
    mlsys_status st = print(p, what, f);
    if (fclose(f) && st == MLSYS_OK)
        st = mlsys_set_error(MLSYS_E_IO, "the picture cannot be written");
    return st;
}

int main(int argc, char **argv) {
    request r = {.level = "all", .fuse = "auto", .numerics = "stable", .isa = "auto"};
    const option_row rows[] = {
        {"--program", "a graph in IR text", &r.program, NULL, NULL, NULL},
        {"--model", "a GGUF file: its decode step", &r.model, NULL, NULL, NULL},
        {"--level", "before, after, passes, fusion, code, kernels, cost, memory", &r.level, NULL,
         NULL, NULL},
        {"--fuse", "auto, always or never", &r.fuse, NULL, NULL, NULL},
        {"--numerics", "exact, stable or fast", &r.numerics, NULL, NULL, NULL},
        {"--threads", "worker threads, 0: all processors", NULL, &r.threads, NULL, NULL},
        {"--isa", "highest instruction set", &r.isa, NULL, NULL, NULL},
        {"--picture", "SVG file for the graph, coloured by kernel", &r.picture, NULL, NULL, NULL},
        {"--map", "SVG file for the memory map", &r.map, NULL, NULL, NULL},
    };
    int go = options_parse(argc, argv, "What the compiler makes of a program, level by level.",
                           rows, (int)(sizeof rows / sizeof rows[0]));
    if (go <= 0) return go < 0;
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_graph graph = NULL;
    mlsys_program plain = NULL, program = NULL;
    TRY(start_on_cpu(r.threads, &ctx, &cpu, &stream));
    TRY(open_graph(&r, ctx, &graph));
    TRY(compile(&r, graph, cpu, 1, &plain));
    TRY(compile(&r, graph, cpu, 0, &program));
    TRY(print_levels(&r, plain, program));
    TRY(draw(program, MLSYS_DUMP_PICTURE, r.picture));
    TRY(draw(program, MLSYS_DUMP_MEMMAP, r.map));
    rc = 0;
done:
    mlsys_release(program);
    mlsys_release(plain);
    mlsys_release(graph);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
