/* CSV (RFC 4180): records of fields that commas separate; a field in quotes may hold commas, line breaks and
 * doubled quotes. Every record has the fields of the first one. */
#include "core/faults.h"
#include "train/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 1 << 20, MAX_NUMBER = 255 };

typedef struct csv {
    mlsi_alloc *alloc;
    const char *file; /* what the text is, for sentences */
    const uint8_t *at, *end;
    int64_t line;
    bool record_ended; /* by the field read last */
} csv;

/* A field's bytes as they lie in the text, without the quotes around them. */
typedef struct csv_field {
    const uint8_t *text;
    uint64_t n;
    bool quoted;  /* doubled quotes inside stand for one */
    int64_t line; /* where it begins */
} csv_field;

/* ---- records and fields --------------------------------------------------------------------- */

static mlsys_status quoted_field(csv *c, csv_field *f) {
    f->quoted = true;
    f->text = ++c->at;
    for (;; c->at++) {
        if (c->at == c->end)
            return mlsi_fail(MLSYS_E_FORMAT, "%.400s: line %" PRId64 ": a quote is not closed",
                             c->file, f->line);
        if (*c->at == '\n') c->line++;
        if (*c->at != '"') continue;
        if (c->at + 1 == c->end || c->at[1] != '"') break;
        c->at++;
    }
    f->n = (uint64_t)(c->at++ - f->text);
    return MLSYS_OK;
}

static mlsys_status next_field(csv *c, csv_field *f) {
    *f = (csv_field){.text = c->at, .line = c->line};
    if (c->at < c->end && *c->at == '"') {
        MLSI_TRY(quoted_field(c, f));
    } else {
        while (c->at < c->end && *c->at != ',' && *c->at != '\n' && *c->at != '"')
            c->at++;
        f->n = (uint64_t)(c->at - f->text);
        if (f->n && f->text[f->n - 1] == '\r' && (c->at == c->end || *c->at == '\n')) f->n--;
    }
    c->record_ended = true;
    if (c->at == c->end) return MLSYS_OK;
    if (f->quoted && *c->at == '\r' && (c->at + 1 == c->end || c->at[1] == '\n')) c->at++;
    if (c->at == c->end) return MLSYS_OK;
    if (*c->at == '\n') return c->line++, c->at++, MLSYS_OK;
    c->record_ended = false;
    if (*c->at == ',') return c->at++, MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT, "%.400s: line %" PRId64 ": a quote inside a field", c->file,
                     c->line);
}

/* Is the field this name, its doubled quotes counted once? */
static bool field_is(const csv_field *f, const char *name, uint64_t n) {
    uint64_t k = 0;
    for (uint64_t i = 0; i < f->n; i++, k++) {
        if (k == n || (char)f->text[i] != name[k]) return false;
        if (f->quoted && f->text[i] == '"') i++;
    }
    return k == n;
}

/* ---- columns -------------------------------------------------------------------------------- */

typedef struct column {
    csv_field name;
    int64_t to; /* place among the numbers; NONE or LABEL */
} column;
enum { NONE = -1, LABEL = -2 };

typedef struct columns {
    column *all;
    int64_t n, cap, chosen;
    bool named; /* by a header line */
} columns;

static mlsys_status first_record(csv *c, columns *s) {
    do {
        if (s->n == MAX_COLUMNS)
            return mlsi_fail(MLSYS_E_FORMAT, "%.400s: more than %d columns", c->file, MAX_COLUMNS);
        MLSI_TRY(MLSI_GROW(c->alloc, &s->all, &s->cap, s->n + 1));
        s->all[s->n].to = NONE;
        MLSI_TRY(next_field(c, &s->all[s->n].name));
        s->n++;
    } while (!c->record_ended);
    return MLSYS_OK;
}

static mlsys_status find_column(const csv *c, const columns *s, const char *name, uint64_t n,
                                int64_t *out) {
    char number[24];
    *out = -1;
    for (int64_t i = 0; i < s->n; i++) {
        bool same = s->named ? field_is(&s->all[i].name, name, n)
                             : (uint64_t)snprintf(number, sizeof number, "%" PRId64, i) == n &&
                                   !memcmp(number, name, (size_t)n);
        if (same && *out >= 0)
            return mlsi_fail(MLSYS_E_FORMAT, "%.400s: two columns are named \"%.*s\"", c->file,
                             (int)(n < 64 ? n : 64), name);
        if (same) *out = i;
    }
    if (*out >= 0) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_NOTFOUND, "%.400s: no column \"%.*s\" among %" PRId64 "%s", c->file,
                     (int)(n < 64 ? n : 64), name, s->n,
                     s->named ? "" : " (without a header they are named 0, 1, ...)");
}

/* The names that the setting lists, as one record; the order is the list's. */
static mlsys_status choose_listed(const csv *c, columns *s, const char *list) {
    csv names = {.alloc = c->alloc,
                 .file = "columns",
                 .at = (const uint8_t *)list,
                 .end = (const uint8_t *)list + strlen(list),
                 .line = 1};
    do {
        csv_field f;
        int64_t i;
        char *name;
        MLSI_TRY(next_field(&names, &f));
        MLSI_TRY(mlsi_mem_alloc(c->alloc, f.n, (void **)&name));
        uint64_t n = 0;
        for (uint64_t k = 0; k < f.n; k++) {
            name[n++] = (char)f.text[k];
            if (f.quoted && f.text[k] == '"') k++;
        }
        mlsys_status st = find_column(c, s, name, n, &i);
        if (st == MLSYS_OK && s->all[i].to != NONE)
            st = mlsi_fail(MLSYS_E_ARG, "columns: \"%.*s\" is %s", (int)(n < 64 ? n : 64), name,
                           s->all[i].to == LABEL ? "the label" : "listed twice");
        if (st == MLSYS_OK) s->all[i].to = s->chosen++;
        mlsi_mem_free(c->alloc, name);
        MLSI_TRY(st);
    } while (!names.record_ended);
    if (names.at == names.end) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_ARG, "columns: more than one line of names");
}

static mlsys_status choose(const csv *c, columns *s, const char *list, const char *label) {
    int64_t i;
    if (label) {
        MLSI_TRY(find_column(c, s, label, strlen(label), &i));
        s->all[i].to = LABEL;
    }
    if (list) return choose_listed(c, s, list);
    for (i = 0; i < s->n; i++)
        if (s->all[i].to == NONE) s->all[i].to = s->chosen++;
    if (s->chosen) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT, "%.400s: no column beside the label", c->file);
}

/* ---- numbers -------------------------------------------------------------------------------- */

static mlsys_status bad_cell(const csv *c, const columns *s, int64_t column_, const csv_field *f,
                             const char *why) {
    const csv_field *name = &s->all[column_].name;
    uint64_t shown = s->named ? name->n : 0;
    return mlsi_fail(MLSYS_E_FORMAT,
                     "%.400s: line %" PRId64 ", column %" PRId64 "%s%.*s%s: \"%.*s\" %s", c->file,
                     f->line, column_ + 1, shown ? " (" : "", (int)(shown < 64 ? shown : 64),
                     (const char *)name->text, shown ? ")" : "", (int)(f->n < 64 ? f->n : 64),
                     (const char *)f->text, why);
}

static const uint8_t *digits(const uint8_t *p, const uint8_t *end) {
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before the exponent; nothing that depends on a locale. */
static bool is_decimal(const uint8_t *p, const uint8_t *end) {
    if (p < end && (*p == '+' || *p == '-')) p++;
    const uint8_t *whole = p;
    p = digits(p, end);
    int64_t n = p - whole;
    if (p < end && *p == '.') {
        const uint8_t *part = ++p;
        p = digits(p, end);
        n += p - part;
    }
    if (!n) return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        const uint8_t *power = p;
        p = digits(p, end);
        if (p == power) return false;
    }
    return p == end;
}

/* Blanks around a number are no part of it. */
static csv_field trimmed(csv_field f) {
    while (f.n && (f.text[0] == ' ' || f.text[0] == '\t'))
        f.text++, f.n--;
    while (f.n && (f.text[f.n - 1] == ' ' || f.text[f.n - 1] == '\t'))
        f.n--;
    return f;
}

/* The nearest f32; the caller's locale is the C locale (API_COMPUTES). */
static const char *parse_number(const csv_field *f, float *out) {
    char text[MAX_NUMBER + 1];
    if (!f->n) return "is empty, expected a number";
    if (f->n > MAX_NUMBER) return "has too many characters for a number";
    if (!is_decimal(f->text, f->text + f->n)) return "is not a decimal number";
    memcpy(text, f->text, (size_t)f->n);
    text[f->n] = 0;
    *out = strtof(text, NULL);
    if (mlsi_fault(MLSI_FAULT_CSV_ROUNDING)) *out = (float)strtod(text, NULL);
    return isinf(*out) ? "is too large for f32" : NULL;
}

static const char *parse_label(const csv_field *f, int64_t *out) {
    const uint8_t *p = f->text, *end = p + f->n;
    bool minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) p++;
    if (p == end || digits(p, end) != end) return "is not an integer";
    for (*out = 0; p < end; p++)
        if (!mlsi_mul_i64(*out, 10, out) || !mlsi_add_i64(*out, minus ? '0' - *p : *p - '0', out))
            return "does not fit i64";
    return NULL;
}

/* ---- the table ------------------------------------------------------------------------------ */

static mlsys_status read_row(csv *c, const columns *s, float *numbers, int64_t *label) {
    int64_t line = c->line, i = 0;
    do {
        csv_field f;
        const char *why = NULL;
        MLSI_TRY(next_field(c, &f));
        if (i == s->n)
            return mlsi_fail(MLSYS_E_FORMAT,
                             "%.400s: line %" PRId64 ": more than %" PRId64
                             " fields, as the first line has",
                             c->file, line, s->n);
        f = trimmed(f);
        if (s->all[i].to >= 0) why = parse_number(&f, &numbers[s->all[i].to]);
        if (s->all[i].to == LABEL) why = parse_label(&f, label);
        if (why) return bad_cell(c, s, i, &f, why);
        i++;
    } while (!c->record_ended);
    if (i == s->n) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT,
                     "%.400s: line %" PRId64 ": %" PRId64 " fields, the first line has %" PRId64,
                     c->file, line, i, s->n);
}

static mlsys_status read_rows(csv *c, const columns *s, bool labels, mlsi_csv *out) {
    int64_t cap_numbers = 0, cap_labels = 0, ignored;
    out->columns = s->chosen;
    while (c->at < c->end) {
        MLSI_TRY(MLSI_GROW(c->alloc, &out->numbers, &cap_numbers, (out->rows + 1) * s->chosen));
        if (labels) MLSI_TRY(MLSI_GROW(c->alloc, &out->labels, &cap_labels, out->rows + 1));
        MLSI_TRY(read_row(c, s, out->numbers + out->rows * s->chosen,
                          labels ? &out->labels[out->rows] : &ignored));
        out->rows++;
    }
    if (out->rows) return MLSYS_OK;
    return mlsi_fail(MLSYS_E_FORMAT, "%.400s: no line of data", c->file);
}

mlsys_status mlsi_csv_read(mlsi_alloc *a, const char *file, const uint8_t *data, uint64_t size,
                           bool header, const char *list, const char *label, mlsi_csv *out) {
    csv c = {.alloc = a, .file = file, .at = data, .end = data + size, .line = 1};
    columns s = {.named = header};
    memset(out, 0, sizeof *out);
    if (size >= 3 && !memcmp(data, "\xef\xbb\xbf", 3)) c.at += 3; /* a byte order mark */
    csv start = c;
    mlsys_status st = first_record(&c, &s);
    if (st == MLSYS_OK) st = choose(&c, &s, list, label);
    if (!header) c = start;
    if (st == MLSYS_OK) st = read_rows(&c, &s, label != NULL, out);
    mlsi_mem_free(a, s.all);
    if (st != MLSYS_OK) {
        mlsi_mem_free(a, out->numbers);
        mlsi_mem_free(a, out->labels);
        memset(out, 0, sizeof *out);
    }
    return st;
}
