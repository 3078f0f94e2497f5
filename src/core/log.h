/* The context's log: whole lines, kept in a bounded ring of text and passed to the log hook. */
#ifndef MLSI_LOG_H
#define MLSI_LOG_H

#include "core/alloc.h"

typedef struct mlsi_log mlsi_log_ring;

/* Lines above level are dropped before they are formatted. */
mlsys_status mlsi_log_create(mlsi_alloc *a, int32_t level, mlsi_log_ring **out);
void mlsi_log_destroy(mlsi_log_ring *log);
/* Move the lines out, oldest first; nothing is consumed when they do not fit in cap. */
mlsys_status mlsi_log_read(mlsi_log_ring *log, char *buf, uint64_t cap, uint64_t *need);

#endif
