#!/usr/bin/env python3
"""Write what follows from the public header: the ctypes table and the misuse test.

gen_bindings.py            writes the files
gen_bindings.py --check    fails when a committed file is not what it would write
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import header  # noqa: E402
import misuse_test  # noqa: E402

ROOT = os.path.join(os.path.dirname(__file__), "..")
FIXED = {
    "int32_t": "c_int32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
    "uint8_t": "c_uint8",
    "double": "c_double",
    "float": "c_float",
}


def ctype(h, written):
    """One Python expression for a C type. Pointers to data stay void *: numpy, array and ctypes
    buffers all pass as addresses; text goes in as bytes."""
    base = h.scalars.get(written, written)
    if base in FIXED:
        return "C." + FIXED[base]
    if written == "const char *":
        return "C.c_char_p"
    if written == "callback" or written in h.handles or written.endswith("*"):
        return "C.c_void_p"
    raise SystemExit(f"gen_bindings: unknown type {written}")


def struct_lines(h):
    for name, fields in h.structs.items():
        title = "".join(w.capitalize() for w in name.removeprefix("mlsys_").split("_"))
        yield ""
        yield ""
        yield f"class {title}(C.Structure):"
        yield "    _fields_ = ["
        for t, field in fields:
            yield f'        ("{field}", {ctype(h, t)}),'
        yield "    ]"


def ctypes_module(h):
    lines = [
        '"""Argument table of libmlsys, written by tools/gen_bindings.py from the public header."""',
        "",
        "import ctypes as C",
        "",
        f'VERSION = "{h.version}"',
        "",
    ]
    lines += [f"{name.removeprefix('MLSYS_')} = {value}" for name, value in h.enums.items()]
    lines += struct_lines(h)
    lines += ["", "", "# name: (result, arguments); a status result is checked by errcheck", "FUNCTIONS = {"]
    for f in h.functions:
        ret = "None" if f.ret == "mlsys_status" else ctype(h, f.ret)
        args = ", ".join(ctype(h, p.type) for p in f.params)
        row = f'    "{f.name}": ({ret}, [{args}]),'
        if len(row) > 100:
            row = f'    "{f.name}": (\n        {ret},\n        [{args}],\n    ),'
        lines.append(row)
    lines += ["}", "", "STRUCT_SIZES = {"]
    for name in h.structs:
        title = "".join(w.capitalize() for w in name.removeprefix("mlsys_").split("_"))
        lines.append(f'    "{name}": C.sizeof({title}),')
    lines += ["}", ""]
    return "\n".join(lines)


def main():
    h = header.read(os.path.join(ROOT, "include/mlsys/mlsys.h"))
    outputs = {"examples/python/mlsys_ctypes.py": ctypes_module(h)}
    outputs.update(misuse_test.files(h))
    stale = []
    for path, text in outputs.items():
        full = os.path.join(ROOT, path)
        old = open(full, encoding="utf-8").read() if os.path.exists(full) else None
        if old == text:
            continue
        stale.append(path)
        if "--check" not in sys.argv:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as out:
                out.write(text)
    if "--check" in sys.argv:
        if stale:
            raise SystemExit(f"bindings: run tools/gen_bindings.py: {' '.join(stale)} not up to date")
        print(f"bindings: {len(h.functions)} functions, generated files up to date")


if __name__ == "__main__":
    main()
