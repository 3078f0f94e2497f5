"""Graphs of the library through ctypes, for the peer tests: ops by name, gradients, one compiled run."""

import ctypes as C
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
import mlsys  # noqa: E402
from mlsys import Handle, integer, integers, lib  # noqa: E402

DTYPES = {"f16": (mlsys.F16, np.float16), "f32": (mlsys.F32, np.float32), "f64": (mlsys.F64, np.float64),
          "i32": (mlsys.I32, np.int32), "i64": (mlsys.I64, np.int64), "bool": (mlsys.BOOL, np.bool_)}
NAMES = {np.dtype(n): name for name, (_, n) in DTYPES.items()}
NUMPY = {code: n for code, n in DTYPES.values()}
Q8 = "q8_0"  # an input of blocks; its tensor is made by Device.blocks


def config(values):
    """A config of a dict: its values' types choose the setter."""
    if not values:
        return None
    c = Handle(lib.mlsys_config_create)
    for key, value in values.items():
        key = key.encode()
        if isinstance(value, str):
            lib.mlsys_config_set_str(c, key, value.encode())
        elif isinstance(value, (list, tuple)):
            lib.mlsys_config_set_i64s(c, key, len(value), integers(*value))
        elif isinstance(value, float):
            lib.mlsys_config_set_f64(c, key, value)
        else:
            lib.mlsys_config_set_i64(c, key, int(value))
    return c


class Device:
    def __init__(self):
        self.ctx = Handle(lib.mlsys_ctx_create, None, None)
        self.device = Handle(lib.mlsys_device_get, self.ctx, mlsys.CPU, 0)
        self.stream = Handle(lib.mlsys_stream_create, self.device, None)

    def tensor(self, array):
        array = np.array(array, order="C")  # keeps rank 0
        code = DTYPES[NAMES[array.dtype]][0]
        t = Handle(lib.mlsys_tensor_create, self.device, code, array.ndim, integers(*array.shape))
        if array.size:
            lib.mlsys_tensor_write(t, self.stream, array.ctypes.data, array.nbytes)
        return t

    def blocks(self, packed, shape):
        """q8_0 from the bytes of its blocks."""
        t = Handle(lib.mlsys_tensor_create, self.device, mlsys.Q8_0, len(shape), integers(*shape))
        lib.mlsys_tensor_write(t, self.stream, packed.ctypes.data, packed.nbytes)
        return t

    def array(self, t, dtype, shape):
        a = np.empty(shape, dtype)
        if a.size:
            lib.mlsys_tensor_read(t, self.stream, a.ctypes.data, a.nbytes)
        return a


class Graph:
    def __init__(self, device):
        self.device = device
        self.handle = Handle(lib.mlsys_graph_create, device.ctx)
        self.n_in, self.n_out, self.outputs = 0, 0, []

    def input(self, dtype, shape):
        self.n_in += 1
        name = f"x{self.n_in}".encode()
        code = mlsys.Q8_0 if dtype == Q8 else DTYPES[dtype][0]
        return integer(lib.mlsys_graph_input, self.handle, name, code, len(shape), integers(*shape))

    def op(self, name, *operands, n_out=1, **attrs):
        """None is an absent operand. One value, or a tuple where n_out > 1."""
        out = (C.c_int64 * n_out)()
        lib.mlsys_graph_op(self.handle, name.encode(), len(operands), integers(*[x or 0 for x in operands]),
                           config(attrs), n_out, out)
        return out[0] if n_out == 1 else tuple(out)

    def control(self, kind, functions, operands, n_out):
        out = (C.c_int64 * n_out)()
        fns = [f.handle for f in functions] + [None]
        lib.mlsys_graph_control(self.handle, kind.encode(), fns[0], fns[1], len(operands), integers(*operands),
                                n_out, out)
        return tuple(out)

    def number(self, dtype, value):
        key = "ivalue" if dtype[0] in "ib" else "value"
        return self.op("full", dtype=dtype, shape=(), **{key: value if key == "ivalue" else float(value)})

    def type(self, v):
        code, rank, shape = C.c_int32(), C.c_int32(), (C.c_int64 * 8)()
        lib.mlsys_graph_type(self.handle, v, C.byref(code), 8, shape, C.byref(rank))
        return NUMPY[code.value], tuple(shape[: rank.value])

    def output(self, v):
        lib.mlsys_graph_output(self.handle, f"y{self.n_out}".encode(), v)
        self.outputs.append(self.type(v))
        self.n_out += 1

    def gradient(self, y, seeds, x):
        """dx, None where no y depends on x."""
        dx = (C.c_int64 * len(x))()
        lib.mlsys_graph_gradient(self.handle, len(y), integers(*y), integers(*seeds), len(x), integers(*x), None, dx)
        return [v or None for v in dx]

    def run(self, arrays):
        """The outputs of the compiled graph."""
        program = Handle(lib.mlsys_graph_compile, self.handle, self.device.device, None)
        tensors = [a if isinstance(a, Handle) else self.device.tensor(a) for a in arrays]
        out = (C.c_void_p * len(self.outputs))()
        lib.mlsys_program_run(program, self.device.stream, len(tensors), mlsys.handles(*tensors), len(out), out)
        try:
            return [self.device.array(C.c_void_p(t), *form) for t, form in zip(out, self.outputs)]
        finally:
            for t in out:
                lib.mlsys_release(t)
