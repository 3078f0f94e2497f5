/* Strided copies. A copy becomes a loop nest over byte strides: unit dims dropped, signs turned so
 * that dst ascends, dims ordered by dst stride, neighbours merged. The innermost dim is then a
 * memcpy run, a strided row, or one side of a transposition (core/transpose.c). */
#include "core/faults.h"
#include "core/transpose.h"
#include "core/tensor.h"

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

/* ---- planes: the two innermost loops --------------------------------------------------------- */

/* a is the inner dim, of the smallest dst stride; b the other one. */
typedef struct copy_plane {
    copy_dim a, b;
    enum { RUNS, TURNED, STRIDED } kind;
    int64_t unit;
} copy_plane;

/* The unit is a constant in each branch, so that memcpy becomes one load and one store. */
static void copy_strided(const copy_plane *p, char *dst, const char *src) {
    copy_dim a = p->a, b = p->b;
    size_t unit = (size_t)p->unit;
#define EACH(bytes)                                                                                \
    for (int64_t j = 0; j < b.n; j++, dst += b.dst, src += b.src)                                  \
        for (int64_t i = 0; i < a.n; i++)                                                          \
            memcpy(dst + i * a.dst, src + i * a.src, bytes);
    if (unit == 1)
        EACH(1)
    else if (unit == 2)
        EACH(2)
    else if (unit == 4)
        EACH(4)
    else if (unit == 8)
        EACH(8)
    else
        EACH(unit)
#undef EACH
}

static void plane_copy(const copy_plane *p, char *dst, const char *src) {
    if (p->kind == TURNED) {
        mlsi_transpose(dst, p->b.dst, src, p->a.src, p->b.n, p->a.n, p->unit);
    } else if (p->kind == RUNS) {
        for (int64_t j = 0; j < p->b.n; j++)
            memcpy(dst + j * p->b.dst, src + j * p->b.src, (size_t)(p->a.n * p->unit));
    } else {
        copy_strided(p, dst, src);
    }
}

/* Take dim d out of the nest. */
static copy_dim take_dim(copy_nest *c, int d) {
    copy_dim dim = c->dim[d];
    c->n--;
    for (; d < c->n; d++)
        c->dim[d] = c->dim[d + 1];
    return dim;
}

/* Choose the plane; the nest keeps the outer dims. */
static copy_plane plane_take(copy_nest *c) {
    const copy_dim one = {1, 0, 0};
    copy_plane p = {.kind = RUNS, .unit = c->unit};
    p.a = c->n ? take_dim(c, c->n - 1) : (copy_dim){1, c->unit, c->unit};
    bool dense_dst = p.a.dst == c->unit;
    if (dense_dst && p.a.src == c->unit) {
        p.b = c->n ? take_dim(c, c->n - 1) : one;
        return p;
    }
    /* Is another dim unit-stride in src? */
    int turned = c->n - 1;
    while (turned >= 0 && magnitude(c->dim[turned].src) != c->unit)
        turned--;
    if (dense_dst && turned >= 0 && c->unit <= 8 && (c->unit & (c->unit - 1)) == 0) {
        p.kind = TURNED;
        p.b = take_dim(c, turned);
        if (p.b.src < 0) { /* walk it from the other end */
            c->dst += (p.b.n - 1) * p.b.dst;
            c->src += (p.b.n - 1) * p.b.src;
            p.b.dst = -p.b.dst;
            p.b.src = -p.b.src;
        }
        return p;
    }
    p.kind = STRIDED;
    p.b = c->n ? take_dim(c, c->n - 1) : one;
    return p;
}

static void nest_copy(copy_nest *c) {
    copy_plane p = plane_take(c);
    int64_t index[MLSYS_MAX_DIMS] = {0};
    char *dst = c->dst;
    const char *src = c->src;
    for (;;) {
        plane_copy(&p, dst, src);
        int d = c->n - 1;
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
