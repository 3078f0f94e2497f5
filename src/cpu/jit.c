#include "cpu/jit.h"

#include "cpu/compiler.h"

#include "core/cache_folder.h"
#include "core/sealed_file.h"
#include "core/sha256.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char mlsi_gen_text[];

struct mlsi_module {
    void *handle;
};

enum { PATH_SIZE = MLSI_PATH_SIZE };

/* ---- compile, load -------------------------------------------------------------------------------------------- */

static mlsys_status write_text(const char *path, const char *const *parts, int n) {
    FILE *f = fopen(path, "wxe");
    bool done = f != NULL;
    for (int i = 0; i < n && done; i++)
        done = fputs(parts[i], f) >= 0;
    if (f && fclose(f)) done = false;
    return done ? MLSYS_OK
                : mlsi_fail(MLSYS_E_IO, "generated code: %s cannot be written: %s", path,
                            strerror(errno));
}

static void key_of(const mlsi_compiler *c, const char *text, mlsi_isa isa, char hex[65]) {
    mlsi_sha256 h;
    uint8_t digest[32];
    char id[512];
    int n = snprintf(id, sizeof id, "%d %s %lld %lld ", (int)isa, c->path, (long long)c->size,
                     (long long)c->modified);
    mlsi_sha256_init(&h);
    mlsi_sha256_add(&h, id, n < (int)sizeof id ? (size_t)n : sizeof id - 1);
    for (int i = 0; mlsi_compiler_options(isa)[i]; i++)
        mlsi_sha256_add(&h, mlsi_compiler_options(isa)[i],
                        strlen(mlsi_compiler_options(isa)[i]) + 1);
    mlsi_sha256_add(&h, mlsi_gen_text, strlen(mlsi_gen_text));
    mlsi_sha256_add(&h, text, strlen(text));
    mlsi_sha256_finish(&h, digest);
    mlsi_sha256_hex(digest, hex);
}

static mlsys_status load_file(mlsi_alloc *a, const char *path, mlsi_module **out) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return mlsi_fail(MLSYS_E_IO, "generated code: %s", dlerror());
    mlsys_status st = MLSI_NEW(a, out);
    if (st != MLSYS_OK)
        dlclose(handle);
    else
        (*out)->handle = handle;
    return st;
}

/* The loader does not look behind the object's own end, where the hash is. */
static mlsys_status keep(mlsi_alloc *a, const char *object, const char *target) {
    mlsi_file_bytes f;
    MLSI_TRY(mlsi_file_bytes_open(a, object, false, &f));
    mlsys_status st = mlsi_sealed_write(a, target, f.data, f.size);
    mlsi_file_bytes_close(&f);
    return st;
}

static bool is_whole(mlsi_alloc *a, const char *path) {
    mlsi_file_bytes f;
    bool whole = mlsi_sealed_read(a, path, &f);
    if (whole) mlsi_file_bytes_close(&f);
    return whole;
}

/* In a folder of its own inside `folder`, which goes again. */
static mlsys_status compile_into(mlsi_alloc *a, const mlsi_compiler *c, const char *folder,
                                 const char *text, mlsi_isa isa, const char *target) {
    char made[PATH_SIZE + 32], source[PATH_SIZE + 64], object[PATH_SIZE + 64], log[PATH_SIZE + 64];
    const char *parts[] = {mlsi_gen_text, "\n", text};
    snprintf(made, sizeof made, "%s/.build-XXXXXX", folder);
    if (!mkdtemp(made))
        return mlsi_fail(MLSYS_E_IO, "generated code: %s: %s", folder, strerror(errno));
    snprintf(source, sizeof source, "%s/gen.c", made);
    snprintf(object, sizeof object, "%s/gen.so", made);
    snprintf(log, sizeof log, "%s/log", made);
    mlsys_status st = write_text(source, parts, 3);
    if (st == MLSYS_OK) st = mlsi_compiler_run(c, isa, source, object, log);
    if (st == MLSYS_OK) st = keep(a, object, target);
    (void)unlink(source);
    (void)unlink(object);
    (void)unlink(log);
    (void)rmdir(made);
    return st;
}

/* In a folder that lives as long as the call: in the cache's where there is one. */
static mlsys_status load_once(mlsi_alloc *a, const mlsi_compiler *c, const char *text, mlsi_isa isa,
                              mlsi_module **out) {
    const char *tmp = getenv("TMPDIR");
    char cache[PATH_SIZE], folder[PATH_SIZE], target[PATH_SIZE + 32];
    int n = mlsi_cache_folder("jit", cache)
                ? snprintf(folder, sizeof folder, "%s/.once-XXXXXX", cache)
                : snprintf(folder, sizeof folder, "%s/mlsys-XXXXXX",
                           tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (n < 0 || n >= (int)sizeof folder || !mkdtemp(folder))
        return mlsi_fail(MLSYS_E_IO, "generated code: no folder to write to (%s)", strerror(errno));
    snprintf(target, sizeof target, "%s/gen.so", folder);
    mlsys_status st = compile_into(a, c, folder, text, isa, target);
    if (st == MLSYS_OK) st = load_file(a, target, out);
    (void)unlink(target);
    (void)rmdir(folder);
    return st;
}

/* Where the object is kept; false where nothing is. */
static bool kept_at(const mlsi_compiler *c, const char *folder, const char *text, mlsi_isa isa,
                    char *target) {
    char hex[65];
    key_of(c, text, isa, hex);
    int n = snprintf(target, PATH_SIZE + 80, "%s/%s.so", folder, hex);
    return n > 0 && n < PATH_SIZE + 80;
}

bool mlsi_cpu_cached(mlsi_alloc *a, const char *text, mlsi_isa isa) {
    char folder[PATH_SIZE], target[PATH_SIZE + 80];
    mlsi_compiler c;
    return mlsi_compiler_find(&c) == MLSYS_OK && mlsi_cache_folder("jit", folder) &&
           kept_at(&c, folder, text, isa, target) && is_whole(a, target);
}

mlsys_status mlsi_cpu_load(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out) {
    char folder[PATH_SIZE], target[PATH_SIZE + 80];
    mlsi_compiler c;
    *out = NULL;
    MLSI_TRY(mlsi_compiler_find(&c));
    if (!mlsi_cache_folder("jit", folder) || !kept_at(&c, folder, text, isa, target))
        return load_once(a, &c, text, isa, out);
    if (!is_whole(a, target)) MLSI_TRY(compile_into(a, &c, folder, text, isa, target));
    return load_file(a, target, out);
}

mlsys_status mlsi_cpu_load_once(mlsi_alloc *a, const char *text, mlsi_isa isa, mlsi_module **out) {
    mlsi_compiler c;
    *out = NULL;
    MLSI_TRY(mlsi_compiler_find(&c));
    return load_once(a, &c, text, isa, out);
}

mlsi_gen_fn mlsi_cpu_function(const mlsi_module *m, const char *name) {
    mlsi_gen_fn fn;
    void *p = dlsym(m->handle, name);
    memcpy(&fn, &p, sizeof fn); /* ISO C has no cast between the two kinds of pointer */
    return fn;
}

void mlsi_cpu_unload(mlsi_alloc *a, mlsi_module *m) {
    if (!m) return;
    (void)dlclose(m->handle);
    mlsi_mem_free(a, m);
}
