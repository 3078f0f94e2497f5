/* rfactor: a reduction in two stages, where its order has the partial results.
 *
 * Positions p = c * k + g with 0 <= g < c: iteration k of the loop has the positions of one run of c. The results of the
 * runs, in order, are the terms of the outer reduction. Sums and products of floats are the same bits for c = 4096, the
 * chunk of the canonical tree (docs/numerics.md), whose chunk sums are summed by the same rule; what is associative has
 * the same bits for every c. */
#include "ir/loop/schedule_edit.h"

#include "core/dtype.h"
#include "core/faults.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 4096 };

/* Why the order of the reduction has no partial results of runs of c; NULL when it has. */
static const char *no_partial_results(const mlsi_acc *a, int64_t c) {
    bool rounds = mlsi_dtype_is_float(a->dtype);
    if (a->init >= 0) return "it begins with an addend";
    switch (a->kind) {
    case MLSI_ACC_SUM:
    case MLSI_ACC_PROD:
        return rounds && c != CHUNK && !mlsi_fault(MLSI_FAULT_SCHEDULE_RUN_LENGTH)
                   ? "sums and products of floats have partial results of runs "
                     "of 4096 only"
                   : NULL;
    case MLSI_ACC_DOT:
        return rounds ? "products along K of floats are added one segment after the other" : NULL;
    case MLSI_ACC_ARGMAX:
    case MLSI_ACC_ARGMIN: return "a position is no term";
    default: return NULL;
    }
}

/* The only ADD to a reduction from outside of the loop. */
static int32_t find_add(mlsi_nest *w, int32_t loop) {
    int32_t *list = mlsi_edit_list(w, -1), found = -1;
    for (int32_t *i = list; list && *i >= 0; i++) {
        const mlsi_ls *s = &w->stmts[*i];
        if (s->kind != MLSI_LS_ADD || !mlsi_edit_inside(w, *i, loop) ||
            mlsi_edit_inside(w, mlsi_edit_opening(w, MLSI_LS_ACC, s->ref), loop))
            continue;
        if (found >= 0)
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                             "rfactor: loop %s adds terms at several places",
                             mlsi_edit_name(w, loop));
        found = *i;
    }
    if (found < 0)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "rfactor: loop %s adds no terms to a reduction",
                         mlsi_edit_name(w, loop));
    for (int32_t *i = list; list && w->status == MLSYS_OK && *i >= 0; i++)
        if (*i != found && w->stmts[*i].kind == MLSI_LS_ADD &&
            w->stmts[*i].ref == w->stmts[found].ref)
            mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                             "rfactor: terms are added outside of loop %s too",
                             mlsi_edit_name(w, loop));
    mlsi_mem_free(w->alloc, list);
    return found;
}

/* Position = c * k + g: c, or 0 with a failure. */
static int64_t run_length(mlsi_nest *w, int32_t loop, int64_t position, int64_t *g) {
    const mlsi_loop_var k = w->vars[w->stmts[loop].var];
    mlsi_edit_vars outer;
    int64_t c = 0, left;
    mlsi_edit_vars_around(w, mlsi_edit_parent(w, loop), &outer);
    if (w->status == MLSYS_OK && k.symbol >= 0 &&
        mlsi_index_linear(w, position, k.symbol, k.code, &c, g) && c >= 1 &&
        !mlsi_index_has_any(&w->tab, *g, &outer) && mlsi_index_at_least(w, *g, 0) &&
        mlsi_index_op(w, '-', c - 1, *g, &left) && mlsi_index_at_least(w, left, 0))
        return c;
    mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                     "rfactor: an iteration of loop %s has no run of positions of its own", k.name);
    return 0;
}

/* How many positions of [0, count) are in run k: c, or less in the last one. (k + 2) / (runs + 1) is 1 for the last
 * run and 0 for the others. */
static int64_t run_count(mlsi_nest *w, const mlsi_loop_var *k, int64_t c, int64_t count) {
    int64_t missing = mlsi_nest_index(w, '-', mlsi_nest_index(w, '*', k->extent, c), count), left;
    if (missing == 0 || mlsi_fault(MLSI_FAULT_SCHEDULE_LAST_RUN)) return c;
    if (!mlsi_index_at_least(w, missing, 0) || !mlsi_index_op(w, '-', c - 1, missing, &left) ||
        !mlsi_index_at_least(w, left, 0))
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED,
                         "rfactor: loop %s does not cut the terms into runs", k->name);
    int64_t last = mlsi_nest_index(w, '/', mlsi_nest_index(w, '+', k->code, 2),
                                   mlsi_nest_index(w, '+', k->extent, 1));
    return mlsi_nest_index(w, '-', c, mlsi_nest_index(w, '*', last, missing));
}

static int32_t new_acc(mlsi_nest *w, const mlsi_acc *like, int64_t count) {
    mlsi_acc a = *like;
    char base[MLSI_STEP_NAME], name[MLSI_STEP_NAME];
    snprintf(base, sizeof base, "%.50s_run", like->name);
    mlsi_edit_free_name(w, base, name);
    a.count = count;
    mlsi_nest_fail(w, MLSI_GROW(w->alloc, &w->accs, &w->cap_accs, w->n_accs + 1));
    mlsi_nest_fail(w, mlsi_arena_strdup(&w->arena, name, &a.name));
    if (w->status != MLSYS_OK) return -1;
    w->accs[w->n_accs] = a;
    return (int32_t)w->n_accs++;
}

void mlsi_edit_rfactor(mlsi_nest *w, const mlsi_directive *s) {
    int32_t loop = mlsi_edit_loop(w, "rfactor", s->names[0]);
    if (loop < 0) return;
    int32_t add = find_add(w, loop);
    if (w->status != MLSYS_OK) return;
    const char *ordered = mlsi_edit_ordered(w, loop);
    if (ordered)
        mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "rfactor: loop %s holds %s", s->names[0], ordered);
    int32_t outer = w->stmts[add].ref;
    const mlsi_acc acc = w->accs[outer];
    const mlsi_loop_var k = w->vars[w->stmts[loop].var];
    int64_t g = 0, c = run_length(w, loop, w->stmts[add].index[0], &g);
    const char *why = c ? no_partial_results(&acc, c) : NULL;
    if (why) mlsi_edit_refuse(w, MLSYS_E_UNSUPPORTED, "rfactor: loop %s: %s", s->names[0], why);
    if (w->status != MLSYS_OK) return;
    int32_t run = new_acc(w, &acc, run_count(w, &k, c, acc.count));
    int32_t begin = mlsi_edit_new(w, MLSI_LS_ACC), result = mlsi_nest_acc_value(w, run);
    int32_t give = mlsi_edit_new(w, MLSI_LS_ADD);
    if (give < 0) return;
    w->stmts[add].ref = run;
    w->stmts[add].index[0] = g;
    w->stmts[begin].ref = run;
    w->stmts[give].ref = outer;
    w->stmts[give].value = result;
    w->stmts[give].n_index = 1;
    w->stmts[give].index[0] = k.code;
    if (acc.kind == MLSI_ACC_DOT) w->accs[outer].kind = MLSI_ACC_SUM;
    w->accs[outer].count = k.extent;
    mlsi_edit_prepend(w, loop, begin);
    mlsi_edit_append(w, loop, give);
}
