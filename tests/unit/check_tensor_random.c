/* Long random sequences of tensor calls, right and wrong ones, against a shadow that keeps for each
 * tensor the list of addresses it reaches. */
#include <mlsys/mlsys.h>

#include "support/random.h"
#include "support/require.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 12, BLOCKS = 200, CELLS = 64 };

/* The memory of one storage, as the shadow believes it to be. */
typedef struct shadow_block {
    uint64_t id;
    int32_t cell[CELLS];
    int64_t cells;
} shadow_block;

typedef struct shadow {
    mlsys_tensor handle;
    int block;
    int32_t ndim;
    int64_t shape[8], count, at[CELLS * 4]; /* cell of each element, row-major */
} shadow;

typedef struct world {
    mlsys_ctx ctx;
    mlsys_device device;
    mlsys_stream stream;
    shadow t[TENSORS];
    shadow_block block[BLOCKS];
    int blocks;
    test_random r;
    int64_t ok, refused;
} world;

enum { AT_MAX = CELLS * 4 };

static void check_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

static int64_t count_of(int32_t ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= shape[d];
    return n;
}

/* at[k] = f(index of k) for the affine function given by strides in cells. */
static bool fill_affine(shadow *s, const int64_t *strides, int64_t offset, int64_t cells) {
    s->count = count_of(s->ndim, s->shape);
    if (s->count > AT_MAX) return false;
    for (int64_t k = 0; k < s->count; k++) {
        int64_t rest = k, at = offset;
        for (int d = s->ndim - 1; d >= 0; d--) {
            at += rest % s->shape[d] * strides[d];
            rest /= s->shape[d];
        }
        if (at < 0 || at >= cells) return false;
        s->at[k] = at;
    }
    return s->count > 0 || (offset >= 0 && offset <= cells);
}

static bool overlaps(const shadow *s) {
    unsigned char seen[CELLS] = {0};
    for (int64_t k = 0; k < s->count; k++)
        if (seen[s->at[k]]++) return true;
    return false;
}

static void expect_contents(world *w, const shadow *s) {
    int32_t got[AT_MAX + 1];
    check_ok(mlsys_tensor_read(s->handle, w->stream, got, (uint64_t)s->count * 4));
    for (int64_t k = 0; k < s->count; k++)
        REQUIRE(got[k] == w->block[s->block].cell[s->at[k]]);
    int64_t shape[8];
    int32_t ndim;
    check_ok(mlsys_tensor_shape(s->handle, 8, shape, &ndim));
    REQUIRE(ndim == s->ndim && !memcmp(shape, s->shape, (size_t)ndim * sizeof *shape));
}

/* Store what a call gave in slot `to`, or expect that it failed. */
static void settle(world *w, int to, mlsys_status st, mlsys_tensor h, shadow *s, bool legal) {
    if ((st == MLSYS_OK) != legal)
        ck_abort_msg("legal %d, got %s: %s", legal, mlsys_status_name(st), mlsys_last_error());
    REQUIRE((h != NULL) == legal);
    if (!legal) {
        w->refused++;
        return;
    }
    w->ok++;
    check_ok(mlsys_release(w->t[to].handle));
    s->handle = h;
    w->t[to] = *s;
    expect_contents(w, &w->t[to]);
}

/* ---- the calls ------------------------------------------------------------------------------ */

static int new_block(world *w, mlsys_tensor h, int64_t cells) {
    REQUIRE(w->blocks < BLOCKS);
    shadow_block *b = &w->block[w->blocks];
    check_ok(mlsys_tensor_storage_id(h, &b->id));
    for (int i = 0; i < w->blocks; i++)
        REQUIRE(w->block[i].id != b->id);
    b->cells = cells;
    return w->blocks++;
}

static void do_create(world *w, int to) {
    shadow s = {.ndim = (int32_t)test_int(&w->r, 0, 4)};
    int64_t strides[8], step = 1;
    for (int d = 0; d < s.ndim; d++)
        s.shape[d] = test_int(&w->r, 0, 9) ? test_int(&w->r, 1, 4) : 0;
    for (int d = s.ndim - 1; d >= 0; d--) {
        strides[d] = step;
        step *= s.shape[d] ? s.shape[d] : 1;
    }
    s.count = count_of(s.ndim, s.shape);
    if (s.count > CELLS) return;
    mlsys_tensor h;
    check_ok(mlsys_tensor_create(w->device, MLSYS_I32, s.ndim, s.shape, &h));
    int32_t values[CELLS + 1];
    s.block = new_block(w, h, s.count);
    for (int64_t i = 0; i < s.count; i++)
        values[i] = w->block[s.block].cell[i] = (int32_t)test_bits(&w->r);
    check_ok(mlsys_tensor_write(h, w->stream, values, (uint64_t)s.count * 4));
    REQUIRE(fill_affine(&s, strides, 0, s.count));
    settle(w, to, MLSYS_OK, h, &s, true);
}

static void do_view(world *w, int to, const shadow *from) {
    shadow s = {.ndim = (int32_t)test_int(&w->r, 0, 3), .block = from->block};
    int64_t strides[8], offset = test_int(&w->r, -1, 8);
    for (int d = 0; d < s.ndim; d++) {
        s.shape[d] = test_int(&w->r, 0, 3);
        strides[d] = test_int(&w->r, -2, 4);
    }
    bool legal = fill_affine(&s, strides, offset, w->block[s.block].cells);
    mlsys_tensor h;
    mlsys_status st = mlsys_tensor_view(from->handle, s.ndim, s.shape, strides, offset, &h);
    settle(w, to, st, h, &s, legal);
}

static void do_slice(world *w, int to, const shadow *from) {
    static const int64_t ends[] = {INT64_MIN, INT64_MAX, -3, -2, -1, 0, 1, 2, 3, 4};
    int32_t axis = (int32_t)test_int(&w->r, -4, 4);
    int64_t start = ends[test_int(&w->r, 0, 9)], stop = ends[test_int(&w->r, 0, 9)];
    int64_t step = test_int(&w->r, -3, 3);
    shadow s = *from;
    int real = axis < 0 ? axis + s.ndim : axis;
    bool legal = real >= 0 && real < s.ndim && step;
    if (legal) {
        int64_t n = from->shape[real], keep[CELLS], m = 0, inner = 1, outer = 1;
        __int128 i = start < 0 ? (__int128)start + n : start;
        __int128 e = stop < 0 ? (__int128)stop + n : stop;
        __int128 top = step > 0 ? n : n - 1, floor = step > 0 ? 0 : -1;
        i = i < 0 ? 0 : i > top ? top : i;
        e = e < floor ? floor : e > top ? top : e;
        for (; n && (step > 0 ? i < e : i > e); i += step)
            keep[m++] = (int64_t)i;
        for (int d = 0; d < s.ndim; d++)
            *(d < real ? &outer : d > real ? &inner : &(int64_t){0}) *= from->shape[d];
        s.shape[real] = m;
        s.count = outer * m * inner;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t k = 0; k < m; k++)
                for (int64_t x = 0; x < inner; x++)
                    s.at[(o * m + k) * inner + x] = from->at[(o * n + keep[k]) * inner + x];
    }
    mlsys_tensor h;
    mlsys_status st = mlsys_tensor_slice(from->handle, axis, start, stop, step, &h);
    settle(w, to, st, h, &s, legal);
}

static void do_transpose(world *w, int to, const shadow *from) {
    int32_t a = (int32_t)test_int(&w->r, -4, 4), b = (int32_t)test_int(&w->r, -4, 4);
    int x = a < 0 ? a + from->ndim : a, y = b < 0 ? b + from->ndim : b;
    bool legal = x >= 0 && x < from->ndim && y >= 0 && y < from->ndim;
    shadow s = *from;
    if (legal) {
        s.shape[x] = from->shape[y];
        s.shape[y] = from->shape[x];
        for (int64_t k = 0; k < s.count; k++) {
            int64_t rest = k, index[8], at = 0;
            for (int d = s.ndim - 1; d >= 0; d--) {
                index[d] = rest % s.shape[d];
                rest /= s.shape[d];
            }
            int64_t t = index[x];
            index[x] = index[y], index[y] = t;
            for (int d = 0; d < s.ndim; d++)
                at = at * from->shape[d] + index[d];
            s.at[k] = from->at[at];
        }
    }
    mlsys_tensor h;
    mlsys_status st = mlsys_tensor_transpose(from->handle, a, b, &h);
    settle(w, to, st, h, &s, legal);
}

static void do_reshape(world *w, int to, const shadow *from) {
    shadow s = *from;
    s.ndim = (int32_t)test_int(&w->r, 0, 3);
    for (int d = 0; d < s.ndim; d++)
        s.shape[d] = test_int(&w->r, 0, 6);
    if (test_int(&w->r, 0, 1) && s.ndim) { /* make it fit more often */
        int64_t others = count_of(s.ndim - 1, s.shape);
        if (others && from->count % others == 0) s.shape[s.ndim - 1] = from->count / others;
    }
    bool legal = count_of(s.ndim, s.shape) == from->count;
    mlsys_tensor h;
    int32_t copied;
    mlsys_status st = mlsys_tensor_reshape(from->handle, s.ndim, s.shape, &h, &copied);
    if (legal && st == MLSYS_OK && copied) { /* fresh memory with the same values */
        if (from->count > CELLS) {
            check_ok(mlsys_release(h));
            return;
        }
        s.block = new_block(w, h, s.count);
        for (int64_t k = 0; k < s.count; k++) {
            w->block[s.block].cell[k] = w->block[from->block].cell[from->at[k]];
            s.at[k] = k;
        }
    }
    settle(w, to, st, h, &s, legal);
}

static void do_broadcast(world *w, int to, const shadow *from) {
    shadow s = {.ndim = (int32_t)test_int(&w->r, 0, 4), .block = from->block};
    bool legal = s.ndim >= from->ndim;
    for (int d = 0; d < s.ndim; d++) {
        int f = d - (s.ndim - from->ndim);
        bool has = f >= 0 && f < from->ndim;
        s.shape[d] = has && test_int(&w->r, 0, 3) ? from->shape[f] : test_int(&w->r, 0, 3);
        if (has && from->shape[f] != 1 && from->shape[f] != s.shape[d]) legal = false;
    }
    s.count = count_of(s.ndim, s.shape);
    if (s.count > AT_MAX) return;
    for (int64_t k = 0; legal && k < s.count; k++) {
        int64_t rest = k, at = 0, step = 1;
        for (int d = s.ndim - 1; d >= 0; d--) {
            int f = d - (s.ndim - from->ndim);
            int64_t i = rest % s.shape[d];
            rest /= s.shape[d];
            if (f < 0) continue;
            at += (from->shape[f] == 1 ? 0 : i) * step;
            step *= from->shape[f];
        }
        s.at[k] = from->at[at];
    }
    mlsys_tensor h;
    mlsys_status st = mlsys_tensor_broadcast(from->handle, s.ndim, s.shape, &h);
    settle(w, to, st, h, &s, legal);
}

static void do_copy(world *w, const shadow *dst, const shadow *src) {
    bool legal = dst->ndim == src->ndim && !overlaps(dst);
    for (int d = 0; d < dst->ndim && d < src->ndim; d++)
        legal = legal && dst->shape[d] == src->shape[d];
    mlsys_status st = mlsys_tensor_copy(dst->handle, src->handle, w->stream);
    REQUIRE((st == MLSYS_OK) == legal);
    if (!legal) return;
    int32_t values[AT_MAX];
    for (int64_t k = 0; k < src->count; k++)
        values[k] = w->block[src->block].cell[src->at[k]];
    for (int64_t k = 0; k < dst->count; k++)
        w->block[dst->block].cell[dst->at[k]] = values[k];
    w->ok++;
}

static void do_write(world *w, const shadow *dst) {
    int32_t values[AT_MAX + 1];
    for (int64_t k = 0; k < dst->count; k++)
        values[k] = (int32_t)test_bits(&w->r);
    uint64_t bytes = (uint64_t)dst->count * 4 + (test_int(&w->r, 0, 7) ? 0 : 4);
    bool legal = bytes == (uint64_t)dst->count * 4 && !overlaps(dst);
    mlsys_status st = mlsys_tensor_write(dst->handle, w->stream, values, bytes);
    REQUIRE((st == MLSYS_OK) == legal);
    for (int64_t k = 0; legal && k < dst->count; k++)
        w->block[dst->block].cell[dst->at[k]] = values[k];
}

/* Blocks that no tensor reaches are forgotten, so that the shadow stays small. */
static void forget_blocks(world *w) {
    for (int b = 0; b < w->blocks; b++) {
        bool used = false;
        for (int i = 0; i < TENSORS; i++)
            used = used || (w->t[i].handle && w->t[i].block == b);
        if (used) continue;
        int last = --w->blocks;
        w->block[b] = w->block[last];
        for (int i = 0; i < TENSORS; i++)
            if (w->t[i].handle && w->t[i].block == last) w->t[i].block = b;
        b--;
    }
}

static void one_step(world *w) {
    int to = (int)test_int(&w->r, 0, TENSORS - 1), from = (int)test_int(&w->r, 0, TENSORS - 1);
    const shadow copy = w->t[from], *f = &copy;
    int what = (int)test_int(&w->r, 0, 11);
    if (!f->handle) {
        mlsys_tensor h = (mlsys_tensor)1;
        if (what > 5) REQUIRE(mlsys_tensor_reverse(NULL, 0, &h) == MLSYS_E_HANDLE && !h);
        do_create(w, to);
        return;
    }
    if (what == 0) do_create(w, to);
    if (what == 1 || what == 2) do_view(w, to, f);
    if (what == 3) do_slice(w, to, f);
    if (what == 4) do_transpose(w, to, f);
    if (what == 5 || what == 6) do_reshape(w, to, f);
    if (what == 7) do_broadcast(w, to, f);
    if (what == 8 && w->t[to].handle) do_copy(w, &w->t[to], &w->t[from]);
    if (what == 9) do_write(w, &w->t[from]);
    if (what == 10) {
        check_ok(mlsys_release(f->handle));
        REQUIRE(mlsys_release(f->handle) == MLSYS_E_HANDLE);
        w->t[from] = (shadow){0};
    }
    if (what == 11) {
        int32_t got;
        check_ok(mlsys_tensor_layout(f->handle, NULL, &got));
        REQUIRE(got == overlaps(f));
    }
}

START_TEST(random_sequences) {
    static world w;
    w.r = test_random_seed("sequences", 13);
    check_ok(mlsys_ctx_create(NULL, NULL, &w.ctx));
    check_ok(mlsys_device_get(w.ctx, MLSYS_CPU, 0, &w.device));
    check_ok(mlsys_stream_create(w.device, NULL, &w.stream));
    for (int i = 0; i < 300000; i++) {
        one_step(&w);
        forget_blocks(&w);
        if (i % 64 == 0)
            for (int k = 0; k < TENSORS; k++)
                if (w.t[k].handle) expect_contents(&w, &w.t[k]);
    }
    ck_assert_int_gt(w.ok, 10000);
    ck_assert_int_gt(w.refused, 10000);
    for (int k = 0; k < TENSORS; k++)
        check_ok(mlsys_release(w.t[k].handle));
    mlsys_stats s = {.size = sizeof s};
    check_ok(mlsys_ctx_stats(w.ctx, &s));
    ck_assert_uint_eq(s.live_handles, 2);
    check_ok(mlsys_release(w.stream));
    check_ok(mlsys_release(w.device));
    check_ok(mlsys_release(w.ctx));
}
END_TEST

int main(void) {
    Suite *s = suite_create("tensor_random");
    TCase *t = tcase_create("tensor_random");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, random_sequences);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
