/* The transpose of the transpose. Reverse mode gives gx = J^T u, for adjoints u of y that nobody knows yet; it is
 * linear in u, so its own gradient by u with seeds dx is J dx. u is zeros of y's type here: gx does not enter the
 * result, and its nodes go as unused ones do. So each op's one rule serves both modes, and tangents can be
 * differentiated like all else. */
#include "autodiff/forward.h"

#include "autodiff/reverse.h"
#include "core/faults.h"

#include <string.h>

typedef struct forward {
    mlsi_graph *g;
    int32_t func, n_x, n_y;
    const int32_t *x, *dx, *y;
    int32_t *dy;
    int32_t *u, *gx; /* per y; per x */
    int32_t *from,
        *seeds; /* of the gx that are differentiated, and there is one for each x at most */
} forward;

static mlsys_status check_seeds(const forward *f) {
    char a[160], b[160];
    for (int32_t j = 0; j < f->n_x; j++) {
        const mlsi_type *x = mlsi_type_of(f->g, f->func, f->x[j]);
        if (f->dx[j] < 0) continue;
        const mlsi_type *dx = mlsi_type_of(f->g, f->func, f->dx[j]);
        if (!mlsi_type_equal(x, dx))
            return mlsi_fail(MLSYS_E_SHAPE, "tangent: dx %d is %s, x is %s", j,
                             mlsi_type_text(&f->g->symbols, dx, a, sizeof a),
                             mlsi_type_text(&f->g->symbols, x, b, sizeof b));
    }
    return MLSYS_OK;
}

/* Of the x with a tangent, or of those without: the gradient by u. dy stays -1 when there are none. */
static mlsys_status transpose(const forward *f, bool given) {
    int32_t n = 0;
    for (int32_t i = 0; i < f->n_y; i++)
        f->dy[i] = -1;
    for (int32_t j = 0; j < f->n_x; j++) {
        if ((f->dx[j] >= 0) != given || f->gx[j] < 0) continue;
        f->from[n] = f->gx[j];
        f->seeds[n++] = mlsi_fault(MLSI_FAULT_TANGENT_SEED) ? -1 : f->dx[j];
    }
    if (!n) return MLSYS_OK;
    return mlsi_gradient(f->g, f->func, n, f->from, f->seeds, f->n_y, f->u, f->dy);
}

/* y that depend on an x without a tangent only: zeros. */
static mlsys_status fill_zeros(const forward *f) {
    bool *have;
    MLSI_TRY(MLSI_NEW_N(f->g->alloc, f->n_y, &have));
    mlsi_growth before = mlsi_growth_of(f->g, f->func);
    mlsys_status st = transpose(f, false); /* with seeds of ones, to see where there is something */
    for (int32_t i = 0; st == MLSYS_OK && i < f->n_y; i++)
        have[i] = f->dy[i] >= 0;
    mlsi_growth_undo(f->g, f->func, before);
    if (st == MLSYS_OK) st = transpose(f, true);
    for (int32_t i = 0; st == MLSYS_OK && i < f->n_y; i++)
        if (have[i] && f->dy[i] < 0) st = mlsi_full_like(f->g, f->func, f->y[i], 0, &f->dy[i]);
    mlsi_mem_free(f->g->alloc, have);
    return st;
}

static mlsys_status run(const forward *f) {
    bool all = true;
    MLSI_TRY(check_seeds(f));
    for (int32_t i = 0; i < f->n_y; i++)
        MLSI_TRY(mlsi_full_like(f->g, f->func, f->y[i], 0, &f->u[i]));
    MLSI_TRY(mlsi_gradient(f->g, f->func, f->n_y, f->y, f->u, f->n_x, f->x, f->gx));
    for (int32_t j = 0; j < f->n_x; j++)
        all = all && (f->dx[j] >= 0 || f->gx[j] < 0);
    return all ? transpose(f, true) : fill_zeros(f);
}

mlsys_status mlsi_tangent(mlsi_graph *g, int32_t func, int32_t n_x, const int32_t *x,
                          const int32_t *dx, int32_t n_y, const int32_t *y, int32_t *dy) {
    forward f = {g, func, n_x, n_y, x, dx, y, dy, NULL, NULL, NULL, NULL};
    mlsi_growth before = mlsi_growth_of(g, func);
    MLSI_TRY(MLSI_NEW_N(g->alloc, n_y + 3 * (int64_t)n_x, &f.u));
    f.gx = f.u + n_y;
    f.from = f.gx + n_x;
    f.seeds = f.from + n_x;
    mlsys_status st = run(&f);
    mlsi_mem_free(g->alloc, f.u);
    if (st != MLSYS_OK) mlsi_growth_undo(g, func, before);
    return st;
}
