/* Recorded runs. A run on an accelerator that finds its arguments where the run before had them is recorded, and the next ones
 * replay it: one call of the driver in place of a launch for each step. */
#include "core/faults.h"
#include "core/trace.h"
#include "run/program.h"

#include <stdio.h>

/* The host decides nothing in between, and moves nothing. */
static bool is_queued(const mlsi_program *p, const mlsi_step *s) {
    if (s->op == MLSI_OP_IF || s->op == MLSI_OP_WHILE || s->op == MLSI_OP_CUSTOM || s->on_host)
        return false;
    return s->op == MLSI_OP_CALL || s->kernel || !p->backend->accel;
}

bool mlsi_can_replay(const mlsi_program *p) {
    if (!p->backend->accel) return false;
    for (int64_t f = 0; f < p->n_routines; f++) {
        if (p->generated && p->generated[f].launches) continue;
        for (int64_t i = 0; i < p->routines[f].n_steps; i++)
            if (!is_queued(p, &p->routines[f].steps[i])) return false;
    }
    return true;
}

void mlsi_replay_forget(mlsi_bound *b) {
    if (b->recorded) b->device->accel->record_free(b->device->opened, b->recorded);
    b->recorded = NULL;
    b->placed = false;
}

/* Are arguments and scratch where they were? They are remembered. */
static bool same_places(mlsi_bound *b, const mlsi_stream *s) {
    const mlsi_routine *r = &b->program->routines[0];
    char *const *base = b->routines[0].base;
    bool same = b->placed && b->places[r->n_slots] == s->scratch;
    for (int64_t i = 0; i < r->n_slots; i++) {
        bool argument = r->slots[i].kind == MLSI_SLOT_INPUT || r->slots[i].kind == MLSI_SLOT_OUTPUT;
        char *place = argument ? base[i] : NULL;
        same = same && (b->places[i] == place || mlsi_fault(MLSI_FAULT_REPLAY_PLACES));
        b->places[i] = place;
    }
    b->places[r->n_slots] = s->scratch;
    b->placed = true;
    return same;
}

static mlsys_status record(mlsi_bound *b, mlsi_stream *s, mlsys_status (*run)(void *user),
                           void *user) {
    const mlsi_accelerator *acc = s->device->accel;
    MLSI_TRY(acc->record_begin(s->queue));
    mlsys_status st = run(user), end;
    char why[400];
    snprintf(why, sizeof why, "%s", st == MLSYS_OK ? "" : mlsys_last_error());
    end = acc->record_end(s->queue, &b->recorded);
    if (st != MLSYS_OK) {
        mlsi_replay_forget(b);
        return mlsi_fail(st, "%s", why);
    }
    return end;
}

mlsys_status mlsi_replay_run(mlsi_bound *b, mlsi_stream *s, mlsys_status (*run)(void *user),
                             void *user) {
    if (!b->program->replays || mlsi_trace_enabled(b->program->graph.ctx->trace)) return run(user);
    if (!same_places(b, s)) {
        if (b->recorded) s->device->accel->record_free(s->device->opened, b->recorded);
        b->recorded = NULL;
        return run(user);
    }
    if (!b->recorded) MLSI_TRY(record(b, s, run, user));
    return s->device->accel->replay(s->queue, b->recorded);
}
