"""Compare sizeof of each public struct, as C printed it, with its ctypes mirror."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
import mlsys_ctypes  # noqa: E402

in_c = dict(line.split() for line in open(sys.argv[1], encoding="utf-8"))
in_python = {name: str(size) for name, size in mlsys_ctypes.STRUCT_SIZES.items()}
if in_c != in_python:
    raise SystemExit(f"struct sizes differ: C {in_c}, ctypes {in_python}")
