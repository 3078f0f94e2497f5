"""One product computed eagerly, then the same in a compiled graph; plain Python, no packages.

    MLSYS_LIBRARY=build/release/libmlsys.so python3 examples/python/quickstart.py"""

import array

from mlsys import CPU, DUMP_KERNELS, F32, Error, Handle, handles, integer, integers, lib, text

ctx = Handle(lib.mlsys_ctx_create, None, None)
device = Handle(lib.mlsys_device_get, ctx, CPU, 0)
stream = Handle(lib.mlsys_stream_create, device, None)


def tensor(shape, values):
    t = Handle(lib.mlsys_tensor_create, device, F32, len(shape), integers(*shape))
    data = array.array("f", values)
    lib.mlsys_tensor_write(t, stream, data.buffer_info()[0], 4 * len(data))
    return t


def values(t, count):
    out = array.array("f", bytes(4 * count))
    lib.mlsys_tensor_read(t, stream, out.buffer_info()[0], 4 * count)
    return out.tolist()


x = tensor((2, 3), [1, 2, 3, 4, 5, 6])
w = tensor((3, 2), [1, 0, 0, -1, 1, 0])

eager = Handle(lib.mlsys_op_run, stream, b"matmul", 2, handles(x, w), None, 1)
print("eager   ", values(eager, 4))

graph = Handle(lib.mlsys_graph_create, ctx)
vx = integer(lib.mlsys_graph_input, graph, b"x", F32, 2, integers(2, 3))
vw = integer(lib.mlsys_graph_const, graph, w)
product = integer(lib.mlsys_graph_op, graph, b"matmul", 2, integers(vx, vw), None, 1)
result = integer(lib.mlsys_graph_op, graph, b"relu", 1, integers(product), None, 1)
lib.mlsys_graph_output(graph, b"y", result)
print(text(lib.mlsys_graph_print, graph))

program = Handle(lib.mlsys_graph_compile, graph, device, None)
print(text(lib.mlsys_program_dump, program, DUMP_KERNELS))
y = Handle(lib.mlsys_program_run, program, stream, 1, handles(x), 1)
print("compiled", values(y, 4))
assert values(eager, 4) == [4.0, -2.0, 10.0, -5.0]
assert values(y, 4) == [4.0, 0.0, 10.0, 0.0]

try:
    Handle(lib.mlsys_op_run, stream, b"matmul", 2, handles(x, x), None, 1)
except Error as e:
    print("refused:", e)
else:
    raise SystemExit("a product of 2x3 and 2x3 was accepted")
