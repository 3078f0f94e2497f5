/* A slot whose generations are used up is retired. Two thousand million objects would have to die
 * for that, so this suite has a handle table of its own, whose inside it can reach. */
#include "core/handle.c"

#include "support/require.h"

#include <stdlib.h>

typedef struct thing {
    mlsi_object object;
    int *destroyed;
} thing;

static void thing_destroy(mlsi_object *object) { ++*((thing *)object)->destroyed; }

static uint64_t thing_new(thing *t, int *destroyed) {
    void *h;
    *t = (thing){.destroyed = destroyed};
    REQUIRE(mlsi_handle_create(&t->object, MLSYS_KIND_CONFIG, NULL, thing_destroy, &h) == MLSYS_OK);
    return (uint64_t)(uintptr_t)h;
}

static mlsys_status use(uint64_t h) {
    mlsys_kind kind;
    return mlsi_handle_kind((void *)(uintptr_t)h, "test: h", &kind);
}

/* Put the free slot that the next object gets at a generation. */
static void set_generation(uint32_t index, uint64_t generation) {
    slot *s = slot_at(index);
    atomic_store(&s->handle, generation << 32 | (uint64_t)index << 8);
    atomic_store(&s->word, word_of(generation << 32));
}

START_TEST(slots_are_reused_with_the_next_generation) {
    thing t;
    int destroyed = 0;
    uint64_t first = thing_new(&t, &destroyed), last = first;
    for (int i = 0; i < 10000; i++) { /* past the generation bits in the word */
        REQUIRE(mlsi_handle_release((void *)last, "test") == MLSYS_OK);
        uint64_t next = thing_new(&t, &destroyed);
        REQUIRE(next == last + ((uint64_t)1 << 32));
        REQUIRE(use(first) == MLSYS_E_HANDLE && use(last) == MLSYS_E_HANDLE);
        REQUIRE(use(next) == MLSYS_OK);
        last = next;
    }
    mlsi_handle_release((void *)last, "test");
    ck_assert_int_eq(destroyed, 10001);
}
END_TEST

START_TEST(a_used_up_slot_is_retired) {
    thing t, u;
    int destroyed = 0;
    uint64_t h = thing_new(&t, &destroyed);
    uint32_t index = handle_slot(h);
    mlsi_handle_release((void *)h, "test");
    set_generation(index, GENERATION_MAX - 1);
    uint64_t before = thing_new(&t, &destroyed);
    ck_assert_uint_eq(handle_slot(before), index);
    mlsi_handle_release((void *)before, "test");
    uint64_t last = thing_new(&t, &destroyed);
    ck_assert_uint_eq(handle_generation(last), GENERATION_MAX);
    ck_assert_int_eq(use(before), MLSYS_E_HANDLE);
    ck_assert_int_eq(use(last), MLSYS_OK);
    mlsi_handle_release((void *)last, "test");
    ck_assert_int_eq(use(last), MLSYS_E_HANDLE);
    ck_assert_int_eq(mlsi_handle_release((void *)last, "test"), MLSYS_E_HANDLE);
    uint64_t other = thing_new(&u, &destroyed);
    ck_assert_uint_ne(handle_slot(other), index); /* never again */
    mlsi_handle_release((void *)other, "test");
    ck_assert_int_eq(destroyed, 4);
}
END_TEST

/* Generations that agree in the word's few bits: the full handle is compared too. */
START_TEST(the_whole_generation_is_compared) {
    thing t;
    int destroyed = 0;
    uint64_t h = thing_new(&t, &destroyed);
    uint32_t index = handle_slot(h);
    mlsi_handle_release((void *)h, "test");
    set_generation(index, 3 * 4096 + 5);
    uint64_t now = thing_new(&t, &destroyed);
    for (uint64_t k = 0; k < 6; k++) {
        uint64_t alias = (now & UINT32_MAX) | (k * 4096 + 5) << 32;
        ck_assert_int_eq(use(alias), alias == now ? MLSYS_OK : MLSYS_E_HANDLE);
        if (alias != now)
            ck_assert_int_eq(mlsi_handle_release((void *)alias, "test"), MLSYS_E_HANDLE);
    }
    ck_assert_int_eq(destroyed, 1);
    mlsi_handle_release((void *)now, "test");
    ck_assert_int_eq(destroyed, 2);
}
END_TEST

START_TEST(user_references_are_bounded) {
    thing t;
    int destroyed = 0;
    uint64_t h = thing_new(&t, &destroyed);
    slot *s = slot_of(&t);
    atomic_fetch_add(&s->word, (USERS_MAX - 2) * USER);
    ck_assert_int_eq(mlsi_handle_retain((void *)h, "test"), MLSYS_OK);
    ck_assert_int_eq(mlsi_handle_retain((void *)h, "test"), MLSYS_E_STATE);
    ck_assert_ptr_null(mlsi_handle_of(&t));
    atomic_fetch_sub(&s->word, (USERS_MAX - 1) * USER);
    ck_assert_int_eq(mlsi_handle_release((void *)h, "test"), MLSYS_OK);
    ck_assert_int_eq(destroyed, 1);
}
END_TEST

/* A chain of parents, far deeper than a stack of destroy calls would bear. */
typedef struct child {
    mlsi_object object;
    struct child *parent;
} child;

static void child_destroy(mlsi_object *object) {
    mlsi_unpin(((child *)object)->parent);
    free(object);
}

START_TEST(long_chains_die_without_recursion) {
    enum { LINKS = 300000 };
    child *parent = NULL;
    void *h = NULL;
    for (int i = 0; i < LINKS; i++) {
        child *l = calloc(1, sizeof *l);
        l->parent = parent;
        void *own;
        REQUIRE(mlsi_handle_create(&l->object, MLSYS_KIND_TENSOR, NULL, child_destroy, &own) ==
                MLSYS_OK);
        if (parent) { /* the child keeps the parent alone */
            mlsi_repin(parent);
            REQUIRE(mlsi_handle_release(h, "test") == MLSYS_OK);
        }
        parent = l;
        h = own;
    }
    ck_assert_int_eq(mlsi_handle_release(h, "test"), MLSYS_OK);
    ck_assert_int_eq(destroying, 0);
    ck_assert_uint_eq(doomed, 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("handle_wrap");
    TCase *t = tcase_create("handle_wrap");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, slots_are_reused_with_the_next_generation);
    tcase_add_test(t, a_used_up_slot_is_retired);
    tcase_add_test(t, the_whole_generation_is_compared);
    tcase_add_test(t, user_references_are_bounded);
    tcase_add_test(t, long_chains_die_without_recursion);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
