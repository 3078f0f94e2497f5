/* Programs on a device with memory of its own: kernels, constants, launches, and steps that only the host can run. */
#include "core/faults.h"
#include "run/program.h"

#include <stdio.h>
#include <string.h>

/* ---- code and constants ------------------------------------------------------------------------ */

mlsys_status mlsi_accel_load(mlsi_program *p, const char *text) {
    const mlsi_accelerator *acc = p->backend->accel;
    char name[32];
    mlsys_status st = acc->load(p->device->opened, p->graph.alloc, text, &p->accel_module);
    if (st == MLSYS_E_NOMEM || st == MLSYS_E_DEVICE) return st;
    if (st != MLSYS_OK) {
        mlsi_log(p->graph.ctx, MLSYS_LOG_WARN, "compile",
                 "no generated kernels, steps run on the host: %s", mlsys_last_error());
        return MLSYS_OK;
    }
    for (int32_t f = 0; f < p->graph.n_funcs; f++) {
        mlsi_generated *k = &p->generated[f];
        if (!k->made || !k->text.len) continue;
        snprintf(name, sizeof name, "mlsi_k%d", (int)f);
        k->launches = acc->kernel(p->accel_module, name);
        for (int part = 0; part < k->gpu.n_parts && k->launches; part++) {
            snprintf(name, sizeof name, "mlsi_k%d_p%d", (int)f, part);
            k->parts[part] = acc->kernel(p->accel_module, name);
            if (!k->parts[part]) k->launches = NULL;
        }
    }
    return MLSYS_OK;
}

static bool is_kernel(const mlsi_program *p, int64_t func) {
    return p->generated && p->generated[func].launches;
}

/* Where constant c's span begins, and its bytes. */
static uint64_t span_of(const mlsi_program *p, int64_t c, uintptr_t *low) {
    mlsi_view v = mlsi_tensor_view_of(p->graph.consts[c]);
    uintptr_t high;
    mlsi_view_range(&v, low, &high);
    return high - *low;
}

/* Room for so many bytes more, and where it begins. */
static mlsys_status take_room(mlsi_program *p, uint64_t bytes, uint64_t *offset) {
    *offset = p->const_bytes;
    if (mlsi_add_u64(bytes, MLSI_ACCEL_ALIGN - 1, &bytes) &&
        mlsi_add_u64(p->const_bytes, bytes - bytes % MLSI_ACCEL_ALIGN, &p->const_bytes))
        return MLSYS_OK;
    return mlsi_fail(MLSYS_E_SHAPE, "compile: constants exceed 2^64 bytes");
}

/* A constant that steps of routine f read as it is: not one that a kernel gets packed. */
static mlsys_status place_constants_of(mlsi_program *p, int64_t f) {
    const mlsi_routine *r = &p->routines[f];
    uintptr_t low;
    for (int64_t i = 0; i < r->n_steps; i++) {
        const mlsi_step *s = &r->steps[i];
        const mlsi_node *node = &p->graph.funcs[r->func].nodes[s->node];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] < 0 || (s->pack >= 0 && k == s->kernel->pack_input)) continue;
            const mlsi_slot *slot = &r->slots[r->slot_of[node->in[k]]];
            if (slot->kind != MLSI_SLOT_CONST || p->const_offset[slot->index] != UINT64_MAX)
                continue;
            MLSI_TRY(take_room(p, span_of(p, slot->index, &low), &p->const_offset[slot->index]));
        }
    }
    return MLSYS_OK;
}

static mlsys_status place_constants(mlsi_program *p) {
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, p->graph.n_consts + 1, &p->const_offset));
    for (int64_t c = 0; c < p->graph.n_consts; c++)
        p->const_offset[c] = UINT64_MAX;
    for (int64_t f = 0; f < p->n_routines; f++)
        if (!is_kernel(p, f)) MLSI_TRY(place_constants_of(p, f));
    for (int64_t i = 0; i < p->n_packs; i++)
        if (p->packs[i].on_device) MLSI_TRY(take_room(p, p->packs[i].bytes, &p->packs[i].offset));
    return MLSYS_OK;
}

static mlsys_status upload_pack(mlsi_program *p, const mlsi_pack *k) {
    mlsi_view view = mlsi_tensor_view_of(p->graph.consts[k->constant]);
    void *host;
    MLSI_TRY(mlsi_mem_alloc(p->graph.alloc, k->bytes, &host));
    k->kernel->pack(&view, k->attrs, host, p->graph.ctx->pool);
    mlsys_status st = mlsi_device_upload(p->device, p->const_memory + k->offset, host, k->bytes);
    mlsi_mem_free(p->graph.alloc, host);
    return st;
}

mlsys_status mlsi_accel_constants(mlsi_program *p) {
    MLSI_TRY(place_constants(p));
    if (!p->const_bytes) return MLSYS_OK;
    MLSI_TRY(mlsi_device_alloc(p->device, p->const_bytes, &p->const_memory));
    for (int64_t c = 0; c < p->graph.n_consts; c++) {
        uintptr_t low;
        if (p->const_offset[c] == UINT64_MAX) continue;
        uint64_t bytes = span_of(p, c, &low);
        MLSI_TRY(mlsi_device_upload(p->device, p->const_memory + p->const_offset[c],
                                    (const void *)low, bytes));
    }
    for (int64_t i = 0; i < p->n_packs; i++)
        if (p->packs[i].on_device) MLSI_TRY(upload_pack(p, &p->packs[i]));
    return MLSYS_OK;
}

char *mlsi_accel_constant(const mlsi_program *p, int32_t c) {
    uintptr_t low;
    if (p->const_offset[c] == UINT64_MAX) return NULL; /* a kernel's own */
    (void)span_of(p, c, &low);
    mlsi_view v = mlsi_tensor_view_of(p->graph.consts[c]);
    return p->const_memory + p->const_offset[c] + ((uintptr_t)v.data - low);
}

void mlsi_accel_free(mlsi_program *p) {
    if (p->const_memory) mlsi_device_free(p->device, p->const_memory);
    if (p->accel_module) p->backend->accel->unload(p->graph.alloc, p->accel_module);
    mlsi_mem_free(p->graph.alloc, p->const_offset);
}

/* ---- launches ------------------------------------------------------------------------------------ */

typedef struct launch_shape {
    int64_t tasks, parts[MLSI_GPU_PARTS];
    uint64_t parts_bytes;
    uint64_t work, workers; /* bytes of one, and how many the grid has */
    uint32_t blocks;
} launch_shape;

enum { BLOCKS_MOST = 1 << 30 };

/* As many workers as there are tasks; where they need memory, no more than run at once, in WORK_MOST of it. */
static mlsys_status shape_of(const mlsi_program *p, const mlsi_generated *k, const int64_t *binding,
                             launch_shape *s) {
    const uint64_t WORK_MOST = (uint64_t)1 << 28;
    const uint64_t per_block = k->gpu.block_is_worker ? 1 : (uint64_t)k->gpu.threads;
    MLSI_TRY(mlsi_dim_eval(&k->nest.tab, k->gpu.tasks, binding, &s->tasks));
    MLSI_TRY(mlsi_codegen_cuda_work(&k->nest, &k->gpu, binding, &s->work));
    MLSI_TRY(mlsi_codegen_cuda_parts(&k->nest, &k->gpu, binding, s->parts, &s->parts_bytes));
    uint64_t blocks = ((uint64_t)s->tasks + per_block - 1) / per_block;
    if (blocks > BLOCKS_MOST) blocks = BLOCKS_MOST;
    if (s->work) {
        uint64_t most =
            p->backend->accel->resident(k->launches, (uint32_t)k->gpu.threads, k->gpu.shared_bytes);
        if (most > WORK_MOST / s->work / per_block) most = WORK_MOST / s->work / per_block;
        if (blocks > most) blocks = most ? most : 1;
    }
    s->blocks = (uint32_t)blocks;
    s->workers = blocks * per_block;
    return MLSYS_OK;
}

mlsys_status mlsi_accel_work(const mlsi_program *p, const mlsi_generated *k, const int64_t *binding,
                             uint64_t *bytes) {
    launch_shape s;
    MLSI_TRY(shape_of(p, k, binding, &s));
    if (mlsi_mul_u64(s.work, s.workers, bytes) && mlsi_add_u64(*bytes, s.parts_bytes, bytes))
        return MLSYS_OK;
    return mlsi_fail(MLSYS_E_SHAPE, "program: %s needs more than 2^64 bytes of work memory",
                     k->nest.name);
}

mlsys_status mlsi_accel_launch(const mlsi_bound *b, const mlsi_generated *k,
                               const mlsi_kernel_args *a) {
    enum { OTHERS = 4 };
    const mlsi_program *p = b->program;
    void *params[2 * MLSI_MAX_OPERANDS + 256 + OTHERS];
    char *data[2 * MLSI_MAX_OPERANDS], *work = a->work;
    int64_t symbols = k->nest.n_shape_symbols;
    int n = 0;
    launch_shape s;
    MLSI_TRY(shape_of(p, k, b->binding, &s));
    if (s.tasks == 0) return MLSYS_OK;
    if (symbols > 256)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "run: %lld symbols, a kernel takes 256",
                         (long long)symbols);
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        data[i] = i < a->n_in ? a->in[i].data : a->out[i - a->n_in].data;
        params[n++] = &data[i];
    }
    for (int64_t i = 0; i < symbols; i++)
        params[n++] = &b->binding[i];
    int64_t *errors = mlsi_accel_error(b, k->error);
    int64_t work_bytes = (int64_t)s.work;
    int64_t tasks;
    params[n++] = &work;
    params[n++] = &work_bytes;
    params[n++] = &tasks;
    params[n++] = &errors;
    mlsi_launch launch = {.threads = (uint32_t)k->gpu.threads,
                          .shared_bytes = k->gpu.shared_bytes,
                          .params = params,
                          .what = k->nest.name};
    for (int part = 0; part <= k->gpu.n_parts; part++) {
        const bool last = part == k->gpu.n_parts;
        tasks = last ? s.tasks : s.parts[part];
        if (tasks == 0) continue; /* nothing to reduce */
        launch.kernel = last ? k->launches : k->parts[part];
        launch.blocks = last ? s.blocks : (uint32_t)(tasks < BLOCKS_MOST ? tasks : BLOCKS_MOST);
        MLSI_TRY(p->backend->accel->launch(a->queue, &launch));
    }
    return MLSYS_OK;
}

/* ---- what a run leaves behind ---------------------------------------------------------------------- */

enum { ERROR_WORDS = 4, ERROR_BYTES = ERROR_WORDS * sizeof(int64_t) };

void mlsi_accel_number_errors(mlsi_program *p) {
    for (int64_t f = 0; f < p->n_routines; f++) {
        mlsi_generated *k = p->generated ? &p->generated[f] : NULL;
        if (k) k->error = k->launches && mlsi_nest_binds(&k->nest) ? p->n_errors++ : -1;
        for (int64_t i = 0; i < p->routines[f].n_steps; i++) {
            mlsi_step *s = &p->routines[f].steps[i];
            bool fails = !is_kernel(p, f) && !s->on_host && s->kernel && s->kernel->failed;
            s->error = fails ? p->n_errors++ : -1;
        }
    }
}

int64_t *mlsi_accel_error(const mlsi_bound *b, int32_t error) {
    return (int64_t *)(void *)(b->errors + (error < 0 ? 0 : error * (int64_t)ERROR_BYTES));
}

mlsys_status mlsi_accel_bind(const mlsi_program *p, mlsi_bound *b) {
    uint64_t words = ((uint64_t)p->n_errors + 1) * ERROR_WORDS;
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, (int64_t)words, &b->error_words));
    MLSI_TRY(MLSI_NEW_N(p->graph.alloc, p->routines[0].n_slots + 1, &b->places));
    return mlsi_device_alloc(p->device, words * sizeof(int64_t), &b->errors);
}

mlsys_status mlsi_accel_begin(const mlsi_bound *b, mlsi_stream *s) {
    uint64_t bytes = (uint64_t)b->program->n_errors * ERROR_BYTES;
    return bytes && !mlsi_fault(MLSI_FAULT_ACCEL_ERRORS)
               ? s->device->accel->fill(s->queue, b->errors, 0, bytes)
               : MLSYS_OK;
}

/* The first kernel in the order of functions and steps that something failed. */
static mlsys_status find_failure(const mlsi_program *p, const int64_t *words) {
    for (int64_t f = 0; f < p->n_routines; f++) {
        const mlsi_generated *k = p->generated ? &p->generated[f] : NULL;
        const int64_t *e = k && k->error >= 0 ? words + k->error * ERROR_WORDS : NULL;
        if (e && e[0]) return mlsi_bind_failed(&k->nest, e[0], e + 1);
        for (int64_t i = 0; i < p->routines[f].n_steps; i++) {
            const mlsi_step *s = &p->routines[f].steps[i];
            e = s->error >= 0 ? words + s->error * ERROR_WORDS : NULL;
            if (e && e[0])
                return mlsi_fail_in(s->kernel->failed(e), "run: step %lld (%s)", (long long)i,
                                    mlsi_op_name(s->op));
        }
    }
    return MLSYS_OK;
}

mlsys_status mlsi_accel_end(const mlsi_bound *b, mlsi_stream *s) {
    const mlsi_program *p = b->program;
    uint64_t bytes = (uint64_t)p->n_errors * ERROR_BYTES;
    if (!bytes) return s->device->accel->sync(s->queue);
    MLSI_TRY(s->device->accel->download(s->queue, b->error_words, b->errors, bytes));
    return find_failure(p, b->error_words);
}

/* ---- steps of the host -------------------------------------------------------------------------------- */

/* Room for the span of each operand. */
static mlsys_status make_room(const mlsi_program *p, const mlsi_view *views, int n, char **room,
                              uintptr_t *low, uint64_t *bytes) {
    uint64_t total = 0;
    for (int i = 0; i < n; i++) {
        uintptr_t high;
        low[i] = 0, bytes[i] = 0;
        if (!views[i].dtype) continue;
        mlsi_view_range(&views[i], &low[i], &high);
        bytes[i] = high - low[i];
        if (!mlsi_add_u64(total, mlsi_plan_align(bytes[i]), &total))
            return mlsi_fail(MLSYS_E_SHAPE, "run: copies for the host exceed 2^64 bytes");
    }
    return mlsi_mem_alloc(p->graph.alloc, total, (void **)room);
}

mlsys_status mlsi_accel_on_host(const mlsi_program *p, const mlsi_kernel_args *a,
                                const mlsi_node *node,
                                mlsys_status (*run)(void *user, const mlsi_kernel_args *a),
                                void *user) {
    const mlsi_accelerator *acc = p->backend->accel;
    mlsi_view views[2 * MLSI_MAX_OPERANDS];
    uintptr_t low[2 * MLSI_MAX_OPERANDS];
    uint64_t bytes[2 * MLSI_MAX_OPERANDS];
    char *room, *at;
    int n = node->n_in + node->n_out;
    memcpy(views, a->in, sizeof *views * (size_t)node->n_in);
    memcpy(views + node->n_in, a->out, sizeof *views * (size_t)node->n_out);
    MLSI_TRY(make_room(p, views, n, &room, low, bytes));
    mlsys_status st = MLSYS_OK;
    at = room;
    for (int i = 0; i < n && st == MLSYS_OK; i++) {
        if (!views[i].dtype) continue;
        if (i < node->n_in && bytes[i])
            st = acc->download(a->queue, at, (const char *)low[i], bytes[i]);
        views[i].data = at + ((uintptr_t)views[i].data - low[i]);
        at += mlsi_plan_align(bytes[i]);
    }
    mlsi_kernel_args host = *a;
    host.in = views;
    host.out = views + node->n_in;
    host.queue = NULL;
    void *work = NULL;
    if (st == MLSYS_OK && a->work_bytes) st = mlsi_mem_alloc(p->graph.alloc, a->work_bytes, &work);
    host.work = work;
    if (st == MLSYS_OK) st = run(user, &host);
    at = room;
    for (int i = 0; i < n && st == MLSYS_OK; i++) {
        if (!views[i].dtype) continue;
        if (i >= node->n_in && bytes[i]) st = acc->upload(a->queue, (char *)low[i], at, bytes[i]);
        at += mlsi_plan_align(bytes[i]);
    }
    if (st == MLSYS_OK) st = acc->sync(a->queue); /* the room goes */
    mlsi_mem_free(p->graph.alloc, work);
    mlsi_mem_free(p->graph.alloc, room);
    return st;
}
