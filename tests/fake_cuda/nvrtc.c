/* The compiler library of the fake: machine code is "FAKE" and the text; a line with #error is an error. */
#include "fake_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

extern fake_cuda fake;

typedef struct program {
    char *text;
    char log[256];
    bool ptx;
} program;

EXPORT int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
EXPORT const char *nvrtcGetErrorString(int r) { return r ? "NVRTC_ERROR_COMPILATION" : "none"; }
EXPORT int nvrtcGetNumSupportedArchs(int *n) { return *n = 3, 0; }
EXPORT int nvrtcGetSupportedArchs(int *archs) {
    archs[0] = 80, archs[1] = 90, archs[2] = fake.nvrtc_newest;
    return 0;
}
EXPORT int nvrtcCreateProgram(program **out, const char *text, const char *name, int n,
                              const char *const *headers, const char *const *names) {
    (void)name, (void)n, (void)headers, (void)names;
    *out = calloc(1, sizeof **out);
    if (*out) (*out)->text = strdup(text);
    return *out && (*out)->text ? 0 : 1;
}
EXPORT int nvrtcDestroyProgram(program **p) {
    free((*p)->text);
    free(*p);
    return *p = NULL, 0;
}
EXPORT int nvrtcCompileProgram(program *p, int n, const char *const *options) {
    const char *error = strstr(p->text, "#error");
    for (int i = 0; i < n; i++)
        p->ptx |= !strncmp(options[i], "--gpu-architecture=compute", 26);
    __atomic_fetch_add(&fake.compiles, 1, __ATOMIC_SEQ_CST);
    if (!error) return 0;
    snprintf(p->log, sizeof p->log, "a warning first\ngen.cu(7): error: %.40s\nmore\n", error);
    return 6;
}
EXPORT int nvrtcGetProgramLogSize(program *p, size_t *n) { return *n = strlen(p->log) + 1, 0; }
EXPORT int nvrtcGetProgramLog(program *p, char *to) { return strcpy(to, p->log), 0; }

static int size_of(const program *p, size_t *n) { return *n = strlen(p->text) + 5, 0; }
static int code_of(const program *p, char *to) {
    memcpy(to, "FAKE", 4);
    return strcpy(to + 4, p->text), 0;
}
EXPORT int nvrtcGetCUBINSize(program *p, size_t *n) { return p->ptx ? 1 : size_of(p, n); }
EXPORT int nvrtcGetCUBIN(program *p, char *to) { return p->ptx ? 1 : code_of(p, to); }
EXPORT int nvrtcGetPTXSize(program *p, size_t *n) { return p->ptx ? size_of(p, n) : 1; }
EXPORT int nvrtcGetPTX(program *p, char *to) { return p->ptx ? code_of(p, to) : 1; }
