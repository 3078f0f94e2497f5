/* Any bytes as a safetensors file: they are refused, or every pointer and text of the index is sound, the tensors
 * cover the data, and nothing stays allocated. */
#include "model/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

/* Reads every byte, so that a sanitizer sees what an out-of-range pointer would do. */
static uint64_t visit(const mlsi_gguf *g, mlsi_alloc *alloc) {
    uint64_t sum = 0, covered = 0;
    mlsi_text text;
    mlsi_text_init(&text, alloc);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        mlsi_gguf_str s;
        DEMAND(mlsi_gguf_find(g, g->kv[i].key) == &g->kv[i]);
        DEMAND(mlsi_gguf_get_str(g, g->kv[i].key, &s) == MLSYS_OK);
        for (uint64_t k = 0; k < s.len; k++)
            sum += (uint8_t)s.data[k];
        mlsi_gguf_value_text(&g->kv[i], i % 2, 5, &text);
    }
    sum += (uint64_t)text.len;
    mlsi_text_free(&text);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const mlsi_gguf_tensor *t = &g->tensors[i];
        uint64_t at = (uint64_t)((const uint8_t *)t->data - g->base);
        DEMAND(mlsi_gguf_tensor_find(g, t->name) == t);
        DEMAND(at == g->data_start + covered && t->bytes <= g->size - at);
        DEMAND(t->bytes == mlsi_layout_bytes(&t->layout));
        covered += t->bytes;
        for (uint64_t k = 0; k < t->bytes; k++)
            sum += ((const uint8_t *)t->data)[k];
    }
    DEMAND(g->data_start + covered == g->size);
    return sum;
}

static volatile uint64_t sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size ? size : 1); /* with an end that a sanitizer knows */
    mlsi_alloc alloc;
    mlsi_gguf *g;
    if (!copy) return 0;
    if (size) memcpy(copy, data, size);
    mlsi_alloc_init(&alloc, NULL);
    mlsys_status st = mlsi_safetensors_open(&alloc, "fuzz.safetensors", copy, size, &g);
    if (st == MLSYS_OK) {
        sink = visit(g, &alloc);
        mlsi_gguf_close(g);
    } else {
        DEMAND(st == MLSYS_E_FORMAT || st == MLSYS_E_UNSUPPORTED);
        DEMAND(g == NULL && !strncmp(mlsys_last_error(), "fuzz.safetensors: ", 18) !=
                                !strncmp(mlsys_last_error(), "safetensors: built without", 26));
    }
    DEMAND(alloc.live_bytes == 0);
    free(copy);
    return 0;
}
