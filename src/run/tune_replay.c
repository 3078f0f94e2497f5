/* Compiling by records: they are read, nothing is timed, so the same records give the same program. */
#include "run/tune_file.h"

#include "core/faults.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A compiled program serves all sizes; of those that were tuned the largest decides: its product, then its text. */
static int64_t volume(const char *sizes) {
    int64_t product = 1;
    for (const char *p = sizes; (p = strchr(p, '=')); p++)
        if (!mlsi_mul_i64(product, strtoll(p + 1, NULL, 10), &product)) return INT64_MAX;
    return product;
}

static bool is_larger(const char *a, const char *b) {
    int64_t va = volume(a), vb = volume(b);
    return va != vb ? va > vb : strcmp(a, b) > 0;
}

typedef struct choice {
    bool any;
    char sizes[sizeof((mlsi_tune_key *)0)->sizes];
    char *schedule; /* NULL: the default is the best */
} choice;

static mlsys_status take(mlsi_alloc *a, const mlsi_tune_key *key, const mlsi_tune_records *r,
                         choice *best) {
    const mlsi_tune_record *record = mlsi_tune_records_best(r);
    if (!r->n || (best->any && !is_larger(key->sizes, best->sizes))) return MLSYS_OK;
    mlsi_mem_free(a, best->schedule);
    best->schedule = NULL;
    best->any = true;
    memcpy(best->sizes, key->sizes, sizeof best->sizes);
    return record ? mlsi_mem_strdup(a, record->schedule, &best->schedule) : MLSYS_OK;
}

static mlsys_status look_at(mlsi_ctx *ctx, mlsi_alloc *a, const mlsi_tune_key *key,
                            const char *path, choice *best) {
    mlsi_tune_key own = *key;
    mlsi_tune_records r = {.alloc = &ctx->alloc};
    char *text;
    MLSI_TRY(mlsi_tune_file_text(&ctx->alloc, path, &text));
    mlsys_status st = MLSYS_OK;
    if (text) st = mlsi_tune_read_text(ctx, &own, false, path, text, &r);
    if (st == MLSYS_OK) st = take(a, &own, &r, best);
    mlsi_tune_records_free(&r);
    mlsi_mem_free(&ctx->alloc, text);
    return st;
}

mlsys_status mlsi_tune_replay(mlsi_ctx *ctx, mlsi_alloc *a, const mlsi_tune_key *key,
                              char **schedule) {
    char folder[MLSI_PATH_SIZE], path[2 * MLSI_PATH_SIZE];
    choice best = {.any = false};
    mlsys_status st = MLSYS_OK;
    *schedule = NULL;
    DIR *d = mlsi_tune_folder(key, folder) ? opendir(folder) : NULL;
    for (struct dirent *e; d && st == MLSYS_OK && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        st = look_at(ctx, a, key, path, &best);
    }
    if (d) closedir(d);
    if (st == MLSYS_OK)
        *schedule = best.schedule;
    else
        mlsi_mem_free(a, best.schedule);
    return st;
}
