/* Values before and after a pass: every value is an expression (a tuple of op, attributes and operands' expressions), and a
 * pair holds when its reason makes both the same expression. copy makes no expression of its own. */
#include "ir/proof/value.h"

#include "core/layout.h"

#include <string.h>

enum { MAX_ATTR_WORDS = 128, MAX_WORDS = MLSI_WORD_OPERANDS + MLSI_MAX_OPERANDS + MAX_ATTR_WORDS };

mlsys_status mlsi_value_refuse(mlsi_value_check *k, const char *why) {
    if (!k->why) k->why = why;
    return MLSYS_OK;
}

static mlsys_status refuse(mlsi_value_check *k, const char *why) {
    return mlsi_value_refuse(k, why);
}

/* ---- expressions of a function's values ----------------------------------------------------------------------- */

static mlsys_status decompose(mlsi_value_check *k, const mlsi_func *f, const mlsi_node *node,
                              const int32_t *ids, bool expand, int32_t *out);

/* Results of a node over known operands; -1 while one is not known. expand: a composite is its primitives. */
static mlsys_status node_ids(mlsi_value_check *k, const mlsi_func *f, const mlsi_node *node,
                             const int32_t *ids, bool expand, int32_t *out) {
    int64_t words[MAX_WORDS] = {MLSI_WORD_NODE, (int64_t)node->op, 0, node->n_out, node->n_in};
    int n = MLSI_WORD_OPERANDS;
    size_t bytes = mlsi_op_get(node->op)->attrs_size;
    if (bytes > sizeof(int64_t) * MAX_ATTR_WORDS || bytes % sizeof(int64_t))
        return mlsi_fail(MLSYS_E_INTERNAL, "proof: %s: attributes of %zu bytes",
                         mlsi_op_name(node->op), bytes);
    for (int i = 0; i < node->n_out; i++)
        out[i] = -1;
    for (int i = 0; i < node->n_in; i++) {
        words[n++] = node->in[i] < 0 ? -1 : ids[node->in[i]];
        if (node->in[i] >= 0 && (node->in[i] >= node->first_out || ids[node->in[i]] < 0))
            return MLSYS_OK;
    }
    if (node->op == MLSI_OP_COPY) return out[0] = ids[node->in[0]], MLSYS_OK;
    if (expand && mlsi_op_get(node->op)->decompose) return decompose(k, f, node, ids, true, out);
    memcpy(words + n, node->attrs, bytes);
    n += (int)(bytes / sizeof(int64_t));
    for (int i = 0; i < node->n_out; i++) {
        words[MLSI_WORD_RESULT] = i;
        MLSI_TRY(mlsi_tuple(&k->t, words, n, &out[i]));
    }
    return MLSYS_OK;
}

static mlsys_status leaf_id(mlsi_value_check *k, const mlsi_value_def *def, int32_t *id) {
    const int64_t leaf[2] = {def->kind == MLSI_VALUE_INPUT ? MLSI_WORD_INPUT : MLSI_WORD_CONST,
                             def->index};
    return mlsi_tuple(&k->t, leaf, 2, id);
}

static mlsys_status call_ids(mlsi_value_check *k, const mlsi_node *node, const int32_t *ids,
                             bool expand, int32_t *out);

/* args: expressions of the inputs, NULL = inputs of the claim. grouped: calls to look into, NULL = none. */
static mlsys_status func_ids(mlsi_value_check *k, const mlsi_func *f, const int32_t *args,
                             const bool *grouped, bool expand, int32_t *ids) {
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT && args) {
            ids[v] = args[def->index];
        } else if (def->kind != MLSI_VALUE_NODE) {
            MLSI_TRY(leaf_id(k, def, &ids[v]));
        } else if (def->result == 0) {
            const mlsi_node *node = &f->nodes[def->index];
            if (grouped && grouped[def->index])
                MLSI_TRY(call_ids(k, node, ids, true, ids + v));
            else
                MLSI_TRY(node_ids(k, f, node, ids, expand, ids + v));
        }
    }
    return MLSYS_OK;
}

/* Results of a function over arguments; -1 where an argument is not known. */
static mlsys_status body_ids(mlsi_value_check *k, int32_t func, const int32_t *args, bool expand,
                             int32_t *out) {
    const mlsi_func f = k->g->funcs[func]; /* by value: the array moves */
    int32_t *ids;
    MLSI_TRY(MLSI_NEW_N(k->g->alloc, f.n_values + 1, &ids));
    mlsys_status st = func_ids(k, &f, args, NULL, expand, ids);
    for (int64_t i = 0; i < f.n_outputs; i++)
        out[i] = ids[f.outputs[i].value];
    mlsi_mem_free(k->g->alloc, ids);
    return st;
}

mlsys_status mlsi_value_body(mlsi_value_check *k, int32_t func, const int32_t *args, int32_t *out) {
    return body_ids(k, func, args, false, out);
}

static mlsys_status call_ids(mlsi_value_check *k, const mlsi_node *node, const int32_t *ids,
                             bool expand, int32_t *out) {
    const mlsi_attr_control *c = node->attrs;
    int32_t args[MLSI_MAX_OPERANDS];
    for (int i = 0; i < node->n_in; i++)
        args[i] = ids[node->in[i]];
    return body_ids(k, (int32_t)c->fn1, args, expand, out);
}

/* ---- helper functions of the graph: decompositions and folded nodes ---------------------------------------------- */

static mlsys_status decompose_into(mlsi_value_check *k, const mlsi_func *f, const mlsi_node *node,
                                   const int32_t *ids, bool expand, int32_t *results) {
    int32_t func, in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS], args[MLSI_MAX_OPERANDS], n = 0;
    MLSI_TRY(mlsi_func_add(k->g, "proof", &func));
    for (int i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] < 0) continue;
        args[n++] = ids[node->in[i]];
        MLSI_TRY(mlsi_build_input(k->g, func, NULL, &f->values[node->in[i]].type, &in[i]));
    }
    MLSI_TRY(mlsi_op_get(node->op)->decompose(k->g, func, node->attrs, node->n_in, in, node->n_out,
                                              out));
    for (int i = 0; i < node->n_out; i++)
        MLSI_TRY(mlsi_build_output(k->g, func, NULL, out[i]));
    return body_ids(k, func, args, expand, results);
}

static mlsys_status decompose(mlsi_value_check *k, const mlsi_func *f, const mlsi_node *node,
                              const int32_t *ids, bool expand, int32_t *out) {
    int64_t n_funcs = k->g->n_funcs;
    mlsys_status st = decompose_into(k, f, node, ids, expand, out);
    mlsi_graph_truncate(k->g, n_funcs);
    return st;
}

/* Does the reference make these bytes of the node's constants? */
static mlsys_status evaluate(mlsi_value_check *k, const mlsi_node *node, int result,
                             const mlsi_tensor *want) {
    int32_t func, in[MLSI_MAX_OPERANDS], out[MLSI_MAX_OPERANDS];
    mlsi_layout l;
    mlsi_view v;
    MLSI_TRY(mlsi_func_add(k->g, "proof", &func));
    for (int i = 0; i < node->n_in; i++) {
        in[i] = -1;
        if (node->in[i] < 0) continue;
        const int64_t *words = mlsi_tuple_words(&k->t, k->before_id[node->in[i]]);
        MLSI_TRY(mlsi_build_const_value(k->g, func, (int32_t)words[1], &in[i]));
    }
    MLSI_TRY(mlsi_build_node(k->g, func, node->op, node->attrs, node->n_in, in, node->n_out, out));
    MLSI_TRY(mlsi_build_output(k->g, func, NULL, out[result]));
    MLSI_TRY(mlsi_type_layout(&k->g->symbols, mlsi_type_of(k->g, func, out[result]), NULL, &l));
    uint64_t bytes = mlsi_layout_bytes(&l);
    void *data;
    MLSI_TRY(mlsi_mem_alloc(k->g->alloc, bytes, &data));
    v = mlsi_view_of(data, &l);
    mlsys_status st = mlsi_interpret(k->g, func, 0, NULL, 1, &v);
    if (st == MLSYS_OK && (!mlsi_layout_contiguous(&want->layout) ||
                           memcmp(data, mlsi_tensor_view_of(want).data, bytes)))
        refuse(k, "the reference gives other elements");
    mlsi_mem_free(k->g->alloc, data);
    return st;
}

/* ---- reasons --------------------------------------------------------------------------------------------------------- */

static mlsys_status check_leaf(mlsi_value_check *k, const mlsi_value_def *old,
                               const mlsi_value_def *now, mlsi_value_kind kind) {
    if (old->kind != kind || now->kind != kind || old->index != now->index)
        return refuse(k, kind == MLSI_VALUE_INPUT ? "they are not the same input"
                                                  : "they are not the same constant");
    return MLSYS_OK;
}

static mlsys_status check_same(mlsi_value_check *k, const mlsi_node *node, int result,
                               int32_t after) {
    const mlsi_node *made = mlsi_node_of(&k->after, after);
    if (!made || made->op != node->op) return refuse(k, "the ops differ");
    if (made->n_in != node->n_in || made->n_out != node->n_out || after - made->first_out != result)
        return refuse(k, "they are different results, or of other operands");
    if (memcmp(made->attrs, node->attrs, mlsi_op_get(node->op)->attrs_size))
        return refuse(k, "the attributes differ");
    for (int i = 0; i < node->n_in; i++) {
        int32_t old = node->in[i] < 0 ? -1 : k->before_id[node->in[i]];
        int32_t now = made->in[i] < 0 ? -1 : k->after_id[made->in[i]];
        if (old != now) return refuse(k, "an operand differs");
    }
    return MLSYS_OK;
}

static mlsys_status check_folded(mlsi_value_check *k, const mlsi_node *node, int result,
                                 int32_t after) {
    const mlsi_value_def *now = &k->after.values[after];
    int64_t n_funcs = k->g->n_funcs;
    if (now->kind != MLSI_VALUE_CONST) return refuse(k, "the new value is no constant");
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 &&
            mlsi_tuple_words(&k->t, k->before_id[node->in[i]])[0] != MLSI_WORD_CONST)
            return refuse(k, "an operand is no constant");
    mlsys_status st = evaluate(k, node, result, k->g->consts[now->index]);
    mlsi_graph_truncate(k->g, n_funcs);
    if (st == MLSYS_OK || st == MLSYS_E_NOMEM) return st;
    return refuse(k, "the reference gives no value");
}

/* The node's results by its decomposition, or by the body of the function that it calls. */
static mlsys_status check_expanded(mlsi_value_check *k, const mlsi_node *node, int result,
                                   int32_t after, bool call) {
    int32_t ids[MLSI_MAX_OPERANDS];
    if (call && node->op != MLSI_OP_CALL) return refuse(k, "the old value is no call");
    if (!call && !mlsi_op_get(node->op)->decompose) return refuse(k, "the op has no decomposition");
    if (call)
        MLSI_TRY(call_ids(k, node, k->before_id, false, ids));
    else
        MLSI_TRY(decompose(k, &k->before, node, k->before_id, false, ids));
    if (ids[result] != k->after_id[after] || ids[result] < 0)
        return refuse(k, "the new value is another expression");
    return MLSYS_OK;
}

/* Composites are compared by their primitives: a body may hold either. */
static mlsys_status check_grouped(mlsi_value_check *k, const mlsi_node *node, int result,
                                  int32_t after) {
    int32_t ids[MLSI_MAX_OPERANDS];
    const mlsi_node *made = mlsi_node_of(&k->after, after);
    if (!made || made->op != MLSI_OP_CALL) return refuse(k, "the new value is no call");
    MLSI_TRY(node_ids(k, &k->before, node, k->before_id, true, ids));
    if (ids[result] < 0 || ids[result] != k->after_id[after])
        return refuse(k, "the body is another expression");
    return MLSYS_OK;
}

static mlsys_status check_node(mlsi_value_check *k, const mlsi_proof_pair *p) {
    const mlsi_value_def *old = &k->before.values[p->before];
    const mlsi_node *node = mlsi_node_of(&k->before, p->before);
    if (!node) return refuse(k, "the old value is no node's");
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && k->before_id[node->in[i]] < 0)
            return refuse(k, "an operand has no expression yet");
    switch (p->by) {
    case MLSI_BY_SAME: return check_same(k, node, old->result, p->after);
    case MLSI_BY_COPY:
        return node->op == MLSI_OP_COPY && k->image[node->in[0]] == p->after
                   ? MLSYS_OK
                   : refuse(k, "the old value is no copy of one that became the new value");
    case MLSI_BY_IDENTITY: {
        const char *why = mlsi_identity_refuses(k, p->identity, node, p->after);
        return why ? refuse(k, why) : MLSYS_OK;
    }
    case MLSI_BY_FOLDED: return check_folded(k, node, old->result, p->after);
    case MLSI_BY_DECOMPOSED: return check_expanded(k, node, old->result, p->after, false);
    case MLSI_BY_INLINED: return check_expanded(k, node, old->result, p->after, true);
    case MLSI_BY_GROUPED: return check_grouped(k, node, old->result, p->after);
    case MLSI_BY_MOVED: return mlsi_check_moved(k, node, old->result, p->after);
    default: return refuse(k, "there is no such reason");
    }
}

static mlsys_status check_pair(mlsi_value_check *k, const mlsi_proof_pair *p) {
    if (p->after < 0 || p->after >= k->after.n_values) return refuse(k, "there is no such value");
    const mlsi_value_def *old = &k->before.values[p->before], *now = &k->after.values[p->after];
    if (k->after_id[p->after] < 0)
        return refuse(k, "the new value reads one that is not defined before it");
    if (!mlsi_type_equal(&old->type, &now->type)) return refuse(k, "the types differ");
    if ((p->identity != NULL) != (p->by == MLSI_BY_IDENTITY))
        return refuse(k, "an identity is named where none is used, or the other way round");
    if (p->by == MLSI_BY_INPUT) return check_leaf(k, old, now, MLSI_VALUE_INPUT);
    if (p->by == MLSI_BY_CONSTANT) return check_leaf(k, old, now, MLSI_VALUE_CONST);
    return check_node(k, p);
}

/* ---- certificates ---------------------------------------------------------------------------------------------------- */

static const char *const reasons[] = {"?",       "input",    "constant", "same",
                                      "copy",    "identity", "folded",   "decomposed",
                                      "inlined", "grouped",  "moved"};

const char *mlsi_reason_name(mlsi_reason by) {
    return by > 0 && by < sizeof reasons / sizeof reasons[0] ? reasons[by] : reasons[0];
}

static mlsys_status refused(const mlsi_value_check *k, const char *what) {
    return mlsi_fail(MLSYS_E_INTERNAL, "certificate of %s, function %s: %s", k->claim->pass,
                     k->before.name, what);
}

static mlsys_status refused_pair(const mlsi_value_check *k, const mlsi_proof_pair *p) {
    return mlsi_fail(MLSYS_E_INTERNAL, "certificate of %s, function %s: %%%d -> %%%d (%s%s%s): %s",
                     k->claim->pass, k->before.name, p->before, p->after, mlsi_reason_name(p->by),
                     p->identity ? " " : "", p->identity ? p->identity : "", k->why);
}

/* Old values in order: paired ones are proved; others, dead or inside a group, are what their operands make them. */
static mlsys_status check_pairs(mlsi_value_check *k, const mlsi_certificate *c) {
    int32_t ids[MLSI_MAX_OPERANDS];
    int64_t next = 0;
    for (int32_t v = 0; v < k->before.n_values; v++) {
        const mlsi_proof_pair *p = next < c->n_pairs ? &c->pairs[next] : NULL;
        const mlsi_node *node = mlsi_node_of(&k->before, v);
        if (p && p->before == v) {
            MLSI_TRY(check_pair(k, p));
            if (k->why) return refused_pair(k, p);
            k->before_id[v] = k->after_id[p->after];
            k->image[v] = p->after;
            next++;
        } else if (node) {
            MLSI_TRY(node_ids(k, &k->before, node, k->before_id, k->has_groups, ids));
            k->before_id[v] = ids[v - node->first_out];
        } else {
            MLSI_TRY(leaf_id(k, &k->before.values[v], &k->before_id[v]));
        }
    }
    return next == c->n_pairs ? MLSYS_OK
                              : refused(k, "pairs are not in the order of the old values");
}

static bool same_name(const char *a, const char *b) { return a && b ? !strcmp(a, b) : a == b; }

static mlsys_status check_interface(const mlsi_value_check *k) {
    const mlsi_func *old = &k->before, *now = &k->after;
    if (!same_name(old->name, now->name) || old->n_inputs != now->n_inputs ||
        old->n_outputs != now->n_outputs)
        return refused(k, "observability: another name, or number of inputs or outputs");
    for (int64_t i = 0; i < old->n_inputs; i++) {
        const mlsi_value_def *a = &old->values[old->inputs[i]], *b = &now->values[now->inputs[i]];
        if (!same_name(a->name, b->name) || !mlsi_type_equal(&a->type, &b->type) ||
            old->donated[i] != now->donated[i])
            return refused(k, "observability: an input has another name, type or donation");
    }
    for (int64_t i = 0; i < old->n_outputs; i++) {
        const mlsi_output *a = &old->outputs[i], *b = &now->outputs[i];
        if (!same_name(a->name, b->name)) return refused(k, "observability: an output's name");
        if (k->image[a->value] < 0) return refused(k, "observability: an output has no new value");
        if (k->before_id[a->value] != k->after_id[b->value])
            return refused(k, "observability: an output is not the old output's new value");
    }
    return MLSYS_OK;
}

static void mark_groups(mlsi_value_check *k, const mlsi_certificate *c) {
    for (int64_t i = 0; i < c->n_pairs; i++) {
        const mlsi_proof_pair *p = &c->pairs[i];
        if (p->by != MLSI_BY_GROUPED || p->after < 0 || p->after >= k->after.n_values) continue;
        const mlsi_node *made = mlsi_node_of(&k->after, p->after);
        if (made && made->op == MLSI_OP_CALL)
            k->grouped[made - k->after.nodes] = k->has_groups = true;
    }
}

static mlsys_status check(mlsi_value_check *k, const mlsi_certificate *c) {
    mlsi_alloc *a = k->g->alloc;
    if (strcmp(c->pass, k->claim->pass) || c->numerics != k->claim->numerics ||
        c->func != k->claim->func)
        return refused(k, "it is of another pass, numerics mode or function");
    MLSI_TRY(MLSI_NEW_N(a, k->before.n_values + 1, &k->before_id));
    MLSI_TRY(MLSI_NEW_N(a, k->before.n_values + 1, &k->image));
    MLSI_TRY(MLSI_NEW_N(a, k->after.n_values + 1, &k->after_id));
    MLSI_TRY(MLSI_NEW_N(a, k->after.n_nodes + 1, &k->grouped));
    memset(k->before_id, 0xff, sizeof *k->before_id * (size_t)k->before.n_values);
    memset(k->image, 0xff, sizeof *k->image * (size_t)k->before.n_values);
    mark_groups(k, c);
    MLSI_TRY(func_ids(k, &k->after, NULL, k->grouped, false, k->after_id));
    MLSI_TRY(check_pairs(k, c));
    return check_interface(k);
}

mlsys_status mlsi_check_certificate(const mlsi_proof_claim *claim, const mlsi_certificate *c) {
    mlsi_value_check k = {.claim = claim,
                          .g = claim->g,
                          .before = claim->g->funcs[claim->before],
                          .after = claim->g->funcs[claim->after]};
    mlsi_alloc *a = claim->g->alloc;
    mlsi_tuples_init(&k.t, a);
    mlsys_status st = check(&k, c);
    mlsi_tuples_free(&k.t);
    mlsi_mem_free(a, k.before_id);
    mlsi_mem_free(a, k.after_id);
    mlsi_mem_free(a, k.image);
    mlsi_mem_free(a, k.grouped);
    return st;
}
