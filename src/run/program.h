/* A program: what compiling a graph makes. Immutable and re-entrant; what changes from run to run is in
 * the mlsi_bound that a stream keeps for it.
 *
 * Each function of the graph becomes a routine: its nodes that do work become steps, its values get
 * slots (memory) and, for view nodes, layouts over another value's slot. A binding of the symbols
 * fixes all extents; the plan then gives each scratch slot and each kernel's work memory an offset
 * in one arena, whose size is the exact scratch of a run. */
#ifndef MLSI_PROGRAM_H
#define MLSI_PROGRAM_H

#include "core/tensor.h"
#include "ir/codegen/codegen.h"
#include "ir/ops/op_def.h"
#include "ir/passes/passes.h"

enum { MLSI_MAX_ARGS = 2048 }; /* inputs or outputs of a program */

typedef enum mlsi_slot_kind {
    MLSI_SLOT_INPUT = 1, /* a run's input tensor */
    MLSI_SLOT_CONST,     /* a constant of the program */
    MLSI_SLOT_SCRATCH,   /* planned into the arena */
    MLSI_SLOT_OUTPUT     /* a run's output tensor */
} mlsi_slot_kind;

typedef struct mlsi_slot {
    mlsi_slot_kind kind;
    int32_t index;       /* input, constant or output number */
    int32_t value;       /* a value whose type is the slot's */
    int32_t first, last; /* steps that touch it */
} mlsi_slot;

typedef struct mlsi_step {
    mlsi_op op;
    const mlsi_kernel *kernel; /* NULL: the reference, or control flow */
    bool on_host;              /* of an accelerator's program: operands travel there and back */
    int32_t node;
    int32_t pack;          /* index into packs, -1 = none */
    int32_t error;         /* of an accelerator's bound's errors, -1 = none */
    int32_t first_operand; /* inputs then outputs, in the bound's operand array */
} mlsi_step;

typedef struct mlsi_routine {
    int32_t func;
    mlsi_step *steps;
    int64_t n_steps, cap_steps;
    int32_t *slot_of; /* per value */
    mlsi_slot *slots;
    int64_t n_slots, cap_slots;
    int64_t n_operands;
    int32_t *
        alias_input; /* per output: the input whose memory it is (donated, or handed on by a loop's body), or -1 */
} mlsi_routine;

/* Carried value i of a loop with this body stays as and where it is. */
static inline bool mlsi_hands_on(const mlsi_routine *body, int i) {
    return body->alias_input[i] == i;
}

/* The one kernel that a fused function is: its loops and the code made of them. */
typedef struct mlsi_generated {
    bool made;  /* nest and tasks are there; text where C is wanted */
    bool tuned; /* by a recorded schedule */
    mlsi_nest nest;
    mlsi_text text;     /* its C: written once, since writing interns in the nest */
    int64_t tasks;      /* index expression of the nest */
    uint64_t *in_place; /* per output: inputs whose memory it may take */
    mlsi_gen_fn fn;     /* NULL: no code */
    mlsi_gpu_code gpu;
    mlsi_accel_kernel *launches; /* NULL: no code of an accelerator */
    mlsi_accel_kernel *parts[MLSI_GPU_PARTS];
    int32_t error; /* as of a step */
    mlsi_block_code blocks;
    int64_t (*run_blocks)(const mlsi_block_code *code, mlsi_gen_args *a); /* NULL: no blocks */
    char *refused, *no_blocks; /* why there is neither; then the function's own steps run */
} mlsi_generated;

/* When a C compiler makes kernels of fused functions: where it seems worth its time, always, never (blocks). */
typedef enum mlsi_jit { MLSI_JIT_AUTO = 0, MLSI_JIT_ALWAYS, MLSI_JIT_NEVER } mlsi_jit;

typedef struct mlsi_pack {
    int32_t constant;
    mlsi_op op;
    const void *attrs; /* of the node: they decide the packing too */
    const mlsi_kernel *kernel;
    bool on_device; /* an accelerator's kernel reads it */
    uint64_t offset,
        bytes; /* in the program's packed constants, or in the accelerator's memory of constants */
} mlsi_pack;

/* Addresses that something touches; low == high when nothing. */
typedef struct mlsi_range {
    uintptr_t low, high;
} mlsi_range;

static inline mlsi_range mlsi_tensor_range(const mlsi_tensor *t) {
    mlsi_view v = mlsi_tensor_view_of(t);
    mlsi_range r;
    mlsi_view_range(&v, &r.low, &r.high);
    return r;
}

static inline bool mlsi_ranges_meet(mlsi_range a, mlsi_range b) {
    return a.low < a.high && b.low < b.high && a.low < b.high && b.low < a.high;
}

typedef struct mlsi_program {
    mlsi_object object;
    mlsi_device *device; /* pinned */
    mlsi_device *host; /* pinned: of the graph's constants; device itself where that is the host */
    uint64_t serial;
    mlsi_graph graph; /* after the passes */
    mlsi_numerics numerics;
    bool plan_reuse; /* false: no two buffers share memory */
    bool prove;      /* certificates, nests and plans are checked */
    bool replay;     /* generated kernels by recorded schedules (run/tune.h) */
    mlsi_jit jit;
    const mlsi_backend *backend;
    mlsi_isa isa_limit;
    mlsi_routine *routines; /* one per function */
    int64_t n_routines;
    mlsi_pack *packs;
    int64_t n_packs, cap_packs;
    char *packed; /* one block, so that large pages hold it */
    uint64_t packed_bytes;
    mlsi_generated *generated; /* per function; NULL: none is fused */
    mlsi_module *module;
    mlsi_accel_module *accel_module;
    char *const_memory; /* of the accelerator: the constants that steps read */
    uint64_t const_bytes;
    uint64_t *const_offset; /* per constant; UINT64_MAX: not there */
    bool replays;           /* runs can be recorded */
    int32_t n_errors;       /* kernels of the accelerator that values can fail */
    mlsi_compile_report report;
    mlsi_range *const_ranges; /* memory of the constants, ascending and apart */
    int64_t n_const_ranges;
} mlsi_program;

/* The packed constant of a step, NULL when it has none. */
static inline const void *mlsi_step_packed(const mlsi_program *p, const mlsi_step *s) {
    if (s->pack < 0) return NULL;
    const mlsi_pack *k = &p->packs[s->pack];
    return (k->on_device ? p->const_memory : p->packed) + k->offset;
}

/* plan.c */
typedef struct mlsi_interval {
    uint64_t bytes;      /* a multiple of MLSI_PLAN_ALIGN */
    int32_t first, last; /* steps, inclusive */
    uint64_t offset;     /* result */
} mlsi_interval;
enum { MLSI_PLAN_ALIGN = 64 };
enum { MLSI_PLAN_EXACT = 8 }; /* so many intervals with bytes are planned optimally */
/* Offsets such that intervals that overlap in time do not overlap in memory, and the total. scratch has
 * mlsi_plan_scratch(n) entries. reuse false gives every interval memory of its own. Errors SHAPE when the
 * total does not fit 63 bits. */
mlsys_status mlsi_plan(mlsi_interval *items, int32_t *scratch, int64_t n, bool reuse,
                       uint64_t *total);
int64_t mlsi_plan_scratch(int64_t n);
/* n rounded up to the plan's alignment; n < 2^63. */
static inline uint64_t mlsi_plan_align(uint64_t n) {
    return (n + MLSI_PLAN_ALIGN - 1) & ~(uint64_t)(MLSI_PLAN_ALIGN - 1);
}

/* A tensor that a custom op is called with: made with the bound, laid out by a binding, pointed at
 * memory by each run. All NULL for an absent operand and for other ops. */
typedef struct mlsi_custom_operand {
    mlsys_tensor handle;
    mlsi_tensor *tensor; /* pinned */
    int64_t low;         /* bytes from element (0,...,0) down to the storage's start, <= 0 */
} mlsi_custom_operand;

/* One routine under one binding. */
typedef struct mlsi_bound_routine {
    mlsi_view *operands;     /* of all steps; data patched at each run */
    int32_t *operand_slot;   /* -1 = absent */
    int64_t *operand_offset; /* bytes from the slot's start */
    uint64_t *slot_bytes, *slot_offset;
    uint64_t *work_bytes, *work_offset; /* per step */
    char *attrs;                        /* resolved attribute structs, at attr_offset per step */
    uint64_t *attr_offset;
    char **base;                  /* per slot, set at each run */
    mlsi_layout *layouts;         /* per value */
    mlsi_custom_operand *customs; /* per operand; used by custom ops */
    int64_t n_operands;
    mlsi_op_cost cost; /* of all steps; of functions that control flow calls */
    uint64_t arena_bytes;
    uint64_t unshared_bytes; /* sum of all planned memory: what no reuse would need; saturates */
} mlsi_bound_routine;

/* Room for the claims of the largest routine; empty unless the program is proved. */
typedef struct mlsi_plan_proof {
    mlsi_plan_step *steps;
    mlsi_plan_slot *slots;
    int32_t *scratch;
} mlsi_plan_proof;

typedef struct mlsi_bound {
    struct mlsi_bound *next;
    uint64_t serial;             /* of the program */
    const mlsi_program *program; /* may be gone when the stream frees this */
    mlsi_device *device;         /* the stream's, or the program's */
    int64_t *binding, *wanted;
    bool valid;
    mlsi_bound_routine *routines;
    int64_t n_routines;
    char *errors;         /* of the accelerator: what values failed, n_errors times 4 words */
    int64_t *error_words; /* fetched */
    void *recorded;       /* of the accelerator: the run, to be replayed; NULL: none */
    char **places;        /* of the last run's arguments, per slot, and of its scratch */
    bool placed;
    mlsi_interval *intervals; /* for planning: as many as the largest routine has slots and steps */
    int32_t *scratch;
    mlsi_plan_proof proof;
} mlsi_bound;

/* compile.c */
typedef struct mlsi_compile_options {
    mlsi_numerics numerics;
    bool plan_reuse, verify, replay;
    int64_t fuse_least; /* as in mlsi_pass_ctx */
    mlsi_jit jit;
    const char *passes_off;
    mlsi_isa isa_limit;
} mlsi_compile_options;
const mlsi_config_key *mlsi_compile_config_keys(int *n);
mlsys_status mlsi_compile_options_read(mlsi_ctx *ctx, const mlsi_config *c,
                                       mlsi_compile_options *o);
mlsys_status mlsi_program_init(mlsi_program *p, const mlsi_graph *g, mlsi_device *device,
                               const mlsi_compile_options *o);
void mlsi_program_free(mlsi_program *p); /* members only */
/* As an object with a handle. */
mlsys_status mlsi_program_create(const mlsi_graph *g, mlsi_device *device,
                                 const mlsi_compile_options *o, mlsys_program *out);

/* lower.c */
mlsys_status mlsi_lower_program(mlsi_program *p);
void mlsi_routines_free(mlsi_program *p);
/* Arena of a function's steps at the symbols' maxima, of a program that is not lowered yet: the pass context's peak. */
mlsys_status mlsi_routine_peak(void *program, int32_t func, uint64_t *bytes);

/* generate.c: code for the functions that fusion has made; where there is none, block code; where their loops cannot be said so
 * either, their steps run one by one. The context's log says why. */
mlsys_status mlsi_generate(mlsi_program *p);
/* Scheduled loops of a function, *flat its flattened form (mlsi_flatten_func). Free n also after a failure. */
mlsys_status mlsi_generate_nest(mlsi_graph *g, int32_t func, int32_t *flat, mlsi_nest *n);
void mlsi_generated_free(mlsi_program *p);
/* The default schedule of a nest that f was lowered to, invariants moved out of its loops. */
mlsys_status mlsi_generate_schedule(const mlsi_func *f, mlsi_nest *n);
/* generated.c: the generated kernel that a call node is, or NULL. */
const mlsi_generated *mlsi_generated_of(const mlsi_program *p, const mlsi_node *node);
/* The kernel that a step is, for people: a row of the backend's table, a fused function, or how else the step runs. */
const char *mlsi_step_name(const mlsi_program *p, const mlsi_node *node, const mlsi_step *s);
/* Work memory of a generated kernel on a pool of threads; binding: a value per symbol of the program. */
mlsys_status mlsi_generated_work(const mlsi_program *p, const mlsi_generated *k,
                                 const int64_t *binding, uint64_t *bytes);
mlsys_status mlsi_generated_run(const mlsi_generated *k, const int64_t *binding,
                                const mlsi_kernel_args *a);

/* accelerate.c: programs on a device with memory of its own. */
/* Kernels from text: one module with a function for each generated function that has some. */
mlsys_status mlsi_accel_load(mlsi_program *p, const char *text);
/* Brings the constants that steps read to the device. */
mlsys_status mlsi_accel_constants(mlsi_program *p);
/* Its address there; NULL: no step reads it. */
char *mlsi_accel_constant(const mlsi_program *p, int32_t constant);
void mlsi_accel_free(mlsi_program *p);
/* Work memory of a generated kernel. */
mlsys_status mlsi_accel_work(const mlsi_program *p, const mlsi_generated *k, const int64_t *binding,
                             uint64_t *bytes);
mlsys_status mlsi_accel_launch(const mlsi_bound *b, const mlsi_generated *k,
                               const mlsi_kernel_args *a);
/* Runs a step that only the host can run: `run` sees its operands there. */
mlsys_status mlsi_accel_on_host(const mlsi_program *p, const mlsi_kernel_args *a,
                                const mlsi_node *node,
                                mlsys_status (*run)(void *user, const mlsi_kernel_args *a),
                                void *user);
/* Which kernels values can fail; then a bound's room for what they leave, and where kernel `error` (-1: it leaves nothing) does. */
void mlsi_accel_number_errors(mlsi_program *p);
mlsys_status mlsi_accel_bind(const mlsi_program *p, mlsi_bound *b);
int64_t *mlsi_accel_error(const mlsi_bound *b, int32_t error);
/* Before the first step and behind the last one: BINDs that failed, as the status of their op. */
/* replay.c: can runs be recorded? Runs `run`, or what was recorded of it. */
bool mlsi_can_replay(const mlsi_program *p);
mlsys_status mlsi_replay_run(mlsi_bound *b, mlsi_stream *s, mlsys_status (*run)(void *user),
                             void *user);
/* Another binding, or the end of the bound. */
void mlsi_replay_forget(mlsi_bound *b);
mlsys_status mlsi_accel_begin(const mlsi_bound *b, mlsi_stream *s);
mlsys_status mlsi_accel_end(const mlsi_bound *b, mlsi_stream *s);

/* in_place.c: fills k->in_place from its nest, and has it checked where the program is proved. */
mlsys_status mlsi_find_in_place(const mlsi_program *p, mlsi_generated *k);

/* generated.c: the sentence of a BIND that failed. */
mlsys_status mlsi_bind_failed(const mlsi_nest *n, int64_t number, const int64_t error[3]);

/* prove.c: claims about the program that ir/proof checks; nothing unless p->prove. INTERNAL where one does not hold. */
mlsys_status mlsi_prove_nest(mlsi_program *p, int32_t func, mlsi_nest *n);
mlsys_status mlsi_plan_proof_create(const mlsi_program *p, mlsi_plan_proof *out);
void mlsi_plan_proof_free(mlsi_alloc *a, mlsi_plan_proof *proof);
mlsys_status mlsi_prove_plan(const mlsi_bound *b, int64_t routine);

/* bound.c: facts of a binding; no memory is allocated by rebinding. */
mlsys_status mlsi_bound_create(const mlsi_program *p, mlsi_bound **out);
void mlsi_bound_free(mlsi_alloc *a, mlsi_bound *b);
/* Make b hold binding b->wanted. */
mlsys_status mlsi_bound_bind(mlsi_bound *b);
/* The stream's bound of p (created when missing). */
mlsys_status mlsi_bound_get(const mlsi_program *p, mlsi_stream *s, mlsi_bound **out);
/* Free the stream's bound of p, if any: p is about to go. */
void mlsi_bound_forget(const mlsi_program *p, mlsi_stream *s);
/* Symbols by name, the others at their maximum. */
mlsys_status mlsi_bound_names(mlsi_bound *b, int n, const char *const *names,
                              const int64_t *values);

/* exec.c */
mlsys_status mlsi_stream_reserve(mlsi_stream *s, uint64_t bytes);
/* out: tensors, NULL entries are made. */
mlsys_status mlsi_program_exec(const mlsi_program *p, mlsi_stream *s, int n_in,
                               mlsi_tensor *const *in, int n_out, mlsys_tensor *inout);
/* Work memory of an if or while node: its routines' arenas, and the carried values of the next turn. */
mlsys_status mlsi_control_work_bytes(const mlsi_bound *b, const mlsi_node *node,
                                     const mlsi_view *operands, uint64_t *out);

/* custom.c */
mlsys_status mlsi_custom_operands_create(const mlsi_program *p, const mlsi_node *node,
                                         mlsi_custom_operand *operands);
void mlsi_custom_operands_free(mlsi_custom_operand *operands, int64_t n);
mlsys_status mlsi_custom_operands_bind(mlsi_custom_operand *operands, int n,
                                       const mlsi_view *views);
/* Call the op with the operands at the views' memory. */
mlsys_status mlsi_custom_call(const mlsi_custom_use *use, mlsi_stream *s, const mlsi_kernel_args *a,
                              mlsi_custom_operand *operands);
/* The same with tensors made for the call: a mlsi_interpret_custom whose user is the stream. */
mlsys_status mlsi_custom_run(void *stream, const mlsi_custom_use *use, int n_in,
                             const mlsi_view *in, int n_out, const mlsi_view *out);

/* interpret.c: the reference interpreter on tensors; NULL outputs are made. */
mlsys_status mlsi_interpret_tensors(const mlsi_graph *g, mlsi_stream *s, int n_in,
                                    mlsi_tensor *const *in, int n_out, mlsys_tensor *inout);
/* nonfinite.c: interpret main node by node; writes into out the first node with a result that holds NaN or an
 * infinity: its op, value number, type, range and odd elements, and those of its operands. Nothing when all
 * are finite. full and iota do not count: they hold what the graph says. Nodes that no output needs take part. */
mlsys_status mlsi_find_nonfinite(const mlsi_graph *g, mlsi_stream *s, int n_in,
                                 mlsi_tensor *const *in, mlsi_text *out);
/* eager.c: one op, now. */
mlsys_status mlsi_eager_run(mlsi_graph *g, mlsi_stream *s, int n_in, mlsi_tensor *const *in,
                            int n_out, mlsys_tensor *inout);

/* export.c: the program as one freestanding C99 file, for one value of each symbol (those not named: their maximum). */
mlsys_status mlsi_program_export(const mlsi_program *p, const char *path, int n,
                                 const char *const *names, const int64_t *values,
                                 const mlsi_config *c);
const mlsi_config_key *mlsi_export_config_keys(int *n);

/* dump_compile.c: fusion, generated C, times of compiling. False: what is none of these. */
bool mlsi_dump_compiling(const mlsi_program *p, int32_t what, mlsi_text *out);
/* picture.c: main as SVG, a box per node, coloured by the kernel that computes it. */
mlsys_status mlsi_program_picture(const mlsi_program *p, mlsi_text *out);

/* dump.c */
mlsys_status mlsi_program_dump_text(const mlsi_program *p, int32_t what, mlsi_text *out);
/* Of one step, by the op's rule; of an if its dearer branch, of a while one turn. */
void mlsi_step_cost(const mlsi_program *p, const mlsi_bound *b, int32_t routine, int64_t step,
                    mlsi_op_cost *out);
void mlsi_routine_cost(const mlsi_program *p, const mlsi_bound *b, int64_t routine,
                       mlsi_op_cost *out);

#endif
