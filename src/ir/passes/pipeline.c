/* The table of passes. */
#include "ir/passes/passes.h"

#include "core/trace.h"

#include <string.h>

const mlsi_pass mlsi_pipeline[] = {
    {"inline", mlsi_pass_inline, true, "calls become their callee's body"},
    {"simplify", mlsi_pass_simplify, false, "identities that keep every bit"},
    {"fold", mlsi_pass_fold, false, "nodes over small constants become constants"},
    {"cse", mlsi_pass_cse, false, "equal nodes become one"},
    {"decompose", mlsi_pass_decompose, true, "composites that no kernel claims become primitives"},
    {"transpose", mlsi_pass_transpose, false,
     "elementwise values with their axes in the order that moves fewer bytes"},
    {"simplify2", mlsi_pass_simplify, false, "simplify, after decompose"},
    {"fold2", mlsi_pass_fold, false, "fold, after decompose"},
    {"cse2", mlsi_pass_cse, false, "cse, after decompose"},
    {"dce", mlsi_pass_dce, false, "nodes nobody reads go"},
    {"hoist", mlsi_pass_hoist, false, "what does not change in a loop is computed before it"},
    {"fuse", mlsi_pass_fuse, false,
     "neighbours that share their loops become a function that is one kernel"},
    {"layout", mlsi_pass_layout, true,
     "copies where a kernel or an output needs contiguous memory"},
    {"outline", mlsi_pass_outline, true,
     "on an accelerator, what has no kernel becomes a function that is one"},
    {"order", mlsi_pass_order, false, "tasks in an order that needs less memory", .late = true},
    {NULL, NULL, false, NULL}};

static bool named_in(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *p = list; p && *p;) {
        const char *end = strchr(p, ',');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        if (len == n && !memcmp(p, name, n)) return true;
        p = end ? end + 1 : NULL;
    }
    return false;
}

static mlsys_status check_names(const char *off) {
    for (const char *p = off; p && *p;) {
        const char *end = strchr(p, ',');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        const mlsi_pass *row = mlsi_pipeline;
        while (row->name && (strlen(row->name) != len || memcmp(row->name, p, len)))
            row++;
        if (!row->name)
            return mlsi_fail(MLSYS_E_NOTFOUND, "compile: passes_off names no pass \"%.*s\"",
                             (int)len, p);
        if (row->required)
            return mlsi_fail(MLSYS_E_ARG, "compile: pass \"%s\" cannot be switched off", row->name);
        p = end ? end + 1 : NULL;
    }
    return MLSYS_OK;
}

mlsys_status mlsi_compile_report_init(mlsi_compile_report *r, mlsi_alloc *a) {
    int64_t n = (int64_t)(sizeof mlsi_pipeline / sizeof mlsi_pipeline[0]);
    memset(r, 0, sizeof *r);
    mlsi_text_init(&r->fusion, a);
    MLSI_TRY(MLSI_NEW_N(a, n, &r->pass_ns));
    return MLSI_NEW_N(a, n, &r->pass_nodes);
}

void mlsi_compile_report_free(mlsi_compile_report *r, mlsi_alloc *a) {
    mlsi_text_free(&r->fusion);
    mlsi_mem_free(a, r->pass_ns);
    mlsi_mem_free(a, r->pass_nodes);
}

/* ns < 0: the pass was switched off. */
static void tell(mlsi_pass_ctx *p, int64_t row, int64_t ns) {
    if (!p->report) return;
    int64_t nodes = 0;
    for (int64_t f = 0; f < p->g->n_funcs; f++)
        nodes += p->g->funcs[f].n_nodes;
    p->report->pass_ns[row] = ns;
    p->report->pass_nodes[row] = nodes;
}

static mlsys_status run_row(mlsi_pass_ctx *p, const mlsi_pass *row, bool verify) {
    mlsys_status st = MLSYS_OK;
    int64_t start = mlsi_now_ns();
    p->name = row->name;
    for (int64_t f = p->g->n_funcs - 1; f >= 0 && st == MLSYS_OK; f--) {
        st = row->run(p, (int32_t)f);
        if (st == MLSYS_OK && verify) st = mlsi_graph_verify(p->g);
    }
    if (st == MLSYS_OK && !row->late) st = mlsi_graph_compact(p->g);
    if (st != MLSYS_OK) return mlsi_fail_in(st, "compile: pass %s", row->name);
    tell(p, row - mlsi_pipeline, mlsi_now_ns() - start);
    return MLSYS_OK;
}

static mlsys_status run(mlsi_pass_ctx *p, const char *off, bool verify, bool late) {
    for (const mlsi_pass *row = mlsi_pipeline; row->name; row++) {
        if (row->late != late) continue;
        tell(p, row - mlsi_pipeline, -1);
        if (!named_in(off, row->name)) MLSI_TRY(run_row(p, row, verify));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_passes_run(mlsi_pass_ctx *p, const char *off, bool verify) {
    MLSI_TRY(check_names(off));
    return run(p, off, verify, false);
}

mlsys_status mlsi_passes_run_late(mlsi_pass_ctx *p, const char *off, bool verify) {
    return run(p, off, verify, true);
}
