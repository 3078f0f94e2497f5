/* Programs that fusion makes kernels of, with their inputs. */
#ifndef MLSI_TESTS_FUSE_CASES_H
#define MLSI_TESTS_FUSE_CASES_H

#include <mlsys/mlsys.h>

#include <stdint.h>

typedef struct fuse_case {
    const char *name, *text;
    int calls; /* calls of generated kernels in main */
    int n_in, n_out;
    mlsys_dtype dtypes[5];
    int ranks[5];
    int64_t shapes[5][4];
} fuse_case;

#define F32 MLSYS_F32
static const fuse_case cases[] = {
    {"gelu(a*b+c)*sigmoid(a)+b",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"a\" : f32[1000]\n"
     "  %1 = input \"b\" : f32[1000]\n"
     "  %2 = input \"c\" : f32[1000]\n"
     "  %3 = mul(%0, %1) : f32[1000]\n"
     "  %4 = add(%3, %2) : f32[1000]\n"
     "  %5 = gelu(%4) : f32[1000]\n"
     "  %6 = sigmoid(%0) : f32[1000]\n"
     "  %7 = mul(%5, %6) : f32[1000]\n"
     "  %8 = add(%7, %1) : f32[1000]\n"
     "  output \"y\" %8\n"
     "}\n",
     1,
     3,
     1,
     {F32, F32, F32},
     {1, 1, 1},
     {{1000}, {1000}, {1000}}},
    {"residual and norm, two outputs",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[5,300]\n"
     "  %1 = input \"d\" : f32[5,300]\n"
     "  %2 = input \"w\" : f32[300]\n"
     "  %3 = add(%0, %1) : f32[5,300]\n"
     "  %4 = rms_norm(%3, %2) {eps=1e-05} : f32[5,300]\n"
     "  output \"x1\" %3\n"
     "  output \"n\" %4\n"
     "}\n",
     1,
     3,
     2,
     {F32, F32, F32},
     {2, 2, 1},
     {{5, 300}, {5, 300}, {300}}},
    {"softmax of scaled scores",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,4,129]\n"
     "  %1 = input \"s\" : f32[]\n"
     "  %2 = mul(%0, %1) : f32[3,4,129]\n"
     "  %3 = softmax(%2) : f32[3,4,129]\n"
     "  %4 = mul(%3, %2) : f32[3,4,129]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     2,
     1,
     {F32, F32},
     {3, 0},
     {{3, 4, 129}, {0}}},
    {"row sums of a product",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[7,5000]\n"
     "  %1 = input \"y\" : f32[7,5000]\n"
     "  %2 = mul(%0, %1) : f32[7,5000]\n"
     "  %3 = reduce_sum(%2) {axes=[1]} : f32[7]\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     2,
     1,
     {F32, F32},
     {2, 2},
     {{7, 5000}, {7, 5000}}},
    {"norm of the last two axes",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[5,3,40]\n"
     "  %1 = input \"w\" : f32[3,40]\n"
     "  %2 = rms_norm(%0, %1) {axis=1} : f32[5,3,40]\n"
     "  %3 = gelu(%2) : f32[5,3,40]\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     2,
     1,
     {F32, F32},
     {3, 2},
     {{5, 3, 40}, {3, 40}}},
    {"layer norm with bias and gelu",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[4,77]\n"
     "  %1 = input \"w\" : f32[77]\n"
     "  %2 = input \"b\" : f32[77]\n"
     "  %3 = layer_norm(%0, %1, %2) : f32[4,77]\n"
     "  %4 = gelu(%3) {form=tanh} : f32[4,77]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     3,
     1,
     {F32, F32, F32},
     {2, 1, 1},
     {{4, 77}, {77}, {77}}},
    {"half precision",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f16[3,50]\n"
     "  %1 = input \"y\" : f16[3,50]\n"
     "  %2 = mul(%0, %1) : f16[3,50]\n"
     "  %3 = exp(%2) : f16[3,50]\n"
     "  %4 = add(%3, %0) : f16[3,50]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     2,
     1,
     {MLSYS_F16, MLSYS_F16},
     {2, 2},
     {{3, 50}, {3, 50}}},
    {"masks",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,50]\n"
     "  %1 = input \"m\" : bool[3,50]\n"
     "  %2 = relu(%0) : f32[3,50]\n"
     "  %3 = lt(%2, %0) : bool[3,50]\n"
     "  %4 = or(%3, %1) : bool[3,50]\n"
     "  %5 = select(%4, %2, %0) : f32[3,50]\n"
     "  output \"y\" %5\n"
     "  output \"m\" %4\n"
     "}\n",
     1,
     2,
     2,
     {F32, MLSYS_BOOL},
     {2, 2},
     {{3, 50}, {3, 50}}},
    {"order of truth values",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,50]\n"
     "  %1 = input \"m\" : bool[3,50]\n"
     "  %2 = gt(%0, %0) : bool[3,50]\n"
     "  %3 = lt(%2, %1) : bool[3,50]\n"
     "  %4 = ge(%3, %2) : bool[3,50]\n"
     "  %5 = le(%4, %1) : bool[3,50]\n"
     "  %6 = gt(%5, %3) : bool[3,50]\n"
     "  output \"a\" %3\n"
     "  output \"b\" %6\n"
     "}\n",
     1,
     2,
     2,
     {F32, MLSYS_BOOL},
     {2, 2},
     {{3, 50}, {3, 50}}},
    {"a value a row beside its row",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[2,3,50]\n"
     "  %1 = input \"r\" : f32[2,3,1]\n"
     "  %2 = exp(%1) : f32[2,3,1]\n"
     "  %3 = add(%0, %2) : f32[2,3,50]\n"
     "  output \"r\" %2\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     2,
     2,
     {F32, F32},
     {3, 3},
     {{2, 3, 50}, {2, 3, 1}}},
    {"sums of rows, read by column",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[7,7]\n"
     "  %1 = exp(%0) : f32[7,7]\n"
     "  %2 = reduce_sum(%1) {axes=[1]} : f32[7]\n"
     "  %3 = div(%0, %2) : f32[7,7]\n"
     "  %4 = mul(%3, %3) : f32[7,7]\n"
     "  output \"y\" %4\n"
     "}\n",
     2,
     1,
     1,
     {F32},
     {2},
     {{7, 7}}},
    {"a softmax, read with its rows turned",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,3,40]\n"
     "  %1 = softmax(%0) : f32[3,3,40]\n"
     "  %2 = transpose(%1) {perm=[1,0,2]} : f32[3,3,40]\n"
     "  %3 = add(%2, %0) : f32[3,3,40]\n"
     "  %4 = mul(%3, %3) : f32[3,3,40]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {3},
     {{3, 3, 40}}},
    {"a row's sum, broadcast by a node of its own",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[6,40]\n"
     "  %1 = reduce_sum(%0) {axes=[1], keep=true} : f32[6,1]\n"
     "  %2 = broadcast(%1) {shape=[6,40]} : f32[6,40]\n"
     "  %3 = sub(%0, %2) : f32[6,40]\n"
     "  %4 = exp(%3) : f32[6,40]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {2},
     {{6, 40}}},
    {"a broadcast that others read before the group ends",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[6,40]\n"
     "  %1 = input \"r\" : f32[6,1]\n"
     "  %2 = exp(%1) : f32[6,1]\n"
     "  %3 = broadcast(%2) {shape=[6,40]} : f32[6,40]\n"
     "  %4 = scan(%3) {axis=1} : f32[6,40]\n"
     "  %5 = sub(%0, %3) : f32[6,40]\n"
     "  %6 = add(%5, %4) : f32[6,40]\n"
     "  output \"y\" %6\n"
     "}\n",
     1,
     2,
     1,
     {F32, F32},
     {2, 2},
     {{6, 40}, {6, 1}}},
    {"a length that may be 0",
     "symbol L 0 140 1\n"
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[5,L]\n"
     "  %1 = exp(%0) : f32[5,L]\n"
     "  %2 = mul(%1, %0) : f32[5,L]\n"
     "  output \"y\" %2\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {2},
     {{5, 37}}},
    {"an axis of one taken away",
     "symbol S 8 72 8\n"
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[1,S]\n"
     "  %1 = input \"y\" : f32[S]\n"
     "  %2 = reshape(%0) {shape=[S]} : f32[S]\n"
     "  %3 = add(%1, %2) : f32[S]\n"
     "  %4 = mul(%3, %2) : f32[S]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     2,
     1,
     {F32, F32},
     {2, 1},
     {{1, 40}, {40}}},
    {"functions that are nearly equal",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,50]\n"
     "  %1 = input \"y\" : f32[3,50]\n"
     "  %2 = sub(%0, %1) : f32[3,50]\n"
     "  %3 = mul(%2, %0) : f32[3,50]\n"
     "  %4 = sub(%1, %0) : f32[3,50]\n"
     "  %5 = mul(%4, %0) : f32[3,50]\n"
     "  %6 = add(%0, %1) : f32[3,50]\n"
     "  %7 = mul(%6, %0) : f32[3,50]\n"
     "  %8 = const f32[] hex:00002040\n"
     "  %9 = mul(%0, %8) : f32[3,50]\n"
     "  %10 = tanh(%9) : f32[3,50]\n"
     "  %11 = const f32[] hex:00006040\n"
     "  %12 = mul(%0, %11) : f32[3,50]\n"
     "  %13 = tanh(%12) : f32[3,50]\n"
     "  %14 = slice(%0) {starts=[0,0], stops=[3,20], steps=[1,1]} : f32[3,20]\n"
     "  %15 = exp(%14) : f32[3,20]\n"
     "  %16 = mul(%15, %14) : f32[3,20]\n"
     "  %17 = slice(%0) {starts=[0,20], stops=[3,40], steps=[1,1]} : f32[3,20]\n"
     "  %18 = exp(%17) : f32[3,20]\n"
     "  %19 = mul(%18, %17) : f32[3,20]\n"
     "  output \"a\" %3\n"
     "  output \"b\" %5\n"
     "  output \"c\" %7\n"
     "  output \"d\" %10\n"
     "  output \"e\" %13\n"
     "  output \"f\" %16\n"
     "  output \"g\" %19\n"
     "}\n",
     7,
     2,
     7,
     {F32, F32},
     {2, 2},
     {{3, 50}, {3, 50}}},
    {"differences of neighbours",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,51]\n"
     "  %1 = slice(%0) {starts=[0,0], stops=[3,50], steps=[1,1]} : f32[3,50]\n"
     "  %2 = slice(%0) {starts=[0,1], stops=[3,51], steps=[1,1]} : f32[3,50]\n"
     "  %3 = sub(%2, %1) : f32[3,50]\n"
     "  %4 = mul(%3, %3) : f32[3,50]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {2},
     {{3, 51}}},
    {"sums of halves",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f16[3,200]\n"
     "  %1 = reduce_sum(%0) {axes=[1], keep=true} : f16[3,1]\n"
     "  %2 = div(%0, %1) : f16[3,200]\n"
     "  %3 = sub(%2, %0) : f16[3,200]\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     1,
     1,
     {MLSYS_F16},
     {2},
     {{3, 200}}},
    {"two rows kept",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,60]\n"
     "  %1 = exp(%0) : f32[3,60]\n"
     "  %2 = tanh(%0) : f32[3,60]\n"
     "  %3 = reduce_sum(%1) {axes=[1], keep=true} : f32[3,1]\n"
     "  %4 = reduce_sum(%2) {axes=[1], keep=true} : f32[3,1]\n"
     "  %5 = mul(%1, %4) : f32[3,60]\n"
     "  %6 = mul(%2, %3) : f32[3,60]\n"
     "  %7 = add(%5, %6) : f32[3,60]\n"
     "  output \"y\" %7\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {2},
     {{3, 60}}},
#include "support/fuse_cases_integers.inc"
    {"a division by -0",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,50]\n"
     "  %1 = const f32[] hex:00000080\n"
     "  %2 = div(%0, %1) : f32[3,50]\n"
     "  %3 = add(%2, %0) : f32[3,50]\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {2},
     {{3, 50}}},
    {"a slice backwards from before the first element",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,50]\n"
     "  %1 = slice(%0) {starts=[-5,0], stops=[-9223372036854775808,50], steps=[-1,1]} : "
     "f32[1,50]\n"
     "  %2 = exp(%1) : f32[1,50]\n"
     "  %3 = mul(%2, %2) : f32[1,50]\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {2},
     {{3, 50}}},
    {"leading axes merged, one of which may be 0",
     "symbol L 0 140 1\n"
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[3,L,9]\n"
     "  %1 = exp(%0) : f32[3,L,9]\n"
     "  %2 = reshape(%1) {shape=[3*L,9]} : f32[3*L,9]\n"
     "  %3 = sub(%2, %2) : f32[3*L,9]\n"
     "  %4 = softmax(%3) : f32[3*L,9]\n"
     "  output \"y\" %4\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {3},
     {{3, 20, 9}}},
    {"a fraction cut to an integer and back: its zero is +0",
     "functions 1\n"
     "func 0 \"main\" {\n"
     "  %0 = input \"x\" : f32[1000]\n"
     "  %1 = sin(%0) : f32[1000]\n"
     "  %2 = cast(%1) {dtype=i64} : i64[1000]\n"
     "  %3 = cast(%2) {dtype=f32} : f32[1000]\n"
     "  output \"y\" %3\n"
     "}\n",
     1,
     1,
     1,
     {F32},
     {1},
     {{1000}}}};

#endif
