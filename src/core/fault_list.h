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
