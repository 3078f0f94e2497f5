/* Chat: the whole conversation is rendered and tokenised again at each turn; the longest common prefix
 * with the tokens in context stays cached, so only what is new is run. */
#include "engine/generator.h"
#include "model/chat_template.h"

#include <string.h>

static mlsi_bytes bytes_of(const char *s) { return (mlsi_bytes){s, strlen(s)}; }

static mlsys_status push(mlsi_generator *g, char role, const char *text) {
    mlsi_alloc *a = &g->object.ctx->alloc;
    mlsi_turn turn = {role, NULL};
    MLSI_TRY(MLSI_GROW(a, &g->turns, &g->cap_turns, g->n_turns + 1));
    MLSI_TRY(mlsi_mem_strdup(a, text, &turn.text));
    g->turns[g->n_turns++] = turn;
    return MLSYS_OK;
}

void mlsi_generator_forget_turns(mlsi_generator *g, int64_t keep) {
    mlsi_alloc *a = &g->object.ctx->alloc;
    while (g->n_turns > keep) mlsi_mem_free(a, g->turns[--g->n_turns].text);
}

static mlsys_status refuse_control_tokens(const mlsi_generator *g, const char *what, const char *text) {
    if (!mlsi_chat_has_special(g->tokenizer, bytes_of(text))) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "generator_chat: the %s message spells a control token of the model",
                     what);
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
        messages[i] = (mlsi_chat_message){bytes_of(role), bytes_of(g->turns[i].text)};
    }
    if (st == MLSYS_OK) st = mlsi_chat_template_render(chat, messages, g->n_turns, true, NULL, out);
    mlsi_mem_free(a, messages);
    mlsi_chat_template_free(chat);
    return st;
}

/* Make the context hold exactly ids, keeping what it already shares with them. */
static mlsys_status replace_context(mlsi_generator *g, const mlsi_ids *ids) {
    int64_t common = 0;
    if (ids->n > g->context)
        return mlsi_fail(MLSYS_E_ARG, "generator_chat: the conversation has %lld tokens, the context %lld",
                         (long long)ids->n, (long long)g->context);
    while (common < ids->n && common < g->n_history && ids->data[common] == g->history[common])
        common++;
    mlsi_generator_rewind(g, common);
    return mlsi_generator_append(g, ids->data + common, ids->n - common);
}

static mlsys_status add_turns(mlsi_generator *g, const char *system, const char *user) {
    MLSI_TRY(refuse_control_tokens(g, "user", user));
    if (system) MLSI_TRY(refuse_control_tokens(g, "system", system));
    if (system && g->n_turns)
        return mlsi_fail(MLSYS_E_STATE, "generator_chat: a system message stands only at the start");
    if (system) MLSI_TRY(push(g, 's', system));
    if (g->n_turns && g->reply.len) MLSI_TRY(push(g, 'a', g->reply.data));
    return push(g, 'u', user);
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
    if (st == MLSYS_OK) g->reply.len = 0;
    mlsi_ids_free(&ids);
    mlsi_text_free(&text);
    return st;
}
