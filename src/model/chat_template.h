/* A model's chat template: messages in, the prompt's text out. The template language is jinja.h's.
 *
 * The template sees: messages (each with role and content), add_generation_prompt, bos_token,
 * eos_token, and what the caller adds. The text contains control tokens: encode it with
 * MLSI_TOKENS_SPECIAL, and without MLSI_ENCODE_ADD where the template writes bos_token itself. Note
 * that the text of messages can spell control tokens too: a caller who must prevent that checks
 * before (mlsi_chat_has_special).
 *
 * Threads: immutable; any thread may use it. */
#ifndef MLSI_CHAT_TEMPLATE_H
#define MLSI_CHAT_TEMPLATE_H

#include "model/jinja.h"
#include "model/tokenizer.h"

typedef struct mlsi_chat_template mlsi_chat_template;

typedef struct mlsi_chat_message {
    mlsi_bytes role, content; /* e.g. "system", "user", "assistant" */
} mlsi_chat_message;

/* source is tokenizer.chat_template; bos and eos may be empty. All are copied.
 * Errors FORMAT, UNSUPPORTED: with the template's line; NOMEM. */
mlsys_status mlsi_chat_template_create(mlsi_alloc *a, mlsi_bytes source, mlsi_bytes bos,
                                       mlsi_bytes eos, mlsi_chat_template **out);
/* Of a model file. Errors: the same, and NOTFOUND when the file has none. */
mlsys_status mlsi_chat_template_from_gguf(mlsi_alloc *a, const struct mlsi_gguf *g,
                                          const mlsi_tokenizer *t, mlsi_chat_template **out);
void mlsi_chat_template_free(mlsi_chat_template *c); /* NULL accepted */

/* Append the prompt to out, which is as before on failure. variables: a JSON object with more names
 * for the template, e.g. {"tools": [...]}; its "messages", when it has them, stand in place of
 * messages. NULL: none.  Errors ARG: the template refuses the conversation; FORMAT, UNSUPPORTED,
 * NOMEM. */
mlsys_status mlsi_chat_template_render(const mlsi_chat_template *c,
                                       const mlsi_chat_message *messages, int64_t n,
                                       bool add_generation_prompt, const char *variables,
                                       mlsi_text *out);

/* Whether text spells a control token, so that it could not be told from the template's own. */
bool mlsi_chat_has_special(const mlsi_tokenizer *t, mlsi_bytes text);

#endif
