/* Decoder-only transformers (Llama, Gemma 3) as a graph:
 *
 *   x = embed(tokens) * embedding_scale
 *   per layer: x += post1(attend(norm(x)));  x += post2(ffn(norm(x)))
 *   logits = W_out norm(x)
 *
 * Shapes: x [B, L, width], q [B, L, heads, key_dim], caches [B, context, kv_heads, dim]. New keys
 * and values are written at position `start` of the donated caches; query i of the run stands at
 * start + i.
 *
 * In training there are no caches: keys and values are those of the run, and start is 0. Attention counts
 * its segments of keys from position 0 (docs/numerics.md), so both forms give the same bits. */
#include "core/elementary.h"
#include "core/faults.h"
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
    mlsys_value embedding; /* a weight that may be used twice */
    int64_t n_adapters;    /* of the model, met in the graph */
    uint64_t targets_met;  /* bit i: name i of lora_targets */
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

/* The next of comma-separated names; NULL after the last. */
static const char *next_name(const char *p) {
    p = strchr(p, ',');
    return p ? p + 1 : NULL;
}

/* Is a matrix of this name to be adapted by training? */
static bool targeted(decoder *d, const char *part) {
    size_t n = strlen(part);
    if (d->o->trainable != MLSI_TRAIN_LORA) return false;
    const char *p = d->o->lora_targets;
    for (int i = 0; p && i < 64; i++, p = next_name(p))
        if (!strncmp(p, part, n) && (p[n] == ',' || !p[n])) {
            d->targets_met |= (uint64_t)1 << i;
            return true;
        }
    return false;
}

/* The half of an adapter: an input when it is trained, else a constant of the model. */
static mlsys_value adapter_half(decoder *d, const char *name, bool trained, const int64_t *shape) {
    if (trained) return mlsi_b_input(&d->b, name, MLSYS_F32, 2, shape);
    bool weights = d->b.trainable;
    d->b.trainable = false;
    mlsys_value v = to_f32(d, mlsi_b_weight(&d->b, name, 2, shape, false));
    d->b.trainable = weights;
    return v;
}

/* y + scale * ((x A^T) B^T) where the matrix has an adapter, else y. */
static mlsys_value adapted(decoder *d, mlsys_value x, mlsys_value y, int64_t layer,
                           const char *part, int64_t n_out, int64_t n_in) {
    char a[96], b[112];
    if (layer < 0)
        snprintf(a, sizeof a, "%s", part);
    else
        snprintf(a, sizeof a, "blk.%lld.%s", (long long)layer, part);
    snprintf(b, sizeof b, "%s.lora_b", a);
    strcat(a, ".lora_a");
    bool trained = targeted(d, part);
    const mlsi_model_change *have = mlsi_model_change_find(d->b.m, a);
    if (have) d->n_adapters++;
    if (!have && !trained) return y;
    int64_t rank = trained ? d->o->lora_rank : have->as.layout.shape[0];
    float scale = trained ? (float)(d->o->lora_alpha / (double)rank) : have->scale;
    const int64_t shape_a[2] = {rank, n_in}, shape_b[2] = {n_out, rank};
    mlsi_set transposed[] = {MLSI_SET_I("transpose_b", 1), MLSI_SET_END};
    mlsys_value in[2] = {x, adapter_half(d, a, trained, shape_a)};
    in[0] = mlsi_b_op(&d->b, "matmul", 2, in, transposed);
    in[1] = adapter_half(d, b, trained, shape_b);
    mlsys_value low = mlsi_b_op(&d->b, "matmul", 2, in, transposed);
    if (!mlsi_fault(MLSI_FAULT_LORA_SCALE) || trained)
        low = mlsi_b_binary(&d->b, "mul", low, mlsi_b_scalar(&d->b, scale));
    return mlsi_b_binary(&d->b, "add", y, low);
}

/* x [.., n_in] times the model's [n_out, n_in], its bias if it has one, and its adapter. */
static mlsys_value linear(decoder *d, mlsys_value x, int64_t layer, const char *part, int64_t n_out,
                          int64_t n_in) {
    char name[64];
    int64_t shape[2] = {n_out, n_in};
    snprintf(name, sizeof name, "%s.weight", part);
    bool tied = layer < 0 && !strcmp(part, "token_embd");
    mlsys_value in[2] = {x, tied ? d->embedding : weight(d, layer, name, 2, shape, false)};
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
    if (bias) y = mlsi_b_binary(&d->b, "add", y, bias);
    return tied ? y : adapted(d, x, y, layer, part, n_out, n_in);
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
    k = rope(d, k, local);
    if (!d->o->train) {
        k = update_cache(d, k, layer, "k", p->key_dim);
        v = update_cache(d, v, layer, "v", p->value_dim);
    }
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
    const mlsi_gguf_tensor *factors = mlsi_model_find(d->b.m, "rope_freqs.weight");
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

/* In training positions [L] = iota. Else positions = start + iota; starts [4] = (0, start, 0, 0); kv_len [B] = last position + 1. */
static void position_values(decoder *d) {
    mlsi_builder *b = &d->b;
    static const int64_t zeros[2] = {0, 0}, ones[1] = {1};
    const int64_t one = 1, two = 2, last = -1, end = INT64_MAX;
    mlsi_set iota[] = {MLSI_SET_S("dtype", "i64"), MLSI_SET_I("axis", 0),
                       MLSI_SET_V("shape", 1, &d->L), MLSI_SET_END};
    mlsys_value start = d->o->train ? 0 : mlsi_b_input(b, "start", MLSYS_I64, 0, NULL);
    d->positions = mlsi_b_op(b, "iota", 0, NULL, iota);
    if (d->o->train) { /* all keys are valid: kv_len stays absent */
        if (mlsi_fault(MLSI_FAULT_TRAIN_POSITION))
            d->positions =
                mlsi_b_binary(b, "add", d->positions, mlsi_b_const(b, MLSYS_I64, 1, &one, ones));
        return;
    }
    d->positions = mlsi_b_binary(b, "add", d->positions, start);
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
    d->embedding = weight(d, -1, "token_embd.weight", 2, shape, false);
    mlsys_value in[2] = {d->embedding, tokens};
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
    bool tied = !mlsi_model_find(d->b.m, "output.weight");
    mlsys_value y = linear(d, x, -1, tied ? "token_embd" : "output", d->p->vocab, d->p->width);
    if (d->p->logit_softcap == 0) return y;
    mlsys_value cap = mlsi_b_scalar(&d->b, (float)d->p->logit_softcap);
    y = mlsi_b_unary(&d->b, "tanh", mlsi_b_binary(&d->b, "div", y, cap));
    return mlsi_b_binary(&d->b, "mul", y, cap);
}

/* Every adapter of the model and every name of lora_targets must have had a matrix. */
static mlsys_status check_adapters(const decoder *d) {
    const mlsi_model *m = d->b.m;
    const char *p = d->o->lora_targets;
    int64_t halves = 0;
    size_t stem;
    for (int64_t i = 0; i < m->n_changes; i++)
        halves += mlsi_adapter_name(m->changes[i].as.name, &stem) != 0;
    if (halves != 2 * d->n_adapters)
        return mlsi_fail(MLSYS_E_UNSUPPORTED,
                         "model: %s: %lld of %lld adapters are for matrices that the graph does "
                         "not multiply by",
                         m->gguf->file, (long long)(halves / 2 - d->n_adapters),
                         (long long)(halves / 2));
    if (d->o->trainable != MLSI_TRAIN_LORA) return MLSYS_OK;
    for (int i = 0; p; i++, p = next_name(p))
        if (i >= 64 || !(d->targets_met >> i & 1))
            return mlsi_fail(MLSYS_E_ARG,
                             "model: %s: lora_targets \"%.200s\": name %d is of no matrix that "
                             "can have an adapter",
                             m->gguf->file, d->o->lora_targets, i);
    return MLSYS_OK;
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
    if (b->st == MLSYS_OK) b->st = check_adapters(d);
    if (b->st == MLSYS_OK) b->st = mlsys_graph_output(b->g, "logits", logits);
}

mlsys_status mlsi_decoder_build(mlsi_model *m, const mlsi_decoder_params *p,
                                const mlsi_graph_options *o, mlsys_graph *out) {
    decoder d = {.p = p, .o = o};
    mlsys_ctx ctx = mlsi_handle_of(m->object.ctx);
    *out = NULL;
    d.b.m = m;
    d.b.trainable = o->train && o->trainable == MLSI_TRAIN_ALL;
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
