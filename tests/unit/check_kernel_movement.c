/* Kernels that move elements: bits are kept, and land where the op says. */
#include "support/move_case.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED = 20261205 };

static void move(const mlsi_view *to, int64_t i, const mlsi_view *from, int64_t j) {
    memcpy(kc_at(to, i), kc_at(from, j), (size_t)mlsi_dtype_size(to->dtype));
}

static int64_t ravel(int rank, const int64_t *shape, const int64_t *index) {
    int64_t i = 0;
    for (int d = 0; d < rank; d++)
        i = i * shape[d] + index[d];
    return i;
}

static move_case begin(kc_rng *r, mlsi_op op, const void *attrs, int rank, const int64_t *shape) {
    move_case m = {.c = {.op = op, .attrs = attrs, .n_in = 1, .n_out = 1}};
    m.t = move_dtypes[kc_int(r, 0, MOVE_DTYPES - 1)];
    m.c.in[0] = kc_tensor_new(r, m.t, rank, shape, (kc_layout)kc_int(r, 0, KC_BROADCAST));
    kc_fill(r, &m.c.in[0], KC_ANY);
    return m;
}

START_TEST(copy) {
    kc_rng r = kc_seed(SEED);
    for (int repeat = 0; repeat < 400; repeat++) {
        int64_t shape[4];
        int rank = move_shape(&r, shape, 0);
        if (repeat % 50 == 0) rank = 2, shape[0] = 300, shape[1] = 270; /* bands of a transpose */
        move_case m = begin(&r, MLSI_OP_COPY, NULL, rank, shape);
        move_case_output(&r, &m, rank, shape);
        for (int64_t i = 0; i < count_of(rank, shape); i++)
            move(&m.e.view, i, &m.c.in[0].view, i);
        move_case_check(&m);
    }
}
END_TEST

START_TEST(copy_of_blocks) {
    static const int64_t shape[2] = {6, 64}, half[2] = {3, 64};
    kc_rng r = kc_seed(SEED + 1);
    move_case m = {.c = {.op = MLSI_OP_COPY, .n_in = 1, .n_out = 1}, .t = MLSYS_Q4_1};
    m.c.in[0] = kc_tensor_new(&r, m.t, 2, shape, KC_DENSE);
    for (int i = 0; i < 6 * 2 * 20; i++)
        ((uint8_t *)m.c.in[0].view.data)[i] = (uint8_t)kc_bits(&r);
    memcpy(m.c.in[0].before, m.c.in[0].block, m.c.in[0].bytes);
    m.c.in[0].view.shape[0] = 3; /* every second row */
    m.c.in[0].view.strides[0] = 128;
    m.c.out[0] = kc_tensor_new(&r, m.t, 2, half, KC_DENSE);
    const mlsi_kernel *k = kc_row(MLSI_OP_COPY, 0);
    ck_assert(kc_accepts(k, &m.c));
    mlsi_kernel_args args = {.n_in = 1, .n_out = 1, .in = &m.c.in[0].view, .out = &m.c.out[0].view};
    ck_assert_int_eq(k->run(&args), MLSYS_OK);
    for (int row = 0; row < 3; row++)
        ck_assert(!memcmp((char *)m.c.out[0].view.data + row * 40,
                          (char *)m.c.in[0].view.data + row * 80, 40));
    kc_call_free(&m.c);
}
END_TEST

START_TEST(transpose_and_reverse) {
    kc_rng r = kc_seed(SEED + 2);
    for (int repeat = 0; repeat < 200; repeat++) {
        int64_t shape[4], out[4], index[4], from[4];
        int rank = move_shape(&r, shape, 1);
        mlsi_attr_transpose perm = {.perm = {.n = rank}};
        mlsi_attr_axes axes = {{0}};
        bool turn = repeat % 2;
        for (int d = 0; d < rank; d++) {
            perm.perm.v[d] = d;
            if (kc_bits(&r) % 2) axes.axes.v[axes.axes.n++] = d;
        }
        for (int d = 0; d < rank; d++) {
            int e = (int)kc_int(&r, d, rank - 1);
            int64_t t = perm.perm.v[d];
            perm.perm.v[d] = perm.perm.v[e];
            perm.perm.v[e] = t;
        }
        for (int d = 0; d < rank; d++)
            out[d] = turn ? shape[perm.perm.v[d]] : shape[d];
        move_case m = begin(&r, turn ? MLSI_OP_TRANSPOSE : MLSI_OP_REVERSE,
                            turn ? (void *)&perm : (void *)&axes, rank, shape);
        move_case_output(&r, &m, rank, out);
        for (int64_t i = 0; i < count_of(rank, out); i++) {
            unravel(rank, out, i, index);
            for (int d = 0; d < rank && turn; d++)
                from[perm.perm.v[d]] = index[d];
            for (int64_t a = 0; a < axes.axes.n; a++) {
                int64_t d = axes.axes.v[a];
                if (!turn) index[d] = shape[d] - 1 - index[d];
            }
            move(&m.e.view, i, &m.c.in[0].view, ravel(rank, shape, turn ? from : index));
        }
        move_case_check(&m);
    }
}
END_TEST

START_TEST(reshape_and_broadcast) {
    static const int64_t shapes[][4] = {{2, 3, 4, 5}, {6, 20, 1, 1}, {1, 120, 1, 1}, {5, 1, 24, 1},
                                        {4, 5, 3, 2}, {10, 2, 2, 3}, {0, 3, 4, 5},   {3, 0, 7, 1}};
    kc_rng r = kc_seed(SEED + 3);
    for (int repeat = 0; repeat < 200; repeat++) {
        int from = (int)kc_int(&r, 0, 7),
            to = from < 6 ? (int)kc_int(&r, 0, 5) : (int)kc_int(&r, 6, 7);
        move_case m = begin(&r, MLSI_OP_RESHAPE, NULL, 4, shapes[from]);
        move_case_output(&r, &m, 4, shapes[to]);
        for (int64_t i = 0; i < count_of(4, shapes[to]); i++)
            move(&m.e.view, i, &m.c.in[0].view, i);
        move_case_check(&m);
        int64_t shape[4], small[4];
        int rank = move_shape(&r, shape, 1), drop = (int)kc_int(&r, 0, rank);
        for (int d = drop; d < rank; d++)
            small[d - drop] = kc_bits(&r) % 2 ? 1 : shape[d];
        m = begin(&r, MLSI_OP_BROADCAST, NULL, rank - drop, small);
        move_case_output(&r, &m, rank, shape);
        for (int64_t i = 0; i < count_of(rank, shape); i++)
            move(&m.e.view, i, &m.c.in[0].view, kc_broadcast_index(&m.c.in[0].view, &m.e.view, i));
        move_case_check(&m);
    }
}
END_TEST

START_TEST(slice) {
    kc_rng r = kc_seed(SEED + 4);
    for (int repeat = 0; repeat < 200; repeat++) {
        int64_t shape[4], out[4], first[4], index[4];
        int rank = move_shape(&r, shape, 1);
        mlsi_attr_slice attrs = {.starts = {.n = rank}, .stops = {.n = rank}, .steps = {.n = rank}};
        for (int d = 0; d < rank; d++) {
            int64_t step = kc_int(&r, 1, 3) * (kc_bits(&r) % 2 ? 1 : -1);
            attrs.steps.v[d] = step;
            attrs.starts.v[d] = kc_int(&r, -shape[d] - 2, shape[d] + 2);
            attrs.stops.v[d] = kc_int(&r, -shape[d] - 2, shape[d] + 2);
            if (kc_bits(&r) % 3 == 0) attrs.starts.v[d] = step > 0 ? INT64_MIN : INT64_MAX;
            if (kc_bits(&r) % 3 == 0) attrs.stops.v[d] = step > 0 ? INT64_MAX : INT64_MIN;
            /* first index and count by walking */
            int64_t n = shape[d], a = attrs.starts.v[d], b = attrs.stops.v[d];
            if (a < 0 && a != INT64_MIN) a += n;
            if (b < 0 && b != INT64_MIN) b += n;
            int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;
            a = a < lo ? lo : a > hi ? hi : a;
            b = b < lo ? lo : b > hi ? hi : b;
            first[d] = a;
            out[d] = 0;
            for (int64_t i = a; step > 0 ? i < b : i > b; i += step)
                out[d]++;
        }
        move_case m = begin(&r, MLSI_OP_SLICE, &attrs, rank, shape);
        move_case_output(&r, &m, rank, out);
        for (int64_t i = 0; i < count_of(rank, out); i++) {
            unravel(rank, out, i, index);
            for (int d = 0; d < rank; d++)
                index[d] = first[d] + index[d] * attrs.steps.v[d];
            move(&m.e.view, i, &m.c.in[0].view, ravel(rank, shape, index));
        }
        move_case_check(&m);
    }
}
END_TEST

START_TEST(pad) {
    kc_rng r = kc_seed(SEED + 5);
    for (int repeat = 0; repeat < 200; repeat++) {
        int64_t shape[4], out[4], index[4];
        int rank = move_shape(&r, shape, 1);
        mlsi_attr_pad attrs = {
            .low = {.n = rank}, .high = {.n = rank}, .value = repeat % 3 ? -1.5 : 0};
        for (int d = 0; d < rank; d++) {
            attrs.low.v[d] = kc_int(&r, -3, 4);
            attrs.high.v[d] = kc_int(&r, -3, 4);
            out[d] = shape[d] + attrs.low.v[d] + attrs.high.v[d];
            if (out[d] < 0) attrs.high.v[d] -= out[d], out[d] = 0;
        }
        move_case m = begin(&r, MLSI_OP_PAD, &attrs, rank, shape);
        move_case_output(&r, &m, rank, out);
        for (int64_t i = 0; i < count_of(rank, out); i++) {
            bool inside = true;
            unravel(rank, out, i, index);
            for (int d = 0; d < rank; d++) {
                index[d] -= attrs.low.v[d];
                inside = inside && index[d] >= 0 && index[d] < shape[d];
            }
            if (inside)
                move(&m.e.view, i, &m.c.in[0].view, ravel(rank, shape, index));
            else if (mlsi_dtype_is_float(m.t))
                kc_set_f(&m.e.view, i, attrs.value);
            else
                kc_set_i(&m.e.view, i, mlsi_f64_to_int(attrs.value, m.t));
        }
        move_case_check(&m);
    }
}
END_TEST

START_TEST(concat) {
    kc_rng r = kc_seed(SEED + 6);
    for (int repeat = 0; repeat < 120; repeat++) {
        int64_t shape[4], out[4], index[4], at = 0;
        int rank = move_shape(&r, shape, 1), axis = (int)kc_int(&r, 0, rank - 1);
        int n = (int)kc_int(&r, 1, 5);
        mlsi_attr_axis attrs = {.axis = repeat % 2 ? axis : axis - rank};
        move_case m = begin(&r, MLSI_OP_CONCAT, &attrs, rank, shape);
        memcpy(out, shape, sizeof out);
        m.c.n_in = n;
        for (int k = 1; k < n; k++) {
            shape[axis] = kc_int(&r, 0, 20);
            m.c.in[k] = kc_tensor_new(&r, m.t, rank, shape, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
            kc_fill(&r, &m.c.in[k], KC_ANY);
            out[axis] += shape[axis];
        }
        move_case_output(&r, &m, rank, out);
        for (int k = 0; k < n; k++) {
            const mlsi_view *x = &m.c.in[k].view;
            for (int64_t i = 0; i < mlsi_view_count(x); i++) {
                unravel(rank, x->shape, i, index);
                index[axis] += at;
                move(&m.e.view, ravel(rank, out, index), x, i);
            }
            at += x->shape[axis];
        }
        move_case_check(&m);
    }
}
END_TEST

static void window_reference(const mlsi_view *whole, const mlsi_view *part, const int64_t *start,
                             bool update, const mlsi_view *e) {
    int64_t index[4];
    for (int64_t i = 0; update && i < mlsi_view_count(whole); i++)
        move(e, i, whole, i);
    for (int64_t i = 0; i < mlsi_view_count(part); i++) {
        unravel(part->rank, part->shape, i, index);
        for (int d = 0; d < part->rank; d++)
            index[d] += start[d];
        int64_t at = ravel(whole->rank, whole->shape, index);
        if (update)
            move(e, at, part, i);
        else
            move(e, i, whole, at);
    }
}

START_TEST(windows) {
    kc_rng r = kc_seed(SEED + 7);
    for (int repeat = 0; repeat < 200; repeat++) {
        int64_t shape[4], size[4], start[4];
        int rank = move_shape(&r, shape, 0);
        int64_t n_starts = rank;
        bool update = repeat % 2;
        mlsi_attr_dynamic_slice attrs = {.sizes = {.n = rank}};
        for (int d = 0; d < rank; d++) {
            size[d] = attrs.sizes.v[d] = kc_int(&r, 0, shape[d]);
            start[d] = kc_int(&r, 0, shape[d] - size[d]);
        }
        move_case m = begin(&r, update ? MLSI_OP_DYNAMIC_UPDATE_SLICE : MLSI_OP_DYNAMIC_SLICE,
                            &attrs, rank, shape);
        int s = update ? 2 : 1;
        m.c.n_in = s + 1;
        m.c.in[s] = kc_tensor_new(&r, MLSYS_I64, 1, &n_starts, (kc_layout)kc_int(&r, 0, KC_PADDED));
        for (int d = 0; d < rank; d++)
            kc_set_i(&m.c.in[s].view, d, start[d]);
        memcpy(m.c.in[s].before, m.c.in[s].block, m.c.in[s].bytes);
        if (update) {
            m.c.in[1] = kc_tensor_new(&r, m.t, rank, size, (kc_layout)kc_int(&r, 0, KC_BROADCAST));
            kc_fill(&r, &m.c.in[1], KC_ANY);
        }
        move_case_output(&r, &m, rank, update ? shape : size);
        window_reference(&m.c.in[0].view, update ? &m.c.in[1].view : &m.e.view, start, update,
                         &m.e.view);
        ck_assert_int_gt(kc_check(&m.c, &m.e, "window"), 0);
        if (rank) { /* a start outside is refused by axis and value */
            int d = (int)kc_int(&r, 0, rank - 1);
            int64_t bad = kc_bits(&r) % 2 ? shape[d] - size[d] + 1 : -1;
            char axis_text[32], start_text[32];
            kc_set_i(&m.c.in[s].view, d, bad);
            memcpy(m.c.in[s].before, m.c.in[s].block, m.c.in[s].bytes);
            snprintf(axis_text, sizeof axis_text, "axis %d", d);
            snprintf(start_text, sizeof start_text, "start %lld", (long long)bad);
            ck_assert_int_eq(kc_run(kc_row(m.c.op, 0), &m.c, 1), MLSYS_E_ARG);
            ck_assert_ptr_nonnull(strstr(mlsys_last_error(), axis_text));
            ck_assert_ptr_nonnull(strstr(mlsys_last_error(), start_text));
        }
        kc_tensor_free(&m.e);
        kc_call_free(&m.c);
    }
}
END_TEST

/* The output is x's buffer: only the window may be written. */
START_TEST(update_in_place) {
    static const int64_t shape[3] = {4, 9, 16}, size[3] = {4, 1, 16}, three = 3;
    static const int64_t start[4] = {0, 5, 0};
    kc_rng r = kc_seed(SEED + 8);
    for (int layout = 0; layout < KC_BROADCAST; layout++) {
        kc_call c = {.op = MLSI_OP_DYNAMIC_UPDATE_SLICE, .n_in = 3, .n_out = 1};
        c.in[0] = kc_tensor_new(&r, MLSYS_F16, 3, shape, (kc_layout)layout);
        kc_fill(&r, &c.in[0], KC_ANY);
        c.in[1] = kc_tensor_new(&r, MLSYS_F16, 3, size, KC_DENSE);
        kc_fill(&r, &c.in[1], KC_ANY);
        c.in[2] = kc_tensor_new(&r, MLSYS_I64, 1, &three, KC_DENSE);
        for (int d = 0; d < 3; d++)
            kc_set_i(&c.in[2].view, d, start[d]);
        memcpy(c.in[2].before, c.in[2].block, c.in[2].bytes);
        c.out[0] = c.in[0];
        kc_tensor e = kc_tensor_new(&r, MLSYS_F16, 3, shape, KC_DENSE);
        window_reference(&c.in[0].view, &c.in[1].view, start, true, &e.view);
        ck_assert_uint_eq(kc_row(c.op, 0)->in_place & 1, 1);
        ck_assert_int_gt(kc_check(&c, &e, "in place"), 0);
        kc_tensor_free(&e);
        kc_call_free(&c);
    }
}
END_TEST

/* Outputs large enough to be written past the caches, aligned and not, with odd rims. */
START_TEST(large_copies) {
    static const int64_t shape[2] = {2901, 2950};
    kc_rng r = kc_seed(SEED + 11);
    int64_t n = shape[0] * shape[1];
    for (int k = 0; k < 4;
         k++) { /* copy; transpose to an unaligned, to an aligned output; halves */
        mlsys_dtype t = k == 3 ? MLSYS_F16 : MLSYS_F32;
        int64_t columns = k == 2 ? 2944 : k == 3 ? 2 * 2950 : 2950; /* of the source's rows */
        int64_t source[2] = {shape[0], columns};
        kc_tensor x = kc_tensor_new(&r, t, 2, source, KC_DENSE);
        int64_t count = mlsi_view_count(&x.view), size = mlsi_dtype_size(t);
        for (int64_t i = 0; i < count * size / 4; i++)
            memcpy((char *)x.view.data + i * 4, &(uint32_t){(uint32_t)(i * 2654435761u)}, 4);
        unsigned char *block = malloc((size_t)(count * size + 128));
        memset(block, 0x5a, (size_t)(count * size + 128));
        /* 4 or 64 bytes past a multiple of 64 */
        unsigned char *data = block + (-(uintptr_t)block & 63) + (k == 1 ? 4 : 0);
        mlsi_view y = {.data = data, .dtype = t, .rank = 2}, from = x.view;
        if (k > 0) { /* the output walks the source's columns */
            from.shape[0] = columns, from.strides[0] = 1;
            from.shape[1] = k == 2 ? 2896 : shape[0], from.strides[1] = columns;
        }
        for (int d = 0; d < 2; d++)
            y.shape[d] = from.shape[d];
        y.strides[0] = y.shape[1], y.strides[1] = 1;
        ck_assert_int_ge(mlsi_view_count(&y) * size, k == 3 ? n * 4 : 1 << 25);
        const mlsi_kernel *row;
        for (int i = 0; (row = kc_row(MLSI_OP_COPY, i)) != NULL; i++) {
            mlsi_kernel_args args = {.n_in = 1, .n_out = 1, .in = &from, .out = &y};
            memset(data, 0x5a, (size_t)(mlsi_view_count(&y) * size));
            ck_assert_int_eq(row->run(&args), MLSYS_OK);
            for (int64_t a = 0; a < y.shape[0]; a++)
                for (int64_t b = 0; b < y.shape[1]; b++) {
                    const char *p = (char *)y.data + (a * y.strides[0] + b) * size;
                    const char *q =
                        (char *)from.data + (a * from.strides[0] + b * from.strides[1]) * size;
                    if (memcmp(p, q, (size_t)size))
                        ck_abort_msg("%s: case %d, element %lld,%lld", row->name, k, (long long)a,
                                     (long long)b);
                }
            ck_assert_uint_eq(data[mlsi_view_count(&y) * size], 0x5a);
        }
        free(block);
        kc_tensor_free(&x);
    }
}
END_TEST

int main(void) {
    printf("seed %d\n", SEED);
    Suite *s = suite_create("kernel_movement");
    TCase *t = tcase_create("movement");
    suite_add_tcase(s, t);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, copy);
    tcase_add_test(t, copy_of_blocks);
    tcase_add_test(t, transpose_and_reverse);
    tcase_add_test(t, reshape_and_broadcast);
    tcase_add_test(t, slice);
    tcase_add_test(t, pad);
    tcase_add_test(t, concat);
    tcase_add_test(t, windows);
    tcase_add_test(t, update_in_place);
    tcase_add_test(t, large_copies);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
