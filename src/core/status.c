#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_CAP = 1024 };

static _Thread_local char last_text[TEXT_CAP];
static _Thread_local mlsys_status last_code;

mlsys_status(mlsi_fail)(mlsys_status code, const char *format, ...) {
    char text[TEXT_CAP]; /* arguments may point into last_text */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(last_text, text, sizeof text);
    last_code = code;
    return code;
}

mlsys_status(mlsi_fail_in)(mlsys_status code, const char *format, ...) {
    char text[TEXT_CAP];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) n = 0;
    if (n < TEXT_CAP && snprintf(text + n, sizeof text - (size_t)n, ": %s", last_text) < 0)
        text[n] = 0;
    memcpy(last_text, text, sizeof text);
    last_code = code;
    return code;
}

const char *mlsys_last_error(void) { return last_text; }

mlsys_status mlsys_last_status(void) { return last_code; }

mlsys_status mlsys_set_error(mlsys_status status, const char *message) {
    if (status <= MLSYS_OK || status > MLSYS_E_FORMAT)
        return mlsi_fail(MLSYS_E_ARG, "set_error: status %d is not an error code", status);
    return mlsi_fail(status, "%s", message ? message : "");
}

const char *mlsys_status_name(mlsys_status status) {
    static const char *const names[] = {
        "OK",        "E_ARG",      "E_HANDLE",      "E_SHAPE",    "E_DTYPE", "E_NOMEM",
        "E_DEVICE",  "E_NOTFOUND", "E_UNSUPPORTED", "E_STATE",    "E_BUSY",  "E_BUFFER",
        "E_VERSION", "E_CALLBACK", "E_TIMEOUT",     "E_INTERNAL", "E_IO",    "E_FORMAT"};
    if (status < 0 || status > MLSYS_E_FORMAT) return "E_?";
    return names[status];
}
