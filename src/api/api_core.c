#include "api/api.h"
#include "core/backend.h"

#define TEXT_OF_(x) #x
#define TEXT_OF(x)  TEXT_OF_(x)

#if defined(__clang__)
#define COMPILER "clang " TEXT_OF(__clang_major__) "." TEXT_OF(__clang_minor__)
#elif defined(__GNUC__)
#define COMPILER "gcc " TEXT_OF(__GNUC__) "." TEXT_OF(__GNUC_MINOR__)
#else
#define COMPILER "unknown compiler"
#endif
#if defined(__x86_64__)
#define ISAS "portable, avx2, avx512"
#else
#define ISAS "portable"
#endif
#if defined(MLSI_HAVE_PCRE2)
#define PCRE2 "yes"
#else
#define PCRE2 "no"
#endif
#if defined(MLSI_HAVE_UTF8PROC)
#define UTF8PROC "yes"
#else
#define UTF8PROC "no"
#endif
#if defined(MLSI_HAVE_JANSSON)
#define JANSSON "yes"
#else
#define JANSSON "no"
#endif
#if defined(MLSI_HAVE_ZLIB)
#define ZLIB "yes"
#else
#define ZLIB "no"
#endif
#if defined(MLSI_HAVE_CUDA)
#define CUDA "yes"
#else
#define CUDA "no"
#endif

int32_t mlsys_version(void) { return MLSYS_VERSION_NUMBER; }

const char *mlsys_build_info(void) {
    return "libmlsys " MLSYS_VERSION_STRING "; " COMPILER "; instruction sets: " ISAS
           "; cuda: " CUDA "; pcre2: " PCRE2 "; utf8proc: " UTF8PROC "; zlib: " ZLIB
           "; jansson: " JANSSON;
}

int32_t mlsys_has_feature(const char *name) {
    const struct {
        const char *name;
        bool present;
    } features[] = {
        {"cpu", true},
        {"portable", true},
        {"avx2", mlsi_cpu_backend.isa() >= MLSI_ISA_AVX2},
        {"avx512", mlsi_cpu_backend.isa() >= MLSI_ISA_AVX512},
        {"cuda", !strcmp(CUDA, "yes")},
        {"pcre2", !strcmp(PCRE2, "yes")},
        {"utf8proc", !strcmp(UTF8PROC, "yes")},
        {"jansson", !strcmp(JANSSON, "yes")},
        {"zlib", !strcmp(ZLIB, "yes")},
    };
    for (size_t i = 0; name && i < sizeof features / sizeof features[0]; i++)
        if (!strcmp(features[i].name, name)) return features[i].present;
    return 0;
}

mlsys_status mlsys_retain(void *handle) { return mlsi_handle_retain(handle, "retain: handle"); }

mlsys_status mlsys_release(void *handle) {
    return handle ? mlsi_handle_release(handle, "release: handle") : MLSYS_OK;
}

mlsys_status mlsys_handle_kind(void *handle, mlsys_kind *out) {
    API_NOT_NULL(out, "handle_kind: out");
    return mlsi_handle_kind(handle, "handle_kind: handle", out);
}

mlsys_status mlsys_dtype_info(mlsys_dtype dtype, int32_t *block_elems, int32_t *block_bytes,
                              const char **name) {
    const mlsi_dtype_info *info = mlsi_dtype_get(dtype);
    if (!info) return mlsi_fail(MLSYS_E_DTYPE, "dtype_info: unknown dtype %d", dtype);
    if (block_elems) *block_elems = info->block_elems;
    if (block_bytes) *block_bytes = info->block_bytes;
    if (name) *name = info->name;
    return MLSYS_OK;
}

mlsys_status mlsi_api_struct_in(void *ours, uint64_t known, const void *theirs, const char *what) {
    enum { SIZE_MAX_SANE = 4096 };
    uint64_t size;
    memcpy(&size, theirs, sizeof size);
    if (size < sizeof size || size > SIZE_MAX_SANE)
        return mlsi_fail(MLSYS_E_VERSION, "%s: size %llu is not one of a struct (init it first)",
                         what, (unsigned long long)size);
    for (uint64_t i = known; i < size; i++)
        if (((const char *)theirs)[i])
            return mlsi_fail(MLSYS_E_VERSION, "%s: byte %llu is set, this library knows %llu", what,
                             (unsigned long long)i, (unsigned long long)known);
    memcpy(ours, theirs, size < known ? size : known);
    return MLSYS_OK;
}

mlsys_status mlsi_api_same_ctx(const mlsi_object *a, const mlsi_object *b, const char *what) {
    if (a->ctx == b->ctx) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "%s belong to different contexts", what);
}

mlsys_status mlsi_api_pin_tensors(const mlsi_ctx *ctx, const char *what, int32_t n,
                                  const mlsys_tensor *handles, bool optional, mlsi_tensor **out) {
    for (int32_t i = 0; i < n; i++)
        out[i] = NULL;
    for (int32_t i = 0; i < n; i++) {
        if (optional && !handles[i]) continue;
        mlsys_status st = mlsi_pin(handles[i], MLSYS_KIND_TENSOR, what, &out[i]);
        if (st == MLSYS_OK && ctx && out[i]->object.ctx != ctx)
            st = mlsi_fail(MLSYS_E_ARG, "%s: from another context", what);
        if (st == MLSYS_OK) continue;
        mlsi_api_unpin_tensors(i + 1, out);
        return mlsi_fail_in(st, "tensor %d", i);
    }
    return MLSYS_OK;
}

void mlsi_api_unpin_tensors(int32_t n, mlsi_tensor **t) {
    for (int32_t i = 0; t && i < n; i++) {
        mlsi_unpin(t[i]);
        t[i] = NULL;
    }
}
