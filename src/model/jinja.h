/* A safe subset of Jinja2: what the chat templates of language models are written in.
 *
 * Whitespace is controlled as the templates expect: the newline after a block tag and the blanks
 * before it are dropped (trim_blocks, lstrip_blocks), and so is one newline at the template's end.
 *
 * Statements: if/elif/else, for (with if, else, break, continue), set (also a block, also a
 * namespace's attribute), macro, filter, generation (its body).  Everything else is refused when
 * the template is read, with the line: unknown statements, filters, tests; and when it runs:
 * unknown functions and methods. Nothing reaches files, clocks or the network. Steps, depth and
 * memory of a run are bounded.
 *
 * Threads: a template is immutable; any thread may render it. */
#ifndef MLSI_JINJA_H
#define MLSI_JINJA_H

#include "core/alloc.h"

typedef enum mlsi_jinja_type {
    MLSI_JINJA_UNDEFINED,
    MLSI_JINJA_NONE,
    MLSI_JINJA_BOOL,
    MLSI_JINJA_INT,
    MLSI_JINJA_FLOAT,
    MLSI_JINJA_STRING,
    MLSI_JINJA_LIST,
    MLSI_JINJA_DICT,
    MLSI_JINJA_LOOP,     /* the "loop" of a for */
    MLSI_JINJA_MACRO,    /* defined by the template */
    MLSI_JINJA_FUNCTION, /* namespace, range, ... */
    MLSI_JINJA_METHOD    /* "text".split before its call */
} mlsi_jinja_type;

typedef struct mlsi_jinja_value {
    mlsi_jinja_type type;
    uint32_t len; /* of a string, in bytes */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s; /* not NUL-ended */
        struct mlsi_jinja_list *list;
        struct mlsi_jinja_dict *dict;
        const struct mlsi_jinja_loop *loop;
        const struct mlsi_jinja_macro *macro;
        const struct mlsi_jinja_method *method;
    };
} mlsi_jinja_value;

typedef struct mlsi_jinja_list {
    mlsi_jinja_value *items;
    int64_t n, cap;
    bool is_tuple; /* prints in round brackets */
} mlsi_jinja_list;

typedef struct mlsi_jinja_dict { /* keeps its order */
    mlsi_jinja_value *keys, *values;
    int64_t n, cap;
    bool is_namespace; /* templates may set its attributes */
} mlsi_jinja_dict;

/* ---- making values: all from one arena, which must outlive them ------------------------------ */

static inline mlsi_jinja_value mlsi_jinja_none(void) {
    return (mlsi_jinja_value){.type = MLSI_JINJA_NONE};
}
static inline mlsi_jinja_value mlsi_jinja_bool(bool b) {
    return (mlsi_jinja_value){.type = MLSI_JINJA_BOOL, .b = b};
}
static inline mlsi_jinja_value mlsi_jinja_int(int64_t i) {
    return (mlsi_jinja_value){.type = MLSI_JINJA_INT, .i = i};
}
static inline mlsi_jinja_value mlsi_jinja_float(double f) {
    return (mlsi_jinja_value){.type = MLSI_JINJA_FLOAT, .f = f};
}
/* Borrows s. */
static inline mlsi_jinja_value mlsi_jinja_string(const char *s, uint64_t len) {
    return (mlsi_jinja_value){.type = MLSI_JINJA_STRING, .len = (uint32_t)len, .s = s};
}
mlsys_status mlsi_jinja_list_new(mlsi_arena *a, mlsi_jinja_value *out);
mlsys_status mlsi_jinja_list_add(mlsi_arena *a, mlsi_jinja_value list, mlsi_jinja_value item);
mlsys_status mlsi_jinja_dict_new(mlsi_arena *a, mlsi_jinja_value *out);
/* Replaces the value of an equal key. */
mlsys_status mlsi_jinja_dict_set(mlsi_arena *a, mlsi_jinja_value dict, mlsi_jinja_value key,
                                 mlsi_jinja_value value);
mlsys_status mlsi_jinja_dict_put(mlsi_arena *a, mlsi_jinja_value dict, const char *key,
                                 mlsi_jinja_value value);
/* UNDEFINED when the key is absent. */
mlsi_jinja_value mlsi_jinja_dict_get(mlsi_jinja_value dict, mlsi_jinja_value key);
/* A JSON text as a value; strings are copied to the arena. Errors FORMAT: with the byte's position.
 */
mlsys_status mlsi_jinja_from_json(mlsi_arena *a, const char *text, uint64_t len,
                                  mlsi_jinja_value *out);

/* ---- templates ------------------------------------------------------------------------------- */

typedef struct mlsi_jinja mlsi_jinja;

typedef struct mlsi_jinja_limits { /* 0: the default */
    int64_t steps;                 /* nodes evaluated, bytes compared or copied / 64: 20 million */
    int64_t memory;                /* bytes of values and output: 256 MiB */
} mlsi_jinja_limits;

/* name stands before messages: "NAME: line 3: ...". Both texts are copied.  Errors FORMAT: syntax;
 * UNSUPPORTED: a construct outside the subset; NOMEM. */
mlsys_status mlsi_jinja_create(mlsi_alloc *a, const char *name, const char *source, uint64_t len,
                               mlsi_jinja **out);
void mlsi_jinja_free(mlsi_jinja *j); /* NULL accepted */
/* Append the text to out, which is as before on failure. globals is a dict.  Errors ARG:
 * raise_exception, with its sentence; FORMAT: the template does what its values do not allow;
 * UNSUPPORTED: an unknown function or method, a limit; NOMEM. */
mlsys_status mlsi_jinja_render(const mlsi_jinja *j, mlsi_jinja_value globals,
                               const mlsi_jinja_limits *limits, mlsi_text *out);

#endif
