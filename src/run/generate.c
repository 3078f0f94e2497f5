/* Generated kernels of a program: one module with a function per fused function. */
#include "run/program.h"

#include "core/trace.h"
#include "ir/loop/schedule.h"

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

static void kernel_name(int32_t func, char *name, size_t size) {
    snprintf(name, size, "mlsi_k%d", (int)func);
}

/* Keeps the thread's sentence. */
static mlsys_status refuse(const mlsi_program *p, mlsi_generated *k) {
    const char *why = mlsys_last_error();
    size_t n = strlen(why) + 1;
    if (k->refused) return MLSYS_OK;
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, (int64_t)n, &k->refused));
    memcpy(k->refused, why, n);
    return MLSYS_OK;
}

static void free_kernel(mlsi_generated *k) {
    if (!k->made) return;
    mlsi_nest_free(&k->nest);
    mlsi_text_free(&k->text);
    k->made = false;
}

/* Loops, their proof where one is asked for, and text; a refusal leaves the function to its steps: what is not proved is not
 * used, and the proof knows less than is true. */
static mlsys_status generate_func(mlsi_program *p, int32_t func, mlsi_text *text) {
    mlsi_generated *k = &p->generated[func];
    char name[32];
    kernel_name(func, name, sizeof name);
    int32_t flat, n_funcs = (int32_t)p->graph.n_funcs;
    MLSI_TRY(mlsi_flatten_func(&p->graph, func, &flat));
    mlsi_text_init(&k->text, p->graph.alloc);
    k->made = true;
    const mlsi_func *f = &p->graph.funcs[func];
    mlsys_status st = mlsi_lower_func(&p->graph, flat, f->name, &k->nest);
    if (st == MLSYS_OK && !has_own_loops(f)) st = mlsi_codegen_schedule(&k->nest);
    if (st == MLSYS_OK) st = mlsi_nest_move_invariants(&k->nest);
    if (st == MLSYS_OK) st = mlsi_prove_nest(p, flat, &k->nest);
    f = &p->graph.funcs[func]; /* the proof may have moved them */
    if (st == MLSYS_OK) st = mlsi_codegen_tasks(&k->nest, &k->tasks);
    if (st == MLSYS_OK) st = mlsi_codegen_c(&k->nest, name, &k->text);
    if (st == MLSYS_OK) st = k->text.st;
    if (st == MLSYS_OK) {
        mlsi_text_add(text, "%s\n", k->text.data);
    } else {
        mlsi_log(p->graph.ctx, st == MLSYS_E_INTERNAL ? MLSYS_LOG_WARN : MLSYS_LOG_INFO, "compile",
                 "%s is not one kernel: %s", f->name, mlsys_last_error());
        free_kernel(k);
        if (st != MLSYS_E_NOMEM) st = refuse(p, k);
    }
    mlsi_graph_truncate(&p->graph, n_funcs);
    return st == MLSYS_E_NOMEM ? st : MLSYS_OK;
}

static void bind_functions(mlsi_program *p) {
    char name[32];
    for (int32_t f = 0; f < p->graph.n_funcs; f++) {
        if (!p->generated[f].made) continue;
        kernel_name(f, name, sizeof name);
        p->generated[f].fn = p->backend->function(p->module, name);
    }
}

/* Only a lack of memory is a failure: the functions run as steps otherwise. */
static mlsys_status load(mlsi_program *p, const char *text) {
    mlsys_status st = p->backend->load(p->graph.alloc, text, p->isa_limit, &p->module);
    if (st == MLSYS_OK) {
        bind_functions(p);
        return MLSYS_OK;
    }
    mlsi_log(p->graph.ctx, MLSYS_LOG_WARN, "compile", "no generated kernels: %s",
             mlsys_last_error());
    if (st == MLSYS_E_NOMEM) return st;
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        if (p->generated[f].made) MLSI_TRY(refuse(p, &p->generated[f]));
    return MLSYS_OK;
}

mlsys_status mlsi_generate(mlsi_program *p) {
    mlsi_alloc *a = p->graph.alloc;
    bool *fused = NULL, any = false;
    const int64_t start = mlsi_now_ns();
    mlsi_text text;
    MLSI_TRY(MLSI_NEW_N(a, p->graph.n_funcs + 1, &fused));
    find_fused(p, fused);
    for (int64_t f = 0; f < p->graph.n_funcs; f++)
        any |= fused[f];
    mlsys_status st =
        any && p->backend->load ? MLSI_NEW_N(a, p->graph.n_funcs + 1, &p->generated) : MLSYS_OK;
    mlsi_text_init(&text, a);
    const int32_t n_funcs = (int32_t)p->graph.n_funcs;
    for (int32_t f = 0; st == MLSYS_OK && p->generated && f < n_funcs; f++)
        if (fused[f]) st = generate_func(p, f, &text);
    if (st == MLSYS_OK) st = text.st;
    int64_t loading = mlsi_now_ns();
    p->report.generate_ns = loading - start;
    if (st == MLSYS_OK && text.len) st = load(p, text.data);
    p->report.load_ns = mlsi_now_ns() - loading;
    mlsi_text_free(&text);
    mlsi_mem_free(a, fused);
    return st;
}

void mlsi_generated_free(mlsi_program *p) {
    for (int64_t f = 0; p->generated && f < p->graph.n_funcs; f++) {
        free_kernel(&p->generated[f]);
        mlsi_mem_free(p->graph.alloc, p->generated[f].refused);
    }
    mlsi_mem_free(p->graph.alloc, p->generated);
    if (p->module) p->backend->unload(p->graph.alloc, p->module);
}

const mlsi_generated *mlsi_generated_of(const mlsi_program *p, const mlsi_node *node) {
    if (node->op != MLSI_OP_CALL || !p->generated) return NULL;
    const mlsi_generated *k = &p->generated[((const mlsi_attr_control *)node->attrs)->fn1];
    return k->fn ? k : NULL;
}

const char *mlsi_step_name(const mlsi_program *p, const mlsi_node *node, const mlsi_step *s) {
    if (s->kernel) return s->kernel->name;
    if (node->op == MLSI_OP_CALL) /* of a function that is one kernel, or whose steps run */
        return p->graph.funcs[((const mlsi_attr_control *)node->attrs)->fn1].name;
    return node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE ? "control flow" : "reference";
}

/* ---- run ------------------------------------------------------------------------------------------------- */

mlsys_status mlsi_generated_work(const mlsi_program *p, const mlsi_generated *k,
                                 const int64_t *binding, uint64_t *bytes) {
    MLSI_TRY(mlsi_codegen_work(&k->nest, binding, bytes));
    if (mlsi_mul_u64(*bytes, (uint64_t)mlsi_pool_threads(p->graph.ctx->pool), bytes))
        return MLSYS_OK;
    return mlsi_fail(MLSYS_E_SHAPE, "program: %s needs more than 2^64 bytes of work memory",
                     k->nest.name);
}

typedef struct gen_job {
    const mlsi_generated *k;
    mlsi_gen_args args;
    uint64_t work_bytes; /* of one worker */
    int64_t tasks, grain;
    _Atomic int64_t failed;
    int64_t error[3]; /* of the first failure */
} gen_job;

static void run_tasks(void *user, int64_t item, int worker) {
    gen_job *job = user;
    mlsi_gen_args a = job->args;
    int64_t none = 0;
    a.begin = item * job->grain;
    a.end = a.begin + job->grain < job->tasks ? a.begin + job->grain : job->tasks;
    a.work += (uint64_t)worker * job->work_bytes;
    int64_t r = job->k->fn(&a);
    if (!r || !atomic_compare_exchange_strong(&job->failed, &none, r)) return;
    memcpy(job->error, a.error, sizeof a.error);
}

/* Sentence of the BIND with that number. */
static mlsys_status bind_failed(const gen_job *job) {
    const mlsi_nest *n = &job->k->nest;
    int64_t left = job->failed, i = 0;
    char at[48] = "";
    while (n->stmts[i].kind != MLSI_LS_BIND || --left)
        i++;
    const mlsi_ls *s = &n->stmts[i];
    if (s->n_index) snprintf(at, sizeof at, " at position %lld", (long long)job->error[2]);
    return mlsi_fail(MLSYS_E_ARG, "%s %lld%s outside [%lld,%lld)", s->text ? s->text : "index",
                     (long long)job->error[0], at, s->wrap ? (long long)-job->error[1] : 0,
                     (long long)job->error[1]);
}

/* Outputs of this size are written past the caches, unless they are an input's memory. */
static int streams(const mlsi_kernel_args *a) {
    enum { STREAM_BYTES = 1 << 25 };
    uint64_t bytes = 0;
    for (int o = 0; o < a->n_out; o++) {
        bytes += mlsi_view_bytes(&a->out[o]);
        for (int i = 0; i < a->n_in; i++)
            if (a->in[i].data == a->out[o].data) return 0;
    }
    return bytes >= STREAM_BYTES;
}

mlsys_status mlsi_generated_run(const mlsi_generated *k, const int64_t *binding,
                                const mlsi_kernel_args *a) {
    enum { ITEMS_PER_THREAD = 8 };
    char *data[2 * MLSI_MAX_OPERANDS];
    gen_job job = {.k = k,
                   .args = {.data = data, .dims = binding, .work = a->work, .stream = streams(a)}};
    int threads = mlsi_pool_threads(a->pool);
    for (int i = 0; i < a->n_in + a->n_out; i++)
        data[i] = i < a->n_in ? a->in[i].data : a->out[i - a->n_in].data;
    MLSI_TRY(mlsi_dim_eval(&k->nest.tab, k->tasks, binding, &job.tasks));
    MLSI_TRY(mlsi_codegen_work(&k->nest, binding, &job.work_bytes));
    job.grain = job.tasks / (threads * ITEMS_PER_THREAD) + 1;
    mlsi_pool_run(a->pool, (job.tasks + job.grain - 1) / job.grain, run_tasks, &job);
    return job.failed ? bind_failed(&job) : MLSYS_OK;
}
