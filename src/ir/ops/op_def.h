/* One op, one place: the definition of an op. Reached only through mlsi_op_get. */
#ifndef MLSI_OP_DEF_H
#define MLSI_OP_DEF_H

#include "ir/graph/ir.h"
#include "ir/loop/lower.h"

typedef enum mlsi_attr_kind {
    MLSI_ATTR_I64 = 1, /* int64_t */
    MLSI_ATTR_BOOL,    /* int64_t 0 or 1 */
    MLSI_ATTR_F64,     /* double */
    MLSI_ATTR_ENUM,    /* int64_t index into names */
    MLSI_ATTR_DTYPE,   /* int64_t dtype code, 0 = default rule of the op */
    MLSI_ATTR_LIST,    /* mlsi_list of integers */
    MLSI_ATTR_DIMS     /* mlsi_list of dims: may be symbolic in a graph */
} mlsi_attr_kind;

typedef struct mlsi_attr_desc {
    const char *name;
    mlsi_attr_kind kind;
    size_t offset;
    bool required;
    int64_t default_i;
    double default_f;
    const char *const *names; /* ENUM: NULL-ended */
    const char *help;
} mlsi_attr_desc;

/* Type inference. in[i].dtype is 0 for an absent operand. attrs may be normalised in place (axes
 * made non-negative, defaults resolved). out has room for n_out types, which the caller asked for.
 */
typedef struct mlsi_infer {
    mlsi_graph *graph; /* for control flow, custom ops */
    mlsi_symtab *symbols;
    const struct mlsi_op_def *def;
    const char *op; /* name, for sentences */
    void *attrs;
    int32_t n_in, n_out;
    const mlsi_type *in;
    mlsi_type *out;
} mlsi_infer;

typedef struct mlsi_op_cost {
    uint64_t flops, transcendentals, bytes_read, bytes_written;
} mlsi_op_cost;

/* Concrete shapes; data is not looked at. The caller has set bytes to the sizes of all operands: a rule for
 * an op that does not touch all of them sets its own. */
typedef struct mlsi_cost_args {
    const void *attrs;
    int n_in, n_out;
    const mlsi_view *in, *out;
    bool in_place; /* result 0 is the memory of operand 0 */
} mlsi_cost_args;

/* Reference evaluation: naive loops in the order of docs/numerics.md; shares no code with kernels.
 */
typedef struct mlsi_ref_args {
    mlsi_alloc *alloc;
    const void *attrs; /* dims resolved */
    int n_in, n_out;
    const mlsi_view *in;     /* data NULL when absent; any strides */
    const mlsi_view *out;    /* any strides, no overlap */
    const mlsi_graph *graph; /* control flow, custom */
} mlsi_ref_args;

/* Reverse mode: from the adjoints of a node's results to those of its operands, as nodes of the same
 * function, so that gradients differentiate again. Value number -1 is a structural zero: not computed,
 * not stored, and no operand of anything (0 * inf cannot arise from it). */
typedef struct mlsi_vjp {
    mlsi_graph *graph;
    int32_t func;
    const void *attrs;
    int32_t n_in, n_out;
    const int32_t *in, *out; /* values of the node; in: -1 = absent */
    const int32_t *dout;     /* per result; at least one is not -1 */
    const bool *wanted;      /* per operand: floats that somebody asks for */
    int32_t *din; /* per operand, -1 at first; a rule sets wanted ones, in the operand's type */
    /* Where select did not choose, the adjoint of what it could have chosen is 0 by structure, and must stay
     * 0 though a slope there is infinite. alive: bool, of result 0's shape, false where its adjoint is such a
     * zero; -1 = nowhere. Elementwise rules apply it to what they give; a rule may set it for operands. */
    int32_t alive;
    int32_t *din_alive;         /* per operand, -1 at first */
    bool through_decomposition; /* set by a composite's rule that does not cover what is wanted */
} mlsi_vjp;

enum {
    MLSI_TRAIT_ELEMENTWISE = 1, /* output element = function of broadcast input elements */
    MLSI_TRAIT_COMMUTATIVE = 2,
    MLSI_TRAIT_VIEW = 4, /* result can be a view of operand 0 */
    MLSI_TRAIT_DIFFERENTIABLE = 8,
    MLSI_TRAIT_CREATION = 16, /* no data inputs */
    MLSI_TRAIT_CONTROL = 32,
    MLSI_TRAIT_CHECKS_DATA =
        64 /* a run may fail by what its operands hold: an index out of range */
};

/* What mixed precision does with the f32 operands of an op (ir/passes/narrow.c). */
typedef enum mlsi_narrow_policy {
    MLSI_NARROW_NEVER = 0, /* norms, losses, reductions, exp, log, pow: range or digits matter */
    MLSI_NARROW_COMPUTES,  /* products: narrow operands, f32 sums, one rounding */
    MLSI_NARROW_FOLLOWS    /* takes the precision of what it stands between */
} mlsi_narrow_policy;

/* With whom fusion may put an op into one kernel (ir/passes/fuse_group.c). */
typedef enum mlsi_sharing {
    MLSI_SHARES_BY_TRAITS = 0, /* element by element where the traits say so, else with nobody */
    MLSI_SHARES_NOTHING,
    MLSI_SHARES_ELEMENTS,   /* a composite of elementwise ops */
    MLSI_SHARES_MOVEMENT,   /* says where elements lie: costs nothing where it is read */
    MLSI_SHARES_REDUCTION,  /* over the axes of mlsi_attr_reduce */
    MLSI_SHARES_ROWS_ALONG, /* reads rows along attribute `axis`, gives rows */
    MLSI_SHARES_ROWS_FROM   /* rows from attribute `axis` to the end */
} mlsi_sharing;

typedef struct mlsi_op_def {
    int32_t min_in, max_in, min_out, max_out;
    const char *operands; /* "x, w, bias?": names for sentences and docs */
    uint32_t traits;
    size_t attrs_size;           /* >= sizeof(mlsi_attr_none) */
    const mlsi_attr_desc *attrs; /* ended by name NULL; NULL = no attributes */
    mlsys_status (*infer)(mlsi_infer *t);
    void (*cost)(const mlsi_cost_args *a, mlsi_op_cost *c);
    /* A primitive has ref; a composite has decompose, and no ref unless its meaning is easier to
     * state directly (attention). decompose emits nodes into func and returns their values. */
    mlsys_status (*ref)(const mlsi_ref_args *a);
    mlsys_status (*decompose)(mlsi_graph *g, int32_t func, const void *attrs, int32_t n_in,
                              const int32_t *in, int32_t n_out, int32_t *out);
    /* The gradient rule. A composite without one is differentiated through its decomposition; a
     * primitive without one cannot be differentiated, which is an error that names it. */
    mlsys_status (*vjp)(mlsi_vjp *v);
    /* Loops (ir/loop/lower.h). An element of a result; or a reduction per element: its space, whether these operands
     * have one, the term at index and position k of the space, and the element made of the reduction's result
     * (NULL: cast to the dtype); or whole loops, also where these operands have no reduction. Without any, those of the
     * decomposition. */
    int32_t (*element)(mlsi_lower *l, int result, const int64_t *index);
    bool (*reduces)(mlsi_lower *l, mlsi_reduction *r);
    void (*term)(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]);
    int32_t (*reduced)(mlsi_lower *l, const int64_t *index, int32_t acc);
    mlsys_status (*nest)(mlsi_lower *l);
    /* VIEW ops: layout of the result from operand 0's; attrs resolved. *is_view false = needs a
     * copy. */
    mlsys_status (*view)(const void *attrs, const mlsi_layout *in, const mlsi_layout *out_type,
                         mlsi_layout *out, bool *is_view);
    mlsi_narrow_policy narrow;
    mlsi_sharing shares;
    uint32_t narrow_keeps; /* operands that stay as they are all the same: bit i */
    const char *doc;       /* meaning, shapes, formula */
    const char *special;   /* NaN, infinities, signed zero, empty, out-of-range */
    const char *onnx;      /* ONNX operator it maps to, or NULL */
} mlsi_op_def;

const mlsi_op_def *mlsi_op_get(mlsi_op op);

#define MLSI_OP(ID, name, family) extern const mlsi_op_def mlsi_op_def_##name;
#include "core/op_list.h"
#undef MLSI_OP

/* ---- attributes by description (attrs.c) --------------------------------------------------- */

void mlsi_attrs_default(const mlsi_op_def *def, void *attrs);
/* Config keys -> attributes over the defaults; errors name op and key. config NULL = defaults. */
mlsys_status mlsi_attrs_from_config(const mlsi_op_def *def, const char *op, const mlsi_symtab *tab,
                                    const mlsi_config *c, void *attrs);
/* {axis=1, keep=true}; only values that differ from the default, nothing when all are. */
void mlsi_attrs_print(const mlsi_op_def *def, const void *attrs, const mlsi_symtab *tab,
                      mlsi_text *out);
/* Reads what mlsi_attrs_print writes, braces included, from *p over the defaults; leaves *p behind
 * it. Nothing is read when *p is not at '{'. */
mlsys_status mlsi_attrs_parse(const mlsi_op_def *def, const char *op, mlsi_symtab *tab,
                              const char **p, void *attrs);
/* Replace symbolic dims by their values. resolved has attrs_size bytes. */
mlsys_status mlsi_attrs_resolve(const mlsi_op_def *def, const void *attrs, const mlsi_symtab *tab,
                                const int64_t *binding, void *resolved);
bool mlsi_attrs_equal(const mlsi_op_def *def, const void *a, const void *b);
uint64_t mlsi_attrs_hash(const mlsi_op_def *def, const void *attrs);

/* ---- text (schema.c) ----------------------------------------------------------------------- */

/* The op as a Markdown page. */
void mlsi_op_schema_text(mlsi_op op, mlsi_text *out);
/* Its attributes, one a line: "axis (integer; -1): axis of the rows". */
void mlsi_op_attrs_text(mlsi_op op, mlsi_text *out);

/* ---- shared by the families (infer_rules.c) ------------------------------------------------ */

/* "add: operand 1 (b): dtype i32, expected f32": operand names come from def->operands. */
mlsys_status mlsi_infer_fail(const mlsi_infer *t, mlsys_status code, int operand,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Operand i must be of one of the classes: a bit set of 1 << mlsi_class. */
mlsys_status mlsi_infer_class(const mlsi_infer *t, int operand, unsigned classes);
mlsys_status mlsi_infer_same_dtype(const mlsi_infer *t, int a, int b);
/* -rank <= axis < rank, made non-negative. */
mlsys_status mlsi_infer_axis(const mlsi_infer *t, const char *what, int64_t rank, int64_t *axis);
/* NumPy broadcast of all present operands into out (dims provably equal, or one is 1). */
mlsys_status mlsi_infer_broadcast(const mlsi_infer *t, int first, int n, mlsi_type *out);
/* Product of dims. */
mlsys_status mlsi_infer_product(const mlsi_infer *t, const int64_t *dims, int n, int64_t *out);
/* An optional addend, present or not, is of the type of result 0, which is known. */
mlsys_status mlsi_infer_addend(const mlsi_infer *t, int operand);
/* Extent must be provably >= 0. */
mlsys_status mlsi_infer_extent(const mlsi_infer *t, const char *what, int64_t dim);

/* ---- scalar access for reference code (scalar.c) ------------------------------------------- */

/* Element at a multi-index / linear row-major index, widened: floats exactly to f64, integers to
 * i64. */
double mlsi_ref_get_f(const mlsi_view *v, int64_t linear);
int64_t mlsi_ref_get_i(const mlsi_view *v, int64_t linear);
/* Rounded once to v's dtype; integers wrap. For f32-or-narrower dtypes pass the f32 result. */
void mlsi_ref_set_f(const mlsi_view *v, int64_t linear, double value);
void mlsi_ref_set_i(const mlsi_view *v, int64_t linear, int64_t value);
/* Linear index of an element of a broadcast operand, for an output linear index. */
int64_t mlsi_ref_broadcast_index(const mlsi_view *in, const mlsi_view *out, int64_t linear);
/* Row-major unravel and its inverse. */
void mlsi_ref_unravel(int32_t rank, const int64_t *shape, int64_t linear, int64_t *index);
int64_t mlsi_ref_ravel(int32_t rank, const int64_t *shape, const int64_t *index);
/* docs/numerics.md "canonical tree" and "products along K", literally; next(user, i) gives element
 * i. */
double mlsi_ref_sum(bool f64, int64_t n, double (*next)(void *user, int64_t i), void *user);
/* The canonical tree with multiplication and 1. */
double mlsi_ref_product(bool f64, int64_t n, double (*next)(void *user, int64_t i), void *user);
/* "Products along K": pair(user, k, &a, &b) gives the k-th factors. The chain of segments begins with addend: -0,
 * which changes no sum, where there is none. */
double mlsi_ref_dot(bool f64, double addend, int64_t k,
                    void (*pair)(void *user, int64_t k, double *a, double *b), void *user);

#endif
