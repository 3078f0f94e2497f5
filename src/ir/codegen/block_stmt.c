/* Statements as block code: loops, tiles, conditions, reductions. */
#include "ir/codegen/block_writer.h"

#include "core/faults.h"

_Static_assert(
    (int)MLSI_BLOCK_SUM == (int)MLSI_ACC_SUM && (int)MLSI_BLOCK_PROD == (int)MLSI_ACC_PROD &&
        (int)MLSI_BLOCK_DOT == (int)MLSI_ACC_DOT && (int)MLSI_BLOCK_MAX == (int)MLSI_ACC_MAX &&
        (int)MLSI_BLOCK_MIN == (int)MLSI_ACC_MIN && (int)MLSI_BLOCK_AND == (int)MLSI_ACC_AND &&
        (int)MLSI_BLOCK_OR == (int)MLSI_ACC_OR && (int)MLSI_BLOCK_ARGMAX == (int)MLSI_ACC_ARGMAX &&
        (int)MLSI_BLOCK_ARGMIN == (int)MLSI_ACC_ARGMIN,
    "core's kinds of sums are those of the loop IR");

static void body(mlsi_block_writer *w, int32_t first);

/* ---- what is below a statement list ---------------------------------------------------------------------- */

static bool has_loop(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_FOR || has_loop(n, n->stmts[i].body)) return true;
    return false;
}

static int count_terms(const mlsi_nest *n, int32_t first, int32_t acc) {
    int count = 0;
    for (int32_t i = first; i >= 0; i = n->stmts[i].next) {
        count += n->stmts[i].kind == MLSI_LS_ADD && n->stmts[i].ref == acc;
        count += count_terms(n, n->stmts[i].body, acc);
    }
    return count;
}

static bool is_float_sum(const mlsi_acc *a) {
    return (a->kind == MLSI_ACC_SUM || a->kind == MLSI_ACC_PROD) && mlsi_dtype_is_float(a->dtype);
}

static bool has_float_sum(const mlsi_nest *n, int32_t first) {
    for (int32_t i = first; i >= 0; i = n->stmts[i].next)
        if ((n->stmts[i].kind == MLSI_LS_ACC && is_float_sum(&n->accs[n->stmts[i].ref])) ||
            has_float_sum(n, n->stmts[i].body))
            return true;
    return false;
}

/* ---- the order of terms ------------------------------------------------------------------------------------ */

/* Loops from the accumulator's begin to a term, outermost first. */
typedef struct path {
    int32_t vars[16];
    int n, terms, seen; /* terms of an iteration; those seen so far */
} path;

static bool order_is_free(const mlsi_acc *a) {
    if (a->kind > MLSI_ACC_DOT) return a->kind < MLSI_ACC_ARGMAX;
    return a->kind != MLSI_ACC_DOT && !mlsi_dtype_is_float(a->dtype);
}

/* Positions are the numbers of the iterations: then they ascend, and conditions between only leave some out. */
static void check_term(mlsi_block_writer *w, const mlsi_ls *s, path *p) {
    mlsi_nest *n = w->n;
    int64_t at = 0;
    for (int i = 0; i < p->n; i++) {
        at = mlsi_nest_index(n, '*', at, n->vars[p->vars[i]].extent);
        at = mlsi_nest_index(n, '+', at, n->vars[p->vars[i]].code);
    }
    at = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', at, p->terms), p->seen++);
    if (at != s->index[0]) mlsi_block_refuse(w, "a reduction whose terms do not come in order");
}

static void check_terms(mlsi_block_writer *w, int32_t acc, int32_t first, path *p) {
    const mlsi_nest *n = w->n;
    for (int32_t i = first; i >= 0 && w->status == MLSYS_OK; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        bool loop = s->kind == MLSI_LS_FOR;
        if (s->kind == MLSI_LS_ADD && s->ref == acc) check_term(w, s, p);
        if (loop && p->n == (int)(sizeof p->vars / sizeof p->vars[0])) {
            mlsi_block_refuse(w, "a reduction of so many loops");
            return;
        }
        if (loop) p->vars[p->n++] = s->var;
        check_terms(w, acc, s->body, p);
        if (loop) p->n--;
    }
}

/* ---- reductions ------------------------------------------------------------------------------------------ */

static int32_t levels_of(const mlsi_block_writer *w, const mlsi_acc *a) {
    int64_t lo, hi;
    int32_t levels = 1;
    mlsi_dim_range(&w->n->tab, a->count, &lo, &hi);
    for (; hi > 4096; hi = hi / 4096 + 1)
        levels++;
    return levels;
}

static void begin(mlsi_block_writer *w, const mlsi_ls *s) {
    const mlsi_acc *a = &w->n->accs[s->ref];
    path p = {.n = 0};
    p.terms = count_terms(w->n, s->next, s->ref);
    if (!order_is_free(a)) check_terms(w, s->ref, s->next, &p);
    w->acc_ranges[s->ref] = w->ranges;
    w->code->accs[s->ref] = (mlsi_block_acc){.kind = (mlsi_block_sum)a->kind,
                                             .cls = mlsi_tile_class_of(a->dtype),
                                             .wide = w->vector_var >= 0,
                                             .width = w->step,
                                             .levels = levels_of(w, a)};
    int32_t init = a->init < 0 ? -1 : mlsi_block_lanes(w, mlsi_block_value(w, a->init));
    mlsi_block_emit(w, w->depth,
                    &(mlsi_block_instr){.kind = MLSI_BLOCK_BEGIN, .dst = s->ref, .a = init});
}

static void term(mlsi_block_writer *w, const mlsi_ls *s) {
    mlsi_block_instr i = {
        .kind = MLSI_BLOCK_TERM, .dst = s->ref, .b = -1, .one = w->vector_var < 0};
    i.a = mlsi_block_lanes(w, mlsi_block_value(w, s->value));
    if (s->value2 >= 0) i.b = mlsi_block_lanes(w, mlsi_block_value(w, s->value2));
    if (w->code->accs[s->ref].wide && w->acc_ranges[s->ref] != w->ranges)
        mlsi_block_refuse(w, "a term that some lanes have not");
    mlsi_block_emit(w, w->depth, &i);
}

static void result(mlsi_block_writer *w, int32_t acc) {
    const mlsi_acc *a = &w->n->accs[acc];
    const mlsys_dtype t = mlsi_acc_result(a);
    bool wide = w->code->accs[acc].wide;
    int32_t r = mlsi_block_register_new(w, w->depth, mlsi_tile_class_of(t), wide);
    mlsi_block_emit(
        w, w->depth,
        &(mlsi_block_instr){.kind = MLSI_BLOCK_RESULT, .dst = r, .a = acc, .one = !wide});
    if (w->status == MLSYS_OK)
        w->acc_register[acc] = mlsi_dtype_is_int(t) ? mlsi_block_fit(w, r, t) : r;
}

/* ---- loops and conditions ---------------------------------------------------------------------------------- */

static void tiles(mlsi_block_writer *w, const mlsi_ls *s) {
    w->step = has_float_sum(w->n, s->body) ? MLSI_TILE_SUMS : MLSI_TILE;
    w->tiles_extent = mlsi_block_int(w, w->n->vars[s->var].extent);
    mlsi_block_open(
        w, &(mlsi_block_instr){.kind = MLSI_BLOCK_TILES, .a = w->tiles_extent, .value = w->step});
    w->vector_var = s->var;
    w->tiles = w->depth;
    body(w, s->body);
    w->vector_var = -1;
    mlsi_block_close(w);
}

/* A short loop that nothing can be lanes of costs little. */
static bool is_short(const mlsi_nest *n, int64_t extent) {
    enum { SHORT = 16 };
    int64_t lo, hi;
    mlsi_dim_range(&n->tab, extent, &lo, &hi);
    return hi <= SHORT;
}

static void loop(mlsi_block_writer *w, const mlsi_ls *s) {
    const mlsi_loop_var *v = &w->n->vars[s->var];
    if (s->loop >= MLSI_LOOP_GRID) mlsi_block_refuse(w, "loops of a GPU");
    if (s->loop == MLSI_LOOP_VECTOR && w->vector_var < 0 && v->symbol >= 0) {
        tiles(w, s);
        return;
    }
    if (w->vector_var < 0 && !has_loop(w->n, s->body) && !is_short(w->n, v->extent))
        mlsi_block_refuse(w, "a loop that goes element by element");
    mlsi_block_instr head = {.kind = MLSI_BLOCK_LOOP, .a = mlsi_block_int(w, v->extent)};
    head.dst = mlsi_block_int_new(w, w->depth + 1);
    mlsi_block_open(w, &head);
    if (v->symbol >= 0) w->int_of_symbol[v->symbol] = head.dst;
    body(w, s->body);
    if (v->symbol >= 0) w->int_of_symbol[v->symbol] = -1;
    mlsi_block_close(w);
}

static void condition(mlsi_block_writer *w, const mlsi_ls *s) {
    mlsi_block_instr head = {.kind = MLSI_BLOCK_WHEN};
    bool varies = false;
    if (s->value >= 0) {
        head.a = mlsi_block_value(w, s->value);
        if (w->status == MLSYS_OK && w->code->registers[head.a].tile)
            mlsi_block_refuse(w, "a condition on data that differs between the lanes");
    } else {
        mlsi_block_affine f = mlsi_block_affine_of(w, s->index[1]);
        varies = f.varies;
        head = (mlsi_block_instr){.kind = MLSI_BLOCK_RANGE,
                                  .a = mlsi_block_int(w, s->index[0]),
                                  .b = f.base,
                                  .c = f.stride,
                                  .d = mlsi_block_int(w, s->index[2])};
    }
    mlsi_block_open(w, &head);
    w->ranges += varies;
    body(w, s->body);
    w->ranges -= varies;
    mlsi_block_close(w);
}

/* ---- statements ------------------------------------------------------------------------------------------------ */

static void store(mlsi_block_writer *w, const mlsi_ls *s) {
    mlsi_block_affine f = mlsi_block_address(w, s->ref, s->index);
    int32_t x = mlsi_block_lanes(w, mlsi_block_value(w, s->value));
    if (w->vector_var >= 0 && !f.varies) mlsi_block_refuse(w, "lanes that store one element");
    mlsi_block_emit(w, w->depth,
                    &(mlsi_block_instr){.kind = MLSI_BLOCK_STORE,
                                        .dst = s->ref,
                                        .a = x,
                                        .b = f.base,
                                        .c = f.stride,
                                        .dtype = w->n->buffers[s->ref].dtype,
                                        .direct = f.unit,
                                        .one = w->vector_var < 0});
}

static void bind(mlsi_block_writer *w, const mlsi_ls *s) {
    const mlsi_loop_var *v = &w->n->vars[s->var];
    mlsi_block_instr i = {.kind = MLSI_BLOCK_BIND, .clamp = s->clamp, .wrap = s->wrap, .one = true};
    i.a = mlsi_block_value(w, s->value);
    if (w->status == MLSYS_OK && w->code->registers[i.a].tile)
        mlsi_block_refuse(w, "an index from data that differs between the lanes");
    i.b = mlsi_block_int(w, v->extent);
    i.c = mlsi_block_int(w, s->n_index ? s->index[0] : 0);
    for (const mlsi_ls *k = w->n->stmts; k <= s; k++)
        i.value += k->kind == MLSI_LS_BIND;
    i.dst = mlsi_block_int_new(w, w->depth);
    if (v->symbol >= 0) w->int_of_symbol[v->symbol] = i.dst;
    mlsi_block_emit(w, w->depth, &i);
}

static void stmt(mlsi_block_writer *w, const mlsi_ls *s) {
    switch (s->kind) {
    case MLSI_LS_FOR: loop(w, s); break;
    case MLSI_LS_LET: w->let_register[s->ref] = mlsi_block_value(w, s->value); break;
    case MLSI_LS_STORE: store(w, s); break;
    case MLSI_LS_IF: condition(w, s); break;
    case MLSI_LS_ALLOC: break; /* has its place for the whole task */
    case MLSI_LS_ACC: begin(w, s); break;
    case MLSI_LS_ADD: term(w, s); break;
    case MLSI_LS_BIND: bind(w, s); break;
    default: mlsi_block_refuse(w, "statements of a GPU"); break;
    }
}

/* A body; behind the last statement that gives an accumulator of it terms, its result is taken. */
static void body(mlsi_block_writer *w, int32_t first) {
    enum { AT_ONCE = 16 };
    const mlsi_nest *n = w->n;
    int32_t open[AT_ONCE];
    int n_open = 0;
    for (int32_t i = first; i >= 0 && w->status == MLSYS_OK; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        stmt(w, s);
        if (s->kind == MLSI_LS_ACC && n_open == AT_ONCE)
            mlsi_block_refuse(w, "more than 16 reductions at once");
        else if (s->kind == MLSI_LS_ACC)
            open[n_open++] = s->ref;
        for (int k = 0; k < n_open; k++) {
            if (count_terms(n, s->next, open[k])) continue;
            result(w, open[k]);
            open[k--] = open[--n_open];
        }
    }
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

void mlsi_block_task(mlsi_block_writer *w) {
    mlsi_nest *n = w->n;
    int32_t chain[8], inner;
    int count = mlsi_codegen_chain(n, chain, &inner);
    int32_t task = w->code->n_symbols, rest = task;
    for (int i = count - 1; i >= 0 && w->status == MLSYS_OK; i--) {
        const mlsi_loop_var *v = &n->vars[chain[i]];
        int32_t turns[2] = {mlsi_block_int(w, v->extent), 0}, at = rest;
        if (i > 0) at = mlsi_block_rest(w, rest, turns[0], &turns[1]);
        if (v->symbol >= 0) w->int_of_symbol[v->symbol] = at;
        rest = turns[1];
    }
    body(w, inner);
}
