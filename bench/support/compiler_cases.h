/* Subgraphs that the compiler makes one kernel of, as IR text. $N rows * columns, $R rows, $C columns. The same functions
 * in PyTorch, under the same names: bench/compiler_torch.py. */
#ifndef BENCH_COMPILER_CASES_H
#define BENCH_COMPILER_CASES_H

#include <stdint.h>

typedef struct compiler_case {
    const char *name, *text;
    int64_t rows, columns;
    enum {
        CASE_ROWS,
        CASE_SUBGRAPH,
        CASE_LIMIT
    } kind; /* SUBGRAPH: counts in the geometric mean; LIMIT: has no peer */
} compiler_case;

#define BEGIN           "mlsys-ir 1\nfunctions 1\nfunc 0 \"main\" {\n"
#define END             "}\n"
#define X(n)            "  %" #n " = input \"x" #n "\" : f32[$R,$C]\n"
#define COLUMN(n)       "  %" #n " = input \"x" #n "\" : f32[$C]\n"
#define ROW(n)          "  %" #n " = input \"x" #n "\" : f32[$R,1]\n"
#define NUMBER(n, v)    "  %" #n " = full() {dtype=f32, shape=[], value=" #v "} : f32[]\n"
#define IS(n, what)     "  %" #n " = " what " : f32[$R,$C]\n"
#define ROW_IS(n, what) "  %" #n " = " what " : f32[$R,1]\n"
#define OUT(n)          "  output \"y" #n "\" %" #n "\n"

static const compiler_case compiler_cases[] = {
    /* three reads and a write with nothing to compute: what memory gives this pattern */
    {"a + b + c",
     BEGIN "  %0 = input \"a\" : f32[$N]\n  %1 = input \"b\" : f32[$N]\n"
           "  %2 = input \"c\" : f32[$N]\n  %3 = add(%0, %1) : f32[$N]\n"
           "  %4 = add(%3, %2) : f32[$N]\n" OUT(4) END,
     65536, 1024, CASE_LIMIT},
    {"gelu(a*b+c)*sigmoid(a)+b",
     BEGIN "  %0 = input \"a\" : f32[$N]\n  %1 = input \"b\" : f32[$N]\n"
           "  %2 = input \"c\" : f32[$N]\n  %3 = mul(%0, %1) : f32[$N]\n"
           "  %4 = add(%3, %2) : f32[$N]\n  %5 = gelu(%4) : f32[$N]\n"
           "  %6 = sigmoid(%0) : f32[$N]\n  %7 = mul(%5, %6) : f32[$N]\n"
           "  %8 = add(%7, %1) : f32[$N]\n" OUT(8) END,
     65536, 1024, CASE_ROWS},
    {"softmax(x*s+m)*w",
     BEGIN X(0) COLUMN(1) COLUMN(2) NUMBER(3, 0.125) IS(4, "mul(%0, %3)") IS(5, "add(%4, %1)")
         IS(6, "softmax(%5)") IS(7, "mul(%6, %2)") OUT(7) END,
     16384, 1024, CASE_ROWS},
    {"relu(layer_norm(x+b))",
     BEGIN X(0) COLUMN(1) COLUMN(2) COLUMN(3) IS(4, "add(%0, %1)") IS(5, "layer_norm(%4, %2, %3)")
         IS(6, "relu(%5)") OUT(6) END,
     16384, 1024, CASE_ROWS},
    {"rms_norm(x*s)*u",
     BEGIN X(0) COLUMN(1) COLUMN(2) COLUMN(3) IS(4, "mul(%0, %1)")
         IS(5, "rms_norm(%4, %2) {eps=1e-05}") IS(6, "mul(%5, %3)") OUT(6) END,
     16384, 1024, CASE_ROWS},

    {"Llama: residual, rms_norm",
     BEGIN X(0) X(1) COLUMN(2) IS(3, "add(%0, %1)") IS(4, "rms_norm(%3, %2) {eps=1e-05}") OUT(3)
         OUT(4) END,
     16384, 1024, CASE_SUBGRAPH},
    {"Llama: silu(gate)*up", BEGIN X(0) X(1) IS(2, "silu(%0)") IS(3, "mul(%2, %1)") OUT(3) END,
     16384, 1024, CASE_SUBGRAPH},
    {"BERT: bias, gelu", BEGIN X(0) COLUMN(1) IS(2, "add(%0, %1)") IS(3, "gelu(%2)") OUT(3) END,
     16384, 1024, CASE_SUBGRAPH},
    {"BERT: dropout, residual, layer_norm",
     BEGIN X(0) X(1) COLUMN(2) COLUMN(3) "  %4 = input \"keep\" : bool[$R,$C]\n" NUMBER(5, 0)
         NUMBER(6, 1.1111112) IS(7, "select(%4, %0, %5)") IS(8, "mul(%7, %6)") IS(9, "add(%8, %1)")
             IS(10, "layer_norm(%9, %2, %3)") OUT(10) END,
     16384, 1024, CASE_SUBGRAPH},
    {"GPT training: AdamW",
     BEGIN X(0) X(1) X(2) X(3) NUMBER(4, 0.9) NUMBER(5, 0.1) NUMBER(6, 0.999) NUMBER(7, 0.001)
         NUMBER(8, 1e-8) NUMBER(9, 0.0003) NUMBER(10, 0.99997) IS(11, "mul(%2, %4)") IS(
             12, "mul(%1, %5)") IS(13, "add(%11, %12)") IS(14, "mul(%1, %1)") IS(15, "mul(%3, %6)")
             IS(16, "mul(%14, %7)") IS(17, "add(%15, %16)") IS(18, "sqrt(%17)")
                 IS(19, "add(%18, %8)") IS(20, "div(%13, %19)") IS(21, "mul(%20, %9)")
                     IS(22, "mul(%0, %10)") IS(23, "sub(%22, %21)") OUT(23) OUT(13) OUT(17) END,
     16384, 1024, CASE_SUBGRAPH},
    {"GPT training: gelu backward",
     BEGIN X(0) X(1) NUMBER(2, 0.70710678) NUMBER(3, 0.5) NUMBER(4, 1) NUMBER(5, -0.5)
         NUMBER(6, 0.39894228) IS(7, "mul(%0, %2)") IS(8, "erf(%7)") IS(9, "add(%8, %4)")
             IS(10, "mul(%9, %3)") IS(11, "mul(%0, %0)") IS(12, "mul(%11, %5)") IS(13, "exp(%12)")
                 IS(14, "mul(%13, %6)") IS(15, "mul(%0, %14)") IS(16, "add(%10, %15)")
                     IS(17, "mul(%1, %16)") OUT(17) END,
     16384, 1024, CASE_SUBGRAPH},
    {"GPT training: softmax backward",
     BEGIN X(0) X(1) NUMBER(2, 0.125) IS(3, "mul(%0, %1)")
         ROW_IS(4, "reduce_sum(%3) {axes=[1], keep=true}") IS(5, "sub(%1, %4)") IS(6, "mul(%5, %0)")
             IS(7, "mul(%6, %2)") OUT(7) END,
     16384, 1024, CASE_SUBGRAPH},
    {"GPT training: cross-entropy backward",
     BEGIN X(0) ROW(
         1) "  %2 = input \"label\" : i32[$R,1]\n"
            "  %3 = iota() {dtype=i32, shape=[$C]} : i32[$C]\n" NUMBER(
                4, 0.000061035156) "  %5 = eq(%3, %2) : bool[$R,$C]\n" IS(6, "cast(%5) {dtype=f32}")
                IS(7, "sub(%0, %1)") IS(8, "exp(%7)") IS(9, "sub(%8, %6)") IS(10, "mul(%9, %4)")
                    OUT(10) END,
     2048, 8192, CASE_SUBGRAPH},
    {"GPT training: layer_norm backward",
     BEGIN X(0) X(1) COLUMN(2) ROW(3) ROW(4) IS(5, "sub(%0, %3)") IS(6, "mul(%5, %4)") IS(
         7, "mul(%1, %2)") ROW_IS(8, "reduce_mean(%7) {axes=[1], keep=true}") IS(9, "mul(%7, %6)")
         ROW_IS(10, "reduce_mean(%9) {axes=[1], keep=true}") IS(11, "sub(%7, %8)")
             IS(12, "mul(%6, %10)") IS(13, "sub(%11, %12)") IS(14, "mul(%13, %4)") OUT(14) END,
     16384, 1024, CASE_SUBGRAPH},
    {"conv net: batch norm, residual, relu",
     BEGIN X(0) X(1) ROW(2) ROW(3) IS(4, "mul(%0, %2)") IS(5, "add(%4, %3)") IS(6, "add(%5, %1)")
         IS(7, "relu(%6)") OUT(7) END,
     16384, 1024, CASE_SUBGRAPH},
    {"conv net: batch norm, relu, global mean",
     BEGIN X(0) ROW(1) ROW(2) IS(3, "mul(%0, %1)") IS(4, "add(%3, %2)") IS(5, "relu(%4)")
         ROW_IS(6, "reduce_mean(%5) {axes=[1], keep=true}") OUT(6) END,
     16384, 1024, CASE_SUBGRAPH},
};

/* One block of SmolLM2-135M at 512 positions. */
static const char llama_block[] =
    BEGIN "  %0 = input \"x\" : f32[1,512,576]\n"
          "  %1 = input \"norm1\" : f32[576]\n"
          "  %2 = input \"q\" : f32[576,576]\n"
          "  %3 = input \"k\" : f32[576,192]\n"
          "  %4 = input \"v\" : f32[576,192]\n"
          "  %5 = input \"o\" : f32[576,576]\n"
          "  %6 = input \"norm2\" : f32[576]\n"
          "  %7 = input \"gate\" : f32[576,1536]\n"
          "  %8 = input \"up\" : f32[576,1536]\n"
          "  %9 = input \"down\" : f32[1536,576]\n"
          "  %10 = input \"positions\" : i32[512]\n"
          "  %11 = input \"freqs\" : f32[32]\n"
          "  %12 = rms_norm(%0, %1) {eps=1e-05} : f32[1,512,576]\n"
          "  %13 = matmul(%12, %2) : f32[1,512,576]\n"
          "  %14 = matmul(%12, %3) : f32[1,512,192]\n"
          "  %15 = matmul(%12, %4) : f32[1,512,192]\n"
          "  %16 = reshape(%13) {shape=[1,512,9,64]} : f32[1,512,9,64]\n"
          "  %17 = reshape(%14) {shape=[1,512,3,64]} : f32[1,512,3,64]\n"
          "  %18 = reshape(%15) {shape=[1,512,3,64]} : f32[1,512,3,64]\n"
          "  %19 = rope(%16, %10, %11) : f32[1,512,9,64]\n"
          "  %20 = rope(%17, %10, %11) : f32[1,512,3,64]\n"
          "  %21 = attention(%19, %20, %18) {causal=top_left} : f32[1,512,9,64]\n"
          "  %22 = reshape(%21) {shape=[1,512,576]} : f32[1,512,576]\n"
          "  %23 = matmul(%22, %5) : f32[1,512,576]\n"
          "  %24 = add(%0, %23) : f32[1,512,576]\n"
          "  %25 = rms_norm(%24, %6) {eps=1e-05} : f32[1,512,576]\n"
          "  %26 = matmul(%25, %7) : f32[1,512,1536]\n"
          "  %27 = matmul(%25, %8) : f32[1,512,1536]\n"
          "  %28 = silu(%26) : f32[1,512,1536]\n"
          "  %29 = mul(%28, %27) : f32[1,512,1536]\n"
          "  %30 = matmul(%29, %9) : f32[1,512,576]\n"
          "  %31 = add(%24, %30) : f32[1,512,576]\n"
          "  output \"y\" %31\n" END;

#undef BEGIN
#undef END
#undef X
#undef COLUMN
#undef ROW
#undef NUMBER
#undef IS
#undef ROW_IS
#undef OUT

#endif
