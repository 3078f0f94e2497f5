#include "engine/generator.h"

#include "core/trace.h"
#include "model/arch.h"

#include <string.h>

static const mlsi_config_key keys[] = {
    {"context", 'i', "0", 0, 1 << 24,
     "cache capacity in tokens; 0 = the trained length, at most 4096"},
    {"chunk", 'i', "256", 1, 1 << 20, "largest number of prompt tokens in one run"},
    {"kv", 's', "f32", 0, 0, "dtype of the cache: f32, f16 or bf16"},
    {"act", 's', "f32", 0, 0, "activations of block-quantised products: f32 or int8"},
    {"numerics", 's', "stable", 0, 0, "exact, stable or fast (docs/numerics.md)"},
    {"temperature", 'f', "0", 0, 1e6, "0 = greedy"},
    {"top_k", 'i', "0", 0, 1 << 30, "keep the k best; 0 = all"},
    {"top_p", 'f', "1", 0, 1, "keep the best that together reach this probability"},
    {"min_p", 'f', "0", 0, 1, "keep tokens of at least this share of the best one's probability"},
    {"repetition_penalty", 'f', "1", 0.01, 100, "divides positive, multiplies negative logits"},
    {"repetition_window", 'i', "64", 0, 1 << 24, "how many last tokens the penalty looks at"},
    {"seed", 'i', "0", 0, 9e15, "of the random draws"}};

const mlsi_config_key *mlsi_generator_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

static void read_sampler(const mlsi_config *c, mlsi_sampler *s) {
    s->temperature = mlsi_config_f64(c, "temperature", 0);
    s->top_k = mlsi_config_i64(c, "top_k", 0);
    s->top_p = mlsi_config_f64(c, "top_p", 1);
    s->min_p = mlsi_config_f64(c, "min_p", 0);
    s->repetition_penalty = mlsi_config_f64(c, "repetition_penalty", 1);
    s->repetition_window = mlsi_config_i64(c, "repetition_window", 64);
    s->seed = (uint64_t)mlsi_config_i64(c, "seed", 0);
}

static void destroy(mlsi_object *self) {
    mlsi_generator *g = (mlsi_generator *)self;
    mlsi_alloc *a = &g->object.ctx->alloc;
    for (int64_t i = 0; g->inputs && i < g->n_caches; i++)
        mlsys_release(g->inputs[2 + i]);
    mlsys_release(g->tokens);
    mlsys_release(g->start);
    mlsys_release(g->logits);
    mlsys_release(g->program);
    mlsys_release(g->tokenizer_handle);
    mlsys_release(g->stream_handle);
    mlsi_mem_free(a, g->inputs);
    mlsi_mem_free(a, g->outputs);
    mlsi_mem_free(a, g->history);
    mlsi_mem_free(a, g->candidates);
    mlsi_mem_free(a, g->row);
    mlsi_generator_forget_turns(g, 0);
    mlsi_mem_free(a, g->turns);
    mlsi_unpin(g->tokenizer);
    mlsi_unpin(g->model);
    mlsi_unpin(g->stream);
    mlsi_mem_free(a, g);
}

/* Graph and program of the model. */
static mlsys_status make_program(mlsi_generator *g, const mlsi_config *c,
                                 const mlsi_graph_options *o, const mlsi_decoder_params *p) {
    mlsys_graph graph = NULL;
    mlsys_config compile = NULL;
    mlsys_device device = mlsi_handle_of(g->stream->device);
    mlsys_status st = mlsi_decoder_build(g->model, p, o, &graph);
    if (st == MLSYS_OK) st = mlsys_config_create(&compile);
    if (st == MLSYS_OK)
        st = mlsys_config_set_str(compile, "numerics", mlsi_config_str(c, "numerics", "stable"));
    if (st == MLSYS_OK) st = mlsys_graph_compile(graph, device, compile, &g->program);
    mlsys_release(compile);
    mlsys_release(graph);
    mlsys_release(device);
    return st;
}

static mlsys_status make_cache(mlsi_generator *g, const mlsi_graph_options *o,
                               const mlsi_decoder_params *p, int64_t i) {
    const int64_t shape[4] = {1, o->context, p->kv_heads, i % 2 ? p->value_dim : p->key_dim};
    mlsi_layout l;
    mlsi_tensor *t;
    MLSI_TRY(mlsi_layout_row_major(&l, o->kv_dtype, 4, shape));
    MLSI_TRY(mlsi_tensor_new(g->stream->device, &l, &g->inputs[2 + i]));
    MLSI_TRY(mlsi_pin(g->inputs[2 + i], MLSYS_KIND_TENSOR, "generator", &t));
    mlsys_status st =
        mlsi_device_zero(t->device, mlsi_tensor_view_of(t).data, mlsi_layout_bytes(&l));
    mlsi_unpin(t);
    if (st != MLSYS_OK) return st;
    g->outputs[i] = g->inputs[2 + i];
    g->cache_bytes += mlsi_layout_bytes(&l);
    return MLSYS_OK;
}

static mlsys_status make_tensors(mlsi_generator *g, const mlsi_graph_options *o,
                                 const mlsi_decoder_params *p) {
    mlsi_device *d = g->stream->device;
    const int64_t tokens[2] = {1, g->chunk}, logits[3] = {1, 1, g->vocab};
    mlsi_layout l;
    mlsi_alloc *a = &g->object.ctx->alloc;
    MLSI_TRY(MLSI_NEW_N(a, g->n_caches + 2, &g->inputs));
    MLSI_TRY(MLSI_NEW_N(a, g->n_caches + 1, &g->outputs));
    MLSI_TRY(MLSI_NEW_N(a, g->context, &g->history));
    MLSI_TRY(MLSI_NEW_N(a, g->vocab, &g->candidates));
    if (!mlsi_is_host(d)) MLSI_TRY(MLSI_NEW_N(a, g->vocab, &g->row));
    MLSI_TRY(mlsi_layout_row_major(&l, MLSYS_I32, 2, tokens));
    MLSI_TRY(mlsi_tensor_new(d, &l, &g->tokens));
    MLSI_TRY(mlsi_layout_row_major(&l, MLSYS_I64, 0, NULL));
    MLSI_TRY(mlsi_tensor_new(d, &l, &g->start));
    MLSI_TRY(mlsi_layout_row_major(&l, MLSYS_F32, 3, logits));
    MLSI_TRY(mlsi_tensor_new(d, &l, &g->logits));
    for (int64_t i = 0; i < g->n_caches; i++)
        MLSI_TRY(make_cache(g, o, p, i));
    g->inputs[1] = g->start;
    g->outputs[g->n_caches] = g->logits;
    return MLSYS_OK;
}

static mlsys_status check_vocabulary(const mlsi_generator *g) {
    int32_t size;
    MLSI_TRY(mlsys_tokenizer_vocab(g->tokenizer_handle, &size));
    if (size == g->vocab) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT,
                     "generator: %s: %d tokens in the vocabulary, %lld rows in token_embd",
                     g->model->gguf->file, size, (long long)g->vocab);
}

static mlsys_status init(mlsi_generator *g, const mlsi_config *c) {
    mlsi_graph_options o;
    mlsi_decoder_params p;
    int n;
    const mlsi_config_key *table = mlsi_generator_config_keys(&n);
    MLSI_TRY(mlsi_config_check(c, "generate", table, n));
    read_sampler(c, &g->sampler);
    MLSI_TRY(mlsi_graph_options_read(g->model, c, &o));
    MLSI_TRY(mlsi_decoder_params_read(g->model, &p));
    g->chunk = o.max_new;
    g->context = o.context;
    g->vocab = p.vocab;
    g->n_caches = 2 * p.layers;
    mlsys_model model = mlsi_handle_of(g->model);
    mlsys_status st = mlsys_model_tokenizer(model, &g->tokenizer_handle);
    mlsys_release(model);
    if (st == MLSYS_OK)
        st = mlsi_pin(g->tokenizer_handle, MLSYS_KIND_TOKENIZER, "generator", &g->tokenizer);
    if (st == MLSYS_OK) st = check_vocabulary(g);
    if (st == MLSYS_OK) st = make_program(g, c, &o, &p);
    if (st == MLSYS_OK) st = make_tensors(g, &o, &p);
    return st;
}

mlsys_status mlsi_generator_create(mlsi_model *m, mlsi_stream *s, const mlsi_config *c,
                                   mlsys_generator *out) {
    mlsi_generator *g;
    mlsi_ctx *ctx = m->object.ctx;
    MLSI_TRY(MLSI_NEW(&ctx->alloc, &g));
    g->model = m;
    g->stream = s;
    mlsi_repin(m);
    mlsi_repin(s);
    g->stream_handle = mlsi_handle_of(s);
    mlsys_status st = mlsi_handle_create(&g->object, MLSYS_KIND_GENERATOR, ctx, destroy, out);
    if (st != MLSYS_OK) {
        mlsys_release(g->stream_handle);
        mlsi_unpin(m);
        mlsi_unpin(s);
        mlsi_mem_free(&ctx->alloc, g);
        return st;
    }
    st = init(g, c);
    if (st == MLSYS_OK) return st;
    mlsys_release(*out);
    *out = NULL;
    return st;
}

mlsys_status mlsi_generator_append(mlsi_generator *g, const int32_t *ids, int64_t n) {
    if (n > g->context - g->n_history)
        return mlsi_fail(MLSYS_E_ARG,
                         "generator: context holds %lld of %lld tokens, %lld more do not fit",
                         (long long)g->n_history, (long long)g->context, (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= g->vocab)
            return mlsi_fail(MLSYS_E_ARG, "generator: token %lld is %d, outside [0,%lld)",
                             (long long)i, ids[i], (long long)g->vocab);
    if (n) memcpy(g->history + g->n_history, ids, sizeof *ids * (size_t)n);
    g->n_history += n;
    g->logits_valid = g->logits_valid && n == 0;
    g->done = false;
    if (n) g->streaming = false;
    return MLSYS_OK;
}

mlsys_status mlsi_generator_append_text(mlsi_generator *g, const char *text, uint64_t bytes) {
    mlsi_ids ids;
    mlsi_ids_init(&ids, &g->object.ctx->alloc);
    int32_t flags = MLSI_TOKENS_SPECIAL | (g->n_history ? 0 : MLSI_ENCODE_ADD);
    mlsys_status st = mlsi_tokenizer_encode(g->tokenizer, text, bytes, flags, &ids);
    if (st == MLSYS_OK) st = mlsi_generator_append(g, ids.data, ids.n);
    mlsi_ids_free(&ids);
    return st;
}

/* One run over at most a chunk of what is not cached. */
static mlsys_status run_chunk(mlsi_generator *g) {
    int64_t n = g->n_history - g->n_cached;
    mlsys_tensor view = NULL;
    if (n > g->chunk) n = g->chunk;
    const int64_t shape[2] = {1, n}, strides[2] = {n, 1};
    MLSI_TRY(mlsys_tensor_view(g->tokens, 2, shape, strides, 0, &view));
    g->inputs[0] = view;
    int64_t t0 = mlsi_now_ns();
    mlsys_status st =
        mlsys_tensor_write(g->start, g->stream_handle, &g->n_cached, sizeof g->n_cached);
    if (st == MLSYS_OK)
        st = mlsys_tensor_write(view, g->stream_handle, g->history + g->n_cached,
                                sizeof *g->history * (uint64_t)n);
    if (st == MLSYS_OK)
        st = mlsys_program_run(g->program, g->stream_handle, (int32_t)g->n_caches + 2, g->inputs,
                               (int32_t)g->n_caches + 1, g->outputs);
    double seconds = (double)(mlsi_now_ns() - t0) * 1e-9;
    g->inputs[0] = NULL;
    mlsys_release(view);
    if (st != MLSYS_OK) return st;
    bool decode = n == 1 && g->streaming;
    *(decode ? &g->decode_seconds : &g->prefill_seconds) += seconds;
    *(decode ? &g->decode_tokens : &g->prefill_tokens) += n;
    g->n_cached += n;
    return MLSYS_OK;
}

mlsys_status mlsi_generator_read_logits(mlsi_generator *g, float **out) {
    if (!g->row) return mlsys_tensor_data(g->logits, (void **)out, NULL);
    *out = g->row;
    return mlsys_tensor_read(g->logits, g->stream_handle, g->row,
                             sizeof *g->row * (uint64_t)g->vocab);
}

mlsys_status mlsi_generator_evaluate(mlsi_generator *g) {
    if (!g->n_history) return mlsi_fail(MLSYS_E_STATE, "generator: the context is empty");
    if (!g->logits_valid && g->n_cached == g->n_history) g->n_cached--; /* after a rewind */
    while (g->n_cached < g->n_history)
        MLSI_TRY(run_chunk(g));
    g->logits_valid = true;
    return MLSYS_OK;
}

void mlsi_generator_rewind(mlsi_generator *g, int64_t n) {
    int32_t held = 0;
    g->done = false;
    if (n < g->n_history) {
        while (held < g->text.n_held && g->held_at[held] < n)
            held++;
        g->text.n_held = held;
        g->streaming = held && g->held_at[held - 1] == n - 1;
        g->logits_valid = false;
    }
    g->n_history = n;
    if (g->n_cached > n) g->n_cached = n;
    int64_t keep = g->n_turns; /* at 0 none: a turn that a template leaves out ends there too */
    while (keep && (n == 0 || g->turns[keep - 1].end > n))
        keep--;
    mlsi_generator_forget_turns(g, keep);
}

static mlsys_status finish(mlsi_generator *g, mlsi_text *text) {
    MLSI_TRY(mlsi_token_stream_finish(&g->text, text));
    g->streaming = false;
    g->done = true;
    return MLSYS_OK;
}

/* The text of a produced token, which will be the last one in context. On failure nothing changes. */
static mlsys_status add_text(mlsi_generator *g, int32_t token, mlsi_text *text) {
    mlsi_token_stream before = g->text;
    mlsys_status st = MLSYS_OK;
    if (!g->streaming) { /* what an append or a message cut off comes first, as it is */
        st = mlsi_token_stream_finish(&g->text, text);
        mlsi_token_stream_init(&g->text, g->tokenizer, 0, false);
    }
    int32_t held = g->text.n_held;
    int64_t len = text->len;
    if (st == MLSYS_OK) st = mlsi_token_stream_next(&g->text, token, text);
    if (st != MLSYS_OK) {
        g->text = before;
        return st;
    }
    if (text->len > len) held = 0; /* given out; what is held now is all of this token */
    for (; held < g->text.n_held; held++)
        g->held_at[held] = g->n_history;
    return MLSYS_OK;
}

mlsys_status mlsi_generator_next(mlsi_generator *g, int32_t *id, mlsi_text *text) {
    float *logits;
    int32_t token;
    *id = -1;
    if (g->done || (g->streaming && g->n_history == g->context)) return finish(g, text);
    MLSI_TRY(mlsi_generator_evaluate(g));
    if (g->n_history == g->context) return finish(g, text);
    MLSI_TRY(mlsi_generator_read_logits(g, &logits));
    MLSI_TRY(mlsi_sample(&g->sampler, logits, g->vocab, g->history, g->n_history, g->candidates,
                         &token));
    if (mlsi_tokenizer_is_end(g->tokenizer, token)) return finish(g, text);
    MLSI_TRY(add_text(g, token, text));
    g->streaming = true;
    g->history[g->n_history++] = token;
    g->logits_valid = false;
    *id = token;
    return MLSYS_OK;
}

/* STAT(name, value, meaning): what there is to ask, in one list for the answer and for the names. */
#define GENERATOR_STATS(STAT)                                                                      \
    STAT("tokens", g->n_history, "tokens in context")                                              \
    STAT("context", g->context, "tokens that the context can hold")                                \
    STAT("prefill_tokens", g->prefill_tokens, "tokens evaluated that were appended")               \
    STAT("prefill_seconds", g->prefill_seconds, "time of their runs")                              \
    STAT("decode_tokens", g->decode_tokens, "tokens evaluated that were produced, one a run")      \
    STAT("decode_seconds", g->decode_seconds, "time of their runs")                                \
    STAT("cache_bytes", g->cache_bytes, "key-value caches")                                        \
    STAT("scratch_bytes", g->stream->scratch_bytes, "scratch of the stream")                       \
    STAT("vocab", g->vocab, "tokens in the vocabulary")

mlsys_status mlsi_generator_stat(const mlsi_generator *g, const char *name, double *out) {
#define STAT_ANSWER(name_, value, meaning)                                                         \
    if (!strcmp(name, name_)) return *out = (double)(value), MLSYS_OK;
    GENERATOR_STATS(STAT_ANSWER)
#undef STAT_ANSWER
    return mlsi_fail(MLSYS_E_NOTFOUND, "generator_stat: no name \"%.64s\"", name);
}

void mlsi_generator_stats_text(mlsi_text *out) {
#define STAT_LINE(name_, value, meaning) mlsi_text_add(out, "%s f64: %s\n", name_, meaning);
    GENERATOR_STATS(STAT_LINE)
#undef STAT_LINE
}
