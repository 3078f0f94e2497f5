/* What ir/proof is asked about programs: nests of generated kernels, and the memory plan of each binding. */
#include "run/program.h"

mlsys_status mlsi_prove_nest(mlsi_program *p, int32_t func, mlsi_nest *n) {
    mlsi_verdict v;
    if (!p->prove) return MLSYS_OK;
    MLSI_TRY(mlsi_check_nest(&p->graph, func, n, &v));
    if (v.answer == MLSI_REFUSED) return mlsi_fail(MLSYS_E_INTERNAL, "compile: proof of %s", v.why);
    if (v.answer == MLSI_NOT_COVERED)
        mlsi_log(p->graph.ctx, MLSYS_LOG_DEBUG, "compile", "proof: not covered: %s", v.why);
    return MLSYS_OK;
}

mlsys_status mlsi_plan_proof_create(const mlsi_program *p, mlsi_plan_proof *out) {
    mlsi_alloc *a = p->graph.alloc;
    int64_t steps = 0, slots = 0, values = 0;
    if (!p->prove) return MLSYS_OK;
    for (int64_t i = 0; i < p->n_routines; i++) {
        const mlsi_routine *r = &p->routines[i];
        int64_t n = p->graph.funcs[r->func].n_values;
        if (r->n_steps > steps) steps = r->n_steps;
        if (r->n_slots > slots) slots = r->n_slots;
        if (n > values) values = n;
    }
    MLSI_TRY(MLSI_NEW_N(a, steps + 1, &out->steps));
    MLSI_TRY(MLSI_NEW_N(a, slots + 1, &out->slots));
    return MLSI_NEW_N(a, values + slots + 1, &out->scratch);
}

void mlsi_plan_proof_free(mlsi_alloc *a, mlsi_plan_proof *proof) {
    mlsi_mem_free(a, proof->steps);
    mlsi_mem_free(a, proof->slots);
    mlsi_mem_free(a, proof->scratch);
}

mlsys_status mlsi_prove_plan(const mlsi_bound *b, int64_t routine) {
    static const mlsi_plan_kind kinds[] = {[MLSI_SLOT_INPUT] = MLSI_PLAN_INPUT,
                                           [MLSI_SLOT_CONST] = MLSI_PLAN_CONST,
                                           [MLSI_SLOT_SCRATCH] = MLSI_PLAN_SCRATCH,
                                           [MLSI_SLOT_OUTPUT] = MLSI_PLAN_OUTPUT};
    const mlsi_routine *r = &b->program->routines[routine];
    const mlsi_bound_routine *br = &b->routines[routine];
    const mlsi_plan_proof *m = &b->proof;
    if (!b->program->prove) return MLSYS_OK;
    for (int64_t i = 0; i < r->n_steps; i++) {
        const mlsi_node *node = &b->program->graph.funcs[r->func].nodes[r->steps[i].node];
        const mlsi_generated *made = mlsi_generated_of(b->program, node);
        m->steps[i] =
            (mlsi_plan_step){.node = r->steps[i].node,
                             .in_place = r->steps[i].kernel ? r->steps[i].kernel->in_place : 0,
                             .generated = made ? made->in_place : NULL,
                             .work_offset = br->work_offset[i],
                             .work_bytes = br->work_bytes[i]};
    }
    for (int64_t i = 0; i < r->n_slots; i++)
        m->slots[i] = (mlsi_plan_slot){kinds[r->slots[i].kind], r->slots[i].index,
                                       br->slot_offset[i], br->slot_bytes[i]};
    const mlsi_plan_claim claim = {.g = &b->program->graph,
                                   .func = r->func,
                                   .n_steps = r->n_steps,
                                   .n_slots = r->n_slots,
                                   .steps = m->steps,
                                   .slots = m->slots,
                                   .slot_of = r->slot_of,
                                   .alias_input = r->alias_input,
                                   .arena_bytes = br->arena_bytes};
    return mlsi_check_plan(&claim, m->scratch);
}
