#include "support/abi_fixture.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Atomic int64_t live_blocks;

static void *counting_alloc(void *user, mlsys_devtype type, int32_t index, uint64_t bytes,
                            uint64_t align) {
    (void)user, (void)type, (void)index;
    void *p = NULL;
    if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes ? bytes : 1))
        return NULL;
    atomic_fetch_add(&live_blocks, 1);
    return p;
}

static void counting_dealloc(void *user, mlsys_devtype type, int32_t index, void *p,
                             uint64_t bytes) {
    (void)user, (void)type, (void)index, (void)bytes;
    atomic_fetch_sub(&live_blocks, 1);
    free(p);
}

static void ok(mlsys_status st) {
    ck_assert_msg(st == MLSYS_OK, "fixture: %s", mlsys_last_error());
}

static mlsys_status infer(void *user, int32_t n_in, const mlsys_dtype *dtypes, const int32_t *ndims,
                          const int64_t *in_shapes, mlsys_config attrs, int32_t n_out,
                          mlsys_dtype *out_dtypes, int32_t *out_ndims, int64_t *out_shapes) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    out_dtypes[0] = dtypes[0];
    out_ndims[0] = ndims[0];
    memcpy(out_shapes, in_shapes, MLSYS_MAX_DIMS * sizeof *in_shapes);
    return MLSYS_OK;
}

static mlsys_status run(void *user, mlsys_stream stream, int32_t n_in, const mlsys_tensor *in,
                        mlsys_config attrs, int32_t n_out, const mlsys_tensor *out) {
    (void)user, (void)n_in, (void)attrs, (void)n_out;
    return mlsys_tensor_copy(out[0], in[0], stream);
}

static void make_values(fixture *f) {
    f->shape[0] = 2, f->shape[1] = 3;
    f->strides[0] = 3, f->strides[1] = 1;
    f->perm[0] = 1, f->perm[1] = 0;
    f->ints[0] = 2, f->ints[1] = 3;
    for (int i = 0; i < 16; i++)
        f->ids[i] = 5 + i;
    for (int i = 0; i < 64; i++)
        f->data[i] = (float)i;
    ok(mlsys_opdef_init(&f->opdef, sizeof f->opdef));
    f->opdef.name = "abi_copy";
    f->opdef.n_in = f->opdef.n_out = 1;
    f->opdef.infer = infer;
    f->opdef.run = run;
    f->stats.size = sizeof f->stats;
    f->cost.size = sizeof f->cost;
    ok(mlsys_hooks_init(&f->hooks, sizeof f->hooks));
    f->hooks.alloc = counting_alloc;
    f->hooks.dealloc = counting_dealloc;
}

static void make_graph(fixture *f, mlsys_graph *graph, mlsys_value *input) {
    mlsys_value y;
    ok(mlsys_graph_create(f->ctx, graph));
    ok(mlsys_graph_input(*graph, "x", MLSYS_F32, 2, f->shape, input));
    ok(mlsys_graph_op(*graph, "neg", 1, input, NULL, 1, &y));
    ok(mlsys_graph_output(*graph, "y", y));
}

static void make_tensors(fixture *f) {
    const int64_t transposed[2] = {3, 2};
    ok(mlsys_tensor_create(f->device, MLSYS_F32, 2, f->shape, &f->tensor));
    ok(mlsys_tensor_create(f->device, MLSYS_F32, 2, f->shape, &f->other));
    ok(mlsys_tensor_create(f->device, MLSYS_F32, 2, transposed, &f->b));
    ok(mlsys_tensor_write(f->tensor, f->stream, f->data, 24));
    ok(mlsys_tensor_write(f->other, f->stream, f->data, 24));
    ok(mlsys_tensor_write(f->b, f->stream, f->data, 24));
    ok(mlsys_tensor_to_dlpack(f->other, f->stream, 0, &f->managed));
    f->in[0] = f->tensor;
}

static void make_training(fixture *f) {
    ok(mlsys_dataset_wrap(f->ctx, 1, f->in, NULL, &f->dataset));
    ok(mlsys_config_create(&f->token_windows));
    ok(mlsys_config_set_str(f->token_windows, "format", "tokens"));
    ok(mlsys_config_set_i64(f->token_windows, "length", 4));
    ok(mlsys_stream_create(f->device, NULL, &f->taped));
    ok(mlsys_tape_create(f->taped, &f->tape));
    f->x[0] = f->b;
    ok(mlsys_op_run(f->taped, "neg", 1, f->x, NULL, 1, f->y));
}

static void make_trainer(fixture *f) {
    mlsys_value in[2], product;
    ok(mlsys_graph_create(f->ctx, &f->trained));
    ok(mlsys_graph_input(f->trained, "x", MLSYS_F32, 2, f->shape, &in[0]));
    ok(mlsys_graph_input(f->trained, "w", MLSYS_F32, 2, f->shape, &in[1]));
    ok(mlsys_graph_op(f->trained, "mul", 2, in, NULL, 1, &product));
    ok(mlsys_graph_op(f->trained, "reduce_sum", 1, &product, NULL, 1, &f->loss));
    f->params[0] = in[1];
    ok(mlsys_trainer_create(f->trained, f->loss, 1, f->params, f->in, f->stream, NULL,
                            &f->trainer));
    if (mlsys_has_feature("jansson")) ok(mlsys_trainer_save(f->trainer, f->saved));
    f->names[0] = "output_norm.weight";
    ok(mlsys_model_tensor(f->model, f->names[0], f->norm));
}

void fixture_create(fixture *f, char *path, char *saved) {
    mlsys_config threads;
    mlsys_value callee_input;
    memset(f, 0, sizeof *f);
    ck_assert_int_eq(atomic_load(&live_blocks), 0);
    make_values(f);
    f->path = path;
    f->saved = saved;
    ok(mlsys_config_create(&f->config));
    ok(mlsys_config_create(&threads));
    ok(mlsys_config_set_i64(threads, "threads", 1));
    ok(mlsys_ctx_create(threads, &f->hooks, &f->ctx));
    mlsys_release(threads);
    ok(mlsys_device_get(f->ctx, MLSYS_CPU, 0, &f->device));
    ok(mlsys_stream_create(f->device, NULL, &f->stream));
    make_tensors(f);
    make_graph(f, &f->graph, &f->input);
    make_graph(f, &f->callee, &callee_input);
    f->values[0] = f->input;
    ok(mlsys_graph_print(f->graph, f->printed, sizeof f->printed, NULL));
    ok(mlsys_graph_compile(f->graph, f->device, NULL, &f->program));
    ok(mlsys_model_open(f->ctx, path, NULL, &f->model));
    ok(mlsys_model_tokenizer(f->model, &f->tokenizer));
    ok(mlsys_generator_create(f->model, f->stream, NULL, &f->generator));
    ok(mlsys_generator_append(f->generator, "the"));
    make_training(f);
    make_trainer(f);
}

void fixture_destroy(fixture *f) {
    void *const handles[] = {
        f->norm[0], f->trainer,   f->trained,   f->y[0],   f->tape,    f->taped,  f->token_windows,
        f->dataset, f->generator, f->tokenizer, f->model,  f->program, f->callee, f->graph,
        f->b,       f->other,     f->tensor,    f->stream, f->device,  f->ctx,    f->config};
    if (f->managed) mlsys_dlpack_free(f->managed);
    if (f->managed_out) mlsys_dlpack_free(f->managed_out);
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++)
        mlsys_release(handles[i]);
    ck_assert_msg(atomic_load(&live_blocks) == 0, "%lld blocks were leaked",
                  (long long)atomic_load(&live_blocks));
}
