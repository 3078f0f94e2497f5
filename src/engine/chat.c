/* Chat: the whole conversation is rendered and tokenised again at each turn; the longest common
 * prefix with the tokens in context stays cached, so only what is new is run. */
#include "engine/generator.h"
#include "model/chat_template.h"

#include <string.h>

static mlsi_bytes bytes_of(const char *s) { return (mlsi_bytes){s, strlen(s)}; }

/* A turn without text yet; its end is set once the message is in context. */
static mlsys_status push(mlsi_generator *g, char role, mlsi_text **text) {
    mlsi_alloc *a = &g->object.ctx->alloc;
    MLSI_TRY(MLSI_GROW(a, &g->turns, &g->cap_turns, g->n_turns + 1));
    mlsi_turn *turn = &g->turns[g->n_turns++];
    *turn = (mlsi_turn){.role = role, .end = INT64_MAX};
    mlsi_text_init(&turn->text, a);
    *text = &turn->text;
    return MLSYS_OK;
}

static mlsys_status push_text(mlsi_generator *g, char role, const char *text) {
    mlsi_text *copy;
    MLSI_TRY(push(g, role, &copy));
    mlsi_text_add(copy, "%s", text);
    return copy->st;
}

/* What was produced, or appended, since the last message: its tokens as the stream wrote them. */
static mlsys_status push_reply(mlsi_generator *g) {
    int64_t first = g->n_turns ? g->turns[g->n_turns - 1].end : g->n_history;
    mlsi_token_stream stream;
    mlsi_text *text;
    if (first >= g->n_history) return MLSYS_OK;
    MLSI_TRY(push(g, 'a', &text));
    mlsi_token_stream_init(&stream, g->tokenizer, 0, false);
    for (int64_t i = first; i < g->n_history; i++)
        MLSI_TRY(mlsi_token_stream_next(&stream, g->history[i], text));
    MLSI_TRY(mlsi_token_stream_finish(&stream, text));
    if (!text->len) mlsi_generator_forget_turns(g, g->n_turns - 1);
    return MLSYS_OK;
}

void mlsi_generator_forget_turns(mlsi_generator *g, int64_t keep) {
    while (g->n_turns > keep)
        mlsi_text_free(&g->turns[--g->n_turns].text);
}

static mlsys_status refuse_control_tokens(const mlsi_generator *g, const char *what,
                                          const char *text) {
    if (!mlsi_chat_has_special(g->tokenizer, bytes_of(text))) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG,
                     "generator_chat: the %s message spells a control token of the model", what);
}

static mlsys_status render(mlsi_generator *g, mlsi_text *out) {
    mlsi_alloc *a = &g->object.ctx->alloc;
    mlsi_chat_template *chat = NULL;
    mlsi_chat_message *messages = NULL;
    mlsys_status st = mlsi_chat_template_from_gguf(a, g->model->gguf, g->tokenizer, &chat);
    if (st == MLSYS_OK) st = MLSI_NEW_N(a, g->n_turns, &messages);
    for (int64_t i = 0; i < g->n_turns && st == MLSYS_OK; i++) {
        const char *role = g->turns[i].role == 's'   ? "system"
                           : g->turns[i].role == 'u' ? "user"
                                                     : "assistant";
        const mlsi_text *text = &g->turns[i].text;
        messages[i] = (mlsi_chat_message){bytes_of(role), {text->data, (uint64_t)text->len}};
    }
    if (st == MLSYS_OK) st = mlsi_chat_template_render(chat, messages, g->n_turns, true, NULL, out);
    mlsi_mem_free(a, messages);
    mlsi_chat_template_free(chat);
    return st;
}

/* Make the context hold exactly ids, keeping what it already shares with them. A template may write
 * an old turn anew when others follow it: the end of a turn past the shared part is the new end. */
static mlsys_status replace_context(mlsi_generator *g, const mlsi_ids *ids) {
    int64_t common = 0;
    if (ids->n > g->context)
        return mlsi_fail(MLSYS_E_ARG,
                         "generator_chat: the conversation has %lld tokens, the context %lld",
                         (long long)ids->n, (long long)g->context);
    while (common < ids->n && common < g->n_history && ids->data[common] == g->history[common])
        common++;
    int64_t turns = g->n_turns;
    for (int64_t i = 0; i < turns; i++)
        if (g->turns[i].end > common) g->turns[i].end = ids->n;
    int32_t held = g->text.n_held;
    g->n_turns = 0; /* the new context holds them all, and the reply's tokens in its own way */
    mlsi_generator_rewind(g, common);
    g->n_turns = turns;
    g->text.n_held = held;
    g->streaming = false;
    return mlsi_generator_append(g, ids->data + common, ids->n - common);
}

static mlsys_status add_turns(mlsi_generator *g, const char *system, const char *user) {
    MLSI_TRY(refuse_control_tokens(g, "user", user));
    if (system) MLSI_TRY(refuse_control_tokens(g, "system", system));
    if (system && g->n_turns)
        return mlsi_fail(MLSYS_E_STATE,
                         "generator_chat: a system message stands only at the start");
    if (system) MLSI_TRY(push_text(g, 's', system));
    MLSI_TRY(push_reply(g));
    return push_text(g, 'u', user);
}

mlsys_status mlsi_generator_chat(mlsi_generator *g, const char *system, const char *user) {
    mlsi_alloc *a = &g->object.ctx->alloc;
    mlsi_text text;
    mlsi_ids ids;
    int64_t before = g->n_turns;
    mlsi_text_init(&text, a);
    mlsi_ids_init(&ids, a);
    mlsys_status st = add_turns(g, system, user);
    if (st == MLSYS_OK) st = render(g, &text);
    if (st == MLSYS_OK)
        st = mlsi_tokenizer_encode(g->tokenizer, text.data ? text.data : "", (uint64_t)text.len,
                                   MLSI_TOKENS_SPECIAL, &ids);
    if (st == MLSYS_OK) st = replace_context(g, &ids);
    if (st != MLSYS_OK) mlsi_generator_forget_turns(g, before);
    mlsi_ids_free(&ids);
    mlsi_text_free(&text);
    return st;
}
