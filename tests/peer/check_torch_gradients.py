#!/usr/bin/env python3
"""Values and gradients of the library's compiled graphs beside PyTorch's, for every differentiable op.

Upstream gradients are random. Bounds: 1e-4 in f32, 1e-9 in f64, relative to the larger of the element and its
tensor's root mean square. At least 200 calls must agree in f32. An op that has a gradient and no case fails.
Arguments: parts of names of the cases to run, all by default."""

import os
import re
import sys
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch_python  # noqa: E402

torch = torch_python.need("PyTorch's gradients")
import gradient_cases as G  # noqa: E402
import gradient_cases_rows  # noqa: E402,F401
import library_graph as L  # noqa: E402
import numpy as np  # noqa: E402

SEED = int(os.environ.get("MLSYS_TEST_SEED", "1"))
BOUND = {"f32": 1e-4, "f64": 1e-9}


def quantised(rng, shape):
    """q8_0: a half as scale, then 32 signed bytes. The bytes, and the floats that they stand for."""
    scale = rng.uniform(0.01, 0.1, (*shape[:-1], shape[-1] // 32)).astype(np.float16)
    q = rng.integers(-127, 128, (*scale.shape, 32)).astype(np.int8)
    packed = np.concatenate([scale[..., None].view(np.int8), q], -1)
    return packed, (q * scale.astype(np.float32)[..., None]).reshape(shape)


def array(rng, spec, dtype):
    if isinstance(spec, G.X):
        dtype = "f32" if spec.fixed else dtype
        values = rng.uniform(spec.lo, spec.hi, spec.shape) if spec.values is None else spec.values
    elif isinstance(spec, G.K):
        dtype, values = spec.dtype, spec.values
        if spec.apart:
            values = rng.permutation(spec.hi)[: int(np.prod(spec.shape))]
        elif values is None:
            values = rng.integers(spec.lo, spec.hi, spec.shape)
    else:
        dtype, values = "bool", spec.value
        if values is None:
            values = rng.random(spec.shape) < 0.6
            values[..., 0] = True
    return np.asarray(values, L.DTYPES[dtype][1]).reshape(spec.shape)


def label(case):
    operands = ", ".join("_" if s is None else str(list(s.shape)).replace(" ", "") for s in case.operands)
    attrs = ", ".join(f"{k}={v}" for k, v in case.attrs.items())
    return f"{case.op}({operands})" + (f" {{{attrs}}}" if attrs else "") + (f" {case.note}" if case.note else "")


def deviation(ours, theirs):
    """Largest difference, relative to the element or its tensor's root mean square; integers: exact."""
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape:
        return np.inf
    finite = np.isfinite(theirs) if theirs.dtype.kind == "f" else np.zeros(theirs.shape, bool)
    if not np.array_equal(ours[~finite], theirs[~finite]):
        return np.inf
    a, b = ours[finite].astype(np.float64), theirs[finite].astype(np.float64)
    if not a.size:
        return 0.0
    scale = np.maximum(np.abs(b), np.sqrt(np.mean(b * b)))
    worst = np.max(np.abs(a - b) / np.where(scale > 0, scale, 1))
    return float(worst) if np.isfinite(worst) else np.inf


class Comparison:
    """One case in one dtype, on both sides."""

    def __init__(self, device, case, dtype):
        self.device, self.case, self.dtype = device, case, dtype
        self.rng = np.random.default_rng([SEED, zlib.crc32(label(case).encode())])
        self.given, self.tensors, self.forms = [], [], []
        for spec in case.operands:
            if isinstance(spec, G.Q8):
                packed, values = quantised(self.rng, spec.shape)
                self.given.append(packed)
            else:
                values = None if spec is None else array(self.rng, spec, dtype)
                self.given.append(values)
            self.tensors.append(None if spec is None else torch.from_numpy(np.array(values)))
        self.x = [i for i, s in enumerate(case.operands) if isinstance(s, G.X) and s.grad]

    def build(self):
        g, case = L.Graph(self.device), self.case
        values = []
        for spec, a in zip(case.operands, self.given):
            form = None if spec is None else (L.Q8 if isinstance(spec, G.Q8) else L.NAMES[a.dtype], spec.shape)
            values.append(form and g.input(*form))
        y = case.build(g, *values) if case.build else g.op(case.op, *values, n_out=case.n_out, **case.attrs)
        y = list(y) if isinstance(y, tuple) else [y]
        floats = [v for v in y if np.dtype(g.type(v)[0]).kind == "f"]
        self.seeds = [self.rng.standard_normal(g.type(v)[1]).astype(g.type(v)[0]) for v in floats]
        seeds = [g.input(self.dtype, g.type(v)[1]) for v in floats]
        dx = g.gradient(floats, seeds, [values[i] for i in self.x])
        for v in y + [d for d in dx if d]:
            g.output(v)
        return g, len(y), dx

    def ours(self):
        g, n_y, dx = self.build()
        given = [(a, s) for a, s in zip(self.given, self.case.operands) if a is not None]
        out = g.run([self.device.blocks(a, s.shape) if isinstance(s, G.Q8) else a for a, s in given] + self.seeds)
        left = iter(out[n_y:])
        return out[:n_y], [next(left) if d else np.zeros_like(self.given[i]) for d, i in zip(dx, self.x)]

    def theirs(self):
        for i in self.x:
            self.tensors[i].requires_grad_(True)
        y = self.case.reference(*self.tensors)
        y = list(y) if isinstance(y, tuple) else [y]
        floats = [v for v in y if v.is_floating_point()]
        dx = torch.autograd.grad(floats, [self.tensors[i] for i in self.x],
                                 [torch.from_numpy(np.array(s)) for s in self.seeds], allow_unused=True)
        zeros = [torch.zeros_like(self.tensors[i]) for i in self.x]
        return [v.detach().numpy() for v in y], [(z if d is None else d).numpy() for d, z in zip(dx, zeros)]

    def worst(self):
        (y, dx), (want_y, want_dx) = self.ours(), self.theirs()
        if len(y) != len(want_y):
            return np.inf, np.inf
        return (max(map(deviation, y, want_y)), max(map(deviation, dx, want_dx)))


def uncovered():
    """Ops with a gradient, by their pages, that no case names."""
    text = L.mlsys.text(L.lib.mlsys_op_list, None)
    names = text.split()
    pages = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "ops")
    named = {word for c in G.CASES for word in re.findall(r"\w+", c.op)}
    for name in names:
        page = os.path.join(pages, name + ".md")
        with open(page) as f:
            if "- differentiable" in f.read() and name not in named:
                yield name


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    device, wanted, failures = L.Device(), sys.argv[1:], []
    agreed = {"f32": 0, "f64": 0}
    print(f"seed {SEED}, PyTorch {torch.__version__}")
    for case in G.CASES:
        if wanted and not any(w in label(case) for w in wanted):
            continue
        for dtype in case.dtypes:
            try:
                value, gradient = Comparison(device, case, dtype).worst()
                said = f"value {value:.1e}, gradients {gradient:.1e}"
            except (L.mlsys.Error, RuntimeError, TypeError, ValueError) as error:
                value, gradient, said = np.inf, np.inf, f"{type(error).__name__}: {error}"
            good = max(value, gradient) <= BOUND[dtype]
            agreed[dtype] += good
            line = f"{dtype}  {'agrees ' if good else 'DIFFERS'}  {label(case)}: {said}"
            print(line, flush=True)
            if not good:
                failures.append(line)
    if not wanted:
        failures += [f"no case for {name}" for name in uncovered()]
        if agreed["f32"] < 200:
            failures.append(f"{agreed['f32']} calls agree in f32, 200 expected")
    print("\n".join(["", *failures]))
    print(f"{agreed['f32']} calls agree in f32 (bound {BOUND['f32']}), {agreed['f64']} in f64 (bound {BOUND['f64']}); "
          f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
