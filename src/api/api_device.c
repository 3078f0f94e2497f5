#include "api/api.h"
#include "core/backend.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

mlsys_status mlsys_device_count(mlsys_ctx ctx, mlsys_devtype type, int32_t *out) {
    API_NOT_NULL(out, "device_count: out");
    *out = 0;
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "device_count: ctx", &c));
    mlsi_unpin(c);
    return mlsi_device_count(type, out);
}

mlsys_status mlsys_device_get(mlsys_ctx ctx, mlsys_devtype type, int32_t index, mlsys_device *out) {
    API_OUT_HANDLE(out, "device_get: out");
    mlsi_ctx *c;
    MLSI_TRY(mlsi_pin(ctx, MLSYS_KIND_CTX, "device_get: ctx", &c));
    mlsys_status st = mlsi_device_get(c, type, index, out);
    mlsi_unpin(c);
    return st;
}

/* The processor's brand string without quotes, backslashes and padding. */
static void processor_name(char name[64]) {
    memcpy(name, "CPU", 4);
#if defined(__x86_64__)
    uint32_t r[12];
    for (uint32_t i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]))
            return;
    const char *brand = (const char *)r;
    int n = 0;
    for (size_t i = 0; i < sizeof r && brand[i]; i++) {
        bool printable = brand[i] > 32 && brand[i] < 127 && brand[i] != '"' && brand[i] != '\\';
        if (printable || (n && name[n - 1] != ' ')) name[n++] = printable ? brand[i] : ' ';
    }
    while (n && name[n - 1] == ' ')
        n--;
    name[n] = 0;
#endif
}

mlsys_status mlsys_device_describe(mlsys_device device, char *buf, uint64_t cap, uint64_t *need) {
    static const char *const isa_names[] = {"portable", "avx2", "avx512"};
    API_TEXT(buf, cap, "device_describe");
    mlsi_device *d;
    MLSI_TRY(mlsi_pin(device, MLSYS_KIND_DEVICE, "device_describe: device", &d));
    const mlsi_ctx *ctx = d->object.ctx;
    char name[64];
    processor_name(name);
    mlsi_text text;
    mlsi_text_init(&text, &d->object.ctx->alloc);
    if (d->accel) d->accel->describe(d->opened, &text);
    if (!d->accel)
        mlsi_text_add(
            &text, "{\"type\":\"cpu\",\"index\":%d,\"name\":\"%s\",\"isa\":\"%s\",\"threads\":%d}",
            d->index, name, isa_names[ctx->isa_limit], mlsi_pool_threads(ctx->pool));
    mlsys_status st = mlsi_text_out(&text, buf, cap, need);
    mlsi_unpin(d);
    return st;
}

mlsys_status mlsys_stream_create(mlsys_device device, mlsys_config config, mlsys_stream *out) {
    API_OUT_HANDLE(out, "stream_create: out");
    mlsi_device *d;
    MLSI_TRY(mlsi_pin(device, MLSYS_KIND_DEVICE, "stream_create: device", &d));
    mlsi_config *c = NULL;
    mlsys_status st = MLSYS_OK;
    if (config) st = mlsi_pin_exclusive(config, MLSYS_KIND_CONFIG, "stream_create: config", &c);
    if (st == MLSYS_OK) st = mlsi_stream_create(d, c, out);
    mlsi_unpin_exclusive(c);
    mlsi_unpin(d);
    return st;
}

/* Work is done when the call that asked for it returns. */
mlsys_status mlsys_stream_sync(mlsys_stream stream) {
    mlsi_stream *s;
    MLSI_TRY(mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "stream_sync: stream", &s));
    mlsi_unpin_exclusive(s);
    return MLSYS_OK;
}

mlsys_status mlsys_stream_scratch_bytes(mlsys_stream stream, uint64_t *out) {
    API_NOT_NULL(out, "stream_scratch_bytes: out");
    *out = 0;
    mlsi_stream *s;
    MLSI_TRY(mlsi_pin_exclusive(stream, MLSYS_KIND_STREAM, "stream_scratch_bytes: stream", &s));
    *out = s->scratch_bytes;
    mlsi_unpin_exclusive(s);
    return MLSYS_OK;
}
