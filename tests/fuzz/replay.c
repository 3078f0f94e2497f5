/* Main program of a fuzz target without libFuzzer: any compiler, any sanitizer, in `make check`.
 * Replays a corpus, then a fixed number of mutations of it, the same on every run.
 *
 *     replay_NAME [-runs=N] [-seed=S] [-only=I] [-verbose=1] [FILE or FOLDER...]
 *
 * Without files the inputs are those of tests/fuzz/corpus/NAME. A finding is a crash: the target
 * traps or a sanitizer stops it. -verbose=1 prints each mutation's number first, -only=I repeats
 * one. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

static input *corpus;
static size_t n_corpus;

static void *checked(void *p) {
    if (p) return p;
    fprintf(stderr, "replay: no memory\n");
    exit(99);
}

static void load_file(const char *path) {
    FILE *f = fopen(path, "rb");
    long size = -1;
    if (f && fseek(f, 0, SEEK_END) == 0) size = ftell(f);
    input in = {.size = size > 0 ? (size_t)size : 0};
    in.data = checked(malloc(in.size + 1));
    if (size < 0 || fseek(f, 0, SEEK_SET) != 0 || fread(in.data, 1, in.size, f) != in.size) {
        fprintf(stderr, "replay: cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    corpus = checked(realloc(corpus, (n_corpus + 1) * sizeof *corpus));
    corpus[n_corpus++] = in;
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

static void load(const char *path) {
    struct stat st;
    struct dirent **names;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "replay: nothing at %s (run from the top of the tree)\n", path);
        exit(1);
    }
    if (!S_ISDIR(st.st_mode)) {
        load_file(path);
        return;
    }
    int n = scandir(path, &names, visible, alphasort); /* sorted: mutations depend on the order */
    for (int i = 0; i < n; i++) {
        char full[4096];
        snprintf(full, sizeof full, "%s/%s", path, names[i]->d_name);
        load_file(full);
        free(names[i]);
    }
    if (n >= 0) free(names);
}

/* ---- mutation ------------------------------------------------------------------------------- */

static uint64_t next_bits(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static size_t below(uint64_t *state, size_t n) { return n ? (size_t)(next_bits(state) % n) : 0; }

/* Numbers at the edges of what size arithmetic survives. */
static uint64_t edge_number(uint64_t *state) {
    static const uint64_t edges[] = {
        0,          1,           2,           7,          8,
        31,         32,          255,         65535,      65536,
        0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu, 1ull << 32, (1ull << 32) + 1,
        1ull << 42, INT64_MAX,   1ull << 63};
    uint64_t kind = next_bits(state) % 4;
    if (kind == 0) return 0 - next_bits(state) % 512; /* just below 2^64 */
    if (kind == 1) return next_bits(state) >> (next_bits(state) & 63);
    return edges[below(state, sizeof edges / sizeof edges[0])];
}

/* p has room for twice the size and 64 bytes. */
static void mutate_once(uint8_t *p, size_t *size, uint64_t *state) {
    size_t n = *size, at = below(state, n), len = 1 + below(state, n < 64 ? n : 64);
    if (n == 0) {
        p[0] = (uint8_t)next_bits(state);
        *size = 1;
        return;
    }
    if (len > n - at) len = n - at;
    uint64_t v = edge_number(state);
    size_t width = next_bits(state) & 1 ? 8 : 4;
    switch (next_bits(state) % 8) {
    case 0: p[at] ^= (uint8_t)(1u << (next_bits(state) & 7)); break;
    case 1: p[at] = (uint8_t)next_bits(state); break;
    case 2:
    case 3: memcpy(p + at, &v, n - at < width ? n - at : width); break;
    case 4: *size = at; break;
    case 5: /* erase */
        memmove(p + at, p + at + len, n - at - len);
        *size = n - len;
        break;
    case 6: /* repeat */
        memmove(p + at + len, p + at, n - at);
        *size = n + len;
        break;
    default: memmove(p + below(state, n - len + 1), p + at, len); break; /* copy over */
    }
}

static void run_exact(const uint8_t *data, size_t size) {
    uint8_t *exact = checked(malloc(size ? size : 1)); /* so that a sanitizer sees the end */
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_mutation(uint64_t seed, uint64_t index) {
    enum { STEPS = 4 };
    uint64_t state = seed ^ index * 0xd1342543de82ef95ull;
    input from = corpus[below(&state, n_corpus)];
    uint8_t *p = checked(malloc(from.size * 2 + 64 * STEPS + 64));
    size_t size = from.size;
    memcpy(p, from.data, size);
    for (size_t i = 1 + below(&state, STEPS); i-- > 0;)
        mutate_once(p, &size, &state);
    run_exact(p, size);
    free(p);
}

int main(int argc, char **argv) {
    unsigned long long runs = 20000, seed = 1, only = 0, verbose = 0;
    const char *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    if (!strncmp(name, "replay_", 7)) name += 7;
    for (int i = 1; i < argc; i++)
        if (sscanf(argv[i], "-runs=%llu", &runs) != 1 &&
            sscanf(argv[i], "-seed=%llu", &seed) != 1 &&
            sscanf(argv[i], "-only=%llu", &only) != 1 &&
            sscanf(argv[i], "-verbose=%llu", &verbose) != 1)
            load(argv[i]);
    if (n_corpus == 0) {
        char path[512];
        snprintf(path, sizeof path, "tests/fuzz/corpus/%s", name);
        load(path);
    }
    for (size_t i = 0; i < n_corpus && !only; i++)
        run_exact(corpus[i].data, corpus[i].size);
    unsigned long long first = only ? only : 1, last = only ? only : runs;
    for (unsigned long long i = first; n_corpus && i <= last; i++) {
        if (verbose) fprintf(stderr, "mutation %llu of seed %llu\n", i, seed);
        run_mutation(seed, i);
    }
    printf("%s: %zu inputs, %llu mutations of seed %llu\n", name, n_corpus, last - first + 1, seed);
    for (size_t i = 0; i < n_corpus; i++)
        free(corpus[i].data);
    free(corpus);
    return n_corpus ? 0 : 1;
}
