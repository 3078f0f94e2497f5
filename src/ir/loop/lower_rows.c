/* Row by row: loops over what all outputs share, reductions once a row, then the outputs' own loops. */
#include "ir/loop/lowering.h"

#include "core/faults.h"

#include <string.h>

enum { TILE = 4096 }; /* elements of a vector loop that is a parallel task of its own */

static void end_loops(mlsi_lowering *d, int n) {
    for (int i = 0; i < n; i++)
        mlsi_nest_end(d->n);
    for (int64_t v = 0; v < d->f->n_values; v++)
        d->values[v].filling = false;
}

static bool is_reduction(const mlsi_lowering *d, const mlsi_node *node) {
    return d->values[node->first_out].place == MLSI_PLACE_ROW;
}

/* ---- reductions --------------------------------------------------------------------------------------- */

static int64_t product(mlsi_nest *n, int rank, const int64_t *extents) {
    int64_t p = 1;
    for (int i = 0; i < rank; i++)
        p = mlsi_nest_index(n, '*', p, extents[i]);
    return p;
}

/* Row-major number of k in the space. */
static int64_t position(mlsi_nest *n, const mlsi_reduction *r, const int64_t *k) {
    int64_t p = 0;
    if (mlsi_fault(MLSI_FAULT_LOOPS_POSITION) && r->rank == 2)
        return mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', k[1], r->extents[0]), k[0]);
    for (int i = 0; i < r->rank; i++)
        p = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', p, r->extents[i]), k[i]);
    return p;
}

int32_t mlsi_lower_reduction(mlsi_lowering *d, const mlsi_node *node, const int64_t *index) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_lower l = mlsi_lower_of(d, node);
    mlsi_reduction r = {.rank = 0};
    int64_t k[MLSYS_MAX_DIMS];
    int32_t term[2] = {-1, -1};
    if (!def->reduces(&l, &r)) {
        mlsi_lower_refuse(d, "no loops for these operands of ", mlsi_op_name(node->op));
        return -1;
    }
    int32_t addend =
        r.addend ? mlsi_nest_cast(d->n, mlsi_lower_operand(&l, r.addend, index), r.dtype) : -1;
    int32_t acc = mlsi_nest_acc(d->n, r.kind, r.dtype, product(d->n, r.rank, r.extents));
    if (acc >= 0) d->n->accs[acc].init = addend;
    for (int i = 0; i < r.rank; i++)
        d->inner[i] = k[i] = mlsi_nest_for(d->n, MLSI_LOOP_SERIAL, "k", r.extents[i]);
    memcpy(d->inner_extent, r.extents, sizeof d->inner_extent);
    d->inner_rank = r.rank;
    def->term(&l, index, k, term);
    mlsi_nest_add(d->n, acc, position(d->n, &r, k), term[0], term[1]);
    end_loops(d, r.rank);
    d->inner_rank = 0;
    int32_t x = mlsi_nest_acc_value(d->n, acc);
    if (def->reduced) x = def->reduced(&l, index, x);
    if (!mlsi_fault(MLSI_FAULT_ROWS_ROUNDING))
        x = mlsi_nest_cast(d->n, x, mlsi_lower_out(&l, 0)->dtype);
    return mlsi_nest_let(d->n, "r", x);
}

/* ---- the shared loops ----------------------------------------------------------------------------------- */

/* The last of the loops that all outputs share: in tiles, so that one long row is many tasks. */
static int64_t tiled_loop(mlsi_lowering *d, int64_t extent, int *opened) {
    mlsi_nest *n = d->n;
    if (extent >= 0 && extent <= TILE) {
        *opened += 1;
        return mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", extent);
    }
    int64_t more = mlsi_fault(MLSI_FAULT_ROWS_LAST_TILE) ? 0 : TILE - 1;
    int64_t tiles = mlsi_nest_index(n, '/', mlsi_nest_index(n, '+', extent, more), TILE);
    int64_t tile = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "tile", tiles);
    int64_t within = mlsi_nest_for(n, MLSI_LOOP_SERIAL, "i", TILE);
    int64_t index = mlsi_nest_index(n, '+', mlsi_nest_index(n, '*', tile, TILE), within);
    mlsi_nest_if_range(n, mlsi_fault(MLSI_FAULT_LOWER_GUARD) ? 1 : 0, index,
                       mlsi_fault(MLSI_FAULT_ROWS_TILE_END) ? mlsi_nest_index(n, '*', tiles, TILE)
                                                            : extent);
    *opened += 3;
    return index;
}

static int open_rows(mlsi_lowering *d, bool tiled) {
    int opened = 0;
    for (int i = 0; i < d->row_rank; i++) {
        if (tiled && i == d->row_rank - 1) {
            d->row[i] = tiled_loop(d, d->row_extent[i], &opened);
        } else {
            d->row[i] = mlsi_nest_for(d->n, MLSI_LOOP_SERIAL, "i", d->row_extent[i]);
            opened++;
        }
    }
    return opened;
}

static const mlsi_type *output_type(const mlsi_lowering *d, int64_t o) {
    return &d->f->values[d->f->outputs[o].value].type;
}

static bool same_inner(const mlsi_lowering *d, const mlsi_type *a, const mlsi_type *b) {
    int64_t x[MLSYS_MAX_DIMS], y[MLSYS_MAX_DIMS];
    mlsi_lower_split(d, a->rank, a->dims, x);
    mlsi_lower_split(d, b->rank, b->dims, y);
    return a->rank == b->rank &&
           !memcmp(x + d->row_rank, y + d->row_rank, sizeof x[0] * (size_t)(a->rank - d->row_rank));
}

/* Are these the row loops' axes and others? */
static bool has_rows(const mlsi_lowering *d, const mlsi_type *t) {
    int64_t dims[MLSYS_MAX_DIMS];
    mlsi_lower_split(d, t->rank, t->dims, dims);
    return t->rank >= d->row_rank &&
           !memcmp(dims, d->row_extent, sizeof dims[0] * (size_t)d->row_rank);
}

/* Is this a value per row: the row loops' axes and others of extent 1? */
static bool is_row_value(const mlsi_lowering *d, const mlsi_type *t) {
    int64_t dims[MLSYS_MAX_DIMS];
    mlsi_lower_split(d, t->rank, t->dims, dims);
    bool is = has_rows(d, t);
    for (int k = d->row_rank; k < t->rank; k++)
        is = is && dims[k] == 1;
    return is;
}

/* Outputs of one inner shape in one set of loops. */
static void store_outputs(mlsi_lowering *d) {
    int64_t index[MLSYS_MAX_DIMS], split[MLSYS_MAX_DIMS], dims[MLSYS_MAX_DIMS];
    uint64_t done = 0; /* at most 64 outputs */
    memcpy(split, d->row, sizeof d->row);
    for (int64_t o = 0; o < d->f->n_outputs; o++) {
        const mlsi_type *t = output_type(d, o);
        int inner = t->rank - d->row_rank;
        if (done >> o & 1) continue;
        mlsi_lower_split(d, t->rank, t->dims, dims);
        for (int i = d->row_rank; i < t->rank; i++)
            split[i] = mlsi_nest_for(d->n, MLSI_LOOP_SERIAL, "j", dims[i]);
        d->inner_rank = inner;
        memcpy(d->inner, split + d->row_rank, sizeof split[0] * (size_t)inner);
        memcpy(d->inner_extent, dims + d->row_rank, sizeof dims[0] * (size_t)inner);
        mlsi_lower_join(d, t->rank, split, index);
        for (int64_t p = o; p < d->f->n_outputs; p++) {
            if (done >> p & 1 || !same_inner(d, t, output_type(d, p))) continue;
            int32_t x = mlsi_lower_value(d, d->f->outputs[p].value, index);
            if (!mlsi_fault(MLSI_FAULT_ROWS_OUTPUT) || p == o)
                mlsi_nest_store(d->n, (int32_t)(d->f->n_inputs + p), index, x);
            done |= (uint64_t)1 << p;
        }
        end_loops(d, inner);
        d->inner_rank = 0;
    }
}

/* ---- rows that are read more than once -------------------------------------------------------------------- */

/* By the op's own cost rule, for one element. */
static bool is_costly(const mlsi_node *node) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    mlsi_view one[MLSI_MAX_OPERANDS + 1];
    mlsi_op_cost c = {0};
    if (!(def->traits & MLSI_TRAIT_ELEMENTWISE)) return false;
    for (int i = 0; i <= node->n_in; i++)
        one[i] = (mlsi_view){.dtype = MLSYS_F32};
    def->cost(&(mlsi_cost_args){.attrs = node->attrs,
                                .n_in = node->n_in,
                                .n_out = 1,
                                .in = one,
                                .out = one + node->n_in},
              &c);
    return c.transcendentals > 0;
}

/* Per value, the loops that read it through what is computed in place: a bit per reduction (62 and later share one),
 * one for all outputs. */
static void find_readers(const mlsi_lowering *d, uint64_t *readers) {
    const mlsi_func *f = d->f;
    int reductions = 0;
    for (int64_t i = 0; i < f->n_nodes; i++)
        reductions += is_reduction(d, &f->nodes[i]);
    for (int64_t i = 0; i < f->n_outputs; i++)
        readers[f->outputs[i].value] |= (uint64_t)1 << 63;
    for (int64_t i = f->n_nodes - 1; i >= 0; i--) {
        const mlsi_node *node = &f->nodes[i];
        uint64_t set = readers[node->first_out];
        if (is_reduction(d, node)) {
            reductions--;
            set = (uint64_t)1 << (reductions < 62 ? reductions : 62);
        }
        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0) readers[node->in[k]] |= set;
    }
}

/* A costly value of whole rows that several loops read gets a row of LOCAL memory. */
static void keep_rows(mlsi_lowering *d, const uint64_t *readers) {
    enum { MOST = 1 << 16 }; /* elements */
    for (int64_t i = 0; i < d->f->n_nodes; i++) {
        const mlsi_node *node = &d->f->nodes[i];
        const mlsi_type *t = &d->f->values[node->first_out].type;
        int64_t lo, hi, dims[MLSYS_MAX_DIMS], *inner = dims + d->row_rank;
        if (!is_costly(node) || t->rank <= d->row_rank || !has_rows(d, t)) continue;
        int rank = t->rank - d->row_rank;
        mlsi_lower_split(d, t->rank, t->dims, dims);
        mlsi_dim_range(&d->n->tab, product(d->n, rank, inner), &lo, &hi);
        uint64_t set = readers[node->first_out];
        if (hi > MOST || hi <= 1 || !(set & (set - 1))) continue;
        mlsi_lowered *v = &d->values[node->first_out];
        v->place = MLSI_PLACE_TEMP;
        v->buffer = mlsi_nest_local(d->n, "row", t->dtype, rank, inner);
    }
}

/* ---- all of it -------------------------------------------------------------------------------------------- */

static bool outputs_have_rows(const mlsi_lowering *d) {
    bool all = true;
    for (int64_t o = 0; o < d->f->n_outputs; o++)
        all = all && has_rows(d, output_type(d, o));
    return all;
}

/* Rows that are not the leading axes of the outputs: those of the same rank that the reduction's result keeps, of an axis
 * among others. */
static void find_row_axes(mlsi_lowering *d, const mlsi_type *kept) {
    d->space_rank = kept->rank;
    d->row_rank = 0;
    for (int i = 0; i < kept->rank; i++) {
        if (kept->dims[i] == 1 && !mlsi_fault(MLSI_FAULT_LOOPS_ROW_AXES)) continue;
        d->row_extent[d->row_rank] = kept->dims[i];
        d->row_axis[d->row_rank++] = i;
    }
}

/* Without reductions: the leading axes that all outputs have. */
static int shared_axes(const mlsi_lowering *d) {
    const mlsi_type *first = output_type(d, 0);
    int rank = first->rank;
    for (int64_t o = 1; o < d->f->n_outputs; o++) {
        const mlsi_type *t = output_type(d, o);
        int k = 0;
        while (k < rank && k < t->rank && t->dims[k] == first->dims[k])
            k++;
        rank = k;
    }
    return rank;
}

/* The loops that everything shares: without reductions the outputs' own, else those of the reductions' results,
 * less trailing axes of extent 1. */
static void find_rows(mlsi_lowering *d, const mlsi_node **first) {
    *first = NULL;
    for (int64_t i = 0; i < d->f->n_nodes && !*first; i++)
        if (is_reduction(d, &d->f->nodes[i])) *first = &d->f->nodes[i];
    const mlsi_type *t = *first ? &d->f->values[(*first)->first_out].type : output_type(d, 0);
    d->space_rank = -1;
    d->row_rank = *first || mlsi_fault(MLSI_FAULT_ROWS_SHARED) ? t->rank : shared_axes(d);
    while (*first && d->row_rank && t->dims[d->row_rank - 1] == 1)
        d->row_rank--;
    memcpy(d->row_extent, t->dims, sizeof d->row_extent);
    if (*first && !outputs_have_rows(d)) find_row_axes(d, t);
    if (!outputs_have_rows(d)) mlsi_lower_refuse(d, "outputs do not share their rows", "");
}

void mlsi_lower_rows(mlsi_lowering *d) {
    const mlsi_node *first;
    find_rows(d, &first);
    if (d->n->status != MLSYS_OK) return; /* an output may have fewer axes than the rows */
    bool whole = true;                    /* the outputs are one element a row */
    for (int64_t o = 0; o < d->f->n_outputs; o++)
        whole &= output_type(d, o)->rank == d->row_rank;
    int opened = open_rows(d, whole && !first);
    uint64_t *readers = NULL;
    mlsi_nest_fail(d->n, MLSI_NEW_N(d->n->alloc, d->f->n_values + 1, &readers));
    if (d->n->status == MLSYS_OK) {
        find_readers(d, readers);
        keep_rows(d, readers);
    }
    mlsi_mem_free(d->n->alloc, readers);
    for (int64_t i = 0; i < d->f->n_nodes; i++) {
        const mlsi_node *node = &d->f->nodes[i];
        const mlsi_type *t = &d->f->values[node->first_out].type;
        int64_t index[MLSYS_MAX_DIMS], split[MLSYS_MAX_DIMS] = {0};
        if (!is_reduction(d, node)) continue;
        if (!is_row_value(d, t))
            mlsi_lower_refuse(d,
                              "rows differ from the first reduction's: ", mlsi_op_name(node->op));
        memcpy(split, d->row, sizeof split[0] * (size_t)d->row_rank);
        mlsi_lower_join(d, t->rank, split, index);
        d->values[node->first_out].expr = mlsi_lower_reduction(d, node, index);
        d->values[node->first_out].known = true;
    }
    store_outputs(d);
    end_loops(d, opened);
}
