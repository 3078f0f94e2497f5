/* Views: one block of memory seen in many ways, without copying. A view is a shape, strides and an
 * offset, all in elements. This program slices, reverses, transposes and broadcasts, and shows when
 * reshape has to copy. */
#include "example.h"

enum { MAX = 64 };

static int show(const char *what, mlsys_tensor t, mlsys_stream stream) {
    int64_t shape[MLSYS_MAX_DIMS], strides[MLSYS_MAX_DIMS], offset, count = 1;
    int32_t ndim;
    float values[MAX];
    if (mlsys_tensor_shape(t, MLSYS_MAX_DIMS, shape, &ndim) ||
        mlsys_tensor_strides(t, MLSYS_MAX_DIMS, strides, &offset))
        return 1;
    printf("%-22s shape [", what);
    for (int i = 0; i < ndim; i++)
        printf("%s%lld", i ? "," : "", (long long)shape[i]), count *= shape[i];
    printf("] strides [");
    for (int i = 0; i < ndim; i++)
        printf("%s%lld", i ? "," : "", (long long)strides[i]);
    printf("] offset %lld:", (long long)offset);
    if (count > MAX || mlsys_tensor_read(t, stream, values, (uint64_t)count * sizeof *values))
        return 1;
    for (int64_t i = 0; i < count; i++)
        printf(" %g", values[i]);
    printf("\n");
    return 0;
}

int main(void) {
    int rc = 1;
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_stream stream = NULL;
    mlsys_tensor t = NULL, view[7] = {0};
    const int64_t shape[2] = {3, 4}, tall[3] = {2, 3, 4}, flat[1] = {12};
    const float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    int32_t copied = -1, overlaps = 0;
    uint64_t id, other;

    TRY(mlsys_ctx_create(NULL, NULL, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    TRY(mlsys_stream_create(cpu, NULL, &stream));
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 2, shape, &t));
    TRY(mlsys_tensor_write(t, stream, values, sizeof values));
    CLAIM(!show("3 x 4", t, stream));

    TRY(mlsys_tensor_slice(t, 1, 1, INT64_MAX, 2, &view[0]));
    CLAIM(!show("every second column", view[0], stream));
    TRY(mlsys_tensor_reverse(t, 0, &view[1]));
    CLAIM(!show("rows backwards", view[1], stream)); /* a negative stride */
    TRY(mlsys_tensor_transpose(t, 0, 1, &view[2]));
    CLAIM(!show("transposed", view[2], stream));
    TRY(mlsys_tensor_broadcast(t, 3, tall, &view[3]));
    CLAIM(!show("twice, by stride 0", view[3], stream));

    /* Rows in order are a view; columns in order are not, so that reshape copies. */
    TRY(mlsys_tensor_reshape(t, 1, flat, &view[4], &copied));
    CLAIM(copied == 0);
    TRY(mlsys_tensor_reshape(view[2], 1, flat, &view[5], &copied));
    CLAIM(copied == 1);
    CLAIM(!show("transposed, flat", view[5], stream));
    TRY(mlsys_tensor_storage_id(t, &id));
    TRY(mlsys_tensor_storage_id(view[4], &other));
    CLAIM(id == other);
    TRY(mlsys_tensor_storage_id(view[5], &other));
    CLAIM(id != other);

    /* Two indices of the broadcast view are one element: it can be read, never written. */
    TRY(mlsys_tensor_layout(view[3], NULL, &overlaps));
    CLAIM(overlaps == 1);
    CLAIM(mlsys_tensor_random(view[3], stream, "uniform", 1, 0) != MLSYS_OK);
    printf("refused: %s\n", mlsys_last_error());
    /* And no view reaches outside its storage. */
    CLAIM(mlsys_tensor_view(t, 2, shape, shape, 1, &view[6]) == MLSYS_E_SHAPE);
    printf("refused: %s\n", mlsys_last_error());
    rc = 0;
done:
    for (int i = 0; i < 7; i++)
        mlsys_release(view[i]);
    mlsys_release(t);
    mlsys_release(stream);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc;
}
