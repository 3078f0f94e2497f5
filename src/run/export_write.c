/* The file of an exported program: what it says about itself, vocabulary, memory, weights, a function per step, the run. */
#include "run/export.h"

#include "core/faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

extern const char mlsi_gen_text_freestanding[];

/* Writes what t holds and empties it. */
static mlsys_status flush(mlsi_file_writer *w, mlsi_text *t) {
    MLSI_TRY(t->st);
    MLSI_TRY(mlsi_file_write(w, t->data, (uint64_t)t->len));
    t->len = 0;
    return MLSYS_OK;
}

/* A name of the user's inside a comment: nothing that could end it. */
static void add_name(mlsi_text *t, const char *name) {
    for (const char *p = name ? name : ""; *p; p++) {
        const bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                           (*p >= '0' && *p <= '9') || *p == '_' || *p == '.' || *p == '-';
        mlsi_text_add(t, "%c", plain ? *p : '?');
    }
}

static void add_value(const mlsi_export *x, mlsi_text *t, const char *list, int64_t i,
                      int32_t value, const char *name) {
    const mlsi_type *type = &x->graph.funcs[0].values[value].type;
    char text[160];
    mlsi_text_add(t, " *   %s[%lld] ", list, (long long)i);
    add_name(t, name);
    mlsi_text_add(t, " %s\n", mlsi_type_text(&x->graph.symbols, type, text, sizeof text));
}

static void add_head(const mlsi_export *x, mlsi_text *t) {
    const mlsi_func *f = &x->graph.funcs[0];
    mlsi_text_add(
        t,
        "/* %s: made by libmlsys %s (mlsys_program_export, docs/export.md). Do not edit.\n *\n"
        " *   int %s_run(const void *const *inputs, void *const *outputs);\n *\n"
        " * Dense row-major memory, aligned for its dtype, outputs apart from inputs:\n",
        x->name, MLSYS_VERSION_STRING, x->name);
    for (int64_t i = 0; i < f->n_inputs; i++)
        add_value(x, t, "inputs", i, f->inputs[i], f->values[f->inputs[i]].name);
    for (int64_t i = 0; i < f->n_outputs; i++)
        add_value(x, t, "outputs", i, f->outputs[i].value, f->outputs[i].name);
    mlsi_text_add(t,
                  " *\n * Answers 0, or the number of the step that met an index out of range, "
                  "from 1. One call at a time: "
                  "the memory of a run\n * is static.\n *\n"
                  " *   arena      %" PRIu64 " bytes\n *   constants  %" PRIu64
                  " bytes\n *   steps      %lld, of %lld functions\n *\n"
                  " * cc -std=c99 -ffreestanding -O2 -c. Needs gcc or clang (vector types), no "
                  "library but the compiler's own"
                  "\n * (64-bit division on 32-bit machines). -DMLSYS_OWN_MEMORY: the file defines "
                  "memcpy and memset, which"
                  " compilers\n * call of their own accord, too. -fno-math-errno lets it use the "
                  "machine's square root. */\n\n",
                  x->arena_bytes, x->const_bytes, (long long)x->n_steps, (long long)x->n_kernels);
}

/* ---- weights ---------------------------------------------------------------------------------------------------------- */

/* Arrays of integers of the element's size, so that they mean the same on machines of either byte order; blocks are bytes. */
static int word_of(mlsys_dtype dtype) {
    return mlsi_dtype_is_block(dtype) ? 1 : mlsi_dtype_size(dtype);
}

static void add_word(mlsi_text *t, const char *p, int word) {
    uint64_t v = 0;
    uint32_t v4;
    uint16_t v2;
    if (word == 8) memcpy(&v, p, 8);
    if (word == 4) memcpy(&v4, p, 4), v = v4;
    if (word == 2) memcpy(&v2, p, 2), v = v2;
    if (word == 1) v = (unsigned char)*p;
    mlsi_text_add(t, v < 10 ? "%" PRIu64 "," : "0x%" PRIx64 ",", v);
}

static mlsys_status write_words(const char *data, uint64_t bytes, int word, mlsi_text *t,
                                mlsi_file_writer *w) {
    enum { IN_LINE = 96, IN_TEXT = 1 << 14 };
    for (uint64_t i = 0; i < bytes; i += (uint64_t)word) {
        add_word(t, data + i, word);
        if ((i / (uint64_t)word + 1) % (IN_LINE / (uint64_t)(2 * word + 2)) == 0)
            mlsi_text_add(t, "\n");
        if (t->len > IN_TEXT) MLSI_TRY(flush(w, t));
    }
    mlsi_text_add(t, "};\n");
    return flush(w, t);
}

static mlsys_status write_const(const mlsi_export *x, const mlsi_place_of *p, mlsi_text *t,
                                mlsi_file_writer *w) {
    const mlsi_view v = mlsi_tensor_view_of(x->graph.consts[p->index]);
    const int word = word_of(v.dtype);
    mlsi_layout l;
    void *dense = NULL;
    if (!p->bytes) { /* C has no empty arrays */
        mlsi_text_add(t, "static const uint%d_t %s_const%d[1] = {0};\n", 8 * word, x->name,
                      p->index);
        return flush(w, t);
    }
    mlsi_text_add(t, "static const uint%d_t %s_const%d[%" PRIu64 "] = { /* %s */\n", 8 * word,
                  x->name, p->index, p->bytes / (uint64_t)word, mlsi_dtype_get(v.dtype)->name);
    if (mlsi_view_contiguous(&v) || mlsi_fault(MLSI_FAULT_EXPORT_CONST))
        return write_words(v.data, p->bytes, word, t, w);
    MLSI_TRY(mlsi_layout_row_major(&l, v.dtype, v.rank, v.shape));
    MLSI_TRY(mlsi_mem_alloc(x->graph.alloc, p->bytes, &dense));
    mlsi_view to = mlsi_view_of(dense, &l);
    mlsi_copy_view(&to, &v);
    mlsys_status st = write_words(dense, p->bytes, word, t, w);
    mlsi_mem_free(x->graph.alloc, dense);
    return st;
}

static mlsys_status write_memory(const mlsi_export *x, mlsi_text *t, mlsi_file_writer *w) {
    mlsi_text_add(t,
                  "\n/* ---- memory ---- */\n\n#define %s_ARENA_BYTES %" PRIu64
                  "\nstatic char %s_arena[%" PRIu64 "] __attribute__((aligned(64)));\n",
                  x->name, x->arena_bytes, x->name, x->arena_bytes ? x->arena_bytes : 1);
    for (int64_t i = 0; i < x->n_places; i++)
        if (x->places[i].kind == MLSI_AT_CONST && x->places[i].last >= 0)
            MLSI_TRY(write_const(x, &x->places[i], t, w));
    return flush(w, t);
}

/* ---- functions --------------------------------------------------------------------------------------------------------- */

static mlsys_status write_kernels(const mlsi_export *x, mlsi_text *t, mlsi_file_writer *w) {
    mlsi_text_add(t, "\n/* ---- steps ---- */\n\n");
    for (int64_t k = 0; k < x->n_kernels; k++) {
        mlsi_text_add(t, "static int64_t %s_kernel%lld(mlsi_gen_args *a);\n", x->name,
                      (long long)k);
        MLSI_TRY(flush(w, t));
        MLSI_TRY(mlsi_file_write(w, x->kernels[k].text.data, (uint64_t)x->kernels[k].text.len));
        mlsi_text_add(t, "\n");
    }
    return flush(w, t);
}

static void add_argument(const mlsi_export *x, mlsi_text *t, int i, mlsi_spot spot) {
    const mlsi_place_of *p = &x->places[spot.place];
    mlsi_text_add(t, "data[%d] = ", i);
    switch (p->kind) {
    case MLSI_AT_INPUT: mlsi_text_add(t, "(char *)(uintptr_t)inputs[%d]", p->index); break;
    case MLSI_AT_OUTPUT: mlsi_text_add(t, "(char *)outputs[%d]", p->index); break;
    case MLSI_AT_CONST: mlsi_text_add(t, "(char *)(uintptr_t)%s_const%d", x->name, p->index); break;
    case MLSI_AT_ARENA: mlsi_text_add(t, "%s_arena + %" PRIu64, x->name, p->offset); break;
    }
    mlsi_text_add(t, spot.offset ? " + %" PRIu64 ";\n" : ";\n", spot.offset);
}

/* What the compiler may not carry over the end of a step: memory of the arena changes its type there. */
static void add_step(const mlsi_export *x, mlsi_text *t, int64_t i) {
    const mlsi_export_step *s = &x->steps[i];
    mlsi_text_add(t, "/* %lld: %s */\n", (long long)i + 1, s->what);
    for (int k = 0; k < s->n_args; k++)
        add_argument(x, t, k, x->args[s->first_arg + k]);
    mlsi_text_add(t,
                  "a.work = %s_arena + %" PRIu64 ";\na.end = %lld;\n"
                  "if (%s_kernel%d(&a)) return %lld;\n"
                  "__asm__ volatile(\"\" : : \"r\"(%s_arena) : \"memory\");\n",
                  x->name, s->work_offset, (long long)s->tasks, x->name, s->kernel,
                  (long long)i + 1, x->name);
}

static mlsys_status write_run(const mlsi_export *x, mlsi_text *t, mlsi_file_writer *w) {
    int32_t most = 1;
    for (int64_t i = 0; i < x->n_steps; i++)
        if (x->steps[i].n_args > most) most = x->steps[i].n_args;
    if (x->graph.symbols.n_symbols) mlsi_text_add(t, "static const int64_t %s_dims[] = {", x->name);
    for (int64_t s = 0; s < x->graph.symbols.n_symbols; s++)
        mlsi_text_add(t, "%lld%s", (long long)x->binding[s],
                      s + 1 < x->graph.symbols.n_symbols ? ", " : "};\n");
    mlsi_text_add(t,
                  "int %s_run(const void *const *inputs, void *const *outputs);\n"
                  "int %s_run(const void *const *inputs, void *const *outputs) {\nchar *data[%d];\n"
                  "mlsi_gen_args a;\na.data = data;\na.dims = %s%s;\na.begin = 0;\na.stream = 0;\n"
                  "(void)inputs, (void)outputs, (void)a, (void)%s_arena;\n",
                  x->name, x->name, most, x->graph.symbols.n_symbols ? x->name : "NULL",
                  x->graph.symbols.n_symbols ? "_dims" : "", x->name);
    for (int64_t i = 0; i < x->n_steps; i++) {
        add_step(x, t, i);
        MLSI_TRY(flush(w, t));
    }
    mlsi_text_add(t, "return 0;\n}\n");
    return flush(w, t);
}

mlsys_status mlsi_export_write(mlsi_export *x, mlsi_file_writer *w) {
    mlsi_text t;
    mlsi_text_init(&t, x->graph.alloc);
    add_head(x, &t);
    mlsys_status st = flush(w, &t);
    if (st == MLSYS_OK)
        st = mlsi_file_write(w, mlsi_gen_text_freestanding, strlen(mlsi_gen_text_freestanding));
    if (st == MLSYS_OK) st = write_memory(x, &t, w);
    if (st == MLSYS_OK) st = write_kernels(x, &t, w);
    if (st == MLSYS_OK) st = write_run(x, &t, w);
    mlsi_text_free(&t);
    return st;
}
