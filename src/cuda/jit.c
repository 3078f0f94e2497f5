/* A text is cut into parts of some kernels each, which are compiled side by side and kept on disk one by one. */
#include "cuda/jit.h"

#include "core/cache_folder.h"
#include "core/faults.h"
#include "core/pool.h"
#include "core/sealed_file.h"
#include "core/sha256.h"
#include "cuda/device.h"
#include "cuda/nvrtc.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Where a part ends follows from the text alone, so that each machine finds the same parts in the cache. */
enum { PART_KERNELS = 16, THREADS_MOST = 4 };

typedef struct part {
    const char *begin;
    size_t bytes;
    char path[MLSI_PATH_SIZE + 80]; /* in the cache; "": there is none */
    mlsi_cuda_image image;
    mlsys_status st;
    char failure[500]; /* the sentence of the thread that compiled it */
} part;

typedef struct job {
    const mlsi_nvrtc *nvrtc;
    mlsi_alloc *alloc;
    const char *text;
    size_t common; /* bytes before the first kernel, which every part gets */
    char target[MLSI_NVRTC_TARGET];
    bool ptx;
    part *parts;
    int64_t n, *missing, n_missing;
} job;

/* ---- parts ------------------------------------------------------------------------------------------- */

/* The next line that begins a kernel, from a line's beginning on; NULL: none. */
static const char *next_kernel(const char *line) {
    static const char mark[] = "extern \"C\" __global__";
    while (line && strncmp(line, mark, sizeof mark - 1)) {
        line = strchr(line, '\n');
        if (line) line++;
    }
    return line;
}

static const char *line_after(const char *p) {
    p = strchr(p, '\n');
    return p ? p + 1 : NULL;
}

static mlsys_status cut(job *j) {
    int64_t kernels = 0;
    const char *first = next_kernel(j->text);
    for (const char *k = first; k; k = next_kernel(line_after(k)))
        kernels++;
    j->common = first ? (size_t)(first - j->text) : 0;
    j->n = kernels ? (kernels + PART_KERNELS - 1) / PART_KERNELS : 1;
    MLSI_TRY(MLSI_NEW_N(j->alloc, j->n, &j->parts));
    MLSI_TRY(MLSI_NEW_N(j->alloc, j->n, &j->missing));
    const char *begin = first ? first : j->text;
    const int most = PART_KERNELS - mlsi_fault(MLSI_FAULT_CUDA_PART);
    for (int64_t i = 0; i < j->n; i++) {
        const char *end = begin;
        for (int k = 0; k < most && end; k++)
            end = next_kernel(line_after(end));
        j->parts[i].begin = begin;
        j->parts[i].bytes = end && kernels ? (size_t)(end - begin) : strlen(begin);
        begin = end;
    }
    return MLSYS_OK;
}

/* ---- cache --------------------------------------------------------------------------------------------- */

static void locate(const job *j, const char *folder, part *p) {
    mlsi_sha256 h;
    uint8_t digest[32];
    char id[96], hex[65];
    mlsi_sha256_init(&h);
    int n = snprintf(id, sizeof id, "nvrtc %d.%d %s", j->nvrtc->major, j->nvrtc->minor, j->target);
    mlsi_sha256_add(&h, id, (size_t)n + 1);
    for (const char *const *o = mlsi_nvrtc_options(); *o; o++)
        mlsi_sha256_add(&h, *o, strlen(*o) + 1);
    mlsi_sha256_add(&h, mlsi_gen_device_text, strlen(mlsi_gen_device_text) + 1);
    mlsi_sha256_add(&h, j->text, j->common);
    if (!mlsi_fault(MLSI_FAULT_CUDA_CACHE_KEY)) mlsi_sha256_add(&h, p->begin, p->bytes);
    mlsi_sha256_finish(&h, digest);
    mlsi_sha256_hex(digest, hex);
    snprintf(p->path, sizeof p->path, "%s/%s.%s", folder, hex, j->ptx ? "ptx" : "cubin");
}

/* Copied: the file's memory has no room of its own kind. */
static mlsys_status read_cached(const job *j, part *p) {
    mlsi_file_bytes f;
    if (!p->path[0] || !mlsi_sealed_read(j->alloc, p->path, &f)) return MLSYS_OK;
    mlsys_status st = mlsi_mem_alloc(j->alloc, f.size, &p->image.data);
    if (st == MLSYS_OK) {
        memcpy(p->image.data, f.data, f.size);
        p->image.bytes = f.size;
    }
    mlsi_file_bytes_close(&f);
    return st;
}

static mlsys_status find_cached(job *j) {
    char folder[MLSI_PATH_SIZE];
    bool kept = mlsi_cache_folder("jit", folder);
    for (int64_t i = 0; i < j->n; i++) {
        part *p = &j->parts[i];
        if (kept) locate(j, folder, p);
        MLSI_TRY(read_cached(j, p));
        if (!p->image.data) j->missing[j->n_missing++] = i;
    }
    return MLSYS_OK;
}

/* ---- compile ---------------------------------------------------------------------------------------------- */

static mlsys_status compile_text(const job *j, const char *begin, size_t bytes,
                                 mlsi_cuda_image *out, mlsi_text *log) {
    const size_t vocabulary = strlen(mlsi_gen_device_text);
    char *all;
    MLSI_TRY(mlsi_mem_alloc(j->alloc, vocabulary + 1 + j->common + bytes + 1, (void **)&all));
    memcpy(all, mlsi_gen_device_text, vocabulary);
    all[vocabulary] = '\n';
    memcpy(all + vocabulary + 1, j->text, j->common);
    memcpy(all + vocabulary + 1 + j->common, begin, bytes);
    all[vocabulary + 1 + j->common + bytes] = 0;
    mlsys_status st = mlsi_nvrtc_compile(j->nvrtc, j->alloc, all, j->target, j->ptx, out, log);
    mlsi_mem_free(j->alloc, all);
    return st;
}

/* A cache that cannot be written to is none. */
static void compile_part(void *user, int64_t i, int worker) {
    job *j = user;
    part *p = &j->parts[j->missing[i]];
    (void)worker;
    p->st = compile_text(j, p->begin, p->bytes, &p->image, NULL);
    if (p->st != MLSYS_OK)
        snprintf(p->failure, sizeof p->failure, "%s", mlsys_last_error());
    else if (p->path[0])
        (void)mlsi_sealed_write(j->alloc, p->path, p->image.data, p->image.bytes);
}

static int64_t threads_for(const job *j) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t n = j->n_missing < THREADS_MOST ? j->n_missing : THREADS_MOST;
    return processors > 0 && processors < n ? processors : n;
}

static mlsys_status compile_missing(job *j) {
    mlsi_pool *pool = NULL;
    if (j->n_missing > 1) MLSI_TRY(mlsi_pool_create(j->alloc, (int)threads_for(j), &pool));
    mlsi_pool_run(pool, j->n_missing, compile_part, j);
    mlsi_pool_destroy(pool);
    for (int64_t i = 0; i < j->n_missing; i++) {
        const part *p = &j->parts[j->missing[i]];
        if (p->st != MLSYS_OK) return mlsi_fail(p->st, "%s", p->failure);
    }
    return MLSYS_OK;
}

static mlsys_status prepare(job *j, mlsi_alloc *a, const char *text, int arch) {
    *j = (job){.alloc = a, .text = text};
    MLSI_TRY(mlsi_nvrtc_get(&j->nvrtc));
    return mlsi_nvrtc_target(j->nvrtc, arch, j->target, &j->ptx);
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

mlsys_status mlsi_cuda_compile(mlsi_alloc *a, const char *text, int arch, void **cubin,
                               uint64_t *bytes, mlsi_text *log) {
    mlsi_cuda_image image;
    job j;
    *cubin = NULL;
    *bytes = 0;
    MLSI_TRY(prepare(&j, a, text, arch));
    MLSI_TRY(compile_text(&j, text, strlen(text), &image, log));
    *cubin = image.data;
    *bytes = image.bytes;
    return MLSYS_OK;
}

static mlsys_status load_parts(mlsi_accel *d, const job *j, mlsi_accel_module **out) {
    mlsi_cuda_image *images;
    MLSI_TRY(MLSI_NEW_N(j->alloc, j->n, &images));
    for (int64_t i = 0; i < j->n; i++)
        images[i] = j->parts[i].image;
    mlsys_status st = mlsi_cuda_module_load(d, j->alloc, images, j->n, out);
    mlsi_mem_free(j->alloc, images);
    return st;
}

mlsys_status mlsi_cuda_load(mlsi_accel *d, mlsi_alloc *a, const char *text,
                            mlsi_accel_module **out) {
    job j;
    *out = NULL;
    MLSI_TRY(mlsi_cuda_enter(d)); /* a device that failed is not worth compiling for */
    mlsi_cuda_leave(d);
    MLSI_TRY(prepare(&j, a, text, d->capability));
    mlsys_status st = cut(&j);
    if (st == MLSYS_OK) st = find_cached(&j);
    if (st == MLSYS_OK) st = compile_missing(&j);
    if (st == MLSYS_OK) st = load_parts(d, &j, out);
    for (int64_t i = 0; i < j.n && j.parts; i++)
        mlsi_mem_free(a, j.parts[i].image.data);
    mlsi_mem_free(a, j.parts);
    mlsi_mem_free(a, j.missing);
    return st;
}
