/* cse: nodes with the same op, attributes and operands give the same bits, so the first one serves. An
 * attention without a log-sum-exp that has a twin with one, which its gradient asks for, becomes that twin. */
#include "core/faults.h"
#include "core/hash.h"
#include "ir/passes/passes.h"

#include <string.h>

typedef struct table {
    int32_t *slots; /* new node number + 1 */
    int64_t cap;    /* a power of two, at least twice the nodes */
    int64_t twins;  /* old nodes up to the last attention with a log-sum-exp */
} table;

/* Operands that count. */
static size_t compared(const mlsi_node *n) {
    return (size_t)(n->n_in - (n->n_in > 1 && mlsi_fault(MLSI_FAULT_CSE_OPERAND)));
}

static uint64_t node_hash(const mlsi_node *n) {
    uint64_t h = mlsi_hash_u64(MLSI_HASH_SEED, (uint64_t)n->op);
    h = mlsi_hash_u64(h, (uint64_t)n->n_out);
    h = mlsi_hash_bytes(h, n->in, sizeof *n->in * compared(n));
    if (mlsi_fault(MLSI_FAULT_CSE_ATTRS)) return mlsi_hash_mix(h);
    return mlsi_hash_mix(h ^ mlsi_attrs_hash(mlsi_op_get(n->op), n->attrs));
}

static bool node_equal(const mlsi_node *a, const mlsi_node *b) {
    return a->op == b->op && a->n_in == b->n_in && a->n_out == b->n_out &&
           !memcmp(a->in, b->in, sizeof *a->in * compared(a)) &&
           (mlsi_attrs_equal(mlsi_op_get(a->op), a->attrs, b->attrs) ||
            mlsi_fault(MLSI_FAULT_CSE_ATTRS));
}

/* The live node over the same old operands that gives the log-sum-exp too, or NULL. */
static const mlsi_node *twin_of(const mlsi_rewrite *rw, int64_t twins, const mlsi_node *node) {
    mlsi_attr_attention want;
    if (node->op != MLSI_OP_ATTENTION || node->n_out != 1 || mlsi_fault(MLSI_FAULT_CSE_TWIN))
        return NULL;
    want = *(const mlsi_attr_attention *)node->attrs;
    want.lse = 1;
    for (const mlsi_node *n = node + 1; n < rw->old.nodes + twins; n++)
        if (n->op == MLSI_OP_ATTENTION && n->n_out == 2 && n->n_in == node->n_in &&
            !memcmp(n->in, node->in, sizeof *n->in * (size_t)n->n_in) &&
            mlsi_attrs_equal(mlsi_op_get(n->op), n->attrs, &want))
            return n;
    return NULL;
}

static mlsys_status visit(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out) {
    table *t = rw->user;
    int32_t in[MLSI_MAX_OPERANDS], both[2];
    const mlsi_node *twin = twin_of(rw, t->twins, node);
    if (twin) {
        MLSI_TRY(visit(rw, twin, both));
        mlsi_rewrite_by(rw, MLSI_BY_IDENTITY, "attention_twin");
        return out[0] = both[0], MLSYS_OK;
    }
    mlsi_node key = *node;
    for (int i = 0; i < node->n_in; i++)
        in[i] = mlsi_rewrite_operand(rw, node, i);
    key.in = in;
    uint64_t slot = node_hash(&key) & (uint64_t)(t->cap - 1);
    for (; t->slots[slot]; slot = (slot + 1) & (uint64_t)(t->cap - 1)) {
        const mlsi_node *seen = &rw->g->funcs[rw->func].nodes[t->slots[slot] - 1];
        if (!node_equal(seen, &key)) continue;
        for (int i = 0; i < node->n_out; i++)
            out[i] = seen->first_out + i;
        return MLSYS_OK;
    }
    MLSI_TRY(mlsi_rewrite_keep(rw, node, out));
    t->slots[slot] = (int32_t)rw->g->funcs[rw->func].n_nodes;
    return MLSYS_OK;
}

mlsys_status mlsi_pass_cse(mlsi_pass_ctx *p, int32_t func) {
    const mlsi_func *f = &p->g->funcs[func];
    table t = {NULL, 16, 0};
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].op == MLSI_OP_ATTENTION && f->nodes[i].n_out == 2) t.twins = i + 1;
    while (t.cap < 2 * f->n_nodes + 2)
        t.cap *= 2;
    MLSI_TRY(MLSI_NEW_N(p->g->alloc, t.cap, &t.slots));
    mlsys_status st = mlsi_rewrite_run(p, func, visit, &t);
    mlsi_mem_free(p->g->alloc, t.slots);
    return st;
}
