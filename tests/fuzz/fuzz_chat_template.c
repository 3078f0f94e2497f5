/* Any bytes as a chat template: refused, or run within its limits; nothing stays allocated. */
#include "model/chat_template.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) __builtin_trap();                                                        \
    } while (0)

static const char context[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" be \\u00e4 \"}, {\"role\": \"user\","
    " \"content\": \"hi\\n\"}], \"add_generation_prompt\": true, \"n\": 3, \"f\": 1.5, \"none\": "
    "null,"
    " \"tools\": [{\"name\": \"t\", \"parameters\": {\"a\": [1, 2], \"b\": {}}}], \"s\": \"text\"}";

static bool is_known(mlsys_status st) {
    return st == MLSYS_OK || st == MLSYS_E_FORMAT || st == MLSYS_E_UNSUPPORTED || st == MLSYS_E_ARG;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const mlsi_jinja_limits limits = {.steps = 20000, .memory = 1 << 22};
    mlsi_alloc memory;
    mlsi_arena arena;
    mlsi_jinja *j;
    mlsi_jinja_value globals;
    mlsi_text out;
    mlsi_alloc_init(&memory, NULL);
    mlsi_text_init(&out, &memory);
    mlsi_arena_init(&arena, &memory);
    mlsys_status st = mlsi_jinja_from_json(&arena, (const char *)data, size, &globals);
    DEMAND(st == MLSYS_OK || st == MLSYS_E_FORMAT);
    st = mlsi_jinja_create(&memory, "fuzz", (const char *)data, size, &j);
    DEMAND(is_known(st) && (st == MLSYS_OK) == (j != NULL));
    if (st == MLSYS_OK) {
        DEMAND(mlsi_jinja_from_json(&arena, context, strlen(context), &globals) == MLSYS_OK);
        st = mlsi_jinja_render(j, globals, &limits, &out);
        DEMAND(is_known(st));
        if (st == MLSYS_OK)
            DEMAND(out.data[out.len] == 0);
        else
            DEMAND(out.len == 0 && !strncmp(mlsys_last_error(), "fuzz: line ", 11));
    } else {
        DEMAND(!strncmp(mlsys_last_error(), "fuzz: ", 6));
    }
    mlsi_jinja_free(j);
    mlsi_text_free(&out);
    mlsi_arena_free(&arena);
    DEMAND(memory.live_bytes == 0);
    return 0;
}
