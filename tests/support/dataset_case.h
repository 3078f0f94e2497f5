/* A context, a folder for files, and short ways to open and wrap datasets. */
#ifndef MLSI_TESTS_DATASET_CASE_H
#define MLSI_TESTS_DATASET_CASE_H

#include "support/require.h"

#include <mlsys/mlsys.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != MLSYS_OK) ck_abort_msg("%s: %s", #call, mlsys_last_error());                 \
    } while (0)

static mlsys_ctx ctx;
static mlsys_device cpu;
static mlsys_stream stream;
static char folder[64], path[96], other[96];

static inline void open_world(void) {
    mlsys_config c;
    OK(mlsys_config_create(&c));
    OK(mlsys_config_set_i64(c, "threads", 3));
    OK(mlsys_ctx_create(c, NULL, &ctx));
    OK(mlsys_release(c));
    OK(mlsys_device_get(ctx, MLSYS_CPU, 0, &cpu));
    OK(mlsys_stream_create(cpu, NULL, &stream));
    strcpy(folder, "/tmp/mlsys-dataset-XXXXXX");
    REQUIRE(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/data", folder);
    snprintf(other, sizeof other, "%s/labels", folder);
}

static inline void close_world(void) {
    mlsys_stats s = {.size = sizeof s};
    OK(mlsys_release(stream));
    OK(mlsys_release(cpu));
    OK(mlsys_ctx_stats(ctx, &s));
    ck_assert_uint_eq(s.live_handles, 0);
    OK(mlsys_release(ctx));
    unlink(path);
    unlink(other);
    rmdir(folder);
}

static inline void write_file(const char *name, const void *data, size_t n) {
    FILE *f = fopen(name, "wb");
    REQUIRE(f && fwrite(data, 1, n, f) == n && !fclose(f));
}

/* "format=csv label=y": numbers become integers. */
static inline mlsys_config settings(const char *text) {
    char copy[256], *rest = copy;
    mlsys_config c;
    snprintf(copy, sizeof copy, "%s", text);
    OK(mlsys_config_create(&c));
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *value = strchr(word, '='), *end;
        *value++ = 0;
        long long number = strtoll(value, &end, 10);
        if (*value && !*end && strcmp(word, "label"))
            OK(mlsys_config_set_i64(c, word, number));
        else
            OK(mlsys_config_set_str(c, word, value));
    }
    return c;
}

static inline mlsys_status try_open(const char *text, mlsys_dataset *out) {
    mlsys_config c = settings(text);
    mlsys_status st = mlsys_dataset_open(ctx, path, c, out);
    OK(mlsys_release(c));
    return st;
}

static inline mlsys_dataset open_file(const char *text) {
    mlsys_dataset d;
    OK(try_open(text, &d));
    return d;
}

static inline void refuse(const char *text, mlsys_status code, const char *part) {
    mlsys_dataset d = (void *)text;
    mlsys_status st = try_open(text, &d);
    ck_assert_msg(st == code && !d && strstr(mlsys_last_error(), part),
                  "%s: %s \"%s\", expected \"%s\"", text, mlsys_status_name(st), mlsys_last_error(),
                  part);
}

static inline mlsys_dataset wrap(int n, const mlsys_tensor *fields, const char *text) {
    mlsys_dataset d;
    mlsys_config c = settings(text);
    OK(mlsys_dataset_wrap(ctx, n, fields, c, &d));
    OK(mlsys_release(c));
    return d;
}

static inline mlsys_tensor tensor(mlsys_dtype dtype, int rank, const int64_t *shape,
                                  const void *data) {
    mlsys_tensor t;
    int32_t bytes;
    uint64_t n = 1;
    OK(mlsys_dtype_info(dtype, NULL, &bytes, NULL));
    for (int i = 0; i < rank; i++)
        n *= (uint64_t)shape[i];
    OK(mlsys_tensor_create(cpu, dtype, rank, shape, &t));
    OK(mlsys_tensor_write(t, stream, data, n * (uint64_t)bytes));
    return t;
}

static inline const void *data_of(mlsys_tensor t) {
    void *p;
    OK(mlsys_tensor_data(t, &p, NULL));
    return p;
}

static inline void release(int n, mlsys_tensor *t) {
    for (int i = 0; i < n; i++)
        OK(mlsys_release(t[i]));
}

#endif
