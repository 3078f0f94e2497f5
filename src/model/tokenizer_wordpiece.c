/* WordPiece as in BERT: normalised words, each cut into the longest pieces from the left. Pieces
 * that begin a word carry a space in front. */
#include "model/tokenizer_impl.h"
#include "model/utf8.h"

enum { MAX_WORD_CHARS = 100 }; /* longer words are unknown, as in BERT */

#if defined(MLSI_HAVE_UTF8PROC) && MLSI_HAVE_UTF8PROC

#include <utf8proc.h>

typedef struct words {
    mlsi_encode *e;
    int64_t len;   /* bytes of the word in e->buffer, its space included */
    int32_t chars; /* without the space */
} words;

mlsys_status mlsi_wordpiece_check(void) { return MLSYS_OK; }

/* BERT's "CJK character": ideographs only, each a word of its own. The gap at U+2B820 is the
 * peers'. */
static bool is_ideograph(uint32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static bool is_punctuation(uint32_t c, utf8proc_category_t category) {
    if (c < 0x80)
        return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
               (c >= 123 && c <= 126);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* The pieces of a word, or the unknown token. */
static mlsys_status encode_word(mlsi_encode *e, const char *p, uint64_t n) {
    const mlsi_tokenizer *t = e->t;
    int64_t before = e->out->n;
    for (uint64_t at = 0, len; at < n; at += len) {
        int32_t id = -1;
        for (len = n - at < t->max_plain ? n - at : t->max_plain; len > 0; len--)
            if ((id = mlsi_token_find(t, &t->plain, p + at, len)) >= 0) break;
        if (id < 0) {
            e->out->n = before;
            return mlsi_ids_push(e->out, t->ids[MLSI_VOCAB_UNK]);
        }
        MLSI_TRY(mlsi_ids_push(e->out, id));
    }
    return MLSYS_OK;
}

/* The word collected so far; it is empty afterwards. */
static mlsys_status end_word(words *w) {
    mlsi_encode *e = w->e;
    int32_t chars = w->chars;
    uint64_t n = (uint64_t)w->len;
    w->chars = 0;
    w->len = 0;
    if (!chars) return MLSYS_OK;
    if (chars > MAX_WORD_CHARS) return mlsi_ids_push(e->out, e->t->ids[MLSI_VOCAB_UNK]);
    return mlsi_encode_word(e, e->buffer, n, encode_word);
}

static mlsys_status add_char(words *w, uint32_t c) {
    mlsi_encode *e = w->e;
    MLSI_TRY(MLSI_GROW(e->alloc, &e->buffer, &e->buffer_cap, w->len + 8));
    if (!w->len) e->buffer[w->len++] = ' ';
    /* Past the limit the word is unknown whatever follows. */
    if (w->chars <= MAX_WORD_CHARS) w->len += mlsi_utf8_encode(c, e->buffer + w->len);
    w->chars += w->chars <= MAX_WORD_CHARS;
    return MLSYS_OK;
}

/* One character after cleaning and decomposition. */
static mlsys_status put_char(words *w, uint32_t c) {
    const mlsi_tokenizer *t = w->e->t;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    if (t->strip_accents && category == UTF8PROC_CATEGORY_MN) return MLSYS_OK;
    if (mlsi_is_white_space(c)) return end_word(w);
    if (t->lowercase) c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (!is_punctuation(c, category) && !is_ideograph(c)) return add_char(w, c);
    MLSI_TRY(end_word(w));
    MLSI_TRY(add_char(w, c));
    return end_word(w);
}

static bool is_dropped(uint32_t c) {
    if (c == 0 || c == 0xfffd) return true;
    if (c == '\t' || c == '\n' || c == '\r') return false;
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

mlsys_status mlsi_wordpiece_encode(mlsi_encode *e, const char *text, uint64_t n) {
    words w = {.e = e};
    for (uint64_t i = 0; i < n;) {
        uint32_t c;
        int len = mlsi_utf8_decode(text + i, n - i, &c);
        if (!len) c = 0xfffd;
        i += len ? (uint64_t)len : 1;
        if (is_dropped(c)) continue;
        utf8proc_int32_t parts[32] = {(utf8proc_int32_t)c};
        utf8proc_ssize_t n_parts = 1;
        /* Marks are dropped, so their canonical order does not matter. */
        if (e->t->strip_accents)
            n_parts =
                utf8proc_decompose_char((utf8proc_int32_t)c, parts, 32, UTF8PROC_DECOMPOSE, NULL);
        if (n_parts < 0 || n_parts > 32)
            return mlsi_fail(MLSYS_E_INTERNAL, "tokenizer: U+%04X does not decompose", c);
        for (utf8proc_ssize_t k = 0; k < n_parts; k++)
            MLSI_TRY(put_char(&w, (uint32_t)parts[k]));
    }
    return end_word(&w);
}

#else

mlsys_status mlsi_wordpiece_check(void) {
    return mlsi_fail(MLSYS_E_UNSUPPORTED,
                     "tokenizer: WordPiece needs utf8proc, which this build of "
                     "the library was made without");
}
mlsys_status mlsi_wordpiece_encode(mlsi_encode *e, const char *text, uint64_t n) {
    (void)e, (void)text, (void)n;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "tokenizer: built without utf8proc");
}

#endif
