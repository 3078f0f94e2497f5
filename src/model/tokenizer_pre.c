/* Cutting text into words with PCRE2.
 *
 * PCRE2's own limits bound backtracking, and the expressions are chosen so that no text needs much
 * of it. Where the machine allows executable memory they are compiled to machine code, which PCRE2
 * keeps outside the context's allocator; everything else goes through it. */
#include "model/tokenizer_pre.h"

#include "model/tokenizer_pre_table.h"

#include <string.h>

enum { N_NAMES = sizeof pre_names / sizeof pre_names[0] };

const char *mlsi_pre_name(int i) { return i < N_NAMES ? pre_names[i].name : NULL; }

static const pre_name *find_name(mlsi_bytes name) {
    if (!name.len) return &pre_names[0];
    for (int i = 0; i < N_NAMES; i++)
        if (strlen(pre_names[i].name) == name.len &&
            !memcmp(pre_names[i].name, name.data, name.len))
            return &pre_names[i];
    return NULL;
}

static mlsys_status unknown_name(mlsi_bytes name) {
    return mlsi_fail(MLSYS_E_UNSUPPORTED,
                     "tokenizer.ggml.pre: no pre-tokenizer is known as \"%.*s\"",
                     (int)(name.len < 60 ? name.len : 60), name.data);
}

#if defined(MLSI_HAVE_PCRE2) && MLSI_HAVE_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct mlsi_pre {
    mlsi_alloc *alloc;
    pcre2_general_context *memory;
    int n;
    pcre2_code *code[MAX_EXPRESSIONS];
};

struct mlsi_pre_match {
    const mlsi_pre *pre;
    pcre2_match_context *limits;
    pcre2_match_data *data[MAX_EXPRESSIONS];
    mlsys_status (*word)(void *arg, const char *p, uint64_t n);
    void *arg;
};

static void *pcre2_hook_alloc(size_t bytes, void *user) {
    void *p;
    return mlsi_mem_alloc(user, bytes, &p) == MLSYS_OK ? p : NULL;
}

static void pcre2_hook_free(void *p, void *user) { mlsi_mem_free(user, p); }

static mlsys_status pcre2_failed(int error, const char *what) {
    char text[200] = "";
    pcre2_get_error_message(error, (PCRE2_UCHAR *)text, sizeof text);
    if (error == PCRE2_ERROR_NOMEMORY || error == 121 /* compiling ran out of memory */)
        return mlsi_fail(MLSYS_E_NOMEM, "tokenizer: no memory for %s", what);
    return mlsi_fail(MLSYS_E_INTERNAL, "tokenizer: %s failed: PCRE2 says %d, %s", what, error,
                     text);
}

mlsys_status mlsi_pre_create(mlsi_alloc *a, mlsi_bytes name, mlsi_pre_traits *traits,
                             mlsi_pre **out) {
    *out = NULL;
    const pre_name *row = find_name(name);
    if (!row) return unknown_name(name);
    traits->ignore_merges = row->traits & IGNORE_MERGES;
    traits->add_bos = row->traits & ADD_BOS;
    mlsi_pre *p;
    MLSI_TRY(MLSI_NEW(a, &p));
    p->alloc = a;
    p->memory = pcre2_general_context_create(pcre2_hook_alloc, pcre2_hook_free, a);
    pcre2_compile_context *options = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    int error = options ? 0 : PCRE2_ERROR_NOMEMORY;
    for (int i = 0; !error && i < MAX_EXPRESSIONS && pre_sets[row->set][i]; i++) {
        PCRE2_SIZE at;
        p->code[i] =
            pcre2_compile((PCRE2_SPTR)pre_sets[row->set][i], PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_UCP, &error, &at, options);
        if (!p->code[i]) break;
        error = 0;
        p->n = i + 1;
        pcre2_jit_compile(p->code[i], PCRE2_JIT_COMPLETE); /* a failure only costs speed */
    }
    pcre2_compile_context_free(options);
    if (error) {
        mlsi_pre_free(p);
        return pcre2_failed(error, "compiling the pre-tokenizer");
    }
    *out = p;
    return MLSYS_OK;
}

void mlsi_pre_free(mlsi_pre *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++)
        pcre2_code_free(p->code[i]);
    pcre2_general_context_free(p->memory);
    mlsi_mem_free(p->alloc, p);
}

mlsys_status mlsi_pre_match_create(const mlsi_pre *p, mlsi_pre_match **out) {
    *out = NULL;
    mlsi_pre_match *m;
    MLSI_TRY(MLSI_NEW(p->alloc, &m));
    m->pre = p;
    m->limits = pcre2_match_context_create(p->memory);
    bool ok = m->limits != NULL;
    for (int i = 0; ok && i < p->n; i++) {
        m->data[i] = pcre2_match_data_create(1, p->memory);
        ok = m->data[i] != NULL;
    }
    if (!ok) {
        mlsi_pre_match_free(m);
        return pcre2_failed(PCRE2_ERROR_NOMEMORY, "matching");
    }
    *out = m;
    return MLSYS_OK;
}

void mlsi_pre_match_free(mlsi_pre_match *m) {
    if (!m) return;
    for (int i = 0; i < m->pre->n; i++)
        pcre2_match_data_free(m->data[i]);
    pcre2_match_context_free(m->limits);
    mlsi_mem_free(m->pre->alloc, m);
}

/* One match at or after from: [*begin, *end), not empty; *begin = n when there is none. */
static mlsys_status next_match(mlsi_pre_match *m, int level, const char *text, uint64_t n,
                               uint64_t from, uint64_t *begin, uint64_t *end) {
    pcre2_match_data *data = m->data[level];
    const pcre2_code *code = m->pre->code[level];
    int rc = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK, data, m->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter keeps its stack on the heap */
        rc = pcre2_match(code, (PCRE2_SPTR)text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data,
                         m->limits);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data);
    *begin = *end = n;
    if (rc == PCRE2_ERROR_NOMATCH) return MLSYS_OK;
    if (rc < 0) return pcre2_failed(rc, "matching");
    if (range[1] <= range[0]) return mlsi_fail(MLSYS_E_INTERNAL, "tokenizer: an empty match");
    *begin = range[0];
    *end = range[1];
    return MLSYS_OK;
}

static mlsys_status split(mlsi_pre_match *m, int level, const char *text, uint64_t n) {
    if (level == m->pre->n) return m->word(m->arg, text, n);
    for (uint64_t at = 0, begin, end; at < n; at = end) {
        MLSI_TRY(next_match(m, level, text, n, at, &begin, &end));
        if (begin > at) MLSI_TRY(split(m, level + 1, text + at, begin - at));
        if (end > begin) MLSI_TRY(split(m, level + 1, text + begin, end - begin));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_pre_split(mlsi_pre_match *m, const char *text, uint64_t n,
                            mlsys_status (*word)(void *arg, const char *p, uint64_t n), void *arg) {
    /* A run of n spaces is walked back over once; anything beyond is no text but an attack. */
    pcre2_set_match_limit(m->limits, n < 100000000 ? (uint32_t)(10000000 + 16 * n) : UINT32_MAX);
    m->word = word;
    m->arg = arg;
    return split(m, 0, text, n);
}

#else

mlsys_status mlsi_pre_create(mlsi_alloc *a, mlsi_bytes name, mlsi_pre_traits *traits,
                             mlsi_pre **out) {
    (void)a, (void)traits, (void)pre_sets;
    *out = NULL;
    if (!find_name(name)) return unknown_name(name);
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "tokenizer: byte-level BPE needs PCRE2, which this build "
                                          "of the library was made without");
}
void mlsi_pre_free(mlsi_pre *p) { (void)p; }
mlsys_status mlsi_pre_match_create(const mlsi_pre *p, mlsi_pre_match **out) {
    (void)p;
    *out = NULL;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "tokenizer: built without PCRE2");
}
void mlsi_pre_match_free(mlsi_pre_match *m) { (void)m; }
mlsys_status mlsi_pre_split(mlsi_pre_match *m, const char *text, uint64_t n,
                            mlsys_status (*word)(void *arg, const char *p, uint64_t n), void *arg) {
    (void)m, (void)text, (void)n, (void)word, (void)arg;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "tokenizer: built without PCRE2");
}

#endif
