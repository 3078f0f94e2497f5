/* Between the files of schedules. An edit works on a copy of the nest (mlsi_nest_copy) that replaces it when all has
 * been proved, so it may stop anywhere. Failures stick to the copy (nest->status), as in construction. */
#ifndef MLSI_SCHEDULE_EDIT_H
#define MLSI_SCHEDULE_EDIT_H

#include "ir/loop/schedule.h"

/* A primitive: what to prove and to rewrite. */
typedef void mlsi_edit(mlsi_nest *w, const mlsi_directive *s);
mlsi_edit mlsi_edit_split, mlsi_edit_reorder, mlsi_edit_fuse, mlsi_edit_tile, mlsi_edit_vectorize,
    mlsi_edit_unroll, mlsi_edit_parallel, mlsi_edit_bind, mlsi_edit_cache_read,
    mlsi_edit_cache_write, mlsi_edit_compute_at, mlsi_edit_rfactor, mlsi_edit_tensorize;

/* ---- the tree (schedule_edit.c) -------------------------------------------------------------------- */

/* The schedule cannot be: records the sentence unless something failed before. Returns false. */
bool mlsi_edit_refuse(mlsi_nest *w, mlsys_status st, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The FOR statement of a variable's name, -1 with a failure. what: the primitive. */
int32_t mlsi_edit_loop(mlsi_nest *w, const char *what, const char *name);
int32_t mlsi_edit_buffer(mlsi_nest *w, const char *what, const char *name);
/* Name of a FOR's variable. */
const char *mlsi_edit_name(const mlsi_nest *w, int32_t loop);
/* The statement whose body holds s, -1 = root. */
int32_t mlsi_edit_parent(const mlsi_nest *w, int32_t s);
/* Is s inside the statement top, or top itself? */
bool mlsi_edit_inside(const mlsi_nest *w, int32_t s, int32_t top);
/* The ALLOC of a buffer, the ACC of an accumulator; -1 = none. */
int32_t mlsi_edit_opening(const mlsi_nest *w, mlsi_ls_kind kind, int32_t ref);
/* What an ACC begins with; -1: nothing, or no ACC. */
static inline int32_t mlsi_edit_addend(const mlsi_nest *w, int32_t s) {
    return w->stmts[s].kind == MLSI_LS_ACC ? w->accs[w->stmts[s].ref].init : -1;
}
/* A statement that is in no body yet; -1 after a failure. */
int32_t mlsi_edit_new(mlsi_nest *w, mlsi_ls_kind kind);
/* New FOR of a new variable of exactly that name. */
int32_t mlsi_edit_new_for(mlsi_nest *w, const char *what, const char *name, int64_t extent);
int32_t mlsi_edit_new_var(mlsi_nest *w, const char *what, const char *name, int64_t extent);
/* base, or base_2, base_3...: a name that nothing has. */
void mlsi_edit_free_name(const mlsi_nest *w, const char *base, char out[MLSI_STEP_NAME]);
int32_t mlsi_edit_new_if(mlsi_nest *w, int64_t lo, int64_t index, int64_t hi);
/* Takes s out of its body (with its own body), leaving its followers. */
void mlsi_edit_unlink(mlsi_nest *w, int32_t s);
/* Puts s first or last in the body of a statement, or before another one. */
void mlsi_edit_prepend(mlsi_nest *w, int32_t parent, int32_t s);
void mlsi_edit_append(mlsi_nest *w, int32_t parent, int32_t s);
void mlsi_edit_before(mlsi_nest *w, int32_t at, int32_t s);
/* A new LOCAL buffer and its ALLOC, in no body yet; dims in shape symbols. Number of the buffer. */
int32_t mlsi_edit_new_local(mlsi_nest *w, const char *what, const char *name, mlsys_dtype dtype,
                            int rank, const int64_t *dims, int32_t *alloc);
/* All statements of the tree in the order of the text, ends with -1; NULL after a failure. Free with mlsi_mem_free. */
int32_t *mlsi_edit_list(mlsi_nest *w, int32_t top);

/* ---- index expressions (schedule_index.c) ----------------------------------------------------------- */

enum { MLSI_EDIT_VARS = 64 };

/* Variables, outer ones first. Extents may name earlier ones. */
typedef struct mlsi_edit_vars {
    int n;
    int32_t symbol[MLSI_EDIT_VARS];
    int64_t code[MLSI_EDIT_VARS], extent[MLSI_EDIT_VARS];
} mlsi_edit_vars;

/* Does the expression name one of them? */
bool mlsi_index_has_any(const mlsi_symtab *t, int64_t d, const mlsi_edit_vars *v);
/* d with another value for each atom that map gives one (true); others are rebuilt of theirs. */
typedef bool mlsi_atom_map(mlsi_nest *w, void *user, int32_t atom, int64_t *out);
bool mlsi_index_map(mlsi_nest *w, int64_t d, mlsi_atom_map *map, void *user, int64_t *out);
/* d with by[i] for the symbols[i] (loop variables), all at once; false where that is no expression of the algebra. */
bool mlsi_index_replace(mlsi_nest *w, int64_t d, int count, const int32_t *symbols,
                        const int64_t *by, int64_t *out);
/* a op b, quietly. */
bool mlsi_index_op(mlsi_nest *w, int op, int64_t a, int64_t b, int64_t *out);
/* d = factor * v + rest, neither of them with v. */
bool mlsi_index_linear(mlsi_nest *w, int64_t d, int32_t symbol, int64_t code, int64_t *factor,
                       int64_t *rest);
/* The least (greatest) value over the variables, as an expression without them; false where not found. */
bool mlsi_index_extreme(mlsi_nest *w, const mlsi_edit_vars *v, int64_t d, bool greatest,
                        int64_t *out);
/* Is d >= least, for all values of symbols and variables? */
bool mlsi_index_at_least(mlsi_nest *w, int64_t d, int64_t least);
/* The same everywhere in the nest. */
void mlsi_edit_replace(mlsi_nest *w, int count, const int32_t *symbols, const int64_t *by);
/* Variables of the FORs around a statement, itself included when it is one, and (inside) of the FORs and BINDs in it. */
void mlsi_edit_vars_around(mlsi_nest *w, int32_t s, mlsi_edit_vars *v);
void mlsi_edit_vars_inside(mlsi_nest *w, int32_t top, mlsi_edit_vars *v);

/* ---- dependences (schedule_access.c) ---------------------------------------------------------------- */

typedef struct mlsi_access {
    int32_t stmt, buffer, expr; /* expr: the LOAD, -1 = a store */
    bool write, whole;          /* whole: any element may be meant */
    int32_t rank;
    int64_t index[MLSYS_MAX_DIMS];
} mlsi_access;

typedef struct mlsi_accesses {
    mlsi_access *items;
    int64_t n, cap;
} mlsi_accesses;

/* Everything that the statement and what is in it loads and stores. Free items with mlsi_mem_free. */
void mlsi_edit_accesses(mlsi_nest *w, int32_t top, mlsi_accesses *out);
/* Two accesses of one buffer, one a write, whose element may be the same in different iterations of the loops with the
 * bits of free (bit i: loops[i]); loops nest perfectly, outer first. seen answers false to stop. */
typedef struct mlsi_conflict {
    const mlsi_access *a, *b;
    uint32_t free;
} mlsi_conflict;
typedef bool mlsi_conflict_seen(mlsi_nest *w, void *user, const mlsi_conflict *c);
void mlsi_edit_conflicts(mlsi_nest *w, int count, const int32_t *loops, mlsi_conflict_seen *seen,
                         void *user);
/* A barrier, an asynchronous copy, a shuffle or a reduction that is read where its terms are added: order matters in
 * a way that subscripts do not tell. The reason, or NULL. */
const char *mlsi_edit_ordered(mlsi_nest *w, int32_t top);

/* ---- kinds and nests (schedule_kinds.c, schedule_loops.c) -------------------------------------------- */

/* What nest.h and the backends demand of loop kinds, for the whole nest. */
void mlsi_edit_check_kinds(mlsi_nest *w, const char *what);
/* The loops from top down to bottom, when nothing but guards stands between them; the guards move inside bottom.
 * Their number, 0 with a failure. */
int mlsi_edit_chain(mlsi_nest *w, const char *what, int32_t top, int32_t bottom, int32_t *loops,
                    int cap);

/* ---- boxes (schedule_box.c) ---------------------------------------------------------------------- */

/* The box of a buffer's elements that loads or stores inside a loop touch in one iteration. */
typedef struct mlsi_box {
    int rank;
    int64_t base[MLSYS_MAX_DIMS];   /* over variables outside */
    int64_t extent[MLSYS_MAX_DIMS]; /* over shape symbols */
    bool clipped[MLSYS_MAX_DIMS];   /* may reach outside of the buffer */
} mlsi_box;

/* Of all accesses in the loop's body that are writes, or loads. Their number. */
int mlsi_edit_box(mlsi_nest *w, int32_t loop, int32_t buffer, bool write, mlsi_box *r);
/* The loads (and stores) of buffer inside the loop go to another buffer, at subscripts less base. */
void mlsi_edit_redirect(mlsi_nest *w, int32_t loop, int32_t from, int32_t to, bool loads,
                        bool stores, const int64_t *base);

#endif
