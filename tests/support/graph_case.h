/* A context, a device and an empty graph, for the suites of the IR: each test gets fresh ones, and demands that
 * nothing is left of them. */
#ifndef MLSI_TEST_GRAPH_CASE_H
#define MLSI_TEST_GRAPH_CASE_H

#include "ir/graph/ir.h"

#include <check.h>
#include <string.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s", mlsys_last_error());                            \
    } while (0)

static mlsi_ctx *ctx;
static mlsys_ctx ctx_handle;
static mlsys_device device_handle;
static mlsi_device *device;
static mlsys_graph graph;
static mlsi_graph *inside;

static void setup(void) {
    OK(mlsys_ctx_create(NULL, NULL, &ctx_handle));
    OK(mlsi_pin(ctx_handle, MLSYS_KIND_CTX, "ctx", &ctx));
    OK(mlsys_device_get(ctx_handle, MLSYS_CPU, 0, &device_handle));
    OK(mlsi_pin(device_handle, MLSYS_KIND_DEVICE, "device", &device));
    OK(mlsys_graph_create(ctx_handle, &graph));
    OK(mlsi_pin(graph, MLSYS_KIND_GRAPH, "graph", &inside));
}

static void teardown(void) {
    mlsys_stats stats = {.size = sizeof stats};
    mlsi_unpin(inside);
    OK(mlsys_release(graph));
    mlsi_unpin(device);
    OK(mlsys_release(device_handle));
    OK(mlsys_ctx_stats(ctx_handle, &stats));
    ck_assert_uint_eq(stats.live_handles, 0);
    mlsi_unpin(ctx);
    OK(mlsys_release(ctx_handle));
}

static void expect(mlsys_status got, mlsys_status want, const char *text) {
    if (got != want || !strstr(mlsys_last_error(), text))
        ck_abort_msg("%s \"%s\", expected %s \"%s\"", mlsys_status_name(got),
                     got ? mlsys_last_error() : "", mlsys_status_name(want), text);
}

#endif
