/* Loop rules of the ops: element, reduces, term, reduced, nest of their definitions (ir/loop/lower.h). */
#ifndef MLSI_LOOPS_H
#define MLSI_LOOPS_H

#include "ir/ops/op_def.h"

/* loops_movement.c */
int32_t mlsi_loops_same(mlsi_lower *l, int result,
                        const int64_t *index); /* copy and other identities */
int32_t mlsi_loops_reshape(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_broadcast(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_transpose(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_slice(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_reverse(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_iota(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_full(mlsi_lower *l, int result, const int64_t *index);

int32_t mlsi_loops_pad(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_concat(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_random(mlsi_lower *l, int result, const int64_t *index);
/* index + by, a number of either sign. */
int64_t mlsi_loops_shift(mlsi_nest *n, int64_t index, int64_t by);
/* An extent that indices in range are divided by; 1 where it is 0, for then there are none. UNSUPPORTED where it may be 0
 * or more: index expressions divide by what is positive only. */
int64_t mlsi_loops_divisor(mlsi_nest *n, int64_t extent);

/* loops_index.c */
int32_t mlsi_loops_gather(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_embedding(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_dynamic_slice(mlsi_lower *l, int result, const int64_t *index);
int32_t mlsi_loops_dynamic_update_slice(mlsi_lower *l, int result, const int64_t *index);

/* loops_contract.c */
bool mlsi_loops_dot_space(mlsi_lower *l, mlsi_reduction *r);
void mlsi_loops_dot_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]);

/* loops_window.c */
bool mlsi_loops_conv_space(mlsi_lower *l, mlsi_reduction *r);
void mlsi_loops_conv_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]);
bool mlsi_loops_pool_space(mlsi_lower *l, mlsi_reduction *r);
void mlsi_loops_pool_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]);
int32_t mlsi_loops_pool_mean(mlsi_lower *l, const int64_t *index, int32_t sum);

/* loops_scan.c */
mlsys_status mlsi_loops_scan(mlsi_lower *l);

/* loops_reduce.c */
bool mlsi_loops_arg_space(mlsi_lower *l, mlsi_reduction *r);
void mlsi_loops_arg_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]);
bool mlsi_loops_reduce_space(mlsi_lower *l, mlsi_reduction *r);
void mlsi_loops_reduce_term(mlsi_lower *l, const int64_t *index, const int64_t *k,
                            int32_t value[2]);

/* loops_order.c */
mlsys_status mlsi_loops_sort(mlsi_lower *l);
mlsys_status mlsi_loops_topk(mlsi_lower *l);

/* loops_scatter.c */
mlsys_status mlsi_loops_scatter(mlsi_lower *l);

/* loops_attention.c, loops_attention_grad.c */
mlsys_status mlsi_loops_attention(mlsi_lower *l);
mlsys_status mlsi_loops_attention_grad(mlsi_lower *l);

/* loops_pool_grad.c */
mlsys_status mlsi_loops_pool_grad(mlsi_lower *l);

/* loops_quant.c, loops_quant_int8.c. An element of an operand of a block dtype, as f32. */
int32_t mlsi_loops_block_element(mlsi_lower *l, int i, const int64_t *index);
int32_t mlsi_loops_dequantize(mlsi_lower *l, int result, const int64_t *index);
bool mlsi_loops_quant_space(mlsi_lower *l, mlsi_reduction *r);
void mlsi_loops_quant_term(mlsi_lower *l, const int64_t *index, const int64_t *k, int32_t value[2]);
mlsys_status mlsi_loops_quant_int8(mlsi_lower *l);

#endif
