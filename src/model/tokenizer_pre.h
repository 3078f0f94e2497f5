/* Pre-tokenizers of byte-level BPE: regular expressions that cut text into words. */
#ifndef MLSI_TOKENIZER_PRE_H
#define MLSI_TOKENIZER_PRE_H

#include "model/tokenizer.h"

typedef struct mlsi_pre mlsi_pre;             /* immutable; any thread */
typedef struct mlsi_pre_match mlsi_pre_match; /* working memory of one call */

/* What the name says besides its expressions. */
typedef struct mlsi_pre_traits {
    bool ignore_merges; /* a word that is a token is that token */
    bool add_bos;       /* default where the metadata has no .add_bos_token */
} mlsi_pre_traits;

/* name: the value of tokenizer.ggml.pre; empty = "default".  Errors UNSUPPORTED: an unknown name,
 * or a build without PCRE2; NOMEM. */
mlsys_status mlsi_pre_create(mlsi_alloc *a, mlsi_bytes name, mlsi_pre_traits *traits,
                             mlsi_pre **out);
void mlsi_pre_free(mlsi_pre *p); /* NULL accepted */

mlsys_status mlsi_pre_match_create(const mlsi_pre *p, mlsi_pre_match **out);
void mlsi_pre_match_free(mlsi_pre_match *m); /* NULL accepted */

/* Call word(arg, ...) for the words of text[0..n), in order; together they are the text. text must
 * be valid UTF-8. Stops at the first failure of word and returns it. */
mlsys_status mlsi_pre_split(mlsi_pre_match *m, const char *text, uint64_t n,
                            mlsys_status (*word)(void *arg, const char *p, uint64_t n), void *arg);

/* The known names, for tests: NULL after the last. */
const char *mlsi_pre_name(int i);

#endif
