/* The text form of a graph:
 *
 *   mlsys-ir 1
 *   symbol B 1 64 1                         name, min, max, divisor
 *   functions 2
 *   func 1 "body" {                         highest number first: callees stand before callers
 *     %0 = input "x" : f32[B,4]             "donated" may follow
 *     %1 = const f32[2] hex:0000803f...     bytes of the dense constant in memory order
 *     %2 = add(%0, %1) {attr=...} : f32[B,4]
 *     %3 = custom "name"(%2) {"key"=...} : ...
 *     output "y" %2
 *   }
 *
 * Values are numbered as in the function; "_" is an absent operand. */
#include "core/faults.h"
#include "ir/graph/ir.h"
#include "ir/ops/op_def.h"

#include <string.h>

static void print_string(const char *s, mlsi_text *out) {
    mlsi_text_add(out, "\"");
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        bool plain =
            c >= 32 && c <= 126 && c != '\\' && (c != '"' || mlsi_fault(MLSI_FAULT_IR_ESCAPE));
        if (!plain)
            mlsi_text_add(out, "\\x%02x", c);
        else
            mlsi_text_add(out, "%c", c);
    }
    mlsi_text_add(out, "\"");
}

static void print_type(const mlsi_symtab *t, const mlsi_type *type, mlsi_text *out) {
    mlsi_text_add(out, "%s[", mlsi_dtype_get(type->dtype)->name);
    for (int i = 0; i < type->rank; i++) {
        if (i) mlsi_text_add(out, ",");
        mlsi_dim_print(t, type->dims[i], out);
    }
    mlsi_text_add(out, "]");
}

enum { BRIEF_BYTES = 64 };

static void print_hex(const uint8_t *bytes, uint64_t n, mlsi_text *out) {
    static const char digits[] = "0123456789abcdef";
    char line[129];
    for (uint64_t i = 0; i < n;) {
        int k = 0;
        for (; i < n && k < 128; i++) {
            line[k++] = digits[bytes[i] >> 4];
            line[k++] = digits[bytes[i] & 15];
        }
        line[k] = 0;
        mlsi_text_add(out, "%s", line);
    }
}

static void print_const(const mlsi_graph *g, const mlsi_value_def *def, bool brief,
                        mlsi_text *out) {
    const mlsi_tensor *t = g->consts[def->index];
    mlsi_layout l;
    void *dense;
    uint64_t bytes = mlsi_layout_bytes(&t->layout);
    mlsi_text_add(out, "const ");
    print_type(&g->symbols, &def->type, out);
    if (brief && bytes > BRIEF_BYTES) {
        mlsi_text_add(out, " # %llu bytes", (unsigned long long)bytes);
        return;
    }
    if (out->st == MLSYS_OK) out->st = mlsi_mem_alloc(g->alloc, bytes, &dense);
    if (out->st != MLSYS_OK) return;
    out->st = mlsi_layout_row_major(&l, t->layout.dtype, t->layout.rank, t->layout.shape);
    mlsi_view to = mlsi_view_of(dense, &l), from = mlsi_tensor_view_of(t);
    mlsi_copy_view(&to, &from);
    mlsi_text_add(out, " hex:");
    print_hex(dense, bytes, out);
    mlsi_mem_free(g->alloc, dense);
}

static void print_custom_attrs(const mlsi_config *c, mlsi_text *out) {
    if (!c || !c->count) return;
    mlsi_text_add(out, " {");
    for (int64_t i = 0; i < c->count; i++) {
        const mlsi_config_entry *e = &c->entries[i];
        mlsi_text_add(out, i ? ", " : "");
        print_string(e->key, out);
        mlsi_text_add(out, "=");
        if (e->type == 'i') mlsi_text_add(out, "%lld", (long long)e->i);
        if (e->type == 'f') mlsi_text_add(out, "%a", e->f);
        if (e->type == 's') print_string(e->s, out);
        if (e->type != 'v') continue;
        mlsi_text_add(out, "[");
        for (int32_t k = 0; k < e->n; k++)
            mlsi_text_add(out, "%s%lld", k ? "," : "", (long long)e->v[k]);
        mlsi_text_add(out, "]");
    }
    mlsi_text_add(out, "}");
}

static void print_node(const mlsi_graph *g, const mlsi_func *f, const mlsi_node *node,
                       mlsi_text *out) {
    const mlsi_op_def *def = mlsi_op_get(node->op);
    const mlsi_custom_use *custom = NULL;
    for (int i = 0; i < node->n_out; i++)
        mlsi_text_add(out, "%s%%%d", i ? ", " : "", node->first_out + i);
    mlsi_text_add(out, " = %s", mlsi_op_name(node->op));
    if (node->op == MLSI_OP_CUSTOM) {
        custom = &g->customs[((const mlsi_attr_custom *)node->attrs)->op_index];
        mlsi_text_add(out, " ");
        print_string(custom->op->name, out);
    }
    mlsi_text_add(out, "(");
    for (int i = 0; i < node->n_in; i++) {
        if (i) mlsi_text_add(out, ", ");
        if (node->in[i] < 0)
            mlsi_text_add(out, "_");
        else
            mlsi_text_add(out, "%%%d", node->in[i]);
    }
    mlsi_text_add(out, ")");
    if (custom) {
        print_custom_attrs(custom->attrs, out);
    } else {
        int64_t before = out->len;
        mlsi_text_add(out, " ");
        int64_t start = out->len;
        mlsi_attrs_print(def, node->attrs, &g->symbols, out);
        if (out->st == MLSYS_OK && out->len == start) out->len = before;
    }
    mlsi_text_add(out, " : ");
    for (int i = 0; i < node->n_out; i++) {
        if (i) mlsi_text_add(out, ", ");
        print_type(&g->symbols, &f->values[node->first_out + i].type, out);
    }
}

static void print_func(const mlsi_graph *g, int64_t index, bool brief, mlsi_text *out) {
    const mlsi_func *f = &g->funcs[index];
    mlsi_text_add(out, "func %lld ", (long long)index);
    print_string(f->name, out);
    mlsi_text_add(out, " {\n");
    for (int64_t v = 0; v < f->n_values; v++) {
        const mlsi_value_def *def = &f->values[v];
        if (def->kind == MLSI_VALUE_NODE) {
            if (def->result) continue;
            mlsi_text_add(out, "  ");
            print_node(g, f, &f->nodes[def->index], out);
        } else if (def->kind == MLSI_VALUE_INPUT) {
            mlsi_text_add(out, "  %%%lld = input ", (long long)v);
            print_string(def->name, out);
            mlsi_text_add(out, " : ");
            print_type(&g->symbols, &def->type, out);
            if (f->donated[def->index]) mlsi_text_add(out, " donated");
        } else {
            mlsi_text_add(out, "  %%%lld = ", (long long)v);
            print_const(g, def, brief, out);
        }
        mlsi_text_add(out, "\n");
    }
    for (int64_t i = 0; i < f->n_outputs; i++) {
        mlsi_text_add(out, "  output ");
        print_string(f->outputs[i].name, out);
        mlsi_text_add(out, " %%%d\n", f->outputs[i].value);
    }
    mlsi_text_add(out, "}\n");
}

static void print_graph(const mlsi_graph *g, bool brief, mlsi_text *out) {
    mlsi_text_add(out, "mlsys-ir 1\n");
    for (int64_t i = 0; i < g->symbols.n_symbols; i++) {
        const mlsi_symbol *s = &g->symbols.symbols[i];
        mlsi_text_add(out, "symbol %s %lld %lld %lld\n", s->name, (long long)s->min,
                      (long long)s->max, (long long)s->divisor);
    }
    mlsi_text_add(out, "functions %lld\n", (long long)g->n_funcs);
    for (int64_t i = g->n_funcs - 1; i >= 0; i--)
        print_func(g, i, brief, out);
}

void mlsi_graph_print(const mlsi_graph *g, mlsi_text *out) { print_graph(g, false, out); }
void mlsi_graph_print_brief(const mlsi_graph *g, mlsi_text *out) { print_graph(g, true, out); }
