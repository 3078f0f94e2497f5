/* Decoding token by token, in whole characters.
 *
 * A character may be spread over several tokens: the bytes of an unfinished one are held back until
 * it is complete, turns out malformed, or the stream ends. The pieces together are, byte for byte,
 * what mlsi_tokenizer_decode makes of the same ids. */
#ifndef MLSI_TOKEN_STREAM_H
#define MLSI_TOKEN_STREAM_H

#include "model/tokenizer.h"

enum { MLSI_STREAM_HELD = 3 }; /* bytes of an unfinished character, at most */

typedef struct mlsi_token_stream {
    const mlsi_tokenizer *t; /* borrowed */
    int32_t flags;           /* MLSI_TOKENS_SPECIAL or 0 */
    bool drop_space;         /* the next plain token loses the space that encode put before it */
    int32_t n_held;
    char held[MLSI_STREAM_HELD];
} mlsi_token_stream;

/* at_start: the first token begins a text, and is not the continuation of one. */
void mlsi_token_stream_init(mlsi_token_stream *s, const mlsi_tokenizer *t, int32_t flags,
                            bool at_start);
/* Append what became complete to out; nothing may. On failure the stream is as before.
 * Errors ARG: id outside the vocabulary; NOMEM. */
mlsys_status mlsi_token_stream_next(mlsi_token_stream *s, int32_t id, mlsi_text *out);
/* Append what is held back: the end of a text that stops inside a character. */
mlsys_status mlsi_token_stream_finish(mlsi_token_stream *s, mlsi_text *out);

#endif
