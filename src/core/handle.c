#include "core/handle.h"

#include "core/ctx.h"
#include "core/faults.h"
#include "core/fork.h"

#include <sys/mman.h>

/* Handle: generation << 32 | slot << 8 | kind << 1 | 1.
 *
 * Slot word: low generation bits : 12 | users : 24 | pins : 28. A call enters by adding a pin with
 * a compare-and-swap that succeeds only while users > 0 and the generation bits agree; then the
 * slot cannot change hands, and the whole handle is compared. The twelve bits only keep stale
 * handles from touching a stranger's count. Pins cannot overflow: 2^24 slots pin a context at most
 * twice each (object and storage). The object dies when users and pins are both zero, which nobody
 * can undo: new pins need a user or a pin. */
enum { SLOT_BITS = 24, CHUNK_SLOTS = 1024, CHUNKS = (1 << SLOT_BITS) / CHUNK_SLOTS };
enum { GENERATION_MAX = 0x7fffffff };

#define PIN       ((uint64_t)1)
#define USER      ((uint64_t)1 << 28)
#define USERS_MAX ((uint64_t)0xffffff)
#define COUNTS    (((uint64_t)1 << 52) - 1)

typedef struct slot {
    _Alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t handle; /* of the living object; of a free slot: next generation, kind 0 */
    _Atomic(mlsi_object *) object;
    _Atomic uint32_t epoch; /* mlsi_fork_epoch of the creator */
    _Atomic int32_t pid;
    _Atomic uint32_t next; /* free list, and list of objects to destroy */
} slot;

_Static_assert(sizeof(void *) == 8, "handles need 64 bits");
_Static_assert(sizeof(slot) == 64, "one slot, one cache line: no false sharing");

/* The process-wide table. Chunks are never unmapped, on purpose. */
static _Atomic(slot *) chunks[CHUNKS];
static _Atomic uint32_t fresh = 1; /* first slot never used; slot 0 is the end of lists */
static _Atomic uint64_t free_list; /* tag : 40 | slot : 24; the tag defeats ABA */

static _Thread_local uint32_t doomed; /* objects that this thread has to destroy */
static _Thread_local int destroying;

static const char *const kind_names[] = {"handle",    "config",    "context", "device",  "stream",
                                         "event",     "tensor",    "graph",   "program", "model",
                                         "tokenizer", "generator", "tape",    "dataset", "trainer"};
enum { KIND_COUNT = (int)(sizeof kind_names / sizeof kind_names[0]) };

static uint32_t handle_slot(uint64_t h) { return (uint32_t)(h >> 8) & ((1u << SLOT_BITS) - 1); }
static int handle_kind(uint64_t h) { return (int)(h >> 1 & 127); }
static uint32_t handle_generation(uint64_t h) { return (uint32_t)(h >> 32); }
static uint64_t word_users(uint64_t w) { return w >> 28 & USERS_MAX; }
/* The word of a slot with no counts. */
static uint64_t word_of(uint64_t h) { return (h >> 32 & 0xfff) << 52; }

static slot *slot_at(uint32_t index) {
    slot *chunk = atomic_load_explicit(&chunks[index / CHUNK_SLOTS], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

static slot *slot_of(const void *object) {
    return slot_at(handle_slot(((const mlsi_object *)object)->handle));
}

/* ---- slots ---------------------------------------------------------------------------------- */

static mlsys_status chunk_ensure(uint32_t chunk) {
    if (atomic_load(&chunks[chunk])) return MLSYS_OK;
    size_t bytes = CHUNK_SLOTS * sizeof(slot);
    slot *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return mlsi_fail(MLSYS_E_NOMEM, "handle: no memory for %zu bytes of the table", bytes);
    slot *none = NULL;
    if (!atomic_compare_exchange_strong(&chunks[chunk], &none, p)) munmap(p, bytes);
    return MLSYS_OK;
}

static mlsys_status slot_take(uint32_t *out) {
    uint64_t head = atomic_load(&free_list);
    while (head & ((1u << SLOT_BITS) - 1)) {
        uint32_t index = (uint32_t)head & ((1u << SLOT_BITS) - 1);
        uint64_t next = atomic_load(&slot_at(index)->next);
        if (atomic_compare_exchange_weak(&free_list, &head,
                                         ((head >> SLOT_BITS) + 1) << SLOT_BITS | next)) {
            *out = index;
            return MLSYS_OK;
        }
    }
    uint32_t index = atomic_load(&fresh);
    do {
        if (index >= 1u << SLOT_BITS)
            return mlsi_fail(MLSYS_E_NOMEM, "handle: all %u handles are in use", 1u << SLOT_BITS);
        MLSI_TRY(chunk_ensure(index / CHUNK_SLOTS));
    } while (!atomic_compare_exchange_weak(&fresh, &index, index + 1));
    atomic_store(&slot_at(index)->handle, (uint64_t)1 << 32 | (uint64_t)index << 8);
    *out = index;
    return MLSYS_OK;
}

/* Next generation; a slot whose generations are used up stays out of the list for good. */
static void slot_recycle(slot *s) {
    uint64_t h = atomic_load(&s->handle);
    uint32_t index = handle_slot(h);
    bool retired = handle_generation(h) == GENERATION_MAX;
    if (mlsi_fault(MLSI_FAULT_HANDLE_GENERATION)) h -= (uint64_t)1 << 32;
    uint64_t next = ((h >> 32) + !retired) << 32 | (uint64_t)index << 8;
    atomic_store(&s->object, NULL);
    atomic_store(&s->handle, next);
    atomic_store(&s->word, word_of(next));
    if (retired) return;
    uint64_t head = atomic_load(&free_list);
    do {
        atomic_store(&s->next, (uint32_t)head & ((1u << SLOT_BITS) - 1));
    } while (!atomic_compare_exchange_weak(&free_list, &head,
                                           ((head >> SLOT_BITS) + 1) << SLOT_BITS | index));
}

/* Destroying an object unpins its parents, which may die in turn: a list, not recursion. */
static void slot_destroy(slot *s) {
    atomic_store(&s->next, doomed);
    doomed = handle_slot(atomic_load(&s->handle));
    if (destroying) return;
    destroying = 1;
    while (doomed) {
        slot *d = slot_at(doomed);
        doomed = atomic_load(&d->next);
        mlsi_object *object = atomic_load(&d->object);
        struct mlsi_ctx *ctx = object->ctx;
        object->destroy(object);
        slot_recycle(d);
        if (ctx) {
            atomic_fetch_sub(&ctx->live_handles, 1);
            mlsi_unpin(ctx);
        }
    }
    destroying = 0;
}

static void slot_drop(slot *s, uint64_t counts) {
    uint64_t w = atomic_fetch_sub_explicit(&s->word, counts, memory_order_acq_rel) - counts;
    if (!(w & COUNTS)) slot_destroy(s);
}

/* ---- objects -------------------------------------------------------------------------------- */

mlsys_status mlsi_handle_create(mlsi_object *obj, mlsys_kind kind, struct mlsi_ctx *ctx,
                                void (*destroy)(mlsi_object *), void *out_handle) {
    uint32_t index = 0;
    MLSI_TRY(slot_take(&index));
    slot *s = slot_at(index);
    uint64_t h = atomic_load(&s->handle) | (uint64_t)kind << 1 | 1;
    obj->kind = kind;
    obj->handle = h;
    obj->ctx = ctx;
    obj->destroy = destroy;
    atomic_store(&obj->busy, 0);
    if (ctx) {
        mlsi_repin(ctx);
        atomic_fetch_add(&ctx->live_handles, 1);
    }
    atomic_store(&s->epoch, mlsi_fork_epoch());
    atomic_store(&s->pid, mlsi_fork_pid());
    atomic_store(&s->object, obj);
    atomic_store(&s->handle, h);
    atomic_store_explicit(&s->word, word_of(h) + USER, memory_order_release);
    *(void **)out_handle = (void *)(uintptr_t)h;
    return MLSYS_OK;
}

/* The sentence for a handle that did not pass. */
static mlsys_status refuse(uint64_t h, mlsys_kind kind, const char *what) {
    if (!h) return mlsi_fail(MLSYS_E_HANDLE, "%s is NULL", what);
    slot *s = slot_at(handle_slot(h));
    uint64_t now = s ? atomic_load(&s->handle) : 0;
    int given = handle_kind(h);
    if (!(h & 1) || h >> 63 || !now || given < 1 || given >= KIND_COUNT ||
        handle_generation(h) > handle_generation(now))
        return mlsi_fail(MLSYS_E_HANDLE, "%s is not a handle: 0x%llx", what, (unsigned long long)h);
    if (now == h && word_users(atomic_load(&s->word)) && kind && given != kind)
        return mlsi_fail(MLSYS_E_HANDLE, "%s is a %s, not a %s", what, kind_names[given],
                         kind > 0 && kind < KIND_COUNT ? kind_names[kind] : "known kind");
    if (now == h && word_users(atomic_load(&s->word)))
        return mlsi_fail(MLSYS_E_HANDLE, "%s was released during the call", what);
    if (handle_generation(h) == handle_generation(now) && now & 1 && now != h)
        return mlsi_fail(MLSYS_E_HANDLE, "%s is not a handle: 0x%llx", what, (unsigned long long)h);
    return mlsi_fail(MLSYS_E_HANDLE, "%s is a released handle", what);
}

/* kind 0 = any. */
static mlsys_status pin_slot(void *handle, mlsys_kind kind, const char *what, slot **out) {
    uint64_t h = (uint64_t)(uintptr_t)handle;
    slot *s = slot_at(handle_slot(h));
    if (!s || (kind && handle_kind(h) != kind)) return refuse(h, kind, what);
    uint64_t w = atomic_load_explicit(&s->word, memory_order_relaxed);
    do {
        if (!word_users(w) || (w & ~COUNTS) != word_of(h)) return refuse(h, kind, what);
    } while (!atomic_compare_exchange_weak_explicit(&s->word, &w, w + PIN, memory_order_acquire,
                                                    memory_order_relaxed));
    if (atomic_load_explicit(&s->handle, memory_order_relaxed) != h) {
        slot_drop(s, PIN);
        return refuse(h, kind, what);
    }
    *out = s;
    return MLSYS_OK;
}

static mlsys_status refuse_forked(slot *s, const char *what) {
    int pid = atomic_load(&s->pid);
    bool is_config = handle_kind(atomic_load(&s->handle)) == MLSYS_KIND_CONFIG;
    slot_drop(s, PIN);
    return mlsi_fail(MLSYS_E_STATE, "%s: the %s was created in process %d before a fork", what,
                     is_config ? "config" : "context", pid);
}

static mlsys_status pin_here(void *handle, mlsys_kind kind, const char *what, slot **out) {
    MLSI_TRY(pin_slot(handle, kind, what, out));
    if (atomic_load_explicit(&(*out)->epoch, memory_order_relaxed) != mlsi_fork_epoch() &&
        !mlsi_fault(MLSI_FAULT_HANDLE_FORK))
        return refuse_forked(*out, what);
    return MLSYS_OK;
}

mlsys_status mlsi_pin(void *handle, mlsys_kind kind, const char *what, void *out_object) {
    slot *s = NULL;
    *(void **)out_object = NULL;
    MLSI_TRY(pin_here(handle, kind, what, &s));
    *(void **)out_object = atomic_load_explicit(&s->object, memory_order_relaxed);
    return MLSYS_OK;
}

/* The try-lock of a pinned object; unpins it when it is taken. */
static mlsys_status lock_pinned(mlsi_object *object, const char *what, void *out_object) {
    int32_t idle = mlsi_fault(MLSI_FAULT_HANDLE_BUSY) ? atomic_load(&object->busy) : 0;
    *(void **)out_object = NULL;
    if (!atomic_compare_exchange_strong_explicit(&object->busy, &idle, 1, memory_order_acquire,
                                                 memory_order_relaxed)) {
        mlsys_kind kind = object->kind;
        mlsi_unpin(object);
        return mlsi_fail(MLSYS_E_BUSY, "%s: the %s is in use by another call", what,
                         kind_names[kind]);
    }
    *(void **)out_object = object;
    return MLSYS_OK;
}

mlsys_status mlsi_pin_exclusive(void *handle, mlsys_kind kind, const char *what, void *out_object) {
    mlsi_object *object;
    *(void **)out_object = NULL;
    MLSI_TRY(mlsi_pin(handle, kind, what, &object));
    return lock_pinned(object, what, out_object);
}

mlsys_status mlsi_take(mlsi_object *object, const char *what, void *out_object) {
    mlsi_repin(object);
    return lock_pinned(object, what, out_object);
}

void mlsi_unpin(void *object) {
    if (object) slot_drop(slot_of(object), PIN);
}

void mlsi_unpin_exclusive(void *object) {
    if (!object) return;
    atomic_store_explicit(&((mlsi_object *)object)->busy, 0, memory_order_release);
    mlsi_unpin(object);
}

void mlsi_repin(void *object) {
    atomic_fetch_add_explicit(&slot_of(object)->word, PIN, memory_order_relaxed);
}

bool mlsi_try_repin(void *object) {
    slot *s = slot_of(object);
    uint64_t w = atomic_load(&s->word);
    do {
        if (!(w & COUNTS)) return false;
    } while (!atomic_compare_exchange_weak(&s->word, &w, w + PIN));
    return true;
}

bool mlsi_handle_is_local(const void *object) {
    return atomic_load(&slot_of(object)->epoch) == mlsi_fork_epoch();
}

static mlsys_status slot_retain(slot *s, uint64_t users_needed) {
    uint64_t w = atomic_load(&s->word);
    do {
        if (word_users(w) < users_needed)
            return mlsi_fail(MLSYS_E_HANDLE, "retain: handle is a released handle");
        if (word_users(w) == USERS_MAX)
            return mlsi_fail(MLSYS_E_STATE, "retain: the handle has %llu references already",
                             (unsigned long long)USERS_MAX);
    } while (!atomic_compare_exchange_weak(&s->word, &w, w + USER));
    return MLSYS_OK;
}

void *mlsi_handle_of(void *object) {
    if (slot_retain(slot_of(object), 0) != MLSYS_OK) return NULL;
    return (void *)(uintptr_t)((mlsi_object *)object)->handle;
}

mlsys_status mlsi_handle_retain(void *handle, const char *what) {
    slot *s = NULL;
    MLSI_TRY(pin_here(handle, 0, what, &s));
    mlsys_status st = slot_retain(s, 1);
    slot_drop(s, PIN);
    return st;
}

mlsys_status mlsi_handle_release(void *handle, const char *what) {
    slot *s = NULL;
    MLSI_TRY(pin_slot(handle, 0, what, &s)); /* allowed in a forked child */
    uint64_t w = atomic_load(&s->word);
    do {
        if (!word_users(w)) { /* another thread dropped the last one meanwhile */
            slot_drop(s, PIN);
            return mlsi_fail(MLSYS_E_HANDLE, "%s is a released handle", what);
        }
    } while (!atomic_compare_exchange_weak(&s->word, &w, w - USER));
    slot_drop(s, PIN);
    return MLSYS_OK;
}

mlsys_status mlsi_handle_kind(void *handle, const char *what, mlsys_kind *out) {
    slot *s = NULL;
    MLSI_TRY(pin_here(handle, 0, what, &s));
    *out = handle_kind((uint64_t)(uintptr_t)handle);
    slot_drop(s, PIN);
    return MLSYS_OK;
}

uint64_t mlsi_handle_live(const struct mlsi_ctx *ctx) { return atomic_load(&ctx->live_handles); }
