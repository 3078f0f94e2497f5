#include "support/fake_cuda.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside the folders of the test programs. */
static void library_path(char *path, size_t size) {
    char self[3000];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert_int_gt(n, 0);
    self[n] = 0;
    for (int up = 0; up < 2; up++)
        *strrchr(self, '/') = 0;
    snprintf(path, size, "%s/libfakecuda.so", self);
}

fake_cuda *fake_cuda_use(bool compiler) {
    char path[4000];
    library_path(path, sizeof path);
    setenv("MLSYS_CUDA_DRIVER", path, 1);
    if (compiler) setenv("MLSYS_NVRTC", path, 1);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) ck_abort_msg("%s", dlerror());
    fake_cuda *f = dlsym(library, "fake");
    *f = (fake_cuda){.devices = 1, .memory = (uint64_t)1 << 30, .nvrtc_newest = 120};
    return f;
}

void fake_cuda_fail(fake_cuda *f, const char *where, int64_t at, CUresult with) {
    f->fail_in = where;
    f->fail_at = at;
    f->fail_with = with;
    f->calls = 0;
}

void fake_cuda_check_clean(const fake_cuda *f) {
    ck_assert_int_eq(f->left, 0);
    ck_assert_int_eq(f->contexts, 0);
    ck_assert_int_eq(f->depth, 0);
    ck_assert_int_eq(f->bad_context, 0);
}

void fake_cuda_ok(mlsys_status st) {
    if (st != MLSYS_OK) ck_abort_msg("%s: %s", mlsys_status_name(st), mlsys_last_error());
}

mlsi_accel *fake_cuda_open(mlsi_alloc *a, uint64_t limit) {
    mlsi_accel *d;
    fake_cuda_ok(mlsi_cuda_accelerator.open(a, 0, limit, &d));
    return d;
}
