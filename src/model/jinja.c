/* Templates: made once, run many times. */
#include "model/jinja_impl.h"

#include "core/faults.h"

#include <stdarg.h>
#include <stdio.h>

enum { DEFAULT_STEPS = 20000000, DEFAULT_MEMORY = 1 << 28 };

mlsys_status mlsi_jinja_create(mlsi_alloc *a, const char *name, const char *source, uint64_t len,
                               mlsi_jinja **out) {
    *out = NULL;
    if (len > UINT32_MAX / 2)
        return mlsi_fail(MLSYS_E_FORMAT, "%s: %llu bytes are too many for a template", name,
                         (unsigned long long)len);
    mlsi_jinja *j;
    char *copy;
    MLSI_TRY(MLSI_NEW(a, &j));
    j->alloc = a;
    mlsi_arena_init(&j->arena, a);
    mlsys_status st = mlsi_arena_strdup(&j->arena, name, &j->name);
    if (st == MLSYS_OK) st = mlsi_arena_zalloc(&j->arena, len + 1, (void **)&copy);
    if (st == MLSYS_OK) {
        if (len) memcpy(copy, source, len);
        if (len && copy[len - 1] == '\n') len--; /* as Jinja does */
        if (len && copy[len - 1] == '\r') len--;
        parser p = {.j = j, .at = copy, .end = copy + len, .line = 1};
        p.now.text.s = copy;
        st = jinja_parse_template(&p);
    }
    if (st != MLSYS_OK) {
        mlsi_jinja_free(j);
        return st;
    }
    *out = j;
    return MLSYS_OK;
}

void mlsi_jinja_free(mlsi_jinja *j) {
    if (!j) return;
    mlsi_arena_free(&j->arena);
    mlsi_mem_free(j->alloc, j);
}

mlsys_status jinja_fail(const run *r, mlsys_status code, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return mlsi_fail(code, "%s: line %d: %s", r->j->name, r->line, text);
}

mlsys_status jinja_pay(run *r, int64_t steps, int64_t bytes) {
    r->steps -= 1 + steps + bytes / 64;
    r->memory -= bytes;
    if (r->steps < 0)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "the template takes too many steps");
    if (r->memory < 0)
        return jinja_fail(r, MLSYS_E_UNSUPPORTED, "the template takes too much memory");
    return MLSYS_OK;
}

mlsys_status mlsi_jinja_render(const mlsi_jinja *j, value globals, const mlsi_jinja_limits *limits,
                               mlsi_text *out) {
    run r = {.j = j, .globals = globals, .out = out, .line = 1};
    scope root = {0};
    int64_t before = out->len;
    r.scope = &root;
    r.steps = limits && limits->steps ? limits->steps : DEFAULT_STEPS;
    r.memory = limits && limits->memory ? limits->memory : DEFAULT_MEMORY;
    mlsi_arena_init(&r.arena, j->alloc);
    mlsys_status st = jinja_write(&r, "", 0); /* an empty result is an empty text */
    if (st == MLSYS_OK) st = jinja_exec(&r, j->body);
    mlsi_arena_free(&r.arena);
    if (st != MLSYS_OK && !mlsi_fault(MLSI_FAULT_JINJA_PARTIAL)) {
        out->len = before;
        if (out->data) out->data[before] = 0;
    }
    return st;
}
