/* Planted faults of fusion, lowering, the C writer, nests and their text; the second part of fault_list.h. */
MLSI_FAULT_ROW(FUSE_SILENT, "src/ir/passes/fuse_group.c", "unit/check_fuse_report",
               "of a producer that may not join nothing is told")
MLSI_FAULT_ROW(FUSE_SIDE, "src/ir/passes/fuse_group.c", "unit/check_fuse_report",
               "what is wrong with the reader is told of the producer")
MLSI_FAULT_ROW(FUSE_REPORT_BYTES, "src/ir/passes/fuse_report.c", "unit/check_fuse_report",
               "bytes before a fusion leave out what nodes write")
MLSI_FAULT_ROW(SCHEDULE_FUSE_SWAPPED, "src/ir/loop/schedule_loops.c", "unit/check_schedule",
               "quotient and remainder of a fused loop change places")
MLSI_FAULT_ROW(SCHEDULE_DEPENDENCE, "src/ir/loop/schedule_loops.c", "unit/check_schedule",
               "loops change places across a dependence")
MLSI_FAULT_ROW(SCHEDULE_CACHE_CLIP, "src/ir/loop/schedule_cache.c", "unit/check_schedule",
               "a copy of what a tile reads goes beyond the buffer")
MLSI_FAULT_ROW(SCHEDULE_CACHE_FLUSH, "src/ir/loop/schedule_cache.c", "unit/check_schedule",
               "what a tile wrote is not copied out")
MLSI_FAULT_ROW(SCHEDULE_AT_CLIP, "src/ir/loop/schedule_at.c", "unit/check_schedule",
               "a producer that moved computes beyond its buffer")
MLSI_FAULT_ROW(SCHEDULE_LAST_RUN, "src/ir/loop/schedule_reduce.c", "unit/check_schedule",
               "the last run of a factored reduction is taken to be full")
MLSI_FAULT_ROW(TUNE_COMPARE, "src/run/tune_trial.c", "unit/check_tune",
               "candidates are not compared with the default's output")
MLSI_FAULT_ROW(TUNE_PROOF, "src/run/tune_proof.c", "unit/check_tune",
               "candidates are run without a proof")
MLSI_FAULT_ROW(TUNE_LINE, "src/run/tune_record.c", "unit/check_tune",
               "torn lines and lines of other keys are believed")
MLSI_FAULT_ROW(TUNE_TORN, "src/run/tune_file.c", "unit/check_tune",
               "a record is appended to what a killed writer left of a line")
MLSI_FAULT_ROW(TUNE_DEVICE, "src/run/tune_file.c", "unit/check_tune",
               "records of other numbers of threads are taken")
MLSI_FAULT_ROW(TUNE_BUDGET, "src/run/tune.c", "unit/check_tune", "the budget is not looked at")
MLSI_FAULT_ROW(TUNE_RESUME, "src/run/tune.c", "unit/check_tune",
               "what records know is measured again")
MLSI_FAULT_ROW(DIM_WINDOW_LOW, "src/ir/graph/dims_floor.c", "unit/check_prove",
               "a remainder over a variable counts as less than the divisor without being >= 0")
MLSI_FAULT_ROW(DIM_WINDOW_HIGH, "src/ir/graph/dims_floor.c", "unit/check_prove",
               "a remainder over a variable counts as below the divisor unproved")
MLSI_FAULT_ROW(DIM_FACTOR_REST, "src/ir/graph/dims_floor.c", "unit/check_prove",
               "a common factor is cut out of a division though what is left may carry (BO-09)")
MLSI_FAULT_ROW(PROVE_EXTENT_END, "src/ir/graph/dims_prove.c", "unit/check_prove",
               "a variable reaches its extent")
MLSI_FAULT_ROW(PROVE_SIGN, "src/ir/graph/dims_prove.c", "unit/check_prove",
               "a coefficient of unknown sign is taken for not negative")
MLSI_FAULT_ROW(PROVE_FLOOR_LOW, "src/ir/graph/dims_prove.c", "unit/check_prove",
               "a quotient is taken for exact")
MLSI_FAULT_ROW(PROVE_FACT_SIGN, "src/ir/graph/dims_prove.c", "unit/check_prove",
               "a fact is multiplied by what may be negative")
MLSI_FAULT_ROW(PROVE_LOWER_END, "src/ir/loop/prove.c", "unit/check_nest",
               "only the upper end of a subscript is proved")
MLSI_FAULT_ROW(MAP_OVERLAP, "src/ir/loop/prove_map.c", "unit/check_nest_maps",
               "digits of an index map may overlap")
MLSI_FAULT_ROW(MAP_SHORT, "src/ir/loop/prove_map.c", "unit/check_nest_maps",
               "a guarded map counts as onto though its loops end before the bound")
MLSI_FAULT_ROW(MAP_GAP, "src/ir/loop/prove_map.c", "unit/check_nest_maps",
               "a guarded map counts as onto though there are gaps between its digits")
MLSI_FAULT_ROW(MAP_RANGE, "src/ir/loop/prove_map.c", "unit/check_nest_maps",
               "a row-major number counts as an element's though a subscript is out of its range")
MLSI_FAULT_ROW(MAP_CONDITION, "src/ir/loop/prove_map.c", "unit/check_nest_maps",
               "a condition that cuts iterations away is overlooked")
MLSI_FAULT_ROW(NEST_SCOPE, "src/ir/loop/verify_value.c", "unit/check_nest",
               "a let or an accumulator is read outside the body that defines it")
MLSI_FAULT_ROW(NEST_DTYPE, "src/ir/loop/verify_value.c", "unit/check_nest",
               "dtypes of a nest's values need not fit")
MLSI_FAULT_ROW(NEST_LOOP_KIND, "src/ir/loop/verify.c", "unit/check_nest",
               "loops of tasks may be inside of others")
MLSI_FAULT_ROW(NEST_TWICE, "src/ir/loop/verify_define.c", "unit/check_nest",
               "a name of a nest is defined twice")
MLSI_FAULT_ROW(NEST_INPUT, "src/ir/loop/verify.c", "unit/check_nest", "a nest writes an input")
MLSI_FAULT_ROW(NEST_LOCAL, "src/ir/loop/verify_value.c", "unit/check_nest",
               "threads share LOCAL memory")
MLSI_FAULT_ROW(COVER_DATA, "src/ir/loop/prove_cover.c", "unit/check_nest",
               "a store under a condition on data counts as writing each element")
MLSI_FAULT_ROW(COVER_READ, "src/ir/loop/prove_cover.c", "unit/check_nest",
               "a reduction may be read among its terms")
MLSI_FAULT_ROW(HAZARD_BASE, "src/ir/loop/prove_hazard.c", "unit/check_nest_maps",
               "accesses shifted against each other count as the same element's")
MLSI_FAULT_ROW(SCHEDULE_MEETING, "src/ir/loop/schedule_access.c", "unit/check_schedule_random",
               "what lies one element further than a loop's stride is taken to be apart")
MLSI_FAULT_ROW(SCHEDULE_ONE_SIDE, "src/ir/loop/schedule_access.c", "unit/check_schedule_random",
               "inner loops are taken to be at the same place in two iterations of the outer one")
MLSI_FAULT_ROW(SCHEDULE_READS, "src/ir/loop/schedule_access.c", "unit/check_schedule_random",
               "only writes count as dependences")
MLSI_FAULT_ROW(SCHEDULE_RUN_LENGTH, "src/ir/loop/schedule_reduce.c", "unit/check_schedule",
               "sums of floats are factored into runs of any length")
MLSI_FAULT_ROW(SCHEDULE_PLUS_ZERO, "src/ir/loop/schedule_mma.c", "unit/check_schedule",
               "the tile of a matrix product begins at +0, and a sum that is -0 is lost")
MLSI_FAULT_ROW(SCHEDULE_BOX, "src/ir/loop/schedule_box.c", "unit/check_schedule",
               "the box of what an iteration reads is one short")
MLSI_FAULT_ROW(LOOPS_SORT_TIES, "src/ir/ops/loops_order.c", "conformance/check_loops",
               "of equal elements the later one comes first")
MLSI_FAULT_ROW(LOOPS_SCATTER_FORGETS, "src/ir/ops/loops_scatter.c", "conformance/check_loops",
               "an update meets x, not what earlier updates made of it")
MLSI_FAULT_ROW(LOOPS_WINDOW, "src/ir/ops/loops_attention.c", "conformance/check_loops",
               "a window of keys is one key wider")
MLSI_FAULT_ROW(LOOPS_RESCALE, "src/ir/ops/loops_attention.c", "conformance/check_loops",
               "a greater maximum does not scale what was summed before")
MLSI_FAULT_ROW(LOOPS_HIDDEN_KEY, "src/ir/ops/loops_attention.c", "conformance/check_loop_values",
               "an invisible key turns a sum of -0 into +0")
MLSI_FAULT_ROW(LOOPS_BEHIND_KV_LEN, "src/ir/ops/loops_attention_grad.c",
               "conformance/check_loop_values", "keys behind kv_len reach dq")
MLSI_FAULT_ROW(LOOPS_GROUP_BITS, "src/ir/ops/loops_quant.c", "conformance/check_loops",
               "the top bits of the minimum in q4_k and q5_k are those of the scale")
MLSI_FAULT_ROW(LOOPS_INT8_MINIMUM, "src/ir/ops/loops_quant_int8.c", "conformance/check_loops",
               "the integer factor of the minimum is left out")
MLSI_FAULT_ROW(LOOPS_POOL_FIRST, "src/ir/ops/loops_pool_grad.c", "conformance/check_loops",
               "every cell that equals the maximum gets the adjoint")
MLSI_FAULT_ROW(LOOPS_POOL_ZERO, "src/ir/ops/loops_pool_grad.c", "conformance/check_loop_values",
               "a sum of shares of -0 begins at +0")
MLSI_FAULT_ROW(LOOPS_ROW_AXES, "src/ir/loop/lower_rows.c", "conformance/check_loops",
               "an axis that a reduction took away counts as one of its rows")
MLSI_FAULT_ROW(LOOPS_SCAN_CHAIN, "src/ir/ops/loops_scan.c", "conformance/check_loops",
               "a running chain goes on over the ends of its segments")
MLSI_FAULT_ROW(LOOPS_PAD_HIGH, "src/ir/ops/loops_movement.c", "conformance/check_loops",
               "cells behind an axis that has none before it are read from x")
MLSI_FAULT_ROW(LOOPS_CONCAT_END, "src/ir/ops/loops_movement.c", "conformance/check_loops",
               "the first operand of a concat also takes what the second has")
MLSI_FAULT_ROW(LOOPS_CONV_PHASE, "src/ir/ops/loops_window.c", "conformance/check_loops",
               "a transposed convolution meets x also between its strides")
MLSI_FAULT_ROW(LOOPS_POOL_COUNT, "src/ir/ops/loops_window.c", "conformance/check_loops",
               "cells of the padding behind x count in the divisor of an average")
MLSI_FAULT_ROW(LOOPS_ARGMIN, "src/ir/ops/loops_reduce.c", "conformance/check_loops",
               "argmin finds the greatest")
MLSI_FAULT_ROW(LOOPS_BIND_WRAP, "src/ir/loop/interp.c", "conformance/check_loops",
               "a negative index counts as the first row instead of from the end")
MLSI_FAULT_ROW(LOOPS_POSITION, "src/ir/loop/lower_rows.c", "conformance/check_loops",
               "terms of two reduced axes are numbered with the first one innermost")
MLSI_FAULT_ROW(LOOPS_COUNT, "src/ir/loop/lower_func.c", "conformance/check_loops",
               "a symbolic count is one too many")
MLSI_FAULT_ROW(FUSE_ARGUMENT, "src/ir/passes/fuse.c", "unit/check_proof",
               "a fused function gets its first argument for all of them")
MLSI_FAULT_ROW(FUSE_RESULT, "src/ir/passes/fuse.c", "unit/check_proof",
               "every result of a fused function is its first one")
MLSI_FAULT_ROW(LOWER_GUARD, "src/ir/loop/lower_rows.c", "unit/check_proof_nests",
               "a tiled row begins at its second element")
MLSI_FAULT_ROW(LOWER_HELD, "src/ir/loop/lower_element.c", "unit/check_proof_nests",
               "an element is taken for another one of its row that is held already")
MLSI_FAULT_ROW(NEST_TEXT_ORDER, "src/ir/loop/print.c", "unit/check_nest_text",
               "variables of another order than the text's are not declared")
MLSI_FAULT_ROW(NEST_TEXT_SHARED, "src/ir/loop/print.c", "unit/check_nest_text",
               "a value that several places share is written out in each")
MLSI_FAULT_ROW(NEST_TEXT_DIGITS, "src/ir/loop/print.c", "unit/check_nest_text",
               "constants are written with six digits")
MLSI_FAULT_ROW(NEST_TEXT_TWICE, "src/ir/loop/parse_value.c", "unit/check_nest_text",
               "a shared value may be named before it is whole")
MLSI_FAULT_ROW(FUSE_ROWS_TURNED, "src/ir/passes/fuse_group.c", "unit/check_fuse",
               "a reduction that is read at other rows joins the group")
MLSI_FAULT_ROW(FUSE_EARLY_READER, "src/ir/passes/fuse_group.c", "unit/check_fuse",
               "a value that is read before the group's call is one of the group's")
MLSI_FAULT_ROW(FUSE_OUTPUT, "src/ir/passes/fuse_group.c", "unit/check_fuse",
               "a member that others read later is no output")
MLSI_FAULT_ROW(FUSE_SAME_OP, "src/ir/passes/fuse.c", "unit/check_fuse",
               "functions that differ in an op become one")
MLSI_FAULT_ROW(FUSE_SAME_OPERANDS, "src/ir/passes/fuse.c", "unit/check_fuse",
               "functions that differ in an operand become one")
MLSI_FAULT_ROW(FUSE_SAME_ATTRIBUTES, "src/ir/passes/fuse.c", "unit/check_fuse",
               "functions that differ in an attribute become one")
MLSI_FAULT_ROW(FUSE_SAME_CONSTANT, "src/ir/passes/fuse.c", "unit/check_fuse",
               "functions that differ in a constant become one")
MLSI_FAULT_ROW(FUSE_OPERANDS, "src/ir/passes/fuse.c", "unit/check_fuse",
               "operands of a difference change places inside a group")
MLSI_FAULT_ROW(FUSE_INPUTS, "src/ir/passes/fuse.c", "unit/check_fuse",
               "a call gives a group its inputs in another order")
MLSI_FAULT_ROW(ROWS_LAST_TILE, "src/ir/loop/lower_rows.c", "unit/check_fuse",
               "a last tile that is not full is left out")
MLSI_FAULT_ROW(ROWS_TILE_END, "src/ir/loop/lower_rows.c", "unit/check_fuse",
               "a last tile goes on to its own end")
MLSI_FAULT_ROW(ROWS_OUTPUT, "src/ir/loop/lower_rows.c", "unit/check_fuse",
               "only the first of the outputs of a shape is stored")
MLSI_FAULT_ROW(ROWS_ROUNDING, "src/ir/loop/lower_rows.c", "unit/check_fuse",
               "a reduction of narrow floats is read before it is rounded")
MLSI_FAULT_ROW(ROWS_SHARED, "src/ir/loop/lower_rows.c", "unit/check_fuse",
               "all outputs have the loops of the first one")
MLSI_FAULT_ROW(ELEMENT_BROADCAST, "src/ir/loop/lower_element.c", "unit/check_fuse",
               "an axis of extent 1 is read at the index of the other operand")
MLSI_FAULT_ROW(ELEMENT_HELD_INDEX, "src/ir/loop/lower_element.c", "unit/check_fuse",
               "an element that is held stands for its neighbours too")
MLSI_FAULT_ROW(ELEMENT_HELD_SCOPE, "src/ir/loop/lower_element.c", "unit/check_proof_nests",
               "an element is held beyond the end of its loop")
MLSI_FAULT_ROW(C_TAIL, "src/ir/codegen/c_stmt.c", "unit/check_fuse",
               "what is left over behind whole registers is not computed")
MLSI_FAULT_ROW(C_TAIL_STORE, "src/ir/codegen/c_stmt.c", "fuzz/check_compiler",
               "the last, partial register is stored whole")
MLSI_FAULT_ROW(C_CUT, "src/ir/codegen/c_stmt.c", "unit/check_fuse",
               "a tile that is not full runs to its end")
MLSI_FAULT_ROW(C_BLOCK, "src/ir/codegen/c_stmt.c", "unit/check_fuse",
               "sums of more than 4096 terms are not cut into chunks")
MLSI_FAULT_ROW(C_BLOCKS, "src/ir/codegen/c_stmt.c", "unit/check_fuse",
               "every second block of 128 terms is left out")
MLSI_FAULT_ROW(C_REDUCTION, "src/ir/codegen/c_stmt.c", "unit/check_fuse", "a maximum is a minimum")
MLSI_FAULT_ROW(C_ROUNDING, "src/ir/codegen/c_expr.c", "unit/check_fuse",
               "steps in narrow floats are not rounded")
MLSI_FAULT_ROW(C_WRAP, "src/ir/codegen/c_expr.c", "unit/check_fuse",
               "integers do not wrap at their width")
MLSI_FAULT_ROW(C_OPERANDS, "src/ir/codegen/c_expr.c", "unit/check_fuse",
               "operands of a difference change places in the text")
MLSI_FAULT_ROW(C_SELECT, "src/ir/codegen/c_expr.c", "unit/check_fuse",
               "a choice takes the other value")
MLSI_FAULT_ROW(C_ZERO, "src/ir/codegen/c_expr.c", "unit/check_fuse",
               "a constant of -0 is written as +0")
MLSI_FAULT_ROW(C_STRIDE, "src/ir/codegen/c_func.c", "unit/check_fuse",
               "an axis has its own extent for a stride")
MLSI_FAULT_ROW(C_TASKS, "src/ir/codegen/c_func.c", "unit/check_fuse",
               "tasks are numbered by the extent of the first loop only")
MLSI_FAULT_ROW(C_LANE_NUMBER, "src/ir/codegen/c_lanes.c", "unit/check_fuse",
               "a position is the one of lane 0 in all lanes")
MLSI_FAULT_ROW(C_LANE_BOUND, "src/ir/codegen/c_lanes.c", "unit/check_fuse",
               "a 64-bit number is cut to 32 bits before it is compared with lanes")
MLSI_FAULT_ROW(C_WORK, "src/ir/codegen/c_func.c", "unit/check_fuse",
               "rows of local memory lie on each other")
MLSI_FAULT_ROW(SOFT_STICKY, "src/cpu/soft_float.h", "unit/check_soft_float",
               "what a shift loses, or what makes a sum odd, does not reach the rounding")
MLSI_FAULT_ROW(SOFT_ROOT, "src/cpu/soft_float.h", "unit/check_soft_float",
               "square roots are cut off")
MLSI_FAULT_ROW(EXPORT_SAME_TEXT, "src/run/export_kernel.c", "e2e/check_export",
               "all steps of an exported program are its first one")
MLSI_FAULT_ROW(EXPORT_LIFETIME, "src/run/export_kernel.c", "e2e/check_export",
               "a step's result in an exported program is given up as soon as it is there")
MLSI_FAULT_ROW(EXPORT_OFFSET, "src/run/export_steps.c", "e2e/check_export",
               "a slice in an exported program begins where its source does")
MLSI_FAULT_ROW(EXPORT_WORK, "src/run/export.c", "e2e/check_export",
               "work memory in an exported program lies over what is in use")
MLSI_FAULT_ROW(EXPORT_CONST, "src/run/export_write.c", "e2e/check_export",
               "a constant that is a view is written as its memory lies")
MLSI_FAULT_ROW(EXPORT_PARTS, "src/run/export_steps.c", "e2e/check_export",
               "all results of a function that is several steps are its first one")
MLSI_FAULT_ROW(BLOCK_ADDRESS, "src/ir/codegen/block_index.c", "conformance/check_blocks",
               "an element is addressed by its last axis alone")
MLSI_FAULT_ROW(BLOCK_FIT, "src/ir/codegen/block_value.c", "conformance/check_blocks",
               "results of narrow floats and integers are not rounded or wrapped")
MLSI_FAULT_ROW(BLOCK_OPERANDS, "src/ir/codegen/block_value.c", "conformance/check_blocks",
               "operands of a difference change places in block code")
MLSI_FAULT_ROW(BLOCK_LIVES, "src/ir/codegen/block_finish.c", "conformance/check_blocks",
               "a tile that an inner loop reads is given away after the first reading")
MLSI_FAULT_ROW(BLOCK_IN_PLACE, "src/ir/codegen/block_finish.c", "conformance/check_blocks",
               "an input is read from memory that an output has taken")
MLSI_FAULT_ROW(BLOCK_WINDOW, "src/cpu/blocks.c", "conformance/check_blocks",
               "a guarded range of lanes is one lane wider")
MLSI_FAULT_ROW(BLOCK_LAST_TILE, "src/cpu/blocks.c", "conformance/check_blocks",
               "the last, partial tile is taken for a whole one")
MLSI_FAULT_ROW(BLOCK_CHUNK, "src/cpu/kernels/tile.c", "conformance/check_blocks",
               "sums of more than 4096 terms are one chunk")
MLSI_FAULT_ROW(BLOCK_SEGMENT, "src/cpu/kernels/tile.c", "conformance/check_blocks",
               "a product along K is one chain")
MLSI_FAULT_ROW(BLOCK_NEVER, "src/run/generate.c", "unit/check_fuse",
               "without a compiler functions run as their steps")
MLSI_FAULT_ROW(BLOCK_JIT, "src/run/generate.c", "unit/check_fuse",
               "a compiler is started for the smallest program")
MLSI_FAULT_ROW(HOIST_CHECKS, "src/ir/passes/hoist.c", "unit/check_hoist",
               "what may fail moves out of a loop that may have no turn")
MLSI_FAULT_ROW(HOIST_CARRIED, "src/ir/passes/hoist.c", "unit/check_hoist",
               "what a loop changes counts as the same in every turn")
MLSI_FAULT_ROW(HOIST_OPERAND, "src/ir/passes/hoist.c", "unit/check_hoist",
               "a loop gets one moved value in the place of another")
MLSI_FAULT_ROW(INVARIANT_MEMORY, "src/ir/loop/invariant.c", "unit/check_invariant",
               "an element that a loop writes is read before it")
MLSI_FAULT_ROW(INVARIANT_TERMS, "src/ir/loop/invariant.c", "unit/check_invariant",
               "a reduction is read before the loop that gives it terms")
MLSI_FAULT_ROW(INVARIANT_EMPTY, "src/ir/loop/invariant.c", "unit/check_invariant",
               "what only an iteration reads is read before a loop that may have none")
MLSI_FAULT_ROW(PLAN_ORDERS, "src/run/plan.c", "unit/check_plan",
               "of the orders in which few buffers can be placed only some are tried")

/* ---- generated CUDA C ---- */
MLSI_FAULT_ROW(CUDA_BARRIER, "src/ir/codegen/cuda_block.c", "conformance/check_cuda_nests",
               "threads of a block do not wait for what another one stores")
MLSI_FAULT_ROW(CUDA_LANE, "src/ir/codegen/cuda_block.c", "conformance/check_cuda_nests",
               "terms of a sum go to lanes that fold in another order")
MLSI_FAULT_ROW(CUDA_EXTENT, "src/ir/codegen/cuda_block.c", "conformance/check_cuda_nests",
               "the last iteration of a loop that threads share is left out")
MLSI_FAULT_ROW(CUDA_PACK, "src/ir/codegen/cuda_pack.c", "conformance/check_cuda_nests",
               "a pack at the end of a row has one element too many")
MLSI_FAULT_ROW(CUDA_RUN, "src/ir/codegen/cuda_parts.c", "conformance/check_cuda_nests",
               "the runs of all rows are read where those of the first one are")
MLSI_FAULT_ROW(CUDA_RUN_PLACE, "src/ir/codegen/cuda_parts.c", "conformance/check_cuda_nests",
               "runs of the second reduction are left where those of the first one are")
MLSI_FAULT_ROW(CUDA_COLUMN, "src/ir/codegen/cuda_column.c", "conformance/check_cuda_nests",
               "chunks of a column's terms are not folded where they end")
MLSI_FAULT_ROW(CUDA_TILE, "src/ir/codegen/cuda_tile.c", "conformance/check_cuda_nests",
               "threads read a tile before it is there")
MLSI_FAULT_ROW(ORDER_EFFECTS, "src/ir/passes/order.c", "unit/check_order",
               "tasks that may fail change places")
MLSI_FAULT_ROW(ORDER_DONATED, "src/ir/passes/order.c", "unit/check_order",
               "a donated input may be read behind the task that could write over it")
MLSI_FAULT_ROW(ORDER_WORSE, "src/ir/passes/order.c", "unit/check_order",
               "an order stays though its plan needs more memory")
MLSI_FAULT_ROW(PLACE_ORDER, "src/ir/loop/prove_hazard.c", "unit/check_in_place",
               "an input may be written over though it is loaded behind the store")
MLSI_FAULT_ROW(PLACE_OFFSET, "src/ir/loop/prove_hazard.c", "unit/check_in_place",
               "an input may be written over though other iterations load what is stored")
MLSI_FAULT_ROW(PLACE_CLAIMED, "src/ir/proof/nest_place.c", "unit/check_in_place",
               "a claim that an output lies in an input's memory is believed")
MLSI_FAULT_ROW(TRANSPOSE_INVERSE, "src/ir/passes/transpose.c", "unit/check_transpose",
               "what leaves a region in another order is transposed the other way")
MLSI_FAULT_ROW(TRANSPOSE_FACTORS, "src/ir/passes/transpose.c", "unit/check_transpose",
               "the factors of a transposed product change places and are not transposed")
