/* Running the kernels that fused functions are: generated code, or block code. */
#include "run/program.h"

#include <stdio.h>
#include <string.h>

const mlsi_generated *mlsi_generated_of(const mlsi_program *p, const mlsi_node *node) {
    if (node->op != MLSI_OP_CALL || !p->generated) return NULL;
    const mlsi_generated *k = &p->generated[((const mlsi_attr_control *)node->attrs)->fn1];
    return k->fn || k->run_blocks || k->launches ? k : NULL;
}

const char *mlsi_step_name(const mlsi_program *p, const mlsi_node *node, const mlsi_step *s) {
    if (s->kernel) return s->kernel->name;
    if (node->op == MLSI_OP_CALL) /* of a function that is one kernel, or whose steps run */
        return p->graph.funcs[((const mlsi_attr_control *)node->attrs)->fn1].name;
    return node->op == MLSI_OP_IF || node->op == MLSI_OP_WHILE ? "control flow" : "reference";
}

/* ---- run ------------------------------------------------------------------------------------------------- */

/* Of one worker. */
static mlsys_status work_of(const mlsi_generated *k, const int64_t *binding, uint64_t *bytes) {
    MLSI_TRY(mlsi_codegen_work(&k->nest, binding, bytes));
    if (k->fn) return MLSYS_OK;
    if (mlsi_add_u64(*bytes, mlsi_plan_align(k->blocks.state_bytes), bytes)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_SHAPE, "program: %s needs more than 2^64 bytes of work memory",
                     k->nest.name);
}

mlsys_status mlsi_generated_work(const mlsi_program *p, const mlsi_generated *k,
                                 const int64_t *binding, uint64_t *bytes) {
    if (k->launches) return mlsi_accel_work(p, k, binding, bytes);
    MLSI_TRY(work_of(k, binding, bytes));
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
    int64_t r = job->k->fn ? job->k->fn(&a) : job->k->run_blocks(&job->k->blocks, &a);
    if (!r || !atomic_compare_exchange_strong(&job->failed, &none, r)) return;
    memcpy(job->error, a.error, sizeof a.error);
}

mlsys_status mlsi_bind_failed(const mlsi_nest *n, int64_t number, const int64_t error[3]) {
    int64_t left = number, i = 0;
    char at[48] = "";
    while (n->stmts[i].kind != MLSI_LS_BIND || --left)
        i++;
    const mlsi_ls *s = &n->stmts[i];
    if (s->n_index) snprintf(at, sizeof at, " at position %lld", (long long)error[2]);
    return mlsi_fail(MLSYS_E_ARG, "%s %lld%s outside [%lld,%lld)", s->text ? s->text : "index",
                     (long long)error[0], at, s->wrap ? (long long)-error[1] : 0,
                     (long long)error[1]);
}

/* Outputs of this size are written past the caches, unless they are an input's memory; and only one: several streams of such
 * stores get into each other's way (Adam, 16 million parameters, Zen 3: 49 ms with, 17 without). */
static int streams(const mlsi_kernel_args *a) {
    enum { STREAM_BYTES = 1 << 25, STREAM = 1, AHEAD = 2 };
    uint64_t bytes = 0;
    int how = a->n_out == 1 ? STREAM | AHEAD : AHEAD;
    for (int o = 0; o < a->n_out; o++) {
        bytes += mlsi_view_bytes(&a->out[o]);
        for (int i = 0; i < a->n_in; i++)
            if (a->in[i].data == a->out[o].data) how = AHEAD;
    }
    return bytes >= STREAM_BYTES ? how : 0;
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
    MLSI_TRY(work_of(k, binding, &job.work_bytes));
    job.grain = job.tasks / (threads * ITEMS_PER_THREAD) + 1;
    mlsi_pool_run(a->pool, (job.tasks + job.grain - 1) / job.grain, run_tasks, &job);
    return job.failed ? mlsi_bind_failed(&k->nest, job.failed, job.error) : MLSYS_OK;
}
