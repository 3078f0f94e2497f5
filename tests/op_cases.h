/* THE table of op test cases: calls that must work. Suites include it with OP_CASE defined.
 *
 *     OP_CASE(op, types, operands, attrs, n_out)
 *
 * types: what T stands for, one case each: F floats, I integers, N numbers (F and I), L integers
 * and bool, B bool, P all plain dtypes, G floats but f64, Q block dtypes, empty: T is not used.
 * operands, separated by "; ": dtype[extents], or _ for an absent one, with a domain behind a
 * colon: any (default)  every value of the dtype, NaN, infinities, zeros and subnormals among them
 *     small          floats in [-2,2], integers -9..9
 *     finite         floats of varied size, integers of any size
 *     index(n)       integers in [-n, n)
 *     below(n)       integers in [0, n]
 *     row            mostly finite, with rows of -inf, some +inf and NaN
 *     const(n)       the value n
 * @unary, @binary, @ternary, @select stand for the standard shapes of elementwise ops, in T.
 * attrs: as IR text, without braces; $U stands for every plain dtype in turn.
 *
 * Calls that must be refused: tests/op_cases_bad.h. */

/* ---- elementwise --------------------------------------------------------------------------- */
OP_CASE(neg, "N", "@unary", "", 1)
OP_CASE(abs, "N", "@unary", "", 1)
OP_CASE(sign, "N", "@unary", "", 1)
OP_CASE(ceil, "N", "@unary", "", 1)
OP_CASE(floor, "N", "@unary", "", 1)
OP_CASE(trunc, "N", "@unary", "", 1)
OP_CASE(round, "N", "@unary", "", 1)
OP_CASE(sqrt, "F", "@unary", "", 1)
OP_CASE(rsqrt, "F", "@unary", "", 1)
OP_CASE(cbrt, "F", "@unary", "", 1)
OP_CASE(exp, "F", "@unary", "", 1)
OP_CASE(exp2, "F", "@unary", "", 1)
OP_CASE(expm1, "F", "@unary", "", 1)
OP_CASE(log, "F", "@unary", "", 1)
OP_CASE(log2, "F", "@unary", "", 1)
OP_CASE(log10, "F", "@unary", "", 1)
OP_CASE(log1p, "F", "@unary", "", 1)
OP_CASE(sin, "F", "@unary", "", 1)
OP_CASE(cos, "F", "@unary", "", 1)
OP_CASE(tan, "F", "@unary", "", 1)
OP_CASE(asin, "F", "@unary", "", 1)
OP_CASE(acos, "F", "@unary", "", 1)
OP_CASE(atan, "F", "@unary", "", 1)
OP_CASE(sinh, "F", "@unary", "", 1)
OP_CASE(cosh, "F", "@unary", "", 1)
OP_CASE(tanh, "F", "@unary", "", 1)
OP_CASE(asinh, "F", "@unary", "", 1)
OP_CASE(acosh, "F", "@unary", "", 1)
OP_CASE(atanh, "F", "@unary", "", 1)
OP_CASE(erf, "F", "@unary", "", 1)
OP_CASE(erfc, "F", "@unary", "", 1)
OP_CASE(sigmoid, "F", "@unary", "", 1)
OP_CASE(not, "L", "@unary", "", 1)
OP_CASE(is_nan, "F", "@unary", "", 1)
OP_CASE(is_finite, "F", "@unary", "", 1)
OP_CASE(cast, "P", "T[67]", "dtype=$U", 1)
OP_CASE(cast, "P", "T[0]", "dtype=f32", 1)
OP_CASE(cast, "P", "T[3,5,2]", "dtype=bf16", 1)
OP_CASE(bitcast, "", "f32[37]", "dtype=i32", 1)
OP_CASE(bitcast, "", "i32[3,5]", "dtype=f32", 1)
OP_CASE(bitcast, "", "f64[13]", "dtype=i64", 1)
OP_CASE(bitcast, "", "f16[2,7]", "dtype=bf16", 1)
OP_CASE(bitcast, "", "i16[0,3]", "dtype=f16", 1)
OP_CASE(bitcast, "", "u8[19]", "dtype=f8e4m3", 1)
OP_CASE(bitcast, "", "bool[5]", "dtype=u8", 1)

OP_CASE(add, "N", "@binary", "", 1)
OP_CASE(sub, "N", "@binary", "", 1)
OP_CASE(mul, "N", "@binary", "", 1)
OP_CASE(div, "N", "@binary", "", 1)
OP_CASE(rem, "N", "@binary", "", 1)
OP_CASE(mod, "N", "@binary", "", 1)
OP_CASE(rem, "N", "T[131]:small; T[131]:small", "", 1)
OP_CASE(mod, "N", "T[131]:small; T[131]:small", "", 1)
OP_CASE(pow, "N", "@binary", "", 1)
OP_CASE(pow, "N", "T[131]:small; T[131]:small", "", 1)
OP_CASE(atan2, "F", "@binary", "", 1)
OP_CASE(max, "N", "@binary", "", 1)
OP_CASE(min, "N", "@binary", "", 1)
OP_CASE(and, "L", "@binary", "", 1)
OP_CASE(or, "L", "@binary", "", 1)
OP_CASE(xor, "L", "@binary", "", 1)
OP_CASE(shift_left, "I", "@binary", "", 1)
OP_CASE(shift_left, "I", "T[257]; T[257]:index(66)", "", 1)
OP_CASE(shift_right, "I", "@binary", "", 1)
OP_CASE(shift_right, "I", "T[257]; T[257]:index(66)", "", 1)
OP_CASE(eq, "P", "@binary", "", 1)
OP_CASE(ne, "P", "@binary", "", 1)
OP_CASE(lt, "P", "@binary", "", 1)
OP_CASE(le, "P", "@binary", "", 1)
OP_CASE(gt, "P", "@binary", "", 1)
OP_CASE(ge, "P", "@binary", "", 1)
OP_CASE(eq, "P", "T[67]:small; T[67]:small", "", 1)
OP_CASE(select, "P", "@select", "", 1)
OP_CASE(clamp, "N", "@ternary", "", 1)
OP_CASE(clamp, "N", "T[131]:small; T[131]:small; T[131]:small", "", 1)
OP_CASE(fma, "F", "@ternary", "", 1)

/* ---- movement ------------------------------------------------------------------------------ */
OP_CASE(copy, "P", "@unary", "", 1)
OP_CASE(copy, "Q", "T[3,256]", "", 1)
OP_CASE(stop_gradient, "P", "@unary", "", 1)
OP_CASE(barrier, "P", "@unary", "", 1)
OP_CASE(barrier, "Q", "T[3,256]", "id=7", 1)
OP_CASE(reshape, "P", "T[2,3,5]", "shape=[6,-1]", 1)
OP_CASE(reshape, "P", "T[4,6]", "shape=[2,2,3,2]", 1)
OP_CASE(reshape, "P", "T[0,3]", "shape=[3,0]", 1)
OP_CASE(reshape, "P", "T[1,1]", "shape=[]", 1)
OP_CASE(reshape, "P", "T[7,11]", "shape=[-1]", 1)
OP_CASE(broadcast, "P", "T[3,1]", "shape=[2,3,5]", 1)
OP_CASE(broadcast, "P", "T[]", "shape=[7]", 1)
OP_CASE(broadcast, "P", "T[1]", "shape=[3,0]", 1)
OP_CASE(transpose, "P", "T[3,5]", "", 1)
OP_CASE(transpose, "P", "T[2,3,5,1]", "perm=[2,-1,0,1]", 1)
OP_CASE(transpose, "P", "T[0,7]", "perm=[1,0]", 1)
OP_CASE(transpose, "P", "T[67,33]", "perm=[1,0]", 1)
OP_CASE(slice, "P", "T[7]", "starts=[1], stops=[6], steps=[2]", 1)
OP_CASE(slice, "P", "T[10]", "starts=[9], stops=[0], steps=[-3]", 1)
OP_CASE(slice, "P", "T[5,4]",
        "starts=[-1,0], stops=[-9223372036854775808,9223372036854775807], steps=[-1,3]", 1)
OP_CASE(slice, "P", "T[5]", "starts=[-1], stops=[9223372036854775807], steps=[-1]", 1)
OP_CASE(slice, "P", "T[3,0]", "starts=[1,0], stops=[3,9]", 1)
OP_CASE(reverse, "P", "T[3,5]", "axes=[0]", 1)
OP_CASE(reverse, "P", "T[2,3,7]", "axes=[-1,0]", 1)
OP_CASE(reverse, "P", "T[0,2]", "axes=[0,1]", 1)
OP_CASE(pad, "P", "T[3,5]", "low=[1,0], high=[2,3], value=1.5", 1)
OP_CASE(pad, "P", "T[5]", "low=[-2], high=[4]", 1)
OP_CASE(pad, "P", "T[5,2]", "low=[-2,-1], high=[-3,3], value=7", 1)
OP_CASE(pad, "P", "T[0]", "low=[2], high=[1], value=-3", 1)
OP_CASE(pad, "F", "T[2]", "low=[1], high=[0], value=-inf", 1)
OP_CASE(concat, "P", "T[2,3]; T[2,0]; T[2,5]", "axis=1", 1)
OP_CASE(concat, "P", "T[7]; T[1]; T[13]", "axis=-1", 1)
OP_CASE(concat, "P", "T[3,2,2]", "axis=1", 1)
OP_CASE(dynamic_slice, "P", "T[7,5]; i64[2]:below(2)", "sizes=[3,2]", 1)
OP_CASE(dynamic_slice, "P", "T[]; i64[0]", "sizes=[]", 1)
OP_CASE(dynamic_slice, "P", "T[5]; i64[1]:below(5)", "sizes=[0]", 1)
OP_CASE(dynamic_update_slice, "P", "T[7,5]; T[3,2]; i64[2]:below(3)", "", 1)
OP_CASE(dynamic_update_slice, "P", "T[4,3]; T[0,3]; i64[2]:const(0)", "", 1)

/* ---- creation ------------------------------------------------------------------------------ */
OP_CASE(iota, "", "", "dtype=i32, shape=[7]", 1)
OP_CASE(iota, "", "", "dtype=f32, shape=[3,5], axis=1", 1)
OP_CASE(iota, "", "", "dtype=u8, shape=[300]", 1)
OP_CASE(iota, "", "", "dtype=f16, shape=[2,3001], axis=-1", 1)
OP_CASE(iota, "", "", "dtype=i64, shape=[3,0]", 1)
OP_CASE(full, "", "", "dtype=f32, shape=[7], value=1.25", 1)
OP_CASE(full, "", "", "dtype=bf16, shape=[3,5], value=3.14159", 1)
OP_CASE(full, "", "", "dtype=i8, shape=[], ivalue=300", 1)
OP_CASE(full, "", "", "dtype=bool, shape=[0], ivalue=1", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=i32, shape=[7,3]", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=i64, shape=[13]", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=u8, shape=[33]", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=f32, shape=[67], kind=uniform", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=f64, shape=[5,1], kind=normal", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=f32, shape=[67], kind=normal", 1)
OP_CASE(random, "", "i64[]; i64[]", "dtype=f64, shape=[0], kind=uniform", 1)

/* ---- reductions ---------------------------------------------------------------------------- */
OP_CASE(reduce_sum, "N", "T[257]", "", 1)
OP_CASE(reduce_sum, "N", "T[16383]:finite", "", 1)
OP_CASE(reduce_sum, "N", "T[3,131,5]:finite", "axes=[1]", 1)
OP_CASE(reduce_sum, "N", "T[4,7,3]", "axes=[0,-1], keep=true", 1)
OP_CASE(reduce_sum, "N", "T[3,0]", "axes=[1]", 1)
OP_CASE(reduce_sum, "N", "T[]", "", 1)
OP_CASE(reduce_sum, "N", "T[0,5]", "axes=[1]", 1)
OP_CASE(batch_sum, "F", "T[9001]:finite", "", 1)
OP_CASE(batch_sum, "F", "T[300,7]:finite", "axes=[0]", 1)
OP_CASE(batch_sum, "F", "T[600,33]:small; T[33]:small", "axes=[0]", 1)
OP_CASE(batch_sum, "F", "T[4,3,70]; T[3]", "axes=[0,-1]", 1)
OP_CASE(batch_sum, "F", "T[0,5]; T[5]", "axes=[0]", 1)
OP_CASE(batch_sum, "F", "T[]", "", 1)
OP_CASE(batch_sum, "F", "T[2,7]; _", "axes=[1]", 1)
OP_CASE(batch_sum, "G", "T[300,17]:finite; f32[17]:finite", "axes=[0], dtype=f32", 1)
OP_CASE(reduce_prod, "N", "T[257]:small", "", 1)
OP_CASE(reduce_prod, "N", "T[3,7,5]", "axes=[0,2]", 1)
OP_CASE(reduce_prod, "N", "T[2,0]", "axes=[1], keep=true", 1)
OP_CASE(reduce_max, "N", "T[67]", "", 1)
OP_CASE(reduce_max, "N", "T[3,13,5]:finite", "axes=[1]", 1)
OP_CASE(reduce_max, "N", "T[0,3]", "axes=[1]", 1)
OP_CASE(reduce_min, "N", "T[67]", "", 1)
OP_CASE(reduce_min, "N", "T[3,13,5]:finite", "axes=[-1,0], keep=true", 1)
OP_CASE(reduce_and, "B", "T[3,7]", "axes=[1]", 1)
OP_CASE(reduce_and, "B", "T[0]", "", 1)
OP_CASE(reduce_or, "B", "T[5,3]", "axes=[0], keep=true", 1)
OP_CASE(reduce_or, "B", "T[2,0]", "axes=[1]", 1)
OP_CASE(argmax, "N", "T[5,67]", "", 1)
OP_CASE(argmax, "N", "T[13,3]:small", "axis=0, keep=true", 1)
OP_CASE(argmax, "N", "T[0,3]", "axis=1", 1)
OP_CASE(argmin, "N", "T[5,67]", "", 1)
OP_CASE(argmin, "N", "T[1,3]:small", "axis=0", 1)
OP_CASE(scan, "N", "T[3,131]:finite", "kind=sum", 1)
OP_CASE(scan, "N", "T[5000]:finite", "kind=sum", 1)
OP_CASE(scan, "N", "T[70,3]", "kind=prod, axis=0, reverse=true", 1)
OP_CASE(scan, "N", "T[2,67]", "kind=max, exclusive=true", 1)
OP_CASE(scan, "N", "T[129]", "kind=min, exclusive=true, reverse=true", 1)
OP_CASE(scan, "N", "T[3,0]", "kind=sum", 1)

/* ---- contractions -------------------------------------------------------------------------- */
OP_CASE(dot_general, "N", "T[5,7]:finite; T[7,3]:finite", "lhs_contract=[1], rhs_contract=[0]", 1)
OP_CASE(dot_general, "N", "T[2,5,4]:small; T[4,2,3]:small",
        "lhs_batch=[0], rhs_batch=[1], lhs_contract=[2], rhs_contract=[0]", 1)
OP_CASE(dot_general, "F", "T[3,600]:finite; T[600,5]:finite", "lhs_contract=[1], rhs_contract=[0]",
        1)
OP_CASE(dot_general, "F", "T[5,3,7]:small; T[7,4,5]:small",
        "lhs_contract=[2,0], rhs_contract=[0,2]", 1)
OP_CASE(dot_general, "N", "T[3]; T[5]", "", 1)
OP_CASE(dot_general, "N", "T[4,0]; T[0,4]", "lhs_contract=[1], rhs_contract=[0]", 1)
OP_CASE(dot_general, "G", "T[3,17]:small; T[17,2]:small",
        "lhs_contract=[1], rhs_contract=[0], dtype=f32", 1)
OP_CASE(dot_general, "", "i8[3,37]; i8[37,5]", "lhs_contract=[1], rhs_contract=[0], dtype=i32", 1)
OP_CASE(dot_general, "", "f32[3,37]:small; f16[37,5]:small", "lhs_contract=[1], rhs_contract=[0]",
        1)
OP_CASE(dot_general, "N", "T[5,7]:finite; T[7,3]:finite; T[5,3]",
        "lhs_contract=[1], rhs_contract=[0]", 1)
OP_CASE(dot_general, "F", "T[3,600]:finite; T[600,37]:finite; T[3,37]:finite",
        "lhs_contract=[1], rhs_contract=[0]", 1)
OP_CASE(dot_general, "N", "T[4,0]; T[0,4]; T[4,4]", "lhs_contract=[1], rhs_contract=[0]", 1)
OP_CASE(dot_general, "G", "T[9,517]:small; T[517,2]:small; f32[9,2]:small",
        "lhs_contract=[1], rhs_contract=[0], dtype=f32", 1)
OP_CASE(dot_general, "", "f32[3,37]:small; f32[37,5]:small; _",
        "lhs_contract=[1], rhs_contract=[0]", 1)
OP_CASE(matmul, "N", "T[5,7]:finite; T[7,3]:finite", "", 1)
OP_CASE(matmul, "F", "T[7,300]:finite; T[11,300]:finite", "transpose_b=true", 1)
OP_CASE(matmul, "F", "T[33,1]; T[1,17]", "", 1)
OP_CASE(matmul, "F", "T[2,1,3,5]:small; T[4,5,2]:small", "", 1)
OP_CASE(matmul, "F", "T[2,5,3]:small; T[2,5,4]:small", "transpose_a=true", 1)
OP_CASE(matmul, "F", "T[7]:small; T[3,7,2]:small", "", 1)
OP_CASE(matmul, "F", "T[3,2,7]:small; T[7]:small", "", 1)
OP_CASE(matmul, "N", "T[13]; T[13]", "", 1)
OP_CASE(matmul, "N", "T[4,0]; T[0,4]", "", 1)
OP_CASE(matmul, "N", "T[0,3]; T[3,5]", "", 1)
OP_CASE(matmul, "F", "T[0,2,3]; T[3,2]", "", 1)
OP_CASE(matmul, "F", "T[129,37]:finite; T[37,65]:finite", "", 1)
OP_CASE(matmul, "F", "T[3,5]; T[5,7]", "", 1)
OP_CASE(quant_matmul, "Q", "f32[3,512]:finite; T[7,512]", "", 1)
OP_CASE(quant_matmul, "Q", "f16[1,256]:small; T[33,256]", "", 1)
OP_CASE(quant_matmul, "Q", "bf16[2,2,256]:small; T[5,256]", "", 1)
OP_CASE(quant_matmul, "Q", "f32[0,256]; T[5,256]", "", 1)
OP_CASE(quant_matmul, "Q", "f32[3,0]; T[5,0]", "", 1)
OP_CASE(quant_matmul, "Q", "f32[3,768]:finite; T[7,768]", "act=int8", 1)
OP_CASE(dequantize, "Q", "T[3,512]", "", 1)
OP_CASE(dequantize, "Q", "T[2,1,256]", "dtype=bf16", 1)
OP_CASE(dequantize, "Q", "T[0,256]", "dtype=f16", 1)
OP_CASE(conv, "F", "T[2,3,7]:small; T[4,3,3]:small", "", 1)
OP_CASE(conv, "F", "T[1,4,7,5]:small; T[6,2,3,2]:small",
        "strides=[2,1], dilations=[1,2], pads=[1,0,2,1], groups=2", 1)
OP_CASE(conv, "F", "T[1,3,5,5]; T[3,1,3,3]:small", "groups=3, pads=[1,1,1,1]", 1)
OP_CASE(conv, "F", "T[2,3,5]:small; T[3,2,3]:small",
        "transposed=true, strides=[2], pads=[1,0], output_pads=[1]", 1)
OP_CASE(conv, "F", "T[1,4,3,4]:small; T[4,2,2,3]:small",
        "transposed=true, groups=2, dilations=[2,1]", 1)
OP_CASE(conv, "F", "T[1,2,7,5]:small; T[3,2,3,2]:small; T[1,3,5,4]:small", "", 1)
OP_CASE(conv, "", "f32[3,40,9]; f32[33,40,8]:small; f32[3,33,2]:small", "", 1)
OP_CASE(conv, "", "f32[2,5,70]; f32[3,5,3]:small; f32[2,3,68]:small", "", 1)
OP_CASE(conv, "F", "T[1,0,7]; T[4,0,3]; T[1,4,5]", "", 1)
OP_CASE(conv, "F", "T[0,3,7]; T[4,3,3]", "", 1)
OP_CASE(conv, "F", "T[1,0,7]; T[4,0,3]", "", 1)
OP_CASE(conv, "F", "T[1,2,0]; T[3,2,2]", "pads=[1,1]", 1)
OP_CASE(conv, "F", "T[1,2,3,3,3]:small; T[2,2,2,2,2]:small", "", 1)
OP_CASE(conv, "", "f32[3,7,9,8]:small; f32[37,7,7,7]:small", "", 1)
OP_CASE(conv, "", "f32[5,40,12]; f32[33,40,8]:small", "strides=[2], dilations=[1]", 1)
OP_CASE(pool, "N", "T[2,3,7]", "kernel=[3]", 1)
OP_CASE(pool, "N", "T[1,2,7,5]:finite", "kernel=[3,2], strides=[2,1], pads=[1,0,1,1]", 1)
OP_CASE(pool, "F", "T[1,2,7,5]:finite",
        "kind=average, kernel=[3,2], strides=[2,2], pads=[1,1,1,1], count_pad=true", 1)
OP_CASE(pool, "F", "T[1,2,8,5]:finite",
        "kind=average, kernel=[3,2], strides=[3,2], pads=[1,1,0,0], ceil_mode=true", 1)
OP_CASE(pool, "F", "T[1,2,9,6]:finite", "kind=average, kernel=[3,3], strides=[2,3], pads=[1,0,1,2]",
        1)
OP_CASE(pool, "N", "T[2,1,13]:finite", "kind=sum, kernel=[3], dilations=[2], pads=[2,2]", 1)
OP_CASE(pool, "F", "T[2,3,6,5]:finite", "kernel=[2,2], strides=[2,2]", 1)
OP_CASE(pool, "F", "T[1,2,7,9]:finite", "kernel=[2,3], strides=[2,3], pads=[1,1,0,2]", 1)
OP_CASE(pool, "F", "T[2,2,8]:finite",
        "kind=average, kernel=[3], strides=[3], pads=[1,0], ceil_mode=true", 1)
OP_CASE(pool, "F", "T[1,2,11]:finite", "kernel=[3], dilations=[3], strides=[2], pads=[1,3]", 1)
OP_CASE(pool, "F", "T[1,0,4]", "kind=sum, kernel=[2]", 1)
OP_CASE(pool, "F", "T[1,2,0]", "kind=sum, kernel=[2], pads=[1,1]", 1)
OP_CASE(pool, "F", "T[1,2,9]:finite", "kernel=[1], strides=[2], pads=[0,1]", 1)
OP_CASE(pool, "F", "T[1,9,4,4]:finite", "kernel=[3,3], strides=[2,2], pads=[0,0,1,1]", 1)
OP_CASE(pool_grad, "F", "T[2,3,6,4]:small; T[2,3,3,2]:small; T[2,3,3,2]:small",
        "kernel=[2,2], strides=[2,2]", 1)
OP_CASE(pool_grad, "F", "T[2,3,7,5]:const(2); T[2,3,3,2]:const(2); T[2,3,3,2]",
        "kernel=[2,2], strides=[2,2]", 1)
OP_CASE(pool_grad, "F", "T[1,2,7,9]:const(1); T[1,2,3,3]:const(1); T[1,2,3,3]:finite",
        "kernel=[2,3], strides=[2,3]", 1)
OP_CASE(pool_grad, "F", "T[1,2,7,5]:const(1); T[1,2,4,5]:const(1); T[1,2,4,5]:small",
        "kernel=[3,2], strides=[2,1], pads=[1,0,1,1]", 1)
OP_CASE(pool_grad, "F", "T[1,2,8]:small; T[1,2,3]:small; T[1,2,3]:small",
        "kind=average, kernel=[3], strides=[3], pads=[1,0], ceil_mode=true", 1)
OP_CASE(pool_grad, "F", "T[0,2,4,4]; T[0,2,2,2]; T[0,2,2,2]", "kernel=[2,2], strides=[2,2]", 1)

/* ---- optimisers ---------------------------------------------------------------------------- */
OP_CASE(sgd_step, "F", "T[67]:small; T[67]:small; T[]:small", "", 1)
OP_CASE(sgd_step, "F", "T[3,5]; T[3,5]; T[]; T[3,5]", "weight_decay=0.01, dampening=0.5", 2)
OP_CASE(sgd_step, "F", "T[7]:small; T[7]:small; T[]:small; T[7]:small", "nesterov=true", 2)
OP_CASE(adam_step, "F",
        "T[67]:small; T[67]:small; T[]:small; T[67]:small; T[67]:small; i64[]:const(3)", "", 3)
OP_CASE(adam_step, "F", "T[3,5]; T[3,5]; T[]; T[3,5]; T[3,5]; i64[]:const(2)",
        "decoupled=false, beta1=0.5, beta2=0.75, eps=0.001", 3)
OP_CASE(adam_step, "",
        "bf16[5]:small; f16[5]:small; f32[]:small; f32[5]:small; f32[5]:small; i64[]:const(1)", "",
        3)
OP_CASE(adam_step, "F", "T[0]; T[0]; T[]; T[0]; T[0]; i64[]", "", 3)
OP_CASE(lion_step, "F", "T[67]:small; T[67]:small; T[]:small; T[67]:small", "weight_decay=0.1", 2)
OP_CASE(adafactor_step, "F",
        "T[3,5]:small; T[3,5]:small; T[]:small; i64[]:const(3); T[3]:small; T[5]:small", "", 3)
OP_CASE(adafactor_step, "F",
        "T[2,3,4]:small; T[2,3,4]:small; T[]:small; i64[]:const(1); T[2,3]:small; T[2,4]:small",
        "relative=false, clip=0.25, weight_decay=0.1", 3)
OP_CASE(adafactor_step, "F", "T[67]:small; T[67]:small; T[]; i64[]:const(2); T[67]:small",
        "scale=false", 2)
OP_CASE(adafactor_step, "F", "T[]:small; T[]:small; T[]:small; i64[]:const(2); T[]:small; _", "", 2)
OP_CASE(adafactor_step, "",
        "bf16[7,3]:small; f16[7,3]:small; f32[]:small; i64[]:const(9); f32[7]:small; f32[3]:small",
        "", 3)
OP_CASE(adafactor_step, "F", "T[0,3]; T[0,3]; T[]; i64[]:const(9); T[0]; T[3]:small", "", 3)
OP_CASE(muon_step, "F", "T[3,5]:small; T[3,5]:small; T[]:small; T[3,5]:small", "", 2)
OP_CASE(muon_step, "F", "T[7,2]:small; T[7,2]:small; T[]:small; T[7,2]:small",
        "nesterov=false, momentum=0.5, weight_decay=0", 2)
OP_CASE(muon_step, "", "bf16[33,5]:small; f16[33,5]:small; f32[]:small; f32[33,5]:small", "", 2)
OP_CASE(muon_step, "F", "T[1,1]; T[1,1]; T[]; T[1,1]", "", 2)
OP_CASE(muon_step, "F", "T[3,0]; T[3,0]; T[]; T[3,0]", "", 2)
OP_CASE(ema_step, "F", "T[3,5]:small; T[3,5]:small", "", 1)
OP_CASE(ema_step, "", "f32[67]; bf16[67]", "decay=0.9", 1)
OP_CASE(ema_step, "F", "T[0,4]; T[0,4]", "", 1)
OP_CASE(learning_rate, "", "i64[]:const(7)", "", 1)
OP_CASE(learning_rate, "", "i64[]:below(40)", "schedule=linear, warmup=7, steps=30, floor=0.1", 1)
OP_CASE(learning_rate, "", "i64[]:below(40)", "schedule=cosine, rate=0.3, steps=30", 1)
OP_CASE(learning_rate, "", "i64[]", "schedule=inverse_sqrt, warmup=3", 1)
OP_CASE(learning_rate, "", "i64[]", "schedule=step, every=3, factor=0.5, floor=0.001", 1)
OP_CASE(learning_rate, "", "i64[]:below(40)", "schedule=wsd, warmup=5, steps=30, decay=12", 1)
OP_CASE(sum_squares, "F", "@unary", "", 1)
OP_CASE(sum_squares, "F", "T[3,5]:small", "", 1)
OP_CASE(sum_squares, "F", "T[4099]:finite", "", 1)
OP_CASE(sum_squares, "F", "T[]:small", "", 1)
OP_CASE(sum_squares, "F", "T[3,0]", "", 1)
OP_CASE(clip_norm, "F", "T[3,5]:small; T[]:const(4)", "", 1)
OP_CASE(clip_norm, "F", "T[67]; T[]", "max=0.5", 1)
OP_CASE(clip_norm, "", "bf16[7]:finite; f32[]:small", "max=0.5", 1)
OP_CASE(clip_norm, "F", "T[0]; T[]", "", 1)
OP_CASE(all_finite, "F", "@unary", "", 1)
OP_CASE(all_finite, "F", "T[67]:finite", "", 1)
OP_CASE(all_finite, "F", "T[0]", "", 1)

/* ---- index, order -------------------------------------------------------------------------- */
OP_CASE(gather, "P", "T[7,5]; i64[3]:index(7)", "", 1)
OP_CASE(gather, "P", "T[2,7,3]; i32[2,2]:index(7)", "axis=1", 1)
OP_CASE(gather, "P", "T[5]; i64[]:index(5)", "axis=-1", 1)
OP_CASE(gather, "P", "T[5,3]; i64[0]", "", 1)
OP_CASE(gather, "P", "T[4,0]; i32[3]:index(4)", "", 1)
OP_CASE(embedding, "F", "T[11,7]; i64[2,3]:index(11)", "", 1)
OP_CASE(embedding, "G", "T[11,37]; i32[5]:index(11)", "dtype=f32", 1)
OP_CASE(embedding, "Q", "T[5,256]; i32[3]:index(5)", "", 1)
OP_CASE(embedding, "Q", "T[5,256]; i64[1,2]:index(5)", "dtype=f16", 1)
OP_CASE(embedding, "F", "T[3,5]; i64[0]", "", 1)
OP_CASE(scatter, "P", "T[7,3]; i64[5]:index(7); T[5,3]", "kind=set", 1)
OP_CASE(scatter, "N", "T[3,5]; i32[9]:index(5); T[3,9]:finite", "axis=1, kind=add", 1)
OP_CASE(scatter, "N", "T[2,5,2]; i64[2,2]:index(5); T[2,2,2,2]:small", "axis=1, kind=mul", 1)
OP_CASE(scatter, "N", "T[7]; i64[13]:index(7); T[13]", "kind=max", 1)
OP_CASE(scatter, "N", "T[7]; i64[13]:index(7); T[13]", "kind=min", 1)
OP_CASE(scatter, "P", "T[3,2]; i64[0]; T[0,2]", "", 1)
OP_CASE(sort, "N", "T[5,17]", "", 2)
OP_CASE(sort, "N", "T[13,3]:small", "axis=0, descending=true", 2)
OP_CASE(sort, "N", "T[131]:small", "", 1)
OP_CASE(sort, "N", "T[3,0]", "", 2)
OP_CASE(sort, "N", "T[1]", "", 1)
OP_CASE(topk, "N", "T[5,17]", "k=3", 2)
OP_CASE(topk, "N", "T[13,3]:small", "axis=0, k=13", 2)
OP_CASE(topk, "N", "T[67]:small", "k=5", 1)
OP_CASE(topk, "N", "T[3,0]", "k=0", 2)

/* ---- composites ---------------------------------------------------------------------------- */
OP_CASE(relu, "N", "@unary", "", 1)
OP_CASE(gelu, "F", "@unary", "", 1)
OP_CASE(gelu, "F", "@unary", "form=tanh", 1)
OP_CASE(silu, "F", "@unary", "", 1)
OP_CASE(softmax, "F", "T[5,67]:row", "", 1)
OP_CASE(softmax, "F", "T[3,131,2]:row", "axis=1, masked_zero=true", 1)
OP_CASE(softmax, "F", "T[2,5000]:finite", "", 1)
OP_CASE(softmax, "F", "T[3,0]", "", 1)
OP_CASE(softmax, "F", "T[0,3]", "", 1)
OP_CASE(softmax, "F", "T[7,1]", "", 1)
OP_CASE(log_softmax, "F", "T[5,67]:row", "", 1)
OP_CASE(log_softmax, "F", "T[13,3]:row", "axis=0", 1)
OP_CASE(log_softmax, "F", "T[3,0]", "", 1)
OP_CASE(logsumexp, "F", "T[5,67]:row", "", 1)
OP_CASE(logsumexp, "F", "T[13,3]:row", "axis=0, keep=true", 1)
OP_CASE(logsumexp, "F", "T[3,0]", "", 1)
OP_CASE(reduce_mean, "F", "T[3,131]:finite", "axes=[1]", 1)
OP_CASE(reduce_mean, "F", "T[5,3,7]", "axes=[0,2], keep=true", 1)
OP_CASE(reduce_mean, "F", "T[3,0]", "axes=[1]", 1)
OP_CASE(reduce_mean, "F", "T[]", "", 1)
OP_CASE(layer_norm, "F", "T[5,67]:finite; T[67]:small; T[67]:small", "", 1)
OP_CASE(layer_norm, "F", "T[2,3,5]:row; _; T[3,5]:small", "axis=1, eps=0.1", 1)
OP_CASE(layer_norm, "F", "T[7,131]:finite", "", 1)
OP_CASE(layer_norm, "G", "T[2,5]:finite; f32[5]:small; f32[5]:small", "", 1)
OP_CASE(layer_norm, "F", "T[3,0]; T[0]; T[0]", "", 1)
OP_CASE(rms_norm, "F", "T[5,67]:finite; T[67]:small", "", 1)
OP_CASE(rms_norm, "F", "T[2,3,5]:row", "axis=-2", 1)
OP_CASE(rms_norm, "G", "T[2,576]:finite; f32[576]:small", "eps=0.00001", 1)
OP_CASE(rms_norm, "F", "T[0,3]; T[3]", "", 1)
OP_CASE(cross_entropy, "F", "T[5,17]:finite; i64[5]:below(16)", "", 1)
OP_CASE(cross_entropy, "F", "T[2,3,131]:row; i32[2,3]:below(130)", "ignore_index=2", 1)
OP_CASE(cross_entropy, "F", "T[3,7]:finite; i64[3]:const(-100)", "", 1)
OP_CASE(cross_entropy, "F", "T[0,7]; i64[0]", "", 1)
OP_CASE(rope, "F", "T[2,3,2,8]:finite; i64[2,3]:below(50); f32[4]:finite", "", 1)
OP_CASE(rope, "F", "T[1,5,3,10]:small; i32[5]:index(3000); f32[3]:small", "pairing=pairs", 1)
OP_CASE(rope, "F", "T[2,1,1,7]; i64[1]:below(9); f32[2]:small", "", 1)
OP_CASE(rope, "F", "T[1,0,2,4]; i32[0]; f32[2]", "", 1)
OP_CASE(rope, "F", "T[1,2,2,64]:finite; i32[2]:below(2000); f32[32]:small", "", 1)
OP_CASE(attention, "F", "T[1,3,2,8]:small; T[1,5,2,8]:small; T[1,5,2,8]:small", "", 1)
OP_CASE(attention, "F", "T[2,4,4,5]:small; T[2,67,2,5]:small; T[2,67,2,3]:small",
        "causal=bottom_right, lse=true", 2)
OP_CASE(attention, "F", "T[1,5,2,4]:small; T[1,5,1,4]:small; T[1,5,1,4]:small",
        "causal=top_left, window=2", 1)
OP_CASE(attention, "F", "T[1,5,1,4]:small; T[1,2,1,4]:small; T[1,2,1,4]:small",
        "causal=bottom_right", 1)
OP_CASE(attention, "F", "T[2,3,2,4]:small; T[2,7,2,4]:small; T[2,7,2,4]:small; bool[2,1,3,7]", "",
        1)
OP_CASE(attention, "F",
        "T[2,3,2,4]:small; T[2,7,2,4]:small; T[2,7,2,4]:any; T[3,7]:row; i64[2]:below(7)",
        "softcap=5, lse=true", 2)
OP_CASE(attention, "F",
        "T[2,1,3,16]:small; T[2,200,3,16]:small; T[2,200,3,16]:small; _; i32[2]:below(200)",
        "causal=bottom_right, window=70, scale=0.25", 1)
OP_CASE(attention, "F", "T[1,2,1,4]:any; T[1,3,1,4]:any; T[1,3,1,4]:any", "", 1)
OP_CASE(attention, "F", "T[1,2,1,4]; T[1,0,1,4]; T[1,0,1,4]", "lse=true", 2)
OP_CASE(attention, "F", "T[0,2,1,4]; T[0,3,1,4]; T[0,3,1,4]", "", 1)
OP_CASE(attention, "F", "T[1,2,0,4]; T[1,3,0,4]; T[1,3,0,4]; T[2,3]:small", "lse=true", 2)
OP_CASE(attention, "", "f32[1,3,4,8]:small; f16[1,70,2,8]:small; f16[1,70,2,8]:small",
        "causal=bottom_right", 1)
OP_CASE(attention_grad, "G",
        "T[1,3,2,8]:small; T[1,5,2,8]:small; T[1,5,2,8]:small; _; _; T[1,3,2,8]:small; "
        "f32[1,2,3]:small; T[1,3,2,8]:small",
        "", 3)
OP_CASE(attention_grad, "G",
        "T[2,4,4,5]:small; T[2,67,2,5]:small; T[2,67,2,3]:small; _; _; T[2,4,4,3]:small; "
        "f32[2,4,4]:small; T[2,4,4,3]:small; f32[2,4,4]:small",
        "causal=bottom_right", 3)
OP_CASE(attention_grad, "G",
        "T[1,5,2,4]:small; T[1,5,1,4]:small; T[1,5,1,4]:small; _; _; T[1,5,2,4]:small; "
        "f32[1,2,5]:small; T[1,5,2,4]:small",
        "causal=top_left, window=2", 3)
OP_CASE(attention_grad, "G",
        "T[2,3,2,4]:small; T[2,7,2,4]:small; T[2,7,2,4]:small; bool[2,1,3,7]; i64[2]:below(7); "
        "T[2,3,2,4]:small; f32[2,2,3]:small; T[2,3,2,4]:small; f32[2,2,3]:small",
        "softcap=5, scale=0.7", 3)
OP_CASE(attention_grad, "G",
        "T[1,3,2,4]:small; T[1,7,1,4]:small; T[1,7,1,4]:small; T[3,7]:row; _; T[1,3,2,4]:small; "
        "f32[1,2,3]:small; T[1,3,2,4]:small",
        "", 3)
OP_CASE(attention_grad, "",
        "f64[1,3,2,8]:small; f64[1,5,2,8]:small; f64[1,5,2,8]:small; _; _; f64[1,3,2,8]:small; "
        "f64[1,2,3]:small; f64[1,3,2,8]:small",
        "", 3)
OP_CASE(attention_grad, "",
        "f64[2,4,4,5]:small; f64[2,67,2,5]:small; f64[2,67,2,3]:small; _; _; f64[2,4,4,3]:small; "
        "f64[2,4,4]:small; f64[2,4,4,3]:small; f64[2,4,4]:small",
        "causal=bottom_right", 3)
OP_CASE(attention_grad, "",
        "f64[1,5,2,4]:small; f64[1,5,1,4]:small; f64[1,5,1,4]:small; _; _; f64[1,5,2,4]:small; "
        "f64[1,2,5]:small; f64[1,5,2,4]:small",
        "causal=top_left, window=2", 3)
OP_CASE(
    attention_grad, "",
    "f64[2,3,2,4]:small; f64[2,7,2,4]:small; f64[2,7,2,4]:small; bool[2,1,3,7]; i64[2]:below(7); "
    "f64[2,3,2,4]:small; f64[2,2,3]:small; f64[2,3,2,4]:small; f64[2,2,3]:small",
    "softcap=5, scale=0.7", 3)
OP_CASE(attention_grad, "",
        "f64[1,3,2,4]:small; f64[1,7,1,4]:small; f64[1,7,1,4]:small; f64[3,7]:row; _; "
        "f64[1,3,2,4]:small; f64[1,2,3]:small; f64[1,3,2,4]:small",
        "", 3)
OP_CASE(attention_grad, "G",
        "T[1,2,1,4]; T[1,3,1,4]; T[1,3,1,4]; _; _; T[1,2,1,4]; f32[1,1,2]; T[1,2,1,4]", "", 3)
OP_CASE(attention_grad, "G",
        "T[1,2,1,4]; T[1,0,1,4]; T[1,0,1,4]; _; _; T[1,2,1,4]; f32[1,1,2]; T[1,2,1,4]", "", 3)
OP_CASE(attention_grad, "G",
        "T[0,2,1,4]; T[0,3,1,4]; T[0,3,1,4]; _; _; T[0,2,1,4]; f32[0,1,2]; T[0,2,1,4]", "", 3)
OP_CASE(attention_grad, "G",
        "T[1,2,0,4]; T[1,3,0,4]; T[1,3,0,4]; _; _; T[1,2,0,4]; f32[1,0,2]; T[1,2,0,4]", "", 3)
OP_CASE(attention_grad, "",
        "f32[1,150,2,8]:small; f32[1,70,1,8]:small; f32[1,70,1,8]:small; _; _; "
        "f32[1,150,2,8]:small; f32[1,2,150]:small; f32[1,150,2,8]:small",
        "causal=bottom_right", 3)
OP_CASE(attention_grad, "",
        "f32[1,3,4,8]:small; f16[1,70,2,8]:small; f16[1,70,2,8]:small; _; i32[1]:below(70); "
        "f32[1,3,4,8]:small; f32[1,4,3]:small; f32[1,3,4,8]:small",
        "causal=bottom_right", 3)

#undef OP_CASE
