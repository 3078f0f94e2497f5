/* Custom allocator: a context takes all its memory from the caller's hooks. Here a budget: above it
 * the library reports E_NOMEM, nothing is lost, and a later call works again. */
#include "example.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct budget { /* shared by all threads of the context */
    _Atomic uint64_t used, peak, refused;
    uint64_t limit;
} budget;

static void *take(void *user, mlsys_devtype type, int32_t index, uint64_t bytes, uint64_t align) {
    (void)type, (void)index;
    budget *b = user;
    uint64_t used = atomic_fetch_add(&b->used, bytes) + bytes;
    void *p = NULL;
    if (used > b->limit ||
        posix_memalign(&p, align < sizeof p ? sizeof p : align, bytes ? bytes : 1)) {
        atomic_fetch_sub(&b->used, bytes);
        atomic_fetch_add(&b->refused, 1);
        return NULL;
    }
    uint64_t peak = atomic_load(&b->peak);
    while (used > peak && !atomic_compare_exchange_weak(&b->peak, &peak, used)) {
    }
    return p;
}

static void give(void *user, mlsys_devtype type, int32_t index, void *p, uint64_t bytes) {
    (void)type, (void)index;
    atomic_fetch_sub(&((budget *)user)->used, bytes);
    free(p);
}

static void ended(void *user) {
    printf("context ended with %llu bytes in use\n", (unsigned long long)((budget *)user)->used);
}

int main(void) {
    int rc = 1;
    budget b = {.limit = 8u << 20};
    mlsys_ctx ctx = NULL;
    mlsys_device cpu = NULL;
    mlsys_tensor small = NULL, large = NULL;
    mlsys_hooks hooks;
    const int64_t little[1] = {1 << 16}, much[1] = {1 << 24};

    TRY(mlsys_hooks_init(&hooks, sizeof hooks));
    hooks.user = &b;
    hooks.alloc = take;
    hooks.dealloc = give;
    hooks.destroy = ended;
    TRY(mlsys_ctx_create(NULL, &hooks, &ctx));
    TRY(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));

    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 1, little, &small));
    printf("a small tensor: %llu bytes in use\n", (unsigned long long)b.used);
    CLAIM(mlsys_tensor_create(cpu, MLSYS_F32, 1, much, &large) == MLSYS_E_NOMEM);
    printf("refused: %s\n", mlsys_last_error());
    CLAIM(large == NULL && b.refused == 1);

    b.limit = 128u << 20;
    TRY(mlsys_tensor_create(cpu, MLSYS_F32, 1, much, &large));
    printf("with a larger budget: %llu bytes in use, peak %llu\n", (unsigned long long)b.used,
           (unsigned long long)b.peak);
    rc = 0;
done:
    mlsys_release(large);
    mlsys_release(small);
    mlsys_release(cpu);
    mlsys_release(ctx);
    return rc || b.used != 0;
}
