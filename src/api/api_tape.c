#include "api/api.h"
#include "run/program.h"
#include "run/tape.h"

#include <string.h>

mlsys_status mlsys_tape_create(mlsys_stream stream, mlsys_tape *out) {
    mlsi_stream *s;
    API_OUT_HANDLE(out, "tape_create: out");
    MLSI_TRY(mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "tape_create: stream", &s));
    mlsys_status st = mlsi_tape_create(s, out);
    mlsi_unpin_exclusive(s);
    return st;
}

mlsys_status mlsys_tape_record(mlsys_tape tape, int32_t on) {
    mlsi_tape *t;
    MLSI_TRY(mlsi_pin_exclusive(tape, MLSYS_KIND_TAPE, "tape_record: tape", &t));
    mlsys_status st = MLSYS_OK;
    if (on != 0 && on != 1)
        st = mlsi_fail(MLSYS_E_ARG, "tape_record: on is %d, neither 0 nor 1", on);
    else
        t->on = on;
    mlsi_unpin_exclusive(t);
    return st;
}

mlsys_status mlsys_tape_detach(mlsys_tape tape, mlsys_tensor tensor) {
    mlsi_tape *t;
    mlsi_tensor *x;
    MLSI_TRY(mlsi_pin_exclusive(tape, MLSYS_KIND_TAPE, "tape_detach: tape", &t));
    mlsys_status st = mlsi_pin(tensor, MLSYS_KIND_TENSOR, "tape_detach: t", &x);
    if (st == MLSYS_OK) {
        st = mlsi_api_same_ctx(&t->object, &x->object, "tape_detach: t");
        if (st == MLSYS_OK) st = mlsi_tape_detach(t, x);
        mlsi_unpin(x);
    }
    mlsi_unpin_exclusive(t);
    return st;
}

mlsys_status mlsys_tape_clear(mlsys_tape tape) {
    mlsi_tape *t;
    MLSI_TRY(mlsi_pin_exclusive(tape, MLSYS_KIND_TAPE, "tape_clear: tape", &t));
    mlsys_status st = mlsi_tape_clear(t);
    mlsi_unpin_exclusive(t);
    return st;
}

static mlsys_status gradient(mlsi_tape *t, int32_t n_y, const mlsys_tensor *y,
                             const mlsys_tensor *seeds, int32_t n_x, const mlsys_tensor *x,
                             mlsys_tensor *dx) {
    mlsi_alloc *a = &t->object.ctx->alloc;
    const mlsi_ctx *ctx = t->object.ctx;
    mlsi_tensor **all;
    int64_t n = 2 * (int64_t)n_y + n_x;
    MLSI_TRY(MLSI_NEW_N(a, n, &all));
    mlsi_tensor **by = all + n_y, **from = by + n_y;
    mlsys_status st = mlsi_api_pin_tensors(ctx, "tape_gradient: y", n_y, y, false, all);
    if (st == MLSYS_OK && seeds)
        st = mlsi_api_pin_tensors(ctx, "tape_gradient: seeds", n_y, seeds, true, by);
    if (st == MLSYS_OK) st = mlsi_api_pin_tensors(ctx, "tape_gradient: x", n_x, x, false, from);
    if (st == MLSYS_OK) st = mlsi_tape_gradient(t, n_y, all, by, n_x, from, dx);
    mlsi_api_unpin_tensors(2 * n_y + n_x, all);
    mlsi_mem_free(a, all);
    return st;
}

mlsys_status mlsys_tape_gradient(mlsys_tape tape, int32_t n_y, const mlsys_tensor *y,
                                 const mlsys_tensor *seeds, int32_t n_x, const mlsys_tensor *x,
                                 mlsys_tensor *dx) {
    API_COMPUTES;
    mlsi_tape *t;
    mlsi_stream *s;
    API_NOT_NULL(y, "tape_gradient: y");
    API_NOT_NULL(x, "tape_gradient: x");
    API_NOT_NULL(dx, "tape_gradient: dx");
    if (n_y < 1 || n_x < 1 || n_y > MLSI_MAX_ARGS || n_x > MLSI_MAX_ARGS)
        return mlsi_fail(MLSYS_E_ARG, "tape_gradient: %d results by %d tensors, 1 to %d", n_y, n_x,
                         MLSI_MAX_ARGS);
    memset(dx, 0, sizeof *dx * (size_t)n_x);
    MLSI_TRY(mlsi_pin_exclusive(tape, MLSYS_KIND_TAPE, "tape_gradient: tape", &t));
    /* The tape keeps the stream, so its handle may be gone. */
    mlsys_status st = mlsi_take(&t->stream->object, "tape_gradient: the tape's stream", &s);
    if (st == MLSYS_OK) {
        st = gradient(t, n_y, y, seeds, n_x, x, dx);
        mlsi_unpin_exclusive(s);
    }
    mlsi_unpin_exclusive(t);
    return st;
}
