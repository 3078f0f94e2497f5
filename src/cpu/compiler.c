#include "cpu/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- find ----------------------------------------------------------------------------------------------- */

static bool take(mlsi_compiler *c, const char *folder, size_t folder_len, const char *name) {
    struct stat st;
    int n = snprintf(c->path, sizeof c->path, "%.*s%s%s", (int)folder_len, folder,
                     folder_len ? "/" : "", name);
    if (n < 0 || n >= (int)sizeof c->path || stat(c->path, &st) || !S_ISREG(st.st_mode) ||
        access(c->path, X_OK))
        return false;
    c->size = (int64_t)st.st_size;
    c->modified = (int64_t)st.st_mtime;
    return true;
}

static bool in_path(mlsi_compiler *c, const char *name) {
    const char *path = getenv("PATH");
    if (strchr(name, '/')) return take(c, "", 0, name);
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
        size_t n = strcspn(p, ":");
        if (n && p[0] == '/' && take(c, p, n, name)) return true;
        p += n + (p[n] == ':');
    }
    return false;
}

mlsys_status mlsi_compiler_find(mlsi_compiler *c) {
    const char *own = getenv("MLSYS_CC");
    if (own && own[0])
        return in_path(c, own)
                   ? MLSYS_OK
                   : mlsi_fail(MLSYS_E_UNSUPPORTED,
                               "generated code: MLSYS_CC names no program: %.200s", own);
    if (in_path(c, "cc") || in_path(c, "gcc") || in_path(c, "clang")) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_UNSUPPORTED, "generated code: no C compiler (cc, gcc, clang) in PATH");
}

/* ---- run -------------------------------------------------------------------------------------------------- */

#define COMMON                                                                                     \
    "-x", "c", "-std=gnu11", "-O2", "-fPIC", "-shared", "-w", "-ffp-contract=off", "-fno-math-errno"

const char *const *mlsi_compiler_options(mlsi_isa isa) {
    static const char *const portable[] = {COMMON, NULL};
    static const char *const avx2[] = {
        COMMON, "-DMLSI_ISA_IS_AVX2=1", "-DMLSI_SIMD_PAIRS=1", "-mavx2", "-mfma", "-mf16c", NULL};
    static const char *const avx512[] = {COMMON,       "-DMLSI_ISA_IS_AVX512=1",
                                         "-mavx512f",  "-mavx512bw",
                                         "-mavx512dq", "-mavx512vl",
                                         "-mavx2",     "-mfma",
                                         "-mf16c",     NULL};
    return isa == MLSI_ISA_AVX512 ? avx512 : isa == MLSI_ISA_AVX2 ? avx2 : portable;
}

/* The process's end, or false after a long time, when it is killed. */
static bool wait_for(pid_t pid, int *status) {
    enum { STEPS = 120 * 1000, STEP_NS = 1000000 };
    struct timespec pause = {0, STEP_NS};
    for (int i = 0; i < STEPS; i++) {
        pid_t r = waitpid(pid, status, WNOHANG);
        if (r == pid) return true;
        if (r < 0 && errno != EINTR)
            return *status = 0, errno == ECHILD; /* the host ignores SIGCHLD: see what came of it */
        (void)nanosleep(&pause, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, status, 0);
    return false;
}

static mlsys_status failed(const mlsi_compiler *c, const char *log, const char *how) {
    char text[240] = "";
    FILE *f = fopen(log, "re");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n') text[i] = ' ';
    text[n] = 0;
    return mlsi_fail(MLSYS_E_IO, "generated code: %s %s: %s", c->path, how,
                     n ? text : "no message");
}

mlsys_status mlsi_compiler_run(const mlsi_compiler *c, mlsi_isa isa, const char *source,
                               const char *object, const char *log) {
    char *argv[32];
    int n = 0, status = 0;
    pid_t pid;
    posix_spawn_file_actions_t files;
    struct stat made;
    argv[n++] = (char *)(uintptr_t)c->path;
    for (const char *const *o = mlsi_compiler_options(isa); *o; o++)
        argv[n++] = (char *)(uintptr_t)*o;
    argv[n++] = (char *)(uintptr_t) "-o";
    argv[n++] = (char *)(uintptr_t)object;
    argv[n++] = (char *)(uintptr_t)source;
    argv[n++] = (char *)(uintptr_t) "-lm";
    argv[n] = NULL;
    if (posix_spawn_file_actions_init(&files))
        return mlsi_fail(MLSYS_E_NOMEM, "generated code: no memory to run a program");
    int e = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    if (!e)
        e = posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!e) e = posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (!e) e = posix_spawn(&pid, c->path, &files, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    if (e) return mlsi_fail(MLSYS_E_IO, "generated code: %s: %s", c->path, strerror(e));
    if (!wait_for(pid, &status)) return failed(c, log, "took more than two minutes");
    if (!WIFEXITED(status) || WEXITSTATUS(status)) return failed(c, log, "failed");
    return stat(object, &made) == 0 && made.st_size > 0 ? MLSYS_OK : failed(c, log, "made nothing");
}
