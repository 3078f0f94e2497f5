/* Construction of graphs. */
#include "core/hash.h"
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <stdio.h>
#include <string.h>

void mlsi_graph_renumber(mlsi_graph *g) {
    g->serial = (uint32_t)(atomic_fetch_add(&g->ctx->next_serial, 1) + 1) & 0x7fffffffu;
}

mlsys_status mlsi_graph_init(mlsi_graph *g, mlsi_ctx *ctx) {
    memset(g, 0, sizeof *g);
    g->ctx = ctx;
    g->alloc = &ctx->alloc;
    mlsi_graph_renumber(g);
    mlsi_arena_init(&g->arena, g->alloc);
    mlsi_symtab_init(&g->symbols, g->alloc);
    int32_t main_func;
    mlsys_status st = mlsi_func_add(g, "main", &main_func);
    if (st != MLSYS_OK) mlsi_graph_free(g);
    return st;
}

static void func_free(mlsi_alloc *a, mlsi_func *f) {
    mlsi_mem_free(a, f->nodes);
    mlsi_mem_free(a, f->values);
    mlsi_mem_free(a, f->inputs);
    mlsi_mem_free(a, f->donated);
    mlsi_mem_free(a, f->outputs);
    memset(f, 0, sizeof *f);
}

void mlsi_graph_free(mlsi_graph *g) {
    for (int64_t i = 0; i < g->n_funcs; i++)
        func_free(g->alloc, &g->funcs[i]);
    for (int64_t i = 0; i < g->n_consts; i++)
        mlsi_unpin(g->consts[i]);
    for (int64_t i = 0; i < g->n_customs; i++) {
        if (!g->customs[i].attrs) continue;
        mlsys_release((void *)(uintptr_t)g->customs[i].attrs->object.handle);
        mlsi_unpin(g->customs[i].attrs);
    }
    mlsi_mem_free(g->alloc, g->funcs);
    mlsi_mem_free(g->alloc, g->consts);
    mlsi_mem_free(g->alloc, g->const_slots);
    mlsi_mem_free(g->alloc, g->customs);
    mlsi_symtab_free(&g->symbols);
    mlsi_arena_free(&g->arena);
    g->funcs = NULL, g->consts = NULL, g->customs = NULL, g->const_slots = NULL;
    g->n_funcs = g->n_consts = g->n_customs = g->n_const_slots = 0;
    g->cap_funcs = g->cap_consts = g->cap_customs = 0;
}

void mlsi_graph_truncate(mlsi_graph *g, int64_t n) {
    while (g->n_funcs > n)
        func_free(g->alloc, &g->funcs[--g->n_funcs]);
}

/* A copy in the arena; "" is no name. */
static mlsys_status own_name(mlsi_graph *g, const char *what, const char *name, const char **out) {
    *out = NULL;
    if (!name || !name[0]) return MLSYS_OK;
    if (strlen(name) > MLSI_MAX_NAME)
        return mlsi_fail(MLSYS_E_ARG, "%s: the name \"%.32s...\" is longer than %d bytes", what,
                         name, MLSI_MAX_NAME);
    return mlsi_arena_strdup(&g->arena, name, out);
}

mlsys_status mlsi_func_add(mlsi_graph *g, const char *name, int32_t *out) {
    if (g->n_funcs > MLSI_MAX_FUNCS + 1) /* two more than the limit: a rewrite and its proof */
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "graph: more than %d functions", MLSI_MAX_FUNCS);
    MLSI_TRY(MLSI_GROW(g->alloc, &g->funcs, &g->cap_funcs, g->n_funcs + 1));
    mlsi_func f;
    memset(&f, 0, sizeof f);
    MLSI_TRY(mlsi_arena_strdup(&g->arena, name, &f.name));
    *out = (int32_t)g->n_funcs;
    g->funcs[g->n_funcs++] = f;
    return MLSYS_OK;
}

/* The last extent of a block dtype holds whole blocks. */
static mlsys_status check_blocks(const mlsi_graph *g, const char *what, const mlsi_type *t) {
    const mlsi_dtype_info *info = mlsi_dtype_get(t->dtype);
    int64_t rest = 0;
    if (info->block_elems == 1) return MLSYS_OK;
    if (t->rank == 0) return mlsi_fail(MLSYS_E_SHAPE, "%s: %s has rank 0", what, info->name);
    /* Interning a dim changes the table but no meaning. */
    MLSI_TRY(mlsi_dim_op((mlsi_symtab *)&g->symbols, '%', t->dims[t->rank - 1], info->block_elems,
                         &rest));
    if (rest == 0) return MLSYS_OK;
    char text[96];
    return mlsi_fail(MLSYS_E_SHAPE, "%s: last extent %s is not whole blocks of %d (%s)", what,
                     mlsi_dim_text(&g->symbols, t->dims[t->rank - 1], text, sizeof text),
                     info->block_elems, info->name);
}

mlsys_status mlsi_type_check(const mlsi_graph *g, const char *what, const mlsi_type *t) {
    if (!mlsi_dtype_get(t->dtype))
        return mlsi_fail(MLSYS_E_DTYPE, "%s: unknown dtype %d", what, t->dtype);
    if (t->rank < 0 || t->rank > MLSYS_MAX_DIMS)
        return mlsi_fail(MLSYS_E_SHAPE, "%s: rank %d outside [0,%d]", what, t->rank,
                         MLSYS_MAX_DIMS);
    int64_t least = mlsi_dtype_get(t->dtype)->block_bytes; /* bytes of the smallest binding */
    bool empty = false, fits = true;
    for (int i = 0; i < t->rank; i++) {
        int64_t lo, hi;
        if (!mlsi_dim_valid(&g->symbols, t->dims[i]))
            return mlsi_fail(MLSYS_E_SHAPE, "%s: extent %d is %lld, not a dim of this graph", what,
                             i, (long long)t->dims[i]);
        mlsi_dim_range(&g->symbols, t->dims[i], &lo, &hi);
        if (lo < 0)
            return mlsi_fail(MLSYS_E_SHAPE, "%s: extent %d may be negative (%lld)", what, i,
                             (long long)lo);
        empty |= lo == 0;
        fits = fits && mlsi_mul_i64(least, lo, &least);
    }
    if (!fits && !empty) return mlsi_fail(MLSYS_E_SHAPE, "%s: more than 2^63 bytes", what);
    return check_blocks(g, what, t);
}

static mlsys_status add_value(mlsi_graph *g, mlsi_func *f, const mlsi_value_def *v, int32_t *out) {
    if (f->n_values >= INT32_MAX - 1)
        return mlsi_fail(MLSYS_E_UNSUPPORTED, "graph: more than 2^31 values");
    MLSI_TRY(MLSI_GROW(g->alloc, &f->values, &f->cap_values, f->n_values + 1));
    *out = (int32_t)f->n_values;
    f->values[f->n_values++] = *v;
    return MLSYS_OK;
}

mlsys_status mlsi_build_input(mlsi_graph *g, int32_t func, const char *name, const mlsi_type *type,
                              int32_t *out) {
    mlsi_func *f = &g->funcs[func];
    char what[96];
    snprintf(what, sizeof what, "input %.60s", name ? name : "");
    MLSI_TRY(mlsi_type_check(g, what, type));
    for (int64_t i = 0; name && i < f->n_inputs; i++)
        if (f->values[f->inputs[i]].name && !strcmp(f->values[f->inputs[i]].name, name))
            return mlsi_fail(MLSYS_E_ARG, "input %.60s: the name is taken", name);
    mlsi_value_def v;
    memset(&v, 0, sizeof v);
    v.kind = MLSI_VALUE_INPUT;
    v.index = (int32_t)f->n_inputs;
    v.type = *type;
    MLSI_TRY(own_name(g, "input", name, &v.name));
    MLSI_TRY(MLSI_GROW(g->alloc, &f->inputs, &f->cap_inputs, f->n_inputs + 1));
    MLSI_TRY(MLSI_GROW(g->alloc, &f->donated, &f->cap_donated, f->n_inputs + 1));
    MLSI_TRY(add_value(g, f, &v, out));
    f->donated[f->n_inputs] = false;
    f->inputs[f->n_inputs++] = *out;
    return MLSYS_OK;
}

mlsys_status mlsi_build_const_value(mlsi_graph *g, int32_t func, int32_t constant, int32_t *out) {
    const mlsi_layout *l = &g->consts[constant]->layout;
    mlsi_value_def v;
    memset(&v, 0, sizeof v);
    v.kind = MLSI_VALUE_CONST;
    v.index = constant;
    v.type.dtype = l->dtype;
    v.type.rank = l->rank;
    memcpy(v.type.dims, l->shape, sizeof(int64_t) * (size_t)l->rank);
    return add_value(g, &g->funcs[func], &v, out);
}

/* Where t is in the table of constants, or would be. */
static int64_t const_slot(const mlsi_graph *g, const mlsi_tensor *t) {
    uint64_t h = mlsi_hash_mix((uint64_t)(uintptr_t)t);
    int64_t at = (int64_t)(h & (uint64_t)(g->n_const_slots - 1));
    while (g->const_slots[at] && g->consts[g->const_slots[at] - 1] != t)
        at = (at + 1) & (g->n_const_slots - 1);
    return at;
}

void mlsi_graph_index_consts(mlsi_graph *g) {
    if (g->const_slots)
        memset(g->const_slots, 0, sizeof *g->const_slots * (size_t)g->n_const_slots);
    for (int64_t i = 0; i < g->n_consts; i++)
        g->const_slots[const_slot(g, g->consts[i])] = (int32_t)(i + 1);
}

static mlsys_status grow_const_slots(mlsi_graph *g) {
    int64_t n = g->n_const_slots ? 2 * g->n_const_slots : 64;
    int32_t *slots;
    MLSI_TRY(MLSI_NEW_N(g->alloc, n, &slots));
    mlsi_mem_free(g->alloc, g->const_slots);
    g->const_slots = slots;
    g->n_const_slots = n;
    mlsi_graph_index_consts(g);
    return MLSYS_OK;
}

mlsys_status mlsi_build_const(mlsi_graph *g, int32_t func, mlsi_tensor *t, int32_t *out) {
    if (g->n_consts * 2 >= g->n_const_slots) MLSI_TRY(grow_const_slots(g));
    int64_t at = const_slot(g, t);
    if (!g->const_slots[at]) {
        MLSI_TRY(MLSI_GROW(g->alloc, &g->consts, &g->cap_consts, g->n_consts + 1));
        mlsi_repin(t);
        g->consts[g->n_consts++] = t;
        g->const_slots[at] = (int32_t)g->n_consts;
    }
    return mlsi_build_const_value(g, func, g->const_slots[at] - 1, out);
}

mlsys_status mlsi_build_const_bytes(mlsi_graph *g, int32_t func, mlsi_device *device,
                                    const mlsi_layout *l, const void *bytes, int32_t *out) {
    mlsys_tensor handle;
    mlsi_tensor *t;
    MLSI_TRY(mlsi_tensor_new(device, l, &handle));
    mlsys_status st = mlsi_pin(handle, MLSYS_KIND_TENSOR, "const", &t);
    if (st == MLSYS_OK) {
        memcpy(mlsi_tensor_view_of(t).data, bytes, mlsi_layout_bytes(l));
        st = mlsi_build_const(g, func, t, out);
        mlsi_unpin(t);
    }
    mlsys_release(handle);
    return st;
}

static mlsys_status operand_types(const mlsi_graph *g, int32_t func, const char *op, int32_t n_in,
                                  const int32_t *in, mlsi_type *types) {
    const mlsi_func *f = &g->funcs[func];
    memset(types, 0, sizeof *types * (size_t)n_in);
    for (int i = 0; i < n_in; i++) {
        if (in[i] < 0) continue;
        if (in[i] >= f->n_values)
            return mlsi_fail(MLSYS_E_ARG, "%s: operand %d: value %d does not exist", op, i, in[i]);
        types[i] = f->values[in[i]].type;
    }
    return MLSYS_OK;
}

/* Does the i-th name in "x, w, bias?" end in '?'. */
static bool is_optional(const char *operands, int i) {
    for (; i > 0 && operands; i--) {
        operands = strchr(operands, ',');
        if (operands) operands++;
    }
    size_t n = operands ? strcspn(operands, ",") : 0;
    return n && operands[n - 1] == '?';
}

static mlsys_status check_arity(const mlsi_op_def *def, const char *op, int32_t n_in,
                                const int32_t *in, int32_t n_out) {
    if (n_in < def->min_in || n_in > def->max_in)
        return mlsi_fail(MLSYS_E_ARG, "%s: %d operands given, takes %d to %d (%s)", op, n_in,
                         def->min_in, def->max_in, def->operands);
    if (n_out < def->min_out || n_out > def->max_out)
        return mlsi_fail(MLSYS_E_ARG, "%s: %d results asked, gives %d to %d", op, n_out,
                         def->min_out, def->max_out);
    for (int i = 0; i < def->min_in; i++)
        if (in[i] < 0 && !is_optional(def->operands, i))
            return mlsi_fail(MLSYS_E_ARG, "%s: operand %d of (%s) is absent", op, i, def->operands);
    return MLSYS_OK;
}

mlsys_status mlsi_infer_node(mlsi_graph *g, int32_t func, mlsi_op op, void *attrs, int32_t n_in,
                             const int32_t *in, int32_t n_out, mlsi_type *out) {
    const mlsi_op_def *def = mlsi_op_get(op);
    const char *name = mlsi_op_name(op);
    mlsi_type types[MLSI_MAX_OPERANDS];
    if (n_in > MLSI_MAX_OPERANDS || n_out > MLSI_MAX_OPERANDS)
        return mlsi_fail(MLSYS_E_ARG, "%s: more than %d operands or results", name,
                         MLSI_MAX_OPERANDS);
    MLSI_TRY(check_arity(def, name, n_in, in, n_out));
    MLSI_TRY(operand_types(g, func, name, n_in, in, types));
    mlsi_infer t = {.graph = g,
                    .symbols = &g->symbols,
                    .def = def,
                    .op = name,
                    .attrs = attrs,
                    .n_in = n_in,
                    .n_out = n_out,
                    .in = types,
                    .out = out};
    memset(out, 0, sizeof *out * (size_t)n_out);
    MLSI_TRY(def->infer(&t));
    for (int i = 0; i < n_out; i++)
        MLSI_TRY(mlsi_type_check(g, name, &out[i]));
    return MLSYS_OK;
}

mlsys_status mlsi_build_node(mlsi_graph *g, int32_t func, mlsi_op op, const void *attrs,
                             int32_t n_in, const int32_t *in, int32_t n_out, int32_t *out) {
    if (op < 0 || op >= MLSI_OP_COUNT) return mlsi_fail(MLSYS_E_ARG, "op: unknown op %d", (int)op);
    const mlsi_op_def *def = mlsi_op_get(op);
    mlsi_type types[MLSI_MAX_OPERANDS];
    void *own, *operands;
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, def->attrs_size, &own));
    if (attrs)
        memcpy(own, attrs, def->attrs_size);
    else
        mlsi_attrs_default(def, own);
    MLSI_TRY(mlsi_infer_node(g, func, op, own, n_in, in, n_out, types));
    MLSI_TRY(mlsi_arena_zalloc(&g->arena, sizeof *in * (size_t)n_in, &operands));
    if (n_in) memcpy(operands, in, sizeof *in * (size_t)n_in);
    mlsi_func *f = &g->funcs[func];
    MLSI_TRY(MLSI_GROW(g->alloc, &f->nodes, &f->cap_nodes, f->n_nodes + 1));
    MLSI_TRY(MLSI_GROW(g->alloc, &f->values, &f->cap_values, f->n_values + n_out));
    mlsi_node node = {.op = op,
                      .attrs = own,
                      .n_in = n_in,
                      .n_out = n_out,
                      .in = operands,
                      .first_out = (int32_t)f->n_values};
    for (int i = 0; i < n_out; i++) {
        mlsi_value_def v;
        memset(&v, 0, sizeof v);
        v.kind = MLSI_VALUE_NODE;
        v.index = (int32_t)f->n_nodes;
        v.result = i;
        v.type = types[i];
        MLSI_TRY(add_value(g, f, &v, &out[i])); /* cannot fail: grown above */
    }
    f->nodes[f->n_nodes++] = node;
    return MLSYS_OK;
}

mlsys_status mlsi_build_output(mlsi_graph *g, int32_t func, const char *name, int32_t value) {
    mlsi_func *f = &g->funcs[func];
    if (value < 0 || value >= f->n_values)
        return mlsi_fail(MLSYS_E_ARG, "output %s: value %d does not exist", name ? name : "",
                         value);
    mlsi_output o = {NULL, value};
    MLSI_TRY(own_name(g, "output", name, &o.name));
    MLSI_TRY(MLSI_GROW(g->alloc, &f->outputs, &f->cap_outputs, f->n_outputs + 1));
    f->outputs[f->n_outputs++] = o;
    return MLSYS_OK;
}

int64_t mlsi_type_most_bytes(const mlsi_symtab *tab, const mlsi_type *t) {
    const mlsi_dtype_info *info = mlsi_dtype_get(t->dtype);
    int64_t n = 1, lo, hi;
    for (int d = 0; d < t->rank; d++) {
        mlsi_dim_range(tab, t->dims[d], &lo, &hi);
        if (!mlsi_mul_i64(n, hi, &n)) return INT64_MAX;
    }
    return mlsi_mul_i64(n / info->block_elems, info->block_bytes, &n) ? n : INT64_MAX;
}

bool mlsi_type_equal(const mlsi_type *a, const mlsi_type *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->dims, b->dims, sizeof(int64_t) * (size_t)a->rank);
}

bool mlsi_type_static(const mlsi_type *t) {
    for (int i = 0; i < t->rank; i++)
        if (t->dims[i] < 0) return false;
    return true;
}

const char *mlsi_type_text(const mlsi_symtab *tab, const mlsi_type *t, char *buf, int cap) {
    const mlsi_dtype_info *info = mlsi_dtype_get(t->dtype);
    int n = snprintf(buf, (size_t)cap, "%s[", info ? info->name : "absent");
    for (int i = 0; i < t->rank && n < cap - 1; i++) {
        if (i) n += snprintf(buf + n, (size_t)(cap - n), ",");
        if (n >= cap - 1) break;
        mlsi_dim_text(tab, t->dims[i], buf + n, cap - n);
        n += (int)strlen(buf + n);
    }
    if (n < cap - 1) snprintf(buf + n, (size_t)(cap - n), "]");
    return buf;
}

mlsys_status mlsi_type_layout(const mlsi_symtab *tab, const mlsi_type *t, const int64_t *binding,
                              mlsi_layout *out) {
    int64_t shape[MLSYS_MAX_DIMS];
    for (int i = 0; i < t->rank; i++)
        MLSI_TRY(mlsi_dim_eval(tab, t->dims[i], binding, &shape[i]));
    return mlsi_layout_row_major(out, t->dtype, t->rank, shape);
}
