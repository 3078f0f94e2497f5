/* What is tried: points by number, and their text. */
#include "run/tune.h"

#include "core/rng.h"

#include <string.h>

enum {
    POPULATION = 8, /* parents */
    RANDOM = 20     /* numbers that are drawn; behind them every fourth one is */
};

/* ---- points and their text -------------------------------------------------------------------------------------- */

mlsys_status mlsi_tune_text(const mlsi_schedule_space *s, const mlsi_point *p, mlsi_text *out) {
    mlsi_schedule program;
    mlsi_schedule_init(&program, out->alloc);
    mlsys_status st = mlsi_schedule_space_program(s, p, &program);
    if (st == MLSYS_OK) mlsi_schedule_print(&program, out);
    if (st == MLSYS_OK) mlsi_text_add(out, "%s", "");
    if (st == MLSYS_OK) st = out->st;
    for (char *c = st == MLSYS_OK ? out->data : NULL; c && *c; c++)
        if (*c == '\n') *c = ' ';
    while (st == MLSYS_OK && out->len && out->data[out->len - 1] == ' ')
        out->data[--out->len] = 0;
    mlsi_schedule_free(&program);
    return st;
}

/* What one would try first, as options of the kinds of choices: split of the band's first loop, of its others, of none;
 * lanes along the innermost loops or the band's last one. */
static const struct habit {
    int32_t first, others, inner_lanes, band_lanes;
} habits[] = {{0, 0, 1, 0}, {0, 0, 0, 1}, {3, 3, 0, 0}, {3, 0, 1, 0},
              {3, 3, 0, 1}, {5, 3, 0, 1}, {6, 3, 0, 0}};

static bool habitual_point(const mlsi_schedule_space *s, int64_t number, mlsi_point *out) {
    memset(out, 0, sizeof *out);
    if (number < 1 || number > (int64_t)(sizeof habits / sizeof habits[0])) return false;
    const struct habit *h = &habits[number - 1];
    for (int i = 0; i < s->n_choices; i++) {
        const mlsi_choice *c = &s->choices[i];
        int32_t *option = &out->option[i];
        switch (c->kind) {
        case MLSI_CHOICE_SPLIT: *option = c->which ? h->others : h->first; break;
        case MLSI_CHOICE_INNER_VECTOR: *option = h->inner_lanes; break;
        case MLSI_CHOICE_VECTOR: *option = h->band_lanes; break;
        case MLSI_CHOICE_PARALLEL: /* all that are outside; a loop of lanes is none */
            *option = c->options - 1 - (h->band_lanes && !h->first && c->options > 2);
            break;
        default: break;
        }
    }
    return true;
}

/* ---- parents --------------------------------------------------------------------------------------------------------- */

/* Does the record's point still mean its text? */
mlsys_status mlsi_tune_is_of_space(const mlsi_schedule_space *s, mlsi_alloc *a,
                                   const mlsi_tune_record *r, bool *same) {
    mlsi_text text;
    *same = false;
    for (int i = 0; i < MLSI_SPACE_CHOICES; i++)
        if (r->point.option[i] >= (i < s->n_choices ? s->choices[i].options : 1)) return MLSYS_OK;
    mlsi_text_init(&text, a);
    mlsys_status st = mlsi_tune_text(s, &r->point, &text);
    *same = st == MLSYS_OK && !strcmp(text.data, r->schedule);
    mlsi_text_free(&text);
    return st;
}

/* The k-th fastest of those with a schedule, NULL past the last. */
const mlsi_tune_record *mlsi_tune_ranked(const mlsi_tune_records *records, int k) {
    const mlsi_tune_record *last = NULL;
    for (int rank = 0; rank <= k; rank++) {
        const mlsi_tune_record *next = NULL;
        for (int64_t i = 0; i < records->n; i++) {
            const mlsi_tune_record *r = &records->list[i];
            if (!mlsi_tune_has_time(r) || !r->schedule[0]) continue;
            if (last && r->time <= last->time) continue; /* equal times: the same C */
            if (!next || r->time < next->time) next = r;
        }
        if (!next) return NULL;
        last = next;
    }
    return last;
}

/* A parent by number: of two ranks the better one. */
static const mlsi_tune_record *parent_of(const mlsi_tune_records *records, uint64_t seed,
                                         int64_t number, uint64_t at) {
    int n = 0;
    while (n < POPULATION && mlsi_tune_ranked(records, n))
        n++;
    if (!n) return NULL;
    int a = (int)(mlsi_rng_bits32(seed, (uint64_t)number, at) % (uint32_t)n);
    int b = (int)(mlsi_rng_bits32(seed, (uint64_t)number, at + 1) % (uint32_t)n);
    return mlsi_tune_ranked(records, a < b ? a : b);
}

mlsys_status mlsi_tune_draw(const mlsi_schedule_space *s, const mlsi_nest *n,
                            const mlsi_tune_records *records, uint64_t seed, int64_t number,
                            mlsi_point *out) {
    const uint64_t at = (uint64_t)1 << 40;
    mlsi_nest made;
    bool legal = false;
    if (habitual_point(s, number, out)) MLSI_TRY(mlsi_schedule_space_try(s, n, out, &made, &legal));
    if (legal) {
        mlsi_nest_free(&made);
        return MLSYS_OK;
    }
    const mlsi_tune_record *a = NULL, *b;
    if (number > RANDOM && number % 4) a = parent_of(records, seed, number, at);
    if (!a) return mlsi_schedule_space_draw(s, n, seed, (uint64_t)number, out);
    b = mlsi_rng_bits32(seed, (uint64_t)number, at + 2) % 2
            ? parent_of(records, seed, number, at + 3)
            : NULL;
    return mlsi_schedule_space_mutate(s, n, &a->point, b && b != a ? &b->point : NULL, seed,
                                      (uint64_t)number, out);
}
