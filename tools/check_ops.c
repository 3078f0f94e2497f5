/* Every row of the op list has all its rules: operands, inference, cost, a meaning (reference or
 * decomposition), and its two texts. Prints the names of all ops, one a line; faults go to stderr.
 */
#include <stdio.h>
#include <string.h>

#include "ir/ops/op_def.h"

static int faults;

static void fault(const char *op, const char *what) {
    fprintf(stderr, "ops: %s: %s\n", op, what);
    faults++;
}

static void check_attrs(const char *op, const mlsi_op_def *def) {
    if (def->attrs_size < sizeof(mlsi_attr_none))
        fault(op, "attrs_size is smaller than no attributes");
    for (const mlsi_attr_desc *a = def->attrs; a && a->name; a++) {
        if (!a->help || !*a->help) fault(op, "an attribute has no help text");
        if (a->offset >= def->attrs_size) fault(op, "an attribute lies outside its struct");
        if (a->kind == MLSI_ATTR_ENUM && !a->names) fault(op, "an enum attribute has no names");
    }
}

static void check_def(const char *op, const mlsi_op_def *def) {
    bool control = (def->traits & MLSI_TRAIT_CONTROL) != 0;
    if (def->min_in > def->max_in || def->min_out > def->max_out || def->min_out < 1)
        fault(op, "operand or result counts contradict each other");
    if (!def->operands && def->max_in > 0) fault(op, "operands have no names");
    if (!def->infer) fault(op, "no type inference");
    if (!def->cost && !control) fault(op, "no cost rule");
    if (!def->ref && !def->decompose && !control) fault(op, "neither reference nor decomposition");
    if ((def->traits & MLSI_TRAIT_DIFFERENTIABLE) && !def->vjp && !def->decompose && !control)
        fault(op, "marked DIFFERENTIABLE without a gradient rule");
    if (def->vjp && !(def->traits & MLSI_TRAIT_DIFFERENTIABLE))
        fault(op, "a gradient rule, but not marked DIFFERENTIABLE");
    if ((def->traits & MLSI_TRAIT_VIEW) && !def->view) fault(op, "marked VIEW without a view rule");
    if (!def->doc || strlen(def->doc) < 8) fault(op, "no documentation");
    if (!def->special || !*def->special) fault(op, "no text on special values");
    check_attrs(op, def);
}

int main(void) {
#define MLSI_OP(ID, name, family)                                                                  \
    puts(#name);                                                                                   \
    check_def(#name, &mlsi_op_def_##name);
#include "core/op_list.h"
#undef MLSI_OP
    return faults ? 1 : 0;
}
