/* A thread pool owned by a context. Work items are claimed in order from a shared counter; which
 * thread runs an item never influences results. The calling thread works too. */
#ifndef MLSI_POOL_H
#define MLSI_POOL_H

#include "core/alloc.h"

typedef struct mlsi_pool mlsi_pool;

/* item in [0, n); worker in [0, mlsi_pool_threads) is a distinct index per concurrent caller, for
 * per-worker scratch. */
typedef void (*mlsi_pool_fn)(void *user, int64_t item, int worker);

/* threads >= 1 counts the caller; fewer threads than asked (none could be started) is not an error
 * unless zero could run: the caller always can. */
mlsys_status mlsi_pool_create(mlsi_alloc *a, int threads, mlsi_pool **out);
void mlsi_pool_destroy(mlsi_pool *pool);
int mlsi_pool_threads(const mlsi_pool *pool);
/* Run fn for all items and return when all are done. Safe to call from several threads at once (one
 * gets the workers, the others run alone) and from inside an item (runs alone). pool NULL = serial. */
void mlsi_pool_run(mlsi_pool *pool, int64_t n, mlsi_pool_fn fn, void *user);

#endif
