/* Long reductions of few rows in launches of their own.
 *
 * A reduction of one row is cut into runs of 4096 terms (cuda_schedule.c), whose results are the terms of the reduction over the
 * runs: those of the canonical tree (docs/numerics.md). Each such loop is a part of the kernel. Part p has a kernel in which a run of a row is a task: its block leaves
 * the run's result in `work`. The kernels of the later parts and the nest's own one, which are launched behind it, read
 * the results there in place of the runs. What stands ahead of a part at the level of rows, every kernel computes for itself. */
#include "ir/codegen/cuda_writer.h"

#include "core/faults.h"

static bool has_locals(const mlsi_nest *n) {
    for (int64_t b = 0; b < n->n_buffers; b++)
        if (n->buffers[b].scope == MLSI_SCOPE_LOCAL) return true;
    return false;
}

static bool is_opened(const mlsi_nest *n, int32_t first, int32_t end, int32_t acc) {
    for (int32_t i = first; i >= 0 && i != end; i = n->stmts[i].next)
        if (n->stmts[i].kind == MLSI_LS_ACC && n->stmts[i].ref == acc) return true;
    return false;
}

/* The ADD at the end of a loop over runs to a reduction that is opened ahead of it; -1: the loop is none. */
static int32_t add_of_runs(const mlsi_c_writer *w, int32_t first, int32_t loop) {
    const mlsi_nest *n = w->n;
    const mlsi_loop_var *v = &n->vars[n->stmts[loop].var];
    bool shared = false;
    for (int32_t i = n->stmts[loop].body; i >= 0; i = n->stmts[i].next) {
        const mlsi_ls *s = &n->stmts[i];
        if (s->kind == MLSI_LS_ADD)
            return shared && s->next < 0 && s->value2 < 0 && s->index[0] == v->code &&
                           n->accs[s->ref].init < 0 && is_opened(n, first, loop, s->ref)
                       ? i
                       : -1;
        if (s->kind == MLSI_LS_FOR && !w->plan->shared[i]) return -1;
        if (s->kind != MLSI_LS_FOR && s->kind != MLSI_LS_LET && s->kind != MLSI_LS_ACC) return -1;
        shared |= s->kind == MLSI_LS_FOR;
    }
    return -1;
}

static int64_t tasks_of(mlsi_nest *n, int32_t loop) {
    int64_t tasks;
    if (mlsi_codegen_tasks(n, &tasks) != MLSYS_OK) return 1;
    return mlsi_nest_index(n, '*', tasks, n->vars[n->stmts[loop].var].extent);
}

void mlsi_cuda_find_parts(mlsi_c_writer *w, mlsi_gpu_code *code) {
    mlsi_cuda_plan *p = w->plan;
    int32_t chain[8], inner, before = -1;
    p->part = p->n_parts = 0;
    mlsi_codegen_chain(w->n, chain, &inner);
    if (p->block && !has_locals(w->n))
        for (int32_t i = inner; i >= 0 && p->n_parts < MLSI_GPU_PARTS; i = w->n->stmts[i].next) {
            const mlsi_ls *s = &w->n->stmts[i];
            const int32_t add = s->kind == MLSI_LS_FOR ? add_of_runs(w, inner, i) : -1;
            if (add < 0 && s->kind != MLSI_LS_LET && s->kind != MLSI_LS_ACC) break;
            if (add >= 0) {
                p->parts[p->n_parts++] =
                    (mlsi_cuda_part){.loop = i, .add = add, .before = before, .body = s->body};
                p->spread[w->n->stmts[add].ref] = true;
            }
            before = i;
        }
    code->n_parts = p->n_parts;
    for (int k = 0; k < p->n_parts; k++)
        code->parts[k] = tasks_of(w->n, p->parts[k].loop);
    p->part = p->n_parts;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static int part_of(const mlsi_c_writer *w, const mlsi_ls *add) {
    for (int k = 0; k < w->plan->n_parts; k++)
        if (&w->n->stmts[w->plan->parts[k].add] == add) return k;
    return -1;
}

static void element(mlsi_c_writer *w, const mlsi_ls *add, int part) {
    const char *type = mlsi_c_register_type(w->n->exprs[add->value].dtype, false);
    int64_t at = 0;
    for (int k = 0; k < part && !mlsi_fault(MLSI_FAULT_CUDA_RUN_PLACE); k++)
        at = mlsi_nest_index(w->n, '+', at, tasks_of(w->n, w->plan->parts[k].loop));
    mlsi_text_add(w->out, "((%s *)(work + 8 * (", type);
    mlsi_c_index(w, at);
    mlsi_text_add(w->out, ")))[");
    if (part == w->plan->part) {
        mlsi_text_add(w->out, "task]");
        return;
    }
    const mlsi_loop_var *v = &w->n->vars[w->n->stmts[w->plan->parts[part].loop].var];
    int64_t rows;
    if (mlsi_codegen_tasks(w->n, &rows) != MLSYS_OK) return;
    mlsi_text_add(w->out, "v_%s * ", v->name);
    mlsi_c_index(w, rows);
    mlsi_text_add(w->out, mlsi_fault(MLSI_FAULT_CUDA_RUN) ? "]" : " + row]");
}

bool mlsi_cuda_leave_run(mlsi_c_writer *w, const mlsi_ls *add) {
    const int part = part_of(w, add);
    if (part < 0 || part != w->plan->part) return false;
    mlsi_text_add(w->out, "if (threadIdx.x == 0) ");
    element(w, add, part);
    mlsi_text_add(w->out, " = ");
    mlsi_c_value(w, add->value);
    mlsi_text_add(w->out, ";\n");
    return true;
}

bool mlsi_cuda_take_run(mlsi_c_writer *w, const mlsi_ls *add) {
    const int part = part_of(w, add);
    if (part < 0) return false;
    element(w, add, part);
    return true;
}

/* In kernels behind a part's own its loop is shared, and nothing is in it but the ADD. */
void mlsi_cuda_end_part(mlsi_c_writer *w, int part) {
    const mlsi_cuda_part *k = &w->plan->parts[part];
    w->n->stmts[k->loop].body = k->add;
    w->plan->shared[k->loop] = true;
    w->plan->part = part + 1;
}

void mlsi_cuda_restore_parts(mlsi_c_writer *w) {
    for (int k = 0; k < w->plan->n_parts; k++)
        w->n->stmts[w->plan->parts[k].loop].body = w->plan->parts[k].body;
}

void mlsi_cuda_part_body(mlsi_c_writer *w, int32_t inner) {
    const mlsi_cuda_part *k = &w->plan->parts[w->plan->part];
    w->n->stmts[k->before].next = -1; /* the reduction over the runs is begun, and has no end */
    mlsi_c_body(w, inner);
    w->n->stmts[k->before].next = k->loop;
    mlsi_c_body(w, w->n->stmts[k->loop].body);
}
