/* Decoder-only transformers (Llama, Gemma 3) as a graph:
 *
 *   x = embed(tokens) * embedding_scale
 *   per layer: x += post1(attend(norm(x)));  x += post2(ffn(norm(x)))
 *   logits = W_out norm(x)
 *
 * Shapes: x [B, L, width], q [B, L, heads, key_dim], caches [B, context, kv_heads, dim]. New keys
 * and values are written at position `start` of the donated caches; query i of the run stands at
 * start + i. */
#include "core/elementary.h"
#include "core/op_attrs.h"
#include "model/arch.h"
#include "model/graph_builder.h"

#include <stdio.h>
#include <string.h>

typedef struct decoder {
    mlsi_builder b;
    const mlsi_decoder_params *p;
    const mlsi_graph_options *o;
    mlsys_dim B, L;
    mlsys_value positions, starts, kv_len, freqs, local_freqs;
} decoder;

static mlsys_value weight(decoder *d, int64_t layer, const char *part, int32_t rank,
                          const int64_t *shape, bool optional) {
    char name[96];
    if (layer < 0)
        snprintf(name, sizeof name, "%s", part);
    else
        snprintf(name, sizeof name, "blk.%lld.%s", (long long)layer, part);
    return mlsi_b_weight(&d->b, name, rank, shape, optional);
}

static mlsys_value to_f32(decoder *d, mlsys_value x) {
    mlsi_set attrs[] = {MLSI_SET_S("dtype", "f32"), MLSI_SET_END};
    mlsys_dtype dtype = MLSYS_F32;
    if (x && d->b.st == MLSYS_OK) d->b.st = mlsys_graph_type(d->b.g, x, &dtype, 0, NULL, NULL);
    return !x || dtype == MLSYS_F32 ? x : mlsi_b_op(&d->b, "cast", 1, &x, attrs);
}

static mlsys_value rms_norm(decoder *d, mlsys_value x, int64_t layer, const char *part, int64_t n) {
    mlsys_value in[2] = {x, to_f32(d, weight(d, layer, part, 1, &n, false))};
    mlsi_set attrs[] = {MLSI_SET_I("axis", -1), MLSI_SET_F("eps", d->p->eps), MLSI_SET_END};
    return mlsi_b_op(&d->b, "rms_norm", 2, in, attrs);
}

/* x [.., n_in] times the file's [n_out, n_in], and its bias if it has one. */
static mlsys_value linear(decoder *d, mlsys_value x, int64_t layer, const char *part, int64_t n_out,
                          int64_t n_in) {
    char name[64];
    int64_t shape[2] = {n_out, n_in};
    snprintf(name, sizeof name, "%s.weight", part);
    mlsys_value in[2] = {x, weight(d, layer, name, 2, shape, false)};
    mlsys_dtype dtype = 0;
    if (d->b.st == MLSYS_OK) d->b.st = mlsys_graph_type(d->b.g, in[1], &dtype, 0, NULL, NULL);
    mlsi_set quant[] = {MLSI_SET_S("act", d->o->act == MLSI_ACT_INT8 ? "int8" : "f32"),
                        MLSI_SET_END};
    mlsi_set plain[] = {MLSI_SET_I("transpose_b", 1), MLSI_SET_END};
    mlsys_value y;
    if (mlsi_dtype_is_block(dtype)) {
        y = mlsi_b_op(&d->b, "quant_matmul", 2, in, quant);
    } else {
        in[1] = to_f32(d, in[1]);
        y = mlsi_b_op(&d->b, "matmul", 2, in, plain);
    }
    snprintf(name, sizeof name, "%s.bias", part);
    mlsys_value bias = to_f32(d, weight(d, layer, name, 1, &n_out, true));
    return bias ? mlsi_b_binary(&d->b, "add", y, bias) : y;
}

static mlsys_value split_heads(decoder *d, mlsys_value x, int64_t heads, int64_t dim) {
    mlsys_dim shape[4] = {d->B, d->L, heads, dim};
    return mlsi_b_reshape(&d->b, x, 4, shape);
}

static mlsys_value rope(decoder *d, mlsys_value x, bool local) {
    mlsys_value in[3] = {x, d->positions, local ? d->local_freqs : d->freqs};
    mlsi_set attrs[] = {MLSI_SET_S("pairing", d->p->rope_halves ? "halves" : "pairs"),
                        MLSI_SET_END};
    return mlsi_b_op(&d->b, "rope", 3, in, attrs);
}

/* Write x [B, L, kv_heads, dim] at `start` of a cache; the updated cache is a graph output. */
static mlsys_value update_cache(decoder *d, mlsys_value x, int64_t layer, const char *which,
                                int64_t dim) {
    char name[64];
    mlsys_dim shape[4] = {d->B, d->o->context, d->p->kv_heads, dim};
    snprintf(name, sizeof name, "%s_cache.%lld", which, (long long)layer);
    mlsys_value cache = mlsi_b_input(&d->b, name, d->o->kv_dtype, 4, shape);
    if (d->b.st == MLSYS_OK) d->b.st = mlsys_graph_donate(d->b.g, cache);
    if (d->o->kv_dtype != MLSYS_F32) {
        mlsi_set cast[] = {MLSI_SET_S("dtype", mlsi_dtype_get(d->o->kv_dtype)->name), MLSI_SET_END};
        x = mlsi_b_op(&d->b, "cast", 1, &x, cast);
    }
    mlsys_value in[3] = {cache, x, d->starts};
    cache = mlsi_b_op(&d->b, "dynamic_update_slice", 3, in, NULL);
    if (d->b.st == MLSYS_OK) d->b.st = mlsys_graph_output(d->b.g, name, cache);
    return cache;
}

static mlsys_value attend(decoder *d, mlsys_value x, int64_t layer) {
    const mlsi_decoder_params *p = d->p;
    bool local = p->window_period && (layer + 1) % p->window_period != 0;
    mlsys_value q = linear(d, x, layer, "attn_q", p->heads * p->key_dim, p->width);
    mlsys_value k = linear(d, x, layer, "attn_k", p->kv_heads * p->key_dim, p->width);
    mlsys_value v = linear(d, x, layer, "attn_v", p->kv_heads * p->value_dim, p->width);
    q = split_heads(d, q, p->heads, p->key_dim);
    k = split_heads(d, k, p->kv_heads, p->key_dim);
    v = split_heads(d, v, p->kv_heads, p->value_dim);
    if (p->qk_norm) {
        q = rms_norm(d, q, layer, "attn_q_norm.weight", p->key_dim);
        k = rms_norm(d, k, layer, "attn_k_norm.weight", p->key_dim);
    }
    q = rope(d, q, local);
    k = update_cache(d, rope(d, k, local), layer, "k", p->key_dim);
    v = update_cache(d, v, layer, "v", p->value_dim);
    mlsys_value in[5] = {q, k, v, 0, d->kv_len};
    mlsi_set attrs[] = {MLSI_SET_F("scale", p->attention_scale),
                        MLSI_SET_F("softcap", p->attention_softcap),
                        MLSI_SET_S("causal", "bottom_right"),
                        MLSI_SET_I("window", local ? p->window : 0), MLSI_SET_END};
    mlsys_value o = mlsi_b_op(&d->b, "attention", 5, in, attrs);
    mlsys_dim flat[3] = {d->B, d->L, p->heads * p->value_dim};
    o = mlsi_b_reshape(&d->b, o, 3, flat);
    return linear(d, o, layer, "attn_output", p->width, p->heads * p->value_dim);
}

static mlsys_value feed_forward(decoder *d, mlsys_value x, int64_t layer) {
    const mlsi_decoder_params *p = d->p;
    mlsi_set tanh_form[] = {MLSI_SET_S("form", "tanh"), MLSI_SET_END};
    mlsys_value gate = linear(d, x, layer, "ffn_gate", p->ffn, p->width);
    mlsys_value up = linear(d, x, layer, "ffn_up", p->ffn, p->width);
    gate =
        p->gelu ? mlsi_b_op(&d->b, "gelu", 1, &gate, tanh_form) : mlsi_b_unary(&d->b, "silu", gate);
    return linear(d, mlsi_b_binary(&d->b, "mul", gate, up), layer, "ffn_down", p->width, p->ffn);
}

static mlsys_value block(decoder *d, mlsys_value x, int64_t layer) {
    mlsys_value a = attend(d, rms_norm(d, x, layer, "attn_norm.weight", d->p->width), layer);
    if (d->p->post_norm) a = rms_norm(d, a, layer, "post_attention_norm.weight", d->p->width);
    x = mlsi_b_binary(&d->b, "add", x, a);
    mlsys_value f = feed_forward(d, rms_norm(d, x, layer, "ffn_norm.weight", d->p->width), layer);
    if (d->p->post_norm) f = rms_norm(d, f, layer, "post_ffw_norm.weight", d->p->width);
    return mlsi_b_binary(&d->b, "add", x, f);
}

/* freq_i = base^(-2i/dims) / factor_i / scale, computed in f64 and rounded once. */
static mlsys_value rope_freqs(decoder *d, double base) {
    int64_t n = d->p->rope_dims / 2;
    float *f = NULL;
    const mlsi_gguf_tensor *factors = mlsi_gguf_tensor_find(d->b.m->gguf, "rope_freqs.weight");
    mlsi_alloc *a = &d->b.m->object.ctx->alloc;
    if (d->b.st != MLSYS_OK) return 0;
    if (factors && (factors->layout.dtype != MLSYS_F32 || mlsi_layout_count(&factors->layout) != n))
        d->b.st = mlsi_fail(MLSYS_E_FORMAT, "model: %s: tensor rope_freqs.weight is not f32[%lld]",
                            d->b.m->gguf->file, (long long)n);
    if (d->b.st == MLSYS_OK) d->b.st = MLSI_NEW_N(a, n, &f);
    if (d->b.st != MLSYS_OK) return 0;
    for (int64_t i = 0; i < n; i++) {
        double factor = factors ? (double)((const float *)factors->data)[i] : 1;
        f[i] = (float)(mlsi_ed_pow(base, -2.0 * (double)i / (double)d->p->rope_dims) / factor /
                       d->p->rope_scale);
    }
    mlsys_value v = mlsi_b_const(&d->b, MLSYS_F32, 1, &n, f);
    mlsi_mem_free(a, f);
    return v;
}

/* positions [L] = start + iota; starts [4] = (0, start, 0, 0); kv_len [B] = last position + 1. */
static void position_values(decoder *d) {
    mlsi_builder *b = &d->b;
    static const int64_t zeros[2] = {0, 0}, ones[1] = {1};
    const int64_t one = 1, two = 2, last = -1, end = INT64_MAX;
    mlsys_value start = mlsi_b_input(b, "start", MLSYS_I64, 0, NULL);
    mlsi_set iota[] = {MLSI_SET_S("dtype", "i64"), MLSI_SET_I("axis", 0),
                       MLSI_SET_V("shape", 1, &d->L), MLSI_SET_END};
    d->positions = mlsi_b_binary(b, "add", mlsi_b_op(b, "iota", 0, NULL, iota), start);
    mlsys_value in[3] = {mlsi_b_const(b, MLSYS_I64, 1, &one, zeros),
                         mlsi_b_reshape(b, start, 1, &one),
                         mlsi_b_const(b, MLSYS_I64, 1, &two, zeros)};
    mlsi_set axis[] = {MLSI_SET_I("axis", 0), MLSI_SET_END};
    d->starts = mlsi_b_op(b, "concat", 3, in, axis);
    mlsi_set slice[] = {MLSI_SET_V("starts", 1, &last), MLSI_SET_V("stops", 1, &end),
                        MLSI_SET_V("steps", 1, &one), MLSI_SET_END};
    mlsys_value length = mlsi_b_op(b, "slice", 1, &d->positions, slice);
    length = mlsi_b_binary(b, "add", length, mlsi_b_const(b, MLSYS_I64, 1, &one, ones));
    mlsi_set shape[] = {MLSI_SET_V("shape", 1, &d->B), MLSI_SET_END};
    d->kv_len = mlsi_b_op(b, "broadcast", 1, &length, shape);
}

static mlsys_value embed(decoder *d, mlsys_value tokens) {
    int64_t shape[2] = {d->p->vocab, d->p->width};
    mlsys_value in[2] = {weight(d, -1, "token_embd.weight", 2, shape, false), tokens};
    mlsi_set attrs[] = {MLSI_SET_S("dtype", "f32"), MLSI_SET_END};
    mlsys_value x = mlsi_b_op(&d->b, "embedding", 2, in, attrs);
    if (d->p->embedding_scale == 1) return x;
    return mlsi_b_binary(&d->b, "mul", x, mlsi_b_scalar(&d->b, (float)d->p->embedding_scale));
}

static mlsys_value unembed(decoder *d, mlsys_value x) {
    const int64_t starts[3] = {0, -1, 0}, stops[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
    const int64_t steps[3] = {1, 1, 1};
    mlsi_set last[] = {MLSI_SET_V("starts", 3, starts), MLSI_SET_V("stops", 3, stops),
                       MLSI_SET_V("steps", 3, steps), MLSI_SET_END};
    if (!d->o->all_logits) x = mlsi_b_op(&d->b, "slice", 1, &x, last);
    x = rms_norm(d, x, -1, "output_norm.weight", d->p->width);
    bool tied = !mlsi_gguf_tensor_find(d->b.m->gguf, "output.weight");
    mlsys_value y = linear(d, x, -1, tied ? "token_embd" : "output", d->p->vocab, d->p->width);
    if (d->p->logit_softcap == 0) return y;
    mlsys_value cap = mlsi_b_scalar(&d->b, (float)d->p->logit_softcap);
    y = mlsi_b_unary(&d->b, "tanh", mlsi_b_binary(&d->b, "div", y, cap));
    return mlsi_b_binary(&d->b, "mul", y, cap);
}

/* Outputs: the caches in the order of their inputs, then the logits. */
static void build(decoder *d) {
    mlsi_builder *b = &d->b;
    if (b->st == MLSYS_OK) b->st = mlsys_graph_symbol(b->g, "B", 1, d->o->max_batch, 1, &d->B);
    if (b->st == MLSYS_OK) b->st = mlsys_graph_symbol(b->g, "L", 1, d->o->max_new, 1, &d->L);
    mlsys_dim shape[2] = {d->B, d->L};
    mlsys_value tokens = mlsi_b_input(b, "tokens", MLSYS_I32, 2, shape);
    position_values(d);
    d->freqs = rope_freqs(d, d->p->rope_base);
    d->local_freqs = d->p->window_period ? rope_freqs(d, d->p->local_rope_base) : d->freqs;
    mlsys_value x = embed(d, tokens);
    for (int64_t i = 0; i < d->p->layers && b->st == MLSYS_OK; i++)
        x = block(d, x, i);
    mlsys_value logits = unembed(d, x);
    if (b->st == MLSYS_OK) b->st = mlsys_graph_output(b->g, "logits", logits);
}

mlsys_status mlsi_decoder_build(mlsi_model *m, const mlsi_decoder_params *p,
                                const mlsi_graph_options *o, mlsys_graph *out) {
    decoder d = {.p = p, .o = o};
    mlsys_ctx ctx = mlsi_handle_of(m->object.ctx);
    *out = NULL;
    d.b.m = m;
    d.b.st = mlsi_device_get(m->object.ctx, MLSYS_CPU, 0, &d.b.device);
    if (d.b.st == MLSYS_OK) d.b.st = mlsys_graph_create(ctx, &d.b.g);
    if (d.b.st == MLSYS_OK) build(&d);
    mlsys_release(d.b.device);
    mlsys_release(ctx);
    if (d.b.st == MLSYS_OK) {
        *out = d.b.g;
        return MLSYS_OK;
    }
    mlsys_release(d.b.g);
    return d.b.st;
}
