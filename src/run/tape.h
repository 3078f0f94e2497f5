/* Tapes: what eager ops on a stream computed, to differentiate it.
 *
 * The record is a graph: its inputs are leaves (tensors that no recorded op computed), its nodes the ops. Each value
 * has the memory that holds it (mlsi_tape_saved), so nothing forward is computed again, and the version of that
 * storage when it was recorded, so that a value that was written over is noticed.
 *
 * Tensors are views of storages, and two of them may show one memory. So a storage, not a tensor, has a value
 * (mlsi_tape_memory): a leaf or a result that fills it. A tensor that shows it otherwise is recorded as a movement of
 * that value: reshape, transpose, or gather for any other strides. What reads the same memory depends on the same
 * value, then, however it was viewed. */
#ifndef MLSI_TAPE_H
#define MLSI_TAPE_H

#include "core/tensor.h"
#include "ir/graph/ir.h"

typedef struct mlsi_tape_memory {
    mlsi_storage *storage; /* retained */
    uint64_t version;      /* the value holds from this one on, until the next */
    int32_t value;         /* -1: detached before it was used */
    bool computed;         /* by a recorded op; otherwise a leaf */
    bool part;             /* the value lies in a part of the storage: readable as it is only */
    bool detached;         /* a new leaf from the next use on */
    bool constant;         /* a leaf made so */
    mlsi_layout layout;    /* of the value; unless part, dense over the whole storage */
    int64_t before;        /* the storage's memory before this one; -1 */
} mlsi_tape_memory;

typedef struct mlsi_tape_saved {
    mlsi_storage *storage; /* retained; NULL: a constant of the graph */
    uint64_t version;
    mlsi_layout layout;
} mlsi_tape_saved;

typedef struct mlsi_tape {
    mlsi_object object;
    mlsi_stream *stream; /* pinned */
    bool on;
    mlsi_graph *graph;      /* main is the record */
    mlsi_tape_saved *saved; /* per value */
    int64_t cap_saved;
    mlsi_tape_memory *memories;
    int64_t n_memories, cap_memories;
    int64_t *slots; /* hash table: number + 1 of a storage's last memory, 0 = free */
    int64_t n_slots;
} mlsi_tape;

/* The state to go back to when an op fails. */
typedef struct mlsi_tape_mark {
    bool recorded; /* false: the op leaves no record */
    int64_t n_nodes, n_values, n_inputs, n_memories;
} mlsi_tape_mark;

mlsys_status mlsi_tape_create(mlsi_stream *s, mlsys_tape *out);
/* Before an op runs: record it. call: its graph of one node; in: its operands, NULL = absent. */
mlsys_status mlsi_tape_begin(mlsi_tape *t, const mlsi_graph *call, int32_t n_in,
                             mlsi_tensor *const *in, mlsi_tape_mark *mark);
/* After it ran: note where its results are, or take the record back. Cannot fail. */
void mlsi_tape_end(mlsi_tape *t, const mlsi_tape_mark *mark, mlsys_status st, int32_t n_out,
                   mlsi_tensor *const *out);
mlsys_status mlsi_tape_detach(mlsi_tape *t, mlsi_tensor *x);
mlsys_status mlsi_tape_clear(mlsi_tape *t);
/* dx: new tensors, NULL where no y depends. Entries of seeds may be NULL. */
mlsys_status mlsi_tape_gradient(mlsi_tape *t, int32_t n_y, mlsi_tensor *const *y,
                                mlsi_tensor *const *seeds, int32_t n_x, mlsi_tensor *const *x,
                                mlsys_tensor *dx);

/* ---- between tape.c and tape_gradient.c ---------------------------------------------------- */

/* The last memory of a storage, -1 = none. */
int64_t mlsi_tape_find(const mlsi_tape *t, const mlsi_storage *s);
/* value, which lies as `from` says (dense), as a tensor with layout `to` in the same memory sees it. */
mlsys_status mlsi_tape_view(mlsi_graph *g, int32_t func, mlsi_device *device, int32_t value,
                            const mlsi_layout *from, const mlsi_layout *to, int32_t *out);

#endif
