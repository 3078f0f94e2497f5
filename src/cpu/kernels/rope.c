/* Rotary position embedding. The angles of a position are computed once and serve all heads. */
#include "cpu/kernels/stage.h"
#include "core/elementary.inc"
#include "core/faults.h"

enum { ROPE_PAIRS_CAP = 1024 }; /* pairs of a head whose cos and sin are kept at a time */

typedef struct rope_job {
    const mlsi_kernel_args *args;
    int64_t length, heads, width, pairs; /* L, H, D, n */
    bool halves;
    const float *freqs; /* contiguous */
} rope_job;

static int64_t rope_position(const mlsi_view *positions, int64_t b, int64_t l) {
    int64_t at = l * positions->strides[positions->rank - 1], position = 0;
    if (positions->rank > 1 && positions->shape[0] > 1) at += b * positions->strides[0];
    int size = mlsi_dtype_size(positions->dtype);
    load_i64(&position, (const char *)positions->data + at * size, positions->dtype, size, 1);
    return position;
}

static void rope_angles(float *c, float *s, float position, const float *freqs, int64_t n) {
    VF p = vf_set1(position);
    for (int64_t i = 0; i < n; i += VF_LANES) {
        int m = n - i < VF_LANES ? (int)(n - i) : VF_LANES;
        VF a = vf_mul(p, vf_load_n(freqs + i, m));
        vf_store_n(c + i, ef_cos(a), m);
        vf_store_n(s + i, ef_sin(a), m);
    }
}

/* y0 = x0 c - x1 s, y1 = x1 c + x0 s, on split arrays. */
static void rope_rotate(float *y0, float *y1, const float *x0, const float *x1, const float *c,
                        const float *s, int64_t n) {
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) {
        VF a = vf_load(x0 + i), b = vf_load(x1 + i), vc = vf_load(c + i), vs = vf_load(s + i);
        vf_store(y0 + i, vf_sub(vf_mul(a, vc), vf_mul(b, vs)));
        vf_store(y1 + i, vf_add(vf_mul(b, vc), vf_mul(a, vs)));
    }
    if (i < n) {
        int m = (int)(n - i);
        VF a = vf_load_n(x0 + i, m), b = vf_load_n(x1 + i, m);
        VF vc = vf_load_n(c + i, m), vs = vf_load_n(s + i, m);
        vf_store_n(y0 + i, vf_sub(vf_mul(a, vc), vf_mul(b, vs)), m);
        vf_store_n(y1 + i, vf_add(vf_mul(b, vc), vf_mul(a, vs)), m);
    }
}

/* Pairs [first, first + n) of one head. Element i of half 0 lies at i * step, of half 1 at i * step
 * + offset, in elements of x's and y's last dim. */
static void rope_head(const rope_job *job, const char *x, char *y, int64_t first, int64_t n,
                      const float *c, const float *s) {
    const mlsi_view *vx = &job->args->in[0], *vy = &job->args->out[0];
    float a[ROPE_PAIRS_CAP], b[ROPE_PAIRS_CAP];
    int64_t sx = vx->strides[3] * mlsi_dtype_size(vx->dtype);
    int64_t sy = vy->strides[3] * mlsi_dtype_size(vy->dtype);
    int64_t step = job->halves ? 1 : 2, offset = job->halves ? job->pairs : 1;
    if (job->halves && vx->dtype == MLSYS_F32 && vy->dtype == MLSYS_F32 && sx == 4 && sy == 4) {
        const float *fx = (const float *)(const void *)x + first;
        float *fy = (float *)(void *)y + first;
        rope_rotate(fy, fy + offset, fx, fx + offset, c, s, n);
        return;
    }
    load_f32(a, x + first * step * sx, vx->dtype, step * sx, n);
    load_f32(b, x + (first * step + offset) * sx, vx->dtype, step * sx, n);
    rope_rotate(a, b, a, b, c, s, n);
    store_f32(y + first * step * sy, vy->dtype, step * sy, a, n);
    store_f32(y + (first * step + offset) * sy, vy->dtype, step * sy, b, n);
}

static void rope_tokens(const void *user, int64_t token, int64_t last, int worker) {
    const rope_job *job = user;
    const mlsi_view *x = &job->args->in[0], *y = &job->args->out[0];
    int64_t size = mlsi_dtype_size(x->dtype), rotated = 2 * job->pairs;
    float c[ROPE_PAIRS_CAP], s[ROPE_PAIRS_CAP];
    (void)worker;
    for (; token < last; token++) {
        int64_t b = token / job->length, l = token % job->length;
        float position = (float)rope_position(&job->args->in[1],
                                              mlsi_fault(MLSI_FAULT_CPU_ROPE_BATCH) ? 0 : b, l);
        const char *tx = (const char *)x->data + (b * x->strides[0] + l * x->strides[1]) * size;
        char *ty = (char *)y->data + (b * y->strides[0] + l * y->strides[1]) * size;
        for (int64_t i = 0; i < job->pairs; i += ROPE_PAIRS_CAP) {
            int64_t n = job->pairs - i < ROPE_PAIRS_CAP ? job->pairs - i : ROPE_PAIRS_CAP;
            rope_angles(c, s, position, job->freqs + i, n);
            for (int64_t h = 0; h < job->heads; h++)
                rope_head(job, tx + h * x->strides[2] * size, ty + h * y->strides[2] * size, i, n,
                          c, s);
        }
        for (int64_t h = 0; h < job->heads && rotated < job->width && tx != ty; h++)
            stage_move(ty + (h * y->strides[2] + rotated * y->strides[3]) * size,
                       y->strides[3] * size,
                       tx + (h * x->strides[2] + rotated * x->strides[3]) * size,
                       x->strides[3] * size, (int)size, job->width - rotated);
    }
}

static uint64_t rope_work(const mlsi_kernel_args *args, int threads) {
    (void)threads;
    return (uint64_t)args->in[2].shape[0] * sizeof(float); /* freqs, when they are strided */
}

static mlsys_status rope_run(const mlsi_kernel_args *args) {
    enum { GRAIN = 8192 };
    const mlsi_attr_rope *attrs = args->attrs;
    const mlsi_view *x = &args->in[0], *freqs = &args->in[2];
    rope_job job = {.args = args,
                    .length = x->shape[1],
                    .heads = x->shape[2],
                    .width = x->shape[3],
                    .pairs = freqs->shape[0],
                    .halves = attrs->pairing == MLSI_ROPE_HALVES};
    job.freqs = freqs->data;
    if (freqs->strides[0] != 1 && job.pairs) {
        load_f32(args->work, freqs->data, MLSYS_F32, freqs->strides[0] * 4, job.pairs);
        job.freqs = args->work;
    }
    if (mlsi_view_count(x) == 0) return MLSYS_OK;
    mlsi_range_run(args->pool, x->shape[0] * job.length, GRAIN / (job.heads * job.width),
                   rope_tokens, &job);
    return MLSYS_OK;
}

static bool accepts_rope(const mlsi_query *q) {
    mlsys_dtype t = q->in[0].dtype, p = q->in[1].dtype;
    return compute_type_of(t) == COMPUTE_F32 && is_plain(t) && q->out[0].dtype == t &&
           q->in[0].rank == 4 && (p == MLSYS_I32 || p == MLSYS_I64) && q->in[2].dtype == MLSYS_F32;
}

MLSI_KERNEL_TABLE(rope) = {
    {.op = MLSI_OP_ROPE,
     .isa = MLSI_K_ISA,
     .name = MLSI_K_NAME("rope"),
     .accepts = accepts_rope,
     .run = rope_run,
     .work = rope_work,
     .in_place = 1},
    {.run = NULL},
};
