/* mlsys_program_export: the copy with fixed shapes, its steps, their memory, the file. */
#include "run/export.h"

#include "core/faults.h"

#include <string.h>

static const mlsi_config_key keys[] = {
    {"name", 's', "model", 0, 0, "NAME of NAME_run and what else the file names: a C identifier"}};

const mlsi_config_key *mlsi_export_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

static mlsys_status read_name(mlsi_export *x, const mlsi_config *c) {
    static const char digits[] = "0123456789";
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    MLSI_TRY(mlsi_config_check(c, "export", keys, 1));
    x->name = mlsi_config_str(c, "name", "model");
    size_t n = strlen(x->name);
    if (n < 1 || n > 63 || strchr(digits, x->name[0]) || x->name[0] == '_' ||
        strspn(x->name, letters) != n)
        return mlsi_fail(MLSYS_E_ARG,
                         "program_export: name \"%.80s\" is no C identifier of at most 63 letters",
                         x->name);
    return MLSYS_OK;
}

/* ---- shapes become numbers ------------------------------------------------------------------------------------ */

/* A symbol with one value is a number, so importing a graph with such symbols computes all its dims. */
static mlsys_status copy_with(mlsi_export *x, const int64_t *wanted) {
    mlsi_graph fixed;
    int32_t func;
    MLSI_TRY(mlsi_graph_init(&fixed, x->graph.ctx));
    mlsi_graph_truncate(&fixed, 0); /* the imported function is main */
    mlsi_graph_truncate(&x->graph, 0);
    mlsys_status st = mlsi_graph_import(&fixed, &x->program->graph, 0, &func);
    const mlsi_symtab *names = &x->program->graph.symbols;
    for (int64_t s = 0; st == MLSYS_OK && s < fixed.symbols.n_symbols; s++) {
        mlsi_symbol *symbol = &fixed.symbols.symbols[s];
        for (int64_t i = 0; i < names->n_symbols; i++)
            if (!strcmp(names->symbols[i].name, symbol->name))
                symbol->min = symbol->max = wanted[i];
    }
    if (st == MLSYS_OK) st = mlsi_graph_import(&x->graph, &fixed, 0, &func);
    mlsi_graph_free(&fixed);
    MLSI_TRY(st);
    MLSI_TRY(MLSI_NEW_N(x->graph.alloc, x->graph.symbols.n_symbols + 1, &x->binding));
    for (int64_t s = 0; s < x->graph.symbols.n_symbols; s++)
        x->binding[s] = x->graph.symbols.symbols[s].max;
    return MLSYS_OK;
}

static mlsys_status copy_graph(mlsi_export *x, int n, const char *const *names,
                               const int64_t *values) {
    mlsi_bound *b;
    MLSI_TRY(mlsi_bound_create(x->program, &b));
    mlsys_status st = mlsi_bound_names(b, n, names, values);
    if (st == MLSYS_OK) st = copy_with(x, b->wanted);
    mlsi_bound_free(x->program->graph.alloc, b);
    return st;
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

/* Places that steps make, from the step that writes to the last that reads; then each step's work. No result takes an
 * operand's memory: the loops of a step may read any element after they have written any other. */
static mlsys_status plan(mlsi_export *x, mlsi_interval *items, int32_t *scratch) {
    const int64_t n = x->n_places + x->n_steps;
    for (int64_t i = 0; i < x->n_places; i++) {
        const mlsi_place_of *p = &x->places[i];
        const bool planned = p->kind == MLSI_AT_ARENA && p->last >= 0;
        items[i] = (mlsi_interval){planned ? mlsi_plan_align(p->bytes) : 0, planned ? p->first : 0,
                                   planned ? p->last : 0, 0};
        if (p->kind == MLSI_AT_CONST && p->last >= 0 &&
            !mlsi_add_u64(x->const_bytes, p->bytes, &x->const_bytes))
            return mlsi_fail(MLSYS_E_SHAPE, "program_export: constants of more than 2^64 bytes");
    }
    for (int64_t i = 0; i < x->n_steps; i++)
        items[x->n_places + i] =
            (mlsi_interval){mlsi_plan_align(x->steps[i].work_bytes), (int32_t)i, (int32_t)i, 0};
    MLSI_TRY(mlsi_plan(items, scratch, n, x->program->plan_reuse, &x->arena_bytes));
    for (int64_t i = 0; i < x->n_places; i++)
        x->places[i].offset = items[i].offset;
    for (int64_t i = 0; i < x->n_steps; i++)
        x->steps[i].work_offset =
            mlsi_fault(MLSI_FAULT_EXPORT_WORK) ? 0 : items[x->n_places + i].offset;
    return MLSYS_OK;
}

static mlsys_status plan_memory(mlsi_export *x) {
    mlsi_interval *items = NULL;
    int32_t *scratch = NULL;
    const int64_t n = x->n_places + x->n_steps;
    mlsys_status st = MLSI_NEW_N(x->graph.alloc, n + 1, &items);
    if (st == MLSYS_OK) st = MLSI_NEW_N(x->graph.alloc, mlsi_plan_scratch(n) + 1, &scratch);
    if (st == MLSYS_OK) st = plan(x, items, scratch);
    mlsi_mem_free(x->graph.alloc, items);
    mlsi_mem_free(x->graph.alloc, scratch);
    return st;
}

/* ---- the call --------------------------------------------------------------------------------------------------------- */

static mlsys_status write_file(mlsi_export *x, const char *path) {
    mlsi_file_writer *w;
    MLSI_TRY(mlsi_file_write_begin(x->graph.alloc, path, &w));
    mlsys_status st = mlsi_export_write(x, w);
    if (st == MLSYS_OK) return mlsi_file_write_commit(w);
    mlsi_file_write_abort(w);
    return st;
}

static void free_members(mlsi_export *x) {
    mlsi_alloc *a = x->graph.alloc;
    for (int64_t k = 0; k < x->n_kernels; k++)
        mlsi_text_free(&x->kernels[k].text);
    mlsi_mem_free(a, x->kernels);
    mlsi_mem_free(a, x->binding);
    mlsi_mem_free(a, x->places);
    mlsi_mem_free(a, x->steps);
    mlsi_mem_free(a, x->args);
    mlsi_graph_free(&x->graph);
}

mlsys_status mlsi_program_export(const mlsi_program *p, const char *path, int n,
                                 const char *const *names, const int64_t *values,
                                 const mlsi_config *c) {
    mlsi_export x = {.program = p};
    MLSI_TRY(read_name(&x, c));
    MLSI_TRY(mlsi_graph_init(&x.graph, p->graph.ctx));
    x.pass = (mlsi_pass_ctx){&x.graph, p->host, &mlsi_cpu_backend, p->isa_limit, p->numerics};
    mlsys_status st = copy_graph(&x, n, names, values);
    if (st == MLSYS_OK) st = mlsi_export_walk(&x);
    if (st == MLSYS_OK) st = plan_memory(&x);
    if (st == MLSYS_OK) st = write_file(&x, path);
    free_members(&x);
    return st;
}
