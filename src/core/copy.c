/* Strided copies. A copy becomes a loop nest over byte strides: unit dims dropped, signs turned so
 * that dst ascends, dims ordered by dst stride, neighbours merged. The innermost dim is then a
 * memcpy run, a strided row, or one side of a transposition, which goes through tiles so that both
 * sides touch whole cache lines. */
#include "core/faults.h"
#include "core/tensor.h"

enum { TILE = 16 };

typedef struct copy_dim {
    int64_t n, dst, src; /* extent, strides in bytes */
} copy_dim;

typedef struct copy_nest {
    char *dst;
    const char *src;
    int64_t unit; /* bytes moved as one: an element or a block */
    int n;
    copy_dim dim[MLSYS_MAX_DIMS + 1]; /* outermost first */
} copy_nest;

static int64_t magnitude(int64_t v) { return v < 0 ? -v : v; }

/* Outer before inner: larger dst stride, then larger src stride. */
static bool outer_of(const copy_dim *a, const copy_dim *b) {
    if (magnitude(a->dst) != magnitude(b->dst)) return magnitude(a->dst) > magnitude(b->dst);
    return magnitude(a->src) > magnitude(b->src);
}

/* False when there is nothing to copy. */
static bool nest_build(copy_nest *c, const mlsi_view *dst, const mlsi_view *src) {
    const mlsi_dtype_info *info = mlsi_dtype_get(dst->dtype);
    int64_t block = info->block_elems;
    c->dst = dst->data;
    c->src = src->data;
    c->unit = info->block_bytes;
    c->n = 0;
    for (int d = 0; d < dst->rank; d++) {
        bool in_blocks = block > 1 && d == dst->rank - 1;
        int64_t scale = c->unit * (in_blocks ? block : 1);
        copy_dim x = {in_blocks ? dst->shape[d] / block : dst->shape[d],
                      dst->strides[d] * scale / block, src->strides[d] * scale / block};
        if (x.n == 0) return false;
        if (x.n == 1) continue;
        if (x.dst < 0) {
            c->dst += (x.n - 1) * x.dst;
            c->src += (x.n - 1) * x.src;
            x.dst = -x.dst;
            x.src = -x.src;
        }
        int at = c->n++;
        for (; at > 0 && outer_of(&x, &c->dim[at - 1]); at--)
            c->dim[at] = c->dim[at - 1];
        c->dim[at] = x;
    }
    int m = 0;
    for (int d = 0; d < c->n; d++) {
        copy_dim *o = m ? &c->dim[m - 1] : NULL, i = c->dim[d];
        if (o && o->dst == i.dst * i.n && o->src == i.src * i.n) {
            o->n *= i.n;
            o->dst = i.dst;
            o->src = i.src;
        } else {
            c->dim[m++] = i;
        }
    }
    c->n = m;
    return true;
}

/* One row of n units. The unit is a constant in each branch, so memcpy becomes one load and store.
 */
static void copy_row(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n, int64_t unit) {
    switch (unit) {
    case 1:
        for (int64_t i = 0; i < n; i++)
            dst[i * ds] = src[i * ss];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds, src + i * ss, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds, src + i * ss, 4);
        break;
    case 8:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds, src + i * ss, 8);
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(dst + i * ds, src + i * ss, (size_t)unit);
        break;
    }
}

/* dim a is unit-stride in dst, dim b in src: tiles of TILE x TILE stay in the first cache. */
static void copy_plane(char *dst, const char *src, copy_dim a, copy_dim b, int64_t unit) {
    for (int64_t i = 0; i < b.n; i += TILE) {
        int64_t rows = b.n - i < TILE ? b.n - i : TILE;
        for (int64_t j = 0; j < a.n; j += TILE) {
            int64_t cols = a.n - j < TILE ? a.n - j : TILE;
            if (mlsi_fault(MLSI_FAULT_COPY_TILE_EDGE) && cols > 1 && cols < TILE) cols--;
            for (int64_t r = 0; r < rows; r++)
                copy_row(dst + (i + r) * b.dst + j * a.dst, a.dst,
                         src + (i + r) * b.src + j * a.src, a.src, cols, unit);
        }
    }
}

/* Call the innermost copy for every index of the outer dims. */
static void nest_run(const copy_nest *c, int outer, const copy_dim *b) {
    copy_dim inner = c->n ? c->dim[c->n - 1] : (copy_dim){1, c->unit, c->unit};
    bool run = inner.dst == c->unit && inner.src == c->unit;
    int64_t index[MLSYS_MAX_DIMS + 1] = {0};
    char *dst = c->dst;
    const char *src = c->src;
    for (;;) {
        if (b)
            copy_plane(dst, src, inner, *b, c->unit);
        else if (run)
            memcpy(dst, src, (size_t)(inner.n * c->unit));
        else
            copy_row(dst, inner.dst, src, inner.src, inner.n, c->unit);
        int d = outer - 1;
        for (; d >= 0; d--) {
            dst += c->dim[d].dst;
            src += c->dim[d].src;
            if (++index[d] < c->dim[d].n) break;
            dst -= c->dim[d].dst * c->dim[d].n;
            src -= c->dim[d].src * c->dim[d].n;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

static void nest_copy(copy_nest *c) {
    int last = c->n - 1;
    if (c->n < 2 || magnitude(c->dim[last].src) == c->unit) {
        nest_run(c, last, NULL);
        return;
    }
    /* Is another dim unit-stride in src? Then it is the second side of a plane. */
    int b = last - 1;
    while (b >= 0 && magnitude(c->dim[b].src) != c->unit)
        b--;
    if (b < 0 || c->dim[b].n < 4 || c->dim[last].n < 4) {
        nest_run(c, last, NULL);
        return;
    }
    copy_dim side = c->dim[b];
    for (int d = b; d < last - 1; d++)
        c->dim[d] = c->dim[d + 1];
    c->dim[last - 1] = side;
    nest_run(c, last - 1, &side);
}

void mlsi_copy_view(const mlsi_view *dst, const mlsi_view *src) {
    copy_nest c;
    if (nest_build(&c, dst, src)) nest_copy(&c);
}

static mlsi_view dense_view(void *data, const mlsi_view *like) {
    mlsi_view v = *like;
    v.data = data;
    int64_t stride = 1;
    for (int d = v.rank - 1; d >= 0; d--) {
        v.strides[d] = stride;
        stride *= v.shape[d];
    }
    return v;
}

mlsys_status mlsi_copy_overlapping(mlsi_alloc *a, const mlsi_view *dst, const mlsi_view *src) {
    copy_nest c;
    if (!nest_build(&c, dst, src)) return MLSYS_OK;
    uintptr_t dst_low, dst_high, src_low, src_high;
    mlsi_view_range(dst, &dst_low, &dst_high);
    mlsi_view_range(src, &src_low, &src_high);
    if (dst_high <= src_low || src_high <= dst_low || mlsi_fault(MLSI_FAULT_COPY_OVERLAP)) {
        nest_copy(&c);
        return MLSYS_OK;
    }
    if (c.n == 0 || (c.n == 1 && c.dim[0].dst == c.unit && c.dim[0].src == c.unit)) {
        memmove(c.dst, c.src, (size_t)((c.n ? c.dim[0].n : 1) * c.unit));
        return MLSYS_OK;
    }
    const mlsi_dtype_info *info = mlsi_dtype_get(src->dtype);
    uint64_t bytes =
        (uint64_t)mlsi_view_count(src) / (uint64_t)info->block_elems * (uint64_t)info->block_bytes;
    void *scratch;
    MLSI_TRY(mlsi_mem_alloc(a, bytes, &scratch));
    mlsi_view dense = dense_view(scratch, src);
    mlsi_copy_view(&dense, src);
    mlsi_copy_view(dst, &dense);
    mlsi_mem_free(a, scratch);
    return MLSYS_OK;
}
