#!/usr/bin/env python3
"""Reference block decoding against the `gguf` package (PyPI, 0.19.0), bit for bit.

    tests/peer/dequant.py [MODEL.gguf...]

Random blocks of every format, with ordinary and extreme scales, then every block tensor of the given
files. Exit 0 all equal, 77 a package is missing, 1 a difference."""
import ctypes
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ["src/ir/ops/block_decode.c", "src/core/dtype.c", "src/core/status.c"]
# dtype code of mlsys.h: name in gguf
FORMATS = {64: "Q4_0", 67: "Q4_1", 68: "Q5_0", 69: "Q5_1", 70: "Q8_0", 72: "Q4_K", 73: "Q5_K", 74: "Q6_K"}
# byte offsets of f16 fields
HALVES = {64: [0], 67: [0, 2], 68: [0], 69: [0, 2], 70: [0], 72: [0, 2], 73: [0, 2], 74: [208]}

try:
    import numpy as np
    import gguf
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
    from gguf.quants import dequantize
except ImportError as missing:
    print(f"SKIP: dequant: {missing}; needs numpy and gguf 0.19.0")
    sys.exit(77)


def build(folder):
    path = os.path.join(folder, "libdecode.so")
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-O2", "-ffp-contract=off",
                    "-shared", "-fPIC", "-I", f"{ROOT}/include", "-I", f"{ROOT}/src",
                    *(f"{ROOT}/{s}" for s in SOURCES), "-lm", "-o", path], check=True)
    lib = ctypes.CDLL(path)
    lib.mlsi_block_decode.argtypes = [ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
    lib.mlsi_block_decode.restype = None
    return lib


def compare(lib, dtype, blocks, what):
    """blocks: uint8 [n, block bytes]. Counts elements whose bits differ (NaN equals NaN)."""
    name = FORMATS[dtype]
    kind = GGMLQuantizationType[name]
    elems, block_bytes = GGML_QUANT_SIZES[kind]
    blocks = np.ascontiguousarray(blocks.reshape(-1, block_bytes))
    ours = np.full(blocks.shape[0] * elems, np.float32(1e30))
    lib.mlsi_block_decode(dtype, blocks.ctypes.data, ours.size, ours.ctypes.data)
    with np.errstate(all="ignore"):
        theirs = dequantize(blocks, kind).reshape(-1)
    same = (ours.view(np.uint32) == theirs.view(np.uint32)) | (np.isnan(ours) & np.isnan(theirs))
    bad = int((~same).sum())
    print(f"{what}: {name} {ours.size} elements, {bad} differ")
    if bad:
        i = int(np.flatnonzero(~same)[0])
        print(f"  first at {i}: ours {ours[i]!r}, theirs {theirs[i]!r}")
    return bad


def main():
    seed = 1
    rng = np.random.default_rng(seed)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        lib = build(folder)
        for dtype, name in FORMATS.items():
            size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
            blocks = rng.integers(0, 256, (4000, size), dtype=np.uint8)
            bad += compare(lib, dtype, blocks, f"all bits random, seed {seed}")
            for at in HALVES[dtype]:
                d = rng.normal(0, 0.01, 4000).astype(np.float16).view(np.uint8).reshape(-1, 2)
                blocks[:, at:at + 2] = d
            bad += compare(lib, dtype, blocks, "ordinary scales")
        for path in sys.argv[1:]:
            codes = {n: c for c, n in FORMATS.items()}
            for t in gguf.GGUFReader(path).tensors:
                if t.tensor_type.name in codes:
                    bad += compare(lib, codes[t.tensor_type.name], np.asarray(t.data),
                                   f"{os.path.basename(path)} {t.name}")
    print("equal" if not bad else f"{bad} elements differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
