/* Calls that type inference must refuse. Suites include this with OP_BAD defined.
 *
 *     OP_BAD(op, operands, attrs, n_out, status, text)
 *
 * The call ends with this status and a sentence that holds text. operands and attrs as in
 * tests/op_cases.h; extents may hold the symbols B in [1,8], L in [0,16], S in [2,12] even. */

/* ---- elementwise --------------------------------------------------------------------------- */

/* Ops that take numbers; floats; logic: one operand, then two. */
#define BAD_OPERANDS_1(op)                                                                         \
    OP_BAD(op, "f32[3]; f32[3]", "", 1, MLSYS_E_ARG, #op ": 2 operands given")
#define BAD_NUMBERS_1(op)                                                                          \
    OP_BAD(op, "bool[3]", "", 1, MLSYS_E_DTYPE,                                                    \
           #op ": operand 0 (x): dtype bool, expected float or int")                               \
    BAD_OPERANDS_1(op)
#define BAD_FLOATS_1(op)                                                                           \
    OP_BAD(op, "i32[3]", "", 1, MLSYS_E_DTYPE, #op ": operand 0 (x): dtype i32, expected float")   \
    BAD_OPERANDS_1(op)
BAD_NUMBERS_1(neg)
BAD_NUMBERS_1(abs)
BAD_NUMBERS_1(sign)
BAD_NUMBERS_1(ceil)
BAD_NUMBERS_1(floor)
BAD_NUMBERS_1(trunc)
BAD_NUMBERS_1(round)
BAD_FLOATS_1(sqrt)
BAD_FLOATS_1(rsqrt)
BAD_FLOATS_1(cbrt)
BAD_FLOATS_1(exp)
BAD_FLOATS_1(exp2)
BAD_FLOATS_1(expm1)
BAD_FLOATS_1(log)
BAD_FLOATS_1(log2)
BAD_FLOATS_1(log10)
BAD_FLOATS_1(log1p)
BAD_FLOATS_1(sin)
BAD_FLOATS_1(cos)
BAD_FLOATS_1(tan)
BAD_FLOATS_1(asin)
BAD_FLOATS_1(acos)
BAD_FLOATS_1(atan)
BAD_FLOATS_1(sinh)
BAD_FLOATS_1(cosh)
BAD_FLOATS_1(tanh)
BAD_FLOATS_1(asinh)
BAD_FLOATS_1(acosh)
BAD_FLOATS_1(atanh)
BAD_FLOATS_1(erf)
BAD_FLOATS_1(erfc)
BAD_FLOATS_1(sigmoid)
BAD_FLOATS_1(is_nan)
BAD_FLOATS_1(is_finite)
OP_BAD(exp, "q4_0[32]", "", 1, MLSYS_E_DTYPE, "dtype q4_0, expected float")
OP_BAD(not, "f32[3]", "", 1, MLSYS_E_DTYPE, "not: operand 0 (x): dtype f32, expected int or bool")
BAD_OPERANDS_1(not )

#define BAD_BINARY(op, type)                                                                       \
    OP_BAD(op, #type "[3]; f64[3]", "", 1, MLSYS_E_DTYPE,                                          \
           #op ": operand 1 (b): dtype f64, expected ")                                            \
    OP_BAD(op, #type "[2,3]; " #type "[2]", "", 1, MLSYS_E_SHAPE,                                  \
           #op ": operand 1 (b): extent 2 against 3")                                              \
    OP_BAD(op, #type "[B]; " #type "[L]", "", 1, MLSYS_E_SHAPE,                                    \
           #op ": operand 1 (b): extent L against B")
BAD_BINARY(add, f32)
BAD_BINARY(sub, i32)
BAD_BINARY(mul, f16)
BAD_BINARY(div, bf16)
BAD_BINARY(rem, f32)
BAD_BINARY(mod, i8)
BAD_BINARY(pow, f32)
BAD_BINARY(atan2, f32)
BAD_BINARY(max, u8)
BAD_BINARY(min, i64)
BAD_BINARY(and, bool)
BAD_BINARY(or, i32)
BAD_BINARY(xor, bool)
BAD_BINARY(shift_left, i32)
BAD_BINARY(shift_right, u8)
BAD_BINARY(eq, f32)
BAD_BINARY(ne, bool)
BAD_BINARY(lt, f32)
BAD_BINARY(le, i16)
BAD_BINARY(gt, f32)
BAD_BINARY(ge, f8e5m2)
OP_BAD(cast, "q4_1[32]", "dtype=f32", 1, MLSYS_E_DTYPE, "dtype q4_1, expected float or int or bool")
OP_BAD(cast, "f32[32]", "dtype=q8_0", 1, MLSYS_E_DTYPE, "q8_0 is not a plain dtype")
OP_BAD(cast, "f32[32]", "", 1, MLSYS_E_FORMAT, "attribute dtype is required")
OP_BAD(bitcast, "f32[3]", "dtype=i64", 1, MLSYS_E_DTYPE, "dtype f32 cannot be read as i64")
OP_BAD(bitcast, "u8[3]", "dtype=bool", 1, MLSYS_E_DTYPE, "dtype u8 cannot be read as bool")
OP_BAD(add, "f32[3]; f32[0]", "", 1, MLSYS_E_SHAPE, "extent 0 against 3")
OP_BAD(add, "f32[3]", "", 1, MLSYS_E_ARG, "add: 1 operands given")
OP_BAD(add, "f32[3]; _", "", 1, MLSYS_E_ARG, "is absent")
OP_BAD(add, "f32[3]; f32[3]", "", 2, MLSYS_E_ARG, "add: 2 results")
OP_BAD(atan2, "i32[3]; i32[3]", "", 1, MLSYS_E_DTYPE, "atan2: operand 0 (a): dtype i32")
OP_BAD(and, "f32[3]; f32[3]", "", 1, MLSYS_E_DTYPE, "and: operand 0 (a)")
OP_BAD(shift_left, "bool[3]; bool[3]", "", 1, MLSYS_E_DTYPE,
       "shift_left: operand 0 (a): dtype bool, expected int")
OP_BAD(eq, "q8_0[32]; q8_0[32]", "", 1, MLSYS_E_DTYPE, "eq: operand 0 (a)")
OP_BAD(select, "i32[3]; f32[3]; f32[3]", "", 1, MLSYS_E_DTYPE,
       "select: operand 0 (cond): dtype i32, expected bool")
OP_BAD(select, "bool[3]; f32[3]; f16[3]", "", 1, MLSYS_E_DTYPE,
       "select: operand 2 (b): dtype f16, expected f32")
OP_BAD(select, "bool[4]; f32[3]; f32[3]", "", 1, MLSYS_E_SHAPE,
       "select: operand 1 (a): extent 3 against 4")
OP_BAD(clamp, "f32[3]; f32[3]; i32[3]", "", 1, MLSYS_E_DTYPE, "clamp: operand 2 (hi)")
OP_BAD(clamp, "f32[2]; f32[3]; f32[1]", "", 1, MLSYS_E_SHAPE,
       "clamp: operand 1 (lo): extent 3 against 2")
OP_BAD(fma, "i32[3]; i32[3]; i32[3]", "", 1, MLSYS_E_DTYPE, "fma: operand 0 (a)")
OP_BAD(fma, "f32[3]; f32[3]; f32[4]", "", 1, MLSYS_E_SHAPE,
       "fma: operand 2 (c): extent 4 against 3")

/* ---- movement ------------------------------------------------------------------------------ */

OP_BAD(reshape, "f32[2,3]", "shape=[4]", 1, MLSYS_E_SHAPE, "reshape: operand 0 (x): 6 elements")
OP_BAD(reshape, "f32[2,3]", "shape=[-1,4]", 1, MLSYS_E_SHAPE, "-1 cannot be found from 4")
OP_BAD(reshape, "f32[0,3]", "shape=[-1,0]", 1, MLSYS_E_SHAPE, "-1 cannot be found from 0")
OP_BAD(reshape, "f32[2,3]", "shape=[-1,-1]", 1, MLSYS_E_SHAPE, "more than one -1")
OP_BAD(reshape, "f32[2,3]", "shape=[-6,-1]", 1, MLSYS_E_SHAPE, "attribute shape: entry 0 is -6")
OP_BAD(reshape, "f32[B,6]", "shape=[6,L]", 1, MLSYS_E_SHAPE, "not provably")
OP_BAD(reshape, "f32[2,3]", "shape=[6,1,1,1,1,1,1,1,1]", 1, MLSYS_E_SHAPE, "rank 9 outside [0,8]")
OP_BAD(broadcast, "f32[3]", "shape=[4]", 1, MLSYS_E_SHAPE,
       "broadcast: operand 0 (x): f32[3] does not broadcast to f32[4]")
OP_BAD(broadcast, "f32[2,3]", "shape=[3]", 1, MLSYS_E_SHAPE, "does not broadcast")
OP_BAD(transpose, "f32[2,3]", "perm=[0,0]", 1, MLSYS_E_ARG, "perm: 0 is named twice")
OP_BAD(transpose, "f32[2,3]", "perm=[0,2]", 1, MLSYS_E_ARG, "perm 2 outside [-2,2)")
OP_BAD(transpose, "f32[2,3]", "perm=[0]", 1, MLSYS_E_ARG, "perm: 1 entries, rank is 2")
OP_BAD(slice, "f32[5]", "starts=[0], stops=[5], steps=[0]", 1, MLSYS_E_ARG,
       "slice: operand 0 (x): axis 0: step is 0")
OP_BAD(slice, "f32[5,2]", "starts=[0], stops=[5]", 1, MLSYS_E_ARG, "rank 2: 1 starts")
OP_BAD(slice, "f32[L]", "starts=[3], stops=[9223372036854775807]", 1, MLSYS_E_SHAPE,
       "cannot prove that start 3 lies inside extent L")
OP_BAD(slice, "f32[L]", "starts=[4], stops=[0], steps=[-1]", 1, MLSYS_E_SHAPE,
       "negative step over a symbolic extent")
OP_BAD(reverse, "f32[2,3]", "axes=[2]", 1, MLSYS_E_ARG, "axes 2 outside [-2,2)")
OP_BAD(reverse, "f32[2,3]", "axes=[0,-2]", 1, MLSYS_E_ARG, "axes: 0 is named twice")
OP_BAD(pad, "f32[2,3]", "low=[1], high=[1]", 1, MLSYS_E_ARG,
       "pad: attribute low: 1 entries, rank is 2")
OP_BAD(pad, "f32[2]", "low=[-2], high=[-1]", 1, MLSYS_E_SHAPE, "may be negative (-1)")
OP_BAD(concat, "f32[2,3]; f32[3,3]", "axis=1", 1, MLSYS_E_SHAPE,
       "concat: operand 1 (x): f32[3,3] does not join f32[2,3]")
OP_BAD(concat, "f32[2,3]; i32[2,3]", "axis=1", 1, MLSYS_E_DTYPE,
       "concat: operand 1 (x): dtype i32, expected f32")
OP_BAD(concat, "f32[2,3]", "axis=2", 1, MLSYS_E_ARG, "axis 2 outside [-2,2)")
OP_BAD(copy, "f32[2]; f32[2]", "", 1, MLSYS_E_ARG, "copy: 2 operands")
OP_BAD(copy, "f32[2]", "", 2, MLSYS_E_ARG, "copy: 2 results")
OP_BAD(dynamic_slice, "f32[5]; i64[1]", "sizes=[6]", 1, MLSYS_E_SHAPE,
       "window of 6 is not provably inside extent 5")
OP_BAD(dynamic_slice, "f32[5]; i32[1]", "sizes=[2]", 1, MLSYS_E_DTYPE,
       "dynamic_slice: operand 1 (starts): i32[1], expected i64[1]")
OP_BAD(dynamic_slice, "f32[L]; i64[1]", "sizes=[2]", 1, MLSYS_E_SHAPE,
       "window of 2 is not provably inside extent L")
OP_BAD(dynamic_update_slice, "f32[5]; f32[6]; i64[1]", "", 1, MLSYS_E_SHAPE,
       "dynamic_update_slice: operand 1 (update)")
OP_BAD(dynamic_update_slice, "f32[5]; f32[2]; i64[2]", "", 1, MLSYS_E_SHAPE,
       "operand 2 (starts): i64[2], expected i64[1]")

/* ---- creation ------------------------------------------------------------------------------ */

OP_BAD(iota, "", "dtype=f32, shape=[]", 1, MLSYS_E_ARG, "iota: axis 0 outside [0,0)")
OP_BAD(iota, "", "dtype=bool, shape=[3]", 1, MLSYS_E_DTYPE, "attribute dtype: bool is not allowed")
OP_BAD(full, "", "dtype=q4_0, shape=[32]", 1, MLSYS_E_DTYPE,
       "full: attribute dtype: q4_0 is not allowed")
OP_BAD(full, "", "dtype=f32, shape=[-2]", 1, MLSYS_E_SHAPE, "attribute shape: entry 0 is -2")
OP_BAD(random, "i32[]; i64[]", "dtype=f32, shape=[3], kind=normal", 1, MLSYS_E_DTYPE,
       "random: operand 0 (key)")
OP_BAD(random, "i64[]; i64[1]", "dtype=f32, shape=[3], kind=normal", 1, MLSYS_E_SHAPE,
       "random: operand 1 (stream)")
OP_BAD(random, "i64[]; i64[]", "dtype=f32, shape=[3]", 1, MLSYS_E_DTYPE, "f32 has no bits numbers")
OP_BAD(random, "i64[]; i64[]", "dtype=f16, shape=[3], kind=uniform", 1, MLSYS_E_DTYPE,
       "f16 has no uniform numbers")

/* ---- reductions ---------------------------------------------------------------------------- */

OP_BAD(reduce_sum, "bool[3]", "", 1, MLSYS_E_DTYPE, "reduce_sum: operand 0 (x): dtype bool")
OP_BAD(reduce_sum, "f32[3]", "axes=[1]", 1, MLSYS_E_ARG, "axes 1 outside [-1,1)")
OP_BAD(reduce_sum, "f32[3,2]", "axes=[1,-1]", 1, MLSYS_E_ARG, "axes: 1 is named twice")
OP_BAD(batch_sum, "i32[3]", "", 1, MLSYS_E_DTYPE, "batch_sum: operand 0 (x): dtype i32")
OP_BAD(batch_sum, "f32[3,2]", "axes=[2]", 1, MLSYS_E_ARG, "axes 2 outside [-2,2)")
OP_BAD(batch_sum, "f32[3]", "dtype=f64", 1, MLSYS_E_DTYPE, "cannot hold sums of f32")
OP_BAD(batch_sum, "f32[3]", "dtype=i32", 1, MLSYS_E_DTYPE, "cannot hold sums of f32")
OP_BAD(batch_sum, "f32[3,2]; f32[3]", "axes=[0]", 1, MLSYS_E_SHAPE,
       "batch_sum: operand 1 (addend): f32[3], expected f32[2]")
OP_BAD(batch_sum, "f16[3,2]; f32[2]", "axes=[0]", 1, MLSYS_E_DTYPE,
       "batch_sum: operand 1 (addend): f32[2], expected f16[2]")
OP_BAD(reduce_prod, "bool[3]", "", 1, MLSYS_E_DTYPE, "reduce_prod: operand 0")
OP_BAD(reduce_prod, "f32[]", "axes=[0]", 1, MLSYS_E_ARG, "axes 0 outside [0,0)")
OP_BAD(reduce_and, "bool[2]", "axes=[-2]", 1, MLSYS_E_ARG, "axes -2 outside [-1,1)")
OP_BAD(reduce_or, "bool[2]", "keep=2", 1, MLSYS_E_ARG, "attribute keep: expected 0 or 1")
OP_BAD(reduce_max, "f32[3,0]", "axes=[1]", 1, MLSYS_E_SHAPE,
       "reduce_max: operand 0 (x): axis 1: extent 0 may be 0")
OP_BAD(reduce_max, "f32[L]", "", 1, MLSYS_E_SHAPE, "extent L may be 0")
OP_BAD(reduce_min, "f32[0]", "", 1, MLSYS_E_SHAPE,
       "reduce_min: operand 0 (x): axis 0: extent 0 may be 0")
OP_BAD(reduce_min, "bool[2]", "", 1, MLSYS_E_DTYPE, "dtype bool")
OP_BAD(reduce_and, "i32[2]", "", 1, MLSYS_E_DTYPE, "dtype i32, expected bool")
OP_BAD(reduce_or, "f32[2]", "", 1, MLSYS_E_DTYPE, "dtype f32, expected bool")
OP_BAD(argmax, "f32[3,0]", "", 1, MLSYS_E_SHAPE, "argmax: operand 0 (x): axis 1: extent 0 may be 0")
OP_BAD(argmax, "f32[]", "", 1, MLSYS_E_ARG, "axis -1 outside [0,0)")
OP_BAD(argmin, "bool[3]", "", 1, MLSYS_E_DTYPE, "argmin: operand 0")
OP_BAD(argmin, "f32[3]", "axis=1", 1, MLSYS_E_ARG, "axis 1 outside [-1,1)")
OP_BAD(scan, "bool[3]", "", 1, MLSYS_E_DTYPE, "scan: operand 0")
OP_BAD(scan, "f32[3]", "axis=-2", 1, MLSYS_E_ARG, "scan: operand 0 (x): axis -2 outside [-1,1)")
OP_BAD(scan, "f32[3]", "kind=mean", 1, MLSYS_E_ARG, "\"mean\" is not one of sum, prod, max, min")

/* ---- contractions -------------------------------------------------------------------------- */

OP_BAD(dot_general, "f32[2,3]; f32[4,5]", "lhs_contract=[1], rhs_contract=[0]", 1, MLSYS_E_SHAPE,
       "dot_general: operand 1 (rhs): contracted axis 0: extent 4, lhs has 3")
OP_BAD(dot_general, "f32[2,3]; f32[3,5]", "lhs_contract=[1]", 1, MLSYS_E_ARG,
       "1 contracted axes of lhs, 0 of rhs")
OP_BAD(dot_general, "f32[2,3]; f32[3,5]",
       "lhs_contract=[1], lhs_batch=[1], rhs_contract=[0], rhs_batch=[1]", 1, MLSYS_E_ARG,
       "lhs axis 1 is named twice")
OP_BAD(dot_general, "f32[2,3]; f32[3,5]", "lhs_contract=[2], rhs_contract=[0]", 1, MLSYS_E_ARG,
       "lhs axis 2 outside [-2,2)")
OP_BAD(dot_general, "f32[2,3]; f32[3,5]; f32[5,2]", "lhs_contract=[1], rhs_contract=[0]", 1,
       MLSYS_E_SHAPE, "dot_general: operand 2 (addend): f32[5,2], expected f32[2,5]")
OP_BAD(dot_general, "f16[2,3]; f16[3,5]; f32[2,5]", "lhs_contract=[1], rhs_contract=[0]", 1,
       MLSYS_E_DTYPE, "dot_general: operand 2 (addend): f32[2,5], expected f16[2,5]")
OP_BAD(dot_general, "f32[2,3]; f64[3,5]", "lhs_contract=[1], rhs_contract=[0]", 1, MLSYS_E_DTYPE,
       "dot_general: operand 1 (rhs): dtype f64")
OP_BAD(dot_general, "f32[2,3]; f32[3,5]", "lhs_contract=[1], rhs_contract=[0], dtype=i32", 1,
       MLSYS_E_DTYPE, "i32 cannot hold products of f32")
OP_BAD(dot_general, "f32[2,3]; f32[3,5]", "lhs_contract=[1], rhs_contract=[0], dtype=f64", 1,
       MLSYS_E_DTYPE, "f64 cannot hold products of f32")
OP_BAD(matmul, "f32[2,3]; f32[4,5]", "", 1, MLSYS_E_SHAPE,
       "matmul: operand 1 (b): f32[4,5]: K axis 0 does not match axis 1 of f32[2,3]")
OP_BAD(matmul, "f32[2,3]; f32[]", "", 1, MLSYS_E_SHAPE, "matmul: operand 1 (b): rank 0")
OP_BAD(matmul, "f32[2,4,3]; f32[3,3,5]", "", 1, MLSYS_E_SHAPE, "extent 3 against 2")
OP_BAD(matmul, "bool[2,3]; bool[3,5]", "", 1, MLSYS_E_DTYPE, "matmul: operand 0 (a): dtype bool")
OP_BAD(matmul, "f32[B,L]; f32[B,3]", "", 1, MLSYS_E_SHAPE, "K axis 0 does not match")
OP_BAD(quant_matmul, "f32[3,64]; q4_0[7,32]", "", 1, MLSYS_E_SHAPE,
       "quant_matmul: operand 1 (w): q4_0[7,32], expected [N, K]")
OP_BAD(quant_matmul, "f32[3,32]; f32[7,32]", "", 1, MLSYS_E_DTYPE, "dtype f32, expected block")
OP_BAD(quant_matmul, "f64[3,32]; q4_0[7,32]", "", 1, MLSYS_E_DTYPE, "dtype f64")
OP_BAD(dequantize, "f32[32]", "", 1, MLSYS_E_DTYPE, "dtype f32, expected block")
OP_BAD(dequantize, "q4_0[32]", "dtype=f64", 1, MLSYS_E_DTYPE, "expected a float of at most 32 bits")
OP_BAD(conv, "f32[1,3,7]; f32[4,2,3]", "", 1, MLSYS_E_SHAPE,
       "conv: operand 1 (w): f32[4,2,3] does not fit the channels of f32[1,3,7]")
OP_BAD(conv, "f32[1,3]; f32[4,3]", "", 1, MLSYS_E_SHAPE, "expected equal ranks >= 3")
OP_BAD(conv, "f32[1,3,1]; f32[4,3,3]", "", 1, MLSYS_E_SHAPE, "may be negative")
OP_BAD(conv, "f32[1,3,7]; f32[4,3,3]", "strides=[0]", 1, MLSYS_E_ARG,
       "attribute strides: 0 outside")
OP_BAD(conv, "f32[1,3,7]; f32[4,3,3]", "pads=[1]", 1, MLSYS_E_ARG,
       "attribute pads: 1 entries, expected 2")
OP_BAD(conv, "f32[1,4,7]; f32[3,2,3]", "groups=2", 1, MLSYS_E_SHAPE, "does not fit the channels")
OP_BAD(conv, "i32[1,3,7]; i32[4,3,3]", "", 1, MLSYS_E_DTYPE, "conv: operand 0 (x): dtype i32")
OP_BAD(conv, "f32[1,3,7]; f32[3,4,3]", "transposed=true, strides=[2], output_pads=[B]", 1,
       MLSYS_E_ARG, "output_pads: B outside [0,2)")
OP_BAD(pad, "f32[L]", "low=[0], high=[-B]", 1, MLSYS_E_SHAPE, "may be negative")
OP_BAD(conv, "f32[1,3,7]; f32[4,3,3]; f32[4,5]", "", 1, MLSYS_E_SHAPE,
       "conv: operand 2 (addend): f32[4,5], expected f32[1,4,5]")
OP_BAD(conv, "f32[1,3,7]; f32[4,3,0]", "", 1, MLSYS_E_SHAPE, "kernel: extent 0")
OP_BAD(conv, "f32[1,3,7]; f32[3,4,3]", "transposed=true, output_pads=[1]", 1, MLSYS_E_ARG,
       "output_pads: 1 outside [0,1)")
OP_BAD(pool, "f32[1,3,7]", "kernel=[3,3]", 1, MLSYS_E_SHAPE,
       "pool: operand 0 (x): f32[1,3,7] has not the 2 spatial axes")
OP_BAD(pool_grad, "f32[1,3,6]; f32[1,3,2]; f32[1,3,2]", "kernel=[2], strides=[2]", 1, MLSYS_E_SHAPE,
       "pool_grad: operand 1 (y)")
OP_BAD(pool_grad, "f32[1,3,6]; f32[1,3,3]; f16[1,3,3]", "kernel=[2], strides=[2]", 1, MLSYS_E_DTYPE,
       "pool_grad: operand 2 (dy)")
OP_BAD(pool, "i32[1,3,7]", "kernel=[3], kind=average", 1, MLSYS_E_DTYPE,
       "dtype i32, expected float")
OP_BAD(pool, "f32[1,3,7]", "kernel=[0]", 1, MLSYS_E_SHAPE, "kernel: extent 0 outside")
OP_BAD(pool, "f32[1,3,L]", "kernel=[3], strides=[2], ceil_mode=true", 1, MLSYS_E_SHAPE,
       "ceil_mode with stride 2 over symbolic extent L")

/* ---- index, order -------------------------------------------------------------------------- */

OP_BAD(gather, "f32[7,5]; f32[3]", "", 1, MLSYS_E_DTYPE,
       "gather: operand 1 (indices): dtype f32, expected i32 or i64")
OP_BAD(gather, "f32[7,5]; i64[3]", "axis=2", 1, MLSYS_E_ARG, "axis 2 outside [-2,2)")
OP_BAD(gather, "f32[1,1,1,1,1]; i64[1,1,1,1,1]", "", 1, MLSYS_E_SHAPE, "result has 9 axes")
OP_BAD(embedding, "f32[7]; i64[3]", "", 1, MLSYS_E_SHAPE,
       "embedding: operand 0 (table): f32[7], expected [V, D]")
OP_BAD(embedding, "i32[7,5]; i64[3]", "", 1, MLSYS_E_DTYPE, "dtype i32, expected float or block")
OP_BAD(embedding, "f32[7,5]; i64[3]", "dtype=f64", 1, MLSYS_E_DTYPE, "not a result of rows of f32")
OP_BAD(scatter, "f32[7,5]; i64[3]; f32[3,4]", "", 1, MLSYS_E_SHAPE,
       "scatter: operand 2 (updates): f32[3,4], expected f32[3,5]")
OP_BAD(scatter, "bool[7]; i64[3]; bool[3]", "kind=add", 1, MLSYS_E_DTYPE,
       "scatter: operand 0 (x): dtype bool")
OP_BAD(scatter, "f32[7]; i64[3]; f64[3]", "", 1, MLSYS_E_DTYPE,
       "scatter: operand 2 (updates): dtype f64, expected f32")
OP_BAD(sort, "bool[7]", "", 1, MLSYS_E_DTYPE, "sort: operand 0 (x): dtype bool")
OP_BAD(sort, "f32[]", "", 1, MLSYS_E_ARG, "axis -1 outside [0,0)")
OP_BAD(sort, "f32[7]", "", 3, MLSYS_E_ARG, "sort: 3 results")
OP_BAD(topk, "f32[7]", "k=8", 1, MLSYS_E_SHAPE, "k = 8 is not provably within extent 7")
OP_BAD(topk, "f32[L]", "k=1", 1, MLSYS_E_SHAPE, "k = 1 is not provably within extent L")
OP_BAD(topk, "f32[7]", "k=-1", 1, MLSYS_E_SHAPE, "k = -1")

/* ---- composites ---------------------------------------------------------------------------- */

OP_BAD(relu, "bool[3]", "", 1, MLSYS_E_DTYPE, "relu: operand 0 (x): dtype bool")
OP_BAD(relu, "f32[3]; f32[3]", "", 1, MLSYS_E_ARG, "relu: 2 operands")
OP_BAD(gelu, "i32[3]", "", 1, MLSYS_E_DTYPE, "gelu: operand 0 (x): dtype i32")
OP_BAD(gelu, "f32[3]", "form=exact", 1, MLSYS_E_ARG, "\"exact\" is not one of erf, tanh")
OP_BAD(silu, "i32[3]", "", 1, MLSYS_E_DTYPE, "silu: operand 0 (x): dtype i32")
OP_BAD(silu, "", "", 1, MLSYS_E_ARG, "silu: 0 operands")
OP_BAD(softmax, "f32[2,3]", "axis=3", 1, MLSYS_E_ARG,
       "softmax: operand 0 (x): axis 3 outside [-2,2)")
OP_BAD(softmax, "i32[2,3]", "", 1, MLSYS_E_DTYPE, "dtype i32, expected float")
OP_BAD(softmax, "f32[2,3]", "axes=1", 1, MLSYS_E_FORMAT, "softmax: no attribute \"axes\"")
OP_BAD(log_softmax, "f32[]", "", 1, MLSYS_E_ARG, "axis -1 outside [0,0)")
OP_BAD(log_softmax, "bool[3]", "", 1, MLSYS_E_DTYPE, "log_softmax: operand 0")
OP_BAD(logsumexp, "f32[2]", "axis=1", 1, MLSYS_E_ARG, "axis 1 outside [-1,1)")
OP_BAD(logsumexp, "i32[2]", "", 1, MLSYS_E_DTYPE, "logsumexp: operand 0")
OP_BAD(reduce_mean, "i32[2]", "", 1, MLSYS_E_DTYPE, "reduce_mean: operand 0")
OP_BAD(reduce_mean, "f32[2]", "axes=[0,0]", 1, MLSYS_E_ARG, "axes: 0 is named twice")
OP_BAD(layer_norm, "f32[2,3]; f32[2]", "", 1, MLSYS_E_SHAPE,
       "layer_norm: operand 1 (gamma): f32[2] is not of the shape of axes 1.. of f32[2,3]")
OP_BAD(layer_norm, "f32[2,3]; f64[3]", "", 1, MLSYS_E_DTYPE,
       "layer_norm: operand 1 (gamma): dtype f64")
OP_BAD(layer_norm, "f32[2,3]; _; i32[3]", "", 1, MLSYS_E_DTYPE,
       "layer_norm: operand 2 (beta): dtype i32")
OP_BAD(rms_norm, "f32[2,3]; f32[3]; f32[3]", "", 1, MLSYS_E_ARG, "rms_norm: 3 operands")
OP_BAD(rms_norm, "f32[2,3]; f32[1,3]", "", 1, MLSYS_E_SHAPE, "rms_norm: operand 1 (gamma)")
OP_BAD(cross_entropy, "f32[2,3]; i64[3]", "", 1, MLSYS_E_SHAPE,
       "cross_entropy: operand 1 (target): i64[3], expected the leading axes of f32[2,3]")
OP_BAD(cross_entropy, "f32[2,3]; f32[2]", "", 1, MLSYS_E_DTYPE, "expected i32 or i64")
OP_BAD(cross_entropy, "f32[2,0]; i64[2]", "", 1, MLSYS_E_SHAPE, "the class axis may be empty")
OP_BAD(rope, "f32[2,3,8]; i64[3]; f32[4]", "", 1, MLSYS_E_SHAPE,
       "rope: operand 0 (x): f32[2,3,8], expected [B, L, H, D]")
OP_BAD(rope, "f32[2,3,2,8]; i64[4]; f32[4]", "", 1, MLSYS_E_SHAPE, "rope: operand 1 (positions)")
OP_BAD(rope, "f32[2,3,2,8]; f32[3]; f32[4]", "", 1, MLSYS_E_DTYPE, "rope: operand 1 (positions)")
OP_BAD(rope, "f32[2,3,2,8]; i64[3]; f32[5]", "", 1, MLSYS_E_SHAPE, "rope: operand 2 (freqs)")
OP_BAD(rope, "f32[2,3,2,8]; i64[3]; f16[4]", "", 1, MLSYS_E_DTYPE,
       "rope: operand 2 (freqs): expected f32")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,7]; f32[1,5,2,7]", "", 1, MLSYS_E_SHAPE,
       "attention: operand 1 (k)")
OP_BAD(attention, "f32[1,3,4,8]; f32[1,5,3,8]; f32[1,5,3,8]", "", 1, MLSYS_E_SHAPE,
       "Hkv that divides")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,4,2,8]", "", 1, MLSYS_E_SHAPE,
       "attention: operand 2 (v)")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f16[1,5,2,8]", "", 1, MLSYS_E_DTYPE,
       "attention: operand 2 (v): dtype f16, expected f32")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,8]; bool[3,4]", "", 1, MLSYS_E_SHAPE,
       "attention: operand 3 (mask)")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,8]; _; f32[1]", "", 1, MLSYS_E_DTYPE,
       "attention: operand 4 (kv_len)")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,8]", "lse=true", 1, MLSYS_E_ARG,
       "1 results asked, lse = 1 gives 2")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,8]", "window=-1", 1, MLSYS_E_ARG,
       "window: -1 is negative")
OP_BAD(attention, "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,8]", "causal=yes", 1, MLSYS_E_ARG,
       "not one of none, top_left, bottom_right")
OP_BAD(attention_grad,
       "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,6]; _; _; f32[1,3,2,8]; f32[1,2,3]; f32[1,3,2,6]", "",
       3, MLSYS_E_SHAPE, "attention_grad: operand 5 (o)")
OP_BAD(attention_grad,
       "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,6]; _; _; f32[1,3,2,6]; f32[1,3,2]; f32[1,3,2,6]", "",
       3, MLSYS_E_SHAPE, "attention_grad: operand 6 (lse)")
OP_BAD(attention_grad,
       "f32[1,3,2,8]; f32[1,5,2,8]; f32[1,5,2,6]; _; _; f32[1,3,2,6]; f32[1,2,3]; f16[1,3,2,6]", "",
       3, MLSYS_E_DTYPE, "attention_grad: operand 7 (do)")
OP_BAD(attention_grad,
       "f32[1,3,2,8]; f32[1,5,2,7]; f32[1,5,2,6]; _; _; f32[1,3,2,6]; f32[1,2,3]; f32[1,3,2,6]", "",
       3, MLSYS_E_SHAPE, "attention_grad: operand 1 (k)")

/* ---- control ------------------------------------------------------------------------------- */
OP_BAD(call, "f32[3]", "fn1=0", 1, MLSYS_E_ARG, "call: attribute fn1: function 0 outside [1,1)")
OP_BAD(call, "f32[3]", "fn1=7", 1, MLSYS_E_ARG, "call: attribute fn1: function 7 outside")
OP_BAD(if, "bool[]", "fn1=1, fn2=2", 1, MLSYS_E_ARG, "if: attribute fn1: function 1 outside")
OP_BAD(if, "bool[]", "fn1=1", 1, MLSYS_E_FORMAT, "if: attribute fn2 is required")
OP_BAD(while, "f32[3]", "fn1=1, fn2=1", 1, MLSYS_E_ARG, "while: attribute fn1: function 1 outside")
OP_BAD(while, "", "fn1=1, fn2=1", 1, MLSYS_E_ARG, "while: 0 operands")
OP_BAD(custom, "f32[3]", "op_index=0", 1, MLSYS_E_ARG,
       "custom: attribute op_index: 0 outside [0,0)")
OP_BAD(custom, "f32[3]", "op_index=-1", 1, MLSYS_E_ARG, "custom: attribute op_index: -1 outside")

OP_BAD(stop_gradient, "q4_0[32]", "", 1, MLSYS_E_DTYPE,
       "stop_gradient: operand 0 (x): dtype q4_0, expected float or int or bool")
OP_BAD(barrier, "f32[3]", "id=-1", 1, MLSYS_E_ARG, "barrier: attribute id: -1 is negative")
OP_BAD(barrier, "f32[3]; f32[3]", "", 1, MLSYS_E_ARG, "barrier: 2 operands given")
OP_BAD(stop_gradient, "f32[3]; f32[3]", "", 1, MLSYS_E_ARG, "stop_gradient: 2 operands given")

/* ---- optimisers ---------------------------------------------------------------------------- */
OP_BAD(sgd_step, "i32[3]; i32[3]; f32[]", "", 1, MLSYS_E_DTYPE,
       "sgd_step: operand 0 (w): dtype i32, expected float")
OP_BAD(sgd_step, "f32[3]; f32[4]; f32[]", "", 1, MLSYS_E_SHAPE,
       "operand 1 (g): f32[4] does not go with f32[3]")
OP_BAD(sgd_step, "f32[3]; f32[3]; f32[1]", "", 1, MLSYS_E_SHAPE,
       "operand 2 (lr): f32[1], expected a scalar float")
OP_BAD(sgd_step, "f32[3]; f32[3]; f32[]", "", 2, MLSYS_E_ARG,
       "2 results: the parameter and 0 moments")
OP_BAD(sgd_step, "f32[B]; f32[S]; f32[]", "", 1, MLSYS_E_SHAPE, "f32[S] does not go with f32[B]")
OP_BAD(adam_step, "f32[3]; f32[3]; f32[]; f32[3]; f32[3]; f32[]", "", 3, MLSYS_E_DTYPE,
       "operand 5 (count): f32[], expected a scalar i64")
OP_BAD(adam_step, "f32[3]; f32[3]; f32[]; f64[3]; f32[3]; i64[]", "", 3, MLSYS_E_SHAPE,
       "operand 3 (m): f64[3] does not go with f32[3]")
OP_BAD(adam_step, "f32[3]; f32[3]; f32[]; f32[3]; f32[3]; i64[]", "", 2, MLSYS_E_ARG,
       "2 results: the parameter and 2 moments")
OP_BAD(lion_step, "f32[3]; f32[3]; f32[]; f32[2]", "", 2, MLSYS_E_SHAPE,
       "lion_step: operand 3 (m): f32[2] does not go with f32[3]")
OP_BAD(lion_step, "f32[3]; f32[3]; f32[]", "", 2, MLSYS_E_ARG, "lion_step: 3 operands given")
OP_BAD(adafactor_step, "f32[3]; f32[3]; f32[]; i64[]; f32[]; f32[]", "", 3, MLSYS_E_SHAPE,
       "operand 5 (columns): given for a parameter of rank 1, expected >= 2")
OP_BAD(adafactor_step, "f32[3,4]; f32[3,4]; f32[]; i64[]; f32[4]; f32[4]", "", 3, MLSYS_E_SHAPE,
       "operand 4 (v): f32[4] does not go with f32[3]")
OP_BAD(adafactor_step, "f32[3,4]; f32[3,4]; f32[]; i64[]; f32[3]; f32[3]", "", 3, MLSYS_E_SHAPE,
       "f32[3] does not go with f32[4]")
OP_BAD(adafactor_step, "f32[3,4]; f32[3,4]; f32[]; i64[]; f32[3,4]", "", 3, MLSYS_E_ARG,
       "3 results: the parameter and 1 moments")
OP_BAD(adafactor_step, "f32[3]; f32[3]; f32[]; f32[]; f32[3]", "", 2, MLSYS_E_DTYPE,
       "operand 3 (count): f32[], expected a scalar i64")
OP_BAD(adafactor_step, "f32[3]; f32[3]; f32[]; i64[]; f32[3]", "clip=0", 2, MLSYS_E_ARG,
       "attribute clip: 0, expected > 0")
OP_BAD(muon_step, "f32[3]; f32[3]; f32[]; f32[3]", "", 2, MLSYS_E_SHAPE,
       "muon_step: operand 0 (w): f32[3], expected rank 2")
OP_BAD(muon_step, "f32[B,3]; f32[B,3]; f32[]; f32[B,3]", "", 2, MLSYS_E_SHAPE,
       "f32[B,3], expected rank 2 and extents that are numbers")
OP_BAD(muon_step, "f32[2,3]; f32[3,2]; f32[]; f32[2,3]", "", 2, MLSYS_E_SHAPE,
       "operand 1 (g): f32[3,2] does not go with f32[2,3]")
OP_BAD(ema_step, "f32[3]; f32[4]", "", 1, MLSYS_E_SHAPE,
       "ema_step: operand 1 (w): f32[4] does not go with f32[3]")
OP_BAD(ema_step, "f32[3]; f64[3]", "", 1, MLSYS_E_SHAPE, "f64[3] does not go with f32[3]")
OP_BAD(ema_step, "f32[3]; f32[3]", "decay=1.5", 1, MLSYS_E_ARG,
       "ema_step: attribute decay: 1.5, expected in [0,1]")
OP_BAD(learning_rate, "f32[]", "", 1, MLSYS_E_DTYPE,
       "learning_rate: operand 0 (step): f32[], expected a scalar i64")
OP_BAD(learning_rate, "i64[1]", "", 1, MLSYS_E_SHAPE, "i64[1], expected a scalar i64")
OP_BAD(learning_rate, "i64[]", "schedule=cosine, warmup=10, steps=10", 1, MLSYS_E_ARG,
       "attribute steps: 10, expected more than warmup")
OP_BAD(learning_rate, "i64[]", "schedule=step", 1, MLSYS_E_ARG, "attribute every: 0, expected >= 1")
OP_BAD(learning_rate, "i64[]", "schedule=step, every=2, factor=0", 1, MLSYS_E_ARG,
       "attribute factor: 0, expected in (0,1]")
OP_BAD(learning_rate, "i64[]", "schedule=wsd, steps=10, decay=11", 1, MLSYS_E_ARG,
       "attribute decay: 11, expected 1 to steps - warmup")
OP_BAD(learning_rate, "i64[]", "rate=-1", 1, MLSYS_E_ARG,
       "attribute rate: -1, expected a number of f32 >= 0")
OP_BAD(learning_rate, "i64[]", "floor=2", 1, MLSYS_E_ARG, "attribute floor: 2, expected in [0,1]")
OP_BAD(learning_rate, "i64[]", "warmup=-1", 1, MLSYS_E_ARG, "attribute warmup: -1, expected >= 0")
OP_BAD(sum_squares, "i32[3]", "", 1, MLSYS_E_DTYPE,
       "sum_squares: operand 0 (x): dtype i32, expected float")
OP_BAD(sum_squares, "f32[3]; f32[3]", "", 1, MLSYS_E_ARG, "sum_squares: 2 operands given")
OP_BAD(clip_norm, "f32[3]; f32[1]", "", 1, MLSYS_E_SHAPE,
       "clip_norm: operand 1 (norm): f32[1], expected a scalar float")
OP_BAD(clip_norm, "f32[3]; f64[]", "", 1, MLSYS_E_DTYPE,
       "clip_norm: operand 1 (norm): dtype f64, expected f32")
OP_BAD(clip_norm, "f32[3]; f32[]", "max=0", 1, MLSYS_E_ARG, "attribute max: 0, expected > 0")
OP_BAD(all_finite, "i32[3]", "", 1, MLSYS_E_DTYPE,
       "all_finite: operand 0 (x): dtype i32, expected float")
OP_BAD(all_finite, "f32[3]", "", 2, MLSYS_E_ARG, "all_finite: 2 results")

#undef BAD_OPERANDS_1
#undef BAD_NUMBERS_1
#undef BAD_FLOATS_1
#undef BAD_BINARY
#undef OP_BAD
