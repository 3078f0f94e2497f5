/* Running block code (core/block_code.h): one walk over the instructions a tile. Large outputs are not written past the caches, as
 * generated code does: a tile's stores come in one burst, which stalls for longer than reading the lines first takes. */
#include "cpu/tile.h"

#include "core/faults.h"

#include <string.h>

typedef struct frame {
    const mlsi_block_code *c;
    const mlsi_tile_machine *m;
    mlsi_gen_args *args;
    int64_t *ints;
    char **registers, **buffers;
    char *state;
    int64_t at, low, high; /* first element of the tile, its lanes */
} frame;

static int64_t run(frame *f, int32_t first, int32_t end);

/* ---- memory ------------------------------------------------------------------------------------------------ */

static char *own(const frame *f, int32_t reg) { return f->state + f->c->registers[reg].offset; }

/* The register from the first lane on. */
static char *lanes(const frame *f, int32_t reg, int64_t first) {
    return f->registers[reg] + first * mlsi_tile_size(f->c->registers[reg].cls);
}

/* Byte offset of lane 0; what is not there may lie outside of the buffer, and is not read. */
static int64_t offset_of(const frame *f, const mlsi_block_instr *i, int32_t buffer) {
    uint64_t element = (uint64_t)f->ints[i->b] + (uint64_t)f->ints[i->c] * (uint64_t)f->at;
    return (int64_t)(element * (uint64_t)f->c->buffers[buffer].size);
}

static char *address(const frame *f, const mlsi_block_instr *i, int32_t buffer, int64_t lane) {
    int64_t step = f->ints[i->c] * f->c->buffers[buffer].size;
    return f->buffers[buffer] + (offset_of(f, i, buffer) + lane * step);
}

static void load(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    char *src = address(f, i, i->a, first);
    if (i->direct) { /* lane 0 need not exist: only lanes of the window are read */
        f->registers[i->dst] =
            (char *)((uintptr_t)src -
                     (uintptr_t)(first * mlsi_tile_size(f->c->registers[i->dst].cls)));
        return;
    }
    f->m->load(lanes(f, i->dst, first), src, i->dtype, f->ints[i->c] * f->c->buffers[i->a].size, n);
}

static void store(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    if (i->direct) return; /* the op has written it */
    f->m->store(address(f, i, i->dst, first), i->dtype, f->ints[i->c] * f->c->buffers[i->dst].size,
                lanes(f, i->a, first), n);
}

static void op(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    const void *x[3] = {lanes(f, i->a, first), NULL, NULL};
    if (i->n_args > 1) x[1] = lanes(f, i->b, first);
    if (i->n_args > 2) x[2] = lanes(f, i->c, first);
    if (i->direct) { /* to where the store behind it would */
        const mlsi_block_instr *s = i + 1;
        int64_t back = first * f->c->buffers[s->dst].size;
        f->registers[i->dst] = (char *)((uintptr_t)address(f, s, s->dst, first) - (uintptr_t)back);
    }
    i->fn(lanes(f, i->dst, first), x, n, i->dtype);
}

static void index_lanes(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    int64_t *to = (int64_t *)(void *)lanes(f, i->dst, first);
    for (int64_t k = 0; k < n; k++)
        to[k] = f->ints[i->b] + f->ints[i->c] * (f->at + first + k);
}

static void spread(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    if (i->value) { /* before the tiles: all lanes that there can be */
        first = 0;
        n = i->b >= 0 && f->ints[i->b] < MLSI_TILE ? f->ints[i->b] : MLSI_TILE;
    }
    f->m->spread(lanes(f, i->dst, first), f->registers[i->a], f->c->registers[i->a].cls, n);
}

/* ---- accumulators -------------------------------------------------------------------------------------------- */

/* A wide one has the lanes of the window, which is the same for all that is done with it. */
static void begin(frame *f, const mlsi_block_instr *i) {
    const mlsi_block_acc *a = &f->c->accs[i->dst];
    int64_t first = a->wide ? f->low : 0, n = a->wide ? f->high - f->low : 1;
    f->m->begin(a, f->state + a->offset, first, i->a >= 0 ? lanes(f, i->a, first) : NULL, n);
}

static void term(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    const mlsi_block_acc *a = &f->c->accs[i->dst];
    f->m->term(a, f->state + a->offset, first, lanes(f, i->a, first),
               i->b >= 0 ? lanes(f, i->b, first) : NULL, n);
}

static void result(frame *f, const mlsi_block_instr *i, int64_t first, int64_t n) {
    const mlsi_block_acc *a = &f->c->accs[i->a];
    f->m->result(a, f->state + a->offset, first, lanes(f, i->dst, first), n);
}

/* ---- control ------------------------------------------------------------------------------------------------ */

static int64_t divide(int64_t a, int64_t b) {
    if (b <= 0) return 0; /* written ahead of a loop that does not run */
    return a / b - (a % b != 0 && a < 0);
}

static int64_t bind(frame *f, const mlsi_block_instr *i) {
    int64_t v, n = f->ints[i->b];
    memcpy(&v, f->registers[i->a], sizeof v);
    if (i->clamp) v = v >= n ? n - 1 : v;
    if (i->clamp) v = v < 0 ? 0 : v;
    if (v < (i->wrap ? -n : 0) || v >= n) {
        f->args->error[0] = v;
        f->args->error[1] = n;
        f->args->error[2] = f->ints[i->c];
        return i->value;
    }
    f->ints[i->dst] = v < 0 ? v + n : v;
    return 0;
}

/* Lanes [*low, *high) of the window where the condition holds. */
static void narrow(const frame *f, const mlsi_block_instr *i, int64_t *low, int64_t *high) {
    int64_t stride = f->ints[i->c], base = f->ints[i->b] + stride * f->at;
    int64_t lo = f->ints[i->a], hi = f->ints[i->d], first = *low, past = *high;
    if (stride == 0) {
        if (base < lo || base >= hi) past = first;
    } else if (stride > 0) { /* from the first lane that reaches a bound */
        first = -divide(base - lo, stride);
        past = -divide(base - hi, stride);
    } else {
        first = divide(base - hi, -stride) + 1;
        past = divide(base - lo, -stride) + 1;
    }
    if (mlsi_fault(MLSI_FAULT_BLOCK_WINDOW) && stride > 0 && past < *high) past++;
    if (first > *low) *low = first < *high ? first : *high;
    if (past < *high) *high = past;
    if (*high < *low) *high = *low;
}

static int64_t range(frame *f, int32_t pc, bool outside) {
    const mlsi_block_instr *i = &f->c->instrs[pc];
    const int64_t low = f->low, high = f->high;
    int64_t first = low, past = high, r = 0;
    narrow(f, i, &first, &past);
    const int64_t parts[2][2] = {{outside ? low : first, outside ? first : past},
                                 {outside ? past : high, high}};
    for (int k = 0; k < 2 && !r; k++) {
        f->low = parts[k][0], f->high = parts[k][1];
        if (f->low < f->high) r = run(f, pc + 1, pc + 1 + i->body);
    }
    f->low = low, f->high = high;
    return r;
}

static int64_t tiles(frame *f, int32_t pc) {
    const mlsi_block_instr *i = &f->c->instrs[pc];
    const int64_t n = f->ints[i->a], step = i->value;
    int64_t r = 0;
    for (int64_t at = 0; at < n && !r; at += step) {
        f->at = at;
        f->low = 0;
        f->high = n - at < step && !mlsi_fault(MLSI_FAULT_BLOCK_LAST_TILE) ? n - at : step;
        r = run(f, pc + 1, pc + 1 + i->body);
    }
    f->at = 0, f->low = 0, f->high = 1;
    return r;
}

static int64_t loop(frame *f, int32_t pc) {
    const mlsi_block_instr *i = &f->c->instrs[pc];
    const int64_t n = f->ints[i->a];
    int64_t r = 0;
    for (int64_t k = 0; k < n && !r; k++) {
        f->ints[i->dst] = k;
        r = run(f, pc + 1, pc + 1 + i->body);
    }
    return r;
}

static int64_t enter(frame *f, int32_t pc) {
    const mlsi_block_instr *i = &f->c->instrs[pc];
    switch (i->kind) {
    case MLSI_BLOCK_LOOP: return loop(f, pc);
    case MLSI_BLOCK_TILES: return tiles(f, pc);
    case MLSI_BLOCK_RANGE: return range(f, pc, false);
    case MLSI_BLOCK_ELSE: return range(f, pc, true);
    default: return *f->registers[i->a] ? run(f, pc + 1, pc + 1 + i->body) : 0;
    }
}

static void lanes_of(frame *f, const mlsi_block_instr *i) {
    int64_t first = i->one ? 0 : f->low, n = i->one ? 1 : f->high - f->low;
    switch (i->kind) {
    case MLSI_BLOCK_BITS: memcpy(f->registers[i->dst], &i->value, 8); break;
    case MLSI_BLOCK_INDEX: index_lanes(f, i, first, n); break;
    case MLSI_BLOCK_SPREAD: spread(f, i, first, n); break;
    case MLSI_BLOCK_LOAD: load(f, i, first, n); break;
    case MLSI_BLOCK_STORE: store(f, i, first, n); break;
    case MLSI_BLOCK_OP: op(f, i, first, n); break;
    case MLSI_BLOCK_COPY:
        memcpy(lanes(f, i->dst, first), lanes(f, i->a, first),
               (size_t)n * (size_t)mlsi_tile_size(f->c->registers[i->dst].cls));
        break;
    case MLSI_BLOCK_BEGIN: begin(f, i); break;
    case MLSI_BLOCK_TERM: term(f, i, first, n); break;
    case MLSI_BLOCK_RESULT: result(f, i, first, n); break;
    default: break;
    }
}

static int64_t run(frame *f, int32_t first, int32_t end) {
    const mlsi_block_instr *instrs = f->c->instrs;
    int64_t r = 0, *ints = f->ints;
    for (int32_t pc = first; pc < end && !r; pc += 1 + instrs[pc].body) {
        const mlsi_block_instr *i = &instrs[pc];
        switch (i->kind) {
        case MLSI_BLOCK_NUMBER: ints[i->dst] = i->value; break;
        case MLSI_BLOCK_ADD:
            ints[i->dst] = (int64_t)((uint64_t)ints[i->a] + (uint64_t)ints[i->b]);
            break;
        case MLSI_BLOCK_MUL:
            ints[i->dst] = (int64_t)((uint64_t)ints[i->a] * (uint64_t)ints[i->b]);
            break;
        case MLSI_BLOCK_DIV: ints[i->dst] = divide(ints[i->a], ints[i->b]); break;
        case MLSI_BLOCK_LOOP:
        case MLSI_BLOCK_TILES:
        case MLSI_BLOCK_RANGE:
        case MLSI_BLOCK_ELSE:
        case MLSI_BLOCK_WHEN: r = enter(f, pc); break;
        case MLSI_BLOCK_BIND: r = bind(f, i); break;
        default: lanes_of(f, i); break;
        }
    }
    return r;
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

static void set_buffers(frame *f) {
    char *local = f->state + f->c->state_bytes;
    for (int32_t b = 0; b < f->c->n_buffers; b++) {
        const mlsi_block_buffer *x = &f->c->buffers[b];
        if (x->param >= 0) {
            f->buffers[b] = f->args->data[x->param];
            continue;
        }
        f->buffers[b] = local;
        local += (f->ints[x->count] * x->size + 63) & ~INT64_C(63);
    }
}

int64_t mlsi_cpu_run_blocks(const mlsi_block_code *c, mlsi_gen_args *a) {
    frame f = {.c = c, .m = c->machine, .args = a, .state = a->work, .high = 1};
    int64_t r = 0;
    f.ints = (int64_t *)(void *)a->work;
    f.registers = (char **)(void *)(f.ints + c->n_ints);
    f.buffers = f.registers + c->n_registers;
    for (int32_t s = 0; s < c->n_symbols; s++)
        f.ints[s] = a->dims[s];
    for (int32_t i = 0; i < c->n_registers; i++)
        f.registers[i] = own(&f, i);
    (void)run(&f, 0, c->n_before);
    set_buffers(&f);
    for (int64_t task = a->begin; task < a->end && !r; task++) {
        f.ints[c->n_symbols] = task;
        r = run(&f, c->n_before, c->n_instrs);
    }
    return r;
}

mlsys_status mlsi_cpu_bind_blocks(mlsi_block_code *c, mlsi_isa isa) {
    c->machine = &mlsi_tile_machine_portable;
#if defined(__x86_64__)
    if (isa >= MLSI_ISA_AVX2) c->machine = &mlsi_tile_machine_avx2;
    if (isa >= MLSI_ISA_AVX512) c->machine = &mlsi_tile_machine_avx512;
#endif
    for (int32_t k = 0; k < c->n_instrs; k++) {
        mlsi_block_instr *i = &c->instrs[k];
        if (i->kind != MLSI_BLOCK_OP) continue;
        i->fn = mlsi_cpu_tile_fn((mlsi_op)i->op, i->cls, isa);
        if (!i->fn)
            return mlsi_fail(MLSYS_E_UNSUPPORTED, "no blocks for %s of %s",
                             mlsi_op_name((mlsi_op)i->op), mlsi_dtype_get(i->dtype)->name);
    }
    return MLSYS_OK;
}
