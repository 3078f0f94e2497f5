/* Memory plans: those of real programs hold; a claim with any number changed is refused or keeps every value till its last
 * reader, byte by byte. */
#include "core/faults.h"
#include "support/program_case.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

/* A claim that can be changed. */
typedef struct claim_case {
    mlsys_program handle;
    mlsi_program *p;
    mlsi_bound *b;
    mlsi_plan_claim c;
    mlsi_plan_step *steps;
    mlsi_plan_slot *slots;
    int32_t *slot_of, *alias, *scratch;
} claim_case;

static void *copied(const void *from, int64_t n, size_t size) {
    void *to = malloc((size_t)n * size + 1);
    memcpy(to, from, (size_t)n * size);
    return to;
}

static void open_claim(uint64_t seed, claim_case *t) {
    kc_rng r = kc_seed(seed);
    mlsi_graph g;
    rg_options o = {.nodes = 6 + (int)(seed % 30), .inputs = 3, .outputs = 3, .donate = seed & 1};
    OK(mlsi_graph_init(&g, pc.ctx));
    rg_graph(&r, &g, pc.device, &o);
    t->handle = pc_compile_inside(&pc, &g, "fuse=never");
    mlsi_graph_free(&g);
    OK(mlsi_pin(t->handle, MLSYS_KIND_PROGRAM, "test", &t->p));
    OK(mlsi_bound_create(t->p, &t->b));
    OK(mlsi_bound_names(t->b, 0, NULL, NULL));
    OK(mlsi_bound_bind(t->b));
    const mlsi_routine *m = &t->p->routines[0];
    const mlsi_func *f = &t->p->graph.funcs[0];
    t->steps = copied(t->b->proof.steps, m->n_steps, sizeof *t->steps);
    t->slots = copied(t->b->proof.slots, m->n_slots, sizeof *t->slots);
    t->slot_of = copied(m->slot_of, f->n_values, sizeof *t->slot_of);
    t->alias = copied(m->alias_input, f->n_outputs, sizeof *t->alias);
    t->scratch = malloc(sizeof *t->scratch * (size_t)(f->n_values + m->n_slots + 1));
    t->c = (mlsi_plan_claim){&t->p->graph, 0,        m->n_steps,
                             m->n_slots,   t->steps, t->slots,
                             t->slot_of,   t->alias, t->b->routines[0].arena_bytes};
}

static void close_claim(claim_case *t) {
    void *owned[] = {t->steps, t->slots, t->slot_of, t->alias, t->scratch};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]);
    mlsi_bound_free(&pc.ctx->alloc, t->b);
    mlsi_unpin(t->p);
    OK(mlsys_release(t->handle));
}

/* ---- byte by byte: a second opinion ------------------------------------------------------------------ */

enum { UNIT = 64 };

typedef struct tags {
    const mlsi_plan_claim *c;
    int32_t *arena,
        *fixed; /* per unit of the arena; per slot elsewhere: the value whose bytes are there, plus 1 */
} tags;

static void put(const tags *t, uint64_t at, uint64_t bytes, int32_t tag) {
    for (uint64_t u = at / UNIT; u < (at + bytes + UNIT - 1) / UNIT; u++)
        t->arena[u] = tag;
}

static void write_value(const tags *t, int32_t slot, int32_t tag) {
    const mlsi_plan_slot *s = &t->c->slots[slot];
    if (s->kind == MLSI_PLAN_SCRATCH)
        put(t, s->offset, s->bytes, tag);
    else
        t->fixed[slot] = tag;
}

static bool holds(const tags *t, int32_t slot, int32_t tag) {
    const mlsi_plan_slot *s = &t->c->slots[slot];
    if (s->kind != MLSI_PLAN_SCRATCH) return t->fixed[slot] == tag;
    for (uint64_t u = s->offset / UNIT; u < (s->offset + s->bytes + UNIT - 1) / UNIT; u++)
        if (t->arena[u] != tag) return false;
    return true;
}

/* Whose memory a value shows, when nodes without a step are views. */
static int32_t root_of(const mlsi_plan_claim *c, int32_t v) {
    const mlsi_func *f = &c->g->funcs[c->func];
    for (;;) {
        const mlsi_value_def *def = &f->values[v];
        bool step = def->kind != MLSI_VALUE_NODE;
        for (int64_t i = 0; i < c->n_steps; i++)
            step |= c->steps[i].node == def->index;
        if (step) return v;
        v = f->nodes[def->index].in[0];
    }
}

static bool keeps_all(const mlsi_plan_claim *c) {
    const mlsi_func *f = &c->g->funcs[c->func];
    tags t = {c, calloc(c->arena_bytes / UNIT + 64, 4), calloc((size_t)c->n_slots + 1, 4)};
    bool good = true;
    for (int64_t i = 0; i < c->n_slots; i++)
        if (c->slots[i].kind == MLSI_PLAN_SCRATCH &&
            c->slots[i].offset + c->slots[i].bytes > c->arena_bytes)
            good = c->slots[i].bytes == 0; /* accepted only when nobody uses it */
    for (int32_t v = 0; v < f->n_values && good; v++)
        if (f->values[v].kind != MLSI_VALUE_NODE) write_value(&t, c->slot_of[v], v + 1);
    for (int64_t i = 0; i < c->n_steps && good; i++) {
        const mlsi_node *n = &f->nodes[c->steps[i].node];
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] >= 0)
                good = good && holds(&t, c->slot_of[n->in[k]], root_of(c, n->in[k]) + 1);
        put(&t, c->steps[i].work_offset, c->steps[i].work_bytes, 0);
        for (int k = 0; k < n->n_in; k++) /* not under the work memory either */
            if (n->in[k] >= 0)
                good = good && holds(&t, c->slot_of[n->in[k]], root_of(c, n->in[k]) + 1);
        for (int k = 0; k < n->n_out; k++)
            write_value(&t, c->slot_of[n->first_out + k], n->first_out + k + 1);
        for (int k = 0; k < n->n_out; k++)
            good = good && holds(&t, c->slot_of[n->first_out + k], n->first_out + k + 1);
    }
    for (int64_t i = 0; i < f->n_outputs && good; i++)
        good = holds(&t, c->slot_of[f->outputs[i].value], root_of(c, f->outputs[i].value) + 1);
    free(t.arena);
    free(t.fixed);
    return good;
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

START_TEST(real_plans_hold) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        claim_case t;
        open_claim(seed, &t);
        OK(mlsi_check_plan(&t.c, t.scratch));
        REQUIRE(keeps_all(&t.c));
        close_claim(&t);
    }
}
END_TEST

static int64_t refused, harmless;

static void judge(claim_case *t, const char *what, int64_t which) {
    if (mlsi_check_plan(&t->c, t->scratch) != MLSYS_OK) {
        REQUIRE(strstr(mlsys_last_error(), "plan of function main"));
        refused++;
    } else if (!keeps_all(&t->c)) {
        ck_abort_msg("%s %lld was changed and accepted", what, (long long)which);
    } else {
        harmless++;
    }
}

static void change_slots(claim_case *t) {
    for (int64_t i = 0; i < t->c.n_slots; i++) {
        const mlsi_plan_slot was = t->slots[i];
        for (uint64_t offset = 0; offset < t->c.arena_bytes; offset += UNIT) {
            t->slots[i].offset = offset;
            if (offset != was.offset && was.kind == MLSI_PLAN_SCRATCH)
                judge(t, "offset of slot", i);
        }
        t->slots[i] = was;
        t->slots[i].bytes += 4 * UNIT;
        if (was.kind == MLSI_PLAN_SCRATCH) judge(t, "bytes of slot", i);
        t->slots[i] = was;
        for (int kind = MLSI_PLAN_INPUT; kind <= MLSI_PLAN_CONST; kind++) {
            t->slots[i].kind = (mlsi_plan_kind)kind;
            t->slots[i].index = 0;
            if (was.kind == MLSI_PLAN_SCRATCH || was.kind == MLSI_PLAN_OUTPUT)
                judge(t, "kind of slot", i);
        }
        t->slots[i] = was;
        t->slots[i].index++;
        if (was.kind == MLSI_PLAN_OUTPUT) judge(t, "output of slot", i);
        t->slots[i] = was;
    }
}

static void change_rest(claim_case *t) {
    const mlsi_func *f = &t->p->graph.funcs[0];
    for (int64_t v = 0; v < f->n_values; v++) {
        const int32_t was = t->slot_of[v];
        for (int32_t s = 0; s < t->c.n_slots; s++) {
            t->slot_of[v] = s;
            if (s != was) judge(t, "slot of value", v);
        }
        t->slot_of[v] = was;
    }
    for (int64_t i = 0; i < t->c.n_steps; i++) {
        const mlsi_plan_step was = t->steps[i];
        for (uint64_t offset = 0; was.work_bytes && offset < t->c.arena_bytes; offset += UNIT) {
            t->steps[i].work_offset = offset;
            judge(t, "work memory of step", i);
        }
        t->steps[i] = was;
        if (i + 1 < t->c.n_steps) {
            t->steps[i].node = t->steps[i + 1].node;
            judge(t, "node of step", i);
        }
        t->steps[i] = was;
    }
    const uint64_t arena = t->c.arena_bytes;
    t->c.arena_bytes = arena / 2;
    if (arena) judge(t, "arena", 0);
    t->c.arena_bytes = arena;
}

START_TEST(changed_plans_are_refused) {
    refused = harmless = 0;
    for (uint64_t seed = 200; seed < 240; seed++) {
        claim_case t;
        open_claim(seed, &t);
        change_slots(&t);
        change_rest(&t);
        OK(mlsi_check_plan(&t.c, t.scratch));
        close_claim(&t);
    }
    printf("%lld changes refused, %lld harmless\n", (long long)refused, (long long)harmless);
    REQUIRE(refused > 2000 && harmless > 0);
}
END_TEST

/* In place: only where the kernel allows it. */
START_TEST(results_in_place_need_leave) {
    int64_t in_place = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        claim_case t;
        open_claim(seed, &t);
        const mlsi_func *f = &t.p->graph.funcs[0];
        for (int64_t i = 0; i < t.c.n_steps; i++) {
            const mlsi_node *n = &f->nodes[t.steps[i].node];
            bool shares = false;
            for (int k = 0; k < n->n_in; k++)
                shares |= n->in[k] >= 0 && t.slot_of[n->in[k]] == t.slot_of[n->first_out];
            if (!shares) continue;
            const uint32_t was = t.steps[i].in_place;
            t.steps[i].in_place = 0;
            pc_expect(mlsi_check_plan(&t.c, t.scratch), MLSYS_E_INTERNAL,
                      "over an operand that its kernel still reads");
            t.steps[i].in_place = was;
            in_place++;
        }
        close_claim(&t);
    }
    printf("%lld results in place\n", (long long)in_place);
    REQUIRE(in_place > 10);
}
END_TEST

#if defined(MLSI_FAULTS) && MLSI_FAULTS
static const int planted[] = {MLSI_FAULT_PLAN_OVERLAP, MLSI_FAULT_IN_PLACE_LIVE};

START_TEST(planted_plans_are_refused) {
    int caught = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        kc_rng r = kc_seed(seed);
        mlsi_graph g;
        rg_options o = {.nodes = 40, .inputs = 3, .outputs = 3};
        OK(mlsi_graph_init(&g, pc.ctx));
        rg_graph(&r, &g, pc.device, &o);
        mlsi_fault_select(planted[_i]);
        mlsys_program p = pc_compile_inside(&pc, &g, "fuse=never");
        mlsi_program *inside;
        mlsi_bound *b;
        OK(mlsi_pin(p, MLSYS_KIND_PROGRAM, "test", &inside));
        OK(mlsi_bound_create(inside, &b));
        OK(mlsi_bound_names(b, 0, NULL, NULL));
        mlsys_status st = mlsi_bound_bind(b);
        mlsi_fault_select(MLSI_FAULT_NONE);
        caught += st == MLSYS_E_INTERNAL && strstr(mlsys_last_error(), "plan of function main");
        mlsi_bound_free(&pc.ctx->alloc, b);
        mlsi_unpin(inside);
        OK(mlsys_release(p));
        mlsi_graph_free(&g);
    }
    printf("fault %d: %d of 100 plans refused\n", _i, caught);
    ck_assert_int_gt(caught, 0);
}
END_TEST
#endif

int main(void) {
    Suite *s = suite_create("proof plan");
    TCase *tc = tcase_create("plan");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, real_plans_hold);
    tcase_add_test(tc, changed_plans_are_refused);
    tcase_add_test(tc, results_in_place_need_leave);
#if defined(MLSI_FAULTS) && MLSI_FAULTS
    tcase_add_loop_test(tc, planted_plans_are_refused, 0, 2);
#endif
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
