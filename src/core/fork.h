/* Which process is this?  A child made by fork has the parent's memory but none of its threads, so
 * objects from before the fork are refused there.  getpid costs a system call; this costs a load.
 */
#ifndef MLSI_FORK_H
#define MLSI_FORK_H

#include <stdatomic.h>
#include <stdint.h>

/* The word reads 0 in a new process until it is first asked for; NULL before the first use. */
extern _Atomic(_Atomic uint32_t *) mlsi_fork_word;
uint32_t mlsi_fork_epoch_slow(void);

/* A number > 0 that differs between a process and all its ancestors. */
static inline uint32_t mlsi_fork_epoch(void) {
    _Atomic uint32_t *word = atomic_load_explicit(&mlsi_fork_word, memory_order_acquire);
    uint32_t epoch = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;
    return epoch ? epoch : mlsi_fork_epoch_slow();
}

/* The process id, without a system call. */
int32_t mlsi_fork_pid(void);

#endif
