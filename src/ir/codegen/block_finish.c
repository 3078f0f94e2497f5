/* What is left when the instructions are known: which tiles are memory itself, and where the others lie.
 *
 * A register lives from the instruction that writes it to its last use; a use deeper inside counts as the end of the body in
 * which it is, seen from where the register is written, since that body may run again. Registers of one size whose lives do
 * not meet share memory, so that the tiles of a long chain stay in the first cache. */
#include "ir/codegen/block_writer.h"

#include "core/faults.h"

#include <string.h>

typedef struct life {
    int32_t first, last;
    bool inside; /* the last use is inside of a body that ends at last */
} life;

typedef struct finisher {
    mlsi_block_code *c;
    int32_t *parent; /* per instruction: the head around, -1 = a task's, -2 = before the tasks */
    life *lives;     /* per register */
} finisher;

static bool writes(const mlsi_block_instr *i) {
    switch (i->kind) {
    case MLSI_BLOCK_OPEN:
    case MLSI_BLOCK_BITS:
    case MLSI_BLOCK_INDEX:
    case MLSI_BLOCK_SPREAD:
    case MLSI_BLOCK_LOAD:
    case MLSI_BLOCK_OP:
    case MLSI_BLOCK_RESULT: return true;
    default: return false;
    }
}

/* Registers that an instruction uses; how many. */
static int uses(const mlsi_block_instr *i, int32_t *r) {
    int n = 0;
    switch (i->kind) {
    case MLSI_BLOCK_WHEN:
    case MLSI_BLOCK_SPREAD:
    case MLSI_BLOCK_STORE:
    case MLSI_BLOCK_BIND: r[n++] = i->a; break;
    case MLSI_BLOCK_COPY:
        r[n++] = i->a;
        r[n++] = i->dst;
        break;
    case MLSI_BLOCK_BEGIN:
    case MLSI_BLOCK_TERM:
        if (i->a >= 0) r[n++] = i->a;
        if (i->kind == MLSI_BLOCK_TERM && i->b >= 0) r[n++] = i->b;
        break;
    case MLSI_BLOCK_OP:
        r[0] = i->a, r[1] = i->b, r[2] = i->c;
        n = i->n_args;
        break;
    default: break;
    }
    return n;
}

static void find_parents(finisher *f) {
    int32_t around[MLSI_BLOCK_SCOPES], end[MLSI_BLOCK_SCOPES], depth = 0;
    for (int32_t i = 0; i < f->c->n_instrs; i++) {
        while (depth && end[depth - 1] < i)
            depth--;
        f->parent[i] = depth ? around[depth - 1] : i < f->c->n_before ? -2 : -1;
        if (!f->c->instrs[i].body) continue;
        around[depth] = i;
        end[depth++] = i + f->c->instrs[i].body;
    }
}

static void extend(finisher *f, int32_t reg, int32_t at) {
    life *l = &f->lives[reg];
    bool inside = false;
    while (at >= 0 && f->parent[at] != f->parent[l->first])
        at = f->parent[at], inside = true;
    int32_t last = at < 0 ? f->c->n_instrs - 1 : at + f->c->instrs[at].body;
    if (mlsi_fault(MLSI_FAULT_BLOCK_LIVES) && at >= 0) last = at;
    if (last < l->last) return;
    l->inside = inside || (last == l->last && l->inside);
    l->last = last;
}

static void find_lives(finisher *f) {
    int32_t r[3];
    for (int32_t i = 0; i < f->c->n_instrs; i++) {
        const mlsi_block_instr *x = &f->c->instrs[i];
        for (int k = uses(x, r) - 1; k >= 0; k--)
            extend(f, r[k], i);
        if (writes(x)) f->lives[x->dst] = (life){.first = i, .last = i};
    }
}

/* ---- memory itself ------------------------------------------------------------------------------------------- */

/* Do elements of the dtype look the same in a tile? */
static bool as_in_memory(mlsys_dtype t) {
    return t == MLSYS_F32 || t == MLSYS_F64 || t == MLSYS_I64;
}

/* May the store change what the load has read? Outputs may be an input's memory. */
static bool meet(const mlsi_block_code *c, const mlsi_block_instr *store,
                 const mlsi_block_instr *load) {
    if (c->buffers[store->dst].param < 0) return store->dst == load->a;
    return c->buffers[load->a].param >= 0;
}

/* A register that is memory must not change while it lives. */
static void find_loads(finisher *f) {
    enum { FAR = 4096 };
    mlsi_block_code *c = f->c;
    for (int32_t i = 0; i < c->n_instrs; i++) {
        mlsi_block_instr *x = &c->instrs[i];
        if (x->kind != MLSI_BLOCK_LOAD) continue;
        const life *l = &f->lives[x->dst];
        int32_t end = l->inside ? l->last + 1 : l->last;
        x->direct = x->direct && as_in_memory(x->dtype) && end - i < FAR;
        for (int32_t k = i + 1; k < end && x->direct; k++)
            if (c->instrs[k].kind == MLSI_BLOCK_STORE && meet(c, &c->instrs[k], x) &&
                !mlsi_fault(MLSI_FAULT_BLOCK_IN_PLACE))
                x->direct = false;
    }
}

static bool is_integer(mlsi_block_kind k) { return k >= MLSI_BLOCK_NUMBER && k <= MLSI_BLOCK_DIV; }

/* An op whose result is stored at once writes to memory: integers between the two go before the op. */
static void find_stores(mlsi_block_code *c) {
    for (int32_t i = 1; i < c->n_instrs; i++) {
        mlsi_block_instr *s = &c->instrs[i], op;
        int32_t k = i - 1;
        if (s->kind != MLSI_BLOCK_STORE) continue;
        while (k > 0 && is_integer(c->instrs[k].kind))
            k--;
        op = c->instrs[k];
        s->direct = s->direct && !s->one && (as_in_memory(s->dtype) || s->dtype == MLSYS_BOOL) &&
                    op.kind == MLSI_BLOCK_OP && op.dst == s->a && !op.one;
        if (!s->direct) continue;
        memmove(&c->instrs[k], &c->instrs[k + 1], sizeof op * (size_t)(i - 1 - k));
        op.direct = true;
        c->instrs[i - 1] = op;
    }
}

/* ---- the rest ------------------------------------------------------------------------------------------------ */

static int kind_of(const mlsi_block_register *r) {
    return 2 * (r->cls == MLSI_TILE_BOOL ? 0 : r->cls == MLSI_TILE_F32 ? 1 : 2) + r->tile;
}
static uint64_t bytes_of(const mlsi_block_register *r) {
    return r->tile ? (uint64_t)MLSI_TILE * (uint64_t)mlsi_tile_size(r->cls) : 8;
}

/* Registers in the order of the instructions: one that has ended gives its memory to the next of its kind. An op may write
 * over an operand that ends with it. live has room for all registers. */
static uint64_t place_registers(finisher *f, uint64_t at, int32_t *live) {
    mlsi_block_code *c = f->c;
    int32_t n_live = 0;
    for (int32_t i = 0; i < c->n_instrs; i++) {
        const mlsi_block_instr *x = &c->instrs[i];
        if (!writes(x) || x->direct) continue;
        mlsi_block_register *r = &c->registers[x->dst];
        int32_t found = -1;
        for (int32_t k = 0; k < n_live && found < 0; k++) {
            const life *l = &f->lives[live[k]];
            bool ended = l->last < i || (l->last == i && !l->inside && x->kind == MLSI_BLOCK_OP);
            if (ended && kind_of(&c->registers[live[k]]) == kind_of(r)) found = k;
        }
        if (found >= 0) {
            r->offset = c->registers[live[found]].offset;
            live[found] = x->dst;
        } else {
            r->offset = at;
            at += bytes_of(r);
            live[n_live++] = x->dst;
        }
    }
    return at;
}

static uint64_t place_accs(mlsi_block_code *c, uint64_t at) {
    for (int32_t i = 0; i < c->n_accs; i++) {
        mlsi_block_acc *a = &c->accs[i];
        if (!a->kind) continue;
        if (!a->wide) a->width = 1;
        a->offset = at;
        at += (mlsi_block_acc_bytes(a) + 63) & ~(uint64_t)63;
    }
    return at;
}

static mlsys_status place(finisher *f, mlsi_alloc *a) {
    mlsi_block_code *c = f->c;
    int32_t *live;
    MLSI_TRY(MLSI_NEW_N(a, c->n_instrs + 1, &f->parent));
    MLSI_TRY(MLSI_NEW_N(a, c->n_registers + 1, &f->lives));
    MLSI_TRY(MLSI_NEW_N(a, c->n_registers + 1, &live));
    find_parents(f);
    find_lives(f);
    find_loads(f);
    uint64_t at = mlsi_block_tables_bytes(c);
    at = place_registers(f, at, live);
    at = (at + 63) & ~(uint64_t)63;
    c->state_bytes = place_accs(c, at);
    mlsi_mem_free(a, live);
    return MLSYS_OK;
}

mlsys_status mlsi_block_finish(mlsi_block_writer *w) {
    mlsi_alloc *a = w->n->alloc;
    mlsi_block_code *c = w->code;
    const mlsi_block_scope *before = &w->scopes[0], *task = &w->scopes[1];
    finisher f = {.c = c};
    MLSI_TRY(MLSI_NEW_N(a, before->n + task->n + 1, &c->instrs));
    if (before->n) memcpy(c->instrs, before->instrs, sizeof *c->instrs * (size_t)before->n);
    if (task->n) memcpy(c->instrs + before->n, task->instrs, sizeof *c->instrs * (size_t)task->n);
    c->n_before = (int32_t)before->n;
    c->n_instrs = (int32_t)(before->n + task->n);
    find_stores(c);
    mlsys_status st = place(&f, a);
    mlsi_mem_free(a, f.parent);
    mlsi_mem_free(a, f.lives);
    return st;
}
