/* Every entry point with every argument wrong in turn: an error, no crash, no leak, and afterwards
 * the valid call on the same objects succeeds. The table is generated from the header (abi_*.inc).
 */
#include "support/abi_fixture.h"
#include "support/tiny_model.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef union argument {
    void *p;
    int64_t i;
    double d;
} argument;

typedef enum wrong { /* which wrong arguments are tried */
                     NOTHING,
                     HANDLE, /* NULL, wrong kind, forged, stale */
                     ANY_HANDLE,
                     TENSORS, /* array of handles: NULL, and each kind of wrong handle inside */
                     VALUES,  /* array of graph values: NULL, foreign and made-up values inside */
                     VALUE,
                     OUT_HANDLE,  /* NULL; and it must be NULL after any failure */
                     OUT_TENSORS, /* NULL */
                     POINTER,     /* NULL */
                     SHAPE,       /* NULL, negative and overflowing extents */
                     STRIDES,     /* overflowing and out-of-bounds strides */
                     COUNT,
                     AXIS,
                     ENUM,
                     BYTES,
                     I32,
                     I64
} wrong;

typedef struct parameter {
    const char *name;
    wrong class;
    mlsys_kind kind;
    int optional; /* the listed wrong arguments may be legal: only crashes and leaks are faults */
} parameter;

typedef struct entry_point {
    const char *name;
    void (*fill)(argument *a, fixture *f);
    mlsys_status (*call)(argument *a);
    int n;
    int valid; /* the filled call must succeed */
    parameter params[12];
} entry_point;

#include "abi_calls.inc"
#include "abi_entry_points.inc"

enum { ENTRY_POINTS = sizeof entry_points / sizeof entry_points[0], MAX_ARGS = 12 };

static char folder[] = "/tmp/mlsys-abi-XXXXXX";
static char path[64], saved[64];
static void *const POISON = (void *)0x5a5a5a5a5a5a5a5a;

static int has_class(const entry_point *e, wrong class) {
    for (int i = 0; i < e->n; i++)
        if (e->params[i].class == class) return 1;
    return 0;
}

static void fill(const entry_point *e, argument *a, fixture *f) {
    memset(a, 0, MAX_ARGS * sizeof *a);
    for (int i = 0; i < 16; i++)
        f->out[i] = has_class(e, OUT_TENSORS) ? NULL : POISON;
    f->cost.size = sizeof f->cost;
    f->stats.size = sizeof f->stats;
    e->fill(a, f);
}

/* After a call that succeeded: give back what it made. */
static void give_back(const entry_point *e, const argument *a, fixture *f) {
    if (has_class(e, OUT_HANDLE) || has_class(e, OUT_TENSORS))
        for (int i = 0; i < 16; i++)
            if (f->out[i] != POISON) mlsys_release(f->out[i]);
    if (!strcmp(e->name, "tensor_to_dlpack"))
        mlsys_dlpack_free(f->managed_out), f->managed_out = NULL;
    if (!strcmp(e->name, "retain")) mlsys_release(a[0].p);
    if (!strcmp(e->name, "release") && a[0].p == f->tensor) f->tensor = NULL;
    if (!strcmp(e->name, "tensor_from_dlpack")) f->managed = NULL;
    if (!strcmp(e->name, "dlpack_free") && a[0].p == f->managed) f->managed = NULL;
}

/* One call with argument i wrong. code MLSYS_OK = any failure will do. Returns 1 if the objects
 * were changed by a success, so that a new fixture is needed. */
static int call_wrong(const entry_point *e, fixture *f, argument *a, int i, mlsys_status code,
                      const char *how) {
    const parameter *p = &e->params[i];
    int out = -1;
    for (int k = 0; k < e->n; k++)
        if (e->params[k].class == OUT_HANDLE && a[k].p) out = k;
    mlsys_status st = e->call(a);
    if (st == MLSYS_OK) {
        ck_assert_msg(p->optional, "%s: %s %s was accepted", e->name, p->name, how);
        give_back(e, a, f);
        return 1;
    }
    if (!p->optional && code != MLSYS_OK)
        ck_assert_msg(st == code, "%s: %s %s gave %s (%s), expected %s", e->name, p->name, how,
                      mlsys_status_name(st), mlsys_last_error(), mlsys_status_name(code));
    int own_sentence = !strcmp(e->name, "set_error");
    ck_assert_msg((own_sentence || mlsys_last_error()[0]) && strcmp(mlsys_status_name(st), "E_?"),
                  "%s: %s %s: no sentence", e->name, p->name, how);
    if (out >= 0)
        ck_assert_msg(!*(void **)a[out].p, "%s: %s %s: out-handle not NULL", e->name, p->name, how);
    return 0;
}

/* Renew the fixture when the last call changed it. */
static void next(const entry_point *e, argument *a, fixture *f, int changed) {
    if (changed) {
        fixture_destroy(f);
        fixture_create(f, path, saved);
    }
    fill(e, a, f);
}

static void wrong_handles(const entry_point *e, fixture *f, argument *a, int i) {
    const parameter *p = &e->params[i];
    int changed;
    char stack[16] = {0};
    next(e, a, f, 0);
    a[i].p = NULL;
    changed = call_wrong(e, f, a, i, MLSYS_E_HANDLE, "NULL");
    next(e, a, f, changed);
    if (p->class == HANDLE) {
        entry_point strict = *e;
        strict.params[i].optional = 0; /* an absent config is legal, a wrong one never */
        a[i].p = p->kind == MLSYS_KIND_CONFIG ? (void *)f->other : (void *)f->config;
        changed = call_wrong(&strict, f, a, i, p->optional ? MLSYS_OK : MLSYS_E_HANDLE,
                             "of another kind");
        next(e, a, f, changed);
    }
    const uint64_t forged[] = {1, 2, 0x1234567, (uintptr_t)stack, UINT64_MAX, UINT64_C(1) << 63};
    for (size_t k = 0; k < sizeof forged / sizeof forged[0]; k++) {
        a[i].p = (void *)(uintptr_t)forged[k];
        changed = call_wrong(e, f, a, i, MLSYS_E_HANDLE, "forged");
        next(e, a, f, changed);
    }
}

/* The handle of an object whose slot has died and serves another one by now. */
static void stale_handle(const entry_point *e, fixture *f, argument *a, int i) {
    next(e, a, f, 0);
    void *stale = a[i].p;
    if (!stale) return;
    next(e, a, f, 1);
    a[i].p = stale;
    next(e, a, f, call_wrong(e, f, a, i, MLSYS_E_HANDLE, "released"));
}

static void wrong_tensor_array(const entry_point *e, fixture *f, argument *a, int i) {
    mlsys_tensor array[16] = {0};
    void *const bad[] = {NULL, f->config, (void *)1, stdin};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        next(e, a, f, 0);
        array[0] = bad[k];
        a[i].p = array;
        next(e, a, f, call_wrong(e, f, a, i, MLSYS_OK, "with a wrong handle inside"));
    }
}

static void wrong_values(const entry_point *e, fixture *f, argument *a, int i) {
    /* Made up, absent, of another graph, of no graph. */
    const int64_t bad[] = {
        -1, 0, INT64_MAX, INT64_MIN, 7, f->input + 1000, f->input + (INT64_C(1) << 32)};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        mlsys_value array[16] = {bad[k]};
        next(e, a, f, 0);
        if (e->params[i].class == VALUE)
            a[i].i = bad[k];
        else
            a[i].p = array;
        next(e, a, f, call_wrong(e, f, a, i, MLSYS_OK, "made up"));
    }
}

static void wrong_lists(const entry_point *e, fixture *f, argument *a, int i) {
    static const int64_t shapes[][2] = {{INT64_MAX, INT64_MAX}, {INT64_C(1) << 62, 4},
                                        {INT64_C(1) << 61, 2},  {-5, 3},
                                        {INT64_MIN, 3},         {3, -7}};
    static const int64_t strides[][2] = {{INT64_MAX, INT64_MAX}, {INT64_MIN, 1}, {-3, 1},
                                         {3, INT64_MAX},         {1000, 1},      {3, -1}};
    const int64_t(*lists)[2] = e->params[i].class == SHAPE ? shapes : strides;
    entry_point strict = *e;
    strict.params[i].optional = 0;
    for (int k = 0; k < 6; k++) {
        int64_t list[16] = {lists[k][0], lists[k][1]};
        next(e, a, f, 0);
        a[i].p = list;
        next(e, a, f, call_wrong(&strict, f, a, i, MLSYS_OK, "out of bounds"));
    }
}

static void wrong_numbers(const entry_point *e, fixture *f, argument *a, int i) {
    static const struct {
        wrong class;
        int n;
        int64_t bad[6];
    } numbers[] = {{COUNT, 5, {-1, INT32_MIN, 65, 1 << 20, INT32_MAX}},
                   {AXIS, 5, {2, -3, 9, INT32_MIN, INT32_MAX}},
                   {ENUM, 5, {-1, 0, 9999, INT32_MIN, INT32_MAX}},
                   {BYTES, 4, {0, 1, 25, -1}},
                   {I32, 5, {INT32_MIN, INT32_MAX, -1, 77, 1 << 20}},
                   {I64, 6, {INT64_MIN, INT64_MAX, -1, INT64_C(1) << 40, INT32_MIN, 77}}};
    for (size_t c = 0; c < sizeof numbers / sizeof numbers[0]; c++)
        for (int k = 0; numbers[c].class == e->params[i].class && k < numbers[c].n; k++) {
            char how[32];
            /* A size that is too large for its buffer is the caller's lie, which nobody can see. */
            if (!strcmp(e->params[i].name, "cap") && numbers[c].bad[k] > 16) continue;
            if (!strcmp(e->params[i].name, "n") && e->params[i].optional) continue;
            if (e->params[i].class == BYTES && e->params[i].optional &&
                (numbers[c].bad[k] < 0 || numbers[c].bad[k] > 3)) /* past the text: unseeable too */
                continue;
            next(e, a, f, 0);
            a[i].i = numbers[c].bad[k];
            snprintf(how, sizeof how, "= %lld", (long long)a[i].i);
            next(e, a, f, call_wrong(e, f, a, i, MLSYS_OK, how));
        }
}

static void wrong_argument(const entry_point *e, fixture *f, argument *a, int i) {
    switch (e->params[i].class) {
    case NOTHING: return;
    case HANDLE:
    case ANY_HANDLE: wrong_handles(e, f, a, i), stale_handle(e, f, a, i); return;
    case TENSORS: wrong_tensor_array(e, f, a, i); break;
    case VALUES: wrong_values(e, f, a, i); break;
    case VALUE: wrong_values(e, f, a, i); return;
    case SHAPE:
    case STRIDES: wrong_lists(e, f, a, i); break;
    case COUNT:
    case AXIS:
    case ENUM:
    case BYTES:
    case I32:
    case I64: wrong_numbers(e, f, a, i); return;
    case OUT_HANDLE:
    case OUT_TENSORS:
    case POINTER: break;
    }
    next(e, a, f, 0);
    a[i].p = NULL;
    next(e, a, f, call_wrong(e, f, a, i, MLSYS_OK, "NULL"));
}

START_TEST(every_wrong_argument_is_an_error) {
    const entry_point *e = &entry_points[_i];
    fixture f;
    argument a[MAX_ARGS];
    fixture_create(&f, path, saved);
    for (int i = 0; i < e->n; i++)
        wrong_argument(e, &f, a, i);
    fill(e, a, &f);
    mlsys_status st = e->call(a);
    if (e->valid)
        ck_assert_msg(st == MLSYS_OK, "%s: the valid call failed: %s", e->name, mlsys_last_error());
    if (st == MLSYS_OK) give_back(e, a, &f);
    fixture_destroy(&f);
}
END_TEST

START_TEST(functions_without_a_status_take_anything) {
    ck_assert_int_eq(mlsys_version(), MLSYS_VERSION_NUMBER);
    ck_assert_int_eq(mlsys_has_feature(NULL), 0);
    ck_assert_int_eq(mlsys_has_feature("no such feature"), 0);
    ck_assert_int_eq(mlsys_has_feature("cpu"), 1);
    ck_assert_ptr_nonnull(mlsys_build_info());
    ck_assert_ptr_nonnull(mlsys_last_error());
    ck_assert_str_eq(mlsys_status_name(-1), "E_?");
    ck_assert_str_eq(mlsys_status_name(INT32_MAX), "E_?");
    ck_assert_int_eq(mlsys_set_error(MLSYS_OK, "x"), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_set_error(-3, "x"), MLSYS_E_ARG);
    ck_assert_int_eq(mlsys_set_error(9999, "x"), MLSYS_E_ARG);
}
END_TEST

int main(void) {
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    snprintf(saved, sizeof saved, "%s/saved", folder);
    if (tiny_model_write(path)) return 1;
    Suite *s = suite_create("abi");
    TCase *tc = tcase_create("misuse");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, every_wrong_argument_is_an_error, 0, ENTRY_POINTS);
    tcase_add_test(tc, functions_without_a_status_take_anything);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    unlink(path);
    unlink(saved);
    rmdir(folder);
    return failed != 0;
}
