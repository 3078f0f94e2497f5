#include "cuda/nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 1, COMPILATION = 6 };

static _Atomic(mlsi_nvrtc *) published; /* set once, never freed */

/* ---- find ------------------------------------------------------------------------------------------ */

static mlsys_status find_symbols(void *library, const char *path, mlsi_nvrtc *out) {
    static const char *const names[] = {
#define NAME(member, symbol, parameters) #symbol,
        MLSI_NVRTC_FUNCTIONS(NAME)
#undef NAME
    };
    enum { FUNCTIONS = sizeof names / sizeof names[0] };
    _Static_assert(offsetof(mlsi_nvrtc, major) == FUNCTIONS * sizeof(void *), "a table");
    for (int i = 0; i < FUNCTIONS; i++) {
        void *p = dlsym(library, names[i]);
        if (!p) return mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA C: %.200s has no %s", path, names[i]);
        memcpy((char *)out + i * sizeof(void *), &p, sizeof p);
    }
    return MLSYS_OK;
}

static mlsys_status read_facts(mlsi_nvrtc *n) {
    int r = n->version(&n->major, &n->minor);
    if (!r) r = n->n_archs(&n->n_known);
    if (!r && (n->n_known < 1 || n->n_known > MLSI_NVRTC_ARCHS)) r = -1;
    if (!r) r = n->archs(n->known);
    return r ? mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA C: NVRTC does not start: error %d", r)
             : MLSYS_OK;
}

/* The first that opens; the sentence is the first one's. */
static void *open_library(const char **path) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib64/libnvrtc.so.12"};
    const char *own = getenv("MLSYS_NVRTC");
    const bool named = own && own[0];
    const int n = named ? 1 : (int)(sizeof names / sizeof *names);
    for (int i = 0; i < n; i++) {
        *path = named ? own : names[i];
        void *library = dlopen(*path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library) return library;
        const char *why = dlerror();
        if (i == 0) (void)mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA C: no NVRTC: %.300s", why);
    }
    return NULL;
}

static mlsys_status load(mlsi_nvrtc *n) {
    const char *path;
    void *library = open_library(&path);
    if (!library) return MLSYS_E_UNSUPPORTED;
    mlsys_status st = find_symbols(library, path, n);
    if (st == MLSYS_OK) st = read_facts(n);
    if (st != MLSYS_OK) (void)dlclose(library);
    return st;
}

mlsys_status mlsi_nvrtc_get(const mlsi_nvrtc **out) {
    mlsi_nvrtc *n = atomic_load(&published), *fresh;
    *out = NULL;
    if (!n) {
        MLSI_TRY(MLSI_NEW(&mlsi_alloc_process, &fresh));
        mlsys_status st = load(fresh);
        if (st == MLSYS_OK && atomic_compare_exchange_strong(&published, &n, fresh))
            n = fresh;
        else
            mlsi_mem_free(&mlsi_alloc_process, fresh);
        if (st != MLSYS_OK) return st;
    }
    return *out = n, MLSYS_OK;
}

/* ---- compile ------------------------------------------------------------------------------------------ */

/* Machine code of a smaller minor number runs on a larger one of the same major; PTX on everything newer. */
mlsys_status mlsi_nvrtc_target(const mlsi_nvrtc *n, int arch, char target[MLSI_NVRTC_TARGET],
                               bool *ptx) {
    int best = 0, newest = 0;
    for (int i = 0; i < n->n_known; i++) {
        int k = n->known[i];
        if (k / 10 == arch / 10 && k <= arch && k > best) best = k;
        if (k <= arch && k > newest) newest = k;
    }
    *ptx = !best;
    if (!newest)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "CUDA C: NVRTC %d.%d does not know sm_%d", n->major,
                         n->minor, arch);
    if (best)
        snprintf(target, MLSI_NVRTC_TARGET, "--gpu-architecture=sm_%d%s", best,
                 best == 90 && arch == 90 ? "a" : "");
    else
        snprintf(target, MLSI_NVRTC_TARGET, "--gpu-architecture=compute_%d", newest);
    return MLSYS_OK;
}

const char *const *mlsi_nvrtc_options(void) {
    static const char *const options[] = {"--fmad=false",     "--prec-div=true",
                                          "--prec-sqrt=true", "--ftz=false",
                                          "--std=c++17",      "--device-as-default-execution-space",
                                          "--device-int128",  NULL};
    return options;
}

static mlsys_status first_error(const char *log) {
    const char *line = log;
    while (*line) {
        size_t n = strcspn(line, "\n");
        const char *error = strstr(line, "error");
        if (error && error < line + n)
            return mlsi_fail(MLSYS_E_IO, "CUDA C: %.*s", n < 300 ? (int)n : 300, line);
        line += n + (line[n] == '\n');
    }
    return mlsi_fail(MLSYS_E_IO, "CUDA C: NVRTC refuses the text: %.300s",
                     log[0] ? log : "no message");
}

static mlsys_status read_log(const mlsi_nvrtc *n, mlsi_alloc *a, nvrtcProgram p, char **out) {
    size_t bytes = 0;
    if (n->log_size(p, &bytes)) bytes = 0;
    MLSI_TRY(mlsi_mem_zalloc(a, 1, bytes + 1, (void **)out));
    if (bytes && n->log(p, *out)) (*out)[0] = 0;
    return MLSYS_OK;
}

/* PTX's size counts its NUL. */
static mlsys_status read_code(const mlsi_nvrtc *n, mlsi_alloc *a, nvrtcProgram p, bool ptx,
                              mlsi_cuda_image *out) {
    size_t bytes = 0;
    int r = ptx ? n->ptx_size(p, &bytes) : n->cubin_size(p, &bytes);
    if (!r && bytes) {
        MLSI_TRY(mlsi_mem_alloc(a, bytes, &out->data));
        out->bytes = bytes;
        r = ptx ? n->ptx(p, out->data) : n->cubin(p, out->data);
        if (!r) return MLSYS_OK;
        mlsi_mem_free(a, out->data);
    }
    *out = (mlsi_cuda_image){0};
    return mlsi_fail(MLSYS_E_IO, "CUDA C: NVRTC gives no code: error %d", r);
}

mlsys_status mlsi_nvrtc_compile(const mlsi_nvrtc *n, mlsi_alloc *a, const char *text,
                                const char *target, bool ptx, mlsi_cuda_image *out,
                                mlsi_text *log) {
    enum { OPTIONS_MOST = 16 };
    const char *options[OPTIONS_MOST] = {target};
    nvrtcProgram p = NULL;
    char *words = NULL;
    int n_options = 1;
    *out = (mlsi_cuda_image){0};
    for (const char *const *o = mlsi_nvrtc_options(); *o; o++)
        options[n_options++] = *o;
    int r = n->create(&p, text, "gen.cu", 0, NULL, NULL);
    if (r)
        return mlsi_fail(r == OUT_OF_MEMORY ? MLSYS_E_NOMEM : MLSYS_E_IO,
                         "CUDA C: nvrtcCreateProgram: error %d", r);
    r = n->compile(p, n_options, options);
    mlsys_status st = read_log(n, a, p, &words);
    if (st == MLSYS_OK && log) mlsi_text_add(log, "%s", words);
    if (st == MLSYS_OK && r == COMPILATION)
        st = first_error(words);
    else if (st == MLSYS_OK && r)
        st = mlsi_fail(r == OUT_OF_MEMORY ? MLSYS_E_NOMEM : MLSYS_E_IO,
                       "CUDA C: nvrtcCompileProgram: error %d %.200s", r, words);
    if (st == MLSYS_OK) st = read_code(n, a, p, ptx, out);
    mlsi_mem_free(a, words);
    (void)n->destroy(&p);
    return st;
}
