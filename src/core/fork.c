#include "core/fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic(_Atomic uint32_t *) mlsi_fork_word;

static _Atomic uint32_t last_epoch; /* survives fork, so a child's epoch is above its ancestors' */
static _Atomic uint32_t handler_word;
static _Atomic int32_t process_id; /* of the latest epoch */

static void forked(void) { atomic_store(&handler_word, 0); }

/* A page that the kernel wipes in the child catches every kind of fork; where the kernel cannot,
 * a fork handler catches those that go through libc. */
static void install(void) {
#ifdef MADV_WIPEONFORK
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) {
        if (!madvise(p, bytes, MADV_WIPEONFORK)) {
            atomic_store(&mlsi_fork_word, (_Atomic uint32_t *)p);
            return;
        }
        munmap(p, bytes);
    }
#endif
    pthread_atfork(NULL, NULL, forked);
    atomic_store(&mlsi_fork_word, &handler_word);
}

uint32_t mlsi_fork_epoch_slow(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
    _Atomic uint32_t *word = atomic_load(&mlsi_fork_word);
    atomic_store(&process_id, (int32_t)getpid());
    uint32_t fresh = atomic_fetch_add(&last_epoch, 1) + 1, seen = 0;
    return atomic_compare_exchange_strong(word, &seen, fresh) ? fresh : seen;
}

int32_t mlsi_fork_pid(void) {
    mlsi_fork_epoch(); /* a new child updates process_id here */
    return atomic_load(&process_id);
}
