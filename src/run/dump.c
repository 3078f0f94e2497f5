/* What a program is, in text, JSON and SVG. */
#include "run/program.h"

#include <string.h>

static void add_cost(mlsi_op_cost *sum, const mlsi_op_cost *c) {
    sum->flops += c->flops;
    sum->transcendentals += c->transcendentals;
    sum->bytes_read += c->bytes_read;
    sum->bytes_written += c->bytes_written;
}

void mlsi_routine_cost(const mlsi_program *p, const mlsi_bound *b, int64_t routine,
                       mlsi_op_cost *out) {
    mlsi_op_cost c;
    memset(out, 0, sizeof *out);
    for (int64_t i = 0; i < p->routines[routine].n_steps; i++) {
        mlsi_step_cost(p, b, (int32_t)routine, i, &c);
        add_cost(out, &c);
    }
}

/* An if costs its dearer branch; a while, whose turns nobody knows, one turn. */
static mlsi_op_cost control_cost(const mlsi_bound *b, const mlsi_node *node) {
    const mlsi_attr_control *c = node->attrs;
    mlsi_op_cost first = b->routines[c->fn1].cost;
    if (node->op == MLSI_OP_CALL) return first;
    mlsi_op_cost second = b->routines[c->fn2].cost;
    if (node->op == MLSI_OP_IF) return second.flops > first.flops ? second : first;
    add_cost(&first, &second);
    return first;
}

void mlsi_step_cost(const mlsi_program *p, const mlsi_bound *b, int32_t routine, int64_t step,
                    mlsi_op_cost *out) {
    const mlsi_routine *r = &p->routines[routine];
    const mlsi_bound_routine *br = &b->routines[routine];
    const mlsi_step *s = &r->steps[step];
    const mlsi_node *node = &p->graph.funcs[r->func].nodes[s->node];
    const mlsi_op_def *def = mlsi_op_get(s->op);
    const mlsi_view *operands = br->operands + s->first_operand;
    const int32_t *slot = br->operand_slot + s->first_operand;
    mlsi_cost_args a = {.attrs = br->attrs + br->attr_offset[step],
                        .n_in = node->n_in,
                        .n_out = node->n_out,
                        .in = operands,
                        .out = operands + node->n_in,
                        .in_place = node->n_in > 0 && slot[0] >= 0 && slot[0] == slot[node->n_in]};
    memset(out, 0, sizeof *out);
    if (node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE || node->op == MLSI_OP_CALL)
        *out = control_cost(b, node);
    if (node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE) return;
    if (node->op == MLSI_OP_CALL) out->bytes_read = out->bytes_written = 0;
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0) out->bytes_read += mlsi_view_bytes(&a.in[i]);
    for (int i = 0; i < node->n_out; i++)
        out->bytes_written += mlsi_view_bytes(&a.out[i]);
    if (def->cost && node->op != MLSI_OP_CALL) def->cost(&a, out);
}

static void dump_steps(const mlsi_program *p, mlsi_text *out) {
    for (int64_t k = 0; k < p->n_routines; k++) {
        const mlsi_routine *r = &p->routines[k];
        const mlsi_func *f = &p->graph.funcs[r->func];
        mlsi_text_add(out, "%s: %lld steps\n", f->name, (long long)r->n_steps);
        for (int64_t i = 0; i < r->n_steps; i++) {
            const mlsi_step *s = &r->steps[i];
            const mlsi_node *node = &f->nodes[s->node];
            mlsi_text_add(out, "%5lld  %-20s %-32s", (long long)i, mlsi_op_name(s->op),
                          mlsi_step_name(p, node, s));
            for (int j = 0; j < node->n_in; j++)
                if (node->in[j] >= 0)
                    mlsi_text_add(out, " %%%d@%d", node->in[j], r->slot_of[node->in[j]]);
            mlsi_text_add(out, " ->");
            for (int j = 0; j < node->n_out; j++)
                mlsi_text_add(out, " %%%d@%d", node->first_out + j,
                              r->slot_of[node->first_out + j]);
            mlsi_text_add(out, s->pack >= 0 ? "  packed %d\n" : "\n", s->pack);
        }
    }
}

static void dump_cost(const mlsi_program *p, const mlsi_bound *b, mlsi_text *out) {
    mlsi_op_cost total = {0};
    const mlsi_routine *r = &p->routines[0];
    mlsi_text_add(out, "{\"steps\":[");
    for (int64_t i = 0; i < r->n_steps; i++) {
        const mlsi_step *s = &r->steps[i];
        mlsi_op_cost c;
        mlsi_step_cost(p, b, 0, i, &c);
        uint64_t bytes = c.bytes_read + c.bytes_written;
        mlsi_text_add(out,
                      "%s\n{\"step\":%lld,\"op\":\"%s\",\"kernel\":\"%s\",\"flops\":%llu,"
                      "\"transcendentals\":%llu,\"bytes_read\":%llu,\"bytes_written\":%llu,"
                      "\"flops_per_byte\":%.4g}",
                      i ? "," : "", (long long)i, mlsi_op_name(s->op),
                      mlsi_step_name(p, &p->graph.funcs[r->func].nodes[s->node], s),
                      (unsigned long long)c.flops, (unsigned long long)c.transcendentals,
                      (unsigned long long)c.bytes_read, (unsigned long long)c.bytes_written,
                      bytes ? (double)c.flops / (double)bytes : 0.0);
        add_cost(&total, &c);
    }
    mlsi_text_add(out,
                  "],\n\"total\":{\"flops\":%llu,\"transcendentals\":%llu,\"bytes_read\":%llu,"
                  "\"bytes_written\":%llu}}\n",
                  (unsigned long long)total.flops, (unsigned long long)total.transcendentals,
                  (unsigned long long)total.bytes_read, (unsigned long long)total.bytes_written);
}

static void dump_plan(const mlsi_program *p, const mlsi_bound *b, mlsi_text *out) {
    const mlsi_routine *r = &p->routines[0];
    const mlsi_bound_routine *br = &b->routines[0];
    const char *sep = "";
    mlsi_text_add(out, "{\"arena_bytes\":%llu,\"without_reuse\":%llu,\"buffers\":[",
                  (unsigned long long)br->arena_bytes, (unsigned long long)br->unshared_bytes);
    for (int64_t s = 0; s < r->n_slots; s++) {
        const mlsi_slot *slot = &r->slots[s];
        if (slot->kind != MLSI_SLOT_SCRATCH || slot->value < 0) continue;
        mlsi_text_add(out,
                      "%s\n{\"slot\":%lld,\"value\":%d,\"offset\":%llu,\"bytes\":%llu,\"first\":%d,"
                      "\"last\":%d}",
                      sep, (long long)s, slot->value, (unsigned long long)br->slot_offset[s],
                      (unsigned long long)br->slot_bytes[s], slot->first, slot->last);
        sep = ",";
    }
    for (int64_t i = 0; i < r->n_steps; i++) {
        if (!br->work_bytes[i]) continue;
        mlsi_text_add(out, "%s\n{\"work_of_step\":%lld,\"offset\":%llu,\"bytes\":%llu}", sep,
                      (long long)i, (unsigned long long)br->work_offset[i],
                      (unsigned long long)br->work_bytes[i]);
        sep = ",";
    }
    mlsi_text_add(out, "]}\n");
}

enum { MAP_WIDTH = 1200, MAP_HEIGHT = 600, MARGIN = 60 };

static void svg_box(mlsi_text *out, double x0, double x1, double y0, double y1, const char *fill,
                    const char *label, uint64_t bytes, int32_t first, int32_t last) {
    mlsi_text_add(out,
                  "<rect x='%.2f' y='%.2f' width='%.2f' height='%.2f' fill='%s' stroke='#333' "
                  "stroke-width='0.3'><title>%s: %llu bytes, steps %d to %d</title></rect>\n",
                  x0, y0, x1 - x0, y1 - y0, fill, label, (unsigned long long)bytes, first, last);
}

/* Steps from left to right, addresses from bottom to top. */
static void dump_map(const mlsi_program *p, const mlsi_bound *b, mlsi_text *out) {
    const mlsi_routine *r = &p->routines[0];
    const mlsi_bound_routine *br = &b->routines[0];
    double sx = (double)MAP_WIDTH / (double)(r->n_steps > 0 ? r->n_steps : 1);
    double sy = (double)MAP_HEIGHT / (double)(br->arena_bytes > 0 ? br->arena_bytes : 1);
    mlsi_text_add(out,
                  "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
                  "font-family='sans-serif' font-size='14'>\n<rect width='100%%' height='100%%' "
                  "fill='white'/>\n<text x='%d' y='30'>arena %llu bytes (%llu without reuse); x: "
                  "%lld steps, y: address</text>\n<rect x='%d' y='%d' width='%d' height='%d' "
                  "fill='#f4f4f4' stroke='#333'/>\n",
                  MAP_WIDTH + 2 * MARGIN, MAP_HEIGHT + 2 * MARGIN, MARGIN,
                  (unsigned long long)br->arena_bytes, (unsigned long long)br->unshared_bytes,
                  (long long)r->n_steps, MARGIN, MARGIN, MAP_WIDTH, MAP_HEIGHT);
    for (int64_t s = 0; s < r->n_slots; s++) {
        const mlsi_slot *slot = &r->slots[s];
        if (slot->kind != MLSI_SLOT_SCRATCH || slot->value < 0) continue;
        double low = (double)br->slot_offset[s], high = low + (double)br->slot_bytes[s];
        svg_box(out, MARGIN + sx * slot->first, MARGIN + sx * (slot->last + 1),
                MARGIN + MAP_HEIGHT - sy * high, MARGIN + MAP_HEIGHT - sy * low, "#7aa6d8",
                "buffer", br->slot_bytes[s], slot->first, slot->last);
    }
    for (int64_t i = 0; i < r->n_steps; i++) {
        if (!br->work_bytes[i]) continue;
        double low = (double)br->work_offset[i], high = low + (double)br->work_bytes[i];
        svg_box(out, MARGIN + sx * (double)i, MARGIN + sx * (double)(i + 1),
                MARGIN + MAP_HEIGHT - sy * high, MARGIN + MAP_HEIGHT - sy * low, "#e0a458", "work",
                br->work_bytes[i], (int32_t)i, (int32_t)i);
    }
    mlsi_text_add(out, "</svg>\n");
}

mlsys_status mlsi_program_dump_text(const mlsi_program *p, int32_t what, mlsi_text *out) {
    mlsi_bound *b = NULL;
    if (what == MLSYS_DUMP_GRAPH) {
        mlsi_graph_print_brief(&p->graph, out);
        return out->st;
    }
    if (what == MLSYS_DUMP_KERNELS) {
        dump_steps(p, out);
        return out->st;
    }
    if (what == MLSYS_DUMP_PICTURE) return mlsi_program_picture(p, out);
    if (mlsi_dump_compiling(p, what, out)) return out->st;
    if (what != MLSYS_DUMP_COST && what != MLSYS_DUMP_MEMPLAN && what != MLSYS_DUMP_MEMMAP)
        return mlsi_fail(MLSYS_E_ARG, "program_dump: what = %d is not an MLSYS_DUMP_* value", what);
    MLSI_TRY(mlsi_bound_create(p, &b));
    mlsys_status st = mlsi_bound_names(b, 0, NULL, NULL);
    if (st == MLSYS_OK) st = mlsi_bound_bind(b);
    if (st == MLSYS_OK && what == MLSYS_DUMP_COST) dump_cost(p, b, out);
    if (st == MLSYS_OK && what == MLSYS_DUMP_MEMPLAN) dump_plan(p, b, out);
    if (st == MLSYS_OK && what == MLSYS_DUMP_MEMMAP) dump_map(p, b, out);
    mlsi_bound_free(p->graph.alloc, b);
    return st == MLSYS_OK ? out->st : st;
}
