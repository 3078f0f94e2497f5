/* A program's main function as SVG: layers from top to bottom, a node in the layer after its deepest operand, in the order of the
 * text within a layer. Calls of generated kernels are drawn as the nodes inside, in one colour per kernel. */
#include "run/program.h"

#include <stdio.h>
#include <string.h>

enum { BOX_WIDTH = 150, BOX_HEIGHT = 36, STEP_X = 170, STEP_Y = 64, BORDER = 20 };

typedef struct picture_box {
    const char *label; /* static or the op's */
    const mlsi_type *type;
    int32_t value, layer, column;
    const char *style; /* fill for what is no generated kernel, else NULL */
    int32_t kernel;    /* function number, -1 = none */
} picture_box;

typedef struct picture {
    const mlsi_program *p;
    picture_box *boxes;
    int64_t n_boxes, cap_boxes;
    int32_t (*edges)[2]; /* boxes */
    int64_t n_edges, cap_edges;
    bool *has_step; /* per node of main */
} picture;

static mlsys_status add_box(picture *q, const char *label, const mlsi_func *f, int32_t value,
                            const char *style, int32_t kernel, int32_t *box) {
    MLSI_TRY(MLSI_GROW(q->p->graph.alloc, &q->boxes, &q->cap_boxes, q->n_boxes + 1));
    *box = (int32_t)q->n_boxes++;
    q->boxes[*box] =
        (picture_box){label, value < 0 ? NULL : &f->values[value].type, value, 0, 0, style, kernel};
    return MLSYS_OK;
}

static mlsys_status add_edge(picture *q, int32_t from, int32_t to) {
    if (from < 0) return MLSYS_OK; /* a constant */
    MLSI_TRY(MLSI_GROW(q->p->graph.alloc, &q->edges, &q->cap_edges, q->n_edges + 1));
    q->edges[q->n_edges][0] = from;
    q->edges[q->n_edges++][1] = to;
    if (q->boxes[to].layer <= q->boxes[from].layer) q->boxes[to].layer = q->boxes[from].layer + 1;
    return MLSYS_OK;
}

static const char *style_of(const picture *q, const mlsi_func *f, const mlsi_node *node) {
    if (node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE || node->op == MLSI_OP_CALL)
        return "#f2e394";
    return q->has_step[node - f->nodes] ? "#d9d9d9" : "#ffffff";
}

/* box_of: per value of f. kernel: the function when it is one, -1 for main. */
static mlsys_status add_node(picture *q, const mlsi_func *f, const mlsi_node *node, int32_t kernel,
                             int32_t *box_of) {
    int32_t box;
    MLSI_TRY(add_box(q, mlsi_op_name(node->op), f, node->n_out ? node->first_out : -1,
                     kernel < 0 ? style_of(q, f, node) : NULL, kernel, &box));
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) MLSI_TRY(add_edge(q, box_of[node->in[i]], box));
    for (int i = 0; i < node->n_out; i++)
        box_of[node->first_out + i] = box;
    return MLSYS_OK;
}

static mlsys_status add_kernel(picture *q, const mlsi_node *call, int32_t *box_of) {
    int32_t func = ((const mlsi_attr_control *)call->attrs)->fn1, *inner;
    const mlsi_func *f = &q->p->graph.funcs[func];
    MLSI_TRY(MLSI_NEW_N(q->p->graph.alloc, f->n_values + 1, &inner));
    memset(inner, 0xff, sizeof *inner * (size_t)(f->n_values + 1));
    for (int64_t i = 0; i < f->n_inputs; i++)
        inner[f->inputs[i]] = box_of[call->in[i]];
    mlsys_status st = MLSYS_OK;
    for (int64_t i = 0; i < f->n_nodes && st == MLSYS_OK; i++)
        st = add_node(q, f, &f->nodes[i], func, inner);
    for (int64_t i = 0; i < f->n_outputs; i++)
        box_of[call->first_out + i] = inner[f->outputs[i].value];
    mlsi_mem_free(q->p->graph.alloc, inner);
    return st;
}

static mlsys_status add_main(picture *q, int32_t *box_of) {
    const mlsi_func *f = &q->p->graph.funcs[q->p->routines[0].func];
    for (int64_t i = 0; i < f->n_inputs; i++)
        MLSI_TRY(add_box(q, "input", f, f->inputs[i], "#bcd7f0", -1, &box_of[f->inputs[i]]));
    for (int64_t i = 0; i < f->n_nodes; i++)
        MLSI_TRY(mlsi_generated_of(q->p, &f->nodes[i]) ? add_kernel(q, &f->nodes[i], box_of)
                                                       : add_node(q, f, &f->nodes[i], -1, box_of));
    for (int64_t i = 0; i < f->n_outputs; i++) {
        int32_t box;
        MLSI_TRY(add_box(q, "output", f, f->outputs[i].value, "#bfe3c0", -1, &box));
        MLSI_TRY(add_edge(q, box_of[f->outputs[i].value], box));
    }
    return MLSYS_OK;
}

/* ---- drawing --------------------------------------------------------------------------------------------- */

static int32_t box_x(const picture_box *b) { return BORDER + b->column * STEP_X; }
static int32_t box_y(const picture_box *b) { return BORDER + b->layer * STEP_Y; }

static void draw_box(const picture *q, const picture_box *b, mlsi_text *out) {
    char type[256] = "", fill[48];
    if (b->type) mlsi_type_text(&q->p->graph.symbols, b->type, type, sizeof type);
    /* Neighbouring numbers get hues far apart: steps of the golden angle. */
    snprintf(fill, sizeof fill, "hsl(%d,65%%,75%%)", (int)((int64_t)b->kernel * 137 % 360));
    int32_t x = box_x(b), y = box_y(b), middle = x + BOX_WIDTH / 2;
    mlsi_text_add(out,
                  "<g><title>%s %%%d %s%s%s</title><rect x='%d' y='%d' width='%d' height='%d' "
                  "rx='5' fill='%s' stroke='#333'/>\n<text x='%d' y='%d'>%s</text><text x='%d' "
                  "y='%d' font-size='9'>%%%d %.24s</text></g>\n",
                  b->label, b->value, type, b->kernel < 0 ? "" : ", kernel ",
                  b->kernel < 0 ? "" : q->p->graph.funcs[b->kernel].name, x, y, BOX_WIDTH,
                  BOX_HEIGHT, b->style ? b->style : fill, middle, y + 15, b->label, middle, y + 29,
                  b->value, type);
}

static void draw(const picture *q, int32_t columns, int32_t layers, mlsi_text *out) {
    mlsi_text_add(out,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "font-family='sans-serif' font-size='12' text-anchor='middle'>\n"
                  "<rect width='100%%' height='100%%' fill='white'/>\n",
                  2 * BORDER + columns * STEP_X, 2 * BORDER + layers * STEP_Y);
    for (int64_t i = 0; i < q->n_edges; i++) {
        const picture_box *a = &q->boxes[q->edges[i][0]], *b = &q->boxes[q->edges[i][1]];
        mlsi_text_add(out, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#888'/>\n",
                      box_x(a) + BOX_WIDTH / 2, box_y(a) + BOX_HEIGHT, box_x(b) + BOX_WIDTH / 2,
                      box_y(b));
    }
    for (int64_t i = 0; i < q->n_boxes; i++)
        draw_box(q, &q->boxes[i], out);
    mlsi_text_add(out, "</svg>\n");
}

static mlsys_status place(picture *q, mlsi_text *out) {
    int32_t *used, columns = 0, layers = 0;
    MLSI_TRY(MLSI_NEW_N(q->p->graph.alloc, q->n_boxes + 1, &used));
    for (int64_t i = 0; i < q->n_boxes; i++) {
        picture_box *b = &q->boxes[i];
        b->column = used[b->layer]++;
        if (b->column >= columns) columns = b->column + 1;
        if (b->layer >= layers) layers = b->layer + 1;
    }
    mlsi_mem_free(q->p->graph.alloc, used);
    draw(q, columns, layers, out);
    return MLSYS_OK;
}

mlsys_status mlsi_program_picture(const mlsi_program *p, mlsi_text *out) {
    mlsi_alloc *a = p->graph.alloc;
    const mlsi_routine *r = &p->routines[0];
    const mlsi_func *f = &p->graph.funcs[r->func];
    picture q = {.p = p};
    int32_t *box_of = NULL;
    mlsys_status st = MLSI_NEW_N(a, f->n_values + 1, &box_of);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, f->n_nodes + 1, &q.has_step);
    if (st == MLSYS_OK) {
        memset(box_of, 0xff, sizeof *box_of * (size_t)(f->n_values + 1));
        for (int64_t i = 0; i < r->n_steps; i++)
            q.has_step[r->steps[i].node] = true;
        st = add_main(&q, box_of);
    }
    if (st == MLSYS_OK) st = place(&q, out);
    mlsi_mem_free(a, box_of);
    mlsi_mem_free(a, q.has_step);
    mlsi_mem_free(a, q.boxes);
    mlsi_mem_free(a, q.edges);
    return st == MLSYS_OK ? out->st : st;
}
