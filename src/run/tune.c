/* The search: random points of the space, then changes of the best ones. */
#include "run/tune.h"

#include "core/faults.h"
#include "core/trace.h"

#include <stdio.h>
#include <string.h>

enum {
    MODULE = 16, /* candidates that are compiled together: the compiler starts once */
    BATCH = 32,  /* with those that are not proved, or known */
    FIRST = 4,   /* of the first one, while it is unknown how long compiling takes */
    SLOW_NS =
        1000000, /* a first run of that length, and so many times the best one's, says enough */
    SLOWER = 4,
    LEAST = 2,     /* samples of a candidate that is far behind the best */
    SAMPLES = 5,   /* of a candidate, and of the best beside it */
    FINALISTS = 4, /* measured once more in the end, against the default */
    LAST_SAMPLES = 15,
    LOCAL_BYTES = 1 << 16
};

static const mlsi_config_key keys[] = {
    {"budget_ms", 'i', "10000", 1, 1e9, "wall-clock time of the search, in milliseconds"},
    {"candidates", 'i', "256", 1, 1e6, "draws of each kernel; what records know counts"},
    {"seed", 'i', "0", 0, 9e15, "of draws and of inputs"}};

const mlsi_config_key *mlsi_tune_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

typedef struct draw {
    int64_t number;
    mlsi_point point;
    mlsi_text text;
    mlsi_tune_candidate c;
} draw;

/* One kernel. Candidates of the batch live until it is done, the best and the default until the end. */
typedef struct search {
    const mlsi_tune_options *o;
    mlsys_tune_report *report;
    mlsi_ctx *ctx;
    mlsi_tune_bench bench;
    mlsi_tune_key key;
    mlsi_tune_records records;
    mlsi_schedule_space space;
    mlsi_tune_candidate best; /* without a kernel: the default is it */
    int64_t best_time;        /* in units */
    int64_t best_ns, default_ns;
    struct {
        uint64_t code;
        int64_t time;
    } * tried; /* what equal C took */
    int64_t n_tried, cap_tried;
    int64_t start, budget, end, compiling; /* ns; how long the last module took */
    draw batch[BATCH];
    int n_batch;
    int32_t index, kernels;
    int64_t number;
    bool stopped;
} search;

/* ---- records ------------------------------------------------------------------------------------------------------------ */

/* On disk and in the list; the list has a schedule of its own. */
static mlsys_status note(search *s, mlsi_tune_record r) {
    MLSI_TRY(mlsi_mem_strdup(s->bench.alloc, r.schedule, &r.schedule));
    mlsys_status st = mlsi_tune_append(s->ctx, &s->key, &r);
    if (st == MLSYS_OK) return mlsi_tune_records_put(&s->records, &r);
    mlsi_mem_free(s->bench.alloc, r.schedule);
    return st;
}

static mlsys_status note_draw(search *s, const draw *d, mlsi_tune_verdict verdict, int64_t time,
                              int64_t ns) {
    return note(s, (mlsi_tune_record){.seed = s->o->seed,
                                      .number = d->number,
                                      .verdict = verdict,
                                      .time = time,
                                      .ns = ns,
                                      .point = d->point,
                                      .schedule = d->text.data});
}

static mlsys_status note_code(search *s, uint64_t code, int64_t time) {
    MLSI_TRY(MLSI_GROW(s->bench.alloc, &s->tried, &s->cap_tried, s->n_tried + 1));
    s->tried[s->n_tried].code = code;
    s->tried[s->n_tried++].time = time;
    return MLSYS_OK;
}

static const mlsi_tune_candidate *incumbent(const search *s) {
    return s->best.kernel.made ? &s->best : &s->bench.default_;
}

static int64_t sample_ns(int64_t ns) { return ns > MLSI_TUNE_SAMPLE_NS ? ns : MLSI_TUNE_SAMPLE_NS; }

/* The last comparison has a quarter of the budget: so many samples of each. */
static int last_samples(const search *s) {
    int64_t each = FINALISTS * (sample_ns(s->default_ns) + sample_ns(s->best_ns));
    int64_t n = s->budget / 4 / each;
    return n < SAMPLES ? SAMPLES : n < LAST_SAMPLES ? (int)n : LAST_SAMPLES;
}

static int64_t settling(const search *s) {
    int64_t each = sample_ns(s->default_ns) + sample_ns(s->best_ns);
    int64_t all = s->compiling + FINALISTS * each * last_samples(s);
    return all < s->budget / 4 ? all : s->budget / 4;
}

static bool out_of_time(const search *s, int64_t need) {
    if (mlsi_fault(MLSI_FAULT_TUNE_BUDGET)) return false;
    return s->stopped || mlsi_now_ns() + need + settling(s) >= s->end;
}

/* ---- trials --------------------------------------------------------------------------------------------------------------- */

/* A candidate that is compared: its time beside the best one's. It takes that one's place when it is faster by more than
 * noise. */
static mlsys_status measure(search *s, draw *d) {
    int64_t ns[2] = {s->best_ns, d->c.first_ns};
    if (d->c.first_ns < SLOW_NS || d->c.first_ns / SLOWER < s->best_ns)
        MLSI_TRY(mlsi_tune_time(&s->bench, incumbent(s), &d->c, LEAST, SAMPLES, ns));
    int64_t time = (int64_t)((double)s->best_time * (double)ns[1] / (double)ns[0]);
    s->report->measured++;
    MLSI_TRY(note_draw(s, d, MLSI_TUNE_TIMED, time, ns[1]));
    MLSI_TRY(note_code(s, d->c.code, time));
    if (ns[1] >= ns[0] - ns[0] / 100) return MLSYS_OK;
    mlsi_log(s->ctx, MLSYS_LOG_INFO, "tune", "%s, number %lld: %.3f of the default's time: %s",
             s->bench.name, (long long)d->number, (double)time / MLSI_TUNE_UNIT, d->c.schedule);
    mlsi_tune_candidate_free(&s->bench, &s->best);
    s->best = d->c;
    s->best_time = time;
    s->best_ns = ns[1];
    memset(&d->c, 0, sizeof d->c);
    return MLSYS_OK;
}

static mlsys_status judge(search *s, draw *d) {
    mlsi_tune_candidate *c = &d->c;
    for (int64_t i = 0; !c->verdict && i < s->n_tried; i++)
        if (s->tried[i].code == c->code)
            return note_draw(s, d, MLSI_TUNE_TIMED, s->tried[i].time, 0);
    if (!c->verdict) MLSI_TRY(mlsi_tune_compare(&s->bench, c));
    if (!c->verdict) return measure(s, d);
    s->report->refused += c->verdict != MLSI_TUNE_DIFFERS;
    s->report->different += c->verdict == MLSI_TUNE_DIFFERS;
    mlsi_log(s->ctx, c->verdict == MLSI_TUNE_REFUSED ? MLSYS_LOG_DEBUG : MLSYS_LOG_WARN, "tune",
             "%s, number %lld: %s: %s", s->bench.name, (long long)d->number, c->why, c->schedule);
    return note_draw(s, d, c->verdict, 0, 0);
}

static bool is_known(const search *s, const mlsi_tune_candidate *c) {
    for (int64_t i = 0; i < s->n_tried; i++)
        if (s->tried[i].code == c->code) return true;
    return false;
}

/* The next numbers without a record, made and proved, until there is a module's worth of new C. */
static mlsys_status collect(search *s) {
    const int most = s->n_tried > 1 ? MODULE : FIRST;
    int n_new = 0;
    s->n_batch = 0;
    while (n_new < most && s->n_batch < BATCH && s->number < s->o->candidates &&
           !out_of_time(s, s->compiling)) {
        draw *d = &s->batch[s->n_batch];
        int64_t number = ++s->number;
        if (mlsi_tune_records_find(&s->records, s->o->seed, number) &&
            !mlsi_fault(MLSI_FAULT_TUNE_RESUME)) {
            s->report->resumed++;
            continue;
        }
        memset(d, 0, sizeof *d);
        mlsys_status st =
            mlsi_tune_draw(&s->space, &s->bench.nest, &s->records, s->o->seed, number, &d->point);
        if (st == MLSYS_E_NOTFOUND) continue;
        if (st != MLSYS_OK) return st;
        d->number = number;
        mlsi_text_init(&d->text, s->bench.alloc);
        s->n_batch++;
        MLSI_TRY(mlsi_tune_text(&s->space, &d->point, &d->text));
        MLSI_TRY(mlsi_tune_make(&s->bench, d->text.data, (int)(number % (1 << 30)), &d->c));
        n_new += !d->c.verdict && !is_known(s, &d->c);
    }
    return MLSYS_OK;
}

static mlsys_status try_batch(search *s) {
    mlsi_tune_candidate *list[MODULE];
    int n_new = 0;
    int64_t start = mlsi_now_ns();
    for (int i = 0; i < s->n_batch && n_new < MODULE; i++)
        if (!s->batch[i].c.verdict && !is_known(s, &s->batch[i].c)) list[n_new++] = &s->batch[i].c;
    MLSI_TRY(mlsi_tune_load(&s->bench, n_new, list));
    if (n_new) s->compiling = mlsi_now_ns() - start;
    for (int i = 0; i < s->n_batch; i++) {
        if (out_of_time(s, 0)) break;
        MLSI_TRY(judge(s, &s->batch[i]));
    }
    return MLSYS_OK;
}

static void tell(search *s) {
    const mlsi_tune_record *best = mlsi_tune_records_best(&s->records);
    const mlsys_tune_progress at = {.size = sizeof at,
                                    .kernel = s->bench.name,
                                    .schedule = best ? best->schedule : "",
                                    .number = s->number,
                                    .candidates = s->o->candidates,
                                    .best = best ? (double)best->time / MLSI_TUNE_UNIT : 1,
                                    .elapsed_ms = (mlsi_now_ns() - s->start) / 1000000,
                                    .index = s->index,
                                    .kernels = s->kernels};
    if (s->o->progress && s->o->progress(s->o->user, &at)) s->stopped = true;
}

static mlsys_status look_around(search *s) {
    while (s->number < s->o->candidates && !out_of_time(s, s->compiling)) {
        mlsys_status st = collect(s);
        if (st == MLSYS_OK && s->n_batch) st = try_batch(s);
        for (int i = 0; i < s->n_batch; i++) {
            mlsi_text_free(&s->batch[i].text);
            mlsi_tune_candidate_free(&s->bench, &s->batch[i].c);
        }
        if (st != MLSYS_OK) return st;
        tell(s);
    }
    return MLSYS_OK;
}

/* ---- begin and end --------------------------------------------------------------------------------------------------------- */

/* Least of many is luck: the fastest few are measured again beside the default, and that is what counts. */
static mlsys_status settle(search *s, mlsi_tune_record *r, mlsi_tune_candidate *c) {
    const int samples = last_samples(s);
    int64_t ns[2] = {1, 0};
    if (!c->verdict) MLSI_TRY(mlsi_tune_compare(&s->bench, c));
    if (!c->verdict)
        MLSI_TRY(mlsi_tune_time(&s->bench, &s->bench.default_, c, samples, samples, ns));
    r->verdict = c->verdict ? c->verdict : MLSI_TUNE_SETTLED;
    r->time = (int64_t)((double)ns[1] / (double)ns[0] * MLSI_TUNE_UNIT);
    r->ns = ns[1];
    r->schedule = c->schedule;
    return note(s, *r);
}

static mlsys_status decide(search *s) {
    mlsi_tune_record finalists[FINALISTS];
    mlsi_tune_candidate c[FINALISTS], *list[FINALISTS] = {NULL};
    int n = 0, made = 0;
    mlsys_status st = MLSYS_OK;
    for (const mlsi_tune_record *r;
         n < FINALISTS && (r = mlsi_tune_ranked(&s->records, n)) && r->time < MLSI_TUNE_UNIT;)
        finalists[n++] = *r;
    for (; made < n && st == MLSYS_OK; made++) {
        list[made] = &c[made];
        st = mlsi_tune_make(&s->bench, finalists[made].schedule, made + 1, &c[made]);
    }
    if (st == MLSYS_OK) st = mlsi_tune_load(&s->bench, n, list);
    for (int i = 0; i < n && st == MLSYS_OK && (!i || mlsi_now_ns() < s->end); i++)
        st = settle(s, &finalists[i], &c[i]);
    for (int i = 0; i < made; i++)
        mlsi_tune_candidate_free(&s->bench, &c[i]);
    return st;
}

/* Records of another version of the space are no parents, and are drawn anew. */
static mlsys_status drop_foreign(search *s) {
    mlsi_tune_records *r = &s->records;
    int64_t kept = 0, n = r->n;
    mlsys_status st = MLSYS_OK;
    for (int64_t i = 0; i < n; i++) {
        bool same = !r->list[i].schedule[0];
        if (!same && st == MLSYS_OK)
            st = mlsi_tune_is_of_space(&s->space, r->alloc, &r->list[i], &same);
        if (same)
            r->list[kept++] = r->list[i];
        else
            mlsi_mem_free(r->alloc, r->list[i].schedule);
    }
    r->n = kept;
    if (kept < n)
        mlsi_log(s->ctx, MLSYS_LOG_WARN, "tune", "%s: %lld records of other spaces are ignored",
                 s->bench.name, (long long)(n - kept));
    return st;
}

/* The best that is known becomes what candidates are measured beside. */
static mlsys_status take_up(search *s) {
    const mlsi_tune_record *r = mlsi_tune_records_best(&s->records);
    mlsi_tune_candidate *list[] = {&s->best};
    if (!r) return MLSYS_OK;
    MLSI_TRY(mlsi_tune_make(&s->bench, r->schedule, 0, &s->best));
    MLSI_TRY(mlsi_tune_load(&s->bench, 1, list));
    if (!s->best.verdict) MLSI_TRY(mlsi_tune_compare(&s->bench, &s->best));
    if (s->best.verdict)
        mlsi_tune_candidate_free(&s->bench, &s->best);
    else
        s->best_time = r->time;
    return MLSYS_OK;
}

static mlsys_status begin(search *s, const mlsi_program *p, int32_t func, const int64_t *binding) {
    const mlsi_schedule_target target = {.local_bytes = LOCAL_BYTES};
    int64_t ns[2];
    s->best_time = MLSI_TUNE_UNIT;
    const int64_t start = mlsi_now_ns();
    MLSI_TRY(mlsi_tune_bench_open(p, func, binding, s->o->seed, &s->bench));
    s->compiling = mlsi_now_ns() - start;
    MLSI_TRY(mlsi_schedule_space_of(&s->bench.nest, &target, &s->space));
    MLSI_TRY(mlsi_tune_key_of(s->ctx, p->isa_limit, &s->bench.nest, &s->key));
    MLSI_TRY(mlsi_tune_key_bind(&s->bench.nest, binding, &s->key));
    MLSI_TRY(mlsi_tune_records_read(s->ctx, &s->key, &s->records));
    MLSI_TRY(drop_foreign(s));
    MLSI_TRY(take_up(s));
    MLSI_TRY(
        mlsi_tune_time(&s->bench, &s->bench.default_, &s->bench.default_, SAMPLES, SAMPLES, ns));
    s->report->default_ns += (double)ns[0];
    s->default_ns = ns[0];
    s->best_ns = (int64_t)((double)ns[0] * (double)s->best_time / MLSI_TUNE_UNIT);
    MLSI_TRY(note_code(s, s->bench.default_.code, MLSI_TUNE_UNIT));
    if (mlsi_tune_records_find(&s->records, s->o->seed, 0)) return MLSYS_OK;
    return note(s, (mlsi_tune_record){.seed = s->o->seed,
                                      .verdict = MLSI_TUNE_TIMED,
                                      .time = MLSI_TUNE_UNIT,
                                      .ns = ns[0],
                                      .schedule = ""});
}

static void sum_up(search *s) {
    const mlsi_tune_record *best = mlsi_tune_records_best(&s->records);
    s->report->improved += best != NULL;
    s->report->best_ns += (double)s->default_ns * (best ? (double)best->time / MLSI_TUNE_UNIT : 1);
    mlsi_log(s->ctx, MLSYS_LOG_INFO, "tune", "%s: %lld draws, best %.3f of the default's time: %s",
             s->bench.name, (long long)s->number, best ? (double)best->time / MLSI_TUNE_UNIT : 1,
             best ? best->schedule : "the default");
}

static mlsys_status tune_kernel(search *s, const mlsi_program *p, int32_t func,
                                const int64_t *binding, int64_t budget_ns) {
    const int64_t start = mlsi_now_ns();
    const double before = s->report->default_ns;
    s->budget = budget_ns;
    s->end = start + budget_ns;
    mlsys_status st = begin(s, p, func, binding);
    if (st == MLSYS_OK) st = look_around(s);
    if (st == MLSYS_OK && s->n_tried > 1 && !s->stopped) st = decide(s);
    if (st == MLSYS_OK) {
        s->report->kernels++;
        sum_up(s);
        tell(s);
    } else if (st == MLSYS_E_UNSUPPORTED) { /* this one has no choices */
        mlsi_log(s->ctx, MLSYS_LOG_INFO, "tune", "%s", mlsys_last_error());
        s->report->default_ns = before;
        st = MLSYS_OK;
    }
    mlsi_tune_candidate_free(&s->bench, &s->best);
    mlsi_tune_records_free(&s->records);
    mlsi_mem_free(s->bench.alloc, s->tried);
    mlsi_tune_bench_close(&s->bench);
    return st;
}

static bool is_kernel(const mlsi_program *p, int64_t f) {
    return p->generated && p->generated[f].made;
}

mlsys_status mlsi_tune_program(const mlsi_program *p, const int64_t *binding,
                               const mlsi_tune_options *o, mlsys_tune_report *report) {
    const int64_t start = mlsi_now_ns(), budget = o->budget_ms * 1000000;
    int32_t kernels = 0, index = 0;
    bool stopped = false;
    mlsys_status st = MLSYS_OK;
    search *s;
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        kernels += is_kernel(p, f);
    MLSI_TRY(MLSI_NEW(p->graph.alloc, &s));
    for (int32_t f = 0; f < p->graph.n_funcs && st == MLSYS_OK && !stopped; f++) {
        if (!is_kernel(p, f)) continue;
        memset(s, 0, sizeof *s);
        s->o = o;
        s->report = report;
        s->ctx = p->graph.ctx;
        s->start = start;
        s->index = index;
        s->kernels = kernels;
        int64_t left = budget - (mlsi_now_ns() - start);
        st = tune_kernel(s, p, f, binding, left > 0 ? left / (kernels - index) : 0);
        stopped = s->stopped;
        index++;
    }
    mlsi_mem_free(p->graph.alloc, s);
    report->stopped = stopped;
    report->elapsed_ms = (mlsi_now_ns() - start) / 1000000;
    return st;
}
