/* Hyperparameters: which metadata an architecture has, and what it must satisfy. */
#include "model/arch.h"

#include "core/op_attrs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct arch_row {
    const char *name;
    bool rope_halves, gelu, qk_norm, post_norm, scale_embedding;
    int64_t window_period; /* 0 = all layers see everything */
    double local_rope_base;
} arch_row;

static const arch_row rows[] = {
    {"llama", false, false, false, false, false, 0, 0},
    {"gemma3", true, true, true, true, true, 6, 10000},
};

static const arch_row *find_row(const mlsi_model *m) {
    mlsi_gguf_str name;
    if (mlsi_gguf_get_str(m->gguf, "general.architecture", &name) != MLSYS_OK) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (mlsi_gguf_str_eq(name, rows[i].name)) return &rows[i];
    mlsi_fail(MLSYS_E_UNSUPPORTED, "model: %s: architecture \"%.*s\" is not one of llama, gemma3",
              m->gguf->file, (int)(name.len < 64 ? name.len : 64), name.data);
    return NULL;
}

/* A positive integer of the architecture, bounded so that products of three cannot overflow. */
static mlsys_status read_count(const mlsi_model *m, const char *arch, const char *key,
                               int64_t absent, int64_t *out) {
    char full[128];
    uint64_t v;
    snprintf(full, sizeof full, "%s.%s", arch, key);
    if (absent >= 0)
        MLSI_TRY(mlsi_gguf_get_u64_or(m->gguf, full, (uint64_t)absent, &v));
    else
        MLSI_TRY(mlsi_gguf_get_u64(m->gguf, full, &v));
    if (v < (absent == 0 ? 0 : 1) || v > (1 << 20))
        return mlsi_fail(MLSYS_E_FORMAT, "model: %s: %s is %llu, outside [%d, 2^20]", m->gguf->file,
                         full, (unsigned long long)v, absent == 0 ? 0 : 1);
    *out = (int64_t)v;
    return MLSYS_OK;
}

static mlsys_status read_real(const mlsi_model *m, const char *arch, const char *key, double absent,
                              double *out) {
    char full[128];
    snprintf(full, sizeof full, "%s.%s", arch, key);
    MLSI_TRY(mlsi_gguf_get_f64_or(m->gguf, full, absent, out));
    if (!(*out >= 0 && *out < 1e30))
        return mlsi_fail(MLSYS_E_FORMAT, "model: %s: %s is %g, outside [0, 1e30)", m->gguf->file,
                         full, *out);
    return MLSYS_OK;
}

static mlsys_status read_rope(const mlsi_model *m, const char *arch, mlsi_decoder_params *p) {
    char full[128];
    mlsi_gguf_str type;
    MLSI_TRY(read_count(m, arch, "rope.dimension_count", p->key_dim, &p->rope_dims));
    MLSI_TRY(read_real(m, arch, "rope.freq_base", 10000, &p->rope_base));
    if (p->rope_base == 0)
        return mlsi_fail(MLSYS_E_FORMAT, "model: %s: %s.rope.freq_base is 0, must be positive",
                         m->gguf->file, arch);
    MLSI_TRY(read_real(m, arch, "rope.scaling.factor", 0, &p->rope_scale));
    snprintf(full, sizeof full, "%s.rope.scaling.type", arch);
    bool typed = mlsi_gguf_find(m->gguf, full) != NULL;
    if (typed) MLSI_TRY(mlsi_gguf_get_str(m->gguf, full, &type));
    if (typed && !mlsi_gguf_str_eq(type, "none") && !mlsi_gguf_str_eq(type, "linear"))
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "model: %s: %s \"%.*s\" is not none or linear",
                         m->gguf->file, full, (int)(type.len < 64 ? type.len : 64), type.data);
    if (!typed || mlsi_gguf_str_eq(type, "none") || p->rope_scale == 0) p->rope_scale = 1;
    if (p->rope_dims % 2 || p->rope_dims > p->key_dim)
        return mlsi_fail(MLSYS_E_FORMAT,
                         "model: %s: %s.rope.dimension_count is %lld, must be even and at most the "
                         "head size %lld",
                         m->gguf->file, arch, (long long)p->rope_dims, (long long)p->key_dim);
    return MLSYS_OK;
}

static mlsys_status read_attention(const mlsi_model *m, const char *arch, mlsi_decoder_params *p) {
    char full[128];
    MLSI_TRY(read_count(m, arch, "attention.head_count", -1, &p->heads));
    MLSI_TRY(read_count(m, arch, "attention.head_count_kv", p->heads, &p->kv_heads));
    snprintf(full, sizeof full, "%s.attention.key_length", arch);
    if (!mlsi_gguf_find(m->gguf, full) && p->width % p->heads)
        return mlsi_fail(MLSYS_E_FORMAT,
                         "model: %s: %s.attention.head_count is %lld, which does not divide "
                         "embedding_length %lld",
                         m->gguf->file, arch, (long long)p->heads, (long long)p->width);
    MLSI_TRY(read_count(m, arch, "attention.key_length", p->width / p->heads, &p->key_dim));
    MLSI_TRY(read_count(m, arch, "attention.value_length", p->key_dim, &p->value_dim));
    MLSI_TRY(read_count(m, arch, "attention.sliding_window", 0, &p->window));
    MLSI_TRY(read_real(m, arch, "attention.layer_norm_rms_epsilon", 1e-5, &p->eps));
    MLSI_TRY(read_real(m, arch, "attn_logit_softcapping", 0, &p->attention_softcap));
    MLSI_TRY(read_real(m, arch, "final_logit_softcapping", 0, &p->logit_softcap));
    if (p->heads % p->kv_heads)
        return mlsi_fail(
            MLSYS_E_FORMAT,
            "model: %s: %s.attention.head_count is %lld, not a multiple of the %lld kv heads",
            m->gguf->file, arch, (long long)p->heads, (long long)p->kv_heads);
    p->attention_scale = 1.0 / sqrt((double)p->key_dim);
    return MLSYS_OK;
}

mlsys_status mlsi_decoder_params_read(const mlsi_model *m, mlsi_decoder_params *p) {
    const arch_row *row = find_row(m);
    const mlsi_gguf_tensor *embedding;
    memset(p, 0, sizeof *p);
    if (!row) return mlsys_last_status();
    MLSI_TRY(read_count(m, row->name, "block_count", -1, &p->layers));
    MLSI_TRY(read_count(m, row->name, "embedding_length", -1, &p->width));
    MLSI_TRY(read_count(m, row->name, "feed_forward_length", -1, &p->ffn));
    MLSI_TRY(read_count(m, row->name, "context_length", 2048, &p->trained_context));
    MLSI_TRY(read_attention(m, row->name, p));
    MLSI_TRY(read_rope(m, row->name, p));
    MLSI_TRY(mlsi_model_get(m, "token_embd.weight", &embedding));
    if (embedding->layout.rank != 2)
        return mlsi_fail(MLSYS_E_FORMAT, "model: %s: tensor token_embd.weight has rank %d, not 2",
                         m->gguf->file, embedding->layout.rank);
    p->vocab = embedding->layout.shape[0];
    p->rope_halves = row->rope_halves;
    p->gelu = row->gelu;
    p->qk_norm = row->qk_norm;
    p->post_norm = row->post_norm;
    p->embedding_scale = row->scale_embedding ? sqrt((double)p->width) : 1;
    p->window_period = p->window ? row->window_period : 0;
    p->local_rope_base = row->local_rope_base ? row->local_rope_base : p->rope_base;
    if (p->layers > 500)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "model: %s: %s.block_count is %lld, at most 500",
                         m->gguf->file, row->name, (long long)p->layers);
    return MLSYS_OK;
}

static const mlsi_config_key keys[] = {
    {"context", 'i', "0", 0, 1 << 24,
     "cache capacity in tokens; 0 = the trained length, at most 4096"},
    {"chunk", 'i', "256", 1, 1 << 20, "largest number of new tokens L in one run"},
    {"batch", 'i', "1", 1, 4096, "largest batch B"},
    {"logits", 's', "last", 0, 0, "logits of the \"last\" new position or of \"all\""},
    {"kv", 's', "f32", 0, 0, "dtype of the cache: f32, f16 or bf16"},
    {"act", 's', "f32", 0, 0, "activations of block-quantised products: f32 or int8"},
    {"mode", 's', "infer", 0, 0, "\"infer\", or \"train\": whole sequences without a cache"},
    {"trainable", 's', "all", 0, 0,
     "in mode train: inputs are \"all\" weights, \"lora\" or \"none\""},
    {"lora_rank", 'i', "8", 1, 1 << 16, "with trainable lora: extent between the adapters' halves"},
    {"lora_alpha", 'f', "16", 0, 1e6, "with trainable lora: scale is lora_alpha / lora_rank"},
    {"lora_targets", 's', "attn_q,attn_v", 0, 0,
     "with trainable lora: the matrices that get adapters, named as in blk.<i>.NAME.weight"}};

const mlsi_config_key *mlsi_model_graph_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

/* Keys of the other mode would be without effect. */
static mlsys_status refuse_keys(const mlsi_config *c, const char *const *names, int n,
                                const char *why) {
    for (int i = 0; i < n; i++)
        if (mlsi_config_find(c, names[i]))
            return mlsi_fail(MLSYS_E_ARG, "model: key \"%s\" is %s", names[i], why);
    return MLSYS_OK;
}

static mlsys_status read_training(const mlsi_config *c, mlsi_graph_options *o) {
    static const char *const infer_only[] = {"chunk", "kv", "logits"};
    static const char *const train_only[] = {"trainable", "lora_rank", "lora_alpha",
                                             "lora_targets"};
    const char *mode = mlsi_config_str(c, "mode", "infer");
    const char *trainable = mlsi_config_str(c, "trainable", "all");
    o->train = !strcmp(mode, "train");
    if (!o->train && strcmp(mode, "infer"))
        return mlsi_fail(MLSYS_E_ARG, "model: mode \"%s\" is not infer or train", mode);
    if (!o->train) return refuse_keys(c, train_only, 4, "for mode \"train\" only");
    MLSI_TRY(refuse_keys(c, infer_only, 3, "without meaning in mode \"train\""));
    o->trainable = !strcmp(trainable, "all")    ? MLSI_TRAIN_ALL
                   : !strcmp(trainable, "lora") ? MLSI_TRAIN_LORA
                                                : MLSI_TRAIN_NONE;
    if (o->trainable == MLSI_TRAIN_NONE && strcmp(trainable, "none"))
        return mlsi_fail(MLSYS_E_ARG, "model: trainable \"%s\" is not all, lora or none",
                         trainable);
    if (o->trainable != MLSI_TRAIN_LORA)
        MLSI_TRY(refuse_keys(c, train_only + 1, 3, "for trainable \"lora\" only"));
    o->lora_rank = mlsi_config_i64(c, "lora_rank", 8);
    o->lora_alpha = mlsi_config_f64(c, "lora_alpha", 16);
    o->lora_targets = mlsi_config_str(c, "lora_targets", "attn_q,attn_v");
    o->all_logits = true;
    o->max_new = o->context;
    return MLSYS_OK;
}

mlsys_status mlsi_graph_options_read(const mlsi_model *m, const mlsi_config *c,
                                     mlsi_graph_options *o) {
    mlsi_decoder_params p;
    const char *logits = mlsi_config_str(c, "logits", "last");
    const char *kv = mlsi_config_str(c, "kv", "f32"), *act = mlsi_config_str(c, "act", "f32");
    memset(o, 0, sizeof *o);
    MLSI_TRY(mlsi_decoder_params_read(m, &p));
    o->context = mlsi_config_i64(c, "context", 0);
    if (!o->context) o->context = p.trained_context < 4096 ? p.trained_context : 4096;
    o->max_new = mlsi_config_i64(c, "chunk", 256);
    if (o->max_new > o->context) o->max_new = o->context;
    o->max_batch = mlsi_config_i64(c, "batch", 1);
    o->kv_dtype = mlsi_dtype_by_name(kv);
    if (strcmp(logits, "last") && strcmp(logits, "all"))
        return mlsi_fail(MLSYS_E_ARG, "model: logits \"%s\" is not last or all", logits);
    if (o->kv_dtype != MLSYS_F32 && o->kv_dtype != MLSYS_F16 && o->kv_dtype != MLSYS_BF16)
        return mlsi_fail(MLSYS_E_ARG, "model: kv \"%s\" is not f32, f16 or bf16", kv);
    if (strcmp(act, "f32") && strcmp(act, "int8"))
        return mlsi_fail(MLSYS_E_ARG, "model: act \"%s\" is not f32 or int8", act);
    o->all_logits = !strcmp(logits, "all");
    o->act = strcmp(act, "int8") ? MLSI_ACT_F32 : MLSI_ACT_INT8;
    return read_training(c, o);
}
