#include "support/llm.h"

#include "support/golden_logits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata ----------------------------------------------------------------------------------
 */

static bool meta_text(const llm *m, const char *key, char *out, size_t cap) {
    return mlsys_model_meta(m->model, key, out, cap, NULL) == MLSYS_OK;
}

/* Key of the architecture's own section; fallback when it is absent. */
static double meta_number(const llm *m, const char *key, double fallback) {
    char arch[64], name[160], value[64];
    if (!meta_text(m, "general.architecture", arch, sizeof arch)) return fallback;
    snprintf(name, sizeof name, "%s.%s", arch, key);
    return meta_text(m, name, value, sizeof value) ? strtod(value, NULL) : fallback;
}

/* "blk.0.attn_q.weight: q4_1[576,576], 207360 bytes" */
static void count_tensor(llm *m, const char *line) {
    char name[128], shape[64];
    unsigned long long bytes;
    double elements = 1;
    if (sscanf(line, "%127[^:]: %*[a-z0-9_][%63[^]]], %llu bytes", name, shape, &bytes) != 3)
        return;
    if (!strchr(shape, ',')) return; /* norms and biases: thousandths */
    for (char *at = shape; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        elements *= strtod(at, NULL);
    if (!strncmp(name, "blk.", 4)) {
        m->block_elements += elements;
        m->block_bytes += (double)bytes;
    } else if (!strcmp(name, "output.weight") ||
               (!strcmp(name, "token_embd.weight") && !m->head_bytes)) {
        m->head_elements =
            elements; /* tied embeddings are read for the logits; the lookup is a row */
        m->head_bytes = (double)bytes;
    }
}

static void read_facts(llm *m) {
    uint64_t need;
    mlsys_tokenizer t;
    mlsys_status st = mlsys_model_describe(m->model, NULL, 0, &need);
    char *text = bench_memory(need);
    if (st == MLSYS_OK || st == MLSYS_E_BUFFER)
        st = mlsys_model_describe(m->model, text, need, NULL);
    bench_need(st, "model");
    for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        count_tensor(m, line);
    char *bytes = strstr(text, "\nbytes: ");
    m->file_bytes = bytes ? strtoull(bytes + 8, NULL, 10) : 0;
    free(text);
    m->layers = (int)meta_number(m, "block_count", 0);
    m->heads = meta_number(m, "attention.head_count", 0);
    m->kv_heads = meta_number(m, "attention.head_count_kv", m->heads);
    m->key_dim =
        meta_number(m, "attention.key_length", meta_number(m, "embedding_length", 0) / m->heads);
    m->value_dim = meta_number(m, "attention.value_length", m->key_dim);
    m->window = meta_number(m, "attention.sliding_window", 0);
    m->window_period = m->window ? meta_number(m, "attention.sliding_window_pattern", 6) : 0;
    bench_need(mlsys_model_tokenizer(m->model, &t), "tokenizer");
    bench_need(mlsys_tokenizer_vocab(t, &m->vocab), "vocabulary");
    mlsys_release(t);
    if (m->layers < 1 || m->layers > LLM_MAX_LAYERS) {
        fprintf(stderr, "bench: a model of %d layers\n", m->layers);
        exit(2);
    }
}

/* Keys that a token at this position sees, summed over the layers. */
static double visible(const llm *m, int position) {
    double all = position + 1, local = m->window > 0 ? fmin(all, m->window) : all, sum = 0;
    for (int i = 0; i < m->layers; i++)
        sum += m->window_period && (i + 1) % (int)m->window_period ? local : all;
    return sum;
}

double llm_flops(const llm *m, int from, int n) {
    double flops = 2 * m->block_elements * n + 2 * m->head_elements;
    for (int i = 0; i < n; i++)
        flops += 2 * m->heads * (m->key_dim + m->value_dim) * visible(m, from + i);
    return flops;
}

double llm_bytes(const llm *m, int from, int n) {
    double element = !strcmp(m->how.kv, "f32") ? 4 : 2;
    return m->block_bytes + m->head_bytes +
           m->kv_heads * (m->key_dim + m->value_dim) * element * visible(m, from + n - 1);
}

/* ---- program -----------------------------------------------------------------------------------
 */

static mlsys_tensor new_tensor(llm *m, mlsys_dtype dtype, int32_t ndim, const int64_t *shape) {
    mlsys_tensor t;
    void *data;
    uint64_t bytes;
    bench_need(mlsys_tensor_create(m->lib.device, dtype, ndim, shape, &t), "tensor");
    bench_need(mlsys_tensor_data(t, &data, &bytes), "tensor");
    memset(data, 0, bytes); /* the pages exist before anything is timed */
    return t;
}

static void compile(llm *m) {
    mlsys_config graph_options, options;
    mlsys_graph g;
    bench_need(mlsys_config_create(&graph_options), "options");
    bench_need(mlsys_config_set_i64(graph_options, "context", m->how.context), "context");
    bench_need(mlsys_config_set_i64(graph_options, "chunk", m->how.chunk), "chunk");
    bench_need(mlsys_config_set_str(graph_options, "kv", m->how.kv), "kv");
    bench_need(mlsys_config_set_str(graph_options, "act", m->how.act), "act");
    bench_need(mlsys_model_graph(m->model, graph_options, &g), "graph");
    bench_need(mlsys_config_create(&options), "options");
    bench_need(mlsys_config_set_str(options, "numerics", m->how.numerics), "numerics");
    bench_need(mlsys_graph_compile(g, m->lib.device, options, &m->program), "program");
    bench_need(mlsys_program_reserve(m->program, m->lib.stream, 0, NULL, NULL), "scratch");
    bench_need(mlsys_stream_scratch_bytes(m->lib.stream, &m->scratch_bytes), "scratch");
    mlsys_cost cost = {.size = sizeof cost};
    bench_need(mlsys_program_cost(m->program, 0, NULL, NULL, &cost), "cost");
    m->constant_bytes = cost.constant_bytes;
    mlsys_release(options);
    mlsys_release(graph_options);
    mlsys_release(g);
}

void llm_open(llm *m, const char *path, const llm_options *how) {
    memset(m, 0, sizeof *m);
    m->how = *how;
    bench_library_open(&m->lib, how->threads, NULL);
    bench_need(mlsys_model_open(m->lib.ctx, path, NULL, &m->model), path);
    read_facts(m);
    compile(m);
    mlsys_dtype kv = !strcmp(how->kv, "f32")   ? MLSYS_F32
                     : !strcmp(how->kv, "f16") ? MLSYS_F16
                                               : MLSYS_BF16;
    const int64_t tokens[2] = {1, how->chunk}, logits[3] = {1, 1, m->vocab};
    m->tokens = new_tensor(m, MLSYS_I32, 2, tokens);
    m->start = m->in[1] = new_tensor(m, MLSYS_I64, 0, NULL);
    m->logits = m->out[2 * m->layers] = new_tensor(m, MLSYS_F32, 3, logits);
    for (int i = 0; i < 2 * m->layers; i++) {
        const int64_t shape[4] = {1, how->context, (int64_t)m->kv_heads,
                                  (int64_t)(i % 2 ? m->value_dim : m->key_dim)};
        m->in[2 + i] = m->out[i] = new_tensor(m, kv, 4, shape);
        m->cache_bytes += (uint64_t)(shape[1] * shape[2] * shape[3]) * (kv == MLSYS_F32 ? 4 : 2);
    }
}

void llm_close(llm *m) {
    for (int i = 0; i < 2 * m->layers; i++)
        mlsys_release(m->out[i]);
    mlsys_release(m->tokens);
    mlsys_release(m->start);
    mlsys_release(m->logits);
    mlsys_release(m->program);
    mlsys_release(m->model);
    bench_library_close(&m->lib);
}

/* ---- running -----------------------------------------------------------------------------------
 */

static int32_t token_at(const llm *m, int position) {
    return (int32_t)((7919 * (int64_t)position + 1013) % m->vocab);
}

/* Tokens [cached, cached + n), n <= chunk, in one run. */
static bool step(llm *m, int n) {
    void *data;
    mlsys_tensor view;
    const int64_t shape[2] = {1, n}, strides[2] = {n, 1}, start = m->cached;
    if (mlsys_tensor_data(m->start, &data, NULL)) return false;
    memcpy(data, &start, sizeof start);
    if (mlsys_tensor_data(m->tokens, &data, NULL)) return false;
    for (int i = 0; i < n; i++)
        ((int32_t *)data)[i] = token_at(m, m->cached + i);
    if (mlsys_tensor_view(m->tokens, 2, shape, strides, 0, &view)) return false;
    m->in[0] = view;
    mlsys_status st = mlsys_program_run(m->program, m->lib.stream, 2 + 2 * m->layers, m->in,
                                        1 + 2 * m->layers, m->out);
    mlsys_release(view);
    m->cached += n;
    return st == MLSYS_OK;
}

static bool feed(llm *m, int n, int chunk) {
    for (int left = n; left > 0; left -= chunk)
        if (!step(m, left < chunk ? left : chunk)) return false;
    return true;
}

static float *logits(const llm *m) {
    void *data;
    bench_need(mlsys_tensor_data(m->logits, &data, NULL), "logits");
    return data;
}

static bool run(void *user) {
    llm *m = user;
    m->cached = m->depth;
    bool ok = feed(m, m->prompt, m->how.chunk) && feed(m, m->generate, 1);
    if (ok && m->plant) logits(m)[m->vocab / 2] += 0.01f;
    return ok;
}

/* Fill the caches up to the depth, once. */
static void before(void *user) {
    llm *m = user;
    if (m->cached >= m->depth) return;
    m->cached = 0;
    if (!feed(m, m->depth, m->how.chunk)) bench_need(mlsys_last_status(), "depth");
}

static uint64_t digest(void *user) {
    const llm *m = user;
    return bench_digest(logits(m), sizeof(float) * (size_t)m->vocab);
}

/* ---- judging -----------------------------------------------------------------------------------
 */

static const golden_logits *find_golden(const llm *m) {
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++)
        if (golden[i].file_bytes == m->file_bytes) return &golden[i];
    return NULL;
}

/* Largest difference from the golden row; infinite when the best token is another. */
static double golden_difference(const llm *m, const golden_logits *g) {
    const float *row = logits(m);
    int32_t best = 0;
    double worst = 0;
    for (int32_t i = 1; i < m->vocab; i++)
        if (row[i] > row[best]) best = i;
    if (best != g->best) return INFINITY;
    worst = fabs((double)row[best] - (double)g->best_logit);
    for (int i = 0; i < GOLDEN_PICKS; i++) {
        double d = fabs((double)row[(104729 * (int64_t)i + 11) % m->vocab] - (double)g->picked[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

/* The golden prompt in one run and token by token, with the worst difference from the golden row.
 */
static double golden_runs(llm *m, const golden_logits *g, uint64_t seen[2]) {
    double worst = 0;
    for (int way = 0; way < 2; way++) {
        m->cached = 0;
        if (!feed(m, GOLDEN_LENGTH, way ? 1 : GOLDEN_LENGTH)) return INFINITY;
        if (m->plant) logits(m)[11 % m->vocab] += 0.01f;
        seen[way] = digest(m);
        double d = g ? golden_difference(m, g) : 0;
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

/* The timed work is done once more from the same depth with another chunk length: equal bits are
 * promised. The golden prompt is the beginning of the same token sequence, so it leaves the caches
 * as they were. */
static void check(void *user, bench_verdict *v) {
    llm *m = user;
    const golden_logits *g = find_golden(m);
    uint64_t timed = digest(m), seen[2] = {0, 1};
    double worst = golden_runs(m, g, seen), bound = strcmp(m->how.act, "f32") ? 0.5 : 2e-3;
    int other = m->generate ? m->how.chunk : 61;
    char oracle[BENCH_TEXT];
    m->cached = m->depth;
    memset(logits(m), 0xff, sizeof(float) * (size_t)m->vocab);
    bool again = feed(m, m->prompt + m->generate, other < m->how.chunk ? other : m->how.chunk);
    bool same = again && digest(m) == timed && seen[0] == seen[1];
    const char *chunks = same ? "equal bits in other chunks" : "bits DIFFER in other chunks";
    snprintf(oracle, sizeof oracle, "%s; the same work in other chunks, equal bits",
             g ? "independent NumPy model, 17 logits after 24 tokens"
               : "no independent one for this file");
    if (g)
        bench_judge(v, worst <= bound && same, oracle, "logits within %.1e (bound %.0e); %s", worst,
                    bound, chunks);
    else
        bench_judge(v, same, oracle, "%s", chunks);
    run(m);
}

bench_subject llm_subject(llm *m, int depth, int prompt, int generate, const char *name) {
    m->depth = depth;
    m->prompt = prompt;
    m->generate = generate;
    m->cached = 0;
    return (bench_subject){.name = name,
                           .boundary = BENCH_END_TO_END,
                           .cache = BENCH_WARM,
                           .threads = m->how.threads,
                           .user = m,
                           .before = before,
                           .call = run,
                           .digest = digest,
                           .check = check};
}
