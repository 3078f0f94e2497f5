/* A context with a model file open, and generators made on it, for tests of generation. */
#ifndef MLSI_TESTS_GENERATION_H
#define MLSI_TESTS_GENERATION_H

#include <mlsys/mlsys.h>

#include <stddef.h>

enum { GENERATION_MAX = 256, GENERATION_TEXT = 1 << 15 };

typedef struct generation_world {
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    mlsys_model model;
} generation_world;

/* A key of the "generate" config: text when it is not NULL, else an integer or, when real, a
 * number. */
typedef struct generation_option {
    const char *key, *text;
    double number;
    int real;
} generation_option;

/* generation_create(&w, OPTIONS(INT("seed", 1), REAL("temperature", 0.5), STR("kv", "f16"))) */
#define OPTIONS(...) ((const generation_option[]){__VA_ARGS__, {NULL}})
#define INT(key, value)                                                                            \
    { key, NULL, value, 0 }
#define REAL(key, value)                                                                           \
    { key, NULL, value, 1 }
#define STR(key, value)                                                                            \
    { key, value, 0, 0 }
/* A tiny model's greedy text ends soon; drawn text goes on. */
#define DRAWN REAL("temperature", 1.0), INT("seed", 5)

/* What next() produced until its end or a limit: ids, and all text including that of the end. */
typedef struct generation {
    int32_t ids[GENERATION_MAX];
    int n;
    int ended; /* id -1 was seen */
    char text[GENERATION_TEXT];
    size_t len;
} generation;

/* All of these end the test when a call fails. hooks may be NULL. */
void generation_open(generation_world *w, const char *path, const mlsys_hooks *hooks);
void generation_close(generation_world *w);
/* options end with a NULL key; NULL: none. */
mlsys_generator generation_create(const generation_world *w, const generation_option *options);
mlsys_config generation_config(const generation_option *options);
/* At most max tokens into out, which is overwritten. */
void generation_run(mlsys_generator g, int max, generation *out);
/* One token; the text goes to out as well. */
int32_t generation_step(mlsys_generator g, generation *out);
/* Write the tiny model beside the other temporary files and open it; and remove it. */
void generation_open_tiny(generation_world *w, const mlsys_hooks *hooks);
void generation_close_tiny(generation_world *w);
/* Ends the test unless the call that just gave `got` failed with `want` and a sentence with `part`.
 */
void generation_expect(mlsys_status got, mlsys_status want, const char *part);
/* Tokens in context. */
int64_t generation_tokens(mlsys_generator g);
double generation_stat(mlsys_generator g, const char *name);
/* Ends the test when the two differ in ids or text. */
void generation_equal(const generation *a, const generation *b, const char *what);

#endif
