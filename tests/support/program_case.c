#include "support/program_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pc_open(program_case *p, int threads) { pc_open_hooks(p, threads, NULL); }

void pc_open_hooks(program_case *p, int threads, const mlsys_hooks *hooks) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "threads", threads));
    OK(mlsys_ctx_create(c, hooks, &p->ctx_handle));
    OK(mlsys_release(c));
    OK(mlsi_pin(p->ctx_handle, MLSYS_KIND_CTX, "ctx", &p->ctx));
    OK(mlsys_device_get(p->ctx_handle, MLSYS_CPU, 0, &p->device_handle));
    OK(mlsi_pin(p->device_handle, MLSYS_KIND_DEVICE, "device", &p->device));
    OK(mlsys_stream_create(p->device_handle, NULL, &p->stream));
}

void pc_close(program_case *p) {
    mlsys_stats stats = {.size = sizeof stats};
    OK(mlsys_release(p->stream));
    mlsi_unpin(p->device);
    OK(mlsys_release(p->device_handle));
    OK(mlsys_ctx_stats(p->ctx_handle, &stats));
    ck_assert_uint_eq(stats.live_handles, 0);
    mlsi_unpin(p->ctx);
    OK(mlsys_release(p->ctx_handle));
}

mlsys_graph pc_parse(const program_case *p, const char *text) {
    size_t n = strlen(text) + 32;
    char *whole = malloc(n);
    mlsys_graph g;
    ck_assert_ptr_nonnull(whole);
    snprintf(whole, n, "mlsys-ir 1\n%s", text);
    if (mlsys_graph_parse(p->ctx_handle, whole, &g) != MLSYS_OK)
        ck_abort_msg("%s\n%s", mlsys_last_error(), whole);
    free(whole);
    return g;
}

static mlsys_config config_of(const char *settings) {
    mlsys_config c;
    char text[256], *save = NULL;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "verify", 1));
    OK(mlsys_config_set_str(c, "jit", "always")); /* unless the settings say otherwise */
    snprintf(text, sizeof text, "%s", settings);
    for (char *s = strtok_r(text, " ", &save); s; s = strtok_r(NULL, " ", &save)) {
        char *value = strchr(s, '=');
        *value++ = 0;
        if (!strcmp(s, "plan"))
            OK(mlsys_config_set_i64(c, s, atoi(value)));
        else
            OK(mlsys_config_set_str(c, s, value));
    }
    return c;
}

mlsys_program pc_compile(const program_case *p, mlsys_graph g, const char *settings) {
    mlsys_config c = config_of(settings);
    mlsys_program program;
    OK(mlsys_graph_compile(g, p->device_handle, c, &program));
    OK(mlsys_release(c));
    return program;
}

mlsys_program pc_compile_inside(const program_case *p, const mlsi_graph *g, const char *settings) {
    mlsys_config handle = config_of(settings);
    mlsi_compile_options o;
    mlsys_program program;
    mlsi_config *c;
    OK(mlsi_pin(handle, MLSYS_KIND_CONFIG, "config", &c));
    OK(mlsi_compile_options_read(p->ctx, c, &o));
    OK(mlsi_program_create(g, p->device, &o, &program));
    mlsi_unpin(c);
    OK(mlsys_release(handle));
    return program;
}

enum { MOST = 16 };

void pc_compare(const program_case *p, mlsys_graph g, const char *settings, int n_in,
                const mlsys_tensor *in, int n_out) {
    mlsys_tensor got[MOST] = {0}, want[MOST] = {0};
    mlsys_program program = pc_compile(p, g, settings);
    OK(mlsys_graph_interpret(g, p->stream, n_in, in, n_out, want));
    OK(mlsys_program_run(program, p->stream, n_in, in, n_out, got));
    for (int o = 0; o < n_out; o++) {
        int64_t at = rg_difference(got[o], want[o]);
        if (at >= 0)
            ck_abort_msg("%s: output %d differs at element %lld", settings, o, (long long)at);
    }
    pc_release(n_out, got);
    pc_release(n_out, want);
    OK(mlsys_release(program));
}

void pc_interpret_inside(const program_case *p, const mlsi_graph *g, int n_in,
                         const mlsys_tensor *in, int n_out, mlsys_tensor *out) {
    mlsi_tensor *tensors[MOST];
    mlsi_stream *s;
    OK(mlsi_pin(p->stream, MLSYS_KIND_STREAM, "test", &s));
    for (int i = 0; i < n_in; i++)
        OK(mlsi_pin(in[i], MLSYS_KIND_TENSOR, "test", &tensors[i]));
    OK(mlsi_interpret_tensors(g, s, n_in, tensors, n_out, out));
    for (int i = 0; i < n_in; i++)
        mlsi_unpin(tensors[i]);
    mlsi_unpin(s);
}

mlsys_tensor pc_tensor(const program_case *p, mlsys_dtype dtype, int rank, const int64_t *shape,
                       const void *data) {
    mlsys_tensor t;
    void *to;
    uint64_t bytes;
    OK(mlsys_tensor_create(p->device_handle, dtype, rank, shape, &t));
    OK(mlsys_tensor_data(t, &to, &bytes));
    if (data)
        memcpy(to, data, bytes);
    else
        memset(to, 0xa5, bytes);
    return t;
}

mlsys_tensor pc_f32(const program_case *p, int64_t n, const float *data) {
    return pc_tensor(p, MLSYS_F32, 1, &n, data);
}

mlsys_tensor pc_random(const program_case *p, kc_rng *r, mlsys_dtype dtype, int rank,
                       const int64_t *shape) {
    mlsys_tensor t = pc_tensor(p, dtype, rank, shape, NULL);
    mlsi_view v = rg_view(t);
    rg_fill(r, &v);
    return t;
}

void pc_release(int n, mlsys_tensor *t) {
    for (int i = 0; i < n; i++) {
        OK(mlsys_release(t[i]));
        t[i] = NULL;
    }
}

uint64_t pc_allocations(const program_case *p) {
    mlsys_stats stats = {.size = sizeof stats};
    OK(mlsys_ctx_stats(p->ctx_handle, &stats));
    return stats.allocations;
}

void pc_expect(mlsys_status got, mlsys_status want, const char *text) {
    if (got != want || (want && !strstr(mlsys_last_error(), text)))
        ck_abort_msg("%s \"%s\", expected %s \"%s\"", mlsys_status_name(got),
                     got ? mlsys_last_error() : "", mlsys_status_name(want), text);
}
