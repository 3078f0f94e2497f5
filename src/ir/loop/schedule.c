/* Schedules: steps, their table, programs and calls. */
#include "ir/loop/schedule_edit.h"

#include "ir/loop/schedule_primitives.h"

#include <string.h>

/* ---- one step ------------------------------------------------------------------------------------------------ */

/* A rewritten copy that has been checked takes the nest's place. */
mlsys_status mlsi_schedule_step(mlsi_nest *n, const mlsi_directive *step) {
    const mlsi_primitive_row *row = mlsi_primitive_get(step->primitive);
    mlsi_nest work, done;
    if (n->status != MLSYS_OK) return n->status;
    if (!row) return mlsi_fail(MLSYS_E_ARG, "schedule: primitive %d", (int)step->primitive);
    mlsys_status st = mlsi_nest_copy(n, &work);
    if (st == MLSYS_OK) {
        row->edit(&work, step);
        if (work.status == MLSYS_OK) mlsi_edit_check_kinds(&work, row->name);
        st = work.status;
    }
    if (st == MLSYS_OK) {
        st = mlsi_nest_copy(&work, &done);
        if (st != MLSYS_OK) mlsi_nest_free(&done);
    }
    mlsi_nest_free(&work);
    if (st != MLSYS_OK) return st;
    mlsi_nest_free(n);
    *n = done;
    return MLSYS_OK;
}

static void set(char (*to)[MLSI_STEP_NAME], int32_t count, const char *const *from) {
    for (int i = 0; i < count; i++) {
        size_t length = strlen(from[i]);
        if (length >= MLSI_STEP_NAME)
            length = MLSI_STEP_NAME - 1; /* is no name, and will not be found */
        memcpy(to[i], from[i], length);
        to[i][length] = 0;
    }
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

static mlsys_status call(mlsi_nest *n, mlsi_primitive p, int n_names, const char *const *names,
                         int n_numbers, const int64_t *numbers, int n_results,
                         const char *const *results) {
    mlsi_directive s = {
        .primitive = p, .n_names = n_names, .n_numbers = n_numbers, .n_results = n_results};
    set(s.names, n_names, names);
    if (n_numbers) memcpy(s.numbers, numbers, sizeof *numbers * (size_t)n_numbers);
    set(s.results, n_results, results);
    return mlsi_schedule_step(n, &s);
}

#define NAMES(...)                                                                                 \
    (const char *const[]) { __VA_ARGS__ }

mlsys_status mlsi_schedule_split(mlsi_nest *n, const char *loop, int64_t factor, const char *outer,
                                 const char *inner) {
    return call(n, MLSI_SCHEDULE_SPLIT, 1, &loop, 1, &factor, 2, NAMES(outer, inner));
}

mlsys_status mlsi_schedule_reorder(mlsi_nest *n, int count, const char *const *loops) {
    if (count < 1 || count > MLSI_STEP_NAMES)
        return mlsi_fail(MLSYS_E_ARG, "reorder: %d loops, at most %d", count, MLSI_STEP_NAMES);
    return call(n, MLSI_SCHEDULE_REORDER, count, loops, 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_fuse(mlsi_nest *n, const char *outer, const char *inner,
                                const char *fused) {
    return call(n, MLSI_SCHEDULE_FUSE, 2, NAMES(outer, inner), 0, NULL, 1, &fused);
}

mlsys_status mlsi_schedule_tile(mlsi_nest *n, const char *a, const char *b, int64_t factor_a,
                                int64_t factor_b, const char *const names[4]) {
    return call(n, MLSI_SCHEDULE_TILE, 2, NAMES(a, b), 2, (int64_t[]){factor_a, factor_b}, 4,
                names);
}

mlsys_status mlsi_schedule_vectorize(mlsi_nest *n, const char *loop) {
    return call(n, MLSI_SCHEDULE_VECTORIZE, 1, &loop, 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_unroll(mlsi_nest *n, const char *loop) {
    return call(n, MLSI_SCHEDULE_UNROLL, 1, &loop, 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_parallel(mlsi_nest *n, const char *loop) {
    return call(n, MLSI_SCHEDULE_PARALLEL, 1, &loop, 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_bind(mlsi_nest *n, const char *loop, const char *kind) {
    return call(n, MLSI_SCHEDULE_BIND, 2, NAMES(loop, kind), 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_cache_read(mlsi_nest *n, const char *buffer, const char *loop,
                                      const char *name) {
    return call(n, MLSI_SCHEDULE_CACHE_READ, 2, NAMES(buffer, loop), 0, NULL, 1, &name);
}

mlsys_status mlsi_schedule_cache_write(mlsi_nest *n, const char *buffer, const char *loop,
                                       const char *name) {
    return call(n, MLSI_SCHEDULE_CACHE_WRITE, 2, NAMES(buffer, loop), 0, NULL, 1, &name);
}

mlsys_status mlsi_schedule_compute_at(mlsi_nest *n, const char *buffer, const char *loop) {
    return call(n, MLSI_SCHEDULE_COMPUTE_AT, 2, NAMES(buffer, loop), 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_rfactor(mlsi_nest *n, const char *loop) {
    return call(n, MLSI_SCHEDULE_RFACTOR, 1, &loop, 0, NULL, 0, NULL);
}

mlsys_status mlsi_schedule_tensorize(mlsi_nest *n, const char *i, const char *j, const char *k,
                                     const char *name) {
    return call(n, MLSI_SCHEDULE_TENSORIZE, 3, NAMES(i, j, k), 0, NULL, 1, &name);
}

/* ---- programs ------------------------------------------------------------------------------------------------------ */

void mlsi_schedule_init(mlsi_schedule *s, mlsi_alloc *a) { *s = (mlsi_schedule){.alloc = a}; }

void mlsi_schedule_free(mlsi_schedule *s) {
    mlsi_mem_free(s->alloc, s->steps);
    s->steps = NULL;
    s->n = s->cap = 0;
}

mlsys_status mlsi_schedule_run(mlsi_nest *n, const mlsi_schedule *s) {
    mlsi_nest work;
    mlsys_status st = mlsi_nest_copy(n, &work);
    for (int64_t i = 0; i < s->n && st == MLSYS_OK; i++) {
        st = mlsi_schedule_step(&work, &s->steps[i]);
        if (st != MLSYS_OK) st = mlsi_fail_in(st, "step %lld", (long long)i + 1);
    }
    if (st != MLSYS_OK) {
        mlsi_nest_free(&work);
        return st;
    }
    mlsi_nest_free(n);
    *n = work;
    return MLSYS_OK;
}

mlsys_status mlsi_schedule_apply(mlsi_nest *n, const char *text) {
    mlsi_schedule s;
    mlsi_schedule_init(&s, n->alloc);
    mlsys_status st = mlsi_schedule_parse(&s, text);
    if (st == MLSYS_OK) st = mlsi_schedule_run(n, &s);
    mlsi_schedule_free(&s);
    return st;
}
