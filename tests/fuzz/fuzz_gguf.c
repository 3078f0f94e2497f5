/* Any bytes as a GGUF file: they are refused, or every pointer, count and text of the index is
 * sound. Also checked: the stated bound on memory, and that nothing stays allocated. */
#include "model/gguf.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

static void demand_inside(const mlsi_gguf *g, const void *p, uint64_t bytes) {
    uintptr_t base = (uintptr_t)g->base, at = (uintptr_t)p;
    DEMAND(at >= base && at - base <= g->size && bytes <= g->size - (at - base));
}

/* Reads every element, so that a sanitizer sees what an out-of-range pointer would do. */
static uint64_t visit_array(const mlsi_gguf *g, const mlsi_gguf_array *a) {
    uint64_t sum = 0;
    demand_inside(g, a->data, 0);
    DEMAND(a->count <= g->size || a->count == 0);
    for (uint64_t i = 0; i < a->count; i++) {
        if (a->type == MLSI_GGUF_STR) {
            mlsi_gguf_str s = mlsi_gguf_array_str(a, i);
            demand_inside(g, s.data, s.len);
            for (uint64_t j = 0; j < s.len; j++)
                sum += (uint8_t)s.data[j];
        } else if (a->type == MLSI_GGUF_BOOL) {
            sum += mlsi_gguf_array_bool(a, i);
        } else if (a->type != MLSI_GGUF_ARRAY) {
            sum += mlsi_gguf_array_f64(a, i) > 0;
        }
    }
    return sum;
}

static uint64_t visit_metadata(mlsi_alloc *alloc, const mlsi_gguf *g) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const mlsi_gguf_kv *kv = &g->kv[i];
        mlsi_gguf_str s;
        mlsi_text text;
        DEMAND(mlsi_gguf_find(g, kv->key) == kv);
        demand_inside(g, kv->value, 1);
        if (kv->type == MLSI_GGUF_ARRAY) sum += visit_array(g, &kv->array);
        if (kv->type == MLSI_GGUF_STR) {
            DEMAND(mlsi_gguf_get_str(g, kv->key, &s) == MLSYS_OK);
            demand_inside(g, s.data, s.len);
        }
        mlsi_text_init(&text, alloc);
        mlsi_gguf_value_text(kv, i % 2, 5, &text);
        sum += (uint64_t)text.len;
        mlsi_text_free(&text);
    }
    return sum;
}

static uint64_t visit_tensors(const mlsi_gguf *g) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const mlsi_gguf_tensor *t = &g->tensors[i];
        DEMAND(mlsi_gguf_tensor_find(g, t->name) == t);
        demand_inside(g, t->data, t->bytes);
        DEMAND(mlsi_layout_bytes(&t->layout) == t->bytes);
        DEMAND(((uintptr_t)t->data - (uintptr_t)g->base) % 8 == 0);
        for (uint64_t j = 0; j < t->bytes; j++)
            sum += ((const uint8_t *)t->data)[j];
    }
    return sum;
}

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1); /* aligned, and with an end that a sanitizer knows */
    mlsi_alloc alloc;
    mlsi_gguf *g;
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    mlsi_alloc_init(&alloc, NULL);
    mlsys_status st = mlsi_gguf_open(&alloc, "fuzz.gguf", copy, size, &g);
    DEMAND(alloc.peak_bytes <= 10 * (uint64_t)size + 128 * 1024);
    if (st == MLSYS_OK) {
        sink = visit_metadata(&alloc, g) + visit_tensors(g);
        mlsi_gguf_close(g);
    } else {
        DEMAND(st == MLSYS_E_FORMAT || st == MLSYS_E_UNSUPPORTED);
        DEMAND(g == NULL && !strncmp(mlsys_last_error(), "fuzz.gguf: ", 11));
    }
    DEMAND(alloc.live_bytes == 0);
    free(copy);
    return 0;
}
