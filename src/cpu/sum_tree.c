#include "cpu/sum_tree.h"
#include "core/faults.h"

static double combine(const mlsi_sum_tree *t, double a, double b) {
    double r = t->product ? a * b : a + b;
    return t->f32 ? (double)(float)r : r;
}

static double fold(const mlsi_sum_tree *t, int level) {
    double lane[MLSI_SUM_LANES];
    for (int j = 0; j < MLSI_SUM_LANES; j++)
        lane[j] = t->lane[level][j];
    for (int h = MLSI_SUM_LANES / 2; h >= 1; h /= 2)
        for (int j = 0; j < h; j++)
            lane[j] = combine(t, lane[j], lane[j + h]);
    return lane[0];
}

void mlsi_sum_tree_init(mlsi_sum_tree *t, bool product, bool f32) {
    t->product = product;
    t->f32 = f32;
    for (int l = 0; l < MLSI_SUM_LEVELS; l++)
        t->count[l] = 0;
}

/* A full chunk of a level moves up as one value before the next chunk begins. */
static void push_at(mlsi_sum_tree *t, int level, double value) {
    for (bool carry = true; carry; level++) {
        int64_t at = t->count[level]++ % MLSI_SUM_CHUNK;
        double up = 0;
        carry = !mlsi_fault(MLSI_FAULT_CPU_SUM_CARRY) && at == 0 && t->count[level] > 1 &&
                level + 1 < MLSI_SUM_LEVELS;
        if (carry) up = fold(t, level);
        if (at == 0)
            for (int j = 0; j < MLSI_SUM_LANES; j++)
                t->lane[level][j] = t->product ? 1 : 0;
        double *lane = &t->lane[level][at % MLSI_SUM_LANES];
        *lane = combine(t, *lane, value);
        value = up;
    }
}

void mlsi_sum_tree_push(mlsi_sum_tree *t, double chunk) { push_at(t, 0, chunk); }

double mlsi_sum_tree_result(mlsi_sum_tree *t) {
    if (!t->count[0]) return t->product ? 1 : 0;
    for (int level = 0;; level++) {
        double s = fold(t, level);
        /* With one chunk at this level nothing went further up. */
        if (t->count[level] <= MLSI_SUM_CHUNK) return s;
        push_at(t, level + 1, s);
    }
}
