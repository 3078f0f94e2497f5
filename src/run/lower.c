/* From a function after the passes to a routine: steps, slots, kernels, packs. */
#include "core/faults.h"
#include "run/program.h"

#include <stdlib.h>
#include <string.h>

typedef struct lowering {
    mlsi_program *p;
    mlsi_routine *r;
    const mlsi_func *f;
    mlsi_operand *facts;
    int32_t *output_of; /* per value: output number or -1 */
    int32_t *merged;    /* per slot: the slot whose memory it shares, itself when none */
    mlsi_pass_ctx pass;
} lowering;

static bool is_view_node(const lowering *lo, const mlsi_node *node) {
    return (mlsi_op_get(node->op)->traits & MLSI_TRAIT_VIEW) != 0 &&
           mlsi_is_view(node, &lo->facts[node->in[0]]);
}

static mlsys_status add_slot(lowering *lo, mlsi_slot_kind kind, int32_t index, int32_t value,
                             int32_t step) {
    mlsi_routine *r = lo->r;
    MLSI_TRY(MLSI_GROW(lo->p->graph.alloc, &r->slots, &r->cap_slots, r->n_slots + 1));
    r->slots[r->n_slots] = (mlsi_slot){kind, index, value, step, step};
    r->slot_of[value] = (int32_t)r->n_slots++;
    return MLSYS_OK;
}

/* Slots are merged while slot_of still names the old ones. */
static int32_t slot_of(const lowering *lo, int32_t value) {
    int32_t s = lo->r->slot_of[value];
    while (lo->merged[s] != s)
        s = lo->merged[s] = lo->merged[lo->merged[s]];
    return s;
}

static void touch(mlsi_routine *r, int32_t value, int32_t step) {
    mlsi_slot *s = &r->slots[r->slot_of[value]];
    if (s->last < step) s->last = step;
}

static mlsys_status find_pack(mlsi_program *p, const mlsi_node *node, const mlsi_func *f,
                              const mlsi_step *s, int32_t *out) {
    const mlsi_kernel *k = s->kernel;
    *out = -1;
    if (!k || !k->pack) return MLSYS_OK;
    int32_t v = node->in[k->pack_input];
    if (v < 0 || f->values[v].kind != MLSI_VALUE_CONST) return MLSYS_OK;
    int32_t c = f->values[v].index;
    for (int64_t i = 0; i < p->n_packs; i++) {
        const mlsi_pack *q = &p->packs[i];
        if (q->constant == c && q->op == node->op && q->kernel->pack == k->pack &&
            (mlsi_attrs_equal(mlsi_op_get(node->op), q->attrs, node->attrs) ||
             mlsi_fault(MLSI_FAULT_PACK_SHARED)))
            return *out = (int32_t)i, MLSYS_OK;
    }
    mlsi_view view = mlsi_tensor_view_of(p->graph.consts[c]);
    mlsi_pack pack = {.constant = c,
                      .op = node->op,
                      .attrs = node->attrs,
                      .kernel = k,
                      .on_device = p->backend->accel && !s->on_host,
                      .offset = p->packed_bytes,
                      .bytes = k->pack_bytes(&view, node->attrs)};
    MLSI_TRY(MLSI_GROW(p->graph.alloc, &p->packs, &p->cap_packs, p->n_packs + 1));
    if (!pack.on_device &&
        !mlsi_add_u64(p->packed_bytes, mlsi_plan_align(pack.bytes), &p->packed_bytes))
        return mlsi_fail(MLSYS_E_SHAPE, "compile: packed constants exceed 2^64 bytes");
    *out = (int32_t)p->n_packs;
    p->packs[p->n_packs++] = pack;
    return MLSYS_OK;
}

static mlsys_status add_step(lowering *lo, int32_t n) {
    const mlsi_node *node = &lo->f->nodes[n];
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_routine *r = lo->r;
    mlsi_step s = {.op = node->op, .node = n, .first_operand = (int32_t)r->n_operands};
    if (!(def->traits & MLSI_TRAIT_CONTROL))
        s.kernel = mlsi_choose_kernel(&lo->pass, node, lo->facts, false);
    if (lo->p->backend->accel && !s.kernel && !(def->traits & MLSI_TRAIT_CONTROL)) {
        mlsi_pass_ctx host = lo->pass;
        host.backend = &mlsi_cpu_backend;
        s.on_host = true;
        s.kernel = mlsi_choose_kernel(&host, node, lo->facts, false);
    }
    if (!s.kernel && !def->ref && !(def->traits & MLSI_TRAIT_CONTROL))
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "compile: %s has no kernel for these operands",
                         mlsi_op_name(node->op));
    MLSI_TRY(find_pack(lo->p, node, lo->f, &s, &s.pack));
    MLSI_TRY(MLSI_GROW(lo->p->graph.alloc, &r->steps, &r->cap_steps, r->n_steps + 1));
    r->n_operands += node->n_in + node->n_out;
    r->steps[r->n_steps++] = s;
    return MLSYS_OK;
}

/* Uses of slots, found before results are placed: the last step that reads each value's slot. */
static void mark_uses(lowering *lo) {
    mlsi_routine *r = lo->r;
    for (int32_t i = 0; i < r->n_steps; i++) {
        const mlsi_node *node = &lo->f->nodes[r->steps[i].node];
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) touch(r, node->in[k], i);
    }
    for (int64_t s = 0; s < r->n_slots; s++)
        if (r->slots[s].kind == MLSI_SLOT_OUTPUT) r->slots[s].last = (int32_t)r->n_steps;
}

/* The whole slot, contiguous: the slot's own value, or reshapes and barriers of it. */
static bool covers_slot(const lowering *lo, int32_t v) {
    while (lo->r->slots[slot_of(lo, v)].value != v) {
        const mlsi_value_def *def = &lo->f->values[v];
        const mlsi_node *node = def->kind == MLSI_VALUE_NODE ? &lo->f->nodes[def->index] : NULL;
        if (!node || (node->op != MLSI_OP_RESHAPE && node->op != MLSI_OP_BARRIER)) return false;
        v = node->in[0];
    }
    return lo->facts[v].contiguous;
}

static const mlsi_type *input_type(const lowering *lo, int32_t input) {
    return &lo->f->values[lo->f->inputs[input]].type;
}

/* May result o of step i live in operand k's memory? Nobody may read that memory afterwards, and the
 * step itself may read it only through that operand. */
static bool may_share(const lowering *lo, int32_t i, int k, int o) {
    const mlsi_routine *r = lo->r;
    const mlsi_node *node = &lo->f->nodes[r->steps[i].node];
    int32_t v = node->in[k];
    const mlsi_type *result = &lo->f->values[node->first_out + o].type;
    if (v < 0 || !mlsi_type_equal(&lo->f->values[v].type, result)) return false;
    int32_t slot = slot_of(lo, v);
    const mlsi_slot *s = &r->slots[slot], *out = &r->slots[slot_of(lo, node->first_out + o)];
    bool donated = s->kind == MLSI_SLOT_INPUT && lo->r->func == 0 && lo->f->donated[s->index];
    bool scratch = s->kind == MLSI_SLOT_SCRATCH && lo->p->plan_reuse;
    /* An output that is an input's memory is that input's tensor. */
    if (donated && out->kind == MLSI_SLOT_OUTPUT &&
        !mlsi_type_equal(input_type(lo, s->index), result))
        return false;
    if (mlsi_fault(MLSI_FAULT_IN_PLACE_LIVE)) return (scratch || donated) && covers_slot(lo, v);
    if (s->last != i || !(scratch || donated) || !covers_slot(lo, v)) return false;
    for (int j = 0; j < node->n_in; j++)
        if (j != k && node->in[j] >= 0 && slot_of(lo, node->in[j]) == slot) return false;
    return true;
}

/* Result o of step i takes the memory of operand k. */
static void take_operand(lowering *lo, int32_t i, int k, int o) {
    mlsi_routine *r = lo->r;
    const mlsi_node *node = &lo->f->nodes[r->steps[i].node];
    int32_t gone = slot_of(lo, node->first_out + o), keep = slot_of(lo, node->in[k]);
    mlsi_slot *to = &r->slots[keep], *from = &r->slots[gone];
    if (from->kind == MLSI_SLOT_OUTPUT && to->kind == MLSI_SLOT_INPUT)
        r->alias_input[from->index] = to->index;
    else if (from->kind == MLSI_SLOT_OUTPUT)
        to->kind = MLSI_SLOT_OUTPUT, to->index = from->index;
    if (to->last < from->last) to->last = from->last;
    to->value = from->value; /* of the same type; the old value is dead */
    lo->merged[gone] = keep;
    from->last = from->first - 1; /* unused from now on */
    from->value = -1;
}

/* Of a generated kernel: any operand that its loops allow for the result. */
static void share_generated(lowering *lo, int32_t i, const mlsi_generated *made) {
    const mlsi_node *node = &lo->f->nodes[lo->r->steps[i].node];
    for (int o = 0; o < node->n_out; o++) {
        for (int k = 0; k < node->n_in && k < 64; k++) {
            if (!(made->in_place[o] >> k & 1) || !may_share(lo, i, k, o)) continue;
            take_operand(lo, i, k, o);
            break;
        }
    }
}

/* Give results of step i the memory of operands when that is proved safe: one result that of any operand which
 * the kernel allows, several each that of its own. */
static void share_in_place(lowering *lo, int32_t i) {
    const mlsi_kernel *kernel = lo->r->steps[i].on_host ? NULL : lo->r->steps[i].kernel;
    const mlsi_node *node = &lo->f->nodes[lo->r->steps[i].node];
    const mlsi_generated *made = mlsi_generated_of(lo->p, node);
    if (made && made->in_place) {
        share_generated(lo, i, made);
        return;
    }
    for (int k = 0, o = 0; kernel && k < node->n_in && k < 32 && o < node->n_out; k++) {
        if (!(kernel->in_place >> k & 1)) continue;
        bool shared = may_share(lo, i, k, o);
        if (shared) take_operand(lo, i, k, o);
        if (shared || node->n_out > 1) o++;
    }
}

static mlsys_status share_memory(lowering *lo) {
    mlsi_routine *r = lo->r;
    MLSI_TRY(MLSI_NEW_N(lo->p->graph.alloc, r->n_slots + 1, &lo->merged));
    for (int64_t s = 0; s < r->n_slots; s++)
        lo->merged[s] = (int32_t)s;
    for (int32_t i = 0; i < r->n_steps; i++)
        share_in_place(lo, i);
    for (int32_t v = 0; v < lo->f->n_values; v++)
        r->slot_of[v] = slot_of(lo, v);
    mlsi_mem_free(lo->p->graph.alloc, lo->merged);
    return MLSYS_OK;
}

static mlsys_status place_values(lowering *lo) {
    const mlsi_func *f = lo->f;
    mlsi_routine *r = lo->r;
    for (int32_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_INPUT) {
            MLSI_TRY(add_slot(lo, MLSI_SLOT_INPUT, def->index, v, 0));
            if (lo->output_of[v] >= 0) r->alias_input[lo->output_of[v]] = def->index;
        } else if (def->kind == MLSI_VALUE_CONST) {
            MLSI_TRY(add_slot(lo, MLSI_SLOT_CONST, def->index, v, 0));
        } else if (is_view_node(lo, &f->nodes[def->index])) {
            r->slot_of[v] = r->slot_of[f->nodes[def->index].in[0]];
        } else {
            if (def->result == 0) MLSI_TRY(add_step(lo, def->index));
            bool output = lo->output_of[v] >= 0;
            MLSI_TRY(add_slot(lo, output ? MLSI_SLOT_OUTPUT : MLSI_SLOT_SCRATCH,
                              output ? lo->output_of[v] : 0, v, (int32_t)r->n_steps - 1));
        }
    }
    return MLSYS_OK;
}

static mlsys_status lower_func(mlsi_program *p, int32_t func) {
    mlsi_alloc *a = p->graph.alloc;
    lowering lo = {.p = p, .r = &p->routines[func], .f = &p->graph.funcs[func]};
    lo.pass = (mlsi_pass_ctx){&p->graph, p->host, p->backend, p->isa_limit, p->numerics};
    lo.r->func = func;
    mlsys_status st = MLSI_NEW_N(a, lo.f->n_values + 1, &lo.facts);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, lo.f->n_values + 1, &lo.output_of);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, lo.f->n_values + 1, &lo.r->slot_of);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, lo.f->n_outputs + 1, &lo.r->alias_input);
    if (st == MLSYS_OK) {
        memset(lo.output_of, 0xff, sizeof *lo.output_of * (size_t)(lo.f->n_values + 1));
        memset(lo.r->alias_input, 0xff, sizeof *lo.r->alias_input * (size_t)(lo.f->n_outputs + 1));
        for (int32_t i = 0; i < lo.f->n_outputs; i++)
            lo.output_of[lo.f->outputs[i].value] = i;
        mlsi_layout_facts(&p->graph, func, lo.facts);
        st = place_values(&lo);
    }
    if (st == MLSYS_OK) {
        mark_uses(&lo);
        st = share_memory(&lo);
    }
    mlsi_mem_free(a, lo.facts);
    mlsi_mem_free(a, lo.output_of);
    return st;
}

static int by_address(const void *a, const void *b) {
    const mlsi_range *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

/* Constants may share memory: ranges that meet become one. */
static mlsys_status find_const_ranges(mlsi_program *p) {
    int64_t n = 0;
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, p->graph.n_consts + 1, &p->const_ranges));
    for (int64_t i = 0; i < p->graph.n_consts; i++) {
        mlsi_range r = mlsi_tensor_range(p->graph.consts[i]);
        if (r.low < r.high) p->const_ranges[n++] = r;
    }
    qsort(p->const_ranges, (size_t)n, sizeof *p->const_ranges, by_address);
    for (int64_t i = 0; i < n; i++) {
        mlsi_range r = p->const_ranges[i], *last = p->const_ranges;
        if (p->n_const_ranges) last += p->n_const_ranges - 1;
        if (p->n_const_ranges && r.low <= last->high)
            last->high = r.high > last->high ? r.high : last->high;
        else
            p->const_ranges[p->n_const_ranges++] = r;
    }
    return MLSYS_OK;
}

/* Those that the host's kernels read; accelerate.c packs for the others. */
static mlsys_status pack_constants(mlsi_program *p) {
    if (!p->packed_bytes) return MLSYS_OK;
    MLSI_TRY(mlsi_mem_alloc(p->graph.alloc, p->packed_bytes, (void **)&p->packed));
    mlsi_mem_large_pages(p->graph.alloc, p->packed, p->packed_bytes);
    for (int64_t i = 0; i < p->n_packs; i++) {
        const mlsi_pack *k = &p->packs[i];
        if (k->on_device) continue;
        mlsi_view view = mlsi_tensor_view_of(p->graph.consts[k->constant]);
        k->kernel->pack(&view, k->attrs, p->packed + k->offset, p->graph.ctx->pool);
    }
    return MLSYS_OK;
}

static mlsys_status lower_routines(mlsi_program *p) {
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, p->graph.n_funcs, &p->routines));
    p->n_routines = p->graph.n_funcs;
    for (int32_t f = 0; f < p->n_routines; f++)
        MLSI_TRY(lower_func(p, f));
    return MLSYS_OK;
}

void mlsi_routines_free(mlsi_program *p) {
    mlsi_alloc *a = p->graph.alloc;
    for (int64_t i = 0; i < p->n_routines; i++) {
        mlsi_mem_free(a, p->routines[i].steps);
        mlsi_mem_free(a, p->routines[i].slots);
        mlsi_mem_free(a, p->routines[i].slot_of);
        mlsi_mem_free(a, p->routines[i].alias_input);
    }
    mlsi_mem_free(a, p->routines);
    mlsi_mem_free(a, p->packs);
    p->routines = NULL;
    p->packs = NULL;
    p->n_routines = p->n_packs = p->cap_packs = 0;
    p->packed_bytes = 0;
}

mlsys_status mlsi_routine_peak(void *program, int32_t func, uint64_t *bytes) {
    mlsi_program *p = program;
    mlsi_bound *b = NULL;
    mlsys_status st = lower_routines(p);
    if (st == MLSYS_OK) st = mlsi_bound_create(p, &b);
    if (st == MLSYS_OK) st = mlsi_bound_names(b, 0, NULL, NULL);
    if (st == MLSYS_OK) st = mlsi_bound_bind(b);
    if (st == MLSYS_OK) *bytes = b->routines[func].arena_bytes;
    mlsi_bound_free(p->graph.alloc, b);
    mlsi_routines_free(p);
    return st;
}

mlsys_status mlsi_lower_program(mlsi_program *p) {
    MLSI_TRY(lower_routines(p));
    MLSI_TRY(pack_constants(p));
    return find_const_ranges(p);
}
