/* Passes over the tensor IR: one file and one row of pipeline.c each. */
#ifndef MLSI_PASSES_H
#define MLSI_PASSES_H

#include "core/ctx.h"
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"
#include "ir/proof/proof.h"

/* What compiling tells about itself. */
typedef struct mlsi_compile_report {
    mlsi_text fusion; /* groups, and why other neighbours are not in one kernel (fuse_report.c) */
    int64_t *pass_ns; /* per row of the table; -1: switched off */
    int64_t *pass_nodes; /* nodes of all functions after it */
    int64_t generate_ns, load_ns,
        lower_ns; /* loops and C text; compiler or cache; steps and packing */
} mlsi_compile_report;

typedef struct mlsi_pass_ctx {
    mlsi_graph *g;
    mlsi_device *device; /* the host: of new constants */
    const mlsi_backend *backend;
    mlsi_isa isa_limit;
    mlsi_numerics numerics;
    int64_t
        fuse_least; /* bytes that a fusion must save at the symbols' maxima; 0: the default, -1: never fuse */
    bool prove;       /* rewrites record certificates and fail where those do not hold */
    const char *name; /* of the pass that runs; NULL outside the pipeline */
    /* Told each certificate that held, while both functions are there; NULL: nobody. */
    mlsys_status (*proved)(void *user, const mlsi_proof_claim *claim, const mlsi_certificate *c);
    void *user;
    mlsi_compile_report *report; /* NULL: nobody wants to know */
    int32_t n_fused;             /* functions that fusion has made */
    /* Bytes of the arena that a function's steps need as they stand, at the symbols' maxima. NULL: nobody plans. */
    mlsys_status (*peak)(void *planner, int32_t func, uint64_t *bytes);
    void *planner;
} mlsi_pass_ctx;

typedef struct mlsi_pass {
    const char *name;
    mlsys_status (*run)(mlsi_pass_ctx *p, int32_t func);
    bool required; /* cannot be switched off */
    const char *what;
    bool late; /* runs once kernels are made (run/generate.c): functions keep their numbers */
} mlsi_pass;

/* The table, in order, ended by name NULL. */
extern const mlsi_pass mlsi_pipeline[];
/* Run all passes but those named in off ("cse,fold"; NULL = none) over all functions, callees before
 * callers; verifies after each one when verify is set, and checks its certificates when p->prove is. Functions and constants that nobody needs any
 * more go. Errors name the pass; after one the graph can only be freed. */
mlsys_status mlsi_passes_run(mlsi_pass_ctx *p, const char *off, bool verify);
/* The same for the late rows, which mlsi_passes_run leaves out. */
mlsys_status mlsi_passes_run_late(mlsi_pass_ctx *p, const char *off, bool verify);

/* Free it also after a failure. */
mlsys_status mlsi_compile_report_init(mlsi_compile_report *r, mlsi_alloc *a);
void mlsi_compile_report_free(mlsi_compile_report *r, mlsi_alloc *a);

mlsys_status mlsi_pass_inline(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_simplify(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_fold(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_cse(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_dce(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_decompose(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_transpose(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_hoist(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_fuse(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_layout(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_outline(mlsi_pass_ctx *p, int32_t func);
mlsys_status mlsi_pass_order(mlsi_pass_ctx *p, int32_t func);
/* No pass: composites without loop rules of their own become primitives, so that mlsi_lower_func knows all nodes. */
mlsys_status mlsi_decompose_to_loops(mlsi_pass_ctx *p, int32_t func);

/* A function whose values all have one shape, or one element, over one axis of as many elements: parameters are dense, so
 * both are the same on the same memory. Appended to the graph (drop it by mlsi_graph_truncate); *out = func
 * where its shapes differ or have one axis anyway. */
mlsys_status mlsi_flatten_func(mlsi_graph *g, int32_t func, int32_t *out);

/* ---- mixed precision (narrow.c) ---------------------------------------------------------------- */

/* Rewrites all functions; inputs and outputs keep their types, n values of main are translated in place. No change
 * after a failure. */
mlsys_status mlsi_graph_narrow(mlsi_graph *g, mlsys_dtype dtype, const mlsi_config *c, int32_t n,
                               int32_t *values);
const mlsi_config_key *mlsi_narrow_config_keys(int *n);

/* ---- rewriting (rewrite.c) ------------------------------------------------------------------- */

/* A rewrite rebuilds a function: visit is called for each live node in order and emits what stands in
 * its place into rw->func (of rw->g), answering the new values of the node's results. */
typedef struct mlsi_rewrite {
    mlsi_pass_ctx *pass;
    mlsi_graph *g;
    mlsi_func old;        /* the function as it was (by value: g->funcs moves) */
    int32_t func;         /* the function being built */
    int32_t *map;         /* old value -> new value, -1 = not built */
    int32_t *const_value; /* per constant there was: its new value, -1 = not built */
    int64_t n_consts;
    void *user;
    mlsi_proof_pair *why; /* per old value; when pass->prove is set */
    mlsi_reason by;       /* why the visited node's new values are equal: BY_SAME unless said */
    const char *identity;
    const int32_t *order; /* nodes in the order in which they are visited; NULL: as they stand */
} mlsi_rewrite;

typedef mlsys_status (*mlsi_visit_fn)(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out);

typedef mlsys_status (*mlsi_output_fn)(mlsi_rewrite *rw, int64_t i, int32_t *value);

mlsys_status mlsi_rewrite_run(mlsi_pass_ctx *p, int32_t func, mlsi_visit_fn visit, void *user);
/* The same, and output (NULL: none) may put another value in the place of output i's new value. */
mlsys_status mlsi_rewrite_run_with(mlsi_pass_ctx *p, int32_t func, mlsi_visit_fn visit,
                                   mlsi_output_fn output, void *user);
/* The nodes unchanged in another order, definitions before uses. keep is asked while the function stands so; where it answers
 * false the function becomes what it was. */
typedef mlsys_status (*mlsi_keep_fn)(void *user, bool *keep);
mlsys_status mlsi_rewrite_reorder(mlsi_pass_ctx *p, int32_t func, const int32_t *order,
                                  mlsi_keep_fn keep, void *user);
/* The visit says why the values that it answers are equal to the node's: ir/proof/proof.h. */
void mlsi_rewrite_by(mlsi_rewrite *rw, mlsi_reason by, const char *identity);
/* The node unchanged, over mapped operands. */
mlsys_status mlsi_rewrite_keep(mlsi_rewrite *rw, const mlsi_node *node, int32_t *out);
/* The new function's one value of a constant of the graph. */
mlsys_status mlsi_rewrite_constant(mlsi_rewrite *rw, int32_t constant, int32_t *out);
/* New value of an old operand; -1 stays -1. */
int32_t mlsi_rewrite_operand(const mlsi_rewrite *rw, const mlsi_node *node, int i);
/* The node of the new function that defines a new value, or NULL (input, constant). */
const mlsi_node *mlsi_rewrite_def(const mlsi_rewrite *rw, int32_t new_value);
/* The constant that a new value is, or NULL. */
mlsi_tensor *mlsi_rewrite_const(const mlsi_rewrite *rw, int32_t new_value);

/* ---- certificates (certificate.c) ---------------------------------------------------------------- */

void mlsi_certificate_init(mlsi_certificate *c, mlsi_alloc *a, const char *pass, mlsi_numerics m,
                           int32_t func);
mlsys_status mlsi_certificate_add(mlsi_certificate *c, int32_t before, int32_t after,
                                  mlsi_reason by, const char *identity);
void mlsi_certificate_free(mlsi_certificate *c);
/* "%3 -> %1 identity mul_one": a line per pair. */
void mlsi_certificate_print(const mlsi_certificate *c, mlsi_text *out);

/* ---- layout facts (layout_facts.c) -------------------------------------------------------------- */

/* What every run will know about a value's memory: fills operand from type and the flags that view
 * nodes leave. facts has one entry per value of func. */
void mlsi_layout_facts(const mlsi_graph *g, int32_t func, mlsi_operand *facts);
/* One value's facts; those of its operands (lower values) must be filled. */
void mlsi_layout_facts_of(const mlsi_graph *g, int32_t func, int32_t value, mlsi_operand *facts);
/* Is this VIEW node a view of its operand, given its facts? */
bool mlsi_is_view(const mlsi_node *node, const mlsi_operand *source);
/* First kernel row that takes the node with these facts; NULL = none. */
const mlsi_kernel *mlsi_choose_kernel(const mlsi_pass_ctx *p, const mlsi_node *node,
                                      const mlsi_operand *facts, bool all_contiguous);

#endif
