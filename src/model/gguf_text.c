/* Metadata values as text. The walk is over bytes that mlsi_gguf_open has validated. */
#include "model/gguf_scan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The fewest digits that read back to v. printf and strtod follow the host's locale; only its
 * decimal separator can show, and it is put back to '.'. */
static void add_float(mlsi_text *out, double v, bool single) {
    char text[64];
    if (isnan(v) || isinf(v)) {
        mlsi_text_add(out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    if (fabs(v) < 1e15 && v == floor(v)) {
        mlsi_text_add(out, "%.0f", v);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)v : back == v) break;
    }
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        bool usual = (*p >= '0' && *p <= '9') || *p == '-' || *p == '+' || *p == 'e';
        if (usual || n == 0 || text[n - 1] != '.') text[n++] = usual ? *p : '.';
    }
    text[n] = 0;
    mlsi_text_add(out, "%s", text);
}

/* Any bytes, NUL included, which printf would stop at. */
static void add_bytes(mlsi_text *out, mlsi_gguf_str s) {
    if (out->st != MLSYS_OK) return;
    out->st = MLSI_GROW(out->alloc, &out->data, &out->cap, out->len + (int64_t)s.len + 1);
    if (out->st != MLSYS_OK) return;
    memcpy(out->data + out->len, s.data, s.len);
    out->len += (int64_t)s.len;
    out->data[out->len] = 0;
}

static bool plain(uint8_t c) { return c >= 0x20 && c != '"' && c != '\\' && c != 0x7F; }

static void add_json_string(mlsi_text *out, mlsi_gguf_str s) {
    mlsi_text_add(out, "\"");
    for (uint64_t i = 0; i < s.len;) {
        uint64_t run = i;
        while (run < s.len && plain((uint8_t)s.data[run]))
            run++;
        add_bytes(out, (mlsi_gguf_str){.data = s.data + i, .len = run - i});
        i = run;
        if (i == s.len) break;
        uint8_t c = (uint8_t)s.data[i++];
        if (c == '"' || c == '\\')
            mlsi_text_add(out, "\\%c", c);
        else if (c == '\n')
            mlsi_text_add(out, "\\n");
        else
            mlsi_text_add(out, "\\u%04x", c);
    }
    mlsi_text_add(out, "\"");
}

static mlsi_gguf_str take_string(const uint8_t **p) {
    mlsi_gguf_str s = {.data = (const char *)*p + 8, .len = mlsi_gguf_load_u64(*p)};
    *p += 8 + s.len;
    return s;
}

void mlsi_gguf_skip_value(mlsi_gguf_type type, const uint8_t **p) {
    if (type == MLSI_GGUF_STR) {
        take_string(p);
    } else if (type != MLSI_GGUF_ARRAY) {
        *p += mlsi_gguf_scalar_bytes(type);
    } else {
        mlsi_gguf_type inner = (mlsi_gguf_type)mlsi_gguf_load_u32(*p);
        uint64_t n = mlsi_gguf_load_u64(*p + 4);
        *p += 12;
        for (uint64_t i = 0; i < n; i++)
            mlsi_gguf_skip_value(inner, p);
    }
}

static void add_value(mlsi_text *out, mlsi_gguf_type type, const uint8_t **p, uint64_t max_items);

static void add_scalar(mlsi_text *out, mlsi_gguf_type type, const uint8_t *p) {
    mlsi_gguf_array one = {.type = type, .count = 1, .data = p};
    switch (type) {
    case MLSI_GGUF_BOOL: mlsi_text_add(out, "%s", p[0] ? "true" : "false"); break;
    case MLSI_GGUF_F32: add_float(out, mlsi_gguf_array_f64(&one, 0), true); break;
    case MLSI_GGUF_F64: add_float(out, mlsi_gguf_array_f64(&one, 0), false); break;
    case MLSI_GGUF_U64: mlsi_text_add(out, "%" PRIu64, mlsi_gguf_load_u64(p)); break;
    default: mlsi_text_add(out, "%" PRId64, mlsi_gguf_array_i64(&one, 0)); break;
    }
}

static void add_array(mlsi_text *out, const uint8_t **p, uint64_t max_items) {
    mlsi_gguf_type type = (mlsi_gguf_type)mlsi_gguf_load_u32(*p);
    uint64_t n = mlsi_gguf_load_u64(*p + 4);
    *p += 12;
    mlsi_text_add(out, "[");
    for (uint64_t i = 0; i < n && out->st == MLSYS_OK; i++) {
        if (i < max_items) {
            if (i) mlsi_text_add(out, ", ");
            add_value(out, type, p, max_items);
        } else {
            mlsi_gguf_skip_value(type, p);
        }
    }
    if (n > max_items) mlsi_text_add(out, ", ... %" PRIu64 " in all", n);
    mlsi_text_add(out, "]");
}

static void add_value(mlsi_text *out, mlsi_gguf_type type, const uint8_t **p, uint64_t max_items) {
    if (type == MLSI_GGUF_STR) {
        add_json_string(out, take_string(p));
    } else if (type == MLSI_GGUF_ARRAY) {
        add_array(out, p, max_items);
    } else {
        add_scalar(out, type, *p);
        *p += mlsi_gguf_scalar_bytes(type);
    }
}

void mlsi_gguf_value_text(const mlsi_gguf_kv *kv, bool quoted, uint64_t max_items, mlsi_text *out) {
    const uint8_t *p = kv->value;
    if (kv->type != MLSI_GGUF_STR || quoted) {
        add_value(out, kv->type, &p, max_items);
        return;
    }
    add_bytes(out, take_string(&p));
}
