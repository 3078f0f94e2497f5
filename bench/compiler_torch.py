#!/usr/bin/env python3
"""The subgraphs of bench_compiler in PyTorch, under the same names, compiled by torch.compile and, where it can be imported, by ONNX
Runtime. bench_compiler starts it with --serve and asks on standard input, a line each; an answer begins with "ok" or tells why not.

    versions                                   libraries and versions
    peers                                      the compilers that are here
    check ROWS COLUMNS IN OUT NAME             of the raw inputs in file IN make the raw outputs in file OUT, as PyTorch computes them
    open PEER THREADS ROWS COLUMNS NAME        compile for inputs of this size, compare with the uncompiled function
    time CALLS                                 seconds of one call of what is open, mean of so many
    close
"""
import os
import sys
import time

# Large pages for large tensors, as the library has them, and no page faults in a timed call: freed memory stays in the process.
TUNED = {"THP_MEM_ALLOC_ENABLE": "1",
         "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"}
if any(os.environ.get(key) != value for key, value in TUNED.items()):
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **TUNED})

import numpy
import torch
import torch.nn.functional as F

try:
    import onnxruntime
except ImportError:
    onnxruntime = None

KINDS = {"x": torch.float32, "column": torch.float32, "row": torch.float32, "flat": torch.float32,
         "keep": torch.bool, "label": torch.int32}


def rms_norm(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * w


def chain(a, b, c):
    return F.gelu(a * b + c) * torch.sigmoid(a) + b


def softmax(x, m, w):
    return torch.softmax(x * 0.125 + m, -1) * w


def layer_norm(x, b, g, beta):
    return torch.relu(F.layer_norm(x + b, x.shape[-1:], g, beta, 1e-5))


def scaled_rms_norm(x, s, w, u):
    return rms_norm(x * s, w) * u


def residual_norm(x, d, w):
    h = x + d
    return h, rms_norm(h, w)


def swiglu(gate, up):
    return F.silu(gate) * up


def bias_gelu(x, b):
    return F.gelu(x + b)


def dropout_norm(x, r, g, b, keep):
    return F.layer_norm(torch.where(keep, x, 0.0) * 1.1111112 + r, x.shape[-1:], g, b, 1e-5)


def adamw(w, g, m, v):
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return w * 0.99997 - m / (torch.sqrt(v) + 1e-8) * 0.0003, m, v


def gelu_backward(x, dy):
    return dy * ((torch.erf(x * 0.70710678) + 1) * 0.5 + x * (torch.exp(x * x * -0.5) * 0.39894228))


def softmax_backward(y, dy):
    return (dy - (y * dy).sum(-1, keepdim=True)) * y * 0.125


def cross_entropy_backward(x, lse, label):
    one_hot = torch.arange(x.shape[-1], dtype=torch.int32) == label
    return (torch.exp(x - lse) - one_hot.to(x.dtype)) * 0.000061035156


def layer_norm_backward(x, dy, g, mean, rstd):
    y, d = (x - mean) * rstd, dy * g
    return (d - d.mean(-1, keepdim=True) - y * (d * y).mean(-1, keepdim=True)) * rstd


def batch_norm_residual(x, r, s, b):
    return torch.relu(x * s + b + r)


def batch_norm_mean(x, s, b):
    return torch.relu(x * s + b).mean(-1, keepdim=True)


CASES = {
    "gelu(a*b+c)*sigmoid(a)+b": (chain, "flat flat flat"),
    "softmax(x*s+m)*w": (softmax, "x column column"),
    "relu(layer_norm(x+b))": (layer_norm, "x column column column"),
    "rms_norm(x*s)*u": (scaled_rms_norm, "x column column column"),
    "Llama: residual, rms_norm": (residual_norm, "x x column"),
    "Llama: silu(gate)*up": (swiglu, "x x"),
    "BERT: bias, gelu": (bias_gelu, "x column"),
    "BERT: dropout, residual, layer_norm": (dropout_norm, "x x column column keep"),
    "GPT training: AdamW": (adamw, "x x x x"),
    "GPT training: gelu backward": (gelu_backward, "x x"),
    "GPT training: softmax backward": (softmax_backward, "x x"),
    "GPT training: cross-entropy backward": (cross_entropy_backward, "x row label"),
    "GPT training: layer_norm backward": (layer_norm_backward, "x x column row row"),
    "conv net: batch norm, residual, relu": (batch_norm_residual, "x x row row"),
    "conv net: batch norm, relu, global mean": (batch_norm_mean, "x row row"),
}


def shape_of(kind, rows, columns):
    return {"flat": (rows * columns,), "column": (columns,), "row": (rows, 1), "label": (rows, 1)}.get(kind, (rows, columns))


def as_tuple(y):
    return y if isinstance(y, tuple) else (y,)


def read_inputs(kinds, rows, columns, path):
    """The inputs one after the other, as bench_compiler wrote them; all bytes are theirs."""
    data, at, inputs = numpy.fromfile(path, dtype=numpy.uint8), 0, []
    for kind in kinds:
        shape, dtype = shape_of(kind, rows, columns), {"keep": numpy.bool_, "label": numpy.int32}.get(kind, numpy.float32)
        n = int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize
        inputs.append(torch.from_numpy(data[at:at + n].view(dtype).reshape(shape).copy()))
        at += n
    assert at == data.size, f"{data.size} bytes, {at} expected"
    return inputs


def random_input(kind, rows, columns):
    shape = shape_of(kind, rows, columns)
    if kind == "keep":
        return torch.rand(shape) < 0.9
    if kind == "label":
        return torch.randint(0, columns, shape, dtype=torch.int32)
    return torch.rand(shape)


def onnx_session(fn, inputs, threads):
    import io
    module = torch.nn.Module()
    module.forward = fn
    data = io.BytesIO()
    torch.onnx.export(module, tuple(inputs), data, dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(data.getvalue(), options, providers=["CPUExecutionProvider"])
    feed = {slot.name: x.numpy() for slot, x in zip(session.get_inputs(), inputs)}
    return lambda: tuple(torch.from_numpy(y) for y in session.run(None, feed))


class Peers:
    def __init__(self):
        self.call = None

    def versions(self):
        text = f"PyTorch {torch.__version__}, torch.compile mode default, {torch.backends.cpu.get_cpu_capability()}, large pages, freed memory kept"
        return text + (f"; ONNX Runtime {onnxruntime.__version__}" if onnxruntime else "")

    def peers(self):
        return "torch.compile" + (" onnxruntime" if onnxruntime else "")

    def check(self, rows, columns, source, target, name):
        fn, kinds = CASES[name]
        outputs = as_tuple(fn(*read_inputs(kinds.split(), int(rows), int(columns), source)))
        with open(target, "wb") as f:
            for y in outputs:
                f.write(y.contiguous().numpy().tobytes())
        return str(len(outputs))

    def open(self, peer, threads, rows, columns, name):
        fn, kinds = CASES[name]
        torch.set_num_threads(int(threads))
        torch._dynamo.reset()
        torch.manual_seed(1)
        inputs = [random_input(kind, int(rows), int(columns)) for kind in kinds.split()]
        if peer == "onnxruntime":
            self.call = onnx_session(fn, inputs, int(threads))
        else:
            compiled = torch.compile(fn, dynamic=False)
            self.call = lambda: compiled(*inputs)
        worst = 0.0
        for y, want in zip(as_tuple(self.call()), as_tuple(fn(*inputs))):
            worst = max(worst, float((y - want).abs().max() / want.abs().max()))
        assert worst < 1e-4, f"compiled and uncompiled differ by {worst} of the greatest value"
        return f"{worst:.1e}"

    def time(self, calls):
        begun = time.perf_counter()
        for _ in range(int(calls)):
            self.call()
        return repr((time.perf_counter() - begun) / int(calls))

    def close(self):
        self.call = None
        return ""


@torch.no_grad()
def serve():
    peers, words = Peers(), {"check": 5, "open": 5}
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        command, *rest = line.rstrip("\n").split(" ", words.get(line.split()[0], 1))
        try:
            answer = "ok " + getattr(peers, command)(*rest)
        except Exception as error:  # pylint: disable=broad-except
            answer = f"failed {type(error).__name__} {error}".replace("\n", " ")[:200]
        print(answer, file=out, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] != ["--serve"]:
        sys.exit(__doc__)
    serve()
