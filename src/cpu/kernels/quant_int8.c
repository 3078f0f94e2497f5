/* quant_matmul, act = int8: quantise rows of x, then panels of W times groups of rows. */
#include "cpu/kernels/quant_int8.h"
#include "cpu/kernels/stage.h"

enum { ROWS_PER_TASK = 32 };

typedef struct job {
    gemm g;
    int64_t m0, rows; /* of x, quantised together */
    int64_t panels, row_tasks, grain;
    int64_t panel_bytes, row_blocks;
    int8_block *x;
    uint8_t *panel_scratch; /* one panel per worker, for a W that was not packed */
} job;

static void quantise_row(void *user, int64_t item, int worker) {
    (void)worker;
    const job *j = user;
    const gemm *g = &j->g;
    int8_block *b = j->x + item * j->row_blocks;
    int64_t row = mlsi_index_offset(&g->m, MLSI_PRODUCT_A, j->m0 + item);
    int64_t step = mlsi_index_stride(&g->k, MLSI_PRODUCT_A), size = mlsi_dtype_size(g->a_type);
    float buffer[MLSI_K_SEGMENT];
    for (int64_t k0 = 0; k0 < g->k.count; k0 += MLSI_K_SEGMENT) {
        int64_t n = g->k.count - k0 < MLSI_K_SEGMENT ? g->k.count - k0 : MLSI_K_SEGMENT;
        const char *at = g->a + (row + k0 * step) * size;
        const float *x = (const float *)(const void *)at;
        if (g->a_type != MLSYS_F32 || step != 1) {
            load_f32(buffer, at, g->a_type, step * size, n);
            x = buffer;
        }
        for (int64_t i = 0; i < n; i += INT8_BLOCK)
            MLSI_K(int8_quantise)(x + i, b++);
    }
}

static void run_panel(const job *j, int64_t panel, int64_t row0, int64_t rows, int worker) {
    const gemm *g = &j->g;
    const uint8_t *packed = g->packed ? g->packed + panel * j->panel_bytes : NULL;
    int64_t n0 = panel * MLSI_PANEL_ROWS, columns = g->n.count - n0;
    if (columns > MLSI_PANEL_ROWS) columns = MLSI_PANEL_ROWS;
    if (!g->packed) {
        const mlsi_dtype_info *info = mlsi_dtype_get(g->b_type);
        int64_t stride =
            mlsi_index_stride(&g->n, MLSI_PRODUCT_B) / info->block_elems * info->block_bytes;
        uint8_t *own = j->panel_scratch + worker * j->panel_bytes;
        MLSI_K(int8_pack_panel)
        (g->b_type, (const uint8_t *)g->b + n0 * stride, stride, columns, g->k.count, own);
        packed = own;
    }
    int8_panel_fn multiply = MLSI_K(int8_panel)(g->b_type);
    float out[INT8_MAX_ROWS * MLSI_PANEL_ROWS];
    for (int64_t r = row0; r < row0 + rows; r += INT8_MAX_ROWS) {
        int mr = (int)(row0 + rows - r < INT8_MAX_ROWS ? row0 + rows - r : INT8_MAX_ROWS);
        multiply(packed, g->k.count, mr, j->x + r * j->row_blocks, out);
        for (int i = 0; i < mr; i++)
            MLSI_K(gemm_store_row)(g, g->c, j->m0 + r + i, n0, columns, out + i * MLSI_PANEL_ROWS);
    }
}

static void run_tasks(void *user, int64_t item, int worker) {
    const job *j = user;
    int64_t end = (item + 1) * j->grain, all = j->panels * j->row_tasks;
    for (int64_t t = item * j->grain; t < end && t < all; t++) {
        int64_t row0 = t % j->row_tasks * ROWS_PER_TASK, rows = j->rows - row0;
        run_panel(j, t / j->row_tasks, row0, rows < ROWS_PER_TASK ? rows : ROWS_PER_TASK, worker);
    }
}

static void prepare(job *j, const mlsi_kernel_args *args) {
    MLSI_K(quant_problem)(&j->g, args);
    mlsi_panel_format f = mlsi_panel_format_of(j->g.b_type);
    j->panels = (j->g.n.count + MLSI_PANEL_ROWS - 1) / MLSI_PANEL_ROWS;
    j->panel_bytes = j->g.k.count / f.block * mlsi_panel_block_bytes(f);
    j->row_blocks = j->g.k.count / INT8_BLOCK;
}

static uint64_t blocks_bytes(const job *j) {
    int64_t rows = j->g.m.count < INT8_ROWS_AT_ONCE ? j->g.m.count : INT8_ROWS_AT_ONCE;
    return ((uint64_t)(rows * j->row_blocks) * sizeof(int8_block) + 63) / 64 * 64;
}

static mlsys_status run(const mlsi_kernel_args *args) {
    job j = {0};
    prepare(&j, args);
    j.x = args->work;
    j.panel_scratch = (uint8_t *)args->work + blocks_bytes(&j);
    for (; j.m0 < j.g.m.count; j.m0 += INT8_ROWS_AT_ONCE) {
        j.rows = j.g.m.count - j.m0;
        if (j.rows > INT8_ROWS_AT_ONCE) j.rows = INT8_ROWS_AT_ONCE;
        j.row_tasks = (j.rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK;
        int64_t macs =
            MLSI_PANEL_ROWS * j.g.k.count * (j.rows < ROWS_PER_TASK ? j.rows : ROWS_PER_TASK);
        j.grain = macs < 65536 ? 65536 / (macs + 1) + 1 : 1;
        mlsi_pool_run(j.rows > 1 ? args->pool : NULL, j.rows, quantise_row, &j);
        mlsi_pool_run(args->pool, (j.panels * j.row_tasks + j.grain - 1) / j.grain, run_tasks, &j);
    }
    return MLSYS_OK;
}

static uint64_t work(const mlsi_kernel_args *args, int threads) {
    job j = {0};
    prepare(&j, args);
    return blocks_bytes(&j) + (uint64_t)j.panel_bytes * (uint64_t)threads;
}

static uint64_t pack_bytes(const mlsi_view *w, const void *attrs) {
    (void)attrs;
    return (uint64_t)mlsi_panel_packed_bytes(w->dtype, w->shape[0], w->shape[1]);
}

typedef struct pack_job {
    const mlsi_view *w;
    uint8_t *packed;
} pack_job;

static void pack_panel(void *user, int64_t panel, int worker) {
    (void)worker;
    const pack_job *p = user;
    const mlsi_view *w = p->w;
    const mlsi_dtype_info *info = mlsi_dtype_get(w->dtype);
    int64_t row_bytes = w->strides[0] / info->block_elems * info->block_bytes;
    int64_t row0 = panel * MLSI_PANEL_ROWS, rows = w->shape[0] - row0;
    MLSI_K(int8_pack_panel)
    (w->dtype, (const uint8_t *)w->data + row0 * row_bytes, row_bytes,
     rows < MLSI_PANEL_ROWS ? rows : MLSI_PANEL_ROWS, w->shape[1],
     p->packed + panel * mlsi_panel_packed_bytes(w->dtype, MLSI_PANEL_ROWS, w->shape[1]));
}

static void pack(const mlsi_view *w, const void *attrs, void *packed, mlsi_pool *pool) {
    (void)attrs;
    pack_job p = {w, packed};
    mlsi_pool_run(pool, (w->shape[0] + MLSI_PANEL_ROWS - 1) / MLSI_PANEL_ROWS, pack_panel, &p);
}

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_quant_matmul *at = q->attrs;
    return at->act == MLSI_ACT_INT8 && MLSI_K(quant_operands)(q);
}

static bool accepts_packed(const mlsi_query *q) { return accepts(q) && q->in[1].constant; }

MLSI_KERNEL_TABLE(quant_int8) = {
    {.op = MLSI_OP_QUANT_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("quant_matmul_int8_panels"),
     .accepts = accepts_packed,
     .run = run,
     .work = work,
     .pack_input = 1,
     .pack_bytes = pack_bytes,
     .pack = pack},
    {.op = MLSI_OP_QUANT_MATMUL,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("quant_matmul_int8_rows"),
     .accepts = accepts,
     .run = run,
     .work = work},
    {.run = NULL},
};
