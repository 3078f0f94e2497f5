/* Kernels of a program's fused functions: one module of generated code with a function for each, or block code. */
#include "run/program.h"

#include "core/faults.h"
#include "core/trace.h"
#include "ir/loop/schedule.h"
#include "run/tune.h"

#include <stdio.h>
#include <string.h>

/* Functions that a call names: after `inline` only fusion leaves calls. */
static void find_fused(const mlsi_program *p, bool *fused) {
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        for (int64_t i = 0; i < p->graph.funcs[f].n_nodes; i++) {
            const mlsi_node *node = &p->graph.funcs[f].nodes[i];
            if (node->op == MLSI_OP_CALL)
                fused[((const mlsi_attr_control *)node->attrs)->fn1] = true;
        }
}

static bool has_own_loops(const mlsi_func *f) {
    for (int64_t i = 0; i < f->n_nodes; i++)
        if (mlsi_op_get(f->nodes[i].op)->nest) return true;
    return false;
}

mlsys_status mlsi_generate_schedule(const mlsi_func *f, mlsi_nest *n) {
    if (!has_own_loops(f)) MLSI_TRY(mlsi_codegen_schedule(n));
    return mlsi_nest_move_invariants(n);
}

static void kernel_name(int32_t func, char *name, size_t size) {
    snprintf(name, size, "mlsi_k%d", (int)func);
}

/* Keeps the thread's sentence as the reason why something is not so; the first one stays. */
static mlsys_status keep_reason(const mlsi_program *p, char **reason) {
    const char *why = mlsys_last_error();
    size_t n = strlen(why) + 1;
    if (*reason) return MLSYS_OK;
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, (int64_t)n, reason));
    memcpy(*reason, why, n);
    return MLSYS_OK;
}

static void free_kernel(mlsi_alloc *a, mlsi_generated *k) {
    if (!k->made) return;
    mlsi_nest_free(&k->nest);
    mlsi_text_free(&k->text);
    mlsi_block_code_free(a, &k->blocks);
    mlsi_mem_free(a, k->in_place);
    k->in_place = NULL;
    k->made = false;
}

/* ---- loops and text ---------------------------------------------------------------------------------------- */

static mlsys_status write_text(const mlsi_program *p, mlsi_generated *k, int32_t func) {
    char name[32];
    kernel_name(func, name, sizeof name);
    MLSI_TRY(p->backend->accel ? mlsi_codegen_cuda(&k->nest, name, &k->text, &k->gpu)
                               : mlsi_codegen_c(&k->nest, name, &k->text));
    return k->text.st;
}

/* From a scheduled nest on: its proof where one is asked for (what is not proved is not used, and the proof knows less than is
 * true), what it may do in place, and its tasks. */
static mlsys_status accept(mlsi_program *p, int32_t flat, mlsi_generated *k) {
    MLSI_TRY(mlsi_prove_nest(p, flat, &k->nest));
    if (p->backend->accel) return MLSYS_OK; /* the text says how many */
    MLSI_TRY(mlsi_find_in_place(p, k));
    return mlsi_codegen_tasks(&k->nest, &k->tasks);
}

/* By the schedule that tuning recorded, which was of C. k stays as it was where there is none, or it does not apply any more
 * (the log says why). */
static mlsys_status replay(mlsi_program *p, int32_t func, int32_t flat, mlsi_generated *k) {
    mlsi_alloc *a = p->graph.alloc;
    mlsi_tune_key key;
    mlsi_generated made = {.made = true};
    char *schedule;
    if (!p->replay || p->jit == MLSI_JIT_NEVER || p->backend->accel) return MLSYS_OK;
    MLSI_TRY(mlsi_tune_key_of(p->graph.ctx, p->isa_limit, &k->nest, &key));
    MLSI_TRY(mlsi_tune_replay(p->graph.ctx, a, &key, &schedule));
    if (!schedule) return MLSYS_OK;
    mlsi_text_init(&made.text, a);
    mlsys_status st = mlsi_nest_copy(&k->nest, &made.nest);
    if (st == MLSYS_OK) st = mlsi_schedule_apply(&made.nest, schedule);
    if (st == MLSYS_OK) st = mlsi_nest_move_invariants(&made.nest);
    if (st == MLSYS_OK) st = mlsi_nest_verify(&made.nest);
    if (st == MLSYS_OK) st = accept(p, flat, &made);
    if (st == MLSYS_OK) st = write_text(p, &made, func);
    if (st == MLSYS_OK) {
        free_kernel(a, k);
        *k = made;
        k->tuned = true;
    } else {
        mlsi_log(p->graph.ctx, MLSYS_LOG_WARN, "tune", "%s: the recorded schedule is ignored: %s",
                 k->nest.name, mlsys_last_error());
        free_kernel(a, &made);
    }
    mlsi_mem_free(a, schedule);
    return st == MLSYS_E_NOMEM ? st : MLSYS_OK;
}

mlsys_status mlsi_generate_nest(mlsi_graph *g, int32_t func, int32_t *flat, mlsi_nest *n) {
    memset(n, 0, sizeof *n);
    MLSI_TRY(mlsi_flatten_func(g, func, flat));
    MLSI_TRY(mlsi_lower_func(g, *flat, g->funcs[func].name, n));
    return mlsi_generate_schedule(&g->funcs[func], n);
}

static mlsys_status schedule(const mlsi_program *p, const mlsi_func *f, mlsi_nest *n) {
    if (!p->backend->accel) return mlsi_generate_schedule(f, n);
    if (!has_own_loops(f)) MLSI_TRY(mlsi_codegen_cuda_schedule(n));
    return mlsi_nest_move_invariants(n);
}

/* Loops; with their text where a schedule is recorded. */
static mlsys_status make_nest(mlsi_program *p, int32_t func, int32_t flat, mlsi_generated *k) {
    MLSI_TRY(mlsi_lower_func(&p->graph, flat, p->graph.funcs[func].name, &k->nest));
    MLSI_TRY(replay(p, func, flat, k));
    if (k->tuned) return MLSYS_OK;
    MLSI_TRY(schedule(p, &p->graph.funcs[func], &k->nest));
    return accept(p, flat, k);
}

/* Without loops the function runs as its steps; without text it may still be block code. */
static mlsys_status generate_func(mlsi_program *p, int32_t func, mlsi_text *text) {
    mlsi_generated *k = &p->generated[func];
    int32_t flat, n_funcs = (int32_t)p->graph.n_funcs;
    MLSI_TRY(mlsi_flatten_func(&p->graph, func, &flat));
    mlsi_text_init(&k->text, p->graph.alloc);
    k->made = true;
    mlsys_status st = make_nest(p, func, flat, k);
    bool loops = st == MLSYS_OK;
    if (loops && !k->tuned && (p->jit != MLSI_JIT_NEVER || p->backend->accel))
        st = write_text(p, k, func);
    if (st == MLSYS_OK && k->text.len) mlsi_text_add(text, "%s\n", k->text.data);
    if (st != MLSYS_OK && st != MLSYS_E_NOMEM) {
        mlsi_log(p->graph.ctx, st == MLSYS_E_INTERNAL ? MLSYS_LOG_WARN : MLSYS_LOG_INFO, "compile",
                 "%s is not one kernel of generated code: %s", p->graph.funcs[func].name,
                 mlsys_last_error());
        st = keep_reason(p, &k->refused);
        mlsi_text_free(&k->text);
        mlsi_text_init(&k->text, p->graph.alloc);
    }
    if (!loops) free_kernel(p->graph.alloc, k);
    mlsi_graph_truncate(&p->graph, n_funcs);
    return st;
}

/* ---- is a compiler worth it? --------------------------------------------------------------------------------- */

/* Bytes of all elementwise results of a function, at the symbols' maxima: what its kernel computes in a run. */
static int64_t work_of(const mlsi_program *p, int64_t func) {
    const mlsi_func *f = &p->graph.funcs[func];
    int64_t sum = 0;
    for (int64_t i = 0; i < f->n_nodes; i++) {
        const mlsi_node *node = &f->nodes[i];
        int64_t bytes = mlsi_type_most_bytes(&p->graph.symbols, &f->values[node->first_out].type);
        if (!(mlsi_op_get(node->op)->traits & MLSI_TRAIT_ELEMENTWISE)) continue;
        if (!mlsi_add_i64(sum, bytes, &sum)) return INT64_MAX;
    }
    return sum;
}

/* Starting a compiler takes about a second, once; block code loses a part of what fusion gains, in each run, and in the caches
 * can be slower than separate steps. So what fuse=auto finds worth fusing (1 MiB saved, of a result written and read again) is
 * worth a compiler. Who tuned a kernel wants one. */
static bool is_worth_it(const mlsi_program *p) {
    enum { LEAST = 1 << 19 };
    int64_t sum = 0;
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        if (p->generated[f].tuned) return true;
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        for (int64_t i = 0; i < p->graph.funcs[f].n_nodes; i++) {
            const mlsi_node *node = &p->graph.funcs[f].nodes[i];
            if (node->op != MLSI_OP_CALL) continue;
            int64_t work = work_of(p, ((const mlsi_attr_control *)node->attrs)->fn1);
            if (!mlsi_add_i64(sum, work, &sum)) return true;
        }
    return sum >= LEAST;
}

/* A compiler takes some 0.4 s for its vocabulary and 1 to 2 s more for 100 KB of kernels: graphs of thousands of ops would wait
 * for a minute. */
static bool wants_compiler(const mlsi_program *p, const char *text) {
    enum { MOST = 400000 };
    if (p->jit != MLSI_JIT_AUTO) return p->jit == MLSI_JIT_ALWAYS;
    if (mlsi_fault(MLSI_FAULT_BLOCK_JIT)) return true;
    return (is_worth_it(p) && strlen(text) <= MOST) ||
           p->backend->cached(p->graph.alloc, text, p->isa_limit);
}

/* ---- code ---------------------------------------------------------------------------------------------------- */

static void bind_functions(mlsi_program *p) {
    char name[32];
    for (int32_t f = 0; f < p->graph.n_funcs; f++) {
        if (!p->generated[f].made || !p->generated[f].text.len) continue;
        kernel_name(f, name, sizeof name);
        p->generated[f].fn = p->backend->function(p->module, name);
    }
}

static mlsys_status keep_reasons(const mlsi_program *p) {
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        if (p->generated[f].made) MLSI_TRY(keep_reason(p, &p->generated[f].refused));
    return MLSYS_OK;
}

/* Only a lack of memory is a failure: there is block code otherwise. */
static mlsys_status load(mlsi_program *p, const char *text) {
    if (p->backend->accel) return mlsi_accel_load(p, text);
    if (!wants_compiler(p, text)) {
        (void)mlsi_fail(MLSYS_E_UNSUPPORTED, "a compiler is not worth it (jit=auto)");
        return keep_reasons(p);
    }
    mlsys_status st = p->backend->load(p->graph.alloc, text, p->isa_limit, &p->module);
    if (st == MLSYS_OK) {
        bind_functions(p);
        return MLSYS_OK;
    }
    mlsi_log(p->graph.ctx, MLSYS_LOG_WARN, "compile", "no generated code: %s", mlsys_last_error());
    return st == MLSYS_E_NOMEM ? st : keep_reasons(p);
}

/* What is not code becomes blocks, or else runs as its steps; its loops stay where they have been written as text. */
static mlsys_status make_blocks(mlsi_program *p, mlsi_generated *k) {
    mlsys_status st = mlsi_codegen_blocks(&k->nest, &k->blocks);
    if (mlsi_fault(MLSI_FAULT_BLOCK_NEVER)) st = mlsi_fail(MLSYS_E_UNSUPPORTED, "planted");
    if (st == MLSYS_OK) st = p->backend->bind_blocks(&k->blocks, p->isa_limit);
    if (st == MLSYS_OK) {
        k->run_blocks = p->backend->run_blocks;
        return MLSYS_OK;
    }
    mlsi_log(p->graph.ctx, MLSYS_LOG_INFO, "compile", "%s is not one kernel: %s", k->nest.name,
             mlsys_last_error());
    if (st != MLSYS_E_NOMEM) st = keep_reason(p, &k->no_blocks);
    if (!k->text.len) free_kernel(p->graph.alloc, k);
    return st;
}

static mlsys_status generate(mlsi_program *p, const bool *fused) {
    const int64_t start = mlsi_now_ns();
    const int32_t n_funcs = (int32_t)p->graph.n_funcs;
    mlsi_text text;
    mlsi_text_init(&text, p->graph.alloc);
    mlsys_status st = MLSI_NEW_N(p->graph.alloc, n_funcs + 1, &p->generated);
    for (int32_t f = 0; st == MLSYS_OK && f < n_funcs; f++)
        if (fused[f]) st = generate_func(p, f, &text);
    if (st == MLSYS_OK) st = text.st;
    int64_t loading = mlsi_now_ns();
    p->report.generate_ns = loading - start;
    if (st == MLSYS_OK && text.len) st = load(p, text.data);
    for (int32_t f = 0; st == MLSYS_OK && f < n_funcs; f++)
        if (p->generated[f].made && !p->generated[f].fn && !p->backend->accel)
            st = make_blocks(p, &p->generated[f]);
    p->report.load_ns = mlsi_now_ns() - loading;
    mlsi_text_free(&text);
    return st;
}

mlsys_status mlsi_generate(mlsi_program *p) {
    bool *fused = NULL, any = false;
    mlsys_status st = MLSYS_OK;
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, p->graph.n_funcs + 1, &fused));
    find_fused(p, fused);
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        any |= fused[f];
    if (any && (p->backend->load || p->backend->accel)) st = generate(p, fused);
    mlsi_mem_free(p->graph.alloc, fused);
    return st;
}

void mlsi_generated_free(mlsi_program *p) {
    for (int64_t f = 0; p->generated && f < p->graph.n_funcs; f++) {
        free_kernel(p->graph.alloc, &p->generated[f]);
        mlsi_mem_free(p->graph.alloc, p->generated[f].refused);
        mlsi_mem_free(p->graph.alloc, p->generated[f].no_blocks);
    }
    mlsi_mem_free(p->graph.alloc, p->generated);
    mlsi_accel_free(p);
    if (p->module) p->backend->unload(p->graph.alloc, p->module);
}
