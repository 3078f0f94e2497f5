#!/bin/sh
# The generated ctypes table loads against the built library, its structs have the C sizes, and the
# quickstart gives the right numbers.
set -eu
: "${OUT:=build/release}" "${PYTHON:=python3}"
command -v "$PYTHON" >/dev/null || { echo "SKIP: ctypes: no $PYTHON"; exit 77; }
case ${CONFIG:-release} in
asan | tsan | ubsan) echo "SKIP: ctypes: the interpreter is not built with $CONFIG"; exit 77 ;;
esac
MLSYS_LIBRARY=$(realpath "$OUT/libmlsys.so")
export MLSYS_LIBRARY PYTHONDONTWRITEBYTECODE=1
work=$OUT/tests/abi/python
mkdir -p "$work"
"${CC:-cc}" -std=c99 -Iinclude tests/abi/unit_a.c tests/abi/unit_b.c -o "$work/two_units" \
    -L"$OUT" -lmlsys "-Wl,-rpath,$(realpath "$OUT")"
"$work/two_units" >"$work/struct_sizes"
"$PYTHON" tests/abi/struct_sizes.py "$work/struct_sizes"
"$PYTHON" examples/python/quickstart.py
