/* Custom ops see tensors. A program makes their objects when a stream first binds it and moves them over
 * the planned memory from run to run, so that a run allocates nothing. */
#include "run/program.h"

#include <string.h>

static mlsys_status operand_create(mlsi_device *device, bool readonly, mlsi_custom_operand *o) {
    mlsi_storage *storage;
    const int64_t none[1] = {0};
    mlsi_layout l;
    MLSI_TRY(mlsi_layout_row_major(&l, MLSYS_U8, 1, none));
    MLSI_TRY(mlsi_storage_adopt(device->object.ctx, NULL, 0, readonly, NULL, NULL, &storage));
    mlsys_status st = mlsi_tensor_make(device, storage, &l, &o->handle);
    mlsi_storage_release(storage);
    if (st == MLSYS_OK) st = mlsi_pin(o->handle, MLSYS_KIND_TENSOR, "custom op", &o->tensor);
    return st;
}

mlsys_status mlsi_custom_operands_create(const mlsi_program *p, const mlsi_node *node,
                                         mlsi_custom_operand *operands) {
    for (int i = 0; i < node->n_in + node->n_out; i++)
        if (i >= node->n_in || node->in[i] >= 0)
            MLSI_TRY(operand_create(p->host, i < node->n_in, &operands[i]));
    return MLSYS_OK;
}

void mlsi_custom_operands_free(mlsi_custom_operand *operands, int64_t n) {
    for (int64_t i = 0; operands && i < n; i++) {
        mlsi_unpin(operands[i].tensor);
        mlsys_release(operands[i].handle);
    }
}

mlsys_status mlsi_custom_operands_bind(mlsi_custom_operand *operands, int n,
                                       const mlsi_view *views) {
    for (int i = 0; i < n; i++) {
        mlsi_layout l = {.dtype = views[i].dtype, .rank = views[i].rank};
        int64_t low, high;
        if (!operands[i].tensor) continue;
        const mlsi_dtype_info *info = mlsi_dtype_get(l.dtype);
        memcpy(l.shape, views[i].shape, sizeof(int64_t) * (size_t)l.rank);
        memcpy(l.strides, views[i].strides, sizeof(int64_t) * (size_t)l.rank);
        MLSI_TRY(mlsi_layout_bounds(&l, &low, &high));
        l.offset = -low;
        operands[i].low = low / info->block_elems * info->block_bytes;
        operands[i].tensor->layout = l;
        operands[i].tensor->storage->bytes =
            (uint64_t)((high - low) / info->block_elems) * (uint64_t)info->block_bytes;
    }
    return MLSYS_OK;
}

static mlsys_status call(const mlsi_custom_use *use, mlsi_stream *s, int n_in, int n_out,
                         const mlsys_tensor *handles) {
    const mlsys_opdef *def = &use->op->def;
    mlsys_config attrs = NULL;
    if (use->attrs) attrs = (mlsys_config)(uintptr_t)use->attrs->object.handle;
    mlsys_status st = def->run(def->user, (mlsys_stream)(uintptr_t)s->object.handle, n_in, handles,
                               attrs, n_out, handles + n_in);
    if (st == MLSYS_OK) return MLSYS_OK;
    if (mlsys_last_status() != st) /* the recorded sentence is older than this failure */
        return mlsi_fail(MLSYS_E_CALLBACK, "custom op %s: run returned %s", use->op->name,
                         mlsys_status_name(st));
    return mlsi_fail_in(MLSYS_E_CALLBACK, "custom op %s: run returned %s", use->op->name,
                        mlsys_status_name(st));
}

mlsys_status mlsi_custom_call(const mlsi_custom_use *use, mlsi_stream *s, const mlsi_kernel_args *a,
                              mlsi_custom_operand *operands) {
    mlsys_tensor handles[2 * MLSI_MAX_OPERANDS];
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        const mlsi_view *v = i < a->n_in ? &a->in[i] : &a->out[i - a->n_in];
        handles[i] = operands[i].handle;
        if (operands[i].tensor)
            operands[i].tensor->storage->base = (char *)v->data + operands[i].low;
    }
    return call(use, s, a->n_in, a->n_out, handles);
}

mlsys_status mlsi_custom_run(void *stream, const mlsi_custom_use *use, int n_in,
                             const mlsi_view *in, int n_out, const mlsi_view *out) {
    mlsi_stream *s = stream;
    mlsi_custom_operand operands[2 * MLSI_MAX_OPERANDS];
    mlsi_view views[2 * MLSI_MAX_OPERANDS];
    mlsi_kernel_args a = {.n_in = n_in, .n_out = n_out, .in = in, .out = out};
    mlsys_status st = MLSYS_OK;
    memset(operands, 0, sizeof operands);
    memset(views, 0, sizeof views);
    for (int i = 0; i < n_in + n_out && st == MLSYS_OK; i++) {
        views[i] = i < n_in ? in[i] : out[i - n_in];
        if (views[i].dtype) st = operand_create(s->device, i < n_in, &operands[i]);
    }
    if (st == MLSYS_OK) st = mlsi_custom_operands_bind(operands, n_in + n_out, views);
    if (st == MLSYS_OK) st = mlsi_custom_call(use, s, &a, operands);
    mlsi_custom_operands_free(operands, n_in + n_out);
    return st;
}
