#include "support/cuda_kernel.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char mlsi_gen_device_text[];

static void *poisoned(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes + 127) & ~(uint64_t)63);
    ck_assert_ptr_nonnull(p);
    memset(p, 0xa5, (bytes + 127) & ~(uint64_t)63);
    return p;
}

bool cuda_kernel_find(cuda_shim_module *m, const char *name, cuda_kernel *k) {
    char part[64];
    k->launches = cuda_shim_kernel(m, name);
    for (int p = 0; p < k->code.n_parts; p++) {
        snprintf(part, sizeof part, "%s_p%d", name, p);
        k->parts[p] = cuda_shim_kernel(m, part);
        if (!k->parts[p]) return false;
    }
    return k->launches != NULL;
}

mlsys_status cuda_kernel_run(cuda_shim_module *m, const cuda_kernel *k, const mlsi_nest *n,
                             const int64_t *dims, const mlsi_view *params, uint32_t blocks,
                             cuda_shim_order order) {
    void *args[512];
    char *data[512];
    int64_t tasks, error[4] = {0}, *errors = error, symbols[512], work_bytes;
    int64_t parts[MLSI_GPU_PARTS + 1];
    uint64_t work, parts_bytes;
    int count = 0, n_params = n->n_inputs + n->n_outputs;
    MLSI_TRY(mlsi_codegen_cuda_parts(n, &k->code, dims, parts, &parts_bytes));
    MLSI_TRY(mlsi_dim_eval(&n->tab, k->code.tasks, dims, &parts[k->code.n_parts]));
    MLSI_TRY(mlsi_codegen_cuda_work(n, &k->code, dims, &work));
    const uint64_t workers =
        (uint64_t)blocks * (k->code.block_is_worker ? 1 : (uint64_t)k->code.threads);
    void *memory = poisoned(work * workers + parts_bytes);
    ck_assert_int_lt(n_params + n->n_shape_symbols, 500);
    for (int i = 0; i < n_params; i++) {
        data[i] = params[i].data;
        args[count++] = &data[i];
    }
    for (int64_t i = 0; i < n->n_shape_symbols; i++) {
        symbols[i] = dims[i];
        args[count++] = &symbols[i];
    }
    work_bytes = (int64_t)work;
    args[count++] = &memory;
    args[count++] = &work_bytes;
    args[count++] = &tasks;
    args[count++] = &errors;
    bool ran = true;
    for (int p = 0; p <= k->code.n_parts && ran; p++) {
        tasks = parts[p];
        ran = cuda_shim_run(
            m, &(cuda_shim_launch){.kernel = p == k->code.n_parts ? k->launches : k->parts[p],
                                   .blocks = blocks,
                                   .threads = (uint32_t)k->code.threads,
                                   .shared_bytes = k->code.shared_bytes,
                                   .params = args,
                                   .order = order});
    }
    free(memory);
    if (!ran) return mlsi_fail(MLSYS_E_INTERNAL, "%s: %s", n->name, cuda_shim_error());
    if (error[0])
        return mlsi_fail(MLSYS_E_ARG, "bind %lld: %lld", (long long)error[0], (long long)error[1]);
    return MLSYS_OK;
}

char *cuda_kernel_source(const char *kernels) {
    const size_t n = strlen(mlsi_gen_device_text), size = n + strlen(kernels) + 2;
    char *source = malloc(size);
    ck_assert_ptr_nonnull(source);
    snprintf(source, size, "%s\n%s", mlsi_gen_device_text, kernels);
    return source;
}

/* ---- NVRTC ------------------------------------------------------------------------------------------------------- */

static void *open_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
    void *lib = NULL;
    for (size_t i = 0; !lib && i < sizeof names / sizeof *names; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return lib;
}

int cuda_kernel_nvrtc(const char *source, char *log, size_t size) {
    typedef void *program;
    static const char *const options[] = {
        "--gpu-architecture=sm_90", "--fmad=false", "--prec-div=true",
        "--prec-sqrt=true",         "--ftz=false",  "--std=c++17"};
    void *lib = open_nvrtc();
    if (!lib) return -1;
    int (*create)(program *, const char *, const char *, int, const char *const *,
                  const char *const *) = (__typeof__(create))dlsym(lib, "nvrtcCreateProgram");
    int (*compile)(program, int, const char *const *) =
        (__typeof__(compile))dlsym(lib, "nvrtcCompileProgram");
    int (*log_size)(program, size_t *) = (__typeof__(log_size))dlsym(lib, "nvrtcGetProgramLogSize");
    int (*get_log)(program, char *) = (__typeof__(get_log))dlsym(lib, "nvrtcGetProgramLog");
    int (*destroy)(program *) = (__typeof__(destroy))dlsym(lib, "nvrtcDestroyProgram");
    ck_assert(create && compile && log_size && get_log && destroy);
    program p;
    size_t n = 0;
    ck_assert_int_eq(create(&p, source, "kernels.cu", 0, NULL, NULL), 0);
    const int result = compile(p, (int)(sizeof options / sizeof *options), options);
    ck_assert_int_eq(log_size(p, &n), 0);
    char *text = malloc(n + 1);
    ck_assert_ptr_nonnull(text);
    text[0] = '\0';
    ck_assert_int_eq(get_log(p, text), 0);
    snprintf(log, size, "%s", text);
    const bool silent = strspn(text, " \n") == strlen(text);
    free(text);
    destroy(&p);
    return result == 0 && silent;
}
