/* Graph replay: a stream that captures what it is given. */
#include "cuda/device.h"

#include "core/faults.h"
#include <stdio.h>

/* In captures nothing else of the queue is under way, so that releases need no event of it: an event of a capture cannot be
 * waited for. */
static mlsys_status begin(mlsi_queue *q) {
    mlsi_accel *d = q->device;
    MLSI_TRY(mlsi_cuda_not_recording(q, "a recording"));
    MLSI_TRY(mlsi_cuda_wait(q));
    pthread_mutex_lock(&d->lock);
    CUresult r = d->driver->stream_begin_capture(q->stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    q->recording = r == CUDA_SUCCESS;
    pthread_mutex_unlock(&d->lock);
    q->record_status = MLSYS_OK;
    return mlsi_cuda_check(d, r, "cuStreamBeginCapture", "");
}

mlsys_status mlsi_cuda_record_begin(mlsi_queue *q) {
    MLSI_TRY(mlsi_cuda_enter(q->device));
    mlsys_status st = begin(q);
    mlsi_cuda_leave(q->device);
    return st;
}

static mlsys_status end(mlsi_queue *q, CUgraphExec *out) {
    mlsi_accel *d = q->device;
    CUgraph graph = NULL;
    if (!q->recording)
        return mlsi_fail(MLSYS_E_STATE, "CUDA device %d: nothing is being recorded", d->index);
    pthread_mutex_lock(&d->lock);
    CUresult r = d->driver->stream_end_capture(q->stream, &graph);
    q->recording = false;
    pthread_mutex_unlock(&d->lock);
    q->launches = 0;
    mlsys_status st = mlsi_fault(MLSI_FAULT_CUDA_RECORD) ? MLSYS_OK : q->record_status;
    if (st != MLSYS_OK)
        st = mlsi_fail(st, "CUDA: the recording failed: %s", q->record_failure);
    else
        st = mlsi_cuda_check(d, r, "cuStreamEndCapture", "");
    if (st == MLSYS_OK)
        st = mlsi_cuda_check(d, d->driver->graph_instantiate(out, graph, 0),
                             "cuGraphInstantiateWithFlags", "");
    if (graph) (void)d->driver->graph_destroy(graph);
    return st;
}

mlsys_status mlsi_cuda_record_end(mlsi_queue *q, void **out) {
    CUgraphExec exec = NULL;
    *out = NULL;
    MLSI_TRY(mlsi_cuda_enter(q->device));
    mlsys_status st = end(q, &exec);
    mlsi_cuda_leave(q->device);
    if (st == MLSYS_OK) *out = exec;
    return st;
}

mlsys_status mlsi_cuda_replay(mlsi_queue *q, void *recorded) {
    mlsi_accel *d = q->device;
    MLSI_TRY(mlsi_cuda_enter(d));
    mlsys_status st = mlsi_cuda_not_recording(q, "a replay");
    if (st == MLSYS_OK) {
        if (!q->launches++) snprintf(q->first, sizeof q->first, "a recording");
        st = mlsi_cuda_issued(q, d->driver->graph_launch(recorded, q->stream), "cuGraphLaunch",
                              "a recording");
    }
    mlsi_cuda_leave(d);
    return st;
}

/* The driver keeps it until replays that are under way are done. */
void mlsi_cuda_record_free(mlsi_accel *d, void *recorded) {
    if (!recorded || !mlsi_cuda_enter_to_free(d)) return;
    (void)d->driver->graph_exec_destroy(recorded);
    mlsi_cuda_leave(d);
}
