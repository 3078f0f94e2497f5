/* What a tuner may choose for a nest, and random points of it. */
#include "ir/loop/schedule_space.h"

#include "core/rng.h"
#include "ir/loop/schedule_edit.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 64, FACTORS = 7, INNER_FACTORS = 4 };

/* ---- the choices --------------------------------------------------------------------------------------------- */

static void add_choice(mlsi_schedule_space *s, mlsi_choice_kind kind, int32_t which,
                       int32_t options) {
    if (options > 1)
        s->choices[s->n_choices++] =
            (mlsi_choice){.kind = kind, .which = which, .options = options};
}

static void copy_name(char to[MLSI_STEP_NAME], const char *from) {
    snprintf(to, MLSI_STEP_NAME, "%.63s", from);
}

static bool adds_terms(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_ADD || adds_terms(n, n->stmts[i].body)) return true;
    return false;
}

static bool has_loop(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_FOR || has_loop(n, n->stmts[i].body)) return true;
    return false;
}

/* The loops in which there is no other one. */
static void find_inner(const mlsi_nest *n, mlsi_schedule_space *s, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        if (n->stmts[i].kind != MLSI_LS_FOR || has_loop(n, n->stmts[i].body)) {
            find_inner(n, s, n->stmts[i].body);
            continue;
        }
        if (s->n_inner == MLSI_SPACE_INNER) return;
        s->reduces[s->n_inner] = adds_terms(n, n->stmts[i].body);
        copy_name(s->inner[s->n_inner++], n->vars[n->stmts[i].var].name);
    }
}

/* The perfect nest from the root on; what is inside. */
static int32_t find_band(const mlsi_nest *n, mlsi_schedule_space *s) {
    int32_t i = n->first;
    while (i >= 0 && n->stmts[i].next < 0) {
        const mlsi_ls *stmt = &n->stmts[i];
        bool guard = stmt->kind == MLSI_LS_IF && stmt->value < 0;
        if (stmt->kind != MLSI_LS_FOR && !guard) break;
        if (!guard && s->n_band == MLSI_SPACE_BAND) break;
        if (!guard) copy_name(s->band[s->n_band++], n->vars[stmt->var].name);
        i = stmt->body;
    }
    return i;
}

static void find_buffers(const mlsi_nest *n, mlsi_schedule_space *s) {
    int outputs = 0;
    for (int64_t i = 0; i < n->n_buffers; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        if (b->scope == MLSI_SCOPE_INPUT && b->rank && s->n_reads < MLSI_SPACE_READS)
            copy_name(s->reads[s->n_reads++], b->name);
        if (b->scope == MLSI_SCOPE_OUTPUT && b->rank && !outputs++) copy_name(s->write, b->name);
    }
}

mlsys_status mlsi_schedule_space_of(const mlsi_nest *n, const mlsi_schedule_target *target,
                                    mlsi_schedule_space *out) {
    mlsi_schedule_space *s = out;
    memset(s, 0, sizeof *s);
    s->target = *target;
    find_inner(n, s, find_band(n, s));
    if (target->local_bytes) find_buffers(n, s);
    if (!s->n_band && !s->n_inner)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "nest %s: no loops to schedule", n->name);
    for (int32_t i = 0; i < s->n_band; i++)
        add_choice(s, MLSI_CHOICE_SPLIT, i, FACTORS);
    add_choice(s, MLSI_CHOICE_ORDER, 0, s->n_band);
    add_choice(s, MLSI_CHOICE_FUSE, 0, s->n_band > 1 ? 2 : 1);
    add_choice(s, MLSI_CHOICE_PARALLEL, 0, s->n_band + 1);
    add_choice(s, MLSI_CHOICE_VECTOR, 0, s->n_band ? 2 : 1);
    add_choice(s, MLSI_CHOICE_UNROLL, 0, s->n_band > 1 ? 2 : 1);
    for (int32_t i = 0; i < s->n_inner; i++) {
        add_choice(s, MLSI_CHOICE_INNER_SPLIT, i, INNER_FACTORS);
        add_choice(s, MLSI_CHOICE_INNER_VECTOR, i, 2);
        add_choice(s, MLSI_CHOICE_RFACTOR, i, s->reduces[i] ? 2 : 1);
    }
    for (int32_t i = 0; s->n_band && i < s->n_reads; i++)
        add_choice(s, MLSI_CHOICE_READ, i, 2);
    add_choice(s, MLSI_CHOICE_WRITE, 0, s->n_band && s->write[0] ? 2 : 1);
    return MLSYS_OK;
}

int64_t mlsi_schedule_space_size(const mlsi_schedule_space *s) {
    int64_t size = 1;
    for (int i = 0; i < s->n_choices; i++)
        if (!mlsi_mul_i64(size, s->choices[i].options, &size)) return INT64_MAX;
    return size;
}

mlsi_point mlsi_schedule_space_point(const mlsi_schedule_space *s, int64_t i) {
    mlsi_point p = {{0}};
    for (int c = 0; c < s->n_choices; c++) {
        p.option[c] = (int32_t)(i % s->choices[c].options);
        i /= s->choices[c].options;
    }
    return p;
}

/* ---- a point's program ------------------------------------------------------------------------------------------ */

typedef struct writer {
    const mlsi_schedule_space *s;
    const mlsi_point *p;
    mlsi_text text;
    int n_outer, n_inner; /* loops of the band now: outer tiles (or unsplit), inner tiles */
    char outer[MLSI_SPACE_BAND][MLSI_STEP_NAME], inner[MLSI_SPACE_BAND][MLSI_STEP_NAME];
} writer;

static int32_t chosen(const writer *w, mlsi_choice_kind kind, int32_t which) {
    for (int i = 0; i < w->s->n_choices; i++)
        if (w->s->choices[i].kind == kind && w->s->choices[i].which == which)
            return w->p->option[i];
    return 0;
}

/* Splits, and all outer tiles outside of all inner ones, both rotated alike. */
static void write_band(writer *w) {
    static const int factors[FACTORS] = {1, 4, 8, 16, 32, 64, 256};
    int n = w->s->n_band, by = chosen(w, MLSI_CHOICE_ORDER, 0);
    for (int k = 0; k < n; k++) {
        int i = (k + by) % n, factor = factors[chosen(w, MLSI_CHOICE_SPLIT, i)];
        const char *name = w->s->band[i];
        if (factor == 1) {
            copy_name(w->outer[w->n_outer++], name);
            continue;
        }
        mlsi_text_add(&w->text, "split(%s, %d) -> %.60s_o, %.60s_i;", name, factor, name, name);
        snprintf(w->outer[w->n_outer++], MLSI_STEP_NAME, "%.60s_o", name);
        snprintf(w->inner[w->n_inner++], MLSI_STEP_NAME, "%.60s_i", name);
    }
    if (n < 2) return;
    mlsi_text_add(&w->text, "reorder(");
    for (int k = 0; k < w->n_outer + w->n_inner; k++)
        mlsi_text_add(&w->text, "%s%s", k ? ", " : "",
                      k < w->n_outer ? w->outer[k] : w->inner[k - w->n_outer]);
    mlsi_text_add(&w->text, ");");
}

static void write_inner(writer *w) {
    static const int factors[INNER_FACTORS] = {1, 32, 256, 4096};
    for (int i = 0; i < w->s->n_inner; i++) {
        int factor = factors[chosen(w, MLSI_CHOICE_INNER_SPLIT, i)];
        const char *name = w->s->inner[i];
        if (factor > 1)
            mlsi_text_add(&w->text, "split(%s, %d) -> %.60s_o, %.60s_i;", name, factor, name, name);
        if (factor > 1 && chosen(w, MLSI_CHOICE_RFACTOR, i))
            mlsi_text_add(&w->text, "rfactor(%.60s_o);", name);
        if (chosen(w, MLSI_CHOICE_INNER_VECTOR, i))
            mlsi_text_add(&w->text,
                          w->s->target.gpu ? "bind(%.60s%s, lane);" : "vectorize(%.60s%s);", name,
                          factor > 1 ? "_i" : "");
    }
}

static void write_copies(writer *w) {
    const char *at = w->n_outer ? w->outer[w->n_outer - 1] : NULL;
    for (int i = 0; at && i < w->s->n_reads; i++)
        if (chosen(w, MLSI_CHOICE_READ, i))
            mlsi_text_add(&w->text, "cache_read(%s, %s);", w->s->reads[i], at);
    if (at && chosen(w, MLSI_CHOICE_WRITE, 0))
        mlsi_text_add(&w->text, "cache_write(%s, %s);", w->s->write, at);
}

static void write_kinds(writer *w) {
    bool gpu = w->s->target.gpu;
    int total = w->n_outer + w->n_inner, first = 0, parallel = chosen(w, MLSI_CHOICE_PARALLEL, 0);
    char *loops[2 * MLSI_SPACE_BAND];
    for (int k = 0; k < total; k++)
        loops[k] = k < w->n_outer ? w->outer[k] : w->inner[k - w->n_outer];
    if (total && chosen(w, MLSI_CHOICE_VECTOR, 0))
        mlsi_text_add(&w->text, gpu ? "bind(%s, lane);" : "vectorize(%s);", loops[total - 1]);
    if (total > 1 && chosen(w, MLSI_CHOICE_UNROLL, 0))
        mlsi_text_add(&w->text, "unroll(%s);", loops[total - 2]);
    if (total > 1 && chosen(w, MLSI_CHOICE_FUSE, 0)) {
        mlsi_text_add(&w->text, "fuse(%s, %s) -> tasks;", loops[0], loops[1]);
        first = 1;
    }
    for (int k = first; k < total && k < first + parallel; k++)
        mlsi_text_add(&w->text, gpu ? "bind(%s, grid);" : "parallel(%s);",
                      first && k == first ? "tasks" : loops[k]);
}

mlsys_status mlsi_schedule_space_program(const mlsi_schedule_space *s, const mlsi_point *p,
                                         mlsi_schedule *out) {
    writer w = {.s = s, .p = p};
    mlsi_text_init(&w.text, out->alloc);
    write_band(&w);
    write_inner(&w);
    write_copies(&w);
    write_kinds(&w);
    mlsys_status st = w.text.st;
    if (st == MLSYS_OK) st = mlsi_schedule_parse(out, w.text.data ? w.text.data : "");
    mlsi_text_free(&w.text);
    return st;
}

/* ---- legal points --------------------------------------------------------------------------------------------------- */

/* Copies that are larger than the target allows, or of no known size, are none. */
static bool fits(const mlsi_schedule_space *s, const mlsi_nest *n, const mlsi_nest *made) {
    for (int64_t i = 0; i < made->n_buffers; i++) {
        const mlsi_loop_buffer *b = &made->buffers[i];
        int64_t count = 1, lo, hi;
        bool old = b->scope != MLSI_SCOPE_LOCAL;
        for (int64_t k = 0; k < n->n_buffers; k++)
            old |= !strcmp(n->buffers[k].name, b->name);
        for (int d = 0; !old && d < b->rank; d++) {
            mlsi_dim_range(&made->tab, b->dims[d], &lo, &hi);
            if (!mlsi_mul_i64(count, hi, &count) || count > s->target.local_bytes) return false;
        }
    }
    return true;
}

mlsys_status mlsi_schedule_space_try(const mlsi_schedule_space *s, const mlsi_nest *n,
                                     const mlsi_point *p, mlsi_nest *made, bool *legal) {
    mlsi_schedule program;
    *legal = false;
    mlsi_schedule_init(&program, n->alloc);
    mlsys_status st = mlsi_schedule_space_program(s, p, &program);
    if (st == MLSYS_OK) {
        st = mlsi_nest_copy(n, made);
        if (st == MLSYS_OK) st = mlsi_schedule_run(made, &program);
        *legal = st == MLSYS_OK && fits(s, n, made);
        if (!*legal) mlsi_nest_free(made);
    }
    mlsi_schedule_free(&program);
    return st == MLSYS_E_UNSUPPORTED || st == MLSYS_E_ARG ? MLSYS_OK : st;
}

static mlsys_status is_legal(const mlsi_schedule_space *s, const mlsi_nest *n, const mlsi_point *p,
                             bool *legal) {
    mlsi_nest made;
    MLSI_TRY(mlsi_schedule_space_try(s, n, p, &made, legal));
    if (*legal) mlsi_nest_free(&made);
    return MLSYS_OK;
}

static int32_t below(uint64_t seed, uint64_t number, uint64_t *at, int32_t n) {
    return (int32_t)(mlsi_rng_bits64(seed, number, (*at)++) % (uint64_t)n);
}

/* Each choice is left alone half the time: most combinations of all of them are illegal. */
mlsys_status mlsi_schedule_space_draw(const mlsi_schedule_space *s, const mlsi_nest *n,
                                      uint64_t seed, uint64_t number, mlsi_point *out) {
    uint64_t at = 0;
    for (int t = 0; t < TRIES; t++) {
        mlsi_point p = {{0}};
        bool legal;
        for (int c = 0; c < s->n_choices; c++)
            if (below(seed, number, &at, 2))
                p.option[c] = below(seed, number, &at, s->choices[c].options);
        MLSI_TRY(is_legal(s, n, &p, &legal));
        if (legal) return *out = p, MLSYS_OK;
    }
    return mlsi_fail(MLSYS_E_NOTFOUND, "nest %s: none of %d schedules is legal", n->name, TRIES);
}

mlsys_status mlsi_schedule_space_mutate(const mlsi_schedule_space *s, const mlsi_nest *n,
                                        const mlsi_point *parent, const mlsi_point *second,
                                        uint64_t seed, uint64_t number, mlsi_point *out) {
    uint64_t at = (uint64_t)1 << 32; /* other numbers than those of a draw */
    for (int t = 0; s->n_choices && t < TRIES; t++) {
        mlsi_point p = *parent;
        bool legal;
        for (int c = 0; second && c < s->n_choices; c++)
            if (below(seed, number, &at, 4) == 0) p.option[c] = second->option[c];
        for (int more = 1 + below(seed, number, &at, 2); more; more--) {
            int32_t c = below(seed, number, &at, s->n_choices);
            p.option[c] = (p.option[c] + 1 + below(seed, number, &at, s->choices[c].options - 1)) %
                          s->choices[c].options;
        }
        if (!memcmp(&p, parent, sizeof p)) continue;
        MLSI_TRY(is_legal(s, n, &p, &legal));
        if (legal) return *out = p, MLSYS_OK;
    }
    return mlsi_fail(MLSYS_E_NOTFOUND, "nest %s: none of %d changes is legal", n->name, TRIES);
}
