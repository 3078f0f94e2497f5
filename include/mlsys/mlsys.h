/* libmlsys: one embeddable library for ML systems. The only public header, and the manual.
 *
 * Reading order: status and errors, objects, configuration, context, device and stream, tensors,
 * eager ops and tapes, graphs and programs, custom ops, datasets, training, models, tokenizers,
 * generation.
 *
 * Rules that hold for every function:
 *  - A function that can fail returns mlsys_status; 0 is success. The sentence that says what was
 *    wrong, where and with which values is mlsys_last_error() on the same thread.
 *  - Inputs come first, outputs last. Out-handles are set to NULL on failure.
 *  - create/get/open calls return a new reference that the caller releases. Arguments are borrowed
 *    for the call. Children keep their parents alive: any order of release works.
 *  - Strides and offsets are in elements, sizes named bytes are in bytes.
 *  - TEXT outputs are (buf, cap, need): need receives the size including the final NUL; when it is
 *    larger than cap the call returns MLSYS_E_BUFFER and buf holds a truncated, NUL-ended text.
 *  - Threads: contexts, devices, tensors' metadata, programs, models, tokenizers and datasets may be used
 *    by any thread. A config, graph, stream, tape, trainer and generator belong to one thread at a time; a
 *    second concurrent caller gets MLSYS_E_BUSY. In a child made by fork every call but release fails with
 *    MLSYS_E_STATE.
 *  - The library never exits, aborts, prints, raises a signal, or changes floating-point state.
 */
#ifndef MLSYS_H
#define MLSYS_H

#include <stdint.h>

#define MLSYS_VERSION_MAJOR  0
#define MLSYS_VERSION_MINOR  1
#define MLSYS_VERSION_PATCH  0
#define MLSYS_VERSION_STRING "0.1.0"
#define MLSYS_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

#if defined(__GNUC__)
#define MLSYS_API __attribute__((visibility("default")))
#else
#define MLSYS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types ---------------------------------------------------------------------------------- */

typedef int32_t mlsys_status;  /* MLSYS_OK or MLSYS_E_* */
typedef int32_t mlsys_dtype;   /* MLSYS_F32 ... */
typedef int32_t mlsys_devtype; /* MLSYS_CPU, MLSYS_CUDA */
typedef int32_t mlsys_kind;    /* MLSYS_KIND_* */
typedef int64_t mlsys_value;   /* a value of one graph; meaningless in another, which is caught */
typedef int64_t mlsys_dim;     /* >= 0: an extent; < 0: a symbol or expression made by the graph */

/* Handles. Their values are never addresses; NULL, a wrong kind, a released or a forged handle is
 * answered by MLSYS_E_HANDLE. */
typedef struct mlsys_config_s *mlsys_config;
typedef struct mlsys_ctx_s *mlsys_ctx;
typedef struct mlsys_device_s *mlsys_device;
typedef struct mlsys_stream_s *mlsys_stream;
typedef struct mlsys_event_s *mlsys_event;
typedef struct mlsys_tensor_s *mlsys_tensor;
typedef struct mlsys_graph_s *mlsys_graph;
typedef struct mlsys_program_s *mlsys_program;
typedef struct mlsys_model_s *mlsys_model;
typedef struct mlsys_tokenizer_s *mlsys_tokenizer;
typedef struct mlsys_generator_s *mlsys_generator;
typedef struct mlsys_tape_s *mlsys_tape;
typedef struct mlsys_dataset_s *mlsys_dataset;
typedef struct mlsys_trainer_s *mlsys_trainer;

enum {
    MLSYS_OK = 0,
    MLSYS_E_ARG = 1,         /* an argument's value */
    MLSYS_E_HANDLE = 2,      /* NULL, wrong kind, released or forged handle */
    MLSYS_E_SHAPE = 3,       /* rank, extent, stride, overflow of a size */
    MLSYS_E_DTYPE = 4,       /* a dtype that the operation does not take */
    MLSYS_E_NOMEM = 5,       /* the allocator returned NULL */
    MLSYS_E_DEVICE = 6,      /* the device failed or is absent */
    MLSYS_E_NOTFOUND = 7,    /* a name, key or file that does not exist */
    MLSYS_E_UNSUPPORTED = 8, /* legal, but this build cannot do it */
    MLSYS_E_STATE = 9,       /* wrong moment, forked child, poisoned stream */
    MLSYS_E_BUSY = 10,       /* a single-threaded object is in use by another thread */
    MLSYS_E_BUFFER = 11,     /* caller's buffer too small */
    MLSYS_E_VERSION = 12,    /* a struct or file newer than this library */
    MLSYS_E_CALLBACK = 13,   /* a user callback failed */
    MLSYS_E_TIMEOUT = 14,    /* waited as long as asked */
    MLSYS_E_INTERNAL = 15,   /* a defect of the library */
    MLSYS_E_IO = 16,         /* the operating system refused a read or write */
    MLSYS_E_FORMAT = 17      /* a file or text that breaks its format's rules */
};

/* dtype codes are frozen. Block types hold quantised groups along the last dimension; their layouts
 * are GGUF's. f8e4m3 has no infinities (OCP E4M3), f8e5m2 has. */
enum {
    MLSYS_F64 = 1,
    MLSYS_F32 = 2,
    MLSYS_F16 = 3,
    MLSYS_BF16 = 4,
    MLSYS_F8E4M3 = 5,
    MLSYS_F8E5M2 = 6,
    MLSYS_I64 = 16,
    MLSYS_I32 = 17,
    MLSYS_I16 = 18,
    MLSYS_I8 = 19,
    MLSYS_U8 = 24,
    MLSYS_BOOL = 32,
    MLSYS_Q4_0 = 64, /* 32 elements in 18 bytes */
    MLSYS_Q4_1 = 67, /* 32 in 20 */
    MLSYS_Q5_0 = 68, /* 32 in 22 */
    MLSYS_Q5_1 = 69, /* 32 in 24 */
    MLSYS_Q8_0 = 70, /* 32 in 34 */
    MLSYS_Q4_K = 72, /* 256 in 144 */
    MLSYS_Q5_K = 73, /* 256 in 176 */
    MLSYS_Q6_K = 74  /* 256 in 210 */
};

enum { MLSYS_CPU = 1, MLSYS_CUDA = 2 };
enum { MLSYS_MAX_DIMS = 8 };
enum {
    MLSYS_KIND_CONFIG = 1,
    MLSYS_KIND_CTX = 2,
    MLSYS_KIND_DEVICE = 3,
    MLSYS_KIND_STREAM = 4,
    MLSYS_KIND_EVENT = 5,
    MLSYS_KIND_TENSOR = 6,
    MLSYS_KIND_GRAPH = 7,
    MLSYS_KIND_PROGRAM = 8,
    MLSYS_KIND_MODEL = 9,
    MLSYS_KIND_TOKENIZER = 10,
    MLSYS_KIND_GENERATOR = 11,
    MLSYS_KIND_TAPE = 12,
    MLSYS_KIND_DATASET = 13,
    MLSYS_KIND_TRAINER = 14
};
enum {
    MLSYS_DUMP_GRAPH = 1,   /* tensor IR as compiled */
    MLSYS_DUMP_KERNELS = 2, /* one line per step: kernel, operands, buffers */
    MLSYS_DUMP_COST = 3,    /* JSON: flops, bytes, transcendentals per step and in total */
    MLSYS_DUMP_MEMPLAN = 4, /* JSON: offset, bytes, first and last step of each buffer */
    MLSYS_DUMP_MEMMAP = 5,  /* the same as an SVG picture */
    MLSYS_DUMP_FUSION =
        6, /* kernels of several nodes, bytes before and after, why other neighbours stay apart */
    MLSYS_DUMP_CODE = 7,   /* C of each generated kernel, against src/cpu/gen.h */
    MLSYS_DUMP_PASSES = 8, /* milliseconds of each pass and of what follows, nodes after it */
    MLSYS_DUMP_PICTURE = 9 /* the graph as an SVG picture, nodes coloured by kernel */
};
enum { MLSYS_LOG_ERROR = 1, MLSYS_LOG_WARN = 2, MLSYS_LOG_INFO = 3, MLSYS_LOG_DEBUG = 4 };

/* ---- version, errors, objects --------------------------------------------------------------- */

/** The library's version number, comparable with MLSYS_VERSION_NUMBER. */
MLSYS_API int32_t mlsys_version(void);
/** Static text: compiler, instruction sets, optional parts present and absent. */
MLSYS_API const char *mlsys_build_info(void);
/** 1 when the named feature is present ("cpu", "avx2", "avx512", "cuda", "pcre2"...), else 0. */
MLSYS_API int32_t mlsys_has_feature(const char *name);
/** Static name of a status, e.g. "E_SHAPE"; "E_?" for an unknown value. */
MLSYS_API const char *mlsys_status_name(mlsys_status status);
/** The sentence of this thread's last failure, never NULL, valid until the next failure here. */
MLSYS_API const char *mlsys_last_error(void);
/** The status of this thread's last failure. */
MLSYS_API mlsys_status mlsys_last_status(void);
/** Set the thread's error from a callback, and return status.  Errors ARG: status is not an error. */
MLSYS_API mlsys_status mlsys_set_error(mlsys_status status, const char *message);
/** Add one reference to a handle of any kind. */
MLSYS_API mlsys_status mlsys_retain(void *handle);
/** Drop one reference; NULL is accepted. */
MLSYS_API mlsys_status mlsys_release(void *handle);
/** The kind of a live handle. */
MLSYS_API mlsys_status mlsys_handle_kind(void *handle, mlsys_kind *out);

/* ---- configuration: options and op attributes ----------------------------------------------- */

/** A set of key = value pairs, read by the call that takes it; unknown keys are refused there. */
MLSYS_API mlsys_status mlsys_config_create(mlsys_config *out);
MLSYS_API mlsys_status mlsys_config_set_i64(mlsys_config config, const char *key, int64_t value);
MLSYS_API mlsys_status mlsys_config_set_f64(mlsys_config config, const char *key, double value);
MLSYS_API mlsys_status mlsys_config_set_str(mlsys_config config, const char *key,
                                            const char *value);
/** n <= 16 integers; also mlsys_dim codes where an attribute is a shape. */
MLSYS_API mlsys_status mlsys_config_set_i64s(mlsys_config config, const char *key, int32_t n,
                                             const int64_t *values);
MLSYS_API mlsys_status mlsys_config_get_i64(mlsys_config config, const char *key, int64_t *out);
/** Keys of a scope, one per line with type, default and meaning: "ctx", "profile", "compile",
 *  "gradient", "check_gradient", "narrow", "dataset", "trainer", "model_open", "model", "model_adapt",
 *  "model_save", "generate", "export", or the name of an op; "generator_stats", "trainer_stats": the names that
 *  mlsys_generator_stat and mlsys_trainer_stat answer, with type and meaning. */
MLSYS_API mlsys_status mlsys_config_keys(const char *scope, char *buf, uint64_t cap,
                                         uint64_t *need);

/* ---- context and hooks ---------------------------------------------------------------------- */

/** Hooks of a context, fixed at creation, called on any thread with no lock held. They may call
 *  only mlsys_set_error and getters. alloc returns NULL to fail; align is a power of two <= 4096. */
typedef struct mlsys_hooks {
    uint64_t size; /* sizeof(mlsys_hooks), set by mlsys_hooks_init */
    void *user;
    void *(*alloc)(void *user, mlsys_devtype type, int32_t index, uint64_t bytes, uint64_t align);
    void (*dealloc)(void *user, mlsys_devtype type, int32_t index, void *p, uint64_t bytes);
    void (*log)(void *user, int32_t level, const char *area, const char *line);
    void (*destroy)(void *user); /* after the context's last use of user; may be NULL */
} mlsys_hooks;

typedef struct mlsys_stats {
    uint64_t size;
    uint64_t live_bytes;   /* allocated through the context now */
    uint64_t peak_bytes;   /* highest live_bytes so far */
    uint64_t allocations;  /* successful allocations so far */
    uint64_t live_handles; /* handles of this context that are not destroyed */
} mlsys_stats;

/** Fill h with defaults; writes at most size bytes. */
MLSYS_API mlsys_status mlsys_hooks_init(mlsys_hooks *h, uint64_t size);
/** Create a context: devices, thread pool, caches.  config keys: mlsys_config_keys("ctx").
 *  config and h may be NULL. */
MLSYS_API mlsys_status mlsys_ctx_create(mlsys_config config, const mlsys_hooks *h, mlsys_ctx *out);
/** Lines logged since the last read, oldest first; older ones are dropped when the ring is full. */
MLSYS_API mlsys_status mlsys_ctx_read_log(mlsys_ctx ctx, char *buf, uint64_t cap, uint64_t *need);
/** out->size must be set by the caller. */
MLSYS_API mlsys_status mlsys_ctx_stats(mlsys_ctx ctx, mlsys_stats *out);

/** Start recording events into the context's bounded ring (config keys: "capacity"). */
MLSYS_API mlsys_status mlsys_profile_start(mlsys_ctx ctx, mlsys_config config);
MLSYS_API mlsys_status mlsys_profile_stop(mlsys_ctx ctx);
/** The ring as Chrome/Perfetto trace JSON; times in microseconds. */
MLSYS_API mlsys_status mlsys_profile_read(mlsys_ctx ctx, char *buf, uint64_t cap, uint64_t *need);

/* ---- device, stream ------------------------------------------------------------------------- */

MLSYS_API mlsys_status mlsys_device_count(mlsys_ctx ctx, mlsys_devtype type, int32_t *out);
MLSYS_API mlsys_status mlsys_device_get(mlsys_ctx ctx, mlsys_devtype type, int32_t index,
                                        mlsys_device *out);
/** One line of JSON: name, instruction sets in use, threads. */
MLSYS_API mlsys_status mlsys_device_describe(mlsys_device device, char *buf, uint64_t cap,
                                             uint64_t *need);
/** An ordered queue of work and its scratch memory. */
MLSYS_API mlsys_status mlsys_stream_create(mlsys_device device, mlsys_config config,
                                           mlsys_stream *out);
/** Wait for all work of the stream; reports the first asynchronous failure by op name. */
MLSYS_API mlsys_status mlsys_stream_sync(mlsys_stream stream);
/** Bytes of scratch memory that the stream holds now. */
MLSYS_API mlsys_status mlsys_stream_scratch_bytes(mlsys_stream stream, uint64_t *out);

/* ---- tensors -------------------------------------------------------------------------------- */

/** Elements and bytes of one block of a dtype (1 element for plain dtypes), and its name.
 *  Any out pointer may be NULL. */
MLSYS_API mlsys_status mlsys_dtype_info(mlsys_dtype dtype, int32_t *block_elems,
                                        int32_t *block_bytes, const char **name);
/** A new row-major tensor, uninitialised.  0 <= ndim <= 8, extents >= 0. */
MLSYS_API mlsys_status mlsys_tensor_create(mlsys_device device, mlsys_dtype dtype, int32_t ndim,
                                           const int64_t *shape, mlsys_tensor *out);
/** A tensor over the caller's memory [base, base+bytes); done(user) runs once after its last use,
 *  and not when the call fails.  strides NULL = row-major.  Every reachable element must lie inside. */
MLSYS_API mlsys_status mlsys_tensor_wrap(mlsys_device device, mlsys_dtype dtype, int32_t ndim,
                                         const int64_t *shape, const int64_t *strides,
                                         int64_t offset, void *base, uint64_t bytes,
                                         void (*done)(void *user), void *user, mlsys_tensor *out);
/** A view of t's storage. offset counts from the storage's first element; strides may be negative
 *  or zero.  Errors SHAPE: a reachable element lies outside the storage. */
MLSYS_API mlsys_status mlsys_tensor_view(mlsys_tensor t, int32_t ndim, const int64_t *shape,
                                         const int64_t *strides, int64_t offset, mlsys_tensor *out);
/** Views without copying. perm is a permutation of 0..ndim-1. */
MLSYS_API mlsys_status mlsys_tensor_permute(mlsys_tensor t, int32_t ndim, const int32_t *perm,
                                            mlsys_tensor *out);
/** Swap two axes; negative axes count from the end. */
MLSYS_API mlsys_status mlsys_tensor_transpose(mlsys_tensor t, int32_t axis0, int32_t axis1,
                                              mlsys_tensor *out);
/** Elements start, start+step, ... before stop along axis, with ONNX's clamping of open ends
 *  (INT64_MIN, INT64_MAX); step != 0.  A view. */
MLSYS_API mlsys_status mlsys_tensor_slice(mlsys_tensor t, int32_t axis, int64_t start, int64_t stop,
                                          int64_t step, mlsys_tensor *out);
MLSYS_API mlsys_status mlsys_tensor_reverse(mlsys_tensor t, int32_t axis, mlsys_tensor *out);
/** NumPy broadcasting to shape: new leading axes and extent-1 axes get stride 0.  A view. */
MLSYS_API mlsys_status mlsys_tensor_broadcast(mlsys_tensor t, int32_t ndim, const int64_t *shape,
                                              mlsys_tensor *out);
/** One extent may be -1. copied (may be NULL) tells whether no view exists, so that the result is a
 *  fresh copy; the decision is exact. */
MLSYS_API mlsys_status mlsys_tensor_reshape(mlsys_tensor t, int32_t ndim, const int64_t *shape,
                                            mlsys_tensor *out, int32_t *copied);
/** Shape; cap is the length of the array shape, which may be NULL when cap is 0. */
MLSYS_API mlsys_status mlsys_tensor_shape(mlsys_tensor t, int32_t cap, int64_t *shape,
                                          int32_t *ndim);
MLSYS_API mlsys_status mlsys_tensor_strides(mlsys_tensor t, int32_t cap, int64_t *strides,
                                            int64_t *offset);
MLSYS_API mlsys_status mlsys_tensor_dtype(mlsys_tensor t, mlsys_dtype *out);
MLSYS_API mlsys_status mlsys_tensor_device(mlsys_tensor t, mlsys_device *out);
/** Lowest and highest+1 byte, relative to the storage, that any index reaches; 0,0 when empty. */
MLSYS_API mlsys_status mlsys_tensor_bounds(mlsys_tensor t, uint64_t *low, uint64_t *high);
/** contiguous: row-major without gaps; overlaps: two indices share memory (exact for rank <= 8). */
MLSYS_API mlsys_status mlsys_tensor_layout(mlsys_tensor t, int32_t *contiguous, int32_t *overlaps);
/** The address of element (0,...,0) and the storage bytes from there; host-usable memory only. */
MLSYS_API mlsys_status mlsys_tensor_data(mlsys_tensor t, void **out, uint64_t *bytes);
/** Identity of the storage: equal numbers mean shared memory. */
MLSYS_API mlsys_status mlsys_tensor_storage_id(mlsys_tensor t, uint64_t *out);
/** Copy from or to dense row-major host memory; bytes must be exactly the tensor's. */
MLSYS_API mlsys_status mlsys_tensor_write(mlsys_tensor t, mlsys_stream stream, const void *src,
                                          uint64_t bytes);
MLSYS_API mlsys_status mlsys_tensor_read(mlsys_tensor t, mlsys_stream stream, void *dst,
                                         uint64_t bytes);
/** dst[i] = src[i] for equal shapes and dtypes, any two layouts, right under any overlap of the two.
 *  Errors SHAPE; ARG when dst overlaps itself or is read-only. */
MLSYS_API mlsys_status mlsys_tensor_copy(mlsys_tensor dst, mlsys_tensor src, mlsys_stream stream);
/** Fill with counter-based random numbers: kind "bits" (i32/i64/u8), "uniform" [0,1) or "normal".
 *  Element i is a function of (key, stream_id, i) only. */
MLSYS_API mlsys_status mlsys_tensor_random(mlsys_tensor t, mlsys_stream stream, const char *kind,
                                           uint64_t key, uint64_t stream_id);
/** DLPack 1.x (DLManagedTensorVersioned). The producer's deleter runs once, when the import's
 *  storage dies; on failure the caller keeps ownership. stream may be NULL on the CPU. */
MLSYS_API mlsys_status mlsys_tensor_to_dlpack(mlsys_tensor t, mlsys_stream stream, uint64_t flags,
                                              void **managed);
MLSYS_API mlsys_status mlsys_tensor_from_dlpack(mlsys_device device, void *managed,
                                                mlsys_stream stream, mlsys_tensor *out);
MLSYS_API mlsys_status mlsys_dlpack_free(void *managed);

/* ---- eager ops ------------------------------------------------------------------------------ */

/** Run one op of the table now. in[i] may be NULL for an absent optional input. out[i] NULL =
 *  allocate, else written in place (shape and dtype must match; no self-overlap). attrs may be NULL. */
MLSYS_API mlsys_status mlsys_op_run(mlsys_stream stream, const char *op, int32_t n_in,
                                    const mlsys_tensor *in, mlsys_config attrs, int32_t n_out,
                                    mlsys_tensor *out);
/** Shortcuts of mlsys_op_run. */
MLSYS_API mlsys_status mlsys_matmul(mlsys_stream stream, mlsys_tensor a, mlsys_tensor b,
                                    mlsys_tensor *out);
MLSYS_API mlsys_status mlsys_cast(mlsys_stream stream, mlsys_tensor a, mlsys_dtype dtype,
                                  mlsys_tensor *out);
/** A record of what mlsys_op_run does on a stream, to differentiate it: the tape holds inputs and results.
 *  Other views of memory that it holds are followed (docs/autodiff.md).  Errors STATE: the stream has one. */
MLSYS_API mlsys_status mlsys_tape_create(mlsys_stream stream, mlsys_tape *out);
/** on 0: ops leave no record until it is 1 again (no-grad). */
MLSYS_API mlsys_status mlsys_tape_record(mlsys_tape tape, int32_t on);
/** t counts as a constant for what is recorded from now on, though it was computed. */
MLSYS_API mlsys_status mlsys_tape_detach(mlsys_tape tape, mlsys_tensor t);
/** dx[j] = sum over i of seeds[i] * d y[i] / d x[j], new tensors; seeds as in mlsys_graph_gradient. y are
 *  recorded results; x recorded operands or results; dx[j] is NULL where no y depends on x[j]. The tape stays
 *  and can be asked again.
 *  Errors   STATE a saved tensor was written since it was recorded (names op and operand); ARG y or x is
 *           not on the tape; as mlsys_graph_gradient. */
MLSYS_API mlsys_status mlsys_tape_gradient(mlsys_tape tape, int32_t n_y, const mlsys_tensor *y,
                                           const mlsys_tensor *seeds, int32_t n_x,
                                           const mlsys_tensor *x, mlsys_tensor *dx);
/** Forget what was recorded, and let its tensors go. */
MLSYS_API mlsys_status mlsys_tape_clear(mlsys_tape tape);
/** Names of all ops, one per line. ctx may be NULL (then custom ops are left out). */
MLSYS_API mlsys_status mlsys_op_list(mlsys_ctx ctx, char *buf, uint64_t cap, uint64_t *need);
/** Inputs, outputs, attributes, meaning and special values of an op, as Markdown. */
MLSYS_API mlsys_status mlsys_op_schema(mlsys_ctx ctx, const char *op, char *buf, uint64_t cap,
                                       uint64_t *need);

/* ---- custom ops ----------------------------------------------------------------------------- */

typedef struct mlsys_opdef {
    uint64_t size;
    const char *name; /* copied; must not be a built-in op's */
    void *user;
    int32_t n_in, n_out;
    /** Output dtypes and shapes from input ones: in_shapes is [n_in][8], out_shapes [n_out][8].
     *  Extents may be negative dim codes: pass them on unchanged or refuse. */
    mlsys_status (*infer)(void *user, int32_t n_in, const mlsys_dtype *dtypes, const int32_t *ndims,
                          const int64_t *in_shapes, mlsys_config attrs, int32_t n_out,
                          mlsys_dtype *out_dtypes, int32_t *out_ndims, int64_t *out_shapes);
    /** Compute outputs; handles are borrowed; called on the thread that runs the program. Read and
     *  write the tensors' memory by mlsys_tensor_data: stream is busy with the run that calls, so
     *  copies, ops and programs on it fail with MLSYS_E_BUSY. Other streams may be used. */
    mlsys_status (*run)(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                        mlsys_config attrs, int32_t n_out, const mlsys_tensor *out);
    void (*destroy)(void *user);
    /** The gradient rule, or NULL: append to g the nodes that compute din[k], of in[k]'s type, from dout[i]
     *  (0 = zero by structure; not all are). in and out are the node's values; in[k] = 0 is absent. Set din[k]
     *  of floats where wanted[k]; 0 = zero. Only mlsys_graph_op, _const, _dim and _type may be called on g. */
    mlsys_status (*gradient)(void *user, mlsys_graph g, int32_t n_in, const mlsys_value *in,
                             mlsys_config attrs, int32_t n_out, const mlsys_value *out,
                             const mlsys_value *dout, const int32_t *wanted, mlsys_value *din);
} mlsys_opdef;

MLSYS_API mlsys_status mlsys_opdef_init(mlsys_opdef *d, uint64_t size);
/** Register with one context; it then runs by mlsys_op_run and mlsys_graph_op like a built-in. */
MLSYS_API mlsys_status mlsys_op_register(mlsys_ctx ctx, const mlsys_opdef *d);

/* ---- graphs --------------------------------------------------------------------------------- */

MLSYS_API mlsys_status mlsys_graph_create(mlsys_ctx ctx, mlsys_graph *out);
/** A named symbolic extent, min <= value <= max, a multiple of divisor (>= 1). */
MLSYS_API mlsys_status mlsys_graph_symbol(mlsys_graph g, const char *name, int64_t min, int64_t max,
                                          int64_t divisor, mlsys_dim *out);
/** Dim arithmetic: op is '+', '-', '*', '/' (floor) or '%'; constants and symbols mix. */
MLSYS_API mlsys_status mlsys_graph_dim(mlsys_graph g, int32_t op, mlsys_dim a, mlsys_dim b,
                                       mlsys_dim *out);
MLSYS_API mlsys_status mlsys_graph_input(mlsys_graph g, const char *name, mlsys_dtype dtype,
                                         int32_t ndim, const mlsys_dim *shape, mlsys_value *out);
/** Let a run overwrite this input's memory. The tensor passed in must not be shared by another
 *  argument, and is the output that the planner aliases to it, if any. */
MLSYS_API mlsys_status mlsys_graph_donate(mlsys_graph g, mlsys_value input);
/** A constant; the tensor is retained and must not change afterwards. */
MLSYS_API mlsys_status mlsys_graph_const(mlsys_graph g, mlsys_tensor t, mlsys_value *out);
/** Append an op. in[i] = 0 is an absent optional input. The error names op, operand and values. */
MLSYS_API mlsys_status mlsys_graph_op(mlsys_graph g, const char *op, int32_t n_in,
                                      const mlsys_value *in, mlsys_config attrs, int32_t n_out,
                                      mlsys_value *out);
/** Append a call of another graph's function: outputs as in callee's outputs. The callee is copied.
 *  kind "call": in = arguments. "if": in[0] = bool scalar predicate, then arguments; g1, g2 = then, else.
 *  "while": in = carried values; g1 = condition (one bool scalar output), g2 = body. */
MLSYS_API mlsys_status mlsys_graph_control(mlsys_graph g, const char *kind, mlsys_graph g1,
                                           mlsys_graph g2, int32_t n_in, const mlsys_value *in,
                                           int32_t n_out, mlsys_value *out);
MLSYS_API mlsys_status mlsys_graph_output(mlsys_graph g, const char *name, mlsys_value v);
MLSYS_API mlsys_status mlsys_graph_type(mlsys_graph g, mlsys_value v, mlsys_dtype *dtype,
                                        int32_t cap, mlsys_dim *shape, int32_t *ndim);
/** The input of this name, or else the output's value, of a graph that somebody else has built: to append a
 *  loss to a model's logits. Values of a graph grow as it does, so those of inputs sort into their order.
 *  Errors   NOTFOUND. */
MLSYS_API mlsys_status mlsys_graph_find(mlsys_graph g, const char *name, mlsys_value *out);
/** Append the nodes that compute gradients: dx[j] = sum over i of seeds[i] * d y[i] / d x[j], of x[j]'s
 *  type. seeds may be NULL, and seeds[i] 0: ones. y and x are floats; x may be any values. dx[j] = 0 where
 *  no y depends on x[j]: nothing is computed there. Gradients are nodes like any others and can be
 *  differentiated again.
 *  config keys: mlsys_config_keys("gradient"): which forward values are kept for the backward pass and which
 *  are computed again ("checkpoint"); the bits do not change. config may be NULL.
 *  Errors   DTYPE y or x is no float; SHAPE a seed is not of its y's type; UNSUPPORTED an op without a
 *           gradient, by name. The graph is then as before. */
MLSYS_API mlsys_status mlsys_graph_gradient(mlsys_graph g, int32_t n_y, const mlsys_value *y,
                                            const mlsys_value *seeds, int32_t n_x,
                                            const mlsys_value *x, mlsys_config config,
                                            mlsys_value *dx);
/** Forward mode: dy[i] = sum over j of d y[i] / d x[j] * dx[j], of y[i]'s type. dx[j] = 0: zeros. dy[i] = 0
 *  where y[i] depends on no x. Made by differentiating the reverse pass by its seeds.
 *  Errors   as mlsys_graph_gradient; SHAPE dx[j] is not of x[j]'s type. */
MLSYS_API mlsys_status mlsys_graph_tangent(mlsys_graph g, int32_t n_x, const mlsys_value *x,
                                           const mlsys_value *dx, int32_t n_y, const mlsys_value *y,
                                           mlsys_value *dy);
/** Rewrite g for mixed precision: ops that gain from dtype (MLSYS_BF16 or MLSYS_F16) compute in it, others
 *  and all inputs and outputs keep their dtype; casts are inserted. Before mlsys_graph_gradient.
 *  config keys: mlsys_config_keys("narrow"). config may be NULL. Values of g from before are void and refused,
 *  but for the n values (inputs, the loss, any other), which are translated in place and keep their types;
 *  nodes that neither these nor outputs need are dropped. No change after a failure.
 *  Errors   DTYPE dtype is not BF16 or F16; NOTFOUND the config names no op; ARG a value of another graph. */
MLSYS_API mlsys_status mlsys_graph_narrow(mlsys_graph g, mlsys_dtype dtype, mlsys_config config,
                                          int32_t n, mlsys_value *values);
typedef struct mlsys_gradient_report {
    uint64_t size;               /* set by the caller */
    int64_t checked, kinks;      /* elements; of these, where left and right slopes differ */
    double worst;                /* largest relative error (absolute below 1), and where: */
    int32_t input, reserved;     /* -1: nothing was checked */
    int64_t element;             /* row-major */
    double gradient, difference; /* by the rules, by difference quotients */
} mlsys_gradient_report;
/** Compare the gradients of all f64 outputs by all f64 inputs with central differences of the interpreter's
 *  values, at three pairs of step sizes. in as in mlsys_graph_interpret; not written. out may be NULL.
 *  config keys: mlsys_config_keys("check_gradient").
 *  Errors   ARG an element differs by more than the tolerance (out says where), no f64; as
 *           mlsys_graph_gradient. */
MLSYS_API mlsys_status mlsys_graph_check_gradient(mlsys_graph g, int32_t n_in,
                                                  const mlsys_tensor *in, mlsys_config config,
                                                  mlsys_gradient_report *out);
/** Check every rule of the IR; the error names op, operand and values. */
MLSYS_API mlsys_status mlsys_graph_verify(mlsys_graph g);
/** The graph as text, which mlsys_graph_parse reads back to an equal graph. */
MLSYS_API mlsys_status mlsys_graph_print(mlsys_graph g, char *buf, uint64_t cap, uint64_t *need);
MLSYS_API mlsys_status mlsys_graph_parse(mlsys_ctx ctx, const char *text, mlsys_graph *out);
/** Run by the reference interpreter: slow, obvious, no kernels. Outputs as in mlsys_program_run. */
MLSYS_API mlsys_status mlsys_graph_interpret(mlsys_graph g, mlsys_stream stream, int32_t n_in,
                                             const mlsys_tensor *in, int32_t n_out,
                                             mlsys_tensor *inout);

/* ---- programs ------------------------------------------------------------------------------- */

typedef struct mlsys_cost {
    uint64_t size;
    uint64_t flops;
    uint64_t transcendentals;
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t peak_bytes; /* scratch + allocated outputs of one run, exact */
    uint64_t
        constant_bytes; /* memory of its constants (a file's stays mapped), and packed copies */
    uint64_t kernels;   /* steps that do work */
} mlsys_cost;

/** Compile for a device. Config keys: mlsys_config_keys("compile"); the main ones are "numerics"
 *  ("exact", "stable", "fast"), "fuse" and "jit" (auto, always, never), "plan" (0: no buffer reuse), "passes_off" (a comma
 *  list). */
MLSYS_API mlsys_status mlsys_graph_compile(mlsys_graph g, mlsys_device device, mlsys_config config,
                                           mlsys_program *out);
/** Run. in/out in the order of the graph. inout[i] NULL = allocate, else written in place. Symbols
 *  are bound from the inputs' shapes. When the stream's scratch is large enough and all outputs are
 *  given, nothing is allocated (see mlsys_program_reserve).
 *  Errors SHAPE: an input does not match, or a symbol is outside its range. */
MLSYS_API mlsys_status mlsys_program_run(mlsys_program p, mlsys_stream stream, int32_t n_in,
                                         const mlsys_tensor *in, int32_t n_out,
                                         mlsys_tensor *inout);
/** Bind symbols by name (missing ones at their maximum) and grow the stream's scratch for them. */
MLSYS_API mlsys_status mlsys_program_reserve(mlsys_program p, mlsys_stream stream, int32_t n,
                                             const char *const *names, const int64_t *values);
/** Totals for the given binding (missing symbols at their maximum). out->size set by the caller. */
MLSYS_API mlsys_status mlsys_program_cost(mlsys_program p, int32_t n, const char *const *names,
                                          const int64_t *values, mlsys_cost *out);
MLSYS_API mlsys_status mlsys_program_dump(mlsys_program p, int32_t what, char *buf, uint64_t cap,
                                          uint64_t *need);
/** Write the program as one freestanding C99 file: weights, a static arena and
 *      int NAME_run(const void *const *inputs, void *const *outputs);
 *  with the bits of mlsys_program_run, no allocation and no call of a library (docs/export.md). Shapes are those of the
 *  binding: symbols by name, missing ones at their maximum. path holds a whole file at any moment: the old or the new one.
 *  Config keys: mlsys_config_keys("export"); config may be NULL.
 *  Errors   NOTFOUND no such symbol, no such folder; SHAPE a value outside its symbol's range; ARG name is no C
 *           identifier; UNSUPPORTED a step has no loops (control flow, custom ops); IO.
 *  Threads  any; p is only read. */
MLSYS_API mlsys_status mlsys_program_export(mlsys_program p, const char *path, int32_t n,
                                            const char *const *names, const int64_t *values,
                                            mlsys_config config);

/** Where a search is. Texts last until the callback returns. */
typedef struct mlsys_tune_progress {
    uint64_t size;
    const char *kernel;         /* at work; number index of so many */
    const char *schedule;       /* the best so far; "" = the default */
    int64_t number, candidates; /* draws of this kernel so far, and at most */
    double best;                /* the best one's time by the default's */
    int64_t elapsed_ms;
    int32_t index, kernels;
} mlsys_tune_progress;
typedef struct mlsys_tune_report {
    uint64_t size;     /* set by the caller */
    int64_t kernels;   /* that have schedules to choose from */
    int64_t measured;  /* candidates timed by this call */
    int64_t resumed;   /* draws that records knew */
    int64_t refused;   /* not proved, or not to be compiled: never run */
    int64_t different; /* other bits than the default's, a defect of the library: never timed */
    int64_t improved;  /* kernels with a schedule faster than the default */
    double default_ns; /* of one run of all kernels */
    double best_ns;
    int64_t elapsed_ms;
    int32_t stopped, reserved; /* by progress */
} mlsys_tune_report;
/** Search faster schedules for the generated kernels of p, at one binding of its symbols (missing ones at their maximum).
 *  p stays as it is; what is learned goes to the cache folder, and graphs compiled with the config key "tune" = "replay"
 *  on such a machine, with as many threads, use it. Every candidate is proved equal, compiled, run on random input and
 *  compared bit for bit with the default schedule before it is timed. A search that was interrupted, even killed, goes on
 *  where it was; "seed" decides the random draws, times the rest.
 *  config keys: mlsys_config_keys("tune"): "budget_ms", "candidates" (of each kernel), "seed". config may be NULL.
 *  progress is called on this thread every few candidates; not 0 stops the search, which then is a success. It, user and
 *  out may be NULL.
 *  Errors   IO no folder, or it cannot be written; NOTFOUND, SHAPE a symbol; NOMEM. out says how far it came.
 *  Threads  any; others may run p, and are then a part of what is measured. */
MLSYS_API mlsys_status mlsys_program_tune(mlsys_program p, int32_t n, const char *const *names,
                                          const int64_t *values, mlsys_config config,
                                          int32_t (*progress)(void *user,
                                                              const mlsys_tune_progress *at),
                                          void *user, mlsys_tune_report *out);

/* ---- datasets ------------------------------------------------------------------------------- */

/** Open training data. config keys: mlsys_config_keys("dataset"): "format" ("idx", "csv", "tokens"), "labels"
 *  (IDX), "length", "dtype" (tokens), "columns", "label", "header" (CSV), "shuffle", "seed".
 *  An example has fields, each a tensor: IDX u8 images and i64 labels; CSV f32 columns, then an i64 label
 *  when a label column is named; tokens i32 inputs [length] and i32 targets [length], one later.
 *  Files may be gzip-compressed where the build has zlib.
 *  Errors   FORMAT, IO: the sentence names file and place; UNSUPPORTED compressed, and no zlib. */
MLSYS_API mlsys_status mlsys_dataset_open(mlsys_ctx ctx, const char *path, mlsys_config config,
                                          mlsys_dataset *out);
/** Over tensors in memory, retained: examples along axis 0 of all n; with "length", one i32 tensor [N] of
 *  tokens as of a token file. */
MLSYS_API mlsys_status mlsys_dataset_wrap(mlsys_ctx ctx, int32_t n, const mlsys_tensor *fields,
                                          mlsys_config config, mlsys_dataset *out);
/** Examples in one epoch, and fields of an example; either may be NULL. */
MLSYS_API mlsys_status mlsys_dataset_size(mlsys_dataset d, int64_t *examples, int32_t *fields);
/** Examples position .. position + n - 1 of the endless sequence of shuffled epochs, stacked along a new axis
 *  0: new tensors, one for each field. What they are depends on seed and position only, so a run resumes
 *  anywhere by its position. */
MLSYS_API mlsys_status mlsys_dataset_batch(mlsys_dataset d, int64_t position, int64_t n,
                                           int32_t n_out, mlsys_tensor *out);

/* ---- training ------------------------------------------------------------------------------- */

/** A training run. g computes loss, a float scalar; params are n of its inputs, initial their first values
 *  (copied). The other inputs of g, in their order, are a batch. A step - forward, backward, clipping,
 *  update - is one compiled program with parameters and optimiser state donated. g is copied.
 *  config keys: mlsys_config_keys("trainer"): "optimizer" ("sgd", "adam", "adamw", "adafactor", "lion",
 *  "muon") and its numbers, "rate", "schedule", "warmup", "steps", "clip", "weight_decay", "no_decay",
 *  "accumulate", "ema", "precision" ("f32", "bf16", "f16"), "loss_scale", "checkpoint", "numerics", ... */
MLSYS_API mlsys_status mlsys_trainer_create(mlsys_graph g, mlsys_value loss, int32_t n,
                                            const mlsys_value *params, const mlsys_tensor *initial,
                                            mlsys_stream stream, mlsys_config config,
                                            mlsys_trainer *out);
/** One batch; with "accumulate" k, every k-th call updates, by the mean of k gradients ("accumulate_mean" 0: by
 *  their sum); when they have the bits of one batch's, docs/training.md says. loss: of this batch; may be NULL. A step whose gradients are not finite (their norm, in f32) changes nothing but the loss scale
 *  and the counts of calls and of skipped steps. After a failure the state is as before. */
MLSYS_API mlsys_status mlsys_trainer_step(mlsys_trainer t, int32_t n_in, const mlsys_tensor *in,
                                          double *loss);
/** Names: mlsys_config_keys("trainer_stats"): "step", "batches", "loss", "rate", "gradient_norm",
 *  "loss_scale", "skipped", "flops", "peak_bytes", ... */
MLSYS_API mlsys_status mlsys_trainer_stat(mlsys_trainer t, const char *name, double *out);
/** A copy of a parameter ("NAME": its input's name) or of state ("NAME.m", "NAME.ema"...). Errors NOTFOUND. */
MLSYS_API mlsys_status mlsys_trainer_tensor(mlsys_trainer t, const char *name, mlsys_tensor *out);
/** The first op of the forward or backward pass, in the order of running, with a result that is not finite
 *  for this batch: its name, operands and value; "" when all are finite. Slow: runs on the interpreter. */
MLSYS_API mlsys_status mlsys_trainer_find_nonfinite(mlsys_trainer t, int32_t n_in,
                                                    const mlsys_tensor *in, char *buf, uint64_t cap,
                                                    uint64_t *need);
/** Write parameters, optimiser state, counters and a digest (safetensors): to a temporary file beside path,
 *  synced, renamed; the old file is whole whatever happens. */
MLSYS_API mlsys_status mlsys_trainer_save(mlsys_trainer t, const char *path);
/** Go on from a file of mlsys_trainer_save: the run has the bits of one that was never interrupted.
 *  Errors   FORMAT a broken file or one of another model or optimiser (names what differs): nothing changes. */
MLSYS_API mlsys_status mlsys_trainer_load(mlsys_trainer t, const char *path);
/** Write n tensors, dense row-major, and n_meta key-value texts as a safetensors file, as safely. */
MLSYS_API mlsys_status mlsys_tensors_save(const char *path, int32_t n, const char *const *names,
                                          const mlsys_tensor *tensors, int32_t n_meta,
                                          const char *const *keys, const char *const *values);

/* ---- models and tokenizers ------------------------------------------------------------------ */

/** Open a model file (GGUF v2/v3, or safetensors: description, metadata and tensors only). The file is
 *  mapped, and validated whole before use. */
MLSYS_API mlsys_status mlsys_model_open(mlsys_ctx ctx, const char *path, mlsys_config config,
                                        mlsys_model *out);
/** Lines "key: value" of the metadata and the tensor list. */
MLSYS_API mlsys_status mlsys_model_describe(mlsys_model m, char *buf, uint64_t cap, uint64_t *need);
/** Text value of a metadata key; numbers in decimal. */
MLSYS_API mlsys_status mlsys_model_meta(mlsys_model m, const char *key, char *buf, uint64_t cap,
                                        uint64_t *need);
/** A tensor of the file as a read-only view of the mapping (kept alive by the tensor). */
MLSYS_API mlsys_status mlsys_model_tensor(mlsys_model m, const char *name, mlsys_tensor *out);
/** Build the architecture as a graph with symbols "B" (batch), "L" (new tokens) and KV-cache state.
 *  Config keys: mlsys_config_keys("model").
 *  Inputs   tokens i32 [B,L]; start i64 [] (tokens already cached); then per layer the k and v caches
 *           [B, context, kv_heads, dim], donated.
 *  Outputs  the caches in the order of the inputs, then logits f32 [B,L,V] or [B,1,V].
 *  With "mode" = "train" there is no cache: inputs tokens i32 [B,L] and, by "trainable" ("all", "lora"), the
 *  weights or the adapters NAME.lora_a [rank,in], NAME.lora_b [out,rank] of each matrix that "lora_targets"
 *  names, f32, under their names; output logits f32 [B,L,V], the bits of inference with the same weights
 *  (and an f32 cache). The order of these inputs is that of their use: token_embd; of each layer attn_norm,
 *  attn_q, attn_k, attn_v, ...; output_norm, output; a bias and an adapter's a and b follow their matrix.
 *  Where m has an adapter that is trained, the inputs stand in its place.
 *  Errors   UNSUPPORTED unknown architecture; FORMAT a value or tensor that does not fit. */
MLSYS_API mlsys_status mlsys_model_graph(mlsys_model m, mlsys_config config, mlsys_graph *out);
/** m with other tensors, row-major: a name of m's replaces that tensor (same shape, any float dtype);
 *  NAME.lora_a and NAME.lora_b, together, adapt the matrix NAME by scale * b a, where scale = "lora_alpha" /
 *  rank. The result keeps m and the tensors, which must not change; it is a model like any other.
 *  config keys: mlsys_config_keys("model_adapt").
 *  Errors   NOTFOUND m has no such tensor or matrix; SHAPE, DTYPE; ARG one half of an adapter, a name twice. */
MLSYS_API mlsys_status mlsys_model_adapt(mlsys_model m, int32_t n, const char *const *names,
                                         const mlsys_tensor *tensors, mlsys_config config,
                                         mlsys_model *out);
/** Write m as a GGUF file, adapters merged into their matrices; as safely as mlsys_trainer_save. Tensors that
 *  were replaced or merged have "dtype" (f32, f16, bf16; vectors f32 always), others their own.
 *  config keys: mlsys_config_keys("model_save"). */
MLSYS_API mlsys_status mlsys_model_save(mlsys_model m, const char *path, mlsys_config config);

MLSYS_API mlsys_status mlsys_model_tokenizer(mlsys_model m, mlsys_tokenizer *out);
/** flags: 1 = add the model's BOS/EOS as its metadata says, 2 = recognise special tokens in the text.
 *  Writes at most cap ids; need receives the count; MLSYS_E_BUFFER when cap is too small. */
MLSYS_API mlsys_status mlsys_tokenizer_encode(mlsys_tokenizer t, const char *text, uint64_t bytes,
                                              int32_t flags, int32_t *ids, uint64_t cap,
                                              uint64_t *need);
/** Bytes of n tokens, NUL-ended; flags: 2 = write special tokens out as their text. */
MLSYS_API mlsys_status mlsys_tokenizer_decode(mlsys_tokenizer t, const int32_t *ids, uint64_t n,
                                              int32_t flags, char *buf, uint64_t cap,
                                              uint64_t *need);
MLSYS_API mlsys_status mlsys_tokenizer_vocab(mlsys_tokenizer t, int32_t *size);
/** The id whose text is exactly name.  Errors NOTFOUND. */
MLSYS_API mlsys_status mlsys_tokenizer_id(mlsys_tokenizer t, const char *name, int32_t *out);

/* ---- generation ----------------------------------------------------------------------------- */

/** A conversation with a causal language model: program, KV cache, sampler, streaming decoder.
 *  Config keys: mlsys_config_keys("generate") ("context", "temperature", "top_k", "top_p", "min_p",
 *  "repetition_penalty", "seed", "numerics", "chunk", ...). */
MLSYS_API mlsys_status mlsys_generator_create(mlsys_model m, mlsys_stream stream,
                                              mlsys_config config, mlsys_generator *out);
/** Apply the model's chat template to one user message and append the result to the context. */
MLSYS_API mlsys_status mlsys_generator_chat(mlsys_generator g, const char *system,
                                            const char *user);
/** Append raw text (special tokens recognised) or token ids. Nothing is appended on failure. */
MLSYS_API mlsys_status mlsys_generator_append(mlsys_generator g, const char *text);
MLSYS_API mlsys_status mlsys_generator_append_ids(mlsys_generator g, const int32_t *ids,
                                                  uint64_t n);
/* Bytes that any one step's text fits in: the longest token that a vocabulary may have (65535), what
 * was held back of a character before it (3), and the NUL. */
enum { MLSYS_GENERATOR_TEXT = 65539 };
/** Produce one token. id = -1 at the end (an end token, or the context is full). text receives the
 *  whole characters that became complete, possibly none, NUL-ended. The texts of all calls together
 *  are, byte for byte, those of the produced tokens: the bytes of an unfinished character are given
 *  out as they are at the end or, when something was appended behind them, at the start of the next
 *  text.
 *  Errors   BUFFER cap below MLSYS_GENERATOR_TEXT: nothing is produced, need receives it; STATE a
 *           NaN logit.
 *  After any failure the context is as before, so the call can be repeated. */
MLSYS_API mlsys_status mlsys_generator_next(mlsys_generator g, int32_t *id, char *text,
                                            uint64_t cap, uint64_t *need);
/** Logits (f32, vocabulary-sized) that the next token will be drawn from. */
MLSYS_API mlsys_status mlsys_generator_logits(mlsys_generator g, float *out, uint64_t count);
/** Token count in context, capacity, seconds and tokens of prefill and decode, bytes held.
 *  names: mlsys_config_keys("generator_stats"). */
MLSYS_API mlsys_status mlsys_generator_stat(mlsys_generator g, const char *name, double *out);
/** Forget the context (keep n first tokens). Bytes that tokens hold back from mlsys_generator_next
 *  are forgotten with them, and kept with those that are kept. */
MLSYS_API mlsys_status mlsys_generator_rewind(mlsys_generator g, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
