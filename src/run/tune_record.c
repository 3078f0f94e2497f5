/* What tuning learned, on disk: tune/<key of device and content>/<key of the sizes>, a line a candidate.
 *
 * A line ends with a hash of itself and its key, so that a line that a killed writer left, or one of another file, is seen
 * and ignored. Writers append whole lines by one write: several may be at work. */
#include "run/tune.h"

#include "core/cache_folder.h"
#include "core/faults.h"
#include "core/file_bytes.h"
#include "core/sha256.h"
#include "run/tune_file.h"

#include <stdlib.h>
#include <string.h>

static const char *const verdicts[] = {"", "timed", "refused", "differs", "failed", "settled"};
enum { N_VERDICTS = (int)(sizeof verdicts / sizeof verdicts[0]), MOST_LINE = 1 << 16 };

/* ---- a line -------------------------------------------------------------------------------------------------- */

static void check_of(const mlsi_tune_key *key, const char *body, size_t n, char check[17]) {
    mlsi_sha256 h;
    uint8_t digest[32];
    char hex[65];
    mlsi_sha256_init(&h);
    mlsi_sha256_add(&h, key->device, strlen(key->device) + 1);
    mlsi_sha256_add(&h, key->content, strlen(key->content) + 1);
    mlsi_sha256_add(&h, key->sizes, strlen(key->sizes) + 1);
    mlsi_sha256_add(&h, body, n);
    mlsi_sha256_finish(&h, digest);
    mlsi_sha256_hex(digest, hex);
    memcpy(check, hex, 16);
    check[16] = 0;
}

/* "seed number verdict time ns a.b.c | schedule | sizes | check" */
static void write_line(const mlsi_tune_key *key, const mlsi_tune_record *r, mlsi_text *out) {
    char check[17];
    int last = MLSI_SPACE_CHOICES - 1;
    mlsi_text_add(out, "%llu %lld %s %lld %lld ", (unsigned long long)r->seed, (long long)r->number,
                  verdicts[r->verdict], (long long)r->time, (long long)r->ns);
    while (last > 0 && !r->point.option[last])
        last--;
    for (int i = 0; i <= last; i++)
        mlsi_text_add(out, "%s%d", i ? "." : "", (int)r->point.option[i]);
    mlsi_text_add(out, " | %s | %s", r->schedule, key->sizes);
    if (out->st != MLSYS_OK) return;
    check_of(key, out->data, (size_t)out->len, check);
    mlsi_text_add(out, " | %s\n", check);
}

static bool take_i64(const char **p, int64_t *out) {
    char *end;
    *out = strtoll(*p, &end, 10);
    bool some = end != *p;
    *p = end;
    return some;
}

static bool take_verdict(const char **p, mlsi_tune_verdict *out) {
    size_t n = strspn(*p, " ");
    *p += n;
    n = strcspn(*p, " ");
    for (int v = 1; v < N_VERDICTS; v++)
        if (strlen(verdicts[v]) == n && !memcmp(*p, verdicts[v], n)) {
            *out = (mlsi_tune_verdict)v;
            *p += n;
            return true;
        }
    return false;
}

static bool take_point(const char **p, mlsi_point *out) {
    int64_t v;
    for (int i = 0; i < MLSI_SPACE_CHOICES; i++) {
        if (!take_i64(p, &v) || v < 0 || v > INT32_MAX) return false;
        out->option[i] = (int32_t)v;
        if (**p != '.') return true;
        ++*p;
    }
    return false;
}

/* The last " | " of the line, which becomes its end; behind it the field. */
static char *cut_field(char *line) {
    char *found = NULL;
    for (char *at = line; (at = strstr(at, " | ")); at++)
        found = at;
    if (!found) return NULL;
    *found = 0;
    return found + 3;
}

/* line: NUL-ended, written over. The key's sizes are the line's if they are not *known yet. False: the line is torn, or of
 * another key. The schedule is a part of the line. */
static bool read_line(mlsi_tune_key *key, bool *known, char *line, mlsi_tune_record *r) {
    char check[17];
    int64_t seed;
    const char *p = line;
    mlsi_tune_key own = *key;
    memset(r, 0, sizeof *r);
    char *written = cut_field(line);
    size_t n = strlen(line);
    char *sizes = written ? cut_field(line) : NULL;
    if (!sizes || strlen(sizes) >= sizeof own.sizes) return false;
    memcpy(own.sizes, sizes, strlen(sizes) + 1);
    line[strlen(line)] = ' '; /* the hashed text, once more whole */
    check_of(&own, line, n, check);
    line[n - strlen(own.sizes) - 3] = 0;
    if (strcmp(written, check) && !mlsi_fault(MLSI_FAULT_TUNE_LINE)) return false;
    if (*known && strcmp(own.sizes, key->sizes)) return false;
    if (!take_i64(&p, &seed) || !take_i64(&p, &r->number) || !take_verdict(&p, &r->verdict) ||
        !take_i64(&p, &r->time) || !take_i64(&p, &r->ns) || !take_point(&p, &r->point) ||
        strncmp(p, " | ", 3) || r->number < 0 || r->time < 0)
        return false;
    r->seed = (uint64_t)seed;
    r->schedule = (char *)(uintptr_t)p + 3;
    *key = own;
    return *known = true;
}

/* ---- lists ------------------------------------------------------------------------------------------------------ */

mlsi_tune_record *mlsi_tune_records_find(const mlsi_tune_records *r, uint64_t seed,
                                         int64_t number) {
    for (int64_t i = 0; i < r->n; i++)
        if (r->list[i].seed == seed && r->list[i].number == number) return &r->list[i];
    return NULL;
}

mlsys_status mlsi_tune_records_put(mlsi_tune_records *records, mlsi_tune_record *r) {
    mlsi_tune_record *old = mlsi_tune_records_find(records, r->seed, r->number);
    if (!old) {
        mlsys_status st = MLSI_GROW(records->alloc, &records->list, &records->cap, records->n + 1);
        if (st != MLSYS_OK) {
            mlsi_mem_free(records->alloc, r->schedule);
            return st;
        }
        old = &records->list[records->n++];
    }
    mlsi_mem_free(records->alloc, old->schedule);
    *old = *r;
    return MLSYS_OK;
}

void mlsi_tune_records_free(mlsi_tune_records *r) {
    for (int64_t i = 0; i < r->n; i++)
        mlsi_mem_free(r->alloc, r->list[i].schedule);
    mlsi_mem_free(r->alloc, r->list);
    r->list = NULL;
    r->n = r->cap = 0;
}

/* Less than a hundredth is not told apart from noise, and the least of many single looks is luck. */
const mlsi_tune_record *mlsi_tune_records_best(const mlsi_tune_records *r) {
    enum { CERTAIN = MLSI_TUNE_UNIT - MLSI_TUNE_UNIT / 100 };
    const mlsi_tune_record *best = NULL;
    bool settled = false;
    for (int64_t i = 0; i < r->n; i++)
        settled |= r->list[i].verdict == MLSI_TUNE_SETTLED;
    for (int64_t i = 0; i < r->n; i++) {
        const mlsi_tune_record *x = &r->list[i];
        if (!mlsi_tune_has_time(x) || (settled && x->verdict != MLSI_TUNE_SETTLED)) continue;
        if (!x->schedule[0] || x->time > CERTAIN) continue;
        int order = !best                   ? -1
                    : x->time != best->time ? (x->time < best->time ? -1 : 1)
                                            : strcmp(x->schedule, best->schedule);
        if (order < 0) best = x;
    }
    return best;
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static mlsys_status take_lines(mlsi_tune_key *key, bool known, char *text, mlsi_tune_records *out) {
    for (char *line = text, *next; line && *line; line = next) {
        mlsi_tune_record r;
        next = strchr(line, '\n');
        if (!next && strlen(line)) {
            out->ignored++;
            break;
        }
        *next++ = 0;
        if (!*line || *line == '#') continue;
        if (!read_line(key, &known, line, &r)) {
            out->ignored++;
            continue;
        }
        MLSI_TRY(mlsi_mem_strdup(out->alloc, r.schedule, &r.schedule));
        MLSI_TRY(mlsi_tune_records_put(out, &r));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_tune_read_text(mlsi_ctx *ctx, mlsi_tune_key *key, bool known, const char *path,
                                 char *text, mlsi_tune_records *out) {
    out->ignored = 0;
    mlsys_status st = take_lines(key, known, text, out);
    if (out->ignored)
        mlsi_log(ctx, MLSYS_LOG_WARN, "tune", "%s: %lld lines ignored: torn or of something else",
                 path, (long long)out->ignored);
    return st;
}

mlsys_status mlsi_tune_records_read(mlsi_ctx *ctx, const mlsi_tune_key *key,
                                    mlsi_tune_records *out) {
    char folder[MLSI_PATH_SIZE], path[MLSI_PATH_SIZE + 32], *text = NULL;
    mlsi_tune_key own = *key;
    *out = (mlsi_tune_records){.alloc = &ctx->alloc};
    if (!mlsi_tune_folder(key, folder)) return MLSYS_OK;
    mlsi_tune_path(key, folder, path);
    MLSI_TRY(mlsi_tune_file_text(&ctx->alloc, path, &text));
    mlsys_status st = text ? mlsi_tune_read_text(ctx, &own, true, path, text, out) : MLSYS_OK;
    mlsi_mem_free(&ctx->alloc, text);
    return st;
}

mlsys_status mlsi_tune_append(mlsi_ctx *ctx, const mlsi_tune_key *key, const mlsi_tune_record *r) {
    char folder[MLSI_PATH_SIZE], path[MLSI_PATH_SIZE + 32];
    mlsi_text line;
    if (!mlsi_tune_folder(key, folder))
        return mlsi_fail(MLSYS_E_IO, "tune: no folder of this user's own to keep records in");
    mlsi_tune_path(key, folder, path);
    mlsi_text_init(&line, &ctx->alloc);
    write_line(key, r, &line);
    mlsys_status st = line.st;
    if (st == MLSYS_OK && line.len > MOST_LINE)
        st = mlsi_fail(MLSYS_E_UNSUPPORTED, "tune: a schedule of %lld bytes", (long long)line.len);
    if (st == MLSYS_OK) st = mlsi_tune_file_append(&ctx->alloc, key, path, line.data, line.len);
    mlsi_text_free(&line);
    return st;
}
