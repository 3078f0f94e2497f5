/* Any bytes as the text of a nest: they are refused with a sentence, or make a nest that verifies, that prints to text which
 * reads back to the same text, and that the interpreter runs. What is proved of it must be so: where bounds, positions
 * and outputs are proved, the interpreter finds no fault of these kinds. Memory is bounded by the size of the text. */
#include "core/dtype.h"
#include "ir/loop/prove.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

enum { MAX_ELEMENTS = 4096, MAX_WORK = 1 << 14, MAX_SYMBOLS = 64, MAX_PARAMS = 16 };

static void print(const mlsi_nest *n, mlsi_text *t) {
    mlsi_text_init(t, n->alloc);
    mlsi_nest_print(n, t);
    DEMAND(t->st == MLSYS_OK);
}

static void check_text(const mlsi_nest *n) {
    mlsi_text first, second;
    mlsi_nest back;
    print(n, &first);
    DEMAND(mlsi_nest_parse(&back, n->alloc, first.data) == MLSYS_OK);
    print(&back, &second);
    DEMAND(!strcmp(first.data, second.data));
    mlsi_nest_free(&back);
    mlsi_text_free(&first);
    mlsi_text_free(&second);
}

/* The greatest value under the binding of the shape symbols; false: too large, or not known. */
static bool at_most(const mlsi_nest *n, const int64_t *binding, int64_t d, int64_t most,
                    int64_t *out) {
    for (int64_t s = n->n_shape_symbols; s < n->tab.n_symbols; s++)
        if (mlsi_dim_names(&n->tab, d, (int32_t)s)) {
            int64_t lo;
            mlsi_dim_range(&n->tab, d, &lo, out);
            return *out <= most;
        }
    return mlsi_dim_eval(&n->tab, d, binding, out) == MLSYS_OK && *out <= most;
}

static bool small_buffer(const mlsi_nest *n, const int64_t *binding, const mlsi_loop_buffer *b,
                         int64_t *shape, int64_t *count) {
    *count = 1;
    for (int d = 0; d < b->rank; d++) {
        if (!at_most(n, binding, b->dims[d], MAX_ELEMENTS, &shape[d])) return false;
        *count *= shape[d];
        if (*count > MAX_ELEMENTS) return false;
    }
    return true;
}

/* Statements that may run; more than MAX_WORK: too many. */
static int64_t work(const mlsi_nest *n, const int64_t *binding, int32_t first) {
    int64_t sum = 0, extent;
    for (int32_t i = first; i >= 0 && sum <= MAX_WORK; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        int64_t inside = 1;
        if (s->body >= 0) inside += work(n, binding, s->body);
        if (s->kind == MLSI_LS_MMA) return MAX_WORK + 1;
        if (s->kind == MLSI_LS_ACC &&
            !at_most(n, binding, n->accs[s->ref].count, MAX_ELEMENTS, &extent))
            return MAX_WORK + 1;
        if (s->kind == MLSI_LS_FOR) {
            if (!at_most(n, binding, n->vars[s->var].extent, MAX_WORK, &extent))
                return MAX_WORK + 1;
            inside *= extent;
        }
        sum += inside;
    }
    return sum;
}

static void run(const mlsi_nest *n, const int64_t *binding) {
    mlsi_view params[MAX_PARAMS];
    bool fits = n->n_inputs + n->n_outputs <= MAX_PARAMS && n->n_exprs < 1000;
    int made = 0;
    memset(params, 0, sizeof params);
    for (int64_t i = 0; i < n->n_buffers && fits; i++) {
        const mlsi_loop_buffer *b = &n->buffers[i];
        int64_t count;
        mlsi_view v = {.dtype = b->dtype, .rank = b->rank};
        fits = small_buffer(n, binding, b, v.shape, &count);
        if (!fits || b->param < 0 || b->bytes) continue;
        v.data = calloc((size_t)count + 1, 16);
        DEMAND(v.data);
        params[b->param + (b->scope == MLSI_SCOPE_OUTPUT ? n->n_inputs : 0)] = v;
        made++;
    }
    if (fits && work(n, binding, n->first) <= MAX_WORK) {
        DEMAND(made == n->n_inputs + n->n_outputs);
        bool bounds = mlsi_nest_prove(n, MLSI_PROVE_BOUNDS) == MLSYS_OK;
        bool positions = mlsi_nest_prove(n, MLSI_PROVE_POSITIONS) == MLSYS_OK;
        bool outputs = mlsi_nest_prove(n, MLSI_PROVE_OUTPUTS) == MLSYS_OK;
        (void)mlsi_nest_prove(n, MLSI_PROVE_HAZARDS);
        mlsys_status st = mlsi_nest_interpret(n, binding, params);
        const char *why = mlsys_last_error();
        DEMAND(st != MLSYS_E_INTERNAL && st != MLSYS_E_NOMEM);
        if (st == MLSYS_E_STATE) {
            DEMAND(!bounds || !strstr(why, ": subscript"));
            DEMAND(!positions || !(strstr(why, ": position ") || strstr(why, " is read with ")));
            DEMAND(!outputs || !strstr(why, "is never written"));
        }
    }
    for (int i = 0; i < MAX_PARAMS; i++)
        free(params[i].data);
}

static void check_meaning(const mlsi_nest *n) {
    int64_t binding[MAX_SYMBOLS];
    if (n->tab.n_symbols > MAX_SYMBOLS) return;
    for (int k = 0; k < 2; k++) { /* at the least values, and a step above */
        memset(binding, 0, sizeof binding);
        for (int64_t s = 0; s < n->n_shape_symbols; s++) {
            const mlsi_symbol *y = &n->tab.symbols[s];
            binding[s] = (y->min / y->divisor + (y->min % y->divisor != 0)) * y->divisor;
            if (k && binding[s] <= y->max - y->divisor) binding[s] += y->divisor;
        }
        run(n, binding);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    mlsi_alloc alloc = mlsi_alloc_process;
    mlsi_nest n;
    if (!text) return 0;
    if (size) memcpy(text, data, size);
    text[size] = 0;
    atomic_store(&alloc.live_bytes, 0);
    atomic_store(&alloc.peak_bytes, 0);
    mlsys_status st = mlsi_nest_parse(&n, &alloc, text);
    DEMAND(atomic_load(&alloc.peak_bytes) <= 4000 * (uint64_t)size + (3u << 20));
    if (st == MLSYS_OK) {
        DEMAND(mlsi_nest_verify(&n) == MLSYS_OK);
        check_text(&n);
        check_meaning(&n);
    } else {
        DEMAND(st == MLSYS_E_FORMAT && mlsys_last_error()[0]);
    }
    mlsi_nest_free(&n);
    DEMAND(atomic_load(&alloc.live_bytes) == 0);
    free(text);
    return 0;
}
