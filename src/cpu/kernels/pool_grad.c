/* pool_grad of a maximum over windows that lie side by side (stride = kernel, no padding): one pass over x, y and
 * dy that writes each cell once, where the decomposition makes a mask and a plane per cell of the window.
 *
 * Bound: memory, 4 bytes of x and dx per cell and 8 per window. */
#include "core/faults.h"
#include "cpu/iterate.h"
#include "cpu/kernel.h"

#include <string.h>

typedef struct grad_job {
    const mlsi_view *x, *y, *dy, *dx;
    int64_t height, width; /* of the window */
} grad_job;

/* 2 x 2: the first equal cell of a b / c d. */
static void row_pair(const float *x0, const float *x1, const float *y, const float *dy, float *to0,
                     float *to1, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        float m = y[j], g = dy[j];
        int a = x0[2 * j] == m, b = !a & (x0[2 * j + 1] == m);
        int c = !(a | b) & (x1[2 * j] == m), d = !(a | b | c) & (x1[2 * j + 1] == m);
        if (mlsi_fault(MLSI_FAULT_CPU_POOL_GRAD_FIRST)) b = x0[2 * j + 1] == m;
        to0[2 * j] = a ? g : 0, to0[2 * j + 1] = b ? g : 0;
        to1[2 * j] = c ? g : 0, to1[2 * j + 1] = d ? g : 0;
    }
}

static void one_window(const grad_job *job, const float *x, float m, float g, float *to) {
    bool open = true;
    for (int64_t i = 0; i < job->height; i++)
        for (int64_t j = 0; j < job->width; j++) {
            bool hit = open && x[i * job->x->strides[2] + j] == m;
            to[i * job->dx->strides[2] + j] = hit ? g : 0;
            open = open && !hit;
        }
}

static float *plane(const mlsi_view *v, int64_t item) {
    int64_t image = item / v->shape[1], channel = item % v->shape[1];
    return (float *)v->data + image * v->strides[0] + channel * v->strides[1];
}

static void grad_planes(const void *user, int64_t item, int64_t last, int worker) {
    const grad_job *job = user;
    int64_t rows = job->y->shape[2], n = job->y->shape[3], width = job->dx->shape[3];
    (void)worker;
    for (; item < last; item++) {
        const float *x = plane(job->x, item), *y = plane(job->y, item), *dy = plane(job->dy, item);
        float *to = plane(job->dx, item);
        for (int64_t i = 0; i < rows; i++) {
            const float *from = x + i * job->height * job->x->strides[2];
            const float *top = y + i * job->y->strides[2], *g = dy + i * job->dy->strides[2];
            float *out = to + i * job->height * job->dx->strides[2];
            if (job->height == 2 && job->width == 2)
                row_pair(from, from + job->x->strides[2], top, g, out, out + job->dx->strides[2],
                         n);
            else
                for (int64_t j = 0; j < n; j++)
                    one_window(job, from + j * job->width, top[j], g[j], out + j * job->width);
            for (int64_t e = 0; e < job->height; e++) /* cells behind the last window */
                memset(out + e * job->dx->strides[2] + n * job->width, 0,
                       sizeof *out * (size_t)(width - n * job->width));
        }
        for (int64_t e = rows * job->height; e < job->dx->shape[2]; e++)
            memset(to + e * job->dx->strides[2], 0, sizeof *to * (size_t)width);
    }
}

static mlsys_status grad_run(const mlsi_kernel_args *args) {
    const mlsi_attr_pool *at = args->attrs;
    grad_job job = {.x = &args->in[0],
                    .y = &args->in[1],
                    .dy = &args->in[2],
                    .dx = &args->out[0],
                    .height = at->kernel.v[0],
                    .width = at->kernel.v[1]};
    if (mlsi_view_count(job.dx) == 0) return MLSYS_OK;
    mlsi_range_run(args->pool, job.dx->shape[0] * job.dx->shape[1], 8, grad_planes, &job);
    return MLSYS_OK;
}

static bool accepts(const mlsi_query *q) {
    const mlsi_attr_pool *at = q->attrs;
    if (at->kind != MLSI_POOL_MAX || q->in[0].rank != 4 || q->in[0].dtype != MLSYS_F32)
        return false;
    for (int i = 0; i < 3; i++)
        if (!q->in[i].inner_unit) return false;
    for (int d = 0; d < 2; d++) {
        if (at->strides.v[d] != at->kernel.v[d] || at->dilations.v[d] != 1) return false;
        if (at->pads.v[d] || at->pads.v[2 + d]) return false;
    }
    return q->out[0].inner_unit && !at->ceil_mode;
}

MLSI_KERNEL_TABLE(pool_grad) = {{.op = MLSI_OP_POOL_GRAD,
                                 .isa = MLSI_K_ISA,
                                 .name = MLSI_K_NAME("pool_grad_max"),
                                 .accepts = accepts,
                                 .run = grad_run},
                                {.run = NULL}};
