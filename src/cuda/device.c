#include "cuda/device.h"

#include "core/faults.h"
#include "core/fork.h"

#include <stdio.h>
#include <string.h>

/* ---- failures ---------------------------------------------------------------------------------- */

bool mlsi_cuda_is_child(const mlsi_accel *d) {
    return d->epoch != mlsi_fork_epoch() && !mlsi_fault(MLSI_FAULT_CUDA_FORK);
}

/* After these the driver answers every call on the context with the same error. */
static bool ends_context(CUresult r) {
    switch (r) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN: return true;
    default: return false;
    }
}

mlsys_status mlsi_cuda_kill(mlsi_accel *d, mlsys_status code) {
    pthread_mutex_lock(&d->failure_lock);
    if (!atomic_load(&d->failed)) {
        d->failure_code = code;
        snprintf(d->failure, sizeof d->failure, "%s", mlsys_last_error());
        atomic_store(&d->failed, true);
    }
    pthread_mutex_unlock(&d->failure_lock);
    return mlsi_fail(d->failure_code, "%s", d->failure);
}

mlsys_status mlsi_cuda_check(mlsi_accel *d, CUresult r, const char *call, const char *op) {
    char words[200];
    if (r == CUDA_SUCCESS) return MLSYS_OK;
    mlsi_driver_error(d->driver, r, words, sizeof words);
    mlsys_status st = r == CUDA_ERROR_OUT_OF_MEMORY ? MLSYS_E_NOMEM : MLSYS_E_DEVICE;
    st = mlsi_fail(st, "CUDA device %d: %s: %s%s", d->index, call, words, op);
    return ends_context(r) && !mlsi_fault(MLSI_FAULT_CUDA_STICKY) ? mlsi_cuda_kill(d, st) : st;
}

mlsys_status mlsi_cuda_enter(mlsi_accel *d) {
    if (mlsi_cuda_is_child(d))
        return mlsi_fail(MLSYS_E_STATE, "CUDA device %d was opened in process %d before a fork",
                         d->index, d->pid);
    if (atomic_load(&d->failed)) return mlsi_fail(d->failure_code, "%s", d->failure);
    return mlsi_cuda_check(d, d->driver->ctx_push(d->context), "cuCtxPushCurrent", "");
}

bool mlsi_cuda_enter_to_free(mlsi_accel *d) {
    return !mlsi_cuda_is_child(d) && d->driver->ctx_push(d->context) == CUDA_SUCCESS;
}

/* An error here is one of earlier work, which the next call that waits for it reports. */
void mlsi_cuda_leave(mlsi_accel *d) {
    CUcontext ours;
    if (!mlsi_fault(MLSI_FAULT_CUDA_CONTEXT)) (void)d->driver->ctx_pop(&ours);
}

/* ---- open, close -------------------------------------------------------------------------------- */

static mlsys_status failed(const mlsi_driver *driver, CUresult r, const char *call, int32_t index) {
    char words[200];
    mlsi_driver_error(driver, r, words, sizeof words);
    return mlsi_fail(r == CUDA_ERROR_OUT_OF_MEMORY ? MLSYS_E_NOMEM : MLSYS_E_DEVICE,
                     "CUDA device %d: %s: %s", index, call, words);
}

mlsys_status mlsi_cuda_count(int32_t *out) {
    const mlsi_driver *driver;
    char words[200];
    int n = 0;
    *out = 0;
    MLSI_TRY(mlsi_driver_get(&driver));
    CUresult r = driver->device_count(&n);
    if (r != CUDA_SUCCESS) {
        mlsi_driver_error(driver, r, words, sizeof words);
        return mlsi_fail(MLSYS_E_DEVICE, "CUDA: cuDeviceGetCount: %s", words);
    }
    if (n <= 0) return mlsi_fail(MLSYS_E_DEVICE, "CUDA: the driver finds no device");
    return *out = n, MLSYS_OK;
}

static mlsys_status read_facts(mlsi_accel *d) {
    const mlsi_driver *driver = d->driver;
    int major = 0, minor = 0;
    size_t total = 0;
    CUresult r = driver->device_get(&d->device, d->index);
    if (r) return failed(driver, r, "cuDeviceGet", d->index);
    r = driver->device_name(d->name, sizeof d->name - 1, d->device);
    if (r) return failed(driver, r, "cuDeviceGetName", d->index);
    const struct {
        int *to, attribute;
    } rows[] = {
        {&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
        {&d->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
        {&d->shared_most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        r = driver->device_attribute(rows[i].to, rows[i].attribute, d->device);
        if (r) return failed(driver, r, "cuDeviceGetAttribute", d->index);
    }
    r = driver->device_total_mem(&total, d->device);
    if (r) return failed(driver, r, "cuDeviceTotalMem", d->index);
    d->capability = 10 * major + minor;
    d->total = total;
    return MLSYS_OK;
}

mlsys_status mlsi_cuda_open(mlsi_alloc *a, int32_t index, uint64_t limit, mlsi_accel **out) {
    mlsi_accel *d;
    *out = NULL;
    MLSI_TRY(MLSI_NEW(a, &d));
    d->alloc = a;
    d->index = index;
    d->epoch = mlsi_fork_epoch();
    d->pid = mlsi_fork_pid();
    mlsys_status st = mlsi_driver_get(&d->driver);
    if (st == MLSYS_OK) st = read_facts(d);
    if (st == MLSYS_OK) {
        CUresult r = d->driver->primary_ctx_retain(&d->context, d->device);
        if (r) st = failed(d->driver, r, "cuDevicePrimaryCtxRetain", index);
    }
    if (st != MLSYS_OK) {
        mlsi_mem_free(a, d);
        return st;
    }
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->rows_lock, NULL);
    pthread_mutex_init(&d->failure_lock, NULL);
    mlsi_cuda_memory_init(&d->memory, limit);
    return *out = d, MLSYS_OK;
}

/* Of a context that failed the driver frees everything when its last owner lets it go. */
void mlsi_cuda_close(mlsi_accel *d) {
    if (!d) return;
    mlsi_alloc *a = d->alloc;
    bool child = mlsi_cuda_is_child(d);
    mlsi_cuda_rows_free(d);
    if (mlsi_cuda_enter_to_free(d)) {
        mlsi_cuda_memory_give_back(d);
        mlsi_cuda_leave(d);
    }
    mlsi_cuda_memory_free(d);
    if (!child) {
        (void)d->driver->primary_ctx_release(d->device);
        pthread_mutex_destroy(&d->rows_lock);
        pthread_mutex_destroy(&d->lock);
        pthread_mutex_destroy(&d->failure_lock);
    }
    mlsi_mem_free(a, d);
}

void mlsi_cuda_describe(const mlsi_accel *d, mlsi_text *out) {
    mlsi_text_add(out, "{\"type\":\"cuda\",\"index\":%d,\"name\":\"", d->index);
    for (const char *p = d->name; *p; p++)
        if (*p >= ' ' && *p != '"' && *p != '\\') mlsi_text_add(out, "%c", *p);
    mlsi_text_add(out,
                  "\",\"capability\":\"%d.%d\",\"multiprocessors\":%d,\"memory\":%llu,\"driver\":"
                  "\"%d.%d\"}",
                  d->capability / 10, d->capability % 10, d->multiprocessors,
                  (unsigned long long)d->total, d->driver->version / 1000,
                  d->driver->version % 1000 / 10);
}
