/* A trained network as one C file that needs no library, not even libc: for machines that are too small for one.
 *
 *     train --network conv --save conv.safetensors
 *     export --network conv --weights conv.safetensors --output model.c --check data.h
 *     arm-none-eabi-gcc -std=c99 -ffreestanding -O2 -c model.c
 *
 * model.c then has  int model_run(const void *const *inputs, void *const *outputs);  docs/export.md says the rest. */
#include "network.h"
#include "options.h"
#include "start.h"

#include <stdio.h>

typedef struct exporting {
    const char *network, *weights, *output, *check, *data;
    long batch;
    network net;
    mlsys_ctx ctx;
    mlsys_device cpu;
    mlsys_stream stream;
    mlsys_program program;
} exporting;

/* The weights that training has saved become constants of the graph. */
static mlsys_status compile(exporting *e) {
    mlsys_tensor weights[MAX_PARAMETERS] = {0};
    mlsys_model file = NULL;
    mlsys_graph g = NULL;
    mlsys_config c = NULL;
    mlsys_status st = mlsys_model_open(e->ctx, e->weights, NULL, &file);
    for (int i = 0; i < e->net.n && st == MLSYS_OK; i++)
        st = mlsys_model_tensor(file, e->net.parameters[i].name, &weights[i]);
    if (st == MLSYS_OK) st = network_trained(&e->net, e->ctx, weights, &g);
    if (st == MLSYS_OK) st = mlsys_config_create(&c);
    /* exact: the bits of any machine. fuse: a kernel does as much as it can, so that less goes through memory. */
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "numerics", "exact");
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "fuse", "always");
    if (st == MLSYS_OK) st = mlsys_graph_compile(g, e->cpu, c, &e->program);
    for (int i = 0; i < e->net.n; i++)
        mlsys_release(weights[i]);
    mlsys_release(c);
    mlsys_release(g);
    mlsys_release(file);
    return st;
}

/* The file has fixed shapes: here is where the number of images of one call is decided. */
static mlsys_status write_program(exporting *e) {
    const char *symbol = "B";
    const int64_t batch = e->batch;
    return mlsys_program_export(e->program, e->output, 1, &symbol, &batch, NULL);
}

/* ---- a check for the other machine: images, and what the library makes of them ------------------------------- */

static mlsys_status some_images(exporting *e, mlsys_tensor *images) {
    char pixels[4096], labels[4096];
    mlsys_tensor fields[2] = {0};
    mlsys_dataset d = NULL;
    mlsys_config c = NULL;
    snprintf(pixels, sizeof pixels, "%s/t10k-images-idx3-ubyte.gz", e->data);
    snprintf(labels, sizeof labels, "%s/t10k-labels-idx1-ubyte.gz", e->data);
    mlsys_status st = mlsys_config_create(&c);
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "format", "idx");
    if (st == MLSYS_OK) st = mlsys_config_set_str(c, "labels", labels);
    if (st == MLSYS_OK) st = mlsys_dataset_open(e->ctx, pixels, c, &d);
    if (st == MLSYS_OK) st = mlsys_dataset_batch(d, 0, e->batch, 2, fields);
    *images = fields[0];
    mlsys_release(fields[1]);
    mlsys_release(d);
    mlsys_release(c);
    return st;
}

static mlsys_status write_array(FILE *f, const char *name, mlsys_tensor t, uint64_t *bytes) {
    void *data;
    mlsys_status st = mlsys_tensor_data(t, &data, bytes);
    if (st != MLSYS_OK) return st;
    fprintf(f, "static const unsigned char %s[] __attribute__((aligned(16))) = {", name);
    for (uint64_t i = 0; i < *bytes; i++)
        fprintf(f, "%d,", ((const unsigned char *)data)[i]);
    fprintf(f, "};\n");
    return MLSYS_OK;
}

static mlsys_status write_check(exporting *e) {
    mlsys_tensor images = NULL, out[2] = {0};
    uint64_t n[3] = {0};
    mlsys_status st = some_images(e, &images);
    if (st == MLSYS_OK) st = mlsys_program_run(e->program, e->stream, 1, &images, 2, out);
    FILE *f = st == MLSYS_OK ? fopen(e->check, "w") : NULL;
    if (st == MLSYS_OK && !f) st = mlsys_set_error(MLSYS_E_IO, e->check);
    if (st == MLSYS_OK) st = write_array(f, "images", images, &n[0]);
    if (st == MLSYS_OK) st = write_array(f, "scores", out[0], &n[1]);
    if (st == MLSYS_OK) st = write_array(f, "classes", out[1], &n[2]);
    if (f)
        fprintf(f,
                "static unsigned char out0[%llu] __attribute__((aligned(16)));\n"
                "static unsigned char out1[%llu] __attribute__((aligned(16)));\n"
                "enum { N_OUTPUTS = 2 };\nstatic const void *const inputs[] = {images};\n"
                "static const void *const wanted[] = {scores, classes};\n"
                "static void *const outputs[] = {out0, out1};\n"
                "static const long output_bytes[] = {sizeof out0, sizeof out1};\n"
                "static const int output_floats[] = {4, 0};\n",
                (unsigned long long)n[1], (unsigned long long)n[2]);
    if (f && fclose(f) && st == MLSYS_OK) st = mlsys_set_error(MLSYS_E_IO, e->check);
    mlsys_release(images);
    mlsys_release(out[0]);
    mlsys_release(out[1]);
    return st;
}

int main(int argc, char **argv) {
    exporting e = {.network = "mlp",
                   .output = "model.c",
                   .data = "/usr/share/datasets/fashion-mnist",
                   .batch = 1};
    const option_row rows[] = {
        {"--network", "mlp or conv, as trained", &e.network, NULL, NULL, NULL},
        {"--weights", "what train --save has written", &e.weights, NULL, NULL, NULL},
        {"--output", "the C file", &e.output, NULL, NULL, NULL},
        {"--batch", "images of one call", NULL, &e.batch, NULL, NULL},
        {"--check", "write test images and the library's answers, as C", &e.check, NULL, NULL,
         NULL},
        {"--data", "folder of the test images", &e.data, NULL, NULL, NULL}};
    int go = options_parse(argc, argv, "Writes a trained network as freestanding C99.", rows,
                           sizeof rows / sizeof rows[0]);
    if (go <= 0) return go ? 2 : 0;
    if (!e.weights || !network_of(e.network, 28, &e.net)) {
        fprintf(stderr, "export: --weights FILE, and --network mlp or conv (--help)\n");
        return 2;
    }
    mlsys_status st = start_on_cpu(0, &e.ctx, &e.cpu, &e.stream);
    if (st == MLSYS_OK) st = compile(&e);
    if (st == MLSYS_OK) st = write_program(&e);
    if (st == MLSYS_OK && e.check) st = write_check(&e);
    if (st != MLSYS_OK) fprintf(stderr, "export: %s\n", mlsys_last_error());
    mlsys_release(e.program);
    mlsys_release(e.stream);
    mlsys_release(e.cpu);
    mlsys_release(e.ctx);
    return st != MLSYS_OK;
}
