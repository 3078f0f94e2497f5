/* A program under one binding of its symbols: extents, layouts, attributes, work sizes, plan. All arrays
 * are sized by the program, so binding again allocates nothing. */
#include "core/faults.h"
#include "run/program.h"

#include <string.h>

static mlsys_status routine_create(const mlsi_program *p, int32_t index, mlsi_bound_routine *b) {
    const mlsi_routine *r = &p->routines[index];
    const mlsi_func *f = &p->graph.funcs[r->func];
    mlsi_alloc *a = p->graph.alloc;
    uint64_t attrs = 0;
    b->n_operands = r->n_operands;
    MLSI_TRY(MLSI_NEW_N(a, r->n_operands + 1, &b->operands));
    MLSI_TRY(MLSI_NEW_N(a, r->n_operands + 1, &b->operand_slot));
    MLSI_TRY(MLSI_NEW_N(a, r->n_operands + 1, &b->operand_offset));
    MLSI_TRY(MLSI_NEW_N(a, r->n_slots + 1, &b->slot_bytes));
    MLSI_TRY(MLSI_NEW_N(a, r->n_slots + 1, &b->slot_offset));
    MLSI_TRY(MLSI_NEW_N(a, r->n_slots + 1, &b->base));
    MLSI_TRY(MLSI_NEW_N(a, r->n_steps + 1, &b->work_bytes));
    MLSI_TRY(MLSI_NEW_N(a, r->n_steps + 1, &b->work_offset));
    MLSI_TRY(MLSI_NEW_N(a, r->n_steps + 1, &b->attr_offset));
    MLSI_TRY(MLSI_NEW_N(a, f->n_values + 1, &b->layouts));
    MLSI_TRY(MLSI_NEW_N(a, r->n_operands + 1, &b->customs));
    for (int64_t i = 0; i < r->n_steps; i++) {
        b->attr_offset[i] = attrs;
        attrs += (mlsi_op_get(r->steps[i].op)->attrs_size + 15) & ~(size_t)15;
        if (r->steps[i].op == MLSI_OP_CUSTOM)
            MLSI_TRY(mlsi_custom_operands_create(p, &f->nodes[r->steps[i].node],
                                                 b->customs + r->steps[i].first_operand));
    }
    return MLSI_NEW_N(a, attrs + 1, &b->attrs);
}

mlsys_status mlsi_bound_create(const mlsi_program *p, mlsi_bound **out) {
    mlsi_alloc *a = p->graph.alloc;
    mlsi_bound *b;
    *out = NULL;
    MLSI_TRY(MLSI_NEW(a, &b));
    b->serial = p->serial;
    b->program = p;
    b->device = p->device;
    mlsys_status st = MLSI_NEW_N(a, p->graph.symbols.n_symbols + 1, &b->binding);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, p->graph.symbols.n_symbols + 1, &b->wanted);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, p->n_routines, &b->routines);
    if (st == MLSYS_OK) b->n_routines = p->n_routines;
    int64_t most = 0;
    for (int32_t i = 0; i < p->n_routines; i++)
        if (p->routines[i].n_slots + p->routines[i].n_steps > most)
            most = p->routines[i].n_slots + p->routines[i].n_steps;
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, most + 1, &b->intervals);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, mlsi_plan_scratch(most), &b->scratch);
    if (st == MLSYS_OK) st = mlsi_plan_proof_create(p, &b->proof);
    if (st == MLSYS_OK && p->backend->accel) st = mlsi_accel_bind(p, b);
    for (int32_t i = 0; i < p->n_routines && st == MLSYS_OK; i++)
        st = routine_create(p, i, &b->routines[i]);
    if (st != MLSYS_OK) {
        if (!mlsi_fault(MLSI_FAULT_BOUND_LEAK)) mlsi_bound_free(a, b);
        return st;
    }
    *out = b;
    return MLSYS_OK;
}

static void routine_free(mlsi_alloc *a, mlsi_bound_routine *b) {
    void *owned[] = {b->operands,    b->operand_slot, b->operand_offset, b->slot_bytes,
                     b->slot_offset, b->base,         b->work_bytes,     b->work_offset,
                     b->attr_offset, b->layouts,      b->attrs,          b->customs};
    mlsi_custom_operands_free(b->customs, b->n_operands);
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        mlsi_mem_free(a, owned[i]);
}

void mlsi_bound_free(mlsi_alloc *a, mlsi_bound *b) {
    if (!b) return;
    for (int64_t i = 0; b->routines && i < b->n_routines; i++)
        routine_free(a, &b->routines[i]);
    mlsi_mem_free(a, b->routines);
    mlsi_mem_free(a, b->binding);
    mlsi_mem_free(a, b->wanted);
    mlsi_mem_free(a, b->intervals);
    mlsi_mem_free(a, b->scratch);
    if (b->errors) mlsi_device_free(b->device, b->errors);
    mlsi_mem_free(a, b->error_words);
    mlsi_replay_forget(b);
    mlsi_mem_free(a, b->places);
    mlsi_plan_proof_free(a, &b->proof);
    mlsi_mem_free(a, b);
}

/* Layout of each value: row-major for those with memory of their own, else through the view op. */
static mlsys_status bind_layouts(const mlsi_program *p, const mlsi_routine *r, mlsi_bound *b,
                                 mlsi_bound_routine *br) {
    const mlsi_func *f = &p->graph.funcs[r->func];
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        mlsi_layout type, *l = &br->layouts[v];
        if (def->kind == MLSI_VALUE_CONST) {
            *l = p->graph.consts[def->index]->layout;
            l->offset = 0; /* the slot's base is element (0,...,0) */
            continue;
        }
        MLSI_TRY(mlsi_type_layout(&p->graph.symbols, &def->type, b->wanted, &type));
        *l = type;
        if (def->kind != MLSI_VALUE_NODE) continue;
        const mlsi_node *node = &f->nodes[def->index];
        const mlsi_op_def *op = mlsi_op_get(node->op);
        if (!(op->traits & MLSI_TRAIT_VIEW)) continue;
        bool is_view;
        _Alignas(16) char attrs[1024];
        MLSI_TRY(mlsi_attrs_resolve(op, node->attrs, &p->graph.symbols, b->wanted, attrs));
        MLSI_TRY(op->view(attrs, &br->layouts[node->in[0]], &type, l, &is_view));
        if (!is_view)
            return mlsi_fail(MLSYS_E_INTERNAL, "program: %s was planned as a view and is none",
                             mlsi_op_name(node->op));
    }
    return MLSYS_OK;
}

static void bind_operand(const mlsi_routine *r, mlsi_bound_routine *br, int64_t at, int32_t value) {
    mlsi_view *view = &br->operands[at];
    memset(view, 0, sizeof *view);
    br->operand_slot[at] = -1;
    if (value < 0) return;
    const mlsi_layout *l = &br->layouts[value];
    const mlsi_dtype_info *info = mlsi_dtype_get(l->dtype);
    *view = mlsi_view_of(NULL, l); /* each run says where */
    br->operand_slot[at] = r->slot_of[value];
    br->operand_offset[at] = l->offset / info->block_elems * info->block_bytes;
}

static mlsys_status bind_step(const mlsi_program *p, const mlsi_routine *r, mlsi_bound *b,
                              mlsi_bound_routine *br, int64_t i) {
    const mlsi_step *s = &r->steps[i];
    const mlsi_node *node = &p->graph.funcs[r->func].nodes[s->node];
    const mlsi_op_def *def = mlsi_op_get(s->op);
    char *attrs = br->attrs + br->attr_offset[i];
    MLSI_TRY(mlsi_attrs_resolve(def, node->attrs, &p->graph.symbols, b->wanted, attrs));
    for (int k = 0; k < node->n_in; k++)
        bind_operand(r, br, s->first_operand + k, node->in[k]);
    for (int k = 0; k < node->n_out; k++)
        bind_operand(r, br, s->first_operand + node->n_in + k, node->first_out + k);
    const mlsi_view *operands = br->operands + s->first_operand;
    uint64_t work = 0;
    if (s->op == MLSI_OP_CUSTOM)
        return mlsi_custom_operands_bind(br->customs + s->first_operand, node->n_in + node->n_out,
                                         operands);
    if (def->traits & MLSI_TRAIT_CONTROL) {
        MLSI_TRY(mlsi_control_work_bytes(b, node, operands, &work));
    } else if (s->kernel && s->kernel->work) {
        mlsi_kernel_args args = {.attrs = attrs,
                                 .n_in = node->n_in,
                                 .n_out = node->n_out,
                                 .in = operands,
                                 .out = operands + node->n_in,
                                 .packed = mlsi_step_packed(p, s),
                                 .pool = p->graph.ctx->pool};
        work = s->kernel->work(&args, mlsi_pool_threads(p->graph.ctx->pool));
    }
    if (work > (uint64_t)INT64_MAX)
        return mlsi_fail(MLSYS_E_SHAPE, "program: %s needs more than 2^63 bytes of work memory",
                         mlsi_op_name(s->op));
    br->work_bytes[i] = mlsi_plan_align(work);
    return MLSYS_OK;
}

static mlsys_status plan_routine(const mlsi_program *p, const mlsi_routine *r, mlsi_bound *b,
                                 mlsi_bound_routine *br) {
    mlsi_interval *items = b->intervals;
    int64_t n = r->n_slots + r->n_steps;
    br->unshared_bytes = 0;
    for (int64_t s = 0; s < r->n_slots; s++) {
        const mlsi_slot *slot = &r->slots[s];
        br->slot_bytes[s] = slot->value < 0 ? 0 : mlsi_layout_bytes(&br->layouts[slot->value]);
        bool planned = slot->kind == MLSI_SLOT_SCRATCH && slot->value >= 0;
        items[s] = (mlsi_interval){planned ? mlsi_plan_align(br->slot_bytes[s]) : 0, slot->first,
                                   slot->last, 0};
    }
    for (int64_t i = 0; i < r->n_steps; i++)
        items[r->n_slots + i] = (mlsi_interval){br->work_bytes[i], (int32_t)i, (int32_t)i, 0};
    for (int64_t i = 0; i < n; i++)
        if (!mlsi_add_u64(br->unshared_bytes, items[i].bytes, &br->unshared_bytes))
            br->unshared_bytes = UINT64_MAX;
    MLSI_TRY(mlsi_plan(items, b->scratch, n, p->plan_reuse, &br->arena_bytes));
    for (int64_t s = 0; s < r->n_slots; s++)
        br->slot_offset[s] = items[s].offset;
    for (int64_t i = 0; i < r->n_steps; i++)
        br->work_offset[i] = items[r->n_slots + i].offset;
    return MLSYS_OK;
}

static mlsys_status bind_routine(mlsi_bound *b, int64_t index) {
    const mlsi_program *p = b->program;
    const mlsi_routine *r = &p->routines[index];
    mlsi_bound_routine *br = &b->routines[index];
    MLSI_TRY(bind_layouts(p, r, b, br));
    for (int64_t i = 0; i < r->n_steps; i++)
        MLSI_TRY(bind_step(p, r, b, br, i));
    if (index > 0) mlsi_routine_cost(p, b, index, &br->cost);
    MLSI_TRY(plan_routine(p, r, b, br));
    return mlsi_prove_plan(b, index);
}

mlsys_status mlsi_bound_bind(mlsi_bound *b) {
    size_t bytes = sizeof *b->binding * (size_t)b->program->graph.symbols.n_symbols;
    if (b->valid && !memcmp(b->binding, b->wanted, bytes)) return MLSYS_OK;
    b->valid = false;
    mlsi_replay_forget(b);
    /* Callees have higher numbers, and a control step's work holds its routines' arenas. */
    for (int64_t i = b->n_routines - 1; i >= 0; i--)
        MLSI_TRY(bind_routine(b, i));
    memcpy(b->binding, b->wanted, bytes);
    b->valid = true;
    return MLSYS_OK;
}

static void free_list(mlsi_alloc *a, void *list) {
    for (mlsi_bound *b = list, *next; b; b = next) {
        next = b->next;
        mlsi_bound_free(a, b);
    }
}

enum { MAX_BOUNDS = 8 }; /* programs that a stream remembers */

mlsys_status mlsi_bound_get(const mlsi_program *p, mlsi_stream *s, mlsi_bound **out) {
    mlsi_bound *head = s->plan_cache, **link = &head;
    int n = 0;
    for (; *link; link = &(*link)->next, n++) {
        mlsi_bound *b = *link;
        if (b->serial != p->serial) {
            if (n == MAX_BOUNDS - 1) { /* the least recently used ones go */
                free_list(p->graph.alloc, b->next);
                b->next = NULL;
            }
            continue;
        }
        *link = b->next;
        b->next = head;
        s->plan_cache = *out = b;
        return MLSYS_OK;
    }
    MLSI_TRY(mlsi_bound_create(p, out));
    (*out)->next = head;
    s->plan_cache = *out;
    s->plan_free = free_list;
    return MLSYS_OK;
}

void mlsi_bound_forget(const mlsi_program *p, mlsi_stream *s) {
    mlsi_bound *head = s->plan_cache;
    for (mlsi_bound **link = &head; *link; link = &(*link)->next) {
        mlsi_bound *b = *link;
        if (b->serial != p->serial) continue;
        *link = b->next;
        s->plan_cache = head;
        mlsi_bound_free(p->graph.alloc, b);
        return;
    }
}

mlsys_status mlsi_bound_names(mlsi_bound *b, int n, const char *const *names,
                              const int64_t *values) {
    const mlsi_symtab *t = &b->program->graph.symbols;
    for (int64_t s = 0; s < t->n_symbols; s++)
        b->wanted[s] = t->symbols[s].max - t->symbols[s].max % t->symbols[s].divisor;
    for (int i = 0; i < n; i++) {
        int64_t s = 0;
        while (s < t->n_symbols && strcmp(t->symbols[s].name, names[i]))
            s++;
        if (s == t->n_symbols)
            return mlsi_fail(MLSYS_E_NOTFOUND, "program: no symbol \"%s\"", names[i]);
        const mlsi_symbol *sym = &t->symbols[s];
        if (values[i] < sym->min || values[i] > sym->max || values[i] % sym->divisor)
            return mlsi_fail(MLSYS_E_SHAPE,
                             "program: %s = %lld is outside [%lld, %lld] in steps of %lld",
                             names[i], (long long)values[i], (long long)sym->min,
                             (long long)sym->max, (long long)sym->divisor);
        b->wanted[s] = values[i];
    }
    return MLSYS_OK;
}
