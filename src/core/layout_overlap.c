/* Do two distinct indices of a layout reach the same element?
 *
 * Two indices i, j collide when d = i - j is a nonzero solution of sum_k d_k s_k = 0 with
 * |d_k| <= m_k = extent_k - 1; every such d comes from a pair of indices. Signs of strides do not
 * matter. In order of cost:
 *   1. a stride 0 on an extent > 1: yes;
 *   2. every stride is larger than the reach of all smaller ones (sorted strides): no;
 *   3. more indices than addresses in reach: yes;
 *   4. search, largest stride first. At level k with remainder t the later dims reach exactly some
 *      multiples of their gcd G within [-R, R], so d_k runs over one residue class modulo
 *      G / gcd(s_k, G) inside an interval of length 2R / s_k. The last two dims need no search.
 * The problem is NP-hard for unbounded rank, so the search has a budget; see self_overlaps. */
#include "core/faults.h"
#include "core/layout.h"

enum { SEARCH_STEPS = 1 << 20 };

typedef __int128 wide; /* sums of products of int64 */

typedef struct overlap_problem {
    int n;
    int64_t max[MLSYS_MAX_DIMS];     /* |d_k| <= max[k], >= 1 */
    int64_t stride[MLSYS_MAX_DIMS];  /* > 0, descending */
    wide reach[MLSYS_MAX_DIMS + 1];  /* sum of max * stride over dims >= k */
    int64_t gcd[MLSYS_MAX_DIMS + 1]; /* of strides of dims >= k; 0 past the end */
    int64_t inverse[MLSYS_MAX_DIMS]; /* of stride[k] / gcd[k] modulo gcd[k + 1] / gcd[k] */
    int64_t steps;
} overlap_problem;

static int64_t gcd64(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

/* Inverse of a modulo m >= 1, gcd(a, m) = 1, by the extended Euclidean algorithm. */
static int64_t inverse_mod(int64_t a, int64_t m) {
    wide r0 = m, r1 = a % m, t0 = 0, t1 = 1;
    while (r1) {
        wide q = r0 / r1, r = r0 - q * r1, t = t0 - q * t1;
        r0 = r1;
        r1 = r;
        t0 = t1;
        t1 = t;
    }
    return (int64_t)((t0 % m + m) % m);
}

static wide floor_div(wide a, wide b) { return a / b - (a % b < 0); } /* b > 0 */

/* Is there d_k, d_k+1, ... within bounds with sum d_j * stride_j = t? */
static bool reaches(overlap_problem *p, int k, wide t) {
    if (t > p->reach[k] || -t > p->reach[k]) return false;
    if (k == p->n) return t == 0;
    if (t % p->gcd[k]) return false;
    if (k == p->n - 1) return true; /* a multiple of the stride, within reach */
    wide s = p->stride[k], rest = p->reach[k + 1];
    wide low = floor_div(t - rest + s - 1, s), high = floor_div(t + rest, s);
    if (low < -p->max[k]) low = -p->max[k];
    if (high > p->max[k]) high = p->max[k];
    wide modulus = p->gcd[k + 1] / p->gcd[k];
    wide residue = (t / p->gcd[k]) % modulus * p->inverse[k] % modulus;
    wide d = low + ((residue - low) % modulus + modulus) % modulus;
    if (k == p->n - 2) return d <= high;
    for (; d <= high; d += modulus) {
        if (--p->steps < 0) return true;
        if (reaches(p, k + 1, t - d * s)) return true;
    }
    return false;
}

static void problem_of(const mlsi_layout *l, overlap_problem *p) {
    p->n = 0;
    p->steps = SEARCH_STEPS;
    for (int d = 0; d < l->rank; d++) {
        if (l->shape[d] < 2) continue;
        int64_t s = l->strides[d] < 0 ? -l->strides[d] : l->strides[d];
        int at = p->n++;
        for (; at > 0 && p->stride[at - 1] < s; at--) {
            p->stride[at] = p->stride[at - 1];
            p->max[at] = p->max[at - 1];
        }
        p->stride[at] = s;
        p->max[at] = l->shape[d] - 1;
    }
    p->reach[p->n] = 0;
    p->gcd[p->n] = 0;
    for (int k = p->n - 1; k >= 0; k--) {
        p->reach[k] = p->reach[k + 1] + (wide)p->max[k] * p->stride[k];
        p->gcd[k] = gcd64(p->stride[k], p->gcd[k + 1]);
    }
}

/* Exact, unless SEARCH_STEPS candidates do not settle it: then the answer is "overlaps", so that
 * the worst error is to refuse writing through a view that would have been safe. Only layouts with
 * many long dims of similar, nearly coprime strides come near the budget. */
bool mlsi_layout_self_overlaps(const mlsi_layout *l) {
    int64_t count = mlsi_layout_count(l);
    if (count < 2) return false;
    overlap_problem p;
    problem_of(l, &p);
    if (p.stride[p.n - 1] == 0) return true;
    bool sorted = true;
    for (int k = 0; k < p.n; k++)
        sorted = sorted && p.stride[k] > p.reach[k + 1];
    if (sorted) return false;
    if (mlsi_fault(MLSI_FAULT_OVERLAP_SORTED_ONLY)) return true;
    if (count > p.reach[0] / p.gcd[0] + 1) return true;
    for (int k = 0; k + 1 < p.n; k++)
        p.inverse[k] = inverse_mod(p.stride[k] / p.gcd[k], p.gcd[k + 1] / p.gcd[k]);
    /* k is the first dim with d_k != 0; by symmetry d_k > 0. */
    for (int k = 0; k + 1 < p.n; k++) {
        wide s = p.stride[k], modulus = p.gcd[k + 1] / p.gcd[k];
        for (wide d = modulus; d <= p.max[k] && d * s <= p.reach[k + 1]; d += modulus) {
            if (--p.steps < 0) return true;
            if (reaches(&p, k + 1, d * s)) return true;
        }
    }
    return false;
}
