/* Names that tell everything of one kind apart: rewriting nests can leave two lets or buffers of one name. */
#include "core/hash.h"
#include "ir/loop/text.h"

#include <stdio.h>
#include <string.h>

typedef struct name_set {
    mlsi_alloc *alloc;
    const char **slots;
    int64_t n_slots; /* a power of two */
} name_set;

static mlsys_status set_init(name_set *s, mlsi_alloc *a, int64_t count) {
    *s = (name_set){.alloc = a, .n_slots = 16};
    while (s->n_slots < 2 * count)
        s->n_slots *= 2;
    return MLSI_NEW_N(a, s->n_slots, &s->slots);
}

/* False: it is there already. */
static bool set_add(name_set *s, const char *name) {
    uint64_t h = mlsi_hash_mix(mlsi_hash_bytes(MLSI_HASH_SEED, name, strlen(name)));
    int64_t at = (int64_t)(h & (uint64_t)(s->n_slots - 1));
    for (; s->slots[at]; at = (at + 1) & (s->n_slots - 1))
        if (!strcmp(s->slots[at], name)) return false;
    s->slots[at] = name;
    return true;
}

static mlsys_status make_word(mlsi_arena *arena, const char *name, const char **out) {
    char word[MLSI_WORD_BYTES - 40];
    snprintf(word, sizeof word, "%s", name && name[0] ? name : "_");
    for (char *p = word; *p; p++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", *p))
            *p = '_';
    return mlsi_arena_strdup(arena, word, out);
}

/* The word, or the word with a number: as few tries as there are equal names. */
static mlsys_status make_unique(name_set *set, mlsi_arena *arena, const char *name,
                                const char **out) {
    char with[MLSI_WORD_BYTES];
    MLSI_TRY(make_word(arena, name, out));
    const char *word = *out;
    for (int64_t k = 1; !set_add(set, *out); k++) {
        snprintf(with, sizeof with, "%s_%lld", word, (long long)k);
        MLSI_TRY(mlsi_arena_strdup(arena, with, out));
    }
    return MLSYS_OK;
}

typedef const char *(*name_at)(const mlsi_nest *n, int64_t i);

static const char *buffer_name(const mlsi_nest *n, int64_t i) { return n->buffers[i].name; }
static const char *let_name(const mlsi_nest *n, int64_t i) { return n->lets[i].name; }
static const char *acc_name(const mlsi_nest *n, int64_t i) { return n->accs[i].name; }

static mlsys_status make_all(const mlsi_nest *n, mlsi_arena *arena, int64_t count, name_at at,
                             const char ***out) {
    name_set set;
    MLSI_TRY(MLSI_NEW_N(n->alloc, count + 1, out));
    mlsys_status st = set_init(&set, n->alloc, count);
    for (int64_t i = 0; i < count && st == MLSYS_OK; i++)
        st = make_unique(&set, arena, at(n, i), &(*out)[i]);
    mlsi_mem_free(n->alloc, (void *)set.slots);
    return st;
}

mlsys_status mlsi_nest_names_make(const mlsi_nest *n, mlsi_nest_names *out) {
    *out = (mlsi_nest_names){.nest = NULL};
    mlsi_arena_init(&out->arena, n->alloc);
    MLSI_TRY(make_word(&out->arena, n->name, &out->nest));
    MLSI_TRY(make_all(n, &out->arena, n->n_buffers, buffer_name, &out->buffers));
    MLSI_TRY(make_all(n, &out->arena, n->n_lets, let_name, &out->lets));
    return make_all(n, &out->arena, n->n_accs, acc_name, &out->accs);
}

void mlsi_nest_names_free(const mlsi_nest *n, mlsi_nest_names *names) {
    mlsi_mem_free(n->alloc, (void *)names->buffers);
    mlsi_mem_free(n->alloc, (void *)names->lets);
    mlsi_mem_free(n->alloc, (void *)names->accs);
    mlsi_arena_free(&names->arena);
}
