/* Planted defects: negative controls that show each test can fail. One row each:
 *
 *     MLSI_FAULT_ROW(NAME, "file of the site", "suite that must fail", "what it breaks")
 *
 * The site reads  if (mlsi_fault(MLSI_FAULT_NAME)) <do it wrongly>. The suite is a path under
 * tests/ without suffix, e.g. "unit/check_gguf" or "fuzz/replay_gguf". tests/faults.sh builds with
 * -DMLSI_FAULTS=1, plants each row in turn and demands that its suite fails.
 *
 * Included several times; no include guard. */
MLSI_FAULT_ROW(GGUF_DIM_PRODUCT, "src/model/gguf.c", "unit/check_gguf_reject",
               "the product of a tensor's dims wraps instead of being refused (BO-14)")
MLSI_FAULT_ROW(GGUF_STRING_BOUND, "src/model/gguf_scan.c", "unit/check_gguf_reject",
               "a string's length is added to the position before it is compared, and may wrap")
MLSI_FAULT_ROW(GGUF_OVERLAP, "src/model/gguf.c", "unit/check_gguf_reject",
               "overlapping tensors are accepted")
MLSI_FAULT_ROW(GGUF_DUPLICATE, "src/model/gguf.c", "unit/check_gguf_reject",
               "duplicate metadata keys are accepted")
MLSI_FAULT_ROW(GGUF_DATA_BOUND, "src/model/gguf.c", "fuzz/replay_gguf",
               "tensor data may reach past the end of the file")
MLSI_FAULT_ROW(BLOCK_Q6_K_HIGH_BITS, "src/ir/ops/block_decode.c", "unit/check_block_decode",
               "the high bits of q6_k's third quarter are taken from the fourth")
MLSI_FAULT_ROW(ADDED_SHORTEST, "src/model/tokenizer_added.c", "unit/check_tokenizer",
               "the shortest of several added tokens at one place is taken (BO-16)")
MLSI_FAULT_ROW(STREAM_TAIL, "src/model/token_stream.c", "unit/check_tokenizer",
               "streaming decode gives out parts of characters")
MLSI_FAULT_ROW(ELEMENTARY_LAST_BIT, "src/core/elementary.c", "unit/check_elementary",
               "the last bit of the scalar f32 elementary functions is flipped")
MLSI_FAULT_ROW(ELEMENTARY_NAN_RULE, "src/core/elementary.c", "unit/check_elementary",
               "pow(1, NaN) and pow(NaN, 0) are NaN instead of 1")
MLSI_FAULT_ROW(ELEMENTARY_F64_BOUND, "src/core/elementary_f64.c", "unit/check_elementary",
               "f64 elementary functions are up to three units in the last place off")
MLSI_FAULT_ROW(SLICE_OPEN_END, "src/core/layout.c", "unit/check_layout",
               "a slice backwards to the open end leaves out element 0 (BO-04)")
MLSI_FAULT_ROW(RESHAPE_MERGE, "src/core/layout.c", "unit/check_layout",
               "reshape calls a view what needs a copy")
MLSI_FAULT_ROW(BLOCK_CUT, "src/core/layout.c", "unit/check_layout",
               "views may start inside a block")
MLSI_FAULT_ROW(OVERLAP_SORTED_ONLY, "src/core/layout_overlap.c", "unit/check_layout",
               "layouts that only the search clears are said to overlap themselves")
MLSI_FAULT_ROW(COPY_OVERLAP, "src/core/copy.c", "unit/check_tensor",
               "overlapping copies run in place (BO-05)")
MLSI_FAULT_ROW(COPY_TILE_EDGE, "src/core/transpose.c", "unit/check_tensor",
               "the last column of a ragged tile is not copied")
MLSI_FAULT_ROW(HANDLE_GENERATION, "src/core/handle.c", "unit/check_handle",
               "a slot keeps its generation when its object dies")
MLSI_FAULT_ROW(HANDLE_FORK, "src/core/handle.c", "unit/check_handle", "a forked child may go on")
MLSI_FAULT_ROW(HANDLE_BUSY, "src/core/handle.c", "unit/check_handle",
               "two threads may use a stream at once")
MLSI_FAULT_ROW(POOL_WAIT, "src/core/pool.c", "unit/check_pool",
               "a job returns while workers are inside")
MLSI_FAULT_ROW(POOL_SIGNALS, "src/core/pool.c", "unit/check_pool",
               "workers take the host's signals")
MLSI_FAULT_ROW(POOL_FP_STATE, "src/core/pool.c", "unit/check_pool",
               "workers compute in the host's floating-point state (BO-06)")
MLSI_FAULT_ROW(RNG_ROUNDS, "src/core/rng.c", "unit/check_rng", "Philox runs nine rounds")
MLSI_FAULT_ROW(RNG_UNIFORM_ROUNDS, "src/core/rng_fill.c", "unit/check_rng",
               "narrow uniform numbers are rounded, and may be 1")
MLSI_FAULT_ROW(DTYPE_TIES_UP, "src/core/dtype.c", "unit/check_dtype",
               "ties round up instead of to even")
MLSI_FAULT_ROW(BF16_TRUNCATE, "src/core/dtype.c", "unit/check_dtype", "f32 to bf16 truncates")
MLSI_FAULT_ROW(INT_NO_SATURATION, "src/core/dtype.c", "unit/check_dtype",
               "floats beyond an integer's range wrap")
MLSI_FAULT_ROW(TRACE_ORDER, "src/core/trace.c", "unit/check_trace",
               "a full ring is read from its first slot")
MLSI_FAULT_ROW(LOG_CUT, "src/core/log.c", "unit/check_trace", "a full log cuts its oldest line")
MLSI_FAULT_ROW(CONFIG_BOUNDS, "src/core/config.c", "unit/check_config",
               "bounds of settings are not checked")
MLSI_FAULT_ROW(DLPACK_OWNERSHIP, "src/core/dlpack.c", "unit/check_alloc",
               "a failed import frees the producer's tensor")
MLSI_FAULT_ROW(DLPACK_READ_ONLY, "src/core/dlpack.c", "unit/check_dlpack",
               "read-only memory is exported as writable")
MLSI_FAULT_ROW(STORAGE_LEAK, "src/core/tensor.c", "unit/check_alloc",
               "a storage whose memory cannot be had leaks its record")
MLSI_FAULT_ROW(SHA256_LENGTH, "src/core/sha256.c", "unit/check_sha256",
               "the message length is written in bytes")
MLSI_FAULT_ROW(API_FP_STATE, "src/api/api.h", "e2e/check_fp_state",
               "calls compute in the caller's floating-point state (BO-06)")
MLSI_FAULT_ROW(DIM_FLOOR_DOMAIN, "src/ir/graph/dims.c", "unit/check_dims",
               "floor(r / b) is taken for 0 when r < b, whether or not r >= 0 (BO-09)")
MLSI_FAULT_ROW(DIM_TRUNCATES, "src/ir/graph/dims.c", "unit/check_dims",
               "a negative constant in a division is rounded toward zero")
MLSI_FAULT_ROW(DIM_DIVIDES, "src/ir/graph/dims.c", "unit/check_dims",
               "a term leaves a division although the divisor does not divide its coefficient")
