#include "support/export_case.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALONE "-ffreestanding -nostdlib -static -DMLSYS_OWN_MEMORY -Wall -Wextra -Werror"

const export_target export_targets[] = {
    {"host", "-std=c99 -pedantic -O2 " ALONE, "", "cc"},
    {"host, by its own instructions",
     "-std=c99 -O2 -fno-math-errno $(grep -qm1 ' fma ' /proc/cpuinfo && echo -mfma) " ALONE, "",
     "cc"},
    {"host, unoptimised", "-std=c99 -O0 " ALONE, "", "cc"},
    {"clang", "-std=c99 -O2 " ALONE, "", "clang"},
    {"arm", "-std=c99 -O2 " ALONE, "qemu-arm", "arm-linux-gnueabihf-gcc"},
    {"aarch64", "-std=c99 -O2 " ALONE, "qemu-aarch64", "aarch64-linux-gnu-gcc"},
};
const int n_export_targets = sizeof export_targets / sizeof export_targets[0];

static bool is_program(const char *name) {
    char command[200];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", name);
    return !*name || system(command) == 0;
}

bool export_target_is_here(const export_target *t) {
    return is_program(t->compiler) && is_program(t->run);
}

/* ---- graphs with random constants ------------------------------------------------------------------------ */

static int64_t elements_before(const char *text, const char *at) {
    const char *open = at;
    int64_t n = 1;
    while (open > text && *open != '[')
        open--;
    while (*open != ']') {
        char *end;
        n *= strtoll(open + 1, &end, 10);
        open = end;
    }
    return n;
}

mlsys_graph export_parse(const program_case *pc, kc_rng *r, const char *text) {
    size_t room = strlen(text) + 1, n = 0;
    for (const char *at = strchr(text, '@'); at; at = strchr(at + 1, '@'))
        room += 16 + 8 * (size_t)elements_before(text, at);
    char *whole = malloc(room);
    ck_assert_ptr_nonnull(whole);
    for (const char *p = text; *p; p++) {
        if (*p != '@') {
            whole[n++] = *p;
            continue;
        }
        n += (size_t)sprintf(whole + n, "hex:");
        for (int64_t i = elements_before(text, p); i; i--) {
            float f = (float)(kc_uniform(r, -0.5, 0.5));
            unsigned char b[4];
            memcpy(b, &f, sizeof b);
            n += (size_t)sprintf(whole + n, "%02x%02x%02x%02x", b[0], b[1], b[2], b[3]);
        }
    }
    whole[n] = 0;
    mlsys_graph g = pc_parse(pc, whole);
    free(whole);
    return g;
}

/* ---- data.h ---------------------------------------------------------------------------------------------------- */

static void write_bytes(FILE *f, const char *name, int i, const void *data, uint64_t bytes) {
    fprintf(f, "static const unsigned char %s%d[] __attribute__((aligned(16))) = {", name, i);
    for (uint64_t k = 0; k < bytes; k++)
        fprintf(f, "%d,", ((const unsigned char *)data)[k]);
    fprintf(f, bytes ? "};\n" : "0};\n");
}

static void write_list(FILE *f, const char *type, const char *name, int n, const char *item) {
    fprintf(f, "static const %s %s[] = {", type, name);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%d, ", item, i);
    fprintf(f, n ? "};\n" : "0};\n");
}

/* As main.c wants it, to know NaNs. */
static int float_kind(mlsys_dtype t) {
    return t == MLSYS_F64 ? 8 : t == MLSYS_F32 ? 4 : t == MLSYS_F16 ? 16 : t == MLSYS_BF16 ? 17 : 0;
}

static void write_data(const char *folder, int n_in, mlsys_tensor *in, int n_out,
                       mlsys_tensor *out) {
    char path[300];
    uint64_t bytes[16] = {0};
    int floats[16] = {0};
    void *data;
    snprintf(path, sizeof path, "%s/data.h", folder);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < n_in; i++) {
        OK(mlsys_tensor_data(in[i], &data, bytes));
        write_bytes(f, "in", i, data, bytes[0]);
    }
    for (int o = 0; o < n_out; o++) {
        mlsi_tensor *t;
        OK(mlsi_pin(out[o], MLSYS_KIND_TENSOR, "output", &t));
        floats[o] = float_kind(t->layout.dtype);
        mlsi_unpin(t);
        OK(mlsys_tensor_data(out[o], &data, &bytes[o]));
        write_bytes(f, "want", o, data, bytes[o]);
        fprintf(f, "static unsigned char out%d[%llu] __attribute__((aligned(16)));\n", o,
                (unsigned long long)bytes[o] + 1);
    }
    fprintf(f, "enum { N_OUTPUTS = %d };\n", n_out);
    write_list(f, "void *const", "inputs", n_in, "in");
    write_list(f, "void *const", "wanted", n_out, "want");
    fprintf(f, "static void *const outputs[] = {");
    for (int o = 0; o < n_out; o++)
        fprintf(f, "out%d, ", o);
    fprintf(f, "};\nstatic const long output_bytes[] = {");
    for (int o = 0; o < n_out; o++)
        fprintf(f, "%llu, ", (unsigned long long)bytes[o]);
    fprintf(f, "};\nstatic const int output_floats[] = {");
    for (int o = 0; o < n_out; o++)
        fprintf(f, "%d, ", floats[o]);
    fprintf(f, "};\n");
    ck_assert_int_eq(fclose(f), 0);
}

/* ---- building and running --------------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static int shell(const char *format, ...) {
    char command[2000];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(command, sizeof command, format, args);
    va_end(args);
    ck_assert(n > 0 && n < (int)sizeof command);
    return system(command);
}

static void build_and_run(const char *name, const char *folder, const export_target *t) {
    const char *cc = t->compiler, *flags = t->flags;
    if (shell("cd %s && %s %s -c model.c && %s %s -I. -o model main.c model.o -lgcc 2>&1", folder,
              cc, flags, cc, flags))
        ck_abort_msg("%s, %s: does not build: see %s", name, t->name, folder);
    /* 32-bit ARM divides and converts 64-bit integers by functions of the compiler's own runtime. */
    if (shell("cd %s && ! nm -u model.o | grep -v '__aeabi_'", folder))
        ck_abort_msg("%s, %s: needs a library", name, t->name);
    int status = shell("cd %s && %s ./model", folder, t->run);
    if (status)
        ck_abort_msg("%s, %s: status %d (256: it failed, 512: other bits), see %s", name, t->name,
                     status, folder);
}

void export_check(const program_case *pc, mlsys_program p, const mlsi_program *inside,
                  const char *name, int n_in, mlsys_tensor *in, int n_out, const char *symbol,
                  int64_t value, const export_target *t) {
    char folder[] = "/tmp/mlsys-export-XXXXXX", path[100];
    mlsys_tensor out[16] = {NULL};
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.c", folder);
    OK(mlsys_program_run(p, pc->stream, n_in, in, n_out, out));
    mlsys_status st = inside
                          ? mlsi_program_export(inside, path, symbol != NULL, &symbol, &value, NULL)
                          : mlsys_program_export(p, path, symbol != NULL, &symbol, &value, NULL);
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", name, mlsys_last_error());
    write_data(folder, n_in, in, n_out, out);
    ck_assert_int_eq(shell("cp tests/e2e/freestanding/main.c %s/", folder), 0);
    build_and_run(name, folder, t);
    ck_assert_int_eq(shell("rm -r %s", folder), 0);
    pc_release(n_out, out);
}

static void limit(mlsys_tensor t, const export_input *in) {
    void *data;
    uint64_t bytes;
    OK(mlsys_tensor_data(t, &data, &bytes));
    for (uint64_t i = 0; in->below && i < bytes / 8; i++)
        ((int64_t *)data)[i] = (int64_t)((uint64_t)((int64_t *)data)[i] % (uint64_t)in->below);
}

void export_compare(const program_case *pc, kc_rng *r, const export_case *c,
                    const export_target *t) {
    mlsys_tensor in[3] = {NULL};
    mlsys_graph g = export_parse(pc, r, c->text);
    mlsys_program p = pc_compile(pc, g, c->settings);
    for (int i = 0; i < c->n_in; i++) {
        in[i] = pc_random(pc, r, c->in[i].dtype, c->in[i].rank, c->in[i].shape);
        limit(in[i], &c->in[i]);
    }
    export_check(pc, p, NULL, c->name, c->n_in, in, c->n_out, c->symbol, c->value, t);
    pc_release(c->n_in, in);
    mlsys_release(p);
    mlsys_release(g);
}
