/* A loop that carries more than it did: values that its body hands on as they came. */
#include "ir/proof/value.h"

/* What input i of condition and body is in every turn: the loop's operand where the old body hands it on, else some
 * value, the same on both sides. */
static mlsys_status carried_ids(mlsi_value_check *k, const mlsi_node *old, const mlsi_node *now,
                                const mlsi_func *body, int32_t *args) {
    for (int i = 0; i < now->n_in; i++) {
        const int64_t leaf[2] = {MLSI_WORD_CARRIED, i};
        args[i] = k->after_id[now->in[i]];
        if (i < old->n_in && body->outputs[i].value != body->inputs[i])
            MLSI_TRY(mlsi_tuple(&k->t, leaf, 2, &args[i]));
    }
    return MLSYS_OK;
}

/* By induction over the turns: the same start, and of the same state condition and body make the same. What was added
 * keeps the value of its operand. */
static mlsys_status check_functions(mlsi_value_check *k, const mlsi_node *old,
                                    const mlsi_node *now) {
    const mlsi_attr_control *was = old->attrs, *is = now->attrs;
    const mlsi_func body = k->g->funcs[was->fn2], made = k->g->funcs[is->fn2];
    int32_t args[MLSI_MAX_OPERANDS], a[MLSI_MAX_OPERANDS], b[MLSI_MAX_OPERANDS];
    for (int i = old->n_in; i < now->n_in; i++)
        if (made.outputs[i].value != made.inputs[i])
            return mlsi_value_refuse(k, "an added operand changes in the loop");
    MLSI_TRY(carried_ids(k, old, now, &body, args));
    MLSI_TRY(mlsi_value_body(k, (int32_t)was->fn1, args, a));
    MLSI_TRY(mlsi_value_body(k, (int32_t)is->fn1, args, b));
    if (a[0] < 0 || a[0] != b[0]) return mlsi_value_refuse(k, "the condition is another one");
    MLSI_TRY(mlsi_value_body(k, (int32_t)was->fn2, args, a));
    MLSI_TRY(mlsi_value_body(k, (int32_t)is->fn2, args, b));
    for (int i = 0; i < old->n_in; i++)
        if (a[i] < 0 || a[i] != b[i]) return mlsi_value_refuse(k, "the body is another expression");
    return MLSYS_OK;
}

mlsys_status mlsi_check_moved(mlsi_value_check *k, const mlsi_node *old, int result,
                              int32_t after) {
    const mlsi_node *now = mlsi_node_of(&k->after, after);
    if (old->op != MLSI_OP_WHILE || !now || now->op != MLSI_OP_WHILE)
        return mlsi_value_refuse(k, "one of them is no loop");
    if (now->n_in <= old->n_in || after - now->first_out != result)
        return mlsi_value_refuse(k, "they are different results, or of other operands");
    for (int i = 0; i < now->n_in; i++) {
        if (k->after_id[now->in[i]] < 0) return mlsi_value_refuse(k, "an operand is not defined");
        if (i < old->n_in && k->before_id[old->in[i]] != k->after_id[now->in[i]])
            return mlsi_value_refuse(k, "an operand differs");
    }
    return check_functions(k, old, now);
}
