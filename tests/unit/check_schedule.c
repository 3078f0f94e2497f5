/* Schedules: what is legal keeps the bits, what is not is refused with a sentence. */
#include "ir/loop/lower.h"
#include "ir/loop/schedule.h"
#include "support/failing_alloc.h"
#include "support/graph_case.h"
#include "support/nest_case.h"
#include "support/random.h"
#include "support/require.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the same bits ------------------------------------------------------------------------------------------------ */

static void compare_run(const mlsi_nest *before, const mlsi_nest *after, const mlsi_nest *back,
                        const char *what, int b, uint64_t seed) {
    nest_run want = nc_run(before, nc_bindings[b], seed), got = nc_run(after, nc_bindings[b], seed);
    nest_run reversed = nc_run(back, nc_bindings[b], seed);
    const char *forth = nc_difference(&want, &got);
    const char *d = forth ? forth : nc_difference(&want, &reversed);
    if (d)
        ck_abort_msg("%s: %s: M=%lld N=%lld K=%lld%s: %s", before->name, what,
                     (long long)nc_bindings[b][0], (long long)nc_bindings[b][1],
                     (long long)nc_bindings[b][2],
                     forth ? "" : ", loops that are not serial backwards", d);
    nc_run_free(&want);
    nc_run_free(&got);
    nc_run_free(&reversed);
}

static void compare(const mlsi_nest *before, const mlsi_nest *after, const char *what, int first,
                    int last) {
    mlsi_nest back;
    nc_reverse(after, &back);
    for (int b = first; b < last; b++) {
        compare_run(before, after, &back, what, b, 1);
        compare_run(before, after, &back, what, b, NC_TINY);
    }
    mlsi_nest_free(&back);
}

typedef struct legal {
    const char *sample, *schedule;
} legal;

static const legal legals[] = {
    {"elementwise", ""},
    {"elementwise", "split(i_0, 4) -> a, b"},
    {"elementwise", "split(j_1, 1)"},
    {"elementwise", "split(j_1, 64)"},
    {"elementwise", "split(j_1, 8); split(j_1_i, 4); vectorize(j_1_i_i); unroll(j_1_i_o)"},
    {"elementwise", "split(i_0, 4); split(i_0_o, 3); parallel(i_0_o_o)"},
    {"elementwise", "reorder(j_1, i_0); parallel(j_1); vectorize(i_0)"},
    {"elementwise", "parallel(i_0); vectorize(j_1)"},
    {"elementwise", "parallel(i_0); parallel(j_1)"},
    {"elementwise", "fuse(i_0, j_1) -> f; split(f, 8); parallel(f_o); vectorize(f_i)"},
    {"elementwise", "tile(i_0, j_1, 2, 4) -> a, b, c, d; fuse(a, b); parallel(a_b); vectorize(d)"},
    {"elementwise", "tile(i_0, j_1, 3, 5); reorder(i_0_i, j_1_o, i_0_o)"},
    {"elementwise", "split(j_1, 8); bind(i_0, grid); bind(j_1_o, grid); bind(j_1_i, lane)"},
    {"elementwise", "bind(i_0, grid); split(j_1, 32); split(j_1_o, 4); bind(j_1_o_i, block); "
                    "bind(j_1_i, lane)"},
    {"elementwise", "cache_read(in1, i_0) -> c"},
    {"elementwise", "split(j_1, 4); cache_read(in0, j_1_o); cache_read(in1, j_1_o)"},
    {"elementwise", "tile(i_0, j_1, 2, 4); cache_read(in0, j_1_o); cache_write(out0, j_1_o)"},
    {"elementwise", "cache_write(out0, i_0)"},
    {"elementwise", "split(i_0, 3); cache_write(out0, i_0_o) -> c; parallel(i_0_o)"},
    {"transposed", "reorder(j_1, i_0); vectorize(i_0); parallel(j_1)"},
    {"transposed", "tile(i_0, j_1, 4, 4); cache_write(out0, j_1_o); vectorize(j_1_i)"},
    {"flattened", "reorder(j_1, i_0)"},
    {"flattened", "parallel(i_0); vectorize(j_1)"},
    {"flattened", "fuse(i_0, j_1) -> f; split(f, 4); parallel(f_o); vectorize(f_i)"},
    {"flattened", "fuse(i_0, j_1) -> f; split(f, 4); split(f_o, 2); parallel(f_o_o)"},
    {"transposed", "fuse(i_0, j_1) -> f; split(f, 8); parallel(f_o); vectorize(f_i)"},
    {"gather", "parallel(i_0); vectorize(j_2)"},
    {"gather", "split(j_2, 4); vectorize(j_2_i); split(i_0, 2); parallel(i_0_o)"},
    {"gather", "cache_read(in0, i_0)"},
    {"matmul", "reorder(j_1, i_0)"},
    {"matmul", "parallel(i_0); vectorize(j_1)"},
    {"matmul", "split(k_2, 4); reorder(k_2_i, k_2_o)"},
    {"matmul", "vectorize(k_2)"},
    {"matmul", "tile(i_0, j_1, 2, 8); parallel(i_0_o); vectorize(j_1_i); unroll(i_0_i)"},
    {"matmul", "cache_read(in0, i_0); cache_read(in1, j_1)"},
    {"matmul",
     "tile(i_0, j_1, 2, 4); split(k_2, 3); cache_read(in1, j_1_o); cache_read(in0, i_0_o)"},
    {"matmul", "split(k_2, 4); cache_read(in0, k_2_o); cache_read(in1, k_2_o)"},
    {"matmul", "tensorize(i_0, j_1, k_2)"},
    {"matmul_fixed", "tile(i_0, j_1, 3, 5); tensorize(i_0_i, j_1_i, k_2); parallel(i_0_o)"},
    {"matmul_fixed", "tile(i_0, j_1, 3, 5); split(k_2, 256); tensorize(i_0_i, j_1_i, k_2_i) -> c"},
    {"matmul_fixed", "split(k_2, 256); tensorize(i_0, j_1, k_2_i)"},
    {"matmul_i32", "split(k_2, 4); rfactor(k_2_o)"},
    {"matmul_i32", "split(k_2, 4); rfactor(k_2_o); vectorize(k_2_i)"},
    {"matmul_i32", "tensorize(i_0, j_1, k_2)"},
    {"matmul_add", "tile(i_0, j_1, 2, 4); cache_read(in2, j_1_o); cache_read(in1, j_1_o)"},
    {"matmul_add", "split(k_2, 4); parallel(i_0); vectorize(j_1)"},
    {"softmax", "parallel(i_0); vectorize(j_1); vectorize(j_2); vectorize(j_3)"},
    {"softmax", "split(j_1, 4); rfactor(j_1_o); split(j_2, 4); split(j_3, 4); vectorize(j_3_i)"},
    {"softmax", "cache_read(in0, i_0); cache_write(out0, i_0)"},
    {"softmax", "split(i_0, 2); parallel(i_0_o)"},
    {"sum_long", "split(k_1, 4096); rfactor(k_1_o)"},
    {"sum_long", "split(k_1, 4096); rfactor(k_1_o); split(k_1_i, 128); vectorize(k_1_i_i)"},
    {"sum_i32", "split(k_1, 5); rfactor(k_1_o)"},
    {"sum_i32", "split(k_1, 4); split(k_1_o, 3); rfactor(k_1_o_o)"},
    {"max_row", "split(k_1, 4); rfactor(k_1_o); vectorize(k_1_i)"},
    {"argmax_row", "split(k_1, 4); reorder(k_1_i, k_1_o)"},
    {"sum_plane", "reorder(j_1, i_0)"},
    {"sum_plane", "fuse(i_0, j_1) -> f; split(f, 8)"},
    {"window", "cache_read(in0, j_1)"},
    {"window", "split(j_1, 4); cache_read(in0, j_1_o); cache_read(in1, i_0); vectorize(j_1_i)"},
    {"window", "tile(i_0, j_1, 2, 4); cache_read(in0, j_1_o); cache_write(out0, j_1_o); "
               "parallel(i_0_o)"},
    {"stencil", "compute_at(t_2, i_2)"},
    {"stencil", "compute_at(t_2, i_2); parallel(i_2)"},
    {"stencil", "compute_at(t_2, j_3)"},
    {"stencil", "split(j_3, 4); compute_at(t_2, j_3_o)"},
    {"stencil", "split(j_3, 4); compute_at(t_2, i_2); compute_at(t_2, j_3_o); parallel(i_2)"},
    {"stencil", "tile(i_2, j_3, 2, 4); compute_at(t_2, j_3_o); parallel(i_2_o); vectorize(j_3_i)"},
    {"stencil", "reorder(b_1, a_0); vectorize(a_0); compute_at(t_2, i_2)"},
    {"whole", "compute_at(t_2, i_2)"},
    {"whole", "compute_at(t_2, j_3)"},
    {"whole", "split(b_1, 4); reorder(b_1_i, b_1_o); split(j_3, 4); compute_at(t_2, j_3_o)"},
    {"running", "split(i_0, 4)"},
    {"wave", "vectorize(j_1)"},
    {"scatter", "vectorize(j_4); fuse(a_0, b_1)"},
    {"triangle", "split(i_2, 4); split(j_3, 2); reorder(b_1, a_0); vectorize(a_0)"},
    {"overwritten", "reorder(j_2, i_0); vectorize(i_0)"},
    {"overwritten", "reorder(j_2, r_1, i_0)"},
    {"overwritten", "cache_write(out0, i_0); parallel(i_0)"},
};
enum { N_LEGAL = (int)(sizeof legals / sizeof legals[0]) };

START_TEST(legal_schedules_keep_the_bits) {
    mlsi_nest before, after;
    nc_build(&before, inside->alloc, legals[_i].sample);
    nc_build(&after, inside->alloc, legals[_i].sample);
    if (mlsi_schedule_apply(&after, legals[_i].schedule))
        ck_abort_msg("%s: %s: %s", legals[_i].sample, legals[_i].schedule, mlsys_last_error());
    compare(&before, &after, legals[_i].schedule, 0, NC_BINDINGS);
    mlsi_nest_free(&before);
    mlsi_nest_free(&after);
}
END_TEST

/* ---- refusals --------------------------------------------------------------------------------------------------------- */

typedef struct illegal {
    const char *sample, *schedule, *sentence;
} illegal;

static const illegal illegals[] = {
    /* text */
    {"elementwise", "cut(i_0)", "no primitive has this name"},
    {"elementwise", "split(i_0)", "an argument is missing"},
    {"elementwise", "split(i_0, 4, 4)", "an argument too many"},
    {"elementwise", "split(i_0, 4) -> a", "the name of a result is missing"},
    {"elementwise", "split(i_0, 4) -> a, b, c", "a result too many"},
    {"elementwise", "split(i_0, 4", ") is expected"},
    {"elementwise", "split i_0, 4)", "( is expected"},
    {"elementwise", "split(i_0, 4) vectorize(j_1)", "; is expected"},
    {"elementwise", "split(_i, 4)", "a name is expected"},
    {"elementwise", "split(i_0, -4)", "an argument too many at \"-4)\""},
    {"elementwise", "split(i_0, 99999999999999999999)", "a number is expected"},
    {"elementwise", "split(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa, 4)",
     "more than 63 letters"},
    {"elementwise", "vectorize(j_1); ; split(x)", "an argument is missing"},
    {"elementwise", "vectorize(j_1); vectorize(x)", "step 2: vectorize: there is no loop x"},
    /* names and numbers */
    {"elementwise", "split(k, 4)", "split: there is no loop k"},
    {"elementwise", "split(i_0, 0)", "the factor of loop i_0 is 0"},
    {"elementwise", "split(i_0, 4) -> j_1, b", "the name j_1 is taken"},
    {"elementwise", "split(i_0, 4) -> M, b", "the name M is taken"},
    {"elementwise", "split(i_0, 4) -> b, b", "the name b is taken"},
    {"elementwise", "cache_read(in7, i_0)", "there is no buffer in7"},
    {"elementwise", "cache_read(in0, i_0) -> in1", "the name in1 is taken"},
    {"elementwise", "bind(i_0, warp)", "warp is not one of grid, block, lane"},
    /* loops */
    {"elementwise", "vectorize(j_1); split(j_1, 4)", "loop j_1 is not serial"},
    {"elementwise", "reorder(i_0, i_0)", "loop i_0 is named twice"},
    {"softmax", "reorder(j_2, i_0)", "do not nest perfectly: other statements stand between"},
    {"softmax", "reorder(j_2, j_3)", "loop j_3 is not in the nest of the others"},
    {"softmax", "fuse(i_0, j_1)", "do not nest perfectly"},
    {"overwritten", "fuse(i_0, j_2)", "fuse"},
    {"elementwise", "fuse(j_1, i_0)", "neither is inside of the other"},
    {"elementwise", "fuse(i_0, i_0)", "i_0 is no loop right inside of i_0"},
    {"elementwise", "vectorize(j_1); fuse(i_0, j_1)", "differ in kind"},
    {"transposed", "reorder(j_1, i_0); fuse(j_1, i_0)", "the extent of i_0 may be 0"},
    {"triangle", "fuse(i_2, j_3)", "the extent of j_3 depends on i_2"},
    {"triangle", "reorder(j_3, i_2)", "the extent of j_3 depends on i_2"},
    {"wave", "reorder(j_1, i_0)", "loops i_0 and j_1 carry a dependence through out0"},
    {"wave", "tile(i_0, j_1, 2, 2)", "carry a dependence through out0"},
    {"wave", "split(j_1, 4); reorder(j_1_o, i_0)", "carry a dependence through out0"},
    {"overwritten", "reorder(r_1, i_0); split(r_1, 2); reorder(r_1_i, r_1_o)",
     "loops r_1_o and r_1_i carry a dependence through out0"},
    /* kinds */
    {"running", "parallel(i_0)", "other statements stand beside it"},
    {"running", "vectorize(i_0)", "loop i_0 carries a dependence through out0"},
    {"wave", "parallel(i_0)", "loop i_0 carries a dependence through out0"},
    {"wave", "vectorize(i_0)", "its iterations may write and read the same element"},
    {"wave", "bind(i_0, grid)", "loop i_0 carries a dependence through out0"},
    {"wave", "fuse(i_0, j_1) -> f; vectorize(f)", "loop f carries a dependence"},
    {"overwritten", "vectorize(r_1)", "its iterations may write the same element"},
    {"overwritten", "reorder(r_1, i_0); parallel(r_1)", "its iterations may write the same"},
    {"scatter", "vectorize(i_2)", "loop i_2 carries a dependence through out0"},
    {"stencil", "vectorize(a_0); bind(i_2, lane)", "must be a number of at most 32: M"},
    {"stencil", "split(i_2, 4); bind(i_2_i, lane)", "uses t_2, which is memory of one thread"},
    {"stencil", "split(i_2, 4); bind(i_2_i, block)", "uses t_2, which is memory of one thread"},
    {"elementwise", "parallel(j_1)", "loop j_1 cannot be parallel inside of i_0, which is not"},
    {"elementwise", "parallel(i_0); reorder(j_1, i_0)", "cannot be parallel inside of j_1"},
    {"elementwise", "parallel(i_0); cache_read(in1, i_0); parallel(j_1)",
     "other statements stand beside it"},
    {"elementwise", "parallel(i_0); parallel(j_1); cache_read(in1, i_0)",
     "other statements stand beside it"},
    {"elementwise", "vectorize(i_0); vectorize(j_1)",
     "loop j_1 cannot be vector inside of i_0, which is vector"},
    {"elementwise", "vectorize(i_0); reorder(j_1, i_0); parallel(i_0)", "is vector already"},
    {"elementwise", "bind(i_0, grid); split(j_1, 8); vectorize(j_1_i)",
     "cannot be vector inside of i_0, which is grid"},
    {"elementwise", "parallel(i_0); split(j_1, 8); bind(j_1_i, lane)",
     "cannot be lane inside of i_0, which is parallel"},
    {"elementwise", "split(i_0, 8); split(j_1, 8); bind(i_0_i, lane); bind(j_1_i, block)",
     "cannot be block inside of i_0_i, which is lane"},
    {"elementwise", "split(i_0, 8); split(j_1, 8); bind(i_0_i, block); bind(j_1_i, block)",
     "cannot be block inside of i_0_i, which is block"},
    {"elementwise", "bind(j_1, grid)", "cannot be grid inside of i_0"},
    {"elementwise", "unroll(j_1)", "the extent of loop j_1 must be a number of at most 64: N"},
    {"elementwise", "split(j_1, 65); unroll(j_1_i)", "must be a number of at most 64: 65"},
    {"elementwise", "split(j_1, 33); bind(j_1_i, lane)", "must be a number of at most 32: 33"},
    {"elementwise", "vectorize(j_1); unroll(j_1)", "unroll"},
    {"softmax", "parallel(j_1)", "cannot be parallel"},
    {"sum_plane", "parallel(i_0)", "other statements stand beside it"},
    /* caches */
    {"elementwise", "cache_read(out0, i_0)", "out0 is no input"},
    {"softmax", "cache_read(row_2, i_0)", "row_2 is no input"},
    {"softmax", "cache_read(in0, j_3)", "loop j_3 does not read in0"},
    {"softmax", "cache_write(out0, j_2)", "loop j_2 does not store to out0"},
    {"elementwise", "cache_write(in0, i_0)", "loop i_0 reads in0"},
    {"wave", "cache_write(out0, i_0)", "loop i_0 reads out0"},
    {"gather", "split(i_0, 2); parallel(i_0_o); cache_write(out0, i_0_o); parallel(i_0_i)",
     "cannot be parallel"},
    {"scatter", "split(i_2, 4); cache_write(out0, i_2_o)",
     "where loop i_2_o stores to out0 depends on data"},
    /* compute_at */
    {"stencil", "compute_at(in0, i_2)", "it is no local memory"},
    {"stencil", "compute_at(t_2, a_0)", "it is read elsewhere too"},
    {"stencil", "split(j_3, 4); split(b_1, 4); compute_at(t_2, i_2)",
     "its elements are not filled one by one"},
    {"softmax", "compute_at(row_2, j_3)", "the loops that fill it do more than that"},
    {"softmax", "compute_at(row_2, j_1)", "it is read elsewhere too"},
    /* rfactor */
    {"matmul", "split(k_2, 256); rfactor(k_2_o)", "added one segment after the other"},
    {"matmul_add_i32", "split(k_2, 4); rfactor(k_2_o)", "it begins with an addend"},
    {"matmul_add", "tensorize(i_0, j_1, k_2)", "the sum begins with an addend"},
    {"sum_long", "split(k_1, 1024); rfactor(k_1_o)", "runs of 4096 only"},
    {"sum_long", "split(k_1, 8192); rfactor(k_1_o)", "runs of 4096 only"},
    {"argmax_row", "split(k_1, 4); rfactor(k_1_o)", "a position is no term"},
    {"max_row", "split(k_1, 4); rfactor(k_1_i)", "no run of positions of its own"},
    {"max_row", "rfactor(i_0)", "adds no terms to a reduction"},
    {"sum_plane", "rfactor(j_1)", "no run of positions of its own"},
    {"sum_plane", "rfactor(i_0)", "rfactor"},
    /* tensorize */
    {"matmul", "tensorize(j_1, i_0, k_2)", "the second is not all that is in the first"},
    {"matmul", "reorder(j_1, i_0); tensorize(j_1, i_0, k_2)", "not [.., i, k] and [.., k, j]"},
    {"matmul", "vectorize(j_1); tensorize(i_0, j_1, k_2)", "they must be serial"},
    {"matmul", "split(k_2, 256); tensorize(i_0, j_1, k_2_i)", "does more than add terms"},
    {"matmul_fixed", "split(k_2, 128); tensorize(i_0, j_1, k_2_i)",
     "the order of the sum has no partial results of this length"},
    {"matmul_fixed", "split(k_2, 2); reorder(k_2_i, k_2_o); tensorize(i_0, j_1, k_2_o)",
     "terms do not come in the order of the loops"},
    {"matmul", "cache_read(in0, i_0); tensorize(i_0, j_1, k_2)",
     "the second is not all that is in the first"},
    {"softmax", "tensorize(i_0, j_1, j_2)", "the second is not all that is in the first"},
    {"window", "tensorize(i_0, j_1, t_2)", "the factors are no elements of buffers"},
    {"max_row", "split(i_0, 1); tensorize(i_0_o, i_0_i, k_1)", "tensorize"},
};
enum { N_ILLEGAL = (int)(sizeof illegals / sizeof illegals[0]) };

/* The sentence, and a nest that is as it was. */
START_TEST(illegal_schedules_are_refused) {
    const illegal *x = &illegals[_i];
    mlsi_nest before, after;
    nc_build(&before, inside->alloc, x->sample);
    nc_build(&after, inside->alloc, x->sample);
    mlsys_status st = mlsi_schedule_apply(&after, x->schedule);
    if (st == MLSYS_OK) ck_abort_msg("%s: %s: accepted", x->sample, x->schedule);
    if ((st != MLSYS_E_UNSUPPORTED && st != MLSYS_E_ARG) ||
        !strstr(mlsys_last_error(), x->sentence))
        ck_abort_msg("%s: %s: %s \"%s\", expected \"%s\"", x->sample, x->schedule,
                     mlsys_status_name(st), mlsys_last_error(), x->sentence);
    REQUIRE(after.status == MLSYS_OK);
    REQUIRE(after.n_stmts == before.n_stmts);
    compare(&before, &after, x->schedule, 2, 4);
    mlsi_nest_free(&before);
    mlsi_nest_free(&after);
}
END_TEST

static const struct {
    const char *sample, *schedule;
    mlsys_status status;
} kinds_of_refusal[] = {
    {"elementwise", "cut(i_0)", MLSYS_E_ARG},
    {"elementwise", "split(i_0, 0)", MLSYS_E_ARG},
    {"elementwise", "reorder(i_0, i_0)", MLSYS_E_ARG},
    {"softmax", "reorder(j_2, j_3)", MLSYS_E_UNSUPPORTED},
    {"wave", "parallel(i_0)", MLSYS_E_UNSUPPORTED},
};
enum { N_KINDS = (int)(sizeof kinds_of_refusal / sizeof kinds_of_refusal[0]) };

/* ARG: the program is wrong for any nest of these loops; UNSUPPORTED: this nest does not allow it. */
START_TEST(refusals_tell_wrong_from_not_allowed) {
    mlsi_nest n;
    nc_build(&n, inside->alloc, kinds_of_refusal[_i].sample);
    ck_assert_int_eq(mlsi_schedule_apply(&n, kinds_of_refusal[_i].schedule),
                     kinds_of_refusal[_i].status);
    mlsi_nest_free(&n);
}
END_TEST

/* ---- calls ------------------------------------------------------------------------------------------------------------------ */

/* The calls are the steps of the text. */
START_TEST(calls_do_what_the_text_does) {
    mlsi_nest before, n;
    nc_build(&before, inside->alloc, "matmul_i32");
    nc_build(&n, inside->alloc, "matmul_i32");
    OK(mlsi_schedule_split(&n, "i_0", 4, "a", "b"));
    OK(mlsi_schedule_reorder(&n, 2, (const char *const[]){"b", "a"}));
    OK(mlsi_schedule_reorder(&n, 2, (const char *const[]){"a", "b"}));
    OK(mlsi_schedule_fuse(&n, "a", "b", "c"));
    OK(mlsi_schedule_tile(&n, "c", "j_1", 2, 4, (const char *const[]){"d", "e", "f", "g"}));
    OK(mlsi_schedule_cache_read(&n, "in0", "e", "left"));
    OK(mlsi_schedule_cache_write(&n, "out0", "e", "out"));
    OK(mlsi_schedule_split(&n, "k_2", 8, "k", "l"));
    OK(mlsi_schedule_rfactor(&n, "k"));
    OK(mlsi_schedule_vectorize(&n, "l"));
    OK(mlsi_schedule_unroll(&n, "g"));
    OK(mlsi_schedule_parallel(&n, "d"));
    compare(&before, &n, "calls", 0, NC_BINDINGS);
    expect(mlsi_schedule_reorder(&n, 9, NULL), MLSYS_E_ARG, "reorder: 9 loops, at most 8");
    expect(mlsi_schedule_step(&n, &(mlsi_directive){.primitive = (mlsi_primitive)99}), MLSYS_E_ARG,
           "primitive 99");
    mlsi_nest_free(&n);
    nc_build(&n, inside->alloc, "matmul_i32");
    OK(mlsi_schedule_tensorize(&n, "i_0", "j_1", "k_2", "tile"));
    compare(&before, &n, "tensorize", 0, NC_BINDINGS);
    mlsi_nest_free(&n);
    mlsi_nest_free(&before);
    nc_build(&before, inside->alloc, "stencil");
    nc_build(&n, inside->alloc, "stencil");
    OK(mlsi_schedule_compute_at(&n, "t_2", "i_2"));
    OK(mlsi_schedule_bind(&n, "i_2", "grid"));
    compare(&before, &n, "calls", 0, NC_BINDINGS);
    mlsi_nest_free(&n);
    mlsi_nest_free(&before);
}
END_TEST

START_TEST(text_reads_back) {
    mlsi_schedule s;
    mlsi_text t;
    mlsi_schedule_init(&s, inside->alloc);
    OK(mlsi_schedule_parse(&s, "# a comment\n split( i ,64 )->a,b;; reorder(b,a) # and one\n;\n"
                               "fuse(b, a); tile(x, y, 2, 3); cache_read(in0, b_a);"
                               "tensorize(x_i, y_i, k)"));
    mlsi_text_init(&t, inside->alloc);
    mlsi_schedule_print(&s, &t);
    ck_assert_str_eq(t.data, "split(i, 64) -> a, b;\nreorder(b, a);\nfuse(b, a) -> b_a;\n"
                             "tile(x, y, 2, 3) -> x_o, y_o, x_i, y_i;\n"
                             "cache_read(in0, b_a) -> in0_tile;\n"
                             "tensorize(x_i, y_i, k) -> x_i_y_i_tile;\n");
    mlsi_text_free(&t);
    expect(mlsi_schedule_parse(&s, "vectorize(a); split(b"), MLSYS_E_ARG, "an argument is missing");
    ck_assert_int_eq(s.n, 6); /* what was there */
    mlsi_schedule_free(&s);
}
END_TEST

/* ---- memory --------------------------------------------------------------------------------------------------------------------- */

/* Each allocation fails in turn: NOMEM, nothing lost, and the nest is as it was. */
static void fail_each(const char *sample, const char *schedule) {
    failing_alloc f = {.fail_at = 0};
    mlsys_hooks hooks = failing_alloc_hooks(&f);
    mlsi_alloc a;
    mlsi_nest before, n;
    mlsi_alloc_init(&a, &hooks);
    nc_build(&before, inside->alloc, sample);
    nc_build(&n, &a, sample);
    int64_t blocks = f.blocks, step = 1, failures = 0;
    for (int64_t at = 1;; at += step, step = 1 + at / 50) { /* all of the first, then some */
        f.calls = 0;
        f.fail_at = at;
        mlsys_status st = mlsi_schedule_apply(&n, schedule);
        f.fail_at = 0;
        if (st == MLSYS_OK) break;
        failures++;
        expect(st, MLSYS_E_NOMEM, "");
        REQUIRE(f.blocks == blocks);
    }
    ck_assert_int_gt(failures, 50);
    compare(&before, &n, schedule, 2, 3);
    mlsi_nest_free(&n);
    ck_assert_int_eq(f.blocks, 0);
    mlsi_nest_free(&before);
}

START_TEST(memory_may_fail_anywhere) {
    fail_each("matmul", "tile(i_0, j_1, 2, 4); cache_read(in1, j_1_o); cache_write(out0, j_1_o); "
                        "fuse(i_0_i, j_1_i) -> f; vectorize(f)");
    fail_each("matmul", "tensorize(i_0, j_1, k_2)");
    fail_each("stencil", "split(j_3, 4); compute_at(t_2, j_3_o); vectorize(j_3_i)");
    fail_each("sum_i32", "split(k_1, 5); rfactor(k_1_o); bind(i_0, grid)");
}
END_TEST

int main(void) {
    Suite *s = suite_create("schedule");
    TCase *c = tcase_create("legal");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, legal_schedules_keep_the_bits, 0, N_LEGAL);
    suite_add_tcase(s, c);
    c = tcase_create("illegal");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, illegal_schedules_are_refused, 0, N_ILLEGAL);
    tcase_add_loop_test(c, refusals_tell_wrong_from_not_allowed, 0, N_KINDS);
    suite_add_tcase(s, c);
    c = tcase_create("calls");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, calls_do_what_the_text_does);
    tcase_add_test(c, text_reads_back);
    tcase_add_test(c, memory_may_fail_anywhere);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
