#include "core/ctx.h"
#include "core/faults.h"

#include <string.h>

enum { KEY_BYTES_MAX = 64 };

static void entry_clear(mlsi_config_entry *e) {
    mlsi_mem_free(&mlsi_alloc_process, e->key);
    mlsi_mem_free(&mlsi_alloc_process, e->s);
    memset(e, 0, sizeof *e);
}

static void config_destroy(mlsi_object *object) {
    mlsi_config *c = (mlsi_config *)object;
    for (int64_t i = 0; i < c->count; i++)
        entry_clear(&c->entries[i]);
    mlsi_mem_free(&mlsi_alloc_process, c->entries);
    mlsi_mem_free(&mlsi_alloc_process, c);
}

mlsys_status mlsi_config_create(mlsys_config *out) {
    mlsi_config *c;
    MLSI_TRY(MLSI_NEW(&mlsi_alloc_process, &c));
    mlsys_status st = mlsi_handle_create(&c->object, MLSYS_KIND_CONFIG, NULL, config_destroy, out);
    if (st != MLSYS_OK) config_destroy(&c->object);
    return st;
}

mlsys_status mlsi_config_set(mlsi_config *c, const char *key, const mlsi_config_entry *value) {
    size_t n = key ? strlen(key) : 0;
    if (n == 0 || n >= KEY_BYTES_MAX)
        return mlsi_fail(MLSYS_E_ARG, "config_set: key %s is %s", key ? key : "(NULL)",
                         n ? "longer than 63 bytes" : "empty");
    mlsi_config_entry e = *value;
    e.key = e.s = NULL;
    mlsys_status st = mlsi_mem_strdup(&mlsi_alloc_process, key, &e.key);
    if (st == MLSYS_OK && value->type == 's')
        st = mlsi_mem_strdup(&mlsi_alloc_process, value->s, &e.s);
    mlsi_config_entry *old = (mlsi_config_entry *)mlsi_config_find(c, key);
    if (st == MLSYS_OK && !old)
        st = MLSI_GROW(&mlsi_alloc_process, &c->entries, &c->cap, c->count + 1);
    if (st != MLSYS_OK) {
        entry_clear(&e);
        return st;
    }
    if (old)
        entry_clear(old);
    else
        old = &c->entries[c->count++];
    *old = e;
    return MLSYS_OK;
}

mlsys_status mlsi_config_copy(const mlsi_config *from, mlsys_config *out) {
    MLSI_TRY(mlsi_config_create(out));
    mlsi_config *c;
    mlsys_status st = mlsi_pin(*out, MLSYS_KIND_CONFIG, "config_copy: out", &c);
    for (int64_t i = 0; from && st == MLSYS_OK && i < from->count; i++)
        st = mlsi_config_set(c, from->entries[i].key, &from->entries[i]);
    mlsi_unpin(c);
    if (st != MLSYS_OK) {
        mlsi_handle_release(*out, "config_copy: out");
        *out = NULL;
    }
    return st;
}

const mlsi_config_entry *mlsi_config_find(const mlsi_config *c, const char *key) {
    for (int64_t i = 0; c && i < c->count; i++)
        if (!strcmp(c->entries[i].key, key)) return &c->entries[i];
    return NULL;
}

static const char *type_name(char type) {
    return type == 'i'   ? "an integer"
           : type == 'f' ? "a number"
           : type == 's' ? "a text"
                         : "a list of integers";
}

static mlsys_status check_entry(const mlsi_config_entry *e, const char *scope,
                                const mlsi_config_key *k) {
    if (e->type != k->type && !(k->type == 'f' && e->type == 'i'))
        return mlsi_fail(MLSYS_E_ARG, "%s: key \"%s\" is %s, not %s", scope, e->key,
                         type_name(k->type), type_name(e->type));
    if (e->type == 's') return MLSYS_OK;
    double value = e->type == 'i' ? (double)e->i : e->f;
    if (value >= k->min && value <= k->max) return MLSYS_OK; /* false for NaN */
    if (mlsi_fault(MLSI_FAULT_CONFIG_BOUNDS)) return MLSYS_OK;
    if (e->type == 'i')
        return mlsi_fail(MLSYS_E_ARG, "%s: key \"%s\" is outside %.17g..%.17g: %lld", scope, e->key,
                         k->min, k->max, (long long)e->i);
    return mlsi_fail(MLSYS_E_ARG, "%s: key \"%s\" is outside %.17g..%.17g: %.17g", scope, e->key,
                     k->min, k->max, e->f);
}

mlsys_status mlsi_config_check(const mlsi_config *c, const char *scope, const mlsi_config_key *keys,
                               int n_keys) {
    for (int64_t i = 0; c && i < c->count; i++) {
        const mlsi_config_key *k = NULL;
        for (int j = 0; j < n_keys && !k; j++)
            if (!strcmp(keys[j].name, c->entries[i].key)) k = &keys[j];
        if (!k)
            return mlsi_fail(MLSYS_E_NOTFOUND, "%s: unknown key \"%s\"", scope, c->entries[i].key);
        MLSI_TRY(check_entry(&c->entries[i], scope, k));
    }
    return MLSYS_OK;
}

int64_t mlsi_config_i64(const mlsi_config *c, const char *key, int64_t default_) {
    const mlsi_config_entry *e = mlsi_config_find(c, key);
    return e && e->type == 'i' ? e->i : default_;
}

double mlsi_config_f64(const mlsi_config *c, const char *key, double default_) {
    const mlsi_config_entry *e = mlsi_config_find(c, key);
    if (e && e->type == 'i') return (double)e->i;
    return e && e->type == 'f' ? e->f : default_;
}

const char *mlsi_config_str(const mlsi_config *c, const char *key, const char *default_) {
    const mlsi_config_entry *e = mlsi_config_find(c, key);
    return e && e->type == 's' ? e->s : default_;
}

void mlsi_config_keys_text(const mlsi_config_key *keys, int n_keys, mlsi_text *out) {
    for (int i = 0; i < n_keys; i++) {
        const mlsi_config_key *k = &keys[i];
        const char *type = k->type == 'i' ? "i64" : k->type == 'f' ? "f64" : "str";
        mlsi_text_add(out, "%s %s %s", k->name, type, k->default_text);
        if (k->type != 's') mlsi_text_add(out, " [%.17g, %.17g]", k->min, k->max);
        mlsi_text_add(out, ": %s\n", k->help);
    }
}
