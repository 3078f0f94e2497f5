/* The op table as text: what mlsys_op_schema answers and docs/ops/ holds. */
#include "ir/ops/op_def.h"

static const char *const families[MLSI_OP_COUNT] = {
#define MLSI_OP(ID, name, family) [MLSI_OP_##ID] = #family,
#include "core/op_list.h"
#undef MLSI_OP
};

static const char *kind_name(mlsi_attr_kind kind) {
    switch (kind) {
    case MLSI_ATTR_I64: return "integer";
    case MLSI_ATTR_BOOL: return "0 or 1";
    case MLSI_ATTR_F64: return "number";
    case MLSI_ATTR_ENUM: return "name";
    case MLSI_ATTR_DTYPE: return "dtype";
    case MLSI_ATTR_LIST: return "integers";
    default: return "dims";
    }
}

static void add_default(const mlsi_attr_desc *d, mlsi_text *out) {
    if (d->required) {
        mlsi_text_add(out, "required");
    } else if (d->kind == MLSI_ATTR_F64) {
        mlsi_text_add(out, "%g", d->default_f);
    } else if (d->kind == MLSI_ATTR_ENUM) {
        mlsi_text_add(out, "%s", d->names[d->default_i]);
    } else if (d->kind == MLSI_ATTR_DTYPE) {
        const mlsi_dtype_info *info = mlsi_dtype_get((mlsys_dtype)d->default_i);
        mlsi_text_add(out, "%s", info ? info->name : "by rule");
    } else if (d->kind == MLSI_ATTR_LIST || d->kind == MLSI_ATTR_DIMS) {
        mlsi_text_add(out, "empty");
    } else {
        mlsi_text_add(out, "%lld", (long long)d->default_i);
    }
}

static void add_type(const mlsi_attr_desc *d, mlsi_text *out) {
    if (d->kind != MLSI_ATTR_ENUM) {
        mlsi_text_add(out, "%s", kind_name(d->kind));
        return;
    }
    for (int i = 0; d->names[i]; i++)
        mlsi_text_add(out, "%s%s", i ? ", " : "", d->names[i]);
}

void mlsi_op_attrs_text(mlsi_op op, mlsi_text *out) {
    for (const mlsi_attr_desc *d = mlsi_op_get(op)->attrs; d && d->name; d++) {
        mlsi_text_add(out, "%s (", d->name);
        add_type(d, out);
        mlsi_text_add(out, "; ");
        add_default(d, out);
        mlsi_text_add(out, "): %s\n", d->help);
    }
}

static void add_range(const char *what, int lo, int hi, mlsi_text *out) {
    if (lo == hi)
        mlsi_text_add(out, "%d %s%s", lo, what, lo == 1 ? "" : "s");
    else
        mlsi_text_add(out, "%d to %d %ss", lo, hi, what);
}

static void add_attributes(const mlsi_op_def *def, mlsi_text *out) {
    if (!def->attrs) return;
    mlsi_text_add(out, "## Attributes\n\n| name | type | default | meaning |\n|---|---|---|---|\n");
    for (const mlsi_attr_desc *d = def->attrs; d->name; d++) {
        mlsi_text_add(out, "| %s | ", d->name);
        add_type(d, out);
        mlsi_text_add(out, " | ");
        add_default(d, out);
        mlsi_text_add(out, " | %s |\n", d->help);
    }
    mlsi_text_add(out, "\n");
}

static void add_traits(const mlsi_op_def *def, mlsi_text *out) {
    static const struct {
        uint32_t bit;
        const char *text;
    } rows[] = {
        {MLSI_TRAIT_ELEMENTWISE, "elementwise"},
        {MLSI_TRAIT_COMMUTATIVE, "commutative"},
        {MLSI_TRAIT_VIEW, "the result may be a view of operand 0"},
        {MLSI_TRAIT_DIFFERENTIABLE, "differentiable"},
        {MLSI_TRAIT_CREATION, "creates data"},
        {MLSI_TRAIT_CONTROL, "control"},
        {MLSI_TRAIT_CHECKS_DATA, "a run may fail by what its operands hold"},
    };
    mlsi_text_add(out, "## Properties\n\n- %s\n",
                  def->decompose ? "composite: has a decomposition into primitives" : "primitive");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (def->traits & rows[i].bit) mlsi_text_add(out, "- %s\n", rows[i].text);
    if (def->onnx) mlsi_text_add(out, "- ONNX: %s\n", def->onnx);
}

void mlsi_op_schema_text(mlsi_op op, mlsi_text *out) {
    const mlsi_op_def *def = mlsi_op_get(op);
    mlsi_text_add(out, "# %s\n\n`%s(%s)`: ", mlsi_op_name(op), mlsi_op_name(op), def->operands);
    add_range("operand", def->min_in, def->max_in, out);
    mlsi_text_add(out, ", ");
    add_range("result", def->min_out, def->max_out, out);
    mlsi_text_add(out, ". Family: %s.\n\n%s\n\n", families[op], def->doc);
    add_attributes(def, out);
    mlsi_text_add(out, "## Special values\n\n%s\n\n", def->special);
    add_traits(def, out);
}
