/* The checker's rules, one by one: what holds is accepted, and with one side condition broken it is refused, and would be
 * wrong if it were believed. */
#include "ir/passes/passes.h"
#include "support/program_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_case pc;
static mlsi_graph graph;

static void setup(void) { pc_open(&pc, 1); }
static void teardown(void) { pc_close(&pc); }

static void parse(const char *text) {
    OK(mlsi_graph_init(&graph, pc.ctx));
    mlsys_status st = mlsi_graph_parse(&graph, pc.device, text);
    if (st != MLSYS_OK) ck_abort_msg("%s\n%s", mlsys_last_error(), text);
}

/* ---- listed identities, side condition by side condition -------------------------------------------- */

typedef struct side {
    const char *before, *after; /* lines from %2 on; the last value is the output */
    const char *pairs; /* "2>0 by", by = a reason or an identity's name; inputs are paired */
    const char *why;   /* part of the refusal, NULL = holds */
} side;

#define FULL(n, v)   "%" #n " = full() {dtype=f32, shape=[4], value=" v "} : f32[4]\n"
#define ONE(n, v)    "%" #n " = full() {dtype=f32, shape=[1], value=" v "} : f32[1]\n"
#define SQUARE(n, x) "%" #n " = reshape(%" #x ") {shape=[2,2]} : f32[2,2]\n"
#define TURN(n, x)   "%" #n " = transpose(%" #x ") {perm=[1,0]} : f32[2,2]\n"
#define CUBE(n, x)   "%" #n " = reshape(%" #x ") {shape=[2,2,1]} : f32[2,2,1]\n"
#define INTS(n, x)   "%" #n " = cast(%" #x ") {dtype=i32} : i32[4]\n"
static const side sides[] = {
    {FULL(2, "1") "%3 = mul(%0, %2) : f32[4]\n", FULL(2, "1"), "2>2 same 3>0 mul_one", NULL},
    {FULL(2, "1") "%3 = mul(%2, %0) : f32[4]\n", "", "3>0 mul_one", NULL},
    {ONE(2, "1") "%3 = broadcast(%2) {shape=[4]} : f32[4]\n%4 = mul(%0, %3) : f32[4]\n", "",
     "4>0 mul_one", NULL},
    {FULL(2, "2") "%3 = mul(%0, %2) : f32[4]\n", "", "3>0 mul_one", "not 1 everywhere"},
    {FULL(2, "-1") "%3 = mul(%0, %2) : f32[4]\n", "", "3>0 mul_one", "not 1 everywhere"},
    {FULL(2, "1") "%3 = mul(%0, %2) : f32[4]\n", "", "3>1 mul_one", "not 1 everywhere"},
    {"%2 = mul(%0, %1) : f32[4]\n", "", "2>0 mul_one", "not 1 everywhere"},
    {FULL(2, "1") "%3 = add(%0, %2) : f32[4]\n", "", "3>0 mul_one", "another op"},
    {FULL(2, "1") "%3 = div(%0, %2) : f32[4]\n", "", "3>0 div_one", NULL},
    {FULL(2, "1") "%3 = div(%2, %0) : f32[4]\n", "", "3>0 div_one", "divisor is not 1"},
    {FULL(2, "2") "%3 = div(%0, %2) : f32[4]\n", "", "3>0 div_one", "divisor is not 1"},
    {FULL(2, "1") "%3 = div(%0, %2) : f32[4]\n", "", "3>1 div_one", "not that of operand 0"},
    {FULL(2, "-0") "%3 = add(%0, %2) : f32[4]\n", "", "3>0 add_zero", NULL},
    {FULL(2, "-0") "%3 = add(%2, %0) : f32[4]\n", "", "3>0 add_zero", NULL},
    {FULL(2, "0") "%3 = add(%0, %2) : f32[4]\n", "", "3>0 add_zero", "not -0"},
    {FULL(2, "-0") "%3 = add(%0, %2) : f32[4]\n", "", "3>1 add_zero", "not -0"},
    {FULL(2, "0") "%3 = sub(%0, %2) : f32[4]\n", "", "3>0 sub_zero", NULL},
    {FULL(2, "-0") "%3 = sub(%0, %2) : f32[4]\n", "", "3>0 sub_zero", "not +0"},
    {FULL(2, "0") "%3 = sub(%2, %0) : f32[4]\n", "", "3>0 sub_zero", "not +0"},
    {FULL(2, "0") "%3 = sub(%0, %2) : f32[4]\n", "", "3>1 sub_zero", "not that of operand 0"},
    {"%2 = neg(%0) : f32[4]\n%3 = neg(%2) : f32[4]\n", "", "3>0 neg_neg", NULL},
    {"%2 = neg(%0) : f32[4]\n%3 = neg(%2) : f32[4]\n", "", "3>1 neg_neg", "not what both undo"},
    {INTS(2, 0) "%3 = not(%2) : i32[4]\n%4 = not(%3) : i32[4]\n", INTS(2, 0),
     "2>2 same 4>2 not_not", NULL},
    {INTS(2, 0) "%3 = neg(%2) : i32[4]\n%4 = not(%3) : i32[4]\n", INTS(2, 0),
     "2>2 same 4>2 not_not", "not the same op"},
    {INTS(2,
          0) "%3 = full() {dtype=i32, shape=[4], ivalue=1} : i32[4]\n%4 = mul(%2, %3) : i32[4]\n",
     INTS(2, 0), "2>2 same 4>2 mul_one", NULL},
    {INTS(2,
          0) "%3 = full() {dtype=i32, shape=[4], ivalue=1} : i32[4]\n%4 = add(%2, %3) : i32[4]\n",
     INTS(2, 0), "2>2 same 4>2 add_zero", "not -0"},
    {INTS(2, 0) "%3 = full() {dtype=i32, shape=[4], value=1} : i32[4]\n%4 = sub(%2, %3) : i32[4]\n",
     INTS(2, 0), "2>2 same 4>2 sub_zero", NULL},
    {"%2 = abs(%0) : f32[4]\n%3 = neg(%2) : f32[4]\n", "", "3>0 neg_neg", "not the same op"},
    {"%2 = neg(%0) : f32[4]\n%3 = abs(%2) : f32[4]\n", "", "3>0 neg_neg", "another op"},
    {"%2 = cast(%0) {dtype=f32} : f32[4]\n", "", "2>0 cast_same", NULL},
    {"%2 = cast(%0) {dtype=f32} : f32[4]\n", "", "2>1 cast_same", "not that of operand 0"},
    {"%2 = cast(%0) {dtype=bf16} : bf16[4]\n%3 = cast(%2) {dtype=f32} : f32[4]\n", "",
     "3>0 cast_same", "not that of operand 0"},
    {"%2 = broadcast(%0) {shape=[4]} : f32[4]\n", "", "2>0 broadcast_same", NULL},
    {"%2 = broadcast(%0) {shape=[4]} : f32[4]\n", "", "2>1 broadcast_same",
     "not that of operand 0"},
    {"%2 = reshape(%0) {shape=[4]} : f32[4]\n", "", "2>0 reshape_same", NULL},
    {"%2 = reshape(%0) {shape=[4]} : f32[4]\n", "", "2>1 reshape_same", "not that of operand 0"},
    {SQUARE(2, 0) CUBE(3, 2), CUBE(2, 0), "3>2 reshape_of_reshape", NULL},
    {SQUARE(2, 0) CUBE(3, 2), CUBE(2, 1), "3>2 reshape_of_reshape", "does not read"},
    {SQUARE(2, 0) "%3 = reshape(%2) {shape=[4]} : f32[4]\n", "", "3>1 reshape_of_reshape",
     "is no reshape"},
    {SQUARE(2, 0) TURN(3, 2) CUBE(4, 3), CUBE(2, 0), "4>2 reshape_of_reshape", "is no reshape"},
    {"%2 = slice(%0) {starts=[0], stops=[4], steps=[1]} : f32[4]\n", "", "2>0 slice_all", NULL},
    {"%2 = slice(%0) {starts=[3], stops=[-9223372036854775808], steps=[-1]} : f32[4]\n", "",
     "2>0 slice_all", "step is not 1"},
    {"%2 = slice(%0) {starts=[0], stops=[4], steps=[1]} : f32[4]\n", "", "2>1 slice_all",
     "not that of operand 0"},
    {"%2 = reverse(%0) {axes=[]} : f32[4]\n", "", "2>0 reverse_none", NULL},
    {"%2 = reverse(%0) {axes=[0]} : f32[4]\n", "", "2>0 reverse_none", "axis is reversed"},
    {"%2 = pad(%0) {low=[0], high=[0]} : f32[4]\n", "", "2>0 pad_none", NULL},
    {"%2 = pad(%0) {low=[1], high=[-1]} : f32[4]\n", "", "2>0 pad_none", "padded or cropped"},
    {"%2 = concat(%0) {axis=0} : f32[4]\n", "", "2>0 concat_one", NULL},
    {"%2 = concat(%0) {axis=0} : f32[4]\n", "", "2>1 concat_one", "not that of operand 0"},
    {SQUARE(2, 0) TURN(3, 2) TURN(4, 3), SQUARE(2, 0), "2>2 same 4>2 transpose_none", NULL},
    {SQUARE(2, 0) TURN(3, 2), SQUARE(2, 0), "2>2 same 3>2 transpose_none", "axes change places"},
    {SQUARE(2, 0) TURN(3, 2) TURN(4, 3), SQUARE(2, 1), "4>2 transpose_none",
     "not what is transposed"},
    {CUBE(2, 0) "%3 = transpose(%2) {perm=[1,2,0]} : f32[2,1,2]\n"
                "%4 = transpose(%3) {perm=[0,2,1]} : f32[2,2,1]\n",
     CUBE(2, 0) "%3 = transpose(%2) {perm=[1,0,2]} : f32[2,2,1]\n",
     "2>2 same 4>3 transpose_of_transpose", NULL},
    {CUBE(2, 0) "%3 = transpose(%2) {perm=[1,2,0]} : f32[2,1,2]\n"
                "%4 = transpose(%3) {perm=[0,2,1]} : f32[2,2,1]\n",
     CUBE(2, 0) "%3 = transpose(%2) {perm=[0,1,2]} : f32[2,2,1]\n",
     "2>2 same 4>3 transpose_of_transpose", "do not compose"},
    {CUBE(2, 0) "%3 = transpose(%2) {perm=[1,2,0]} : f32[2,1,2]\n"
                "%4 = transpose(%3) {perm=[0,2,1]} : f32[2,2,1]\n",
     CUBE(2, 1) "%3 = transpose(%2) {perm=[1,0,2]} : f32[2,2,1]\n", "4>3 transpose_of_transpose",
     "does not read"},
    {SQUARE(2, 0) TURN(3, 2) "%4 = exp(%3) : f32[2,2]\n",
     SQUARE(2, 0) "%3 = exp(%2) : f32[2,2]\n" TURN(4, 3), "2>2 same 4>4 transpose_past_elements",
     NULL},
    {SQUARE(2, 0) SQUARE(3, 1) TURN(4, 2) "%5 = sub(%4, %3) : f32[2,2]\n",
     SQUARE(2, 0) SQUARE(3, 1) TURN(4, 3) "%5 = sub(%2, %4) : f32[2,2]\n" TURN(6, 5),
     "2>2 same 3>3 same 5>6 transpose_past_elements", NULL},
    {SQUARE(2, 0) SQUARE(3, 1) TURN(4, 2) "%5 = sub(%4, %3) : f32[2,2]\n",
     SQUARE(2, 0) SQUARE(3, 1) "%4 = sub(%2, %3) : f32[2,2]\n" TURN(5, 4),
     "2>2 same 3>3 same 5>5 transpose_past_elements", "turned another way"},
    {SQUARE(2, 0) SQUARE(3, 1) TURN(4, 2) "%5 = exp(%4) : f32[2,2]\n",
     SQUARE(2, 0) SQUARE(3, 1) "%4 = exp(%3) : f32[2,2]\n" TURN(5, 4),
     "2>2 same 3>3 same 5>5 transpose_past_elements", "an operand differs"},
    {SQUARE(2, 0) TURN(3, 2) "%4 = exp(%3) : f32[2,2]\n",
     SQUARE(2, 0) "%3 = exp2(%2) : f32[2,2]\n" TURN(4, 3), "2>2 same 4>4 transpose_past_elements",
     "ops differ"},
    {SQUARE(2, 0) TURN(3, 2) "%4 = exp(%3) : f32[2,2]\n", SQUARE(2, 0) "%3 = exp(%2) : f32[2,2]\n",
     "2>2 same 4>3 transpose_past_elements", "is no transpose"},
    {SQUARE(2, 0) TURN(3, 2) "%4 = scan(%3) {axis=0} : f32[2,2]\n",
     SQUARE(2, 0) "%3 = scan(%2) {axis=0} : f32[2,2]\n" TURN(4, 3),
     "2>2 same 4>4 transpose_past_elements", "element by element"},
    {SQUARE(2, 0) "%3 = slice(%1) {starts=[0], stops=[2], steps=[1]} : f32[2]\n" TURN(
         4, 2) "%5 = sub(%4, %3) : f32[2,2]\n",
     SQUARE(2, 0) "%3 = slice(%1) {starts=[0], stops=[2], steps=[1]} : f32[2]\n"
                  "%4 = sub(%2, %3) : f32[2,2]\n" TURN(5, 4),
     "2>2 same 3>3 same 5>5 transpose_past_elements", "along other axes"},
    {SQUARE(2, 0) SQUARE(3, 1) "%4 = matmul(%2, %3) : f32[2,2]\n" TURN(5, 4),
     SQUARE(2, 0)
         SQUARE(3, 1) "%4 = matmul(%3, %2) {transpose_a=true, transpose_b=true} : f32[2,2]\n",
     "2>2 same 3>3 same 5>4 transpose_of_matmul", NULL},
    {SQUARE(2, 0) SQUARE(3, 1) "%4 = matmul(%2, %3) : f32[2,2]\n" TURN(5, 4),
     SQUARE(2, 0)
         SQUARE(3, 1) "%4 = matmul(%2, %3) {transpose_a=true, transpose_b=true} : f32[2,2]\n",
     "2>2 same 3>3 same 5>4 transpose_of_matmul", "do not change places"},
    {SQUARE(2, 0) SQUARE(3, 1) "%4 = matmul(%2, %3) : f32[2,2]\n" TURN(5, 4),
     SQUARE(2, 0) SQUARE(3, 1) "%4 = matmul(%3, %2) {transpose_a=true} : f32[2,2]\n",
     "2>2 same 3>3 same 5>4 transpose_of_matmul", "is not transposed"},
    {SQUARE(2, 0) SQUARE(3, 1) "%4 = add(%2, %3) : f32[2,2]\n" TURN(5, 4),
     SQUARE(2, 0)
         SQUARE(3, 1) "%4 = matmul(%3, %2) {transpose_a=true, transpose_b=true} : f32[2,2]\n",
     "2>2 same 3>3 same 5>4 transpose_of_matmul", "operand is no product"},
    {SQUARE(2, 0) SQUARE(3, 1) "%4 = matmul(%2, %3) : f32[2,2]\n"
                               "%5 = transpose(%4) {perm=[0,1]} : f32[2,2]\n",
     SQUARE(2, 0)
         SQUARE(3, 1) "%4 = matmul(%3, %2) {transpose_a=true, transpose_b=true} : f32[2,2]\n",
     "2>2 same 3>3 same 5>4 transpose_of_matmul", "other axes"},
    {"%2 = copy(%0) : f32[4]\n", "", "2>0 copy", NULL},
    {"%2 = copy(%0) : f32[4]\n", "", "2>1 copy", "no copy of one"},
    {"%2 = neg(%0) : f32[4]\n", "", "2>0 copy", "no copy of one"},
    {"%2 = exp(%0) : f32[4]\n", "%2 = exp(%0) : f32[4]\n", "2>2 same", NULL},
    {"%2 = exp(%0) : f32[4]\n", "%2 = exp(%1) : f32[4]\n", "2>2 same", "operand differs"},
    {"%2 = exp(%0) : f32[4]\n", "%2 = copy(%0) : f32[4]\n%3 = exp(%2) : f32[4]\n", "2>3 same",
     NULL},
    {"%2 = exp(%0) : f32[4]\n", "%2 = exp2(%0) : f32[4]\n", "2>2 same", "ops differ"},
    {"%2 = sub(%0, %1) : f32[4]\n", "%2 = sub(%1, %0) : f32[4]\n", "2>2 same", "operand differs"},
    {"%2 = scan(%0) {axis=0} : f32[4]\n", "%2 = scan(%0) {axis=0, exclusive=true} : f32[4]\n",
     "2>2 same", "attributes differ"},
    {"%2, %3 = topk(%0) {axis=0, k=4} : f32[4], i64[4]\n%4 = cast(%2) {dtype=f64} : f64[4]\n",
     "%2, %3 = topk(%0) {axis=0, k=4} : f32[4], i64[4]\n%4 = cast(%3) {dtype=f64} : f64[4]\n",
     "2>2 same 4>4 same", "operand differs"},
    {"%2 = exp(%0) : f32[4]\n%3 = exp(%1) : f32[4]\n%4 = mul(%2, %3) : f32[4]\n",
     "%2 = add(%0, %1) : f32[4]\n%3 = exp(%2) : f32[4]\n", "4>3 mul_one", "not 1 everywhere"},
    {"%2 = relu(%0) : f32[4]\n",
     "%2 = full() {dtype=f32, shape=[]} : f32[]\n%3 = max(%0, %2) : f32[4]\n", "2>3 decomposed",
     NULL},
    {"%2 = relu(%0) : f32[4]\n",
     "%2 = full() {dtype=f32, shape=[], value=-0} : f32[]\n%3 = max(%0, %2) : f32[4]\n",
     "2>3 decomposed", "another expression"},
    {"%2 = exp(%0) : f32[4]\n", "%2 = exp(%0) : f32[4]\n", "2>2 decomposed", "no decomposition"},
    {"%2 = const f32[4] hex:0000803f0000004000004040000080c0\n%3 = neg(%2) : f32[4]\n",
     "%2 = const f32[4] hex:000080bf000000c0000040c000008040\n", "2>2 constant 3>2 folded",
     "same constant"},
    {"%2 = const f32[4] hex:0000803f0000004000004040000080c0\n%3 = neg(%2) : f32[4]\n",
     "%2 = const f32[4] hex:000080bf000000c0000040c000008040\n", "3>2 folded", NULL},
    {"%2 = const f32[4] hex:0000803f0000004000004040000080c0\n%3 = neg(%2) : f32[4]\n",
     "%2 = const f32[4] hex:010080bf000000c0000040c000008040\n", "3>2 folded", "other elements"},
    {"%2 = neg(%0) : f32[4]\n", "%2 = const f32[4] hex:010080bf000000c0000040c000008040\n",
     "2>2 folded", "operand is no constant"},
    {"%2 = const f32[4] hex:0000803f0000004000004040000080c0\n%3 = neg(%2) : f32[4]\n", "",
     "3>0 folded", "is no constant"},
};
enum { N_SIDES = (int)(sizeof sides / sizeof sides[0]) };

static int last_value(const char *lines, bool after) {
    int last = after ? 0 : 1, v;
    for (const char *p = lines; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (sscanf(p, "%%%d", &v) == 1) last = v;
        if (sscanf(p, "%%%*d, %%%d", &v) == 1) last = v;
    }
    return last;
}

/* Before is function 0, after function 1; an `after` without lines gives out the new value of the last pair. */
static void parse_side(const side *s) {
    char text[4096];
    int out = last_value(s->after, true);
    const char *end = strrchr(s->pairs, '>');
    if (!*s->after || !strstr(s->after, "=")) out = atoi(end + 1);
    if (strchr(s->after, '=') && atoi(end + 1) < 2) out = atoi(end + 1);
    snprintf(text, sizeof text,
             "mlsys-ir 1\nfunctions 2\nfunc 1 \"main\" {\n%%0 = input \"x\" : f32[4]\n"
             "%%1 = input \"y\" : f32[4]\n%soutput \"z\" %%%d\n}\n"
             "func 0 \"main\" {\n%%0 = input \"x\" : f32[4]\n%%1 = input \"y\" : f32[4]\n"
             "%soutput \"z\" %%%d\n}\n",
             s->after, out, s->before, last_value(s->before, false));
    parse(text);
}

static void read_pairs(const char *text, mlsi_certificate *c) {
    static const char *const names[] = {"input",  "constant",   "same",    "copy",   "identity",
                                        "folded", "decomposed", "inlined", "grouped"};
    static char words[16][64];
    OK(mlsi_certificate_add(c, 0, 0, MLSI_BY_INPUT, NULL));
    OK(mlsi_certificate_add(c, 1, 1, MLSI_BY_INPUT, NULL));
    for (int n = 0, before, after, used;
         sscanf(text, "%d>%d %63s%n", &before, &after, words[n], &used) == 3; text += used, n++) {
        mlsi_reason by = MLSI_BY_IDENTITY;
        for (int i = 0; i < 9; i++)
            if (!strcmp(names[i], words[n])) by = (mlsi_reason)(i + 1);
        OK(mlsi_certificate_add(c, before, after, by, by == MLSI_BY_IDENTITY ? words[n] : NULL));
    }
}

static void run_side(int32_t func, char *out) {
    const float x[4] = {-0.0f, INFINITY, 1.50001f, -2.7f}, y[4] = {3, -1, -0.0f, 0.3f};
    mlsi_layout l, r;
    const mlsi_type *t = mlsi_type_of(&graph, func, graph.funcs[func].outputs[0].value);
    OK(mlsi_type_layout(&graph.symbols, mlsi_type_of(&graph, func, 0), NULL, &l));
    OK(mlsi_type_layout(&graph.symbols, t, NULL, &r));
    mlsi_view in[2] = {mlsi_view_of((void *)(uintptr_t)x, &l),
                       mlsi_view_of((void *)(uintptr_t)y, &l)};
    mlsi_view view = mlsi_view_of(out, &r);
    OK(mlsi_interpret(&graph, func, 2, in, 1, &view));
}

/* What holds is true, and what is refused would be wrong if it were believed. */
START_TEST(each_side_condition) {
    const side *s = &sides[_i];
    mlsi_certificate c;
    char a[64] = {0}, b[64] = {0};
    parse_side(s);
    OK(mlsi_graph_verify(&graph));
    mlsi_certificate_init(&c, &pc.ctx->alloc, "test", MLSI_EXACT, 0);
    read_pairs(s->pairs, &c);
    const mlsi_proof_claim claim = {&graph, 0, 1, 0, "test", MLSI_EXACT};
    mlsys_status st = mlsi_check_certificate(&claim, &c);
    if (s->why)
        ck_assert_msg(st == MLSYS_E_INTERNAL && strstr(mlsys_last_error(), s->why), "%s-> %s%s: %s",
                      s->before, s->after, s->pairs,
                      st == MLSYS_OK ? "accepted" : mlsys_last_error());
    else
        ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    run_side(0, a);
    run_side(1, b);
    bool honest = s->why && (strstr(s->why, "no decomposition") || strstr(s->why, "same constant"));
    if (!honest) ck_assert_msg((memcmp(a, b, sizeof a) == 0) == !s->why, "%s", s->before);
    mlsi_certificate_free(&c);
    mlsi_graph_free(&graph);
}
END_TEST

/* Every listed identity has a row that holds; attention_twin has a test of its own. */
START_TEST(every_identity_has_a_row) {
    mlsi_op op;
    for (int i = 0; mlsi_identity_name(i, &op); i++) {
        const char *name = mlsi_identity_name(i, &op);
        bool seen = !strcmp(name, "attention_twin");
        for (int k = 0; k < N_SIDES; k++)
            seen |= !sides[k].why && strstr(sides[k].pairs, name);
        ck_assert_msg(seen, "%s", name);
    }
}
END_TEST

/* ---- calls, groups, and what others see -------------------------------------------------------------- */

typedef struct whole {
    const char *callee, *before, *after; /* whole bodies; function 2 is the callee */
    const char *pairs, *why;
} whole;

#define XY "%0 = input \"x\" : f32[4]\n%1 = input \"y\" : f32[4]\n"
#define SUB_EXP                                                                                    \
    XY "%2 = sub(%0, %1) : f32[4]\n%3 = exp(%2) : f32[4]\noutput \"a\" %3\noutput \"b\" %2\n"
#define CALLS(a)                                                                                   \
    XY "%2, %3 = call(" a ") {fn1=2} : f32[4], f32[4]\noutput \"p\" %2\noutput \"q\" %3\n"
#define WRITTEN(a, b)                                                                              \
    XY "%2 = sub(%" #a ", %" #b                                                                    \
       ") : f32[4]\n%3 = exp(%2) : f32[4]\noutput \"p\" %3\noutput \"q\" %2\n"
static const whole wholes[] = {
    {SUB_EXP, CALLS("%0, %1"), WRITTEN(0, 1), "2>3 inlined 3>2 inlined", NULL},
    {SUB_EXP, CALLS("%0, %1"), WRITTEN(1, 0), "2>3 inlined 3>2 inlined", "another expression"},
    {SUB_EXP, CALLS("%0, %1"), WRITTEN(0, 0), "2>3 inlined 3>2 inlined", "another expression"},
    {SUB_EXP, CALLS("%0, %1"), WRITTEN(0, 1), "2>2 inlined 3>3 inlined", "another expression"},
    {SUB_EXP, WRITTEN(0, 1), WRITTEN(0, 1), "2>2 inlined 3>3 same", "no call"},
    {SUB_EXP, CALLS("%0, %1"), CALLS("%0, %1"), "2>2 same 3>3 same", NULL},
    {SUB_EXP, CALLS("%0, %1"), CALLS("%1, %0"), "2>2 same 3>3 same", "operand differs"},
    /* a group: both results, one of them, and with an inner value that has no pair */
    {SUB_EXP, WRITTEN(0, 1), CALLS("%0, %1"), "2>3 grouped 3>2 grouped", NULL},
    {SUB_EXP, WRITTEN(0, 1), CALLS("%1, %0"), "2>3 grouped 3>2 grouped", "body is another"},
    {SUB_EXP, WRITTEN(0, 1), CALLS("%0, %1"), "2>2 grouped 3>3 grouped", "body is another"},
    {SUB_EXP, WRITTEN(0, 1), CALLS("%0, %1"), "2>3 same 3>2 grouped", "ops differ"},
    {SUB_EXP, WRITTEN(0, 1), WRITTEN(0, 1), "2>2 grouped 3>3 grouped", "no call"},
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\n%3 = exp(%2) : f32[4]\noutput \"p\" %3\n",
     XY "%2, %3 = call(%0, %1) {fn1=2} : f32[4], f32[4]\noutput \"p\" %2\n", "3>2 grouped", NULL},
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\n%3 = exp2(%2) : f32[4]\noutput \"p\" %3\n",
     XY "%2, %3 = call(%0, %1) {fn1=2} : f32[4], f32[4]\noutput \"p\" %2\n", "3>2 grouped",
     "body is another"},
    /* observability */
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\noutput \"q\" %0\n",
     XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\n", "2>2 same", "inputs or outputs"},
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\noutput \"q\" %0\n",
     XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\noutput \"q\" %1\n", "2>2 same",
     "not the old output's new value"},
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\noutput \"q\" %0\n",
     XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\noutput \"r\" %0\n", "2>2 same",
     "output's name"},
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\n",
     XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\n", "", "no new value"},
    {SUB_EXP, XY "%2 = sub(%0, %1) : f32[4]\noutput \"p\" %2\n",
     XY "%2 = sub(%0, %1) : f32[4]\n%3 = copy(%2) : f32[4]\noutput \"p\" %3\n", "2>2 same", NULL},
    {SUB_EXP, XY "output \"p\" %0\n",
     "%0 = input \"x\" : f32[4]\n%1 = input \"z\" : f32[4]\noutput \"p\" %0\n", "",
     "name, type or donation"},
    {SUB_EXP, XY "output \"p\" %0\n",
     "%0 = input \"x\" : f32[4]\n%1 = input \"y\" : f32[4] donated\noutput \"p\" %0\n", "",
     "name, type or donation"},
};
enum { N_WHOLES = (int)(sizeof wholes / sizeof wholes[0]) };

START_TEST(each_call_group_and_output) {
    const whole *w = &wholes[_i];
    mlsi_certificate c;
    char text[4096];
    snprintf(text, sizeof text,
             "mlsys-ir 1\nfunctions 3\nfunc 2 \"f\" {\n%s}\nfunc 1 \"main\" {\n%s}\n"
             "func 0 \"main\" {\n%s}\n",
             w->callee, w->after, w->before);
    parse(text);
    OK(mlsi_graph_verify(&graph));
    mlsi_certificate_init(&c, &pc.ctx->alloc, "test", MLSI_EXACT, 0);
    read_pairs(w->pairs, &c);
    const mlsi_proof_claim claim = {&graph, 0, 1, 0, "test", MLSI_EXACT};
    mlsys_status st = mlsi_check_certificate(&claim, &c);
    if (w->why)
        ck_assert_msg(st == MLSYS_E_INTERNAL && strstr(mlsys_last_error(), w->why), "row %d: %s",
                      _i, st == MLSYS_OK ? "accepted" : mlsys_last_error());
    else
        ck_assert_msg(st == MLSYS_OK, "%s", mlsys_last_error());
    ck_assert_int_eq(graph.n_funcs, 3); /* helpers are gone */
    mlsi_certificate_free(&c);
    mlsi_graph_free(&graph);
}
END_TEST

#define ATTEND(attrs) "%1 = attention(%0, %0, %0)" attrs " : f32[1,3,2,4]\n"
#define ATTEND2(ops, attrs)                                                                        \
    "%1, %2 = attention(" ops ") {" attrs "lse=true} : f32[1,3,2,4], f32[1,2,3]\n"
static const whole twins[] = {
    {NULL, ATTEND(" {causal=top_left}"), ATTEND2("%0, %0, %0", "causal=top_left, "),
     "1>1 attention_twin", NULL},
    {NULL, ATTEND(" {causal=top_left}"), ATTEND2("%0, %0, %0", ""), "1>1 attention_twin",
     "other than lse"},
    {NULL, ATTEND(" {scale=0.25}"), ATTEND2("%0, %0, %0", "scale=0.5, "), "1>1 attention_twin",
     "other than lse"},
    {NULL, ATTEND(""), "%1 = neg(%0) : f32[1,3,2,4]\n", "1>1 attention_twin", "no first result"},
    {NULL, ATTEND(""), "%1, %2 = attention(%0, %0, %3) {lse=true} : f32[1,3,2,4], f32[1,2,3]\n",
     "1>1 attention_twin", "operand differs"},
};
enum { N_TWINS = (int)(sizeof twins / sizeof twins[0]) };

START_TEST(each_condition_of_a_twin) {
    const whole *w = &twins[_i];
    mlsi_certificate c;
    char text[4096], after[512];
    snprintf(after, sizeof after, "%s", w->after);
    bool other = strstr(after, "%3") != NULL; /* reads the negated x where it should read x */
    if (other)
        snprintf(after, sizeof after,
                 "%%1 = neg(%%0) : f32[1,3,2,4]\n"
                 "%%2, %%3 = attention(%%0, %%0, %%1) {lse=true} : f32[1,3,2,4], f32[1,2,3]\n");
    snprintf(text, sizeof text,
             "mlsys-ir 1\nfunctions 2\nfunc 1 \"main\" {\n%%0 = input \"x\" : f32[1,3,2,4]\n%s"
             "output \"p\" %%%d\n}\nfunc 0 \"main\" {\n%%0 = input \"x\" : f32[1,3,2,4]\n%s"
             "output \"p\" %%1\n}\n",
             after, other ? 2 : 1, w->before);
    parse(text);
    mlsi_certificate_init(&c, &pc.ctx->alloc, "test", MLSI_EXACT, 0);
    OK(mlsi_certificate_add(&c, 0, 0, MLSI_BY_INPUT, NULL));
    OK(mlsi_certificate_add(&c, 1, other ? 2 : 1, MLSI_BY_IDENTITY, "attention_twin"));
    const mlsi_proof_claim claim = {&graph, 0, 1, 0, "test", MLSI_EXACT};
    mlsys_status st = mlsi_check_certificate(&claim, &c);
    if (w->why)
        pc_expect(st, MLSYS_E_INTERNAL, w->why);
    else
        OK(st);
    mlsi_certificate_free(&c);
    mlsi_graph_free(&graph);
}
END_TEST

int main(void) {
    Suite *s = suite_create("proof rules");
    TCase *tc = tcase_create("rules");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, each_side_condition, 0, N_SIDES);
    tcase_add_test(tc, every_identity_has_a_row);
    tcase_add_loop_test(tc, each_call_group_and_output, 0, N_WHOLES);
    tcase_add_loop_test(tc, each_condition_of_a_twin, 0, N_TWINS);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
