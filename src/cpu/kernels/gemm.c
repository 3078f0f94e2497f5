/* The product's driver: cuts C into blocks, stages A, runs the register tile.
 *
 *   for each task (batch, block of mb rows, block of nb columns):
 *     for each segment of 256 along K:            s_0, s_1, ... in ascending order
 *       A block [mb][256]   f32 rows, in L2
 *       for each panel of B: tile [256][NR] in L1, reused by all rows of the block
 *         for each MR rows: MR x NR sums in registers, one FMA chain each; then C = s or C = C + s
 *
 * With an addend the chain of segments goes on from what C holds.
 *
 * Tasks do not share sums, so the result does not depend on the number of threads. */
#include "core/faults.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/stage.h"

/* ---- register tile --------------------------------------------------------------------------- */

/* c[r][j] = (add ? c[r][j] : nothing) + sum_k a[r * lda + k] * b[k * GEMM_NR + j]. */
V_FN void tile_body(int mr, const float *a, int64_t lda, const float *b, int64_t kc, float *c,
                    int64_t ldc, bool add) {
    VF s[GEMM_MR][2];
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
        s[r][0] = s[r][1] = vf_zero();
    for (int64_t k = 0; k < kc; k++, b += GEMM_NR) {
        VF b0 = vf_load(b), b1 = vf_load(b + VF_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < mr; r++) {
            VF x = vf_set1(a[r * lda + k]);
            s[r][0] = vf_fma(x, b0, s[r][0]);
            s[r][1] = vf_fma(x, b1, s[r][1]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            float *p = c + r * ldc + v * VF_LANES;
            vf_store(p, add ? vf_add(vf_load(p), s[r][v]) : s[r][v]);
        }
}

typedef void (*tile_fn)(const float *a, int64_t lda, const float *b, int64_t kc, float *c,
                        int64_t ldc, bool add);
#define TILE(mr)                                                                                   \
    static void tile_##mr(const float *a, int64_t lda, const float *b, int64_t kc, float *c,       \
                          int64_t ldc, bool add) {                                                 \
        tile_body(mr, a, lda, b, kc, c, ldc, add);                                                 \
    }
/* clang-format off */
TILE(1)
TILE(2)
TILE(3)
TILE(4)
#if !defined(MLSI_ISA_IS_PORTABLE)
TILE(5)
TILE(6)
#endif
#if defined(MLSI_ISA_IS_AVX512)
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12) TILE(13) TILE(14)
#endif
    /* clang-format on */
    static const tile_fn tiles[GEMM_MR + 1] = {
        NULL,   tile_1, tile_2, tile_3,  tile_4,
#if !defined(MLSI_ISA_IS_PORTABLE)
        tile_5, tile_6,
#endif
#if defined(MLSI_ISA_IS_AVX512)
        tile_7, tile_8, tile_9, tile_10, tile_11, tile_12, tile_13, tile_14,
#endif
};

/* ---- plan ------------------------------------------------------------------------------------ */

typedef struct plan {
    const gemm *g;
    bool small;              /* whole rows go through source->rows */
    bool direct_a, direct_c; /* A rows read in place; sums live in C itself */
    int64_t mb, nb, m_blocks, n_blocks, tasks, grain;
    uint64_t worker_bytes; /* of scratch */
    char *work;
} plan;

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

static bool contiguous_rows(mlsys_dtype t, const mlsi_index *row, const mlsi_index *column,
                            mlsi_product_operand o) {
    return t == MLSYS_F32 && mlsi_index_linear(row) && mlsi_index_linear(column) &&
           mlsi_index_stride(column, o) == 1;
}

/* Smaller tasks for more threads: aim at four each, down to the size where staging would show. */
static void cut(plan *p, int threads) {
    const gemm *g = p->g;
    int64_t width = g->source->width, m = g->m.count, n = g->n.count;
    p->m_blocks = ceil_div(m, GEMM_MB);
    p->mb = round_up(ceil_div(m, p->m_blocks), GEMM_MR);
    p->nb = round_up(min64(n, p->direct_c ? 4 * GEMM_NB : GEMM_NB), width);
    while (threads > 1) {
        int64_t tasks = g->batch.count * ceil_div(m, p->mb) * ceil_div(n, p->nb);
        if (tasks >= 4 * threads) break;
        if (p->nb >= 2 * GEMM_WIDE && p->nb >= 2 * width)
            p->nb = round_up(p->nb / 2, width);
        else if (p->mb >= 8 * GEMM_MR)
            p->mb = round_up(p->mb / 2, GEMM_MR);
        else
            break;
    }
    p->m_blocks = ceil_div(m, p->mb);
    p->n_blocks = ceil_div(n, p->nb);
}

static plan plan_of(const gemm *g, int threads) {
    plan p = {.g = g};
    int64_t m = g->m.count, n = g->n.count, k = g->k.count;
    if (m == 0 || n == 0 || g->batch.count == 0) return p;
    /* More rows are copied even so: at a power-of-two distance they share a few cache sets. */
    p.direct_a = m <= 2 * GEMM_MR && contiguous_rows(g->a_type, &g->m, &g->k, MLSI_PRODUCT_A);
    p.direct_c = contiguous_rows(g->c_type, &g->m, &g->n, MLSI_PRODUCT_C);
    p.small = m <= GEMM_SMALL_M && g->source->rows;
    if (p.small) {
        p.mb = m, p.m_blocks = 1;
        p.nb = g->source->width * (int64_t)g->source->row_panels;
        while (g->batch.count * ceil_div(n, p.nb) < 4 * threads && p.nb >= 2 * g->source->width)
            p.nb = round_up(p.nb / 2, g->source->width);
        p.n_blocks = ceil_div(n, p.nb);
    } else {
        cut(&p, threads);
    }
    /* Of both paths, so that the bytes grow with the extents. */
    int64_t rows = min64(round_up(m, GEMM_MR), GEMM_MB);
    int64_t sums = p.direct_c ? 0 : rows * min64(round_up(n, g->source->width), GEMM_NB);
    int64_t block = (rows + g->source->width) * MLSI_K_SEGMENT + sums;
    int64_t small = p.direct_a ? 0 : round_up(min64(m, GEMM_SMALL_M) * k, 16);
    p.worker_bytes = (uint64_t)(block > small ? block : small) * 4;
    p.tasks = g->batch.count * p.m_blocks * p.n_blocks;
    int64_t task_macs = min64(p.mb, m) * min64(p.nb, n) * (k ? k : 1);
    p.grain = task_macs >= 65536 ? 1 : min64(p.tasks, 65536 / task_macs + 1);
    return p;
}

uint64_t MLSI_K(gemm_work)(const gemm *g, int threads) {
    plan p = plan_of(g, threads);
    return p.worker_bytes * (uint64_t)threads;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A[m0 .. m0+rows) x [k0 .. k0+kc) as f32 rows of *lda elements. */
static const float *stage_a(const plan *p, const char *a, int64_t m0, int64_t rows, int64_t k0,
                            int64_t kc, float *buffer, int64_t *lda) {
    const gemm *g = p->g;
    if (p->direct_a) {
        *lda = mlsi_index_stride(&g->m, MLSI_PRODUCT_A);
        return (const float *)(const void *)a + m0 * *lda + k0;
    }
    int64_t row[GEMM_MB], column[MLSI_K_SEGMENT];
    int64_t k_step = mlsi_index_linear(&g->k) ? mlsi_index_stride(&g->k, MLSI_PRODUCT_A) : 0;
    mlsi_index_offsets(&g->m, MLSI_PRODUCT_A, m0, rows, row);
    mlsi_index_offsets(&g->k, MLSI_PRODUCT_A, k0, kc, column);
    *lda = kc;
    MLSI_K(gemm_gather)(buffer, kc, a, g->a_type, row, rows, column, kc, k_step);
    return buffer;
}

/* How many of C's columns from n0 on, at most n, lie at one distance. */
static int64_t even_columns(const gemm *g, int64_t n0, int64_t n) {
    if (mlsi_index_linear(&g->n)) return n;
    int64_t inner = g->n.extent[g->n.dims - 1];
    return min64(n, inner - n0 % inner);
}

void MLSI_K(gemm_store_row)(const gemm *g, char *c, int64_t m, int64_t n0, int64_t n,
                            const float *sums) {
    int64_t size = mlsi_dtype_size(g->c_type),
            step = mlsi_index_stride(&g->n, MLSI_PRODUCT_C) * size;
    c += mlsi_index_offset(&g->m, MLSI_PRODUCT_C, m) * size;
    for (int64_t i = 0, run; i < n; i += run) {
        run = even_columns(g, n0 + i, n - i);
        store_f32(c + mlsi_index_offset(&g->n, MLSI_PRODUCT_C, n0 + i) * size, g->c_type, step,
                  sums + i, run);
    }
}

/* The other way, widened. */
static void load_row(const gemm *g, const char *c, int64_t m, int64_t n0, int64_t n, float *sums) {
    int64_t size = mlsi_dtype_size(g->c_type),
            step = mlsi_index_stride(&g->n, MLSI_PRODUCT_C) * size;
    c += mlsi_index_offset(&g->m, MLSI_PRODUCT_C, m) * size;
    for (int64_t i = 0, run; i < n; i += run) {
        run = even_columns(g, n0 + i, n - i);
        load_f32(sums + i, c + mlsi_index_offset(&g->n, MLSI_PRODUCT_C, n0 + i) * size, g->c_type,
                 step, run);
    }
}

/* Bytes of B that will be read next: fetched in portions, one per tile. Each panel is a new
 * stream, which the hardware's prefetcher would notice late. */
typedef struct fetch {
    const char *at, *end;
    int64_t portion;
} fetch;

static void fetch_portion(fetch *f) {
    if (f->at == f->end) return; /* both may be NULL */
    const char *end = f->end - f->at < f->portion ? f->end : f->at + f->portion;
    for (; f->at < end; f->at += 64)
        __builtin_prefetch(f->at, 0, 2);
}

/* What follows panel `panel` of a block of panels [first, last) in segment k0. */
static fetch fetch_next(const gemm *g, int64_t b_batch, int64_t panel, int64_t first, int64_t last,
                        int64_t k0, int64_t tiles_left) {
    fetch f = {0};
    if (++panel == last) panel = first, k0 += MLSI_K_SEGMENT;
    if (!g->source->locate || k0 >= g->k.count) return f;
    int64_t bytes =
        g->source->locate(g, b_batch, panel, k0, min64(MLSI_K_SEGMENT, g->k.count - k0), &f.at);
    f.end = f.at + bytes;
    f.portion = round_up(ceil_div(bytes, tiles_left), 64);
    return f;
}

/* All row tiles of a block against one tile of B; tiles of nearly equal height. */
static void tile_column(const float *a, int64_t lda, int64_t rows, const float *b, int64_t kc,
                        float *c, int64_t ldc, int64_t columns, bool add, fetch *next) {
    int64_t left = ceil_div(rows, GEMM_MR);
    float edge[GEMM_MR * GEMM_NR];
    for (; rows > 0; left--) {
        int64_t mr = ceil_div(rows, left);
        fetch_portion(next);
        if (columns == GEMM_NR || mlsi_fault(MLSI_FAULT_GEMM_EDGE)) {
            tiles[mr](a, lda, b, kc, c, ldc, add);
        } else { /* the last columns of C, one by one */
            tiles[mr](a, lda, b, kc, edge, GEMM_NR, false);
            for (int64_t r = 0; r < mr; r++)
                for (int64_t j = 0; j < columns; j++) {
                    float s = edge[r * GEMM_NR + j], *p = c + r * ldc + j;
                    *p = add ? *p + s : s;
                }
        }
        a += mr * lda, c += mr * ldc, rows -= mr;
    }
}

static void run_block(const plan *p, const char *a, int64_t b_batch, char *c, int64_t m0,
                      int64_t n0, char *scratch) {
    const gemm *g = p->g;
    const gemm_source *source = g->source;
    int64_t rows = min64(p->mb, g->m.count - m0), columns = min64(p->nb, g->n.count - n0);
    int64_t k_count = g->k.count, lda, ldc,
            staged_rows = min64(round_up(g->m.count, GEMM_MR), GEMM_MB);
    float *panel = (float *)(void *)scratch, *a_block = panel + source->width * MLSI_K_SEGMENT;
    float *sums = a_block + staged_rows * MLSI_K_SEGMENT;
    if (p->direct_c) {
        ldc = mlsi_index_stride(&g->m, MLSI_PRODUCT_C);
        sums = (float *)(void *)c + m0 * ldc + n0;
    } else {
        ldc = round_up(columns, GEMM_NR);
    }
    for (int64_t r = 0; g->accumulate && !p->direct_c && r < rows; r++)
        load_row(g, c, m0 + r, n0, columns, sums + r * ldc);
    /* Sums of segments are added to what is there from segment `first` on. */
    int64_t first = mlsi_fault(MLSI_FAULT_GEMM_SEGMENT) ? MLSI_K_SEGMENT : 0;
    if (g->accumulate) first = -1;
    for (int64_t k0 = 0; k0 == 0 || k0 < k_count; k0 += MLSI_K_SEGMENT) {
        int64_t kc = min64(MLSI_K_SEGMENT, k_count - k0);
        const float *as = stage_a(p, a, m0, rows, k0, kc, a_block, &lda);
        for (int64_t j = 0; j < columns; j += source->width) {
            int64_t at = (n0 + j) / source->width, in_panel = min64(source->width, columns - j);
            fetch next = fetch_next(g, b_batch, at, n0 / source->width,
                                    ceil_div(n0 + columns, source->width), k0,
                                    ceil_div(rows, GEMM_MR) * ceil_div(in_panel, GEMM_NR));
            const float *b = source->expand(g, b_batch, at, k0, kc, panel);
            for (int64_t t = 0; t < in_panel; t += GEMM_NR, b += kc * GEMM_NR)
                tile_column(as, lda, rows, b, kc, sums + j + t, ldc,
                            p->direct_c ? min64(GEMM_NR, in_panel - t) : GEMM_NR, k0 > first,
                            &next);
        }
    }
    if (p->direct_c) return;
    for (int64_t r = 0; r < rows; r++)
        MLSI_K(gemm_store_row)(g, c, m0 + r, n0, columns, sums + r * ldc);
}

/* Few rows: B streams once through registers. */
static void run_small(const plan *p, const char *a, int64_t b_batch, char *c, int64_t n0,
                      char *scratch) {
    const gemm *g = p->g;
    int64_t lda = g->k.count, columns = min64(p->nb, g->n.count - n0), rows = g->m.count;
    const float *as = (const float *)(const void *)a;
    float out[GEMM_SMALL_M * GEMM_SMALL_N];
    if (p->direct_a) {
        lda = mlsi_index_stride(&g->m, MLSI_PRODUCT_A);
    } else {
        float *block = (float *)(void *)scratch;
        for (int64_t k0 = 0, ld; k0 < g->k.count; k0 += MLSI_K_SEGMENT)
            for (int64_t r = 0; r < rows; r++)
                stage_a(p, a, r, 1, k0, min64(MLSI_K_SEGMENT, g->k.count - k0),
                        block + r * lda + k0, &ld);
        as = block;
    }
    if (g->accumulate) memset(out, 0, sizeof out); /* past the last column, too */
    for (int64_t r = 0; g->accumulate && r < rows; r++)
        load_row(g, c, r, n0, columns, out + r * p->nb);
    g->source->rows(g, b_batch, n0 / g->source->width, ceil_div(columns, g->source->width),
                    (int)rows, as, lda, out, p->nb);
    for (int64_t r = 0; r < rows; r++)
        MLSI_K(gemm_store_row)(g, c, r, n0, columns, out + r * p->nb);
}

static void run_item(void *user, int64_t item, int worker) {
    const plan *p = user;
    const gemm *g = p->g;
    char *scratch = p->work + (uint64_t)worker * p->worker_bytes;
    int64_t a_size = mlsi_dtype_size(g->a_type), c_size = mlsi_dtype_size(g->c_type);
    for (int64_t t = item * p->grain; t < min64(p->tasks, (item + 1) * p->grain); t++) {
        int64_t n0 = t % p->n_blocks * p->nb, rest = t / p->n_blocks;
        int64_t m0 = rest % p->m_blocks * p->mb, batch = rest / p->m_blocks;
        const char *a = g->a + mlsi_index_offset(&g->batch, MLSI_PRODUCT_A, batch) * a_size;
        char *c = g->c + mlsi_index_offset(&g->batch, MLSI_PRODUCT_C, batch) * c_size;
        int64_t b_batch = mlsi_index_offset(&g->batch, MLSI_PRODUCT_B, batch);
        if (p->small)
            run_small(p, a, b_batch, c, n0, scratch);
        else
            run_block(p, a, b_batch, c, m0, n0, scratch);
    }
}

void MLSI_K(gemm_run)(const gemm *g, mlsi_pool *pool, void *work) {
    plan p = plan_of(g, pool ? mlsi_pool_threads(pool) : 1);
    p.work = work;
    if (p.tasks) mlsi_pool_run(pool, ceil_div(p.tasks, p.grain), run_item, &p);
}
