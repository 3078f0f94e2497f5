/* Added tokens: found in raw text, leftmost first, longest at the same place. */
#include "model/tokenizer_impl.h"

#include "core/faults.h"
#include "core/hash.h"

static bool is_added(const mlsi_tokenizer *t, int32_t id) {
    int type = t->type[id];
    return t->start[id] < t->start[id + 1] &&
           (type == MLSI_TOKEN_UNKNOWN || type == MLSI_TOKEN_CONTROL ||
            type == MLSI_TOKEN_USER_DEFINED);
}

/* The slot of an edge, or the empty slot where it belongs; NULL past the bound of probing. */
static mlsi_added_edge *edge(const mlsi_added *a, uint32_t node, uint32_t byte) {
    uint64_t hash = mlsi_hash_mix((uint64_t)node << 8 | byte);
    for (uint64_t i = 0; i < MLSI_MAX_PROBES; i++) {
        mlsi_added_edge *e = &a->edges[(hash + i) & a->mask];
        if (!e->child || (e->node == node && e->byte == byte)) return e;
    }
    return NULL;
}

static mlsys_status insert(mlsi_tokenizer *t, int32_t id) {
    mlsi_added *a = &t->added;
    mlsi_bytes b = mlsi_token_bytes(t, id);
    uint32_t node = 0;
    for (uint64_t i = 0; i < b.len; i++) {
        uint32_t byte = (unsigned char)b.data[i];
        mlsi_added_edge *e = edge(a, node, byte);
        if (!e)
            return mlsi_fail(MLSYS_E_FORMAT,
                             "tokenizer.ggml.tokens: added tokens collide, up to %d", id);
        if (!e->child) *e = (mlsi_added_edge){node, a->n_nodes++, byte};
        node = e->child;
    }
    /* Of two tokens with one text the first counts. */
    if (a->id[node] < 0) a->id[node] = id;
    unsigned char first = (unsigned char)b.data[0];
    a->first_any[first] = true;
    if (t->type[id] == MLSI_TOKEN_USER_DEFINED) a->first_user[first] = true;
    return MLSYS_OK;
}

mlsys_status mlsi_added_build(mlsi_tokenizer *t) {
    mlsi_added *a = &t->added;
    uint64_t nodes = 1, size = 16;
    for (int32_t i = 0; i < t->n; i++)
        if (is_added(t, i)) nodes += t->start[i + 1] - t->start[i];
    while (size < 2 * nodes)
        size *= 2;
    MLSI_TRY(MLSI_NEW_N(t->alloc, size, &a->edges));
    MLSI_TRY(MLSI_NEW_N(t->alloc, nodes, &a->id));
    for (uint64_t i = 0; i < nodes; i++)
        a->id[i] = -1;
    a->mask = size - 1;
    a->n_nodes = 1;
    for (int32_t i = 0; i < t->n; i++)
        if (is_added(t, i)) MLSI_TRY(insert(t, i));
    return MLSYS_OK;
}

void mlsi_added_free(mlsi_tokenizer *t) {
    mlsi_mem_free(t->alloc, t->added.edges);
    mlsi_mem_free(t->alloc, t->added.id);
}

/* The longest added token at the start of p[0..n); its length, 0 when there is none. */
static uint64_t match(const mlsi_tokenizer *t, const char *p, uint64_t n, bool special,
                      int32_t *id) {
    const mlsi_added *a = &t->added;
    uint64_t longest = 0;
    uint32_t node = 0;
    for (uint64_t i = 0; i < n; i++) {
        const mlsi_added_edge *e = edge(a, node, (unsigned char)p[i]);
        if (!e || !e->child) break;
        node = e->child;
        int32_t here = a->id[node];
        if (here < 0 || !(special || t->type[here] == MLSI_TOKEN_USER_DEFINED)) continue;
        longest = i + 1;
        *id = here;
        if (mlsi_fault(MLSI_FAULT_ADDED_SHORTEST)) break;
    }
    return longest;
}

int32_t mlsi_added_find(const mlsi_tokenizer *t, const char *text, uint64_t n, uint64_t from,
                        bool special, uint64_t *at, uint64_t *len) {
    const bool *first = special ? t->added.first_any : t->added.first_user;
    for (uint64_t i = from; i < n; i++) {
        if (!first[(unsigned char)text[i]]) continue;
        int32_t id = -1;
        *len = match(t, text + i, n - i, special, &id);
        if (*len) {
            *at = i;
            return id;
        }
    }
    return -1;
}
