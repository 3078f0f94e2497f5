#include "core/log.h"

#include "core/ctx.h"
#include "core/faults.h"

#include <stdarg.h>
#include <stdio.h>

enum { RING_BYTES = 64 * 1024, LINE_BYTES = 512 };

struct mlsi_log {
    mlsi_alloc *alloc;
    int32_t level;
    pthread_mutex_t lock;
    uint64_t read, write; /* positions since creation; text is [read, write) modulo RING_BYTES */
    char ring[RING_BYTES];
};

mlsys_status mlsi_log_create(mlsi_alloc *a, int32_t level, mlsi_log_ring **out) {
    MLSI_TRY(MLSI_NEW(a, out));
    (*out)->alloc = a;
    (*out)->level = level;
    pthread_mutex_init(&(*out)->lock, NULL);
    return MLSYS_OK;
}

/* The mutex is not destroyed: in a forked child another thread of the parent may have held it. */
void mlsi_log_destroy(mlsi_log_ring *log) {
    if (log) mlsi_mem_free(log->alloc, log);
}

/* Room is made by dropping whole old lines. Lines are shorter than the ring. */
static void append(struct mlsi_log *log, const char *text, uint64_t n) {
    while (log->write + n - log->read > RING_BYTES) {
        while (log->ring[log->read++ % RING_BYTES] != '\n' && !mlsi_fault(MLSI_FAULT_LOG_CUT)) {
        }
    }
    for (uint64_t i = 0; i < n; i++)
        log->ring[log->write++ % RING_BYTES] = text[i];
}

void mlsi_log(mlsi_ctx *ctx, int32_t level, const char *area, const char *format, ...) {
    static const char letters[] = "?EWID";
    struct mlsi_log *log = ctx->log;
    if (!log || level < MLSYS_LOG_ERROR || level > log->level) return; /* log->level <= 4 */
    char line[LINE_BYTES];
    int head = snprintf(line, sizeof line, "%c %.32s: ", letters[level], area);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, args);
    va_end(args);
    if (n < 0) return;
    int room = LINE_BYTES - head - 2;
    int end = head + (n < room ? n : room);
    for (int i = head; i < end; i++) /* one entry, one line */
        if (line[i] == '\n') line[i] = ' ';
    if (ctx->alloc.hooks.log) ctx->alloc.hooks.log(ctx->alloc.hooks.user, level, area, line + head);
    line[end] = '\n';
    pthread_mutex_lock(&log->lock);
    append(log, line, (uint64_t)end + 1);
    pthread_mutex_unlock(&log->lock);
}

mlsys_status mlsi_log_read(mlsi_log_ring *log, char *buf, uint64_t cap, uint64_t *need) {
    pthread_mutex_lock(&log->lock);
    uint64_t n = log->write - log->read, fits = n < cap ? n : cap ? cap - 1 : 0;
    for (uint64_t i = 0; i < fits; i++)
        buf[i] = log->ring[(log->read + i) % RING_BYTES];
    if (n < cap) log->read = log->write;
    pthread_mutex_unlock(&log->lock);
    if (cap) buf[fits] = 0;
    if (need) *need = n + 1;
    if (n < cap || (!cap && need)) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_BUFFER, "log: %llu bytes needed, buffer has %llu",
                     (unsigned long long)n + 1, (unsigned long long)cap);
}
