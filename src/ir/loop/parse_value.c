/* Reader of the text form: tokens, indices, values; see print.c. */
#include "core/dtype.h"
#include "core/faults.h"
#include "ir/loop/text.h"
#include "ir/ops/op_def.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 2000 }; /* of values in values, as in verify_value.c */

static const char word_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

mlsys_status mlsi_read_fail(const mlsi_nest_reader *r, const char *what) {
    char near[24];
    size_t n = 0;
    while (n < sizeof near - 1 && r->p[n] && r->p[n] != '\n')
        near[n] = r->p[n], n++;
    near[n] = 0;
    return mlsi_fail(MLSYS_E_FORMAT, "nest: line %d: %s at \"%s\"", r->line, what, near);
}

static void blanks(mlsi_nest_reader *r) {
    while (*r->p == ' ')
        r->p++;
}

bool mlsi_read_accept(mlsi_nest_reader *r, const char *token) {
    size_t n = strlen(token);
    blanks(r);
    if (strncmp(r->p, token, n)) return false;
    r->p += n;
    return true;
}

mlsys_status mlsi_read_expect(mlsi_nest_reader *r, const char *token) {
    char what[64];
    if (mlsi_read_accept(r, token)) return MLSYS_OK;
    strcpy(what, "expected ");
    strncat(what, token, sizeof what - 16);
    return mlsi_read_fail(r, what);
}

mlsys_status mlsi_read_word(mlsi_nest_reader *r, char out[MLSI_WORD_BYTES]) {
    blanks(r);
    size_t n = strspn(r->p, word_letters);
    if (n == 0 || n >= MLSI_WORD_BYTES) return mlsi_read_fail(r, "expected a name");
    memcpy(out, r->p, n);
    out[n] = 0;
    r->p += n;
    return MLSYS_OK;
}

bool mlsi_read_accept_word(mlsi_nest_reader *r, const char *word) {
    blanks(r);
    size_t n = strspn(r->p, word_letters);
    if (n != strlen(word) || strncmp(r->p, word, n)) return false;
    r->p += n;
    return true;
}

mlsys_status mlsi_read_i64(mlsi_nest_reader *r, int64_t *out) {
    char *end;
    blanks(r);
    if (*r->p != '-' && (*r->p < '0' || *r->p > '9'))
        return mlsi_read_fail(r, "expected an integer");
    errno = 0;
    long long v = strtoll(r->p, &end, 10);
    if (end == r->p || errno) return mlsi_read_fail(r, "expected an integer");
    r->p = end;
    *out = v;
    return MLSYS_OK;
}

mlsys_status mlsi_read_index(mlsi_nest_reader *r, int64_t *out) {
    mlsys_status st = mlsi_dim_parse(&r->n->tab, &r->p, out);
    if (st == MLSYS_OK || st == MLSYS_E_NOMEM) return st;
    return mlsi_fail_in(MLSYS_E_FORMAT, "nest: line %d", r->line);
}

mlsys_status mlsi_read_range(mlsi_nest_reader *r, int64_t out[3]) {
    MLSI_TRY(mlsi_read_index(r, &out[0]));
    MLSI_TRY(mlsi_read_expect(r, "<="));
    MLSI_TRY(mlsi_read_index(r, &out[1]));
    MLSI_TRY(mlsi_read_expect(r, "<"));
    return mlsi_read_index(r, &out[2]);
}

mlsys_status mlsi_read_indices(mlsi_nest_reader *r, const char *end, int32_t *n, int64_t *out) {
    *n = 0;
    if (mlsi_read_accept(r, end)) return MLSYS_OK;
    do {
        if (*n == MLSYS_MAX_DIMS) return mlsi_read_fail(r, "more than 8 indices");
        MLSI_TRY(mlsi_read_index(r, &out[(*n)++]));
    } while (mlsi_read_accept(r, ","));
    return mlsi_read_expect(r, end);
}

mlsys_status mlsi_read_dtype(mlsi_nest_reader *r, mlsys_dtype *out) {
    char word[MLSI_WORD_BYTES];
    MLSI_TRY(mlsi_read_word(r, word));
    *out = mlsi_dtype_by_name(word);
    return *out ? MLSYS_OK : mlsi_read_fail(r, "unknown dtype before this");
}

/* ---- names ------------------------------------------------------------------------------------------------ */

static int32_t find_buffer(const mlsi_nest *n, const char *name) {
    for (int64_t i = n->n_buffers - 1; i >= 0; i--)
        if (!strcmp(n->buffers[i].name, name)) return (int32_t)i;
    return -1;
}

mlsys_status mlsi_read_buffer(mlsi_nest_reader *r, int32_t *out) {
    char word[MLSI_WORD_BYTES];
    MLSI_TRY(mlsi_read_word(r, word));
    *out = find_buffer(r->n, word);
    return *out >= 0 ? MLSYS_OK : mlsi_read_fail(r, "unknown buffer before this");
}

mlsys_status mlsi_read_let(mlsi_nest_reader *r, int32_t *out) {
    char word[MLSI_WORD_BYTES];
    MLSI_TRY(mlsi_read_expect(r, "%"));
    MLSI_TRY(mlsi_read_word(r, word));
    for (int64_t i = r->n->n_lets - 1; i >= 0; i--)
        if (!strcmp(r->n->lets[i].name, word)) return *out = (int32_t)i, MLSYS_OK;
    return mlsi_read_fail(r, "unknown let before this");
}

mlsys_status mlsi_read_acc(mlsi_nest_reader *r, int32_t *out) {
    char word[MLSI_WORD_BYTES];
    MLSI_TRY(mlsi_read_expect(r, "@"));
    MLSI_TRY(mlsi_read_word(r, word));
    for (int64_t i = r->n->n_accs - 1; i >= 0; i--)
        if (!strcmp(r->n->accs[i].name, word)) return *out = (int32_t)i, MLSYS_OK;
    return mlsi_read_fail(r, "unknown accumulator before this");
}

/* ---- values ----------------------------------------------------------------------------------------------- */

static mlsys_status read_const(mlsi_nest_reader *r, mlsi_lx *x) {
    mlsi_view v = {.data = &x->bits, .dtype = x->dtype};
    char *end;
    int64_t integer;
    x->kind = MLSI_LX_CONST;
    if (mlsi_dtype_is_block(x->dtype)) return mlsi_read_fail(r, "a constant has no blocks");
    blanks(r);
    errno = 0;
    if (!mlsi_dtype_is_float(x->dtype)) {
        MLSI_TRY(mlsi_read_i64(r, &integer));
        mlsi_ref_set_i(&v, 0, integer);
        if (mlsi_ref_get_i(&v, 0) != integer) return mlsi_read_fail(r, "integer is too large");
    } else if (!strncmp(r->p, "0x", 2)) {
        x->bits = strtoull(r->p, &end, 16);
        if (errno || end < r->p + 3) return mlsi_read_fail(r, "expected bits");
        r->p = end;
    } else {
        if (*r->p != '-' && (*r->p < '0' || *r->p > '9'))
            return mlsi_read_fail(r, "expected a number");
        mlsi_ref_set_f(&v, 0, strtod(r->p, &end));
        if (end == r->p) return mlsi_read_fail(r, "expected a number");
        r->p = end;
    }
    return mlsi_read_expect(r, ")");
}

static mlsys_status read_arguments(mlsi_nest_reader *r, mlsi_lx *x) {
    if (mlsi_read_accept(r, ")")) return MLSYS_OK;
    do {
        if (x->n_args == 3) return mlsi_read_fail(r, "more than 3 arguments");
        MLSI_TRY(mlsi_read_value(r, &x->args[x->n_args++]));
    } while (mlsi_read_accept(r, ","));
    return mlsi_read_expect(r, ")");
}

static mlsys_status read_op(mlsi_nest_reader *r, mlsi_op op, mlsi_lx *x) {
    x->kind = MLSI_LX_OP;
    x->op = op;
    MLSI_TRY(read_arguments(r, x));
    mlsys_dtype last = x->n_args ? r->n->exprs[x->args[x->n_args - 1]].dtype : 0;
    x->dtype = mlsi_nest_op_dtype(op, last);
    if (mlsi_read_accept(r, ":")) return mlsi_read_dtype(r, &x->dtype);
    return x->dtype ? MLSYS_OK : mlsi_read_fail(r, "expected :dtype");
}

static mlsys_status read_guard(mlsi_nest_reader *r, mlsi_lx *x) {
    x->kind = MLSI_LX_GUARD;
    x->n_index = 3;
    MLSI_TRY(mlsi_read_range(r, x->index));
    MLSI_TRY(mlsi_read_expect(r, ","));
    MLSI_TRY(read_arguments(r, x));
    if (x->n_args != 2) return mlsi_read_fail(r, "a guard has two arguments");
    x->dtype = r->n->exprs[x->args[0]].dtype;
    return MLSYS_OK;
}

static mlsys_status read_random(mlsi_nest_reader *r, int kind, mlsi_lx *x) {
    x->kind = MLSI_LX_RANDOM;
    x->bits = (uint64_t)kind;
    x->n_index = 1;
    MLSI_TRY(mlsi_read_index(r, &x->index[0]));
    MLSI_TRY(mlsi_read_expect(r, ","));
    MLSI_TRY(read_arguments(r, x));
    MLSI_TRY(mlsi_read_expect(r, ":"));
    return mlsi_read_dtype(r, &x->dtype);
}

static mlsys_status read_shuffle(mlsi_nest_reader *r, mlsi_lx *x) {
    x->kind = MLSI_LX_SHUFFLE;
    x->n_index = 1;
    MLSI_TRY(mlsi_read_let(r, &x->ref));
    x->dtype = r->n->lets[x->ref].dtype;
    MLSI_TRY(mlsi_read_expect(r, ","));
    MLSI_TRY(mlsi_read_index(r, &x->index[0]));
    return mlsi_read_expect(r, ")");
}

static mlsys_status read_call(mlsi_nest_reader *r, const char *word, mlsi_lx *x) {
    if (!strcmp(word, "index")) {
        x->kind = MLSI_LX_INDEX;
        x->dtype = MLSYS_I64;
        x->n_index = 1;
        MLSI_TRY(mlsi_read_index(r, &x->index[0]));
        return mlsi_read_expect(r, ")");
    }
    if (!strcmp(word, "guard")) return read_guard(r, x);
    if (!strcmp(word, "shuffle")) return read_shuffle(r, x);
    for (int kind = 0; mlsi_random_word(kind); kind++)
        if (!strcmp(word, mlsi_random_word(kind))) return read_random(r, kind, x);
    x->dtype = mlsi_dtype_by_name(word);
    if (x->dtype) return read_const(r, x);
    mlsi_op op = mlsi_op_by_name(word);
    if ((int)op < 0 || op >= MLSI_OP_COUNT) return mlsi_read_fail(r, "unknown op before this");
    return read_op(r, op, x);
}

static mlsys_status read_plain(mlsi_nest_reader *r, mlsi_lx *x) {
    char word[MLSI_WORD_BYTES];
    blanks(r);
    if (*r->p == '%') {
        x->kind = MLSI_LX_LET;
        MLSI_TRY(mlsi_read_let(r, &x->ref));
        return x->dtype = r->n->lets[x->ref].dtype, MLSYS_OK;
    }
    if (*r->p == '@') {
        x->kind = MLSI_LX_ACC;
        MLSI_TRY(mlsi_read_acc(r, &x->ref));
        return x->dtype = mlsi_acc_result(&r->n->accs[x->ref]), MLSYS_OK;
    }
    MLSI_TRY(mlsi_read_word(r, word));
    if (mlsi_read_accept(r, "(")) return read_call(r, word, x);
    x->kind = MLSI_LX_LOAD;
    x->ref = find_buffer(r->n, word);
    if (x->ref < 0) return mlsi_read_fail(r, "unknown buffer before this");
    x->dtype = r->n->buffers[x->ref].dtype;
    MLSI_TRY(mlsi_read_expect(r, "["));
    return mlsi_read_indices(r, "]", &x->n_index, x->index);
}

/* The number behind $; 1 .. known + 1. */
static mlsys_status read_shared(mlsi_nest_reader *r, int64_t *number) {
    MLSI_TRY(mlsi_read_i64(r, number));
    return *number >= 1 && *number <= r->n_shared + 1 ? MLSYS_OK
                                                      : mlsi_read_fail(r, "unknown $ before this");
}

mlsys_status mlsi_read_value(mlsi_nest_reader *r, int32_t *out) {
    mlsi_nest *n = r->n;
    mlsi_lx x = {.kind = 0};
    int64_t number = 0;
    if (r->depth == DEEPEST) return mlsi_read_fail(r, "values nest too deep");
    if (mlsi_read_accept(r, "$")) {
        MLSI_TRY(read_shared(r, &number));
        if (!mlsi_read_accept(r, "=")) {
            if (number > r->n_shared ||
                (r->shared[number - 1] < 0 && !mlsi_fault(MLSI_FAULT_NEST_TEXT_TWICE)))
                return mlsi_read_fail(r, "unknown $ before this");
            return *out = r->shared[number - 1], MLSYS_OK;
        }
        if (number <= r->n_shared) return mlsi_read_fail(r, "this $ is known already");
        MLSI_TRY(MLSI_GROW(n->alloc, &r->shared, &r->cap_shared, number));
        r->shared[r->n_shared++] = -1; /* until it is whole */
    }
    r->depth++;
    MLSI_TRY(read_plain(r, &x));
    r->depth--;
    MLSI_TRY(MLSI_GROW(n->alloc, &n->exprs, &n->cap_exprs, n->n_exprs + 1));
    n->exprs[n->n_exprs] = x;
    *out = (int32_t)n->n_exprs++;
    if (number) r->shared[number - 1] = *out;
    return MLSYS_OK;
}
