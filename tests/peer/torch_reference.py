"""The library's ops that PyTorch has under another name or with other conventions, in PyTorch's own ops,
differentiated by it. Attributes are those of docs/ops."""

import math

import torch
import torch.nn.functional as F


def scan(x, kind, axis=-1, exclusive=0, reverse=0):
    if reverse:
        x = x.flip(axis)
    run = {"sum": torch.cumsum, "prod": torch.cumprod, "max": torch.cummax, "min": torch.cummin}[kind]
    y = run(x, axis)
    y = y.values if kind in ("max", "min") else y
    if exclusive:
        start = {"sum": 0, "prod": 1, "max": -math.inf, "min": math.inf}[kind]
        first = torch.full_like(y.narrow(axis, 0, 1), start)
        y = torch.cat([first, y.narrow(axis, 0, y.shape[axis] - 1)], axis)
    return y.flip(axis) if reverse else y


def product(x, axes, keep=0):
    for d in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(d, keepdim=bool(keep))
    return x


def around(x, low, high, value=0.0):
    """Cells added (negative: cropped) before and behind each of the last axes."""
    flat = [n for pair in zip(reversed(low), reversed(high)) for n in pair]
    return F.pad(x, flat, value=value)


def conv(x, w, strides=1, dilations=1, pads=None, groups=1, transposed=0, output_pads=None):
    n = x.dim() - 2
    low, high = (pads[:n], pads[n:]) if pads else ([0] * n, [0] * n)
    if not transposed:
        f = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
        return f(around(x, low, high), w, None, strides, 0, dilations, groups)
    f = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    y = f(x, w, None, strides, 0, 0, groups, dilations)
    more = output_pads or [0] * n
    return around(y, [-a for a in low], [m - b for m, b in zip(more, high)])


def pool(x, kernel, kind="max", strides=None, dilations=1, pads=None, count_pad=0, ceil_mode=0):
    n = x.dim() - 2
    low, high = (pads[:n], pads[n:]) if pads else ([0] * n, [0] * n)
    strides = strides or [1] * n
    if kind == "max":
        f = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
        return f(around(x, low, high, -math.inf), kernel, strides, 0, dilations, bool(ceil_mode))
    if kind == "sum":
        ones = torch.ones(x.shape[1], 1, *kernel, dtype=x.dtype)
        return conv(x, ones, strides, dilations, pads, groups=x.shape[1])
    assert low == high
    f = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    return f(x, kernel, strides, low, bool(ceil_mode), bool(count_pad))


def gather(x, indices, axis=0):
    axis %= x.dim()
    flat = torch.index_select(x, axis, indices.reshape(-1).long() % x.shape[axis])
    return flat.reshape(x.shape[:axis] + indices.shape + x.shape[axis + 1:])


def scatter(x, indices, u, axis=0, kind="set"):
    axis %= x.dim()
    ids = indices.reshape(-1).long() % x.shape[axis]
    u = u.reshape(x.shape[:axis] + ids.shape + x.shape[axis + 1:])
    if kind == "set":
        return x.index_copy(axis, ids, u)
    if kind == "add":
        return x.index_add(axis, ids, u)
    return x.index_reduce(axis, ids, u, {"mul": "prod", "max": "amax", "min": "amin"}[kind], include_self=True)


def window(x, starts, sizes):
    return x[tuple(slice(int(s), int(s) + n) for s, n in zip(starts, sizes))]


def put_window(x, u, starts):
    y = x.clone()
    y[tuple(slice(int(s), int(s) + n) for s, n in zip(starts, u.shape))] = u
    return y


def steps(x, starts, stops, strides=None):
    """Slices as NumPy takes them; PyTorch has no negative steps."""
    for d, (a, b) in enumerate(zip(starts, stops)):
        step = strides[d] if strides else 1
        b = None if abs(b) >= 2**62 else b
        keep = list(range(x.shape[d]))[slice(a, b, step)]
        x = torch.index_select(x, d, torch.tensor(keep, dtype=torch.long))
    return x


def rope(x, positions, freqs, pairing="halves"):
    n = freqs.shape[0]
    angle = positions.to(x.dtype)[..., None] * freqs.to(x.dtype)  # [L, n] or [B, L, n]
    if angle.dim() == 2:
        angle = angle[None]
    c, s = angle.cos()[:, :, None], angle.sin()[:, :, None]
    if pairing == "halves":
        a, b = x[..., :n], x[..., n:2 * n]
        turned = torch.cat([a * c - b * s, b * c + a * s], -1)
    else:
        a, b = x[..., 0:2 * n:2], x[..., 1:2 * n:2]
        turned = torch.stack([a * c - b * s, b * c + a * s], -1).flatten(-2)
    return torch.cat([turned, x[..., 2 * n:]], -1)


def attention(q, k, v, mask=None, kv_len=None, scale=0.0, softcap=0.0, causal="none", window=0, lse=0):
    batch, lq, heads, d = q.shape
    lk, group = k.shape[1], heads // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    s = torch.einsum("bihd,bjhd->bhij", q, k) * (scale or 1 / math.sqrt(d))
    if softcap:
        s = softcap * torch.tanh(s / softcap)
    n = torch.full((batch,), lk) if kv_len is None else kv_len.long()
    n = n.reshape(batch, 1, 1, 1)
    i, j = torch.arange(lq).reshape(lq, 1), torch.arange(lk)
    if causal == "bottom_right":
        i = i + n - lq
    visible = j < n
    if causal != "none":
        visible = visible & (j <= i)
    if window:
        visible = visible & (j > i - window)
    if mask is not None and mask.dtype == torch.bool:
        visible = visible & mask
    elif mask is not None:
        s = s + mask
    s = s.masked_fill(~visible, -math.inf)
    y = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v)
    return (y, s.logsumexp(-1)) if lse else y


def sdpa(q, k, v, mask=None, causal="none"):
    """PyTorch's own attention, heads in front."""
    y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask,
                                       is_causal=causal == "top_left", enable_gqa=q.shape[2] != k.shape[2])
    return y.transpose(1, 2)


def sgd(w, g, lr, m=None, weight_decay=0.0, momentum=0.9, dampening=0.0, nesterov=0):
    g = g + weight_decay * w
    if m is None:
        return w - lr * g
    m = momentum * m + (1 - dampening) * g
    return w - lr * (g + momentum * m if nesterov else m), m


def adam(w, g, lr, m, v, count, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, decoupled=1):
    if not decoupled:
        g = g + weight_decay * w
    t = int(count)
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    kept = w - lr * weight_decay * w if decoupled else w
    step = lr / (1 - beta1**t) * (m / ((v / (1 - beta2**t)).sqrt() + eps))
    return kept - step, m, v
