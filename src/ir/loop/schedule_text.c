/* Schedules as text. */
#include "ir/loop/schedule_primitives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mlsi_primitive_row rows[] = {
    [MLSI_SCHEDULE_SPLIT] = {"split", mlsi_edit_split, 1, 1, 1, 2, {"$0_o", "$0_i"}},
    [MLSI_SCHEDULE_REORDER] = {"reorder", mlsi_edit_reorder, 1, MLSI_STEP_NAMES, 0, 0, {NULL}},
    [MLSI_SCHEDULE_FUSE] = {"fuse", mlsi_edit_fuse, 2, 2, 0, 1, {"$0_$1"}},
    [MLSI_SCHEDULE_TILE] = {"tile", mlsi_edit_tile, 2, 2, 2, 4, {"$0_o", "$1_o", "$0_i", "$1_i"}},
    [MLSI_SCHEDULE_VECTORIZE] = {"vectorize", mlsi_edit_vectorize, 1, 1, 0, 0, {NULL}},
    [MLSI_SCHEDULE_UNROLL] = {"unroll", mlsi_edit_unroll, 1, 1, 0, 0, {NULL}},
    [MLSI_SCHEDULE_PARALLEL] = {"parallel", mlsi_edit_parallel, 1, 1, 0, 0, {NULL}},
    [MLSI_SCHEDULE_BIND] = {"bind", mlsi_edit_bind, 2, 2, 0, 0, {NULL}},
    [MLSI_SCHEDULE_CACHE_READ] = {"cache_read", mlsi_edit_cache_read, 2, 2, 0, 1, {"$0_tile"}},
    [MLSI_SCHEDULE_CACHE_WRITE] = {"cache_write", mlsi_edit_cache_write, 2, 2, 0, 1, {"$0_tile"}},
    [MLSI_SCHEDULE_COMPUTE_AT] = {"compute_at", mlsi_edit_compute_at, 2, 2, 0, 0, {NULL}},
    [MLSI_SCHEDULE_RFACTOR] = {"rfactor", mlsi_edit_rfactor, 1, 1, 0, 0, {NULL}},
    [MLSI_SCHEDULE_TENSORIZE] = {"tensorize", mlsi_edit_tensorize, 3, 3, 0, 1, {"$0_$1_tile"}},
};
enum { N_ROWS = (int)(sizeof rows / sizeof rows[0]) };

const mlsi_primitive_row *mlsi_primitive_get(mlsi_primitive p) {
    return p >= MLSI_SCHEDULE_SPLIT && (int)p < N_ROWS ? &rows[p] : NULL;
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const char *p;
    mlsys_status st;
} reader;

static bool fail(reader *r, const char *what) {
    if (r->st == MLSYS_OK) r->st = mlsi_fail(MLSYS_E_ARG, "schedule: %s at \"%.40s\"", what, r->p);
    return false;
}

static void skip_space(reader *r) {
    for (;;) {
        r->p += strspn(r->p, " \t\r\n");
        if (*r->p != '#') return;
        r->p += strcspn(r->p, "\n");
    }
}

static bool take(reader *r, const char *token) {
    size_t length = strlen(token);
    skip_space(r);
    if (r->st != MLSYS_OK || strncmp(r->p, token, length)) return false;
    r->p += length;
    return true;
}

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
static const char digits[] = "0123456789";

static bool read_name(reader *r, char out[MLSI_STEP_NAME]) {
    skip_space(r);
    size_t first = strspn(r->p, letters), n = first;
    while (n && (strspn(r->p + n, letters) || strspn(r->p + n, digits)))
        n += strspn(r->p + n, letters) + strspn(r->p + n, digits);
    if (!first || r->p[0] == '_') return fail(r, "a name is expected");
    if (n >= MLSI_STEP_NAME) return fail(r, "a name of more than 63 letters");
    memcpy(out, r->p, n);
    out[n] = 0;
    r->p += n;
    return true;
}

static bool read_number(reader *r, int64_t *out) {
    enum { MOST_DIGITS = 18 };
    skip_space(r);
    size_t n = strspn(r->p, digits);
    if (!n || n > MOST_DIGITS) return fail(r, "a number is expected");
    *out = strtoll(r->p, NULL, 10);
    r->p += n;
    return true;
}

/* "$0_o" with the names of the step. */
static bool make_name(reader *r, const mlsi_directive *s, const char *pattern,
                      char out[MLSI_STEP_NAME]) {
    size_t n = 0;
    for (; *pattern; pattern++) {
        char one[2] = {*pattern, 0};
        const char *part = one;
        if (*pattern == '$') part = s->names[*++pattern - '0'];
        size_t length = strlen(part);
        if (n + length >= MLSI_STEP_NAME) return fail(r, "the names of the results are too long");
        memcpy(out + n, part, length);
        n += length;
    }
    out[n] = 0;
    return true;
}

/* "(a, b, 8) -> c, d": names and numbers may be mixed, their orders count. */
static void read_arguments(reader *r, const mlsi_primitive_row *row, mlsi_directive *s) {
    if (!take(r, "(")) fail(r, "( is expected");
    while (r->st == MLSYS_OK) {
        skip_space(r);
        if (strspn(r->p, digits) && s->n_numbers < row->numbers)
            read_number(r, &s->numbers[s->n_numbers++]);
        else if (s->n_names < row->max_names)
            read_name(r, s->names[s->n_names++]);
        else
            fail(r, "an argument too many");
        if (!take(r, ",")) break;
    }
    if (r->st == MLSYS_OK && (s->n_names < row->min_names || s->n_numbers < row->numbers))
        fail(r, "an argument is missing");
    if (r->st == MLSYS_OK && !take(r, ")")) fail(r, ") is expected");
    if (take(r, "->")) {
        do {
            if (s->n_results == row->results)
                fail(r, "a result too many");
            else
                read_name(r, s->results[s->n_results++]);
        } while (take(r, ","));
        if (s->n_results < row->results) fail(r, "the name of a result is missing");
    } else {
        while (r->st == MLSYS_OK && s->n_results < row->results) {
            make_name(r, s, row->made[s->n_results], s->results[s->n_results]);
            s->n_results++;
        }
    }
}

static void read_step(reader *r, mlsi_directive *s) {
    char name[MLSI_STEP_NAME];
    const char *at = r->p;
    if (!read_name(r, name)) return;
    for (int i = MLSI_SCHEDULE_SPLIT; i < N_ROWS; i++)
        if (!strcmp(rows[i].name, name)) s->primitive = (mlsi_primitive)i;
    if (!s->primitive) {
        r->p = at;
        fail(r, "no primitive has this name:");
        return;
    }
    read_arguments(r, &rows[s->primitive], s);
}

mlsys_status mlsi_schedule_parse(mlsi_schedule *s, const char *text) {
    reader r = {.p = text};
    int64_t before = s->n;
    for (;;) {
        while (take(&r, ";"))
            continue;
        if (!*r.p || r.st != MLSYS_OK) break;
        mlsi_directive step = {.n_names = 0};
        read_step(&r, &step);
        skip_space(&r);
        if (r.st == MLSYS_OK && *r.p && *r.p != ';') fail(&r, "; is expected");
        if (r.st != MLSYS_OK) break;
        r.st = MLSI_GROW(s->alloc, &s->steps, &s->cap, s->n + 1);
        if (r.st == MLSYS_OK) s->steps[s->n++] = step;
    }
    if (r.st != MLSYS_OK) s->n = before;
    return r.st;
}

/* ---- printing -------------------------------------------------------------------------------------------------------- */

void mlsi_schedule_print(const mlsi_schedule *s, mlsi_text *out) {
    for (int64_t i = 0; i < s->n; i++) {
        const mlsi_directive *step = &s->steps[i];
        mlsi_text_add(out, "%s(", rows[step->primitive].name);
        for (int k = 0; k < step->n_names; k++)
            mlsi_text_add(out, "%s%s", k ? ", " : "", step->names[k]);
        for (int k = 0; k < step->n_numbers; k++)
            mlsi_text_add(out, ", %lld", (long long)step->numbers[k]);
        mlsi_text_add(out, ")");
        for (int k = 0; k < step->n_results; k++)
            mlsi_text_add(out, "%s%s", k ? ", " : " -> ", step->results[k]);
        mlsi_text_add(out, ";\n");
    }
}
