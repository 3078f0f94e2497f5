/* The upper levels of the canonical sum of docs/numerics.md: chunk sums come in one by one, and are
 * summed by the rule that made them (chunks of 4096, 128 lanes, halving folds).
 *
 * Values are held as f64. For f32 each operation is rounded to f32, which gives the f32 result: a
 * sum or product of two f32 rounded first to f64 and then to f32 equals the one rounded once. */
#ifndef MLSI_SUM_TREE_H
#define MLSI_SUM_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum { MLSI_SUM_LANES = 128, MLSI_SUM_CHUNK = 4096, MLSI_SUM_LEVELS = 5 };

typedef struct mlsi_sum_tree {
    bool product, f32;
    int64_t count[MLSI_SUM_LEVELS]; /* values pushed to a level so far, over all its chunks */
    double lane[MLSI_SUM_LEVELS][MLSI_SUM_LANES];
} mlsi_sum_tree;

void mlsi_sum_tree_init(mlsi_sum_tree *t, bool product, bool f32);
void mlsi_sum_tree_push(mlsi_sum_tree *t, double chunk);
/* The identity when nothing was pushed. */
double mlsi_sum_tree_result(mlsi_sum_tree *t);

#endif
