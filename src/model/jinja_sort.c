/* Sorting filters: stable, strings without regard to case unless asked, as in Jinja. */
#include "model/jinja_impl.h"

typedef struct sorted {
    value key, item;
} sorted;

static mlsys_status sort_key(run *r, value v, bool case_sensitive, value *out) {
    *out = v;
    if (v.type != MLSI_JINJA_STRING || case_sensitive) return MLSYS_OK;
    return jinja_change_case(r, v, "lower", out);
}

/* Merge sort, bottom up; spare has room for n. reverse keeps equal items in their order too. */
static mlsys_status merge_sort(run *r, sorted *s, sorted *spare, int64_t n, bool reverse) {
    for (int64_t width = 1; width < n; width *= 2) {
        MLSI_TRY(jinja_pay(r, n, 0));
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t mid = low + width < n ? low + width : n;
            int64_t high = mid + width < n ? mid + width : n, i = low, k = mid;
            for (int64_t to = low; to < high; to++) {
                int order = 0;
                if (i < mid && k < high && !jinja_compare(s[i].key, s[k].key, &order))
                    return jinja_fail(r, MLSYS_E_FORMAT, "%s and %s have no order",
                                      jinja_type_name(s[i].key), jinja_type_name(s[k].key));
                if (reverse) order = -order;
                bool left = k >= high || (i < mid && order <= 0);
                spare[to] = left ? s[i++] : s[k++];
            }
        }
        memcpy(s, spare, (uint64_t)n * sizeof *s);
    }
    return MLSYS_OK;
}

static mlsys_status sort_list(run *r, value list, value attribute, int64_t index,
                              bool case_sensitive, bool reverse, value *out) {
    const value *items;
    int64_t n;
    sorted *s;
    MLSI_TRY(jinja_items(r, list, &items, &n));
    MLSI_TRY(jinja_pay(r, 0, 2 * n * (int64_t)sizeof *s));
    MLSI_TRY(mlsi_arena_zalloc(&r->arena, 2 * (uint64_t)n * sizeof *s, (void **)&s));
    for (int64_t i = 0; i < n; i++) {
        value key = s[i].item = items[i];
        if (index >= 0) MLSI_TRY(jinja_item(r, key, mlsi_jinja_int(index), &key));
        if (attribute.type == MLSI_JINJA_STRING) MLSI_TRY(jinja_item(r, key, attribute, &key));
        MLSI_TRY(sort_key(r, key, case_sensitive, &s[i].key));
    }
    MLSI_TRY(merge_sort(r, s, s + n, n, reverse));
    MLSI_TRY(mlsi_jinja_list_new(&r->arena, out));
    for (int64_t i = 0; i < n; i++) {
        MLSI_TRY(jinja_pay(r, 0, sizeof *items));
        MLSI_TRY(mlsi_jinja_list_add(&r->arena, *out, s[i].item));
    }
    return MLSYS_OK;
}

mlsys_status jinja_filter_sort(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"reverse", "case_sensitive", "attribute", NULL};
    value no = mlsi_jinja_bool(false);
    MLSI_TRY(jinja_check_arguments(r, "sort", args, names));
    return sort_list(r, on, jinja_argument(args, 2, "attribute", no), -1,
                     jinja_truth(jinja_argument(args, 1, "case_sensitive", no)),
                     jinja_truth(jinja_argument(args, 0, "reverse", no)), out);
}

mlsys_status jinja_filter_dictsort(run *r, value on, const arguments *args, value *out) {
    static const char *const names[] = {"case_sensitive", "by", "reverse", NULL};
    static const arguments no_args;
    value no = mlsi_jinja_bool(false), pairs;
    MLSI_TRY(jinja_check_arguments(r, "dictsort", args, names));
    if (on.type != MLSI_JINJA_DICT)
        return jinja_fail(r, MLSYS_E_FORMAT, "dictsort of %s", jinja_type_name(on));
    MLSI_TRY(jinja_call_method(r, on, (span){"items", 5}, &no_args, &pairs));
    value by = jinja_argument(args, 1, "by", no);
    return sort_list(r, pairs, no, jinja_is_string(by, "value"),
                     jinja_truth(jinja_argument(args, 0, "case_sensitive", no)),
                     jinja_truth(jinja_argument(args, 2, "reverse", no)), out);
}
