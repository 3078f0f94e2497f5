/* Files of records, and what a record is keyed by. */
#include "run/tune_file.h"

#include "core/faults.h"
#include "core/file_bytes.h"
#include "core/sha256.h"
#include "ir/loop/prove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- keys ----------------------------------------------------------------------------------------------------- */

static void hash(const char *a, const char *b, char hex[65]) {
    mlsi_sha256 h;
    uint8_t digest[32];
    mlsi_sha256_init(&h);
    mlsi_sha256_add(&h, a, strlen(a) + 1);
    mlsi_sha256_add(&h, b, strlen(b) + 1);
    mlsi_sha256_finish(&h, digest);
    mlsi_sha256_hex(digest, hex);
}

/* As the system names it, else the machine's kind. */
static void cpu_model(char *out, size_t size) {
    static const char *const names[] = {"model name", "CPU part", "uarch"};
    struct utsname u;
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(out, size, "%.64s", uname(&u) ? "unknown" : u.machine);
    while (f && fgets(line, sizeof line, f)) {
        char *value = strchr(line, ':');
        for (int i = 0; value && i < 3; i++)
            if (!strncmp(line, names[i], strlen(names[i]))) {
                value[strcspn(value, "\n")] = 0;
                snprintf(out + strlen(out), size - strlen(out), "%.120s", value + 1);
                fclose(f);
                return;
            }
    }
    if (f) fclose(f);
}

mlsys_status mlsi_tune_key_of(const mlsi_ctx *ctx, mlsi_isa isa, mlsi_nest *n, mlsi_tune_key *key) {
    static const char *const isas[] = {"portable", "avx2", "avx512"};
    char model[200];
    const char *name = n->name;
    mlsi_text text;
    memset(key, 0, sizeof *key);
    cpu_model(model, sizeof model);
    int threads = mlsi_fault(MLSI_FAULT_TUNE_DEVICE) ? 0 : mlsi_pool_threads(ctx->pool);
    snprintf(key->device, sizeof key->device, "%.180s, %s, %d threads", model, isas[isa], threads);
    mlsi_text_init(&text, n->alloc);
    n->name = "nest"; /* the number of its function is none of its content */
    mlsi_nest_print(n, &text);
    n->name = name;
    if (text.st == MLSYS_OK) hash(text.data, "", key->content);
    mlsys_status st = text.st;
    mlsi_text_free(&text);
    return st;
}

static bool names_symbol(const mlsi_nest *n, int32_t symbol) {
    for (int64_t i = 0; i < n->n_buffers; i++)
        for (int d = 0; d < n->buffers[i].rank; d++)
            if (mlsi_dim_names(&n->tab, n->buffers[i].dims[d], symbol)) return true;
    for (int64_t i = 0; i < n->n_vars; i++)
        if (mlsi_dim_names(&n->tab, n->vars[i].extent, symbol)) return true;
    return false;
}

mlsys_status mlsi_tune_key_bind(const mlsi_nest *n, const int64_t *binding, mlsi_tune_key *key) {
    size_t len = 0;
    key->sizes[0] = 0;
    for (int32_t i = 0; i < n->n_shape_symbols; i++) {
        if (!names_symbol(n, i)) continue;
        int k = snprintf(key->sizes + len, sizeof key->sizes - len, "%s%s=%lld", len ? " " : "",
                         n->tab.symbols[i].name, (long long)binding[i]);
        if (k < 0 || (size_t)k >= sizeof key->sizes - len)
            return mlsi_fail(MLSYS_E_UNSUPPORTED, "tune: %s has too many symbols", n->name);
        len += (size_t)k;
    }
    return MLSYS_OK;
}

/* ---- paths ------------------------------------------------------------------------------------------------------- */

bool mlsi_tune_folder(const mlsi_tune_key *key, char folder[MLSI_PATH_SIZE]) {
    char hex[65], name[80];
    hash(key->device, key->content, hex);
    snprintf(name, sizeof name, "tune/%s", hex);
    return mlsi_cache_folder(name, folder);
}

void mlsi_tune_path(const mlsi_tune_key *key, const char *folder, char path[MLSI_PATH_SIZE + 32]) {
    char hex[65];
    hash(key->sizes, "", hex);
    snprintf(path, MLSI_PATH_SIZE + 32, "%s/%.16s", folder, hex);
}

/* ---- contents ------------------------------------------------------------------------------------------------------- */

mlsys_status mlsi_tune_file_text(mlsi_alloc *a, const char *path, char **text) {
    enum { MOST = 1 << 28 };
    mlsi_file_bytes f;
    *text = NULL;
    if (!mlsi_cache_file_is_private(path)) return MLSYS_OK;
    mlsys_status st = mlsi_file_bytes_open(a, path, false, &f);
    if (st != MLSYS_OK) return st == MLSYS_E_NOMEM ? st : MLSYS_OK;
    void *copy = NULL;
    if (f.size < MOST) st = mlsi_mem_alloc(a, f.size + 1, &copy);
    if (copy) {
        memcpy(copy, f.data, f.size);
        ((char *)copy)[f.size] = 0;
        *text = copy;
    }
    mlsi_file_bytes_close(&f);
    return st;
}

static void add_head(const mlsi_tune_key *key, mlsi_text *out) {
    mlsi_text_add(out, "# libmlsys, times of schedules\n# device %s\n# nest %s\n# sizes %s\n",
                  key->device, key->content, key->sizes);
}

/* Does the file end within a line? Somebody was killed, or writes now: the line to come begins a new one. */
static bool ends_torn(int fd, int64_t size) {
    char last;
    return size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n' &&
           !mlsi_fault(MLSI_FAULT_TUNE_TORN);
}

mlsys_status mlsi_tune_file_append(mlsi_alloc *a, const mlsi_tune_key *key, const char *path,
                                   const char *line, int64_t n) {
    mlsi_text text;
    struct stat st;
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool done = fd >= 0 && mlsi_cache_file_is_private(path) && fstat(fd, &st) == 0;
    mlsi_text_init(&text, a);
    if (done && !st.st_size) add_head(key, &text);
    if (done && ends_torn(fd, st.st_size)) mlsi_text_add(&text, "\n");
    mlsi_text_add(&text, "%.*s", (int)n, line);
    if (done && text.st == MLSYS_OK)
        done = write(fd, text.data, (size_t)text.len) == text.len && fdatasync(fd) == 0;
    int error = errno;
    if (fd >= 0 && close(fd)) done = false;
    mlsys_status status = text.st;
    mlsi_text_free(&text);
    if (status != MLSYS_OK) return status;
    return done ? MLSYS_OK
                : mlsi_fail(MLSYS_E_IO, "tune: %s cannot be written: %s", path, strerror(error));
}
