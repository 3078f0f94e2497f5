/* Steps of an exported program: loops and C text of a function, shared by all steps that have the same text. */
#include "run/export.h"

#include "core/faults.h"
#include "core/hash.h"

#include <stdio.h>
#include <string.h>

/* Behind the name and the parameters, which alone tell equal functions apart. */
static const char *body_of(const mlsi_text *t) {
    const char *body = t->data ? strchr(t->data, '{') : NULL;
    return body ? body : "";
}

static bool same_body(const mlsi_text *a, const mlsi_text *b) {
    return !strcmp(body_of(a), body_of(b));
}

/* Takes the text. */
static mlsys_status add_kernel(mlsi_export *x, mlsi_text *text, int32_t *out) {
    const char *body = body_of(text);
    uint64_t hash = mlsi_hash_bytes(MLSI_HASH_SEED, body, strlen(body));
    int64_t k = 0;
    for (; k < x->n_kernels; k++)
        if ((x->kernels[k].hash == hash && same_body(&x->kernels[k].text, text)) ||
            mlsi_fault(MLSI_FAULT_EXPORT_SAME_TEXT))
            break;
    *out = (int32_t)k;
    if (k < x->n_kernels) return MLSYS_OK;
    MLSI_TRY(MLSI_GROW(x->graph.alloc, &x->kernels, &x->cap_kernels, k + 1));
    x->kernels[x->n_kernels++] = (mlsi_export_kernel){*text, hash};
    mlsi_text_init(text, x->graph.alloc);
    return MLSYS_OK;
}

static mlsys_status prove(mlsi_export *x, int32_t func, mlsi_nest *n) {
    mlsi_verdict v;
    if (!x->program->prove) return MLSYS_OK;
    MLSI_TRY(mlsi_check_nest(&x->graph, func, n, &v));
    return v.answer == MLSI_REFUSED ? mlsi_fail(MLSYS_E_INTERNAL, "proof of %s", v.why) : MLSYS_OK;
}

/* Kernel, tasks and work memory of a function. */
static mlsys_status make_kernel(mlsi_export *x, int32_t func, mlsi_export_step *s) {
    mlsi_nest n;
    mlsi_text text;
    int32_t flat;
    int64_t tasks;
    char name[96];
    snprintf(name, sizeof name, "%.64s_kernel%lld", x->name, (long long)x->n_kernels);
    mlsi_text_init(&text, x->graph.alloc);
    mlsys_status st = mlsi_generate_nest(&x->graph, func, &flat, &n);
    if (st == MLSYS_OK) st = prove(x, flat, &n);
    if (st == MLSYS_OK) st = mlsi_codegen_tasks(&n, &tasks);
    if (st == MLSYS_OK) st = mlsi_dim_eval(&n.tab, tasks, x->binding, &s->tasks);
    if (st == MLSYS_OK) st = mlsi_codegen_work(&n, x->binding, &s->work_bytes);
    if (st == MLSYS_OK) st = mlsi_codegen_c(&n, name, &text);
    if (st == MLSYS_OK) st = text.st;
    if (st == MLSYS_OK) st = add_kernel(x, &text, &s->kernel);
    mlsi_text_free(&text);
    mlsi_nest_free(&n);
    return st;
}

static void touch(mlsi_export *x, int32_t place, int32_t step) {
    mlsi_place_of *p = &x->places[place];
    if (p->first > step) p->first = step;
    if (p->last < step && !mlsi_fault(MLSI_FAULT_EXPORT_LIFETIME)) p->last = step;
}

mlsys_status mlsi_export_step_of(mlsi_export *x, int32_t func, const char *what, int n_args,
                                 const mlsi_spot *args) {
    mlsi_export_step s = {.first_arg = (int32_t)x->n_args, .n_args = n_args};
    mlsys_status st = make_kernel(x, func, &s);
    mlsi_graph_truncate(&x->graph, func + 1); /* its flattened form */
    MLSI_TRY(st);
    MLSI_TRY(mlsi_arena_strdup(&x->graph.arena, what, &s.what));
    MLSI_TRY(MLSI_GROW(x->graph.alloc, &x->steps, &x->cap_steps, x->n_steps + 1));
    MLSI_TRY(MLSI_GROW(x->graph.alloc, &x->args, &x->cap_args, x->n_args + n_args));
    for (int i = 0; i < n_args; i++) {
        touch(x, args[i].place, (int32_t)x->n_steps);
        x->args[x->n_args++] = args[i];
    }
    x->steps[x->n_steps++] = s;
    return MLSYS_OK;
}
