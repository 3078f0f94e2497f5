#include "support/tiny_model.h"

#include <stdio.h>
#include <string.h>

enum {
    WIDTH = TINY_WIDTH,
    FFN = TINY_FFN,
    HEADS = 4,
    KV_HEADS = 2,
    LAYERS = 2,
    HEAD = WIDTH / HEADS
};
enum { GGML_F32 = 0, GGML_Q8_0 = 8, GGML_Q4_1 = 3 };
enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 };

static const char *omitted;

static bool keep(const char *name) { return !omitted || strcmp(omitted, name) != 0; }

static void put_u32(gguf_writer *w, const char *key, uint32_t v) {
    if (keep(key)) gguf_put_u32(w, key, v);
}

static void put_f32(gguf_writer *w, const char *key, float v) {
    if (keep(key)) gguf_put_f32(w, key, v);
}

static void put_str(gguf_writer *w, const char *key, const char *v) {
    if (keep(key)) gguf_put_str(w, key, v);
}

static void put_params(gguf_writer *w) {
    put_str(w, "general.architecture", "llama");
    put_u32(w, "llama.block_count", LAYERS);
    put_u32(w, "llama.embedding_length", WIDTH);
    put_u32(w, "llama.feed_forward_length", FFN);
    put_u32(w, "llama.context_length", TINY_CONTEXT);
    put_u32(w, "llama.attention.head_count", HEADS);
    put_u32(w, "llama.attention.head_count_kv", KV_HEADS);
    put_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    put_f32(w, "llama.rope.freq_base", 10000);
}

/* <unk> <s> </s> <|im_start|> <|im_end|>, the 256 bytes, and three pieces. */
static void put_vocabulary(gguf_writer *w) {
    static const char *const specials[5] = {"<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    static const char *const pieces[3] = {"\xe2\x96\x81", "th", "the"};
    static char bytes[256][8];
    const char *tokens[TINY_VOCAB];
    float scores[TINY_VOCAB];
    int32_t types[TINY_VOCAB];
    for (int i = 0; i < TINY_VOCAB; i++) {
        scores[i] = 0;
        types[i] = i == 0 ? TOKEN_UNKNOWN : i < 5 ? TOKEN_CONTROL : TOKEN_BYTE;
        if (i < 5) {
            tokens[i] = specials[i];
        } else if (i < 261) {
            snprintf(bytes[i - 5], sizeof bytes[0], "<0x%02X>", i - 5);
            tokens[i] = bytes[i - 5];
        } else {
            tokens[i] = pieces[i - 261];
            types[i] = TOKEN_NORMAL;
            scores[i] = (float)-i;
        }
    }
    put_str(w, "tokenizer.ggml.model", "llama");
    if (keep("tokenizer.ggml.tokens"))
        gguf_put_strs(w, "tokenizer.ggml.tokens", TINY_VOCAB, tokens);
    if (keep("tokenizer.ggml.scores"))
        gguf_put_array(w, "tokenizer.ggml.scores", 6, TINY_VOCAB, scores);
    if (keep("tokenizer.ggml.token_type"))
        gguf_put_array(w, "tokenizer.ggml.token_type", 5, TINY_VOCAB, types);
    put_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    put_u32(w, "tokenizer.ggml.bos_token_id", 1);
    put_u32(w, "tokenizer.ggml.eos_token_id", 4);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    put_str(w, "tokenizer.chat_template",
            "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
            "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

static void put_matrix(gguf_writer *w, int layer, const char *part, uint32_t type, uint64_t in,
                       uint64_t out) {
    char name[64];
    const uint64_t ne[2] = {in, out};
    if (layer < 0)
        snprintf(name, sizeof name, "%s.weight", part);
    else
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
    if (keep(name)) gguf_put_random(w, name, type, out ? 2 : 1, ne, 7, out ? 0.1f : 1.0f);
}

int tiny_model_write(const char *path) { return tiny_model_write_but(path, NULL, NULL); }

int tiny_model_write_but(const char *path, const char *omit, void (*put)(gguf_writer *w)) {
    gguf_writer w;
    omitted = omit;
    gguf_writer_init(&w);
    put_params(&w);
    put_vocabulary(&w);
    put_matrix(&w, -1, "token_embd", GGML_Q8_0, WIDTH, TINY_VOCAB);
    put_matrix(&w, -1, "output_norm", GGML_F32, WIDTH, 0);
    for (int i = 0; i < LAYERS; i++) {
        put_matrix(&w, i, "attn_norm", GGML_F32, WIDTH, 0);
        put_matrix(&w, i, "attn_q", GGML_Q4_1, WIDTH, HEADS * HEAD);
        put_matrix(&w, i, "attn_k", GGML_Q4_1, WIDTH, KV_HEADS * HEAD);
        put_matrix(&w, i, "attn_v", GGML_Q8_0, WIDTH, KV_HEADS * HEAD);
        put_matrix(&w, i, "attn_output", GGML_Q4_1, HEADS * HEAD, WIDTH);
        put_matrix(&w, i, "ffn_norm", GGML_F32, WIDTH, 0);
        put_matrix(&w, i, "ffn_gate", GGML_Q4_1, WIDTH, FFN);
        put_matrix(&w, i, "ffn_up", GGML_Q4_1, WIDTH, FFN);
        put_matrix(&w, i, "ffn_down", GGML_Q8_0, FFN, WIDTH);
    }
    if (put) put(&w);
    int failed = gguf_writer_save(&w, path);
    gguf_writer_free(&w);
    return failed ? -1 : 0;
}
