/* Tensor IR.
 *
 * Semantics
 *  - A graph is a set of functions; function 0 is main. A function is a list of nodes in execution
 *    order over SSA values: each value is defined once, before its uses. Values are immutable; there
 *    is no aliasing in the IR. Memory appears only in the program (src/run).
 *  - A value's type is a dtype and a shape of dims (integers or expressions over symbols, dims.h).
 *  - An op's meaning, types and attribute rules are its definition (ir/ops/op_def.h); bits are
 *    docs/numerics.md. Integer overflow wraps, extents of 0 are legal, rank is 0..8.
 *  - Inputs may be donated: a run may then reuse their memory for results once nobody reads them.
 *  - Nodes have no side effects; removing an unused one is always legal. Random draws are functions
 *    of their inputs. Custom ops must behave likewise.
 *  - call, if, while name later functions of the same graph by index, so there is no recursion; they
 *    nest at most MLSI_MAX_NEST deep. */
#ifndef MLSI_IR_H
#define MLSI_IR_H

#include "core/backend.h"
#include "core/tensor.h"
#include "ir/graph/dims.h"

enum {
    MLSI_MAX_NEST = 64,    /* of functions */
    MLSI_MAX_FUNCS = 4096, /* of a graph */
    MLSI_MAX_NAME = 255    /* bytes of the name of an input, output or function */
};

typedef struct mlsi_type {
    mlsys_dtype dtype; /* 0 = absent operand */
    int32_t rank;
    int64_t dims[MLSYS_MAX_DIMS];
} mlsi_type;

typedef enum mlsi_value_kind {
    MLSI_VALUE_INPUT = 1,
    MLSI_VALUE_CONST,
    MLSI_VALUE_NODE
} mlsi_value_kind;

typedef struct mlsi_value_def {
    mlsi_value_kind kind;
    int32_t index;  /* input number, constant number, or node number */
    int32_t result; /* which result of the node */
    mlsi_type type;
    const char *name; /* may be NULL */
} mlsi_value_def;

typedef struct mlsi_node {
    mlsi_op op;
    const void *attrs; /* the op's attribute struct, owned by the graph's arena */
    int32_t n_in, n_out;
    const int32_t *in; /* value numbers; -1 = absent optional operand */
    int32_t first_out; /* results are values first_out .. first_out + n_out - 1 */
} mlsi_node;

typedef struct mlsi_output {
    const char *name;
    int32_t value;
} mlsi_output;

typedef struct mlsi_func {
    const char *name;
    mlsi_node *nodes;
    int64_t n_nodes, cap_nodes;
    mlsi_value_def *values;
    int64_t n_values, cap_values;
    int32_t *inputs; /* value numbers */
    bool *donated;   /* per input */
    int64_t n_inputs, cap_inputs, cap_donated;
    mlsi_output *outputs;
    int64_t n_outputs, cap_outputs;
} mlsi_func;

typedef struct mlsi_custom_use { /* one custom op node's identity */
    const mlsi_custom_op *op;
    mlsi_config *attrs; /* a copy, pinned and with a user reference of its own; NULL = none */
} mlsi_custom_use;

/* Makes an empty graph a window on a function of another one, for one thread and a few calls (api/api_custom.c):
 * a gradient rule of the user builds through it while the other graph is in use. */
typedef struct mlsi_graph_window {
    _Atomic(const void *) thread; /* whose calls pass through; NULL: no window, an ordinary graph */
    struct mlsi_graph *graph;     /* read by that thread only, like the rest */
    int32_t func;
    bool in_call;
} mlsi_graph_window;

typedef struct mlsi_graph {
    mlsi_object object;
    mlsi_graph_window window;
    mlsi_alloc *alloc;
    mlsi_ctx *ctx;
    uint32_t serial; /* upper half of public values */
    mlsi_arena arena;
    mlsi_symtab symbols;
    mlsi_func *funcs;
    int64_t n_funcs, cap_funcs;
    mlsi_tensor **consts; /* pinned */
    int64_t n_consts, cap_consts;
    int32_t *const_slots; /* hash table of consts: number + 1, 0 = free */
    int64_t n_const_slots;
    mlsi_custom_use *customs;
    int64_t n_customs, cap_customs;
} mlsi_graph;

/* ---- construction (graph.c) ------------------------------------------------------------------ */

/* An internal graph without a handle; free with mlsi_graph_free. Public ones come from api/. */
mlsys_status mlsi_graph_init(mlsi_graph *g, mlsi_ctx *ctx);
void mlsi_graph_free(mlsi_graph *g); /* members only */
/* Public values given out so far are no values of g any more. */
void mlsi_graph_renumber(mlsi_graph *g);
/* Append an empty function; its index. Pointers into g->funcs move. */
mlsys_status mlsi_func_add(mlsi_graph *g, const char *name, int32_t *out);
/* Remove the functions from n on: what a failed call has added. Nobody may name them. */
void mlsi_graph_truncate(mlsi_graph *g, int64_t n);
/* Drop functions that main does not reach and constants that no function holds; renumbers both. */
mlsys_status mlsi_graph_compact(mlsi_graph *g);
/* Fill the table of constants again after their numbers changed. */
void mlsi_graph_index_consts(mlsi_graph *g);

mlsys_status mlsi_build_input(mlsi_graph *g, int32_t func, const char *name, const mlsi_type *type,
                              int32_t *out);
/* Retains (pins) t; the same tensor again is the same constant. */
mlsys_status mlsi_build_const(mlsi_graph *g, int32_t func, mlsi_tensor *t, int32_t *out);
/* One more value of a constant that the graph has. */
mlsys_status mlsi_build_const_value(mlsi_graph *g, int32_t func, int32_t constant, int32_t *out);
/* Copy dense bytes into a new constant tensor. */
mlsys_status mlsi_build_const_bytes(mlsi_graph *g, int32_t func, mlsi_device *device,
                                    const mlsi_layout *l, const void *bytes, int32_t *out);
/* Arity, operands and type rules of one node; normalises attrs in place. */
mlsys_status mlsi_infer_node(mlsi_graph *g, int32_t func, mlsi_op op, void *attrs, int32_t n_in,
                             const int32_t *in, int32_t n_out, mlsi_type *out);
/* Append a node: runs the op's inference on a copy of attrs (NULL = defaults), which normalises it.
 * Errors name op, operand and values. out receives n_out value numbers. */
mlsys_status mlsi_build_node(mlsi_graph *g, int32_t func, mlsi_op op, const void *attrs,
                             int32_t n_in, const int32_t *in, int32_t n_out, int32_t *out);
mlsys_status mlsi_build_output(mlsi_graph *g, int32_t func, const char *name, int32_t value);
/* Copy function func (and the functions, constants and symbols it needs) of another graph. Nothing of it
 * stays after a failure but unused constants and symbols. */
mlsys_status mlsi_graph_import(mlsi_graph *to, const mlsi_graph *from, int32_t func, int32_t *out);
/* Copy one node, no control flow, with operands of the graph that it goes to. */
mlsys_status mlsi_graph_import_node(mlsi_graph *to, int32_t func, const mlsi_graph *from,
                                    const mlsi_node *node, const int32_t *in, int32_t *out);

static inline const mlsi_type *mlsi_type_of(const mlsi_graph *g, int32_t func, int32_t value) {
    return &g->funcs[func].values[value].type;
}
/* Dtype, rank and extents that can be: what names the type in the sentence. */
mlsys_status mlsi_type_check(const mlsi_graph *g, const char *what, const mlsi_type *t);
bool mlsi_type_equal(const mlsi_type *a, const mlsi_type *b);
/* Of dense memory at the symbols' maxima; saturates. */
int64_t mlsi_type_most_bytes(const mlsi_symtab *tab, const mlsi_type *t);
/* All dims known integers. */
bool mlsi_type_static(const mlsi_type *t);
/* "f32[B,2*L]" */
const char *mlsi_type_text(const mlsi_symtab *tab, const mlsi_type *t, char *buf, int cap);
/* Row-major layout of a type under a binding (binding may be NULL when static). */
mlsys_status mlsi_type_layout(const mlsi_symtab *tab, const mlsi_type *t, const int64_t *binding,
                              mlsi_layout *out);

/* ---- checks, text, meaning --------------------------------------------------------------------- */

/* Every rule: definitions before uses, types as inferred, attributes in range, symbols known,
 * no recursion. The error names function, node number, op, operand and values. */
mlsys_status mlsi_graph_verify(const mlsi_graph *g);
void mlsi_graph_print(const mlsi_graph *g, mlsi_text *out);
/* Constants above a few elements by their size only: for people, does not read back. */
void mlsi_graph_print_brief(const mlsi_graph *g, mlsi_text *out);
/* g must be freshly initialised; constants are printed by value and read back exactly. */
mlsys_status mlsi_graph_parse(mlsi_graph *g, mlsi_device *device, const char *text);
/* Bind symbols from concrete input layouts; checks dtype, rank, extents, ranges, divisors. An extent
 * that is a symbol, or a multiple of one plus a number, fixes it. binding has one entry per symbol;
 * symbols that no input fixes get their maximum. */
mlsys_status mlsi_bind_inputs(const mlsi_graph *g, int32_t func, int n_in,
                              const mlsi_layout *const *in, int64_t *binding);
/* Reference interpreter. in: views of main's inputs; out: dense views owned by the caller with the
 * right types, filled on success. */
mlsys_status mlsi_interpret(const mlsi_graph *g, int32_t func, int n_in, const mlsi_view *in,
                            int n_out, const mlsi_view *out);
/* The same with custom ops, which need a stream to run on and so come from above. */
typedef struct mlsi_interpret_custom {
    mlsys_status (*run)(void *user, const mlsi_custom_use *use, int n_in, const mlsi_view *in,
                        int n_out, const mlsi_view *out);
    void *user;
} mlsi_interpret_custom;
mlsys_status mlsi_interpret_with(const mlsi_graph *g, int32_t func, int n_in, const mlsi_view *in,
                                 int n_out, const mlsi_view *out,
                                 const mlsi_interpret_custom *custom);
/* Main's nodes one by one, each shown once its results are there (values: by value number; those not yet or no
 * longer needed have no data), until seen answers true or the function ends. Nothing is given back. */
typedef struct mlsi_interpret_watch {
    bool (*seen)(void *user, const mlsi_node *node, const mlsi_view *values);
    void *user;
} mlsi_interpret_watch;
mlsys_status mlsi_interpret_watched(const mlsi_graph *g, int n_in, const mlsi_view *in,
                                    const mlsi_interpret_custom *custom,
                                    const mlsi_interpret_watch *watch);

#endif
