"""Further cases: rows, attention, optimisers, functions and loops. See gradient_cases.py."""

import math

import numpy as np
import torch
import torch.nn.functional as F
import torch_reference as R
from gradient_cases import B, K, X, case, same

# ---- rows ----------------------------------------------------------------------------------------

for shape, axis in [((5, 67), -1), ((3, 31, 2), 1), ((7, 3), 0), ((2, 700), -1)]:
    case("softmax", [X(shape)], lambda x, a=axis: x.softmax(a), axis=axis)
    case("log_softmax", [X(shape)], lambda x, a=axis: x.log_softmax(a), axis=axis)
    case("logsumexp", [X(shape)], lambda x, a=axis: x.logsumexp(a), axis=axis)
case("softmax", [X((3, 9), -30, 30)], lambda x: x.softmax(-1), masked_zero=1)
case("logsumexp", [X((5, 7))], lambda x: x.logsumexp(0, keepdim=True), axis=0, keep=1)
for shape, axis, gamma, beta, eps in [
    ((5, 67), -1, 1, 1, 1e-5), ((2, 3, 5), 1, 0, 1, 0.1), ((7, 131), -1, 0, 0, 1e-5), ((2, 3, 5), -1, 1, 0, 1e-3),
]:
    row = shape[axis:]
    case("layer_norm", [X(shape), X(row) if gamma else None, X(row) if beta else None],
         lambda x, g, b, row=row, eps=eps: F.layer_norm(x, row, g, b, eps), axis=axis, eps=eps)
for shape, axis, gamma, eps in [
    ((5, 67), -1, 1, 1e-5), ((2, 3, 5), -2, 0, 1e-5), ((2, 576), -1, 1, 1e-6), ((2, 3, 5), 1, 1, 0.1),
]:
    row = shape[axis:]
    case("rms_norm", [X(shape), X(row) if gamma else None],
         lambda x, g, row=row, eps=eps: F.rms_norm(x, row, g, eps), axis=axis, eps=eps)


def cross_entropy(x, target, ignore_index=-100):
    loss = F.cross_entropy(x.reshape(-1, x.shape[-1]), target.reshape(-1).long(), reduction="none",
                           ignore_index=ignore_index)
    return loss.reshape(target.shape)


same("cross_entropy", [X((5, 17)), K((5,), 17)], cross_entropy)
same("cross_entropy", [X((2, 3, 131)), K((2, 3), 131, dtype="i32")], cross_entropy)
same("cross_entropy", [X((6, 7), -20, 20), K((6,), values=[2, 0, 2, 6, 5, 2])], cross_entropy, ignore_index=2)
same("cross_entropy", [X((4, 7)), K((4,), values=[3, -100, 0, -100])], cross_entropy)


def mean_loss(g, x, target):
    return g.op("reduce_mean", g.op("cross_entropy", x, target))


case("reduce_mean of cross_entropy", [X((9, 41)), K((9,), 41)], lambda x, t: F.cross_entropy(x, t), build=mean_loss)

# ---- rotary embedding, attention -----------------------------------------------------------------

for shape, ids, n, pairing in [
    ((2, 3, 2, 8), (2, 3), 4, "halves"), ((1, 5, 3, 10), (5,), 3, "pairs"), ((2, 1, 1, 7), (1,), 2, "halves"),
    ((1, 4, 2, 64), (4,), 32, "halves"), ((2, 3, 1, 6), (2, 3), 3, "pairs"),
]:
    same("rope", [X(shape), K(ids, 50), X((n,), fixed=True, grad=False)], R.rope, pairing=pairing)
for pairing in ("halves", "pairs"):
    same("rope", [X((2, 3, 2, 6)), K((3,), 9), X((3,), fixed=True)], R.rope, pairing=pairing)


def qkv(b, lq, lk, h, hkv, d, dv=None):
    return [X((b, lq, h, d)), X((b, lk, hkv, d)), X((b, lk, hkv, dv or d))]


for causal, mask in [("none", None), ("top_left", None), ("none", X((2, 1, 5, 5))), ("none", X((5, 5), grad=False))]:
    case("attention", [*qkv(2, 5, 5, 4, 2, 8), *([mask] if mask else [])],
         lambda *a, c=causal: R.sdpa(*a, causal=c), causal=causal, note="scaled_dot_product_attention")
for operands, attrs in [
    (qkv(1, 3, 5, 2, 2, 8), {}), (qkv(2, 4, 67, 4, 2, 5, 3), {"causal": "bottom_right"}),
    (qkv(1, 5, 5, 2, 1, 4), {"causal": "top_left", "window": 2}),
    (qkv(1, 4, 9, 4, 4, 8), {"causal": "bottom_right", "window": 3}),
    (qkv(2, 3, 7, 6, 2, 4) + [B((2, 1, 3, 7))], {}), (qkv(2, 3, 7, 6, 2, 4) + [B((2, 6, 3, 7))], {"softcap": 5.0}),
    (qkv(2, 3, 7, 2, 2, 4) + [B((3, 7))], {"causal": "bottom_right"}),
    (qkv(2, 3, 7, 4, 2, 4) + [X((2, 4, 3, 7))], {}), (qkv(2, 3, 7, 4, 2, 4) + [X((4, 1, 7))], {"softcap": 2.0}),
    (qkv(2, 3, 7, 2, 2, 4) + [X((7,))], {"scale": 0.25}), (qkv(2, 3, 7, 2, 2, 4) + [None, K((2,), values=[7, 4])], {}),
    (qkv(2, 3, 9, 2, 1, 4) + [None, K((2,), values=[9, 6], dtype="i32")], {"causal": "bottom_right", "window": 4}),
    (qkv(2, 3, 9, 4, 2, 4) + [X((3, 9)), K((2,), values=[5, 8])], {"softcap": 3.0, "scale": 0.7}),
    (qkv(1, 33, 33, 3, 1, 16), {"causal": "top_left"}), (qkv(2, 1, 40, 3, 3, 16), {"causal": "bottom_right"}),
    (qkv(1, 6, 6, 2, 2, 4), {"window": 3}),
]:
    same("attention", operands, R.attention, **attrs)
for operands, attrs in [
    (qkv(2, 3, 5, 4, 2, 4), {}), (qkv(1, 5, 5, 2, 2, 4), {"causal": "top_left", "softcap": 2.0}),
    (qkv(2, 3, 7, 4, 1, 4) + [X((2, 1, 3, 7)), K((2,), values=[7, 4])], {}),
]:
    same("attention", operands, R.attention, n_out=2, lse=1, **attrs)


def attention_adjoints(q, k, v, mask, kv_len, o, lse, do):
    """The op takes o and lse as operands of their own, so the formula stands here, not a differentiated attention."""
    s = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[3])
    p = torch.exp(s - lse[..., None])
    ds = p * (torch.einsum("bihd,bjhd->bhij", do, v) - (do * o).sum(-1).transpose(1, 2)[..., None])
    ds = ds / math.sqrt(q.shape[3])
    return (torch.einsum("bhij,bjhd->bihd", ds, k), torch.einsum("bhij,bihd->bjhd", ds, q),
            torch.einsum("bhij,bihd->bjhd", p, do))


q = (2, 5, 3, 4)
case("attention_grad", [X(q), X(q), X(q), None, None, X(q), X((2, 3, 5), 1, 4), X(q)], attention_adjoints, n_out=3)

# ---- optimisers ----------------------------------------------------------------------------------

case("sum_squares", [X((3, 7))], lambda x: (x * x).sum())
case("clip_norm", [X((5, 3)), X((), 2, 3)], lambda x, n: x * (1.5 / (n + 1e-6)), max=1.5)
case("clip_norm", [X((5, 3)), X((), 0.2, 1)], lambda x, n: x * 1, max=1.5)
case("ema_step", [X((67,)), X((67,))], lambda e, w: 0.75 * e + 0.25 * w, decay=0.75)

same("sgd_step", [X((67,)), X((67,)), X(())], R.sgd, weight_decay=0.1)
same("sgd_step", [X((3, 5)), X((3, 5)), X(()), X((3, 5))], R.sgd, n_out=2, weight_decay=0.01, dampening=0.5)
same("sgd_step", [X((7,)), X((7,)), X(()), X((7,))], R.sgd, n_out=2, nesterov=1)
for decoupled in (1, 0):
    same("adam_step", [X((9,)), X((9,)), X(()), X((9,)), X((9,), 0.2, 2), K((), values=3)], R.adam, n_out=3,
         decoupled=decoupled, beta1=0.5, beta2=0.75, eps=0.001)

# ---- functions and loops -------------------------------------------------------------------------


def function(g, like, body):
    """A graph with inputs of the types of g's values, and body's results."""
    f = type(g)(g.device)
    names = {np.float32: "f32", np.float64: "f64", np.int64: "i64", np.bool_: "bool"}
    for v in body(f, *[f.input(names[t], shape) for t, shape in map(g.type, like)]):
        f.output(v)
    return f


def build_call(g, x, y):
    f = function(g, [x, y], lambda f, a, b: (f.op("tanh", f.op("mul", a, b)), f.op("sub", a, b)))
    p, q = g.control("call", [f], [x, y], 2)
    r, s = g.control("call", [f], [p, q], 2)
    return g.op("mul", r, s)


def reference_call(x, y):
    p, q = torch.tanh(x * y), x - y
    return torch.tanh(p * q) * (p - q)


case("call, twice", [X((4,)), X((4,))], reference_call, build=build_call)


def build_nested(g, x):
    def outer(f, a):
        inner = function(f, [a], lambda h, b: (h.op("sin", h.op("exp", b)),))
        return (f.op("mul", a, f.control("call", [inner], [a], 1)[0]),)

    return g.control("call", [function(g, [x], outer)], [x], 1)[0]


case("call in a call", [X((3, 2))], lambda x: x * torch.sin(torch.exp(x)), build=build_nested)


def build_if(g, p, x, y):
    yes = function(g, [x, y], lambda f, a, b: (f.op("mul", a, b), f.op("exp", a)))
    no = function(g, [x, y], lambda f, a, b: (f.op("sin", b), f.op("mul", b, b)))
    return g.control("if", [yes, no], [p, x, y], 2)


for value in (True, False):
    case("if", [B((), value=value), X((4,)), X((4,))],
         lambda p, x, y: (x * y, x.exp()) if p else (y.sin(), y * y), n_out=2, build=build_if)


def build_while(g, x, y, n):
    def body(f, a, b, i):
        return f.op("add", f.op("sin", f.op("mul", a, b)), a), b, f.op("sub", i, f.number("i64", 1))

    more = function(g, [x, y, n], lambda f, a, b, i: (f.op("gt", i, f.number("i64", 0)),))
    return g.op("exp", g.control("while", [more, function(g, [x, y, n], body)], [x, y, n], 3)[0])


def reference_while(x, y, n):
    for _ in range(int(n)):
        x = torch.sin(x * y) + x
    return x.exp()


for turns in (0, 1, 5):
    case("while", [X((3,)), X(()), K((), values=turns)], reference_while, build=build_while, note=f"{turns} turns")


def build_until(g, x):
    """Doubles and bends while the sum of squares is below 100."""
    t = "f32" if g.type(x)[0] is np.float32 else "f64"
    total = lambda f, a: f.op("reduce_sum", f.op("mul", a, a))  # noqa: E731
    more = function(g, [x], lambda f, a: (f.op("lt", total(f, a), f.number(t, 100)),))
    body = function(g, [x], lambda f, a: (f.op("add", f.op("add", a, a), f.op("tanh", a)),))
    return g.control("while", [more, body], [x], 1)[0]


def reference_until(x):
    while (x * x).sum() < 100:
        x = (x + x) + x.tanh()
    return x


case("while over floats", [X((4,))], reference_until, build=build_until)


def build_block(g, x, w, gamma, target):
    """A layer with tied weights: what is used several times adds up."""
    h = g.op("rms_norm", g.op("add", x, g.op("silu", g.op("matmul", x, w))), gamma, eps=1e-5)
    return g.op("reduce_mean", g.op("cross_entropy", g.op("matmul", h, w, transpose_b=1), target))


def reference_block(x, w, gamma, target):
    h = F.rms_norm(x + F.silu(x @ w), (x.shape[-1],), gamma, 1e-5)
    return F.cross_entropy(h @ w.mT, target)


case("a layer with tied weights", [X((6, 9)), X((9, 9)), X((9,)), K((6,), 9)], reference_block, build=build_block)
