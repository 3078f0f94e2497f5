/* Iterations that may run at once touch nothing that another one writes.
 *
 * For a loop over v and a buffer that is written in it, some number made of the subscripts (one of them, or the row-major
 * number of the element) must tell v, in the same way for all accesses in the loop: base + weights * digits with v among
 * the digits (prove.h), and equal bases and weights up to v's. Then the same element means the same v. Barriers are not
 * looked at: what lanes exchange through shared memory is not proved.
 *
 * An output in the memory of an input: loads of the input count as reads of the output, in all loops. Then an element is loaded and
 * stored in the same iteration of the loops around both, and there the text says what comes first. */
#include "core/faults.h"
#include "ir/loop/prove_walk.h"

#include <string.h>

enum { NUMBERS = MLSYS_MAX_DIMS + 1 }; /* each subscript; the row-major number */

typedef struct meeting { /* of a loop and a buffer */
    int32_t loop, buffer;
    bool written;
    uint32_t possible; /* numbers that tell v, so far */
    mlsi_digits digits[NUMBERS];
} meeting;

typedef struct hazards {
    const mlsi_nest *n;
    int32_t *parent;       /* per statement */
    int32_t *var_stmt;     /* per variable: the statement that defines it */
    int32_t *allocated;    /* per buffer: its ALLOC, -1 = none */
    bool *inner;           /* per symbol */
    int32_t input, output; /* buffers in one memory, -1 = none */
    int32_t at,
        stored; /* statements so far, in the order of the text; up to the first store to output, 0 = none */
    meeting **all;
    int64_t n_all, cap_all;
} hazards;

static bool at_once(mlsi_loop_kind k) { return k != MLSI_LOOP_SERIAL && k != MLSI_LOOP_UNROLLED; }

static bool is_inside(const hazards *h, int32_t stmt, int32_t loop) {
    while (stmt >= 0 && stmt != loop)
        stmt = h->parent[stmt];
    return stmt == loop;
}

static void mark_inner(const hazards *h, int32_t loop) {
    for (int64_t i = 0; i < h->n->n_vars; i++)
        if (h->n->vars[i].symbol >= 0)
            h->inner[h->n->vars[i].symbol] =
                h->var_stmt[i] >= 0 && is_inside(h, h->var_stmt[i], loop);
}

static mlsys_status find(hazards *h, int32_t loop, int32_t buffer, meeting **out, bool *fresh) {
    *fresh = false;
    for (int64_t i = 0; i < h->n_all; i++)
        if (h->all[i]->loop == loop && h->all[i]->buffer == buffer)
            return *out = h->all[i], MLSYS_OK;
    MLSI_TRY(MLSI_GROW(h->n->alloc, &h->all, &h->cap_all, h->n_all + 1));
    MLSI_TRY(MLSI_NEW(h->n->alloc, out));
    h->all[h->n_all++] = *out;
    **out = (meeting){.loop = loop, .buffer = buffer};
    *fresh = true;
    return MLSYS_OK;
}

/* How many digits, up to the one of the symbol; 0: it is none. */
static int digits_until(const mlsi_digits *d, int32_t symbol) {
    for (int i = 0; i < d->n; i++)
        if (d->symbol[i] == symbol) return i + 1;
    return 0;
}

static bool is_turned(const mlsi_digits *d, int32_t symbol) {
    for (int i = 0; i < d->n_turned; i++)
        if (d->turned[i] == symbol) return true;
    return false;
}

static bool same_expr(const mlsi_expr *a, const mlsi_expr *b) {
    return a->n == b->n && !memcmp(a->terms, b->terms, sizeof a->terms[0] * (size_t)a->n);
}

static bool same_way(const mlsi_digits *a, const mlsi_digits *b, int32_t symbol) {
    int n = digits_until(a, symbol);
    if (!n || digits_until(b, symbol) != n || is_turned(a, symbol) != is_turned(b, symbol))
        return false;
    for (int i = 0; i < n; i++)
        if (!same_expr(&a->weight[i], &b->weight[i])) return false;
    return mlsi_fault(MLSI_FAULT_HAZARD_BASE) || same_expr(&a->base, &b->base);
}

static void meet(hazards *h, const mlsi_walk_place *p, meeting *m, const int64_t *index,
                 bool fresh) {
    const mlsi_loop_buffer *b = &h->n->buffers[m->buffer];
    int32_t symbol = h->n->vars[h->n->stmts[m->loop].var].symbol;
    uint32_t possible = 0;
    mark_inner(h, m->loop);
    for (int k = 0; k <= b->rank; k++) {
        mlsi_expr number;
        mlsi_digits d;
        bool whole, fits = true;
        if (!fresh && !(m->possible >> k & 1)) continue;
        if (k < b->rank)
            number = mlsi_expr_of(&h->n->tab, index[k]);
        else
            fits = mlsi_linear_number(&h->n->tab, b->rank, index, b->dims, &number);
        if (!fits) continue;
        mlsi_find_digits(&p->facts, h->inner, &number, &d, &whole);
        if (!digits_until(&d, symbol)) continue;
        if (fresh) m->digits[k] = d;
        if (fresh || same_way(&m->digits[k], &d, symbol)) possible |= (uint32_t)1 << k;
    }
    m->possible = possible;
}

/* index NULL: some elements. */
static mlsys_status touch(hazards *h, const mlsi_walk_place *p, int32_t buffer,
                          const int64_t *index, bool write) {
    if (buffer == h->input) buffer = h->output;
    if (h->n->buffers[buffer].scope == MLSI_SCOPE_INPUT) return MLSYS_OK;
    for (int i = 0; i < p->depth; i++) {
        const mlsi_ls *s = &h->n->stmts[p->around[i]];
        meeting *m;
        bool fresh;
        bool counts = at_once(s->loop) || (h->input >= 0 && buffer == h->output);
        if (s->kind != MLSI_LS_FOR || !counts || h->n->vars[s->var].symbol < 0) continue;
        if (h->allocated[buffer] >= 0 && is_inside(h, h->allocated[buffer], p->around[i])) continue;
        MLSI_TRY(find(h, p->around[i], buffer, &m, &fresh));
        m->written = m->written || write;
        if (index)
            meet(h, p, m, index, fresh);
        else
            m->possible = 0;
    }
    return MLSYS_OK;
}

static mlsys_status hazard_access(void *user, const mlsi_walk_place *p, int32_t buffer,
                                  const int64_t *index, bool write) {
    hazards *h = user;
    if (buffer == h->output && write && !h->stored) h->stored = h->at;
    if (buffer == h->input && h->stored && h->at > h->stored && !mlsi_fault(MLSI_FAULT_PLACE_ORDER))
        return mlsi_unproved(p, "%s is loaded behind the store of %s in its memory",
                             h->n->buffers[buffer].name, h->n->buffers[h->output].name);
    return touch(h, p, buffer, index, write);
}

static mlsys_status hazard_stmt(void *user, const mlsi_walk_place *p, const mlsi_ls *s) {
    hazards *h = user;
    h->at++;
    if (s->kind != MLSI_LS_MMA) return MLSYS_OK;
    MLSI_TRY(touch(h, p, s->ref, NULL, true));
    MLSI_TRY(touch(h, p, h->n->exprs[s->value].ref, NULL, false));
    return touch(h, p, h->n->exprs[s->value2].ref, NULL, false);
}

static void find_parents(hazards *h, int32_t parent, int32_t first) {
    for (int32_t i = first; i >= 0; i = h->n->stmts[i].next) {
        const mlsi_ls *s = &h->n->stmts[i];
        h->parent[i] = parent;
        if (s->kind == MLSI_LS_FOR || s->kind == MLSI_LS_BIND) h->var_stmt[s->var] = i;
        if (s->kind == MLSI_LS_ALLOC) h->allocated[s->ref] = i;
        if (s->body >= 0) find_parents(h, i, s->body);
    }
}

static mlsys_status verdict(const hazards *h) {
    for (int64_t i = 0; i < h->n_all; i++) {
        const meeting *m = h->all[i];
        if (m->written && !m->possible && !(h->input >= 0 && mlsi_fault(MLSI_FAULT_PLACE_OFFSET)))
            return mlsi_fail(MLSYS_E_STATE,
                             "nest %s: statement %d: iterations of %s are not proved to touch "
                             "different elements of %s, which they write",
                             h->n->name, (int)m->loop, h->n->vars[h->n->stmts[m->loop].var].name,
                             h->n->buffers[m->buffer].name);
    }
    return MLSYS_OK;
}

static mlsys_status prove(const mlsi_nest *n, int32_t input, int32_t output) {
    hazards h = {.n = n, .input = input, .output = output};
    const mlsi_walk w = {.stmt = hazard_stmt, .access = hazard_access, .user = &h};
    int32_t *numbers = NULL;
    MLSI_TRY(MLSI_NEW_N(n->alloc, n->n_stmts + n->n_vars + n->n_buffers + 1, &numbers));
    h.parent = numbers;
    h.var_stmt = h.parent + n->n_stmts;
    h.allocated = h.var_stmt + n->n_vars;
    memset(numbers, 0xff, sizeof *numbers * (size_t)(n->n_stmts + n->n_vars + n->n_buffers));
    mlsys_status st = MLSI_NEW_N(n->alloc, n->tab.n_symbols + 1, &h.inner);
    find_parents(&h, -1, n->first);
    if (st == MLSYS_OK) st = mlsi_nest_walk(n, &w);
    if (st == MLSYS_OK) st = verdict(&h);
    for (int64_t i = 0; i < h.n_all; i++)
        mlsi_mem_free(n->alloc, h.all[i]);
    mlsi_mem_free(n->alloc, h.all);
    mlsi_mem_free(n->alloc, h.inner);
    mlsi_mem_free(n->alloc, numbers);
    return st;
}

mlsys_status mlsi_prove_hazards(const mlsi_nest *n) { return prove(n, -1, -1); }

/* Threads of a GPU do not run in the order of the text; indices from data are not looked into. */
static bool is_serial(const mlsi_nest *n) {
    for (int64_t i = 0; i < n->n_stmts; i++) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind >= MLSI_LS_BIND || (s->kind == MLSI_LS_FOR && s->loop > MLSI_LOOP_UNROLLED))
            return false;
    }
    return true;
}

mlsys_status mlsi_prove_in_place(const mlsi_nest *n, int32_t input, int32_t output) {
    const mlsi_loop_buffer *a = &n->buffers[input], *b = &n->buffers[output];
    bool same = a->scope == MLSI_SCOPE_INPUT && b->scope == MLSI_SCOPE_OUTPUT &&
                a->dtype == b->dtype && a->rank == b->rank && !a->bytes && !b->bytes &&
                !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank);
    for (int32_t i = 0; i < n->n_buffers; i++)
        same = same && !(n->buffers[i].bytes &&
                         (n->buffers[i].param == a->param || n->buffers[i].param == b->param));
    if (!same || !is_serial(n))
        return mlsi_fail(MLSYS_E_STATE, "nest %s: %s and %s cannot be one memory", n->name, a->name,
                         b->name);
    return prove(n, input, output);
}
