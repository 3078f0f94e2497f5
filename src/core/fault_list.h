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
MLSI_FAULT_ROW(OVERLAP_SORTED_ONLY, "src/core/layout_overlap.c", "unit/check_overlap",
               "layouts that only the search clears are said to overlap themselves")
MLSI_FAULT_ROW(COPY_OVERLAP, "src/core/copy.c", "unit/check_copy",
               "overlapping copies run in place (BO-05)")
MLSI_FAULT_ROW(COPY_TILE_EDGE, "src/core/transpose.c", "unit/check_copy",
               "the last column of a ragged tile is not copied")
MLSI_FAULT_ROW(HANDLE_GENERATION, "src/core/handle.c", "unit/check_handle",
               "a slot keeps its generation when its object dies")
MLSI_FAULT_ROW(HANDLE_FORK, "src/core/handle.c", "unit/check_handle", "a forked child may go on")
MLSI_FAULT_ROW(HANDLE_BUSY, "src/core/handle.c", "unit/check_handle_life",
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
MLSI_FAULT_ROW(OPS_SUM_LANES, "src/ir/ops/scalar.c", "unit/check_ops_values",
               "the canonical sum runs in one lane")
MLSI_FAULT_ROW(OPS_DOT_TAIL, "src/ir/ops/scalar.c", "unit/check_ops_values",
               "a last segment of one product is dropped")
MLSI_FAULT_ROW(OPS_ADDEND_LAST, "src/ir/ops/scalar.c", "unit/check_accumulation",
               "an addend is added behind the segments")
MLSI_FAULT_ROW(OPS_SCAN_CHAIN, "src/ir/ops/scan.c", "unit/check_ops_values",
               "a scan is one chain instead of segments of 64")
MLSI_FAULT_ROW(OPS_MAX_DROPS_NAN, "src/ir/ops/reference.h", "unit/check_ops_values",
               "max is compare-and-select and loses a NaN (BO-03)")
MLSI_FAULT_ROW(OPS_MOD_SIGN, "src/ir/ops/elementwise_binary.c", "unit/check_ops_values",
               "float mod has the sign of the dividend")
MLSI_FAULT_ROW(OPS_EMPTY_MAX, "src/ir/ops/reduce.c", "errors/check_op_errors",
               "a maximum over an empty axis is accepted (BO-02)")
MLSI_FAULT_ROW(OPS_BROADCAST_TYPE, "src/ir/ops/infer_rules.c", "errors/check_op_errors",
               "unequal extents broadcast")
MLSI_FAULT_ROW(OPS_ATTR_EQUAL, "src/ir/ops/attrs.c", "unit/check_ops",
               "attributes that differ in a number compare equal")
MLSI_FAULT_ROW(OPS_MASKED_ROW_NAN, "src/ir/ops/attention.c", "unit/check_ops_attention",
               "a query without visible key gives NaN (BO-01)")
MLSI_FAULT_ROW(OPS_ALIGNMENT, "src/ir/ops/attention.c", "unit/check_ops_attention",
               "bottom_right is aligned like top_left (BO-13)")
MLSI_FAULT_ROW(OPS_MASKED_ZERO, "src/ir/ops/norm.c", "unit/check_ops_values",
               "softmax ignores masked_zero")
MLSI_FAULT_ROW(OPS_GELU_ROUNDING, "src/ir/ops/activation.c", "conformance/check_conformance",
               "gelu's factor is 1.5 x")
MLSI_FAULT_ROW(OPS_TRANSPOSE_ELEMENT, "src/ir/ops/movement.c", "conformance/check_conformance",
               "one element of a transpose comes from the wrong place")
MLSI_FAULT_ROW(OPS_INDEX_NEGATIVE, "src/ir/ops/scalar.c", "conformance/check_conformance",
               "negative indices read element 0")
MLSI_FAULT_ROW(OPS_SCATTER_ORDER, "src/ir/ops/index.c", "unit/check_ops_values",
               "scatter applies its updates from the last to the first")
MLSI_FAULT_ROW(OPS_SORT_UNSTABLE, "src/ir/ops/order.c", "unit/check_ops_values",
               "equal elements change places in sort and topk")
MLSI_FAULT_ROW(OPS_CONV_GROUPS, "src/ir/ops/conv.c", "unit/check_ops_models",
               "every group of a convolution reads the first group's channels")
MLSI_FAULT_ROW(OPS_POOL_DIVISOR, "src/ir/ops/window.c", "unit/check_ops_values",
               "padding counts in an average that excludes it (BO-08)")
MLSI_FAULT_ROW(OPS_INT8_MINIMUM, "src/ir/ops/quant.c", "unit/check_ops_models",
               "quant_matmul with int8 activations drops the minima of the weights")
MLSI_FAULT_ROW(OPS_IOTA_AXIS, "src/ir/ops/creation.c", "unit/check_ops_models",
               "iota counts along axis 0")
MLSI_FAULT_ROW(OPS_IF_TYPES, "src/ir/ops/control.c", "unit/check_ops_control",
               "the branches of an if may give different types")
MLSI_FAULT_ROW(OPS_WARMUP, "src/ir/ops/schedule.c", "unit/check_train_ops",
               "the warm-up begins where it should end")
MLSI_FAULT_ROW(OPS_CLIP_NONFINITE, "src/ir/ops/clip.c", "unit/check_train_ops",
               "an infinite norm makes all gradients zero")
MLSI_FAULT_ROW(NONFINITE_NAN_ONLY, "src/run/nonfinite.c", "unit/check_nonfinite",
               "infinities are passed over when the first op that is not finite is looked for")
MLSI_FAULT_ROW(OPS_ADAFACTOR_CLIP, "src/ir/ops/optimizer_matrix.c", "unit/check_optimizer_matrix",
               "adafactor's update is not clipped")
MLSI_FAULT_ROW(OPS_MUON_TALL, "src/ir/ops/optimizer_matrix.c", "unit/check_optimizer_matrix",
               "muon's update of a tall matrix is not scaled")
MLSI_FAULT_ROW(NARROW_LOSS, "src/ir/passes/narrow.c", "unit/check_narrow",
               "ops that stay wide are made narrow: the loss and the norms")
MLSI_FAULT_ROW(NARROW_TWICE, "src/ir/passes/narrow.c", "unit/check_narrow",
               "a value that two ops read narrow is cast twice")
MLSI_FAULT_ROW(API_FP_STATE, "src/api/api.h", "e2e/check_fp_state",
               "calls compute in the caller's floating-point state (BO-06)")
MLSI_FAULT_ROW(CPU_STAGE_ONCE, "src/cpu/kernels/elementwise.h", "unit/check_kernel_elementwise",
               "blocks after the first of a staged operand are not loaded")
MLSI_FAULT_ROW(CPU_CAST_TWICE, "src/cpu/kernels/cast.c", "unit/check_kernel_elementwise",
               "an i64 is rounded to f64 before it is rounded to bf16")
MLSI_FAULT_ROW(CPU_SUM_CARRY, "src/cpu/sum_tree.c", "unit/check_sum_tree",
               "a full chunk of chunk sums is dropped instead of moved up")
MLSI_FAULT_ROW(CPU_REDUCE_TAIL, "src/cpu/kernels/reduce_columns.c", "unit/check_kernel_reduce",
               "lanes above the last full half are left out of the fold of columns")
MLSI_FAULT_ROW(CPU_SOFTMAX_NAN, "src/cpu/kernels/rows_softmax.c", "unit/check_kernel_rows",
               "masked_zero hides a NaN in a row of -inf")
MLSI_FAULT_ROW(CPU_LOGSUMEXP_INF, "src/cpu/kernels/exp_rows.h", "unit/check_kernel_rows",
               "an infinite maximum is subtracted")
MLSI_FAULT_ROW(CPU_ROPE_BATCH, "src/cpu/kernels/rope.c", "unit/check_kernel_rows",
               "every batch entry takes the positions of the first")
MLSI_FAULT_ROW(CPU_INDEX_END, "src/cpu/kernels/index_operand.h", "unit/check_kernel_index",
               "the index n is accepted for an axis of extent n")
MLSI_FAULT_ROW(CPU_SCATTER_ORDER, "src/cpu/kernels/scatter.c", "unit/check_kernel_index",
               "updates of one element meet it in descending order")
MLSI_FAULT_ROW(CPU_SORT_ZERO, "src/cpu/kernels/sort.c", "unit/check_kernel_index",
               "-0 sorts before +0 in f64")
MLSI_FAULT_ROW(CPU_WINDOW_END, "src/cpu/kernels/movement.c", "unit/check_kernel_movement",
               "a window may begin one element too late")
MLSI_FAULT_ROW(CPU_TRANSPOSE_BAND, "src/cpu/kernels/copy_view.h", "unit/check_kernel_movement",
               "the last column of a band of a transposing copy is not written")
MLSI_FAULT_ROW(CPU_CONV_FILTER_SEGMENT, "src/cpu/kernels/conv_filter.c",
               "conformance/check_conformance",
               "of a filter's gradient half of the lanes keep their last segment only")
MLSI_FAULT_ROW(CPU_POOL_GRAD_FIRST, "src/cpu/kernels/pool_grad.c", "conformance/check_conformance",
               "the adjoint of a window's maximum goes to its second cell too when both hold it")
MLSI_FAULT_ROW(CPU_CONV_SEGMENT, "src/cpu/kernels/conv.c", "unit/check_kernel_conv",
               "a later segment of K replaces the sum of the earlier ones")
MLSI_FAULT_ROW(CPU_POOL_CEIL, "src/cpu/kernels/pool.c", "unit/check_kernel_conv",
               "cells behind the padding count in an average that counts padding")
MLSI_FAULT_ROW(DIM_FLOOR_DOMAIN, "src/ir/graph/dims.c", "unit/check_dims",
               "floor(r / b) is taken for 0 when r < b, whether or not r >= 0 (BO-09)")
MLSI_FAULT_ROW(DIM_TRUNCATES, "src/ir/graph/dims.c", "unit/check_dims",
               "a negative constant in a division is rounded toward zero")
MLSI_FAULT_ROW(DIM_DIVIDES, "src/ir/graph/dims.c", "unit/check_dims",
               "a term leaves a division although the divisor does not divide its coefficient")
MLSI_FAULT_ROW(BPE_BAD_BYTES, "src/model/tokenizer_bpe.c", "fuzz/replay_tokenizer",
               "bytes that are not UTF-8 vanish from byte-level BPE")
MLSI_FAULT_ROW(JINJA_DEPTH, "src/model/jinja_expr.c", "unit/check_chat_template",
               "expressions of a template may nest without limit")
MLSI_FAULT_ROW(JINJA_PARTIAL, "src/model/jinja.c", "fuzz/replay_chat_template",
               "a template that fails leaves the text it had written")
MLSI_FAULT_ROW(SAMPLER_TAIL, "src/engine/sampler.c", "unit/check_sampler",
               "the end of a nucleus is found by a sum in any order")
MLSI_FAULT_ROW(KERNEL_ATTENTION_LIMIT, "src/cpu/kernels/attention.c", "unit/check_kernel_attention",
               "a causal query sees one key more than it may")
MLSI_FAULT_ROW(KERNEL_ATTENTION_GRAD_LIMIT, "src/cpu/kernels/attention_grad.c",
               "unit/check_kernel_attention_grad",
               "attention backwards: a query sees one key too many")
MLSI_FAULT_ROW(KERNEL_ATTENTION_GRAD_SLOT, "src/cpu/kernels/attention_grad.c",
               "unit/check_kernel_attention_grad",
               "attention backwards: dv lacks all segments of rows but the first")
MLSI_FAULT_ROW(CSE_TWIN, "src/ir/passes/cse.c", "unit/check_gradient",
               "attention and its twin with a log-sum-exp are computed twice")
MLSI_FAULT_ROW(KERNEL_ATTENTION_MERGE, "src/cpu/kernels/attention.c", "unit/check_kernel_attention",
               "segments merge by a product and a sum instead of a fused one")
MLSI_FAULT_ROW(PLAN_OVERLAP, "src/run/plan.c", "unit/check_plan",
               "one of the intervals that are alive at the same time is overlooked")
MLSI_FAULT_ROW(IN_PLACE_LIVE, "src/run/lower.c", "unit/check_program_memory",
               "a result is written over an operand that is read again (BO-05)")
MLSI_FAULT_ROW(PACK_SHARED, "src/run/lower.c", "unit/check_program_outputs",
               "a packed constant serves an op with other attributes")
MLSI_FAULT_ROW(RUN_OVERLAP, "src/run/exec.c", "unit/check_program_outputs",
               "an output may share memory with an input (BO-05)")
MLSI_FAULT_ROW(GEMM_SEGMENT, "src/cpu/kernels/gemm.c", "unit/check_kernel_matmul",
               "the second segment along K overwrites the first")
MLSI_FAULT_ROW(GEMM_EDGE, "src/cpu/kernels/gemm.c", "unit/check_kernel_matmul",
               "the last columns of C are written as a whole tile")
MLSI_FAULT_ROW(GEMM_MERGE, "src/core/product.c", "unit/check_kernel_matmul",
               "dims are merged though the output walks them apart")
MLSI_FAULT_ROW(QUANT_SPLIT, "src/cpu/kernels/quant_decode.h", "unit/check_kernel_quant_matmul",
               "the last code of 5- and 6-bit runs is taken from the one before")
MLSI_FAULT_ROW(QUANT_MIN, "src/cpu/kernels/quant_decode.h", "unit/check_kernel_quant_matmul",
               "the minimum of q4_k and q5_k is not scaled")
MLSI_FAULT_ROW(INT8_SATURATE, "src/cpu/kernels/quant_int8_panel.c",
               "unit/check_kernel_quant_matmul",
               "codes of x under a subnormal scale wrap instead of saturating")
MLSI_FAULT_ROW(INT8_ZERO, "src/cpu/kernels/quant_int8_panel.c", "unit/check_kernel_quant_matmul",
               "the zero point of q6_k's second half is taken off by the sum of the first")
MLSI_FAULT_ROW(EXP_PRODUCT, "src/ir/passes/simplify.c", "unit/check_passes",
               "exp(a) * exp(b) is rewritten to exp(a + b) (BO-07)")
MLSI_FAULT_ROW(ADD_POSITIVE_ZERO, "src/ir/passes/simplify.c", "unit/check_passes",
               "x + 0 is taken for x, although -0 + 0 is +0")
MLSI_FAULT_ROW(SLICE_STEP, "src/ir/passes/simplify.c", "unit/check_passes",
               "a slice that keeps the extents is taken for x, whatever its step")
MLSI_FAULT_ROW(CSE_ATTRS, "src/ir/passes/cse.c", "unit/check_passes",
               "nodes that differ in attributes become one")
MLSI_FAULT_ROW(FOLD_FAILS, "src/ir/passes/fold.c", "unit/check_passes",
               "an op over constants that fails at run time fails to compile")
MLSI_FAULT_ROW(INLINE_ARGS, "src/ir/passes/inline.c", "unit/check_passes",
               "a callee gets its first argument for all of them")
MLSI_FAULT_ROW(SIMPLIFY_OPERAND, "src/ir/passes/simplify.c", "unit/check_proof",
               "x / 1 is taken for 1")
MLSI_FAULT_ROW(INVOLUTION_OP, "src/ir/passes/simplify.c", "unit/check_proof",
               "neg and not undo any op")
MLSI_FAULT_ROW(TRANSPOSE_ORDER, "src/ir/passes/simplify.c", "unit/check_proof",
               "two transposes become one in the wrong order")
MLSI_FAULT_ROW(FOLD_BITS, "src/ir/passes/fold.c", "unit/check_proof",
               "a bit of a folded constant is wrong")
MLSI_FAULT_ROW(CSE_OPERAND, "src/ir/passes/cse.c", "unit/check_proof",
               "nodes that differ in the last operand become one")
MLSI_FAULT_ROW(DECOMPOSE_OPERAND, "src/ir/passes/decompose.c", "unit/check_proof",
               "a decomposition gets the second operand for the first")
MLSI_FAULT_ROW(REWRITE_OUTPUT, "src/ir/passes/rewrite.c", "unit/check_proof",
               "every output is the first one")
MLSI_FAULT_ROW(REWRITE_DONATED, "src/ir/passes/rewrite.c", "unit/check_proof",
               "a rewrite donates inputs that the caller keeps")
MLSI_FAULT_ROW(LAYOUT_OUTPUT, "src/ir/passes/layout.c", "unit/check_proof",
               "outputs that need memory of their own get a copy of the first one")
MLSI_FAULT_ROW(BOUND_LEAK, "src/run/bound.c", "oom/check_oom",
               "a binding that runs out of memory leaks what it had")
MLSI_FAULT_ROW(API_LOCALE, "src/api/api.h", "unit/check_locale",
               "text is written and read with the host's decimal comma")
MLSI_FAULT_ROW(IR_ESCAPE, "src/ir/graph/print.c", "fuzz/replay_ir",
               "quotes in names are printed as they are")
MLSI_FAULT_ROW(IR_TYPES, "src/ir/graph/parse.c", "unit/check_graph_text",
               "the types written in IR text are not compared with the op's")
MLSI_FAULT_ROW(ADJOINT_FILTER_SHIFT, "src/ir/ops/gradient_window.c", "unit/check_symbolic_windows",
               "a filter's adjoint over a symbolic extent reads x one cell off")
MLSI_FAULT_ROW(ADJOINT_OVERWRITE, "src/autodiff/reverse.c", "conformance/check_gradients",
               "the adjoint of a value with several uses is the last one, not the sum")
MLSI_FAULT_ROW(ADJOINT_ORDER, "src/autodiff/reverse.c", "conformance/check_gradients",
               "nodes are walked from the first to the last")
MLSI_FAULT_ROW(ADJOINT_ZERO, "src/autodiff/reverse.c", "unit/check_custom_gradient",
               "a custom op without a rule passes zero back, silently")
MLSI_FAULT_ROW(ADJOINT_ALIVE, "src/ir/ops/gradient.c", "unit/check_gradient",
               "what select did not choose is multiplied by an infinite slope (BO-10)")
MLSI_FAULT_ROW(ADJOINT_BROADCAST, "src/ir/ops/gradient.c", "conformance/check_gradients",
               "of a broadcast operand's adjoint only the mean over the repeated axis is kept")
MLSI_FAULT_ROW(ADJOINT_SCALE, "src/ir/ops/gradient_unary.c", "conformance/check_gradients",
               "exp's slope is one part in ten thousand too large")
MLSI_FAULT_ROW(ADJOINT_TERM, "src/ir/ops/gradient_rows.c", "conformance/check_gradients",
               "the mean's own share is missing in layer_norm's gradient")
MLSI_FAULT_ROW(ADJOINT_TRANSPOSE, "src/ir/ops/gradient_contract.c", "conformance/check_gradients",
               "a product's adjoint keeps the order of the other operand's axes")
MLSI_FAULT_ROW(ADJOINT_TURNS, "src/autodiff/control.c", "conformance/check_gradients",
               "a loop's state is replayed one turn too far")
MLSI_FAULT_ROW(LORA_SCALE, "src/model/decoder.c", "e2e/check_lora",
               "inference leaves out the scale of a model's adapters")
MLSI_FAULT_ROW(TRAIN_POSITION, "src/model/decoder.c", "e2e/check_lora",
               "positions of a training graph start at 1")
MLSI_FAULT_ROW(SAVE_MERGE, "src/model/save.c", "e2e/check_lora",
               "a saved matrix is written without its adapter")
MLSI_FAULT_ROW(SAVE_IN_PLACE, "src/core/file_write.c", "unit/check_model_save",
               "what was written before a failure is left beside the old file")
MLSI_FAULT_ROW(TRAIN_DECAY_ALL, "src/train/step_graph.c", "unit/check_trainer_bits",
               "parameters that should not decay do")
MLSI_FAULT_ROW(TRAIN_SUM_APART, "src/train/sums.c", "unit/check_accumulation",
               "each call's gradients are made apart and then added")
MLSI_FAULT_ROW(TRAIN_SUM_STALE, "src/train/step_graph.c", "unit/check_trainer_bits",
               "sums of gradients are not begun anew after an update")
MLSI_FAULT_ROW(TRAIN_NO_MEAN, "src/train/update.c", "unit/check_trainer_bits",
               "an update is made by the sum of gradients, not by their mean")
MLSI_FAULT_ROW(TRAIN_EMA_BEFORE, "src/train/update.c", "unit/check_trainer_bits",
               "the moving average takes the parameter of before the update")
MLSI_FAULT_ROW(TRAIN_UNSCALED, "src/train/update.c", "unit/check_trainer",
               "the loss scale stays in the gradients")
MLSI_FAULT_ROW(TRAIN_NO_SKIP, "src/train/update.c", "unit/check_trainer",
               "an update by gradients that are not finite is made")
MLSI_FAULT_ROW(ST_DATA_BOUND, "src/model/safetensors.c", "unit/check_safetensors",
               "a tensor's bytes may reach past the end of a safetensors file")
MLSI_FAULT_ROW(ST_SHAPE_BYTES, "src/model/safetensors.c", "unit/check_safetensors",
               "offsets need not fit dtype and shape")
MLSI_FAULT_ROW(ST_OVERLAP, "src/model/safetensors.c", "unit/check_safetensors",
               "tensors may overlap and leave gaps")
MLSI_FAULT_ROW(ST_DUPLICATE, "src/model/safetensors.c", "unit/check_safetensors",
               "a tensor may be given twice")
MLSI_FAULT_ROW(TRAIN_FILE_SUM, "src/train/state_file.c", "e2e/check_resume",
               "a checkpoint's SHA-256 is not compared")
MLSI_FAULT_ROW(TRAIN_FILE_MOMENTS, "src/train/state_file.c", "e2e/check_resume",
               "what the optimiser keeps is not restored from a checkpoint")
MLSI_FAULT_ROW(OUTPUT_COPY_LATE, "src/ir/passes/layout.c", "unit/check_program_outputs",
               "what an output views stays till the end of the run, and its copy beside it")
MLSI_FAULT_ROW(TANGENT_SEED, "src/autodiff/forward.c", "conformance/check_tangents",
               "a tangent is along ones, whatever the direction")
MLSI_FAULT_ROW(CHECKPOINT_REDRAW, "src/autodiff/checkpoint.c", "e2e/check_checkpoint",
               "random numbers that are computed again are others: redrawn dropout")
MLSI_FAULT_ROW(CHECKPOINT_MERGED, "src/autodiff/checkpoint.c", "e2e/check_checkpoint",
               "copies read without a barrier and are merged with their originals")
MLSI_FAULT_ROW(CHECKPOINT_WRONG, "src/autodiff/checkpoint.c", "e2e/check_checkpoint",
               "a segment is computed again from another kept value of the same type")
MLSI_FAULT_ROW(SHUFFLE_BIJECTION, "src/train/shuffle.c", "unit/check_dataset",
               "some examples come twice in an epoch, and others not at all")
MLSI_FAULT_ROW(SHUFFLE_EPOCH, "src/train/shuffle.c", "unit/check_dataset",
               "every epoch has the order of the first")
MLSI_FAULT_ROW(IDX_SIZE, "src/train/dataset_idx.c", "fuzz/replay_dataset",
               "an IDX file's extents are not compared with its size")
MLSI_FAULT_ROW(GZIP_BOMB, "src/train/dataset_file.c", "unit/check_dataset_files",
               "memory is taken for whatever a gzip trailer says")
MLSI_FAULT_ROW(CSV_ROUNDING, "src/train/dataset_csv.c", "unit/check_dataset_files",
               "numbers are rounded to f64 on their way to f32")
MLSI_FAULT_ROW(TOKENS_TARGET, "src/train/dataset_tokens.c", "unit/check_dataset_files",
               "the target of a token is the token itself")
MLSI_FAULT_ROW(CUSTOM_GRADIENT_TYPE, "src/api/api_gradient_rule.c", "unit/check_custom_gradient",
               "the types of what a user's gradient rule gives are not checked there")
MLSI_FAULT_ROW(TAPE_STALE, "src/run/tape_gradient.c", "unit/check_tape",
               "a saved tensor is used though it was written over since")
MLSI_FAULT_ROW(TAPE_VIEW, "src/run/tape.c", "unit/check_tape_views",
               "a view of recorded memory counts as an unrelated constant")
MLSI_FAULT_ROW(TAPE_WRITTEN, "src/run/exec.c", "unit/check_tape",
               "a program's writes to given outputs and donated inputs leave no trace")
MLSI_FAULT_ROW(SCHEDULE_GUARD, "src/ir/loop/schedule_loops.c", "unit/check_schedule",
               "a split whose factor does not divide the extent has no guard")
MLSI_FAULT_ROW(SCHEDULE_LAST_TILE, "src/ir/loop/schedule_loops.c", "unit/check_schedule",
               "a ragged last tile is left out")
MLSI_FAULT_ROW(SCHEDULE_SPLIT_STRIDE, "src/ir/loop/schedule_loops.c", "unit/check_schedule",
               "tiles of a split overlap by one")
MLSI_FAULT_ROW(CUDA_FENCE, "src/cuda/memory.c", "unit/check_cuda_memory",
               "released memory is handed out before the work that uses it is done")
MLSI_FAULT_ROW(CUDA_ISSUED, "src/cuda/queue.c", "unit/check_cuda_memory",
               "a queue does not know that it has work")
MLSI_FAULT_ROW(CUDA_LIMIT, "src/cuda/memory.c", "unit/check_cuda_memory",
               "a device's memory grows past its limit")
MLSI_FAULT_ROW(CUDA_JOIN, "src/cuda/blocks.c", "unit/check_cuda_memory",
               "a block that comes back does not join its left neighbour")
MLSI_FAULT_ROW(CUDA_BEST_FIT, "src/cuda/blocks.c", "unit/check_cuda_memory",
               "the largest block is cut instead of the best one")
MLSI_FAULT_ROW(CUDA_STAGE, "src/cuda/transfer.c", "unit/check_cuda_queue",
               "pinned memory is written while the device still reads it")
MLSI_FAULT_ROW(CUDA_CONTEXT, "src/cuda/device.c", "unit/check_cuda_queue",
               "the host's current context is another one after a call")
MLSI_FAULT_ROW(CUDA_FORK, "src/cuda/device.c", "unit/check_cuda_queue",
               "a forked child uses its parent's device")
MLSI_FAULT_ROW(CUDA_RECORD, "src/cuda/record.c", "unit/check_cuda_queue",
               "a recording in which a call failed can be replayed")
MLSI_FAULT_ROW(CUDA_STICKY, "src/cuda/device.c", "unit/check_cuda_faults",
               "after an illegal access a device goes on")
MLSI_FAULT_ROW(CUDA_LEAK, "src/cuda/queue.c", "unit/check_cuda_faults",
               "a queue's pinned memory stays")
MLSI_FAULT_ROW(CUDA_CACHE_KEY, "src/cuda/jit.c", "unit/check_cuda_jit",
               "another kernel's machine code is found in the cache")
MLSI_FAULT_ROW(CUDA_PART, "src/cuda/jit.c", "unit/check_cuda_jit",
               "a part has a kernel less, so that the last ones are in none")
MLSI_FAULT_ROW(REPLAY_PLACES, "src/run/replay.c", "unit/check_cuda_rows",
               "a recorded run does not notice that its arguments are elsewhere")
MLSI_FAULT_ROW(ACCEL_ERRORS, "src/run/accelerate.c", "unit/check_cuda_rows",
               "the error of a run on a device stays for the next one")
MLSI_FAULT_ROW(CUDA_ROW_ADDEND, "src/cuda/rows/product.c", "unit/check_cuda_rows",
               "a product forgets its addend")
MLSI_FAULT_ROW(CUDA_ROW_STARTS, "src/cuda/rows/window.c", "unit/check_cuda_rows",
               "a window begins at its first start in each axis")
MLSI_FAULT_ROW(SEALED_FILE, "src/core/sealed_file.c", "unit/check_cuda_jit",
               "a file whose hash is wrong is read")

#include "core/fault_list_compiler.h"
