/* Adapted models: a file's model in which some tensors are replaced and some matrices have low-rank adapters
 * (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021):
 *
 *   y = x W^T + bias + scale * ((x A^T) B^T),   A = NAME.lora_a [rank, in],  B = NAME.lora_b [out, rank]
 *
 * The list of changes is flat: a model adapted again has the earlier changes and the new ones. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TENSORS = 1 << 14, SUFFIX = 7 /* bytes of ".lora_a" */ };

static const mlsi_config_key keys[] = {
    {"lora_alpha", 'f', "16", 0, 1e6, "scale of the adapters given: lora_alpha / rank"},
};

const mlsi_config_key *mlsi_model_adapt_config_keys(int *n) {
    *n = (int)(sizeof keys / sizeof keys[0]);
    return keys;
}

char mlsi_adapter_name(const char *name, size_t *stem) {
    size_t n = strlen(name);
    if (n <= SUFFIX) return 0;
    *stem = n - SUFFIX;
    if (!strcmp(name + *stem, ".lora_a")) return 'a';
    return strcmp(name + *stem, ".lora_b") ? 0 : 'b';
}

/* "<NAME><suffix>" of an adapter's name, in the model's arena. */
static mlsys_status name_with(mlsi_model *m, const char *name, size_t stem, const char *suffix,
                              char **out) {
    MLSI_TRY(mlsi_arena_zalloc(&m->arena, stem + strlen(suffix) + 1, (void **)out));
    memcpy(*out, name, stem);
    strcpy(*out + stem, suffix);
    return MLSYS_OK;
}

static mlsys_status check_tensor(const mlsi_model *m, const char *name, const mlsi_tensor *t) {
    char text[128];
    if (t->object.ctx != m->object.ctx)
        return mlsi_fail(MLSYS_E_ARG, "model_adapt: tensor \"%.96s\" is of another context", name);
    if (t->device->type != MLSYS_CPU)
        return mlsi_fail(MLSYS_E_DEVICE, "model_adapt: tensor \"%.96s\" is not on the CPU", name);
    if (!mlsi_dtype_is_float(t->layout.dtype))
        return mlsi_fail(MLSYS_E_DTYPE, "model_adapt: tensor \"%.96s\" is %s, expected a float",
                         name, mlsi_layout_text(&t->layout, text, sizeof text));
    if (!mlsi_layout_contiguous(&t->layout))
        return mlsi_fail(MLSYS_E_SHAPE,
                         "model_adapt: tensor \"%.96s\" is not row-major without gaps", name);
    return MLSYS_OK;
}

static mlsys_status check_shape(const char *name, const mlsi_tensor *t, int32_t rank,
                                const int64_t *shape) {
    char have[128], want[128];
    mlsi_layout expected;
    if (t->layout.rank == rank && !memcmp(t->layout.shape, shape, sizeof *shape * (size_t)rank))
        return MLSYS_OK;
    MLSI_TRY(mlsi_layout_row_major(&expected, t->layout.dtype, rank, shape));
    return mlsi_fail(MLSYS_E_SHAPE, "model_adapt: tensor \"%.96s\" is %s, expected %s", name,
                     mlsi_layout_text(&t->layout, have, sizeof have),
                     mlsi_layout_text(&expected, want, sizeof want));
}

/* Room for one more change at its place; a change of this name is dropped first. */
static mlsi_model_change *change_place(mlsi_model *m, const char *name) {
    int64_t at = 0;
    while (at < m->n_changes && strcmp(m->changes[at].as.name, name) < 0)
        at++;
    mlsi_model_change *c = &m->changes[at];
    if (at < m->n_changes && !strcmp(c->as.name, name)) {
        mlsi_unpin(c->tensor);
        return c;
    }
    memmove(c + 1, c, sizeof *c * (size_t)(m->n_changes - at));
    m->n_changes++;
    return c;
}

static mlsys_status add_change(mlsi_model *m, const char *name, mlsi_tensor *t, float scale) {
    const char *copy;
    MLSI_TRY(mlsi_arena_strdup(&m->arena, name, &copy));
    mlsi_model_change *c = change_place(m, name);
    mlsi_repin(t);
    *c = (mlsi_model_change){.tensor = t, .scale = scale};
    c->as = (mlsi_gguf_tensor){.name = copy,
                               .layout = t->layout,
                               .data = mlsi_tensor_view_of(t).data,
                               .bytes = mlsi_layout_bytes(&t->layout)};
    c->as.layout.offset = 0;
    return MLSYS_OK;
}

/* ---- one call ---------------------------------------------------------------------------------- */

typedef struct request {
    int32_t n;
    const char *const *names;
    mlsi_tensor *const *tensors;
    double alpha;
} request;

static mlsys_status replace(mlsi_model *m, const request *r, int32_t i) {
    const mlsi_gguf_tensor *old = mlsi_gguf_tensor_find(m->gguf, r->names[i]);
    if (!old)
        return mlsi_fail(MLSYS_E_NOTFOUND, "model_adapt: %s: no tensor \"%.96s\" to replace",
                         m->gguf->file, r->names[i]);
    MLSI_TRY(check_shape(r->names[i], r->tensors[i], old->layout.rank, old->layout.shape));
    return add_change(m, r->names[i], r->tensors[i], 0);
}

/* Adapter half number i. The matrix must be one, and not the embedding: its rows are looked up too, where
 * an adapter would have no part. The two halves are checked when A is met. */
static mlsys_status adapt(mlsi_model *m, const request *r, int32_t i, char half, size_t stem) {
    char *weight, *partner;
    int32_t other = 0;
    MLSI_TRY(name_with(m, r->names[i], stem, ".weight", &weight));
    MLSI_TRY(name_with(m, r->names[i], stem, half == 'a' ? ".lora_b" : ".lora_a", &partner));
    const mlsi_gguf_tensor *w = mlsi_gguf_tensor_find(m->gguf, weight);
    if (!w || w->layout.rank != 2 || !strcmp(weight, "token_embd.weight"))
        return mlsi_fail(MLSYS_E_NOTFOUND,
                         "model_adapt: %s: \"%.96s\" would adapt \"%.96s\", which is no matrix of "
                         "the model that adapters can be for",
                         m->gguf->file, r->names[i], weight);
    while (other < r->n && strcmp(r->names[other], partner))
        other++;
    if (other == r->n)
        return mlsi_fail(MLSYS_E_ARG, "model_adapt: \"%.96s\" comes without \"%.96s\"", r->names[i],
                         partner);
    const mlsi_layout *a = &r->tensors[half == 'a' ? i : other]->layout;
    int64_t rank = a->rank == 2 ? a->shape[0] : 0;
    if (a->rank == 2 && rank < 1)
        return mlsi_fail(MLSYS_E_SHAPE, "model_adapt: the adapter of \"%.96s\" has rank 0", weight);
    const int64_t shape_a[2] = {rank ? rank : 1, w->layout.shape[1]};
    const int64_t shape_b[2] = {w->layout.shape[0], rank};
    if (half == 'b' && !rank) return MLSYS_OK; /* A will say what is wrong with it */
    MLSI_TRY(check_shape(r->names[i], r->tensors[i], 2, half == 'a' ? shape_a : shape_b));
    return add_change(m, r->names[i], r->tensors[i],
                      half == 'a' ? (float)(r->alpha / (double)rank) : 0);
}

static mlsys_status apply(mlsi_model *m, const mlsi_model *from, const request *r) {
    size_t stem = 0;
    int64_t room = from->n_changes + r->n;
    MLSI_TRY(MLSI_NEW_N(&m->object.ctx->alloc, room ? room : 1, &m->changes));
    for (int64_t i = 0; i < from->n_changes; i++)
        MLSI_TRY(add_change(m, from->changes[i].as.name, from->changes[i].tensor,
                            from->changes[i].scale));
    for (int32_t i = 0; i < r->n; i++) {
        MLSI_TRY(check_tensor(m, r->names[i], r->tensors[i]));
        for (int32_t k = 0; k < i; k++)
            if (!strcmp(r->names[i], r->names[k]))
                return mlsi_fail(MLSYS_E_ARG, "model_adapt: \"%.96s\" is given twice", r->names[i]);
    }
    for (int32_t i = 0; i < r->n; i++) {
        char half = mlsi_adapter_name(r->names[i], &stem);
        MLSI_TRY(half ? adapt(m, r, i, half, stem) : replace(m, r, i));
    }
    return MLSYS_OK;
}

mlsys_status mlsi_model_adapt(mlsi_model *m, int32_t n, const char *const *names,
                              mlsi_tensor *const *tensors, const mlsi_config *config,
                              mlsys_model *out) {
    mlsi_alloc *a = &m->object.ctx->alloc;
    request r = {n, names, tensors, mlsi_config_f64(config, "lora_alpha", 16)};
    mlsi_model *new;
    int n_keys;
    const mlsi_config_key *table = mlsi_model_adapt_config_keys(&n_keys);
    *out = NULL;
    MLSI_TRY(mlsi_config_check(config, "model_adapt", table, n_keys));
    if (n < 0 || n > MAX_TENSORS)
        return mlsi_fail(MLSYS_E_ARG, "model_adapt: n is %d, outside [0,%d]", n, MAX_TENSORS);
    MLSI_TRY(MLSI_NEW(a, &new));
    new->object.ctx = m->object.ctx;
    new->base = m->base ? m->base : m;
    new->gguf = m->gguf;
    mlsi_repin(new->base);
    mlsi_arena_init(&new->arena, a);
    mlsys_status st = apply(new, m, &r);
    if (st == MLSYS_OK)
        st = mlsi_handle_create(&new->object, MLSYS_KIND_MODEL, m->object.ctx, mlsi_model_destroy,
                                out);
    if (st != MLSYS_OK) mlsi_model_free(a, new);
    return st;
}
