"""Calls whose values and gradients are compared with PyTorch's: case(op, operands, reference, **attributes).

The reference gets the operands as tensors and returns the result, or a tuple of results. What is chosen
differently on purpose (docs/autodiff.md) does not occur: no ties of max, min, sort or clamp, no 0 of relu or
abs, no rows that see nothing, no two updates set to one place."""

from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
import torch_reference as R


@dataclass
class X:
    """Floats of the case's dtype. fixed: f32 in every case; grad: differentiated; values: given."""
    shape: tuple
    lo: float = -2
    hi: float = 2
    grad: bool = True
    fixed: bool = False
    values: object = None


@dataclass
class K:
    """Integers in [lo, hi), or the values given. apart: all different."""
    shape: tuple
    hi: int = 0
    lo: int = 0
    dtype: str = "i64"
    values: object = None
    apart: bool = False


@dataclass
class B:
    """Bools, the first of each row true; or the value given."""
    shape: tuple
    value: object = None


@dataclass
class Q8:
    """Blocks of q8_0, constant; the reference gets the floats."""
    shape: tuple


@dataclass
class Case:
    op: str
    operands: list
    reference: object
    attrs: dict
    n_out: int = 1
    build: object = None
    note: str = ""
    dtypes: tuple = ("f32", "f64")


CASES = []


def case(op, operands, reference, n_out=1, build=None, note="", dtypes=("f32", "f64"), **attrs):
    CASES.append(Case(op, operands, reference, attrs, n_out, build, note, dtypes))


def same(op, operands, reference, n_out=1, **attrs):
    """The reference takes the attributes too."""
    case(op, operands, partial(reference, **attrs), n_out, **attrs)


# ---- elementwise ---------------------------------------------------------------------------------

POSITIVE, UNIT = [(0.2, 3), (1e-3, 50)], [(-0.9, 0.9), (-1e-2, 1e-2)]
for op, reference, ranges in [
    ("neg", torch.neg, [(-2, 2)]), ("abs", torch.abs, [(-2, 2)]), ("copy", torch.clone, [(-2, 2)]),
    ("barrier", torch.clone, [(-2, 2)]),
    ("sqrt", torch.sqrt, POSITIVE), ("rsqrt", torch.rsqrt, POSITIVE),
    ("cbrt", lambda x: x.pow(1 / 3), [(0.2, 3), (1, 500)]),
    ("exp", torch.exp, [(-2, 2), (-30, 20)]), ("exp2", torch.exp2, [(-2, 2), (-30, 20)]),
    ("expm1", torch.expm1, [(-2, 2), (-1e-3, 1e-3)]),
    ("log", torch.log, POSITIVE), ("log2", torch.log2, POSITIVE), ("log10", torch.log10, POSITIVE),
    ("log1p", torch.log1p, [(-0.7, 3), (-1e-3, 1e-3)]),
    ("sin", torch.sin, [(-2, 2), (-50, 50)]), ("cos", torch.cos, [(-2, 2), (-50, 50)]),
    ("tan", torch.tan, [(-1, 1)]), ("asin", torch.asin, UNIT), ("acos", torch.acos, UNIT),
    ("atan", torch.atan, [(-2, 2), (-30, 30)]), ("sinh", torch.sinh, [(-2, 2), (-9, 9)]),
    ("cosh", torch.cosh, [(-2, 2), (-9, 9)]), ("tanh", torch.tanh, [(-2, 2), (-1e-2, 1e-2)]),
    ("asinh", torch.asinh, [(-2, 2), (-30, 30)]), ("acosh", torch.acosh, [(1.2, 3), (3, 50)]),
    ("atanh", torch.atanh, UNIT), ("erf", torch.erf, [(-2, 2), (-1e-2, 1e-2)]),
    ("erfc", torch.erfc, [(-2, 2)]), ("sigmoid", torch.sigmoid, [(-2, 2), (-12, 12)]),
    ("relu", torch.relu, [(-2, 2)]), ("gelu", F.gelu, [(-2, 2), (-5, 5)]), ("silu", F.silu, [(-2, 2), (-12, 12)]),
    ("sign", torch.sign, [(-2, 2)]), ("ceil", torch.ceil, [(-2, 2)]), ("floor", torch.floor, [(-2, 2)]),
    ("trunc", torch.trunc, [(-2, 2)]), ("round", torch.round, [(-2, 2)]),
]:
    for lo, hi in ranges:
        case(op, [X((4, 33), lo, hi)], reference)
case("gelu", [X((4, 33), -4, 4)], partial(F.gelu, approximate="tanh"), form="tanh")
case("sigmoid", [X(())], torch.sigmoid)
case("stop_gradient", [X((7,))], lambda x: x.detach() + 0 * x)

SHAPES = [((3, 5), (3, 5)), ((3, 1), (1, 5)), ((2, 3, 5), (5,)), ((), (4, 2))]
for op, reference, b in [
    ("add", torch.add, (-2, 2)), ("sub", torch.sub, (-2, 2)), ("mul", torch.mul, (-2, 2)), ("div", torch.div, (0.5, 2)),
    ("rem", torch.fmod, (0.7, 3)), ("mod", torch.remainder, (0.7, 3)), ("max", torch.maximum, (-2, 2)),
    ("min", torch.minimum, (-2, 2)), ("atan2", torch.atan2, (-2, 2)),
]:
    for left, right in SHAPES:
        case(op, [X(left), X(right, *b)], reference)
for left, right in SHAPES:
    case("pow", [X(left, 0.3, 2), X(right)], torch.pow)
case("pow", [X((6,), -2, -0.2), X((6,), grad=False, values=[2, 3, -1, -2, 0, 4])], torch.pow)
case("div", [X((2, 3)), X((2, 3), -2, -0.5)], torch.div)
case("rem", [X((9,)), X((9,), -3, -0.7)], torch.fmod)
case("mod", [X((9,)), X((9,), -3, -0.7)], torch.remainder)
case("select", [B((3, 5)), X((3, 5)), X((3, 5))], torch.where)
case("select", [B((5,)), X((2, 3, 5)), X((3, 1))], torch.where)
case("select", [B((2, 1)), X(()), X((5,))], torch.where)
for lo, hi in [((4, 9), (4, 9)), ((9,), ()), ((4, 1), (1, 9))]:
    case("clamp", [X((4, 9)), X(lo), X(hi)], lambda x, a, b: torch.clamp(x, a, b))
case("fma", [X((4, 9))] * 3, lambda a, b, c: a * b + c)
case("fma", [X((4, 9)), X((9,)), X(())], lambda a, b, c: a * b + c)


def compare_and_choose(op):
    def build(g, a, b):
        return g.op("select", g.op(op, a, b), g.op("mul", a, b), g.op("sub", a, b))

    test = getattr(torch, op)
    case(op + ", select", [X((4, 9)), X((9,))], lambda a, b: torch.where(test(a, b), a * b, a - b), build=build)


for op in ("eq", "ne", "lt", "le", "gt", "ge"):
    compare_and_choose(op)


def there_and_back(narrow, torch_narrow):
    def build(g, x):
        wide = "f32" if g.type(x)[0].__name__ == "float32" else "f64"
        return g.op("mul", g.op("cast", g.op("cast", x, dtype=narrow), dtype=wide), x)

    case(f"cast to {narrow} and back", [X((67,))], lambda x: x.to(torch_narrow).to(x.dtype) * x, build=build)


for narrow in ("f16", "bf16", "f32", "f64"):
    there_and_back(narrow, {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32,
                            "f64": torch.float64}[narrow])

# ---- movement ------------------------------------------------------------------------------------

END, START = 2**63 - 1, -(2**63)
for shape, to in [((2, 3, 5), (6, 5)), ((4, 6), (2, 2, 3, 2)), ((7, 11), (77,))]:
    case("reshape", [X(shape)], lambda x, to=to: x.reshape(to), shape=to)
for shape, to in [((3, 1), (2, 3, 5)), ((), (7,)), ((5,), (4, 5))]:
    case("broadcast", [X(shape)], lambda x, to=to: x.expand(to), shape=to)
for shape, perm in [((3, 5), (1, 0)), ((2, 3, 5, 1), (2, 3, 0, 1)), ((4, 3, 2), (1, 2, 0)), ((4, 3, 2), (0, 2, 1))]:
    case("transpose", [X(shape)], lambda x, p=perm: x.permute(p), perm=perm)
for shape, a, b, s in [
    ((7,), [1], [6], [2]), ((10,), [9], [0], [-3]), ((5, 4), [-1, 0], [START, END], [-1, 3]),
    ((5, 4), [1, 1], [4, 3], [1, 1]), ((5, 4), [-4, -3], [-1, END], [1, 2]), ((6, 3), [4, 2], [1, START], [-2, -1]),
    ((2, 8, 3), [0, 7, 0], [2, 2, 3], [1, -2, 1]),
]:
    case("slice", [X(shape)], partial(R.steps, starts=a, stops=b, strides=s), starts=a, stops=b, steps=s)
for shape, axes in [((3, 5), [0]), ((2, 3, 7), [-1, 0])]:
    case("reverse", [X(shape)], lambda x, a=axes: x.flip(a), axes=axes)
for shape, low, high, value in [
    ((3, 5), [1, 0], [2, 3], 1.5), ((5,), [-2], [4], 0.0), ((5, 4), [-2, -1], [-1, 3], 7.0),
    ((5, 4), [-1, 2], [2, -3], 0.5),
]:
    case("pad", [X(shape)], partial(R.around, low=low, high=high, value=value), low=low, high=high, value=value)
case("concat", [X((2, 3)), X((2, 1)), X((2, 5))], lambda *x: torch.cat(x, 1), axis=1)
case("concat", [X((7,)), X((1,)), X((13,))], lambda *x: torch.cat(x), axis=-1)
case("concat", [X((2, 2, 3)), X((4, 2, 3))], lambda *x: torch.cat(x), axis=0)
for shape, starts, sizes in [((7, 5), [2, 1], [3, 2]), ((7, 5), [4, 3], [3, 2]), ((4, 3, 5), [0, 2, 1], [4, 1, 3])]:
    case("dynamic_slice", [X(shape), K((len(shape),), values=starts)], partial(R.window, sizes=sizes), sizes=sizes)
    case("dynamic_update_slice", [X(shape), X(sizes), K((len(shape),), values=starts)], R.put_window)

# ---- reductions and scans ------------------------------------------------------------------------

for shape, axes, keep in [((257,), [0], 0), ((3, 131, 5), [1], 0), ((4, 7, 3), [0, 2], 1), ((2, 3, 4), [0, 1, 2], 0)]:
    for op, reference in [("reduce_sum", torch.sum), ("reduce_mean", torch.mean), ("reduce_max", torch.amax),
                          ("reduce_min", torch.amin)]:
        case(op, [X(shape)], lambda x, f=reference, a=axes, k=keep: f(x, dim=a, keepdim=bool(k)), axes=axes, keep=keep)
for shape, axes in [((257,), [0]), ((300, 5), [0]), ((4, 7, 3), [0, 2]), ((2, 3, 4), [0, 1, 2])]:
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    case("batch_sum", [X(shape)], lambda x, a=axes: x.sum(dim=a), axes=axes)
    case("batch_sum", [X(shape), X(kept)], lambda x, c, a=axes: x.sum(dim=a) + c, axes=axes)
for shape, axes, keep in [((17,), [0], 0), ((3, 7, 5), [1], 0), ((4, 3, 3), [0, 2], 1), ((2, 3, 2), [0, 1, 2], 0)]:
    case("reduce_prod", [X(shape, 0.7, 1.4)], partial(R.product, axes=axes, keep=keep), axes=axes, keep=keep)
case("reduce_prod", [X((3, 3), values=[0, 2, 3, 0, 0, 5, 1, 2, 3])], partial(R.product, axes=[1]), axes=[1])
for kind in ("sum", "prod", "max", "min"):
    for shape, axis in [((3, 23), -1), ((9, 3, 2), 0)]:
        for exclusive, reverse in [(0, 0), (1, 0), (0, 1), (1, 1)]:
            same("scan", [X(shape, 0.7, 1.4)], R.scan, kind=kind, axis=axis, exclusive=exclusive, reverse=reverse)

# ---- products ------------------------------------------------------------------------------------

for left, right, spec, attrs in [
    ((5, 7), (7, 3), "ik,kj->ij", {"lhs_contract": [1], "rhs_contract": [0]}),
    ((2, 5, 4), (4, 2, 3), "bik,kbj->bij",
     {"lhs_batch": [0], "rhs_batch": [1], "lhs_contract": [2], "rhs_contract": [0]}),
    ((5, 3, 7), (7, 4, 5), "kil,ljk->ij", {"lhs_contract": [2, 0], "rhs_contract": [0, 2]}),
    ((3,), (5,), "i,j->ij", {}),
    ((3, 2, 4, 5), (5, 3, 2, 6), "abik,kabj->abij",
     {"lhs_batch": [0, 1], "rhs_batch": [1, 2], "lhs_contract": [3], "rhs_contract": [0]}),
    ((3, 2, 4, 5), (2, 5, 6, 3), "abik,bkja->baij",
     {"lhs_batch": [1, 0], "rhs_batch": [0, 3], "lhs_contract": [3], "rhs_contract": [1]}),
]:
    case("dot_general", [X(left), X(right)], partial(torch.einsum, spec), **attrs)
case("dot_general", [X((5, 300)), X((300, 3)), X((5, 3))], lambda a, b, c: a @ b + c,
     lhs_contract=[1], rhs_contract=[0])


def matmul(a, b, transpose_a=0, transpose_b=0):
    return (a.mT if transpose_a else a) @ (b.mT if transpose_b else b)


for left, right, attrs in [
    ((5, 7), (7, 3), {}), ((7, 300), (11, 300), {"transpose_b": 1}), ((33, 1), (1, 17), {}),
    ((2, 1, 3, 5), (4, 5, 2), {}), ((2, 5, 3), (2, 5, 4), {"transpose_a": 1}), ((7,), (3, 7, 2), {}),
    ((3, 2, 7), (7,), {}), ((13,), (13,), {}), ((65, 37), (37, 33), {}), ((4, 2, 3), (3, 5), {}),
    ((2, 5, 3), (4, 5), {"transpose_a": 1, "transpose_b": 1}),
]:
    same("matmul", [X(left), X(right)], matmul, **attrs)
for shape, rows in [((3, 64), 7), ((2, 2, 96), 5)]:
    case("quant_matmul", [X(shape), Q8((rows, shape[-1]))], lambda x, w: x @ w.mT, dtypes=("f32",))
for x, w, attrs in [
    ((2, 3, 7), (4, 3, 3), {}), ((2, 3, 7), (4, 3, 1), {}), ((2, 3, 9), (4, 3, 3), {"strides": [2], "pads": [1, 0]}),
    ((1, 4, 7, 5), (6, 2, 3, 2), {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1], "groups": 2}),
    ((1, 3, 5, 5), (3, 1, 3, 3), {"groups": 3, "pads": [1, 1, 1, 1]}),
    ((2, 3, 6, 7), (4, 3, 3, 2), {"strides": [3, 2]}), ((2, 3, 8, 8), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    ((2, 2, 9, 8), (3, 2, 2, 3), {"dilations": [3, 2], "strides": [2, 2], "pads": [2, 1, 0, 3]}),
    ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2), {}), ((2, 2, 4, 3, 5), (4, 1, 2, 1, 3), {"groups": 2, "strides": [1, 2, 2]}),
    ((2, 3, 5), (3, 2, 3), {"transposed": 1, "strides": [2], "pads": [1, 0], "output_pads": [1]}),
    ((1, 4, 3, 4), (4, 2, 2, 3), {"transposed": 1, "groups": 2, "dilations": [2, 1]}),
    ((2, 3, 4, 4), (3, 5, 3, 3), {"transposed": 1, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 2, 4), (2, 3, 2), {"transposed": 1}),
]:
    same("conv", [X(x), X(w)], R.conv, **attrs)
case("conv", [X((2, 3, 7)), X((4, 3, 3)), X((2, 4, 5))], lambda x, w, c: R.conv(x, w) + c)
for x, attrs in [
    ((2, 3, 7), {"kernel": [3]}), ((1, 2, 7, 5), {"kernel": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ((2, 3, 6, 5), {"kernel": [2, 2], "strides": [2, 2]}), ((1, 2, 8, 7), {"kernel": [2, 3], "dilations": [2, 1]}),
    ((1, 2, 7, 9), {"kernel": [2, 3], "strides": [2, 3], "pads": [1, 1, 0, 2]}),
    ((1, 1, 4, 4, 5), {"kernel": [2, 2, 2], "strides": [2, 2, 1]}),
]:
    same("pool", [X(x)], R.pool, **attrs)
for x, attrs in [
    ((1, 2, 7, 5), {"kernel": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_pad": 1}),
    ((1, 2, 7, 5), {"kernel": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((2, 2, 8), {"kernel": [3], "strides": [3], "ceil_mode": 1}), ((2, 3, 6, 4), {"kernel": [2, 2], "strides": [2, 2]}),
    ((2, 3, 9), {"kernel": [4]}), ((1, 2, 4, 4, 4), {"kernel": [2, 2, 2], "strides": [1, 2, 2]}),
]:
    same("pool", [X(x)], R.pool, kind="average", **attrs)
case("pool_grad", [X((2, 3, 9), grad=False), X((2, 3, 4), grad=False), X((2, 3, 4))],
     lambda x, y, dy: torch.repeat_interleave(dy / 2, 2, 2).new_zeros(x.shape).index_add(
         2, torch.arange(8), torch.repeat_interleave(dy / 2, 2, 2)), kind="average", kernel=[2], strides=[2])
same("pool", [X((2, 1, 13))], R.pool, kind="sum", kernel=[3], dilations=[2], pads=[2, 2])
same("pool", [X((2, 3, 6, 6))], R.pool, kind="sum", kernel=[3, 3], strides=[3, 3])
same("pool", [X((2, 3, 6, 7))], R.pool, kind="sum", kernel=[3, 2], strides=[1, 2])

# ---- indices and order ---------------------------------------------------------------------------

for shape, ids, axis in [((7, 5), (3,), 0), ((2, 7, 3), (2, 2), 1), ((5,), (), -1), ((4, 3), (9,), -1)]:
    n = shape[axis]
    same("gather", [X(shape), K(ids, n, -n)], R.gather, axis=axis)
case("embedding", [X((11, 7)), K((2, 3), 11, -11)], lambda t, i: t[i % 11])
case("embedding", [X((5, 37)), K((16,), 5, dtype="i32")], lambda t, i: F.embedding(i, t))
for shape, ids, axis in [((7, 3), (4,), 0), ((3, 5), (5,), 1), ((2, 9, 2), (2, 3), 1)]:
    u = shape[:axis] + ids + shape[axis + 1:]
    same("scatter", [X(shape), K(ids, shape[axis], apart=True), X(u)], R.scatter, axis=axis, kind="set")
    for kind in ("add", "max", "min"):
        same("scatter", [X(shape), K(ids, shape[axis], -shape[axis]), X(u)], R.scatter, axis=axis, kind=kind)
    same("scatter", [X(shape), K(ids, shape[axis]), X(u)], R.scatter, axis=axis, kind="mul")
for shape, axis, descending in [((5, 17), -1, 0), ((13, 3), 0, 1), ((131,), 0, 0), ((2, 5, 3), 1, 1)]:
    case("sort", [X(shape)], lambda x, a=axis, d=descending: tuple(x.sort(dim=a, descending=bool(d), stable=True)),
         n_out=2, axis=axis, descending=descending)
for shape, axis, k in [((5, 17), -1, 3), ((13, 3), 0, 13), ((67,), 0, 5), ((2, 6, 3), 1, 2)]:
    case("topk", [X(shape)], lambda x, a=axis, k=k: tuple(x.topk(k, dim=a)), n_out=2, axis=axis, k=k)
