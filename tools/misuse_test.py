"""The generated half of tests/errors/check_abi.c: for each entry point a valid call, and for each of
its parameters what a wrong argument must lead to. Anything not listed here follows from the type."""

# Arguments of the valid call, by parameter name; expressions over the fixture f.
DEFAULTS = {
    "handle": "f->tensor", "t": "f->tensor", "a": "f->tensor", "b": "f->b", "dst": "f->tensor",
    "src": "f->other", "g": "f->graph", "g1": "f->callee", "g2": "NULL", "p": "f->program",
    "m": "f->model", "ctx": "f->ctx", "device": "f->device", "stream": "f->stream",
    "config": "NULL", "attrs": "NULL", "buf": "f->buf", "need": "&f->need", "shape": "f->shape",
    "strides": "f->strides", "perm": "f->perm", "values": "f->ints", "names": "NULL",
    "key": '"axis"', "name": '"x"', "scope": '"compile"', "text": '"the"', "message": '"m"',
    "path": "f->path", "op": '"neg"', "system": "NULL", "user": "NULL", "in": "f->in",
    "x": "f->values", "y": "f->values", "dx": "f->out", "seeds": "NULL",
    "inout": "f->out", "ids": "f->ids", "base": "f->data", "dst.buffer": "f->data",
    "src.buffer": "f->data", "h": "&f->hooks", "d": "&f->opdef", "managed": "f->managed",
    "input": "f->input", "v": "f->input",
    "n": "2", "n_in": "1", "n_out": "1", "n_x": "1", "n_y": "1", "ndim": "2", "cap": "sizeof f->buf", "axis": "1",
    "axis0": "0", "axis1": "1", "start": "0", "stop": "2", "step": "1", "offset": "0",
    "index": "0", "bytes": "24", "dtype": "MLSYS_F32", "type": "MLSYS_CPU", "what": "MLSYS_DUMP_COST",
    "flags": "0", "value": "1", "min": "1", "max": "8", "divisor": "1", "size": "8", "count": "TINY_VOCAB",
    "stream_id": "0", "status": "MLSYS_E_ARG", "tape": "f->tape", "fields": "f->in", "on": "1",
    "dy": "f->out", "loss": "f->loss", "params": "f->params", "initial": "f->in", "tensors": "f->in",
    "n_meta": "0", "keys": "NULL",
}
# Exceptions: (function, parameter) -> argument.
ARGUMENTS = {
    **{(f"config_{c}", "config"): "f->config" for c in ("set_i64", "set_f64", "set_str", "set_i64s", "get_i64")},
    ("config_set_str", "value"): '"v"', ("config_get_i64", "key"): '"seed"',
    ("hooks_init", "size"): "sizeof f->hooks", ("opdef_init", "size"): "sizeof f->opdef",
    ("ctx_stats", "out"): "&f->stats", ("graph_check_gradient", "out"): "NULL", ("program_cost", "out"): "&f->cost",
    ("program_tune", "out"): "NULL",
    **{(f"program_{c}", "n"): "0" for c in ("reserve", "cost", "export", "tune")},
    **{(f"program_{c}", "values"): "NULL" for c in ("reserve", "cost", "export", "tune")},
    ("tensor_write", "src"): "f->data", ("tensor_read", "dst"): "f->data",
    ("tensor_shape", "cap"): "2", ("tensor_strides", "cap"): "2", ("graph_type", "cap"): "2",
    ("tensor_shape", "shape"): "f->buf", ("tensor_strides", "strides"): "f->buf",
    ("tensor_strides", "offset"): "f->buf", ("tensor_shape", "ndim"): "f->buf",
    ("graph_type", "shape"): "f->buf", ("graph_type", "ndim"): "f->buf", ("graph_type", "dtype"): "f->buf",
    ("tensor_random", "kind"): '"uniform"', ("tensor_random", "key"): "1",
    ("tensor_data", "bytes"): "f->buf", ("tensor_bounds", "low"): "f->buf", ("tensor_bounds", "high"): "f->buf",
    ("tensor_layout", "contiguous"): "f->buf", ("tensor_layout", "overlaps"): "f->buf",
    ("tensor_reshape", "copied"): "NULL", ("tensor_to_dlpack", "managed"): "&f->managed_out",
    ("dtype_info", "block_elems"): "NULL", ("dtype_info", "block_bytes"): "NULL", ("dtype_info", "name"): "NULL",
    ("graph_dim", "op"): "'+'", ("graph_dim", "a"): "3", ("graph_dim", "b"): "4",
    ("graph_op", "in"): "f->values", ("graph_control", "in"): "f->values", ("graph_control", "kind"): '"call"',
    ("graph_parse", "text"): "f->printed", ("graph_symbol", "name"): '"fresh"',
    ("graph_input", "name"): '"fresh"', ("graph_output", "name"): '"fresh"',
    ("graph_donate", "g"): "f->graph", ("program_run", "inout"): "f->out",
    ("model_meta", "key"): '"general.architecture"', ("model_tensor", "name"): '"output_norm.weight"',
    ("tokenizer_encode", "t"): "f->tokenizer", ("tokenizer_decode", "t"): "f->tokenizer",
    ("tokenizer_vocab", "t"): "f->tokenizer", ("tokenizer_id", "t"): "f->tokenizer",
    ("tokenizer_vocab", "size"): "f->buf", ("tokenizer_encode", "bytes"): "3", ("tokenizer_encode", "cap"): "16",
    ("tokenizer_encode", "ids"): "f->buf", ("tokenizer_id", "name"): '"</s>"',
    **{(f"generator_{c}", "g"): "f->generator" for c in
       ("chat", "append", "append_ids", "next", "logits", "stat", "rewind")},
    ("generator_chat", "user"): '"the"', ("generator_next", "id"): "f->ids", ("generator_next", "text"): "f->buf",
    ("generator_logits", "out"): "f->buf", ("generator_stat", "name"): '"context"', ("generator_rewind", "n"): "0",
    ("graph_narrow", "dtype"): "MLSYS_BF16", ("graph_narrow", "n"): "1", ("graph_narrow", "values"): "f->values",
    ("ctx_create", "h"): "NULL",
    ("graph_tangent", "dx"): "f->values", ("graph_find", "name"): '"x"',
    ("trainer_create", "g"): "f->trained", ("trainer_create", "n"): "1",
    **{(f"trainer_{c}", "t"): "f->trainer" for c in ("step", "stat", "tensor", "find_nonfinite", "save", "load")},
    ("trainer_step", "loss"): "NULL", ("trainer_stat", "name"): '"step"', ("trainer_tensor", "name"): '"w"',
    **{(f, "path"): "f->saved" for f in ("trainer_save", "trainer_load", "tensors_save", "model_save", "program_export")},
    **{(f, "names"): "f->names" for f in ("tensors_save", "model_adapt")},
    ("tensors_save", "n"): "1", ("tensors_save", "values"): "f->names", ("tensors_save", "keys"): "f->names",
    ("tensors_save", "n_meta"): "1", ("model_adapt", "n"): "1", ("model_adapt", "tensors"): "f->norm",
    ("dataset_open", "config"): "f->token_windows", ("dataset_wrap", "n"): "1",
    **{(f"dataset_{c}", "d"): "f->dataset" for c in ("size", "batch")},
    ("dataset_size", "examples"): "f->buf", ("dataset_size", "fields"): "f->buf",
    ("dataset_batch", "position"): "0",
    **{("tape_gradient", p): f"f->{p}" for p in ("x", "y")}, ("tape_gradient", "dx"): "f->out",
}
# What a NULL (or another listed wrong value) may do: these parameters are optional, or any value is legal.
OPTIONAL = {
    "config", "attrs", "need", "names", "user", "done", "copied", "block_elems", "block_bytes", "system",
    "seeds", "message", "start", "stop", "value", "key.number", "stream_id", "flags", "max", "cap",
    ("ctx_create", "h"), ("tensor_wrap", "strides"), ("tensor_view", "strides"), ("tensor_to_dlpack", "stream"),
    ("tensor_from_dlpack", "stream"), ("op_list", "ctx"), ("op_schema", "ctx"), ("graph_control", "g2"), ("graph_check_gradient", "out"),
    ("program_tune", "values"), ("program_tune", "out"),
    ("dtype_info", "name"), ("release", "handle"), ("dlpack_free", "managed"), ("program_reserve", "values"),
    ("program_cost", "values"), ("program_export", "values"), ("tensor_shape", "shape"), ("tensor_shape", "ndim"), ("tensor_strides", "strides"),
    ("tensor_strides", "offset"), ("graph_type", "dtype"), ("graph_type", "shape"), ("graph_type", "ndim"),
    ("tensor_bounds", "low"), ("tensor_bounds", "high"), ("tensor_layout", "contiguous"),
    ("tensor_layout", "overlaps"), ("tensor_data", "out"), ("tensor_data", "bytes"), ("graph_input", "name"),
    ("graph_output", "name"), ("graph_dim", "a"), ("graph_dim", "b"), ("graph_symbol", "min"), ("tensor_wrap", "bytes"),
    ("generator_rewind", "n"), ("generator_append_ids", "n"), ("tokenizer_encode", "bytes"), ("tokenizer_decode", "n"),
    ("hooks_init", "size"), ("opdef_init", "size"), ("tensor_slice", "step"), ("tokenizer_vocab", "size"),
    ("generator_next", "id"), ("tensor_wrap", "base"), ("dataset_size", "examples"), ("dataset_size", "fields"),
    ("dataset_batch", "position"), ("dataset_batch", "n"),
    ("trainer_step", "loss"), ("trainer_create", "n"), ("tensors_save", "n"), ("tensors_save", "n_meta"),
    ("model_adapt", "n"),
}
# The valid call of these fails by design, or its success depends on the moment.
NO_BASELINE = {"graph_check_gradient", "last_status", "set_error", "tensor_from_dlpack", "config_get_i64"}
OUT_STRUCTS = {("ctx_stats", "out"), ("program_cost", "out"), ("graph_check_gradient", "out"), ("program_tune", "out")}
OUT_ARRAYS = {"op_run", "graph_op", "graph_control", "graph_interpret", "program_run", "dataset_batch"}


def param_class(f, p):
    """(class, kind) of a parameter: which wrong arguments are tried."""
    key = (f, p.name)
    if p.type == "void *" and p.name == "handle":
        return "ANY_HANDLE", "0"
    if p.type == "callback":
        return "NOTHING", "0"
    if p.type.startswith("mlsys_") and "*" not in p.type:
        short = p.type.removeprefix("mlsys_")
        if short in ("dtype", "devtype"):
            return "ENUM", "0"
        if short == "value":
            return "VALUE", "0"
        if short in ("dim", "status", "kind"):
            return "I64", "0"
        return "HANDLE", f"MLSYS_KIND_{short.upper()}"
    if "*" in p.type:
        if p.name in ("shape",) and p.type.startswith("const"):
            return "SHAPE", "0"
        if p.name == "strides" and p.type.startswith("const"):
            return "STRIDES", "0"
        if p.name in ("in", "fields", "x", "y", "seeds", "initial", "tensors") and "const mlsys_tensor" in p.type:
            return "TENSORS", "MLSYS_KIND_TENSOR"
        if key == ("tape_gradient", "dx"):
            return "OUT_TENSORS", "0"
        if p.name in ("in", "x", "y", "seeds", "params") and "mlsys_value" in p.type:
            return "VALUES", "0"
        if p.name in ("out", "inout") and p.type.startswith("mlsys_") and key not in OUT_STRUCTS:
            short = p.type.removeprefix("mlsys_").removesuffix(" *")
            is_handle = short not in ("value", "dim", "dtype", "kind", "status")
            if f in OUT_ARRAYS:
                return "OUT_TENSORS" if is_handle else "POINTER", "0"
            return "OUT_HANDLE" if is_handle else "POINTER", "0"
        return "POINTER", "0"
    if p.name in ("ndim", "n_in", "n_out") or key in (("config_set_i64s", "n"),):
        return "COUNT", "0"
    if p.name == "what" or key == ("graph_dim", "op"):
        return "ENUM", "0"
    if p.name.startswith("axis"):
        return "AXIS", "0"
    if p.name == "bytes" or p.name == "count":
        return "BYTES", "0"
    # A size larger than the struct, a count larger than the array: lies that nobody can see.
    if p.type == "double" or p.name in ("size", "n_x", "n_y"):
        return "NOTHING", "0"
    if p.type == "int32_t":
        return "I32", "0"
    return "I64", "0"


def optional(f, p):
    if p.name in OPTIONAL or (f, p.name) in OPTIONAL:
        return True
    return p.name == "key" and p.type == "uint64_t"


def argument(f, p):
    if (f, p.name) in ARGUMENTS:
        return ARGUMENTS[f, p.name]
    if p.type == "callback":
        return "NULL"
    if p.name in ("out", "inout") and "*" in p.type:
        return "f->out"
    return DEFAULTS[p.name]


def slot(p):
    """Which member of the argument union carries it."""
    if p.type == "double":
        return "d"
    return "p" if "*" in p.type or p.type == "callback" or param_class("", p)[0] in ("HANDLE",) else "i"


def passed(i, p):
    if p.type == "callback":
        return "NULL"
    s = f"a[{i}].{slot(p)}"
    return s if slot(p) != "i" else f"({p.type})a[{i}].i"


def wrap(first, items, end, rest=None):
    """Lines of at most 100 columns; the first begins with `first`, the others with `rest`."""
    rest = " " * (len(first) - len(first.lstrip()) + 4) if rest is None else rest
    lines, line = [], first
    for k, item in enumerate(items):
        item += end if k == len(items) - 1 else ", "
        if len(line) + len(item.rstrip()) > 100:
            lines.append(line.rstrip())
            line = rest
        line += item
    return lines + [line]


def function_text(f):
    name = f.name.removeprefix("mlsys_")
    fills = ["(void)a", "(void)f"]
    for i, p in enumerate(f.params):
        if p.type != "callback":
            text = argument(name, p)
            cast = "(void *)" if text.startswith('"') else ""
            fills.append(f"a[{i}].{slot(p)} = {cast}{text}")
    args = [passed(i, p) for i, p in enumerate(f.params)] or [""]
    unused = "" if f.params else "(void)a; "
    return [
        *wrap(f"static void fill_{name}(argument *a, fixture *f) {{ ", fills, "; }", "    "),
        *wrap(f"static mlsys_status call_{name}(argument *a) {{ {unused}return {f.name}(", args, "); }", "    "),
    ]


def row_text(f):
    name = f.name.removeprefix("mlsys_")
    specs = []
    for p in f.params:
        cls, kind = param_class(name, p)
        specs.append(f'{{"{p.name}", {cls}, {kind}, {int(optional(name, p))}}}')
    head = f'    {{"{name}", fill_{name}, call_{name}, {len(f.params)}, {int(name not in NO_BASELINE)}, {{'
    return wrap(head, specs or ["{0}"], "}},", "     ")


def files(h):
    head = ["/* Written by tools/gen_bindings.py from the public header; included by check_abi.c. */", "/* clang-format off */"]
    status_functions = [f for f in h.functions if f.ret == "mlsys_status"]
    calls, rows = list(head), list(head)
    for f in status_functions:
        calls += function_text(f)
    rows.append("static const entry_point entry_points[] = {")
    for f in status_functions:
        rows += row_text(f)
    rows.append("};")
    return {
        "tests/errors/abi_calls.inc": "\n".join(calls) + "\n",
        "tests/errors/abi_entry_points.inc": "\n".join(rows) + "\n",
    }
