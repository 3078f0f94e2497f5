/* What fusion did, in words. The reasons are the rules' own answers (fuse_group.c); here are their sentences. */
#include "ir/passes/fuse.h"

#include "core/faults.h"

/* $: the op that the reason is about, producer or reader. */
static const char *const sentences[MLSI_FUSE_N_WHYS] = {
    [MLSI_FUSE_VIEW] = "a view: nothing is computed between them",
    [MLSI_FUSE_NO_LOOPS] = "$ has no loops that a kernel can share",
    [MLSI_FUSE_DTYPE] = "$ has a dtype that generated kernels do not compute",
    [MLSI_FUSE_MEMORY] = "an operand of $ is not dense in memory",
    [MLSI_FUSE_AXES] = "$ is one element: there is nothing to walk",
    [MLSI_FUSE_SHAPES] = "shapes differ: $ does not walk the kernel's elements",
    [MLSI_FUSE_ROWS] = "rows differ: $ does not go over the kernel's rows",
    [MLSI_FUSE_NEIGHBOURS] = "$ parts neighbours along the last axis",
    [MLSI_FUSE_EARLIER] = "$ is read by another node before the kernel's place",
    [MLSI_FUSE_ELSEWHERE] = "$ is in another kernel",
    [MLSI_FUSE_FULL] = "the kernel has as many nodes as it may",
    [MLSI_FUSE_FAR] = "too many nodes stand between them",
    [MLSI_FUSE_VALUES_FULL] = "the kernel would have too many operands or results",
    [MLSI_FUSE_ALONE] = "no other node would join them, and a view costs nothing",
    [MLSI_FUSE_LITTLE] = "too little would be saved"};

static void add_sentence(const char *text, const char *op, mlsi_text *out) {
    const char *at = text;
    while (*at && *at != '$')
        at++;
    if (*at)
        mlsi_text_add(out, "%.*s%s%s", (int)(at - text), text, op, at + 1);
    else
        mlsi_text_add(out, "%s", text);
}

static void add_node(const mlsi_fuse_state *s, const mlsi_node *node, mlsi_text *out) {
    char type[256];
    mlsi_text_add(
        out, "%%%d %s %s", node->first_out, mlsi_op_name(node->op),
        mlsi_type_text(&s->g->symbols, &s->f->values[node->first_out].type, type, sizeof type));
}

static void add_edge(const mlsi_fuse_state *s, const mlsi_node *from, const mlsi_node *to,
                     uint8_t why, mlsi_text *out) {
    mlsi_fuse_why reason = (mlsi_fuse_why)(why & ~MLSI_FUSE_READER);
    mlsi_text_add(out, "  ");
    add_node(s, from, out);
    mlsi_text_add(out, " -> ");
    add_node(s, to, out);
    mlsi_text_add(out, ": ");
    add_sentence(sentences[reason], mlsi_op_name(why & MLSI_FUSE_READER ? to->op : from->op), out);
    if (reason == MLSI_FUSE_LITTLE)
        mlsi_text_add(out, ": less than %lld bytes", (long long)mlsi_fuse_least(s));
    mlsi_text_add(out, "\n");
}

/* ---- bytes ----------------------------------------------------------------------------------------------- */

static int64_t sum(int64_t a, int64_t b) { return mlsi_add_i64(a, b, &a) ? a : INT64_MAX; }

/* What a step alone reads for an operand: through views, the smallest of what they look at. */
static int64_t read_bytes(const mlsi_fuse_state *s, int32_t v) {
    int64_t least = mlsi_fuse_bytes(s, v);
    for (;;) {
        const mlsi_value_def *def = &s->f->values[v];
        const mlsi_node *node = def->kind == MLSI_VALUE_NODE ? &s->f->nodes[def->index] : NULL;
        if (!node || !mlsi_fuse_is_movement(node->op)) return least;
        if (!node->n_in) return 0; /* iota, full */
        v = node->in[0];
        if (mlsi_fuse_bytes(s, v) < least) least = mlsi_fuse_bytes(s, v);
    }
}

static void bytes_of_group(const mlsi_fuse_state *s, const mlsi_fusion *u, int64_t *before,
                           int64_t *after) {
    *before = *after = 0;
    for (int i = 0; i < u->n_nodes; i++) {
        const mlsi_node *node = &s->f->nodes[u->nodes[i]];
        if (mlsi_fuse_is_movement(node->op)) continue;
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) *before = sum(*before, read_bytes(s, node->in[k]));
        if (!mlsi_fault(MLSI_FAULT_FUSE_REPORT_BYTES))
            *before = sum(*before, mlsi_fuse_bytes(s, node->first_out));
    }
    for (int i = 0; i < u->n_inputs; i++)
        *after = sum(*after, mlsi_fuse_bytes(s, u->inputs[i]));
    for (int i = 0; i < u->n_outputs; i++)
        *after = sum(*after, mlsi_fuse_bytes(s, u->outputs[i]));
}

static void add_groups(const mlsi_fuse_state *s, const mlsi_fusion *groups, const int32_t *func_of,
                       int64_t n, mlsi_text *out) {
    for (int64_t i = n - 1; i >= 0; i--) { /* they were found from the end */
        const mlsi_fusion *u = &groups[i];
        int64_t before, after;
        bytes_of_group(s, u, &before, &after);
        mlsi_text_add(out, "  %s, bytes %lld -> %lld:", s->g->funcs[func_of[i]].name,
                      (long long)before, (long long)after);
        for (int k = 0; k < u->n_nodes; k++) {
            const mlsi_node *node = &s->f->nodes[u->nodes[k]];
            mlsi_text_add(out, " %%%d %s", node->first_out, mlsi_op_name(node->op));
        }
        mlsi_text_add(out, "\n");
    }
}

void mlsi_fuse_report(const mlsi_fuse_state *s, const mlsi_fusion *groups, const int32_t *func_of,
                      int64_t n_groups, mlsi_text *out) {
    mlsi_text_add(out, "%s: %lld kernels of several nodes\n", s->g->funcs[s->func].name,
                  (long long)n_groups);
    add_groups(s, groups, func_of, n_groups, out);
    for (int64_t n = 0; n < s->f->n_nodes; n++) {
        const mlsi_node *node = &s->f->nodes[n];
        for (int k = 0; k < node->n_in; k++) {
            const mlsi_value_def *def = node->in[k] < 0 ? NULL : &s->f->values[node->in[k]];
            uint8_t why = s->edge_why[s->edges[n] + k];
            if (def && def->kind == MLSI_VALUE_NODE && why != MLSI_FUSE_JOINED)
                add_edge(s, &s->f->nodes[def->index], node, why, out);
        }
    }
}
