#include "model/gguf_scan.h"

#include "core/faults.h"

#include <stdarg.h>
#include <stdio.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "GGUF data is used in place, so the host must be little-endian");

enum { NAME_SHOWN = 96 };

mlsys_status mlsi_gguf_bad(const mlsi_gguf_scan *s, mlsys_status code, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!s->item) return mlsi_fail(code, "%s: %s", s->file, text);
    if (!s->name.data)
        return mlsi_fail(code, "%s: %s %llu: %s", s->file, s->item, (unsigned long long)s->index,
                         text);
    int shown = s->name.len < NAME_SHOWN ? (int)s->name.len : NAME_SHOWN;
    while (shown < (int)s->name.len && shown > 0 && ((uint8_t)s->name.data[shown] & 0xC0) == 0x80)
        shown--; /* do not cut a character */
    return mlsi_fail(code, "%s: %s \"%.*s%s\": %s", s->file, s->item, shown, s->name.data,
                     (uint64_t)shown < s->name.len ? "..." : "", text);
}

mlsys_status mlsi_gguf_need(const mlsi_gguf_scan *s, uint64_t bytes, const char *field) {
    if (s->size - s->pos >= bytes) return MLSYS_OK;
    if (mlsi_fault(MLSI_FAULT_GGUF_STRING_BOUND) && s->pos + bytes <= s->size) return MLSYS_OK;
    return mlsi_gguf_bad(
        s, MLSYS_E_FORMAT, "%s needs %llu bytes at offset %llu, the file has %llu (truncated)",
        field, (unsigned long long)bytes, (unsigned long long)s->pos, (unsigned long long)s->size);
}

mlsys_status mlsi_gguf_read_u32(mlsi_gguf_scan *s, const char *field, uint32_t *out) {
    *out = 0;
    MLSI_TRY(mlsi_gguf_need(s, 4, field));
    *out = mlsi_gguf_load_u32(s->base + s->pos);
    s->pos += 4;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_read_u64(mlsi_gguf_scan *s, const char *field, uint64_t *out) {
    *out = 0;
    MLSI_TRY(mlsi_gguf_need(s, 8, field));
    *out = mlsi_gguf_load_u64(s->base + s->pos);
    s->pos += 8;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_read_str(mlsi_gguf_scan *s, const char *field, mlsi_gguf_str *out) {
    out->data = NULL;
    MLSI_TRY(mlsi_gguf_read_u64(s, field, &out->len));
    MLSI_TRY(mlsi_gguf_need(s, out->len, field));
    out->data = (const char *)s->base + s->pos;
    s->pos += out->len;
    return MLSYS_OK;
}

/* Bytes of the UTF-8 character at p, by Unicode's table of well-formed sequences; 0 if malformed.
 */
static int utf8_len(const uint8_t *p, uint64_t n) {
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    int len = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : 2;
    if (c < 0xC2 || c > 0xF4 || n < (uint64_t)len) return 0;
    uint8_t low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    uint8_t high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high) return 0;
    for (int i = 2; i < len; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return len;
}

mlsys_status mlsi_gguf_read_name(mlsi_gguf_scan *s, const char *field) {
    mlsi_gguf_str name;
    s->name.data = NULL;
    MLSI_TRY(mlsi_gguf_read_str(s, field, &name));
    if (name.len == 0 || name.len > MLSI_GGUF_MAX_NAME)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "%s has %llu bytes, allowed are 1 to %d", field,
                             (unsigned long long)name.len, MLSI_GGUF_MAX_NAME);
    const uint8_t *p = (const uint8_t *)name.data;
    for (uint64_t i = 0; i < name.len;) {
        int len = utf8_len(p + i, name.len - i);
        if (!len || p[i] < 0x20 || p[i] == 0x7F)
            return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                                 "%s is not printable UTF-8: byte %llu is 0x%02x", field,
                                 (unsigned long long)i, p[i]);
        i += (uint64_t)len;
    }
    s->name = name;
    return MLSYS_OK;
}

/* ---- values --------------------------------------------------------------------------------- */

uint64_t mlsi_gguf_scalar_bytes(uint32_t type) {
    static const uint8_t bytes[MLSI_GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < MLSI_GGUF_TYPES ? bytes[type] : 0;
}

static mlsys_status check_bools(const mlsi_gguf_scan *s, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        if (s->base[s->pos + i] > 1)
            return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "bool %llu has the value %d, neither 0 nor 1",
                                 (unsigned long long)i, s->base[s->pos + i]);
    return MLSYS_OK;
}

/* count strings; offsets from the first go to table unless it is NULL. */
static mlsys_status skip_strings(mlsi_gguf_scan *s, uint64_t count, uint64_t *table) {
    uint64_t first = s->pos;
    for (uint64_t i = 0; i < count; i++) {
        mlsi_gguf_str unused;
        if (table) table[i] = s->pos - first;
        MLSI_TRY(mlsi_gguf_read_str(s, "string of an array", &unused));
    }
    return MLSYS_OK;
}

/* An array from its element type on; depth is that of its elements. */
static mlsys_status read_array(mlsi_gguf_scan *s, int depth, mlsi_arena *arena,
                               mlsi_gguf_array *out) {
    uint32_t type;
    uint64_t count;
    MLSI_TRY(mlsi_gguf_read_u32(s, "element type of an array", &type));
    MLSI_TRY(mlsi_gguf_read_u64(s, "length of an array", &count));
    if (type >= MLSI_GGUF_TYPES)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "array element type %u is unknown (0 to 12)", type);
    /* strings have a length at least, arrays a type and a length */
    uint64_t each = type == MLSI_GGUF_STR     ? 8
                    : type == MLSI_GGUF_ARRAY ? 12
                                              : mlsi_gguf_scalar_bytes(type);
    if (count > (s->size - s->pos) / each)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT,
                             "array of %llu %s needs at least %llu bytes each at offset %llu, the "
                             "file has %llu",
                             (unsigned long long)count, mlsi_gguf_type_name((mlsi_gguf_type)type),
                             (unsigned long long)each, (unsigned long long)s->pos,
                             (unsigned long long)s->size);
    *out =
        (mlsi_gguf_array){.type = (mlsi_gguf_type)type, .count = count, .data = s->base + s->pos};
    if (type == MLSI_GGUF_ARRAY) {
        if (depth >= MLSI_GGUF_MAX_NESTING)
            return mlsi_gguf_bad(s, MLSYS_E_UNSUPPORTED, "arrays are nested deeper than %d",
                                 MLSI_GGUF_MAX_NESTING);
        for (uint64_t i = 0; i < count; i++) {
            mlsi_gguf_array inner;
            MLSI_TRY(read_array(s, depth + 1, NULL, &inner));
        }
        return MLSYS_OK;
    }
    if (type == MLSI_GGUF_STR) {
        uint64_t *table = NULL;
        if (arena) MLSI_TRY(mlsi_arena_zalloc(arena, count * 8, (void **)&table));
        out->strings = table;
        return skip_strings(s, count, table);
    }
    if (type == MLSI_GGUF_BOOL) MLSI_TRY(check_bools(s, count));
    s->pos += count * each; /* fits: count <= remaining / each */
    return MLSYS_OK;
}

/* The loader's own key. It must be known before the tensors are read. */
static mlsys_status note_alignment(mlsi_gguf_scan *s, const mlsi_gguf_kv *kv) {
    if (!mlsi_gguf_str_eq(s->name, "general.alignment")) return MLSYS_OK;
    if (kv->type != MLSI_GGUF_U32)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "must be u32, is %s",
                             mlsi_gguf_type_name(kv->type));
    uint32_t v = mlsi_gguf_load_u32(kv->value);
    if (v < 8 || (v & (v - 1)) != 0)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "must be a power of two of at least 8, is %u", v);
    s->alignment = v;
    return MLSYS_OK;
}

mlsys_status mlsi_gguf_read_kv(mlsi_gguf_scan *s, mlsi_arena *arena, mlsi_gguf_kv *kv) {
    uint32_t type;
    memset(kv, 0, sizeof *kv);
    MLSI_TRY(mlsi_gguf_read_name(s, "key"));
    MLSI_TRY(mlsi_gguf_read_u32(s, "value type", &type));
    if (type >= MLSI_GGUF_TYPES)
        return mlsi_gguf_bad(s, MLSYS_E_FORMAT, "value type %u is unknown (0 to 12)", type);
    kv->type = (mlsi_gguf_type)type;
    kv->value = s->base + s->pos;
    if (type == MLSI_GGUF_ARRAY) {
        MLSI_TRY(read_array(s, 1, arena, &kv->array));
    } else if (type == MLSI_GGUF_STR) {
        mlsi_gguf_str unused;
        MLSI_TRY(mlsi_gguf_read_str(s, "string", &unused));
    } else {
        uint64_t bytes = mlsi_gguf_scalar_bytes(type);
        MLSI_TRY(mlsi_gguf_need(s, bytes, "value"));
        if (type == MLSI_GGUF_BOOL) MLSI_TRY(check_bools(s, 1));
        s->pos += bytes;
    }
    MLSI_TRY(note_alignment(s, kv));
    if (!arena) return MLSYS_OK;
    char *key;
    MLSI_TRY(mlsi_arena_zalloc(arena, s->name.len + 1, (void **)&key));
    memcpy(key, s->name.data, s->name.len);
    kv->key = key;
    return MLSYS_OK;
}
