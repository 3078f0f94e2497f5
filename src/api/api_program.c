#include "api/api.h"
#include "autodiff/check.h"
#include "run/program.h"

#include <string.h>

mlsys_status mlsys_graph_compile(mlsys_graph graph, mlsys_device device, mlsys_config config,
                                 mlsys_program *out) {
    API_COMPUTES;
    mlsi_graph *g;
    mlsi_device *d = NULL;
    mlsi_config *c = NULL;
    mlsi_compile_options o;
    API_OUT_HANDLE(out, "graph_compile: out");
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_compile: g", &g));
    mlsys_status st = mlsi_pin(device, MLSYS_KIND_DEVICE, "graph_compile: device", &d);
    if (st == MLSYS_OK) st = mlsi_api_same_ctx(&g->object, &d->object, "graph_compile: device");
    if (st == MLSYS_OK && config)
        st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "graph_compile: config", &c);
    if (st == MLSYS_OK) st = mlsi_compile_options_read(g->ctx, c, &o);
    if (st == MLSYS_OK) st = mlsi_program_create(g, d, &o, out);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(d);
    mlsi_unpin_exclusive(g);
    return st;
}

static mlsys_status check_run(const char *what, int32_t n_in, const void *in, int32_t n_out,
                              const void *inout) {
    if (n_in < 0 || n_out < 0 || n_in > MLSI_MAX_ARGS || n_out > MLSI_MAX_ARGS)
        return mlsi_fail(MLSYS_E_ARG, "%s: n_in %d or n_out %d outside [0,%d]", what, n_in, n_out,
                         MLSI_MAX_ARGS);
    if ((n_in && !in) || (n_out && !inout))
        return mlsi_fail(MLSYS_E_ARG, "%s: in or inout is NULL", what);
    return MLSYS_OK;
}

mlsys_status mlsys_program_run(mlsys_program program, mlsys_stream stream, int32_t n_in,
                               const mlsys_tensor *in, int32_t n_out, mlsys_tensor *inout) {
    API_COMPUTES;
    mlsi_program *p;
    mlsi_stream *s;
    mlsi_tensor *tensors[MLSI_MAX_ARGS];
    MLSI_TRY(check_run("program_run", n_in, in, n_out, inout));
    MLSI_TRY(mlsi_pin(program, MLSYS_KIND_PROGRAM, "program_run: p", &p));
    mlsys_status st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "program_run: stream", &s);
    if (st == MLSYS_OK) {
        st = mlsi_api_same_ctx(&p->object, &s->object, "program_run: stream");
        if (st == MLSYS_OK)
            st = mlsi_api_pin_tensors(p->object.ctx, "program_run: in", n_in, in, false, tensors);
        if (st == MLSYS_OK) {
            st = mlsi_program_exec(p, s, n_in, tensors, n_out, inout);
            mlsi_api_unpin_tensors(n_in, tensors);
        }
        mlsi_unpin_exclusive(s);
    }
    mlsi_unpin(p);
    return st;
}

mlsys_status mlsys_graph_interpret(mlsys_graph graph, mlsys_stream stream, int32_t n_in,
                                   const mlsys_tensor *in, int32_t n_out, mlsys_tensor *inout) {
    API_COMPUTES;
    mlsi_graph *g;
    mlsi_stream *s = NULL;
    mlsi_tensor *tensors[MLSI_MAX_ARGS];
    MLSI_TRY(check_run("graph_interpret", n_in, in, n_out, inout));
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_interpret: g", &g));
    mlsys_status st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "graph_interpret: stream", &s);
    if (st == MLSYS_OK) st = mlsi_api_same_ctx(&g->object, &s->object, "graph_interpret: stream");
    if (st == MLSYS_OK)
        st = mlsi_api_pin_tensors(g->object.ctx, "graph_interpret: in", n_in, in, false, tensors);
    if (st == MLSYS_OK) {
        st = mlsi_interpret_tensors(g, s, n_in, tensors, n_out, inout);
        mlsi_api_unpin_tensors(n_in, tensors);
    }
    mlsi_unpin_exclusive(s);
    mlsi_unpin_exclusive(g);
    return st;
}

static const mlsi_config_key check_keys[] = {
    {"tolerance", 'f', "1e-6", 0, 1, "largest relative error (absolute below 1)"},
    {"probes", 'i', "32", 1, 1e9, "elements tried per input, at random when it has more"},
    {"seed", 'i', "0", 0, 9e15, "of the outputs' weights and of the choice"}};

const mlsi_config_key *mlsi_check_gradient_config_keys(int *n) {
    *n = (int)(sizeof check_keys / sizeof check_keys[0]);
    return check_keys;
}

/* The check has no stream of the caller's; custom ops get one of their own. */
static mlsys_status compare_with_customs(mlsi_graph *g, int32_t n_in, const mlsi_view *views,
                                         mlsi_gradient_check *check) {
    mlsys_device handle = NULL;
    mlsi_device *device = NULL;
    mlsys_stream stream = NULL;
    mlsi_stream *s = NULL;
    mlsys_status st = mlsi_device_get(g->ctx, MLSYS_CPU, 0, &handle);
    if (st == MLSYS_OK) st = mlsi_pin(handle, MLSYS_KIND_DEVICE, "check_gradient", &device);
    if (st == MLSYS_OK) st = mlsi_stream_create(device, NULL, &stream);
    if (st == MLSYS_OK) st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "check_gradient", &s);
    if (st == MLSYS_OK) {
        const mlsi_interpret_custom custom = {mlsi_custom_run, s};
        check->custom = &custom;
        st = mlsi_gradient_compare(g, n_in, views, check);
        check->custom = NULL;
    }
    mlsi_unpin_exclusive(s);
    mlsys_release(stream);
    mlsi_unpin(device);
    mlsys_release(handle);
    return st;
}

static mlsys_status check_gradient(mlsi_graph *g, const mlsi_config *c, int32_t n_in,
                                   const mlsys_tensor *in, mlsi_gradient_check *check) {
    mlsi_tensor *tensors[MLSI_MAX_ARGS];
    mlsi_view views[MLSI_MAX_ARGS];
    int n;
    const mlsi_config_key *keys = mlsi_check_gradient_config_keys(&n);
    MLSI_TRY(mlsi_config_check(c, "check_gradient", keys, n));
    check->tolerance = mlsi_config_f64(c, "tolerance", 1e-6);
    check->probes = mlsi_config_i64(c, "probes", 32);
    check->seed = (uint64_t)mlsi_config_i64(c, "seed", 0);
    MLSI_TRY(
        mlsi_api_pin_tensors(g->object.ctx, "graph_check_gradient: in", n_in, in, false, tensors));
    for (int32_t i = 0; i < n_in; i++)
        views[i] = mlsi_tensor_view_of(tensors[i]);
    mlsys_status st = g->n_customs ? compare_with_customs(g, n_in, views, check)
                                   : mlsi_gradient_compare(g, n_in, views, check);
    mlsi_api_unpin_tensors(n_in, tensors);
    return st;
}

mlsys_status mlsys_graph_check_gradient(mlsys_graph graph, int32_t n_in, const mlsys_tensor *in,
                                        mlsys_config config, mlsys_gradient_report *out) {
    API_COMPUTES;
    mlsi_graph *g;
    mlsi_config *c = NULL;
    mlsi_gradient_check check = {.input = -1};
    if (n_in < 0 || n_in > MLSI_MAX_ARGS || (n_in && !in))
        return mlsi_fail(MLSYS_E_ARG, "graph_check_gradient: n_in %d, at most %d, and in", n_in,
                         MLSI_MAX_ARGS);
    if (out && out->size < sizeof(uint64_t))
        return mlsi_fail(MLSYS_E_ARG, "graph_check_gradient: out->size is %llu",
                         (unsigned long long)out->size);
    MLSI_TRY(mlsi_pin_exclusive(graph, MLSYS_KIND_GRAPH, "graph_check_gradient: g", &g));
    mlsys_status st = MLSYS_OK;
    if (config)
        st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "graph_check_gradient: config", &c);
    if (st == MLSYS_OK) st = check_gradient(g, c, n_in, in, &check);
    mlsi_unpin_exclusive(c);
    mlsi_unpin_exclusive(g);
    if (out) {
        mlsys_gradient_report r = {out->size,     check.checked,  check.kinks,
                                   check.worst,   check.input,    0,
                                   check.element, check.gradient, check.difference};
        memcpy(out, &r, out->size < sizeof r ? (size_t)out->size : sizeof r);
    }
    return st;
}

mlsys_status mlsi_api_check_names(const char *what, int32_t n, const char *const *names,
                                  const int64_t *values) {
    if (n < 0) return mlsi_fail(MLSYS_E_ARG, "%s: n is %d", what, n);
    if (n && (!names || !values))
        return mlsi_fail(MLSYS_E_ARG, "%s: names or values is NULL", what);
    for (int32_t i = 0; i < n; i++)
        if (!names[i]) return mlsi_fail(MLSYS_E_ARG, "%s: names[%d] is NULL", what, i);
    return MLSYS_OK;
}

mlsys_status mlsys_program_reserve(mlsys_program program, mlsys_stream stream, int32_t n,
                                   const char *const *names, const int64_t *values) {
    mlsi_program *p;
    mlsi_stream *s;
    mlsi_bound *b;
    MLSI_TRY(mlsi_api_check_names("program_reserve", n, names, values));
    MLSI_TRY(mlsi_pin(program, MLSYS_KIND_PROGRAM, "program_reserve: p", &p));
    mlsys_status st = mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "program_reserve: stream", &s);
    if (st == MLSYS_OK) {
        st = mlsi_api_same_ctx(&p->object, &s->object, "program_reserve: stream");
        if (st == MLSYS_OK) st = mlsi_bound_get(p, s, &b);
        if (st == MLSYS_OK) st = mlsi_bound_names(b, n, names, values);
        if (st == MLSYS_OK) st = mlsi_bound_bind(b);
        if (st == MLSYS_OK) st = mlsi_stream_reserve(s, b->routines[0].arena_bytes);
        mlsi_unpin_exclusive(s);
    }
    mlsi_unpin(p);
    return st;
}

static void add_costs(const mlsi_program *p, const mlsi_bound *b, mlsys_cost *c) {
    const mlsi_routine *r = &p->routines[0];
    const mlsi_bound_routine *br = &b->routines[0];
    for (int64_t i = 0; i < r->n_steps; i++) {
        mlsi_op_cost step;
        mlsi_step_cost(p, b, 0, i, &step);
        c->flops += step.flops;
        c->transcendentals += step.transcendentals;
        c->bytes_read += step.bytes_read;
        c->bytes_written += step.bytes_written;
    }
    c->kernels = (uint64_t)r->n_steps;
    c->peak_bytes = br->arena_bytes;
    for (int64_t s = 0; s < r->n_slots; s++)
        if (r->slots[s].kind == MLSI_SLOT_OUTPUT && r->slots[s].value >= 0)
            c->peak_bytes += br->slot_bytes[s];
    c->constant_bytes = p->packed_bytes;
    for (int64_t i = 0; i < p->n_const_ranges; i++) /* views of one storage count once */
        c->constant_bytes += p->const_ranges[i].high - p->const_ranges[i].low;
}

mlsys_status mlsys_program_cost(mlsys_program program, int32_t n, const char *const *names,
                                const int64_t *values, mlsys_cost *out) {
    mlsi_program *p;
    mlsi_bound *b;
    mlsys_cost c;
    API_NOT_NULL(out, "program_cost: out");
    if (out->size < sizeof(uint64_t))
        return mlsi_fail(MLSYS_E_ARG, "program_cost: out->size is %llu",
                         (unsigned long long)out->size);
    MLSI_TRY(mlsi_api_check_names("program_cost", n, names, values));
    MLSI_TRY(mlsi_pin(program, MLSYS_KIND_PROGRAM, "program_cost: p", &p));
    memset(&c, 0, sizeof c);
    mlsys_status st = mlsi_bound_create(p, &b);
    if (st == MLSYS_OK) {
        st = mlsi_bound_names(b, n, names, values);
        if (st == MLSYS_OK) st = mlsi_bound_bind(b);
        if (st == MLSYS_OK) add_costs(p, b, &c);
        mlsi_bound_free(p->graph.alloc, b);
    }
    if (st == MLSYS_OK) {
        c.size = out->size;
        memcpy(out, &c, out->size < sizeof c ? (size_t)out->size : sizeof c);
    }
    mlsi_unpin(p);
    return st;
}

mlsys_status mlsys_program_dump(mlsys_program program, int32_t what, char *buf, uint64_t cap,
                                uint64_t *need) {
    API_COMPUTES;
    mlsi_program *p;
    mlsi_text text;
    API_TEXT(buf, cap, "program_dump");
    MLSI_TRY(mlsi_pin(program, MLSYS_KIND_PROGRAM, "program_dump: p", &p));
    mlsi_text_init(&text, p->graph.alloc);
    mlsys_status st = mlsi_program_dump_text(p, what, &text);
    if (st == MLSYS_OK)
        st = mlsi_text_out(&text, buf, cap, need);
    else
        mlsi_text_free(&text);
    mlsi_unpin(p);
    return st;
}

mlsys_status mlsys_program_export(mlsys_program program, const char *path, int32_t n,
                                  const char *const *names, const int64_t *values,
                                  mlsys_config config) {
    API_COMPUTES;
    mlsi_program *p;
    mlsi_config *c = NULL;
    API_NOT_NULL(path, "program_export: path");
    MLSI_TRY(mlsi_api_check_names("program_export", n, names, values));
    MLSI_TRY(mlsi_pin(program, MLSYS_KIND_PROGRAM, "program_export: p", &p));
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "program_export: config", &c);
    if (st == MLSYS_OK) st = mlsi_program_export(p, path, n, names, values, c);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(p);
    return st;
}
