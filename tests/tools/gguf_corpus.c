/* Writes the committed fuzz corpus of the GGUF reader: gguf_corpus FOLDER.
 * Build: cc -Itests tests/tools/gguf_corpus.c tests/support/gguf_writer.c */
#include "support/gguf_writer.h"

#include <stdio.h>
#include <string.h>

static int save(gguf_writer *w, const char *folder, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    int failed = gguf_writer_save(w, path);
    gguf_writer_free(w);
    gguf_writer_init(w);
    if (failed) fprintf(stderr, "gguf_corpus: cannot write %s\n", path);
    return failed;
}

int main(int argc, char **argv) {
    const uint64_t four[4] = {2, 3, 1, 2}, one[1] = {32}, wide[2] = {256, 1};
    const char *const words[3] = {"hello", "", "w"};
    gguf_writer w;
    if (argc != 2) return 2;
    int failed = 0;
    gguf_writer_init(&w);
    failed |= save(&w, argv[1], "nothing");
    gguf_put_str(&w, "general.architecture", "llama");
    gguf_put_alignment(&w, 64);
    gguf_put_strs(&w, "tokenizer.ggml.tokens", 3, words);
    gguf_put_random(&w, "token_embd.weight", 0, 4, four, 1, 1.0f);
    gguf_put_random(&w, "output.weight", 3, 1, one, 1, 1.0f);
    failed |= save(&w, argv[1], "small");
    w.version = 2;
    gguf_put_random(&w, "k", 14, 2, wide, 1, 1.0f);
    gguf_put_f32(&w, "eps", 1e-5f);
    failed |= save(&w, argv[1], "version2");
    gguf_put_array(&w, "nested", 9, 1, NULL);
    for (int i = 0; i < 3; i++) {
        gguf_bytes_u32(&w.kv, 9);
        gguf_bytes_u64(&w.kv, 1);
    }
    gguf_bytes_u32(&w.kv, 7);
    gguf_bytes_u64(&w.kv, 0);
    failed |= save(&w, argv[1], "too_deep");
    gguf_put_everything(&w);
    failed |= save(&w, argv[1], "everything");
    return failed;
}
