/* Lookups in an open index. Names are found by binary search in the sorted index arrays. */
#include "model/gguf_scan.h"

const mlsi_gguf_kv *mlsi_gguf_find(const mlsi_gguf *g, const char *key) {
    for (uint64_t low = 0, high = g->n_kv; low < high;) {
        uint64_t mid = low + (high - low) / 2;
        const mlsi_gguf_kv *kv = &g->kv[g->kv_by_key[mid]];
        int c = strcmp(key, kv->key);
        if (c == 0) return kv;
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

const mlsi_gguf_tensor *mlsi_gguf_tensor_find(const mlsi_gguf *g, const char *name) {
    for (uint64_t low = 0, high = g->n_tensors; low < high;) {
        uint64_t mid = low + (high - low) / 2;
        const mlsi_gguf_tensor *t = &g->tensors[g->tensors_by_name[mid]];
        int c = strcmp(name, t->name);
        if (c == 0) return t;
        if (c < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

mlsys_status mlsi_gguf_tensor_get(const mlsi_gguf *g, const char *name,
                                  const mlsi_gguf_tensor **out) {
    *out = mlsi_gguf_tensor_find(g, name);
    if (*out) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_NOTFOUND, "%s: no tensor \"%.96s\" among %llu", g->file, name,
                     (unsigned long long)g->n_tensors);
}

/* ---- scalars -------------------------------------------------------------------------------- */

static bool is_int(mlsi_gguf_type t) {
    return t <= MLSI_GGUF_I32 || t == MLSI_GGUF_U64 || t == MLSI_GGUF_I64;
}

/* Integers of every type as 64 bits; u64 keeps its bits. */
static int64_t load_int(mlsi_gguf_type type, const uint8_t *p) {
    uint16_t u16;
    switch (type) {
    case MLSI_GGUF_U8: return p[0];
    case MLSI_GGUF_I8: return (int8_t)p[0];
    case MLSI_GGUF_U16: memcpy(&u16, p, 2); return u16;
    case MLSI_GGUF_I16: memcpy(&u16, p, 2); return (int16_t)u16;
    case MLSI_GGUF_U32: return mlsi_gguf_load_u32(p);
    case MLSI_GGUF_I32: return (int32_t)mlsi_gguf_load_u32(p);
    default: return (int64_t)mlsi_gguf_load_u64(p);
    }
}

static double load_f64(mlsi_gguf_type type, const uint8_t *p) {
    double d;
    if (type == MLSI_GGUF_F32) return mlsi_bits_f32(mlsi_gguf_load_u32(p));
    if (type == MLSI_GGUF_U64) return (double)mlsi_gguf_load_u64(p);
    if (type != MLSI_GGUF_F64) return (double)load_int(type, p);
    memcpy(&d, p, 8);
    return d;
}

static mlsys_status lookup(const mlsi_gguf *g, const char *key, const mlsi_gguf_kv **out) {
    *out = mlsi_gguf_find(g, key);
    if (*out) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_NOTFOUND, "%s: no metadata key \"%.96s\"", g->file, key);
}

static mlsys_status wrong_type(const mlsi_gguf *g, const mlsi_gguf_kv *kv, const char *wanted) {
    return mlsi_fail(MLSYS_E_FORMAT, "%s: metadata key \"%.96s\" is %s, wanted %s", g->file,
                     kv->key, mlsi_gguf_type_name(kv->type), wanted);
}

mlsys_status mlsi_gguf_get_u64(const mlsi_gguf *g, const char *key, uint64_t *out) {
    const mlsi_gguf_kv *kv;
    *out = 0;
    MLSI_TRY(lookup(g, key, &kv));
    if (!is_int(kv->type)) return wrong_type(g, kv, "an integer");
    int64_t v = load_int(kv->type, kv->value);
    if (v < 0 && kv->type != MLSI_GGUF_U64)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: metadata key \"%.96s\" is negative: %lld", g->file,
                         key, (long long)v);
    *out = (uint64_t)v;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_get_i64(const mlsi_gguf *g, const char *key, int64_t *out) {
    const mlsi_gguf_kv *kv;
    *out = 0;
    MLSI_TRY(lookup(g, key, &kv));
    if (!is_int(kv->type)) return wrong_type(g, kv, "an integer");
    int64_t v = load_int(kv->type, kv->value);
    if (v < 0 && kv->type == MLSI_GGUF_U64)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: metadata key \"%.96s\" is %llu, above 2^63-1",
                         g->file, key, (unsigned long long)v);
    *out = v;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_get_f64(const mlsi_gguf *g, const char *key, double *out) {
    const mlsi_gguf_kv *kv;
    *out = 0;
    MLSI_TRY(lookup(g, key, &kv));
    if (!is_int(kv->type) && kv->type != MLSI_GGUF_F32 && kv->type != MLSI_GGUF_F64)
        return wrong_type(g, kv, "a number");
    *out = load_f64(kv->type, kv->value);
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_get_bool(const mlsi_gguf *g, const char *key, bool *out) {
    const mlsi_gguf_kv *kv;
    *out = false;
    MLSI_TRY(lookup(g, key, &kv));
    if (kv->type != MLSI_GGUF_BOOL) return wrong_type(g, kv, "a bool");
    *out = kv->value[0] != 0;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_get_str(const mlsi_gguf *g, const char *key, mlsi_gguf_str *out) {
    const mlsi_gguf_kv *kv;
    *out = (mlsi_gguf_str){.data = "", .len = 0};
    MLSI_TRY(lookup(g, key, &kv));
    if (kv->type != MLSI_GGUF_STR) return wrong_type(g, kv, "a string");
    *out =
        (mlsi_gguf_str){.data = (const char *)kv->value + 8, .len = mlsi_gguf_load_u64(kv->value)};
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_get_array(const mlsi_gguf *g, const char *key, mlsi_gguf_type type,
                                 mlsi_gguf_array *out) {
    const mlsi_gguf_kv *kv;
    memset(out, 0, sizeof *out);
    MLSI_TRY(lookup(g, key, &kv));
    if (kv->type != MLSI_GGUF_ARRAY) return wrong_type(g, kv, "an array");
    if (type != MLSI_GGUF_TYPES && kv->array.type != type)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: metadata key \"%.96s\" is an array of %s, wanted %s",
                         g->file, key, mlsi_gguf_type_name(kv->array.type),
                         mlsi_gguf_type_name(type));
    *out = kv->array;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_get_u64_or(const mlsi_gguf *g, const char *key, uint64_t absent,
                                  uint64_t *out) {
    *out = absent;
    return mlsi_gguf_find(g, key) ? mlsi_gguf_get_u64(g, key, out) : MLSYS_OK;
}

mlsys_status mlsi_gguf_get_i64_or(const mlsi_gguf *g, const char *key, int64_t absent,
                                  int64_t *out) {
    *out = absent;
    return mlsi_gguf_find(g, key) ? mlsi_gguf_get_i64(g, key, out) : MLSYS_OK;
}

mlsys_status mlsi_gguf_get_f64_or(const mlsi_gguf *g, const char *key, double absent, double *out) {
    *out = absent;
    return mlsi_gguf_find(g, key) ? mlsi_gguf_get_f64(g, key, out) : MLSYS_OK;
}

mlsys_status mlsi_gguf_get_bool_or(const mlsi_gguf *g, const char *key, bool absent, bool *out) {
    *out = absent;
    return mlsi_gguf_find(g, key) ? mlsi_gguf_get_bool(g, key, out) : MLSYS_OK;
}

/* ---- array elements ------------------------------------------------------------------------- */

mlsi_gguf_str mlsi_gguf_array_str(const mlsi_gguf_array *a, uint64_t i) {
    const uint8_t *p = a->data + a->strings[i];
    return (mlsi_gguf_str){.data = (const char *)p + 8, .len = mlsi_gguf_load_u64(p)};
}

int64_t mlsi_gguf_array_i64(const mlsi_gguf_array *a, uint64_t i) {
    return load_int(a->type, a->data + i * mlsi_gguf_scalar_bytes(a->type));
}

double mlsi_gguf_array_f64(const mlsi_gguf_array *a, uint64_t i) {
    return load_f64(a->type, a->data + i * mlsi_gguf_scalar_bytes(a->type));
}

float mlsi_gguf_array_f32(const mlsi_gguf_array *a, uint64_t i) {
    return mlsi_bits_f32(mlsi_gguf_load_u32(a->data + i * 4));
}

int32_t mlsi_gguf_array_i32(const mlsi_gguf_array *a, uint64_t i) {
    return (int32_t)mlsi_gguf_load_u32(a->data + i * 4);
}

bool mlsi_gguf_array_bool(const mlsi_gguf_array *a, uint64_t i) { return a->data[i] != 0; }

bool mlsi_gguf_str_eq(mlsi_gguf_str s, const char *text) {
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}
