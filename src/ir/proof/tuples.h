/* Hash-consing: equal tuples of numbers have the same id, so that expressions over ids are equal exactly when theirs are. */
#ifndef MLSI_TUPLES_H
#define MLSI_TUPLES_H

#include "core/alloc.h"

typedef struct mlsi_tuple_item {
    int64_t at; /* in words */
    int32_t n;
} mlsi_tuple_item;

typedef struct mlsi_tuples {
    mlsi_alloc *alloc;
    int64_t *words;
    int64_t n_words, cap_words;
    mlsi_tuple_item *items;
    int64_t n_items, cap_items;
    int32_t *slots; /* id + 1, 0 = free */
    int64_t n_slots;
} mlsi_tuples;

void mlsi_tuples_init(mlsi_tuples *t, mlsi_alloc *a);
void mlsi_tuples_free(mlsi_tuples *t);
mlsys_status mlsi_tuple(mlsi_tuples *t, const int64_t *words, int n, int32_t *id);
/* Valid until the next tuple is made. */
static inline const int64_t *mlsi_tuple_words(const mlsi_tuples *t, int32_t id) {
    return t->words + t->items[id].at;
}

#endif
