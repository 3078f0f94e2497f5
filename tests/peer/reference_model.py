"""Llama and Gemma 3 in plain NumPy, f32, on dequantised weights: shares nothing with the library.

Written from the published descriptions of the architectures; block formats are decoded by the `gguf`
package. Slow and obvious: every product is numpy's matmul, attention holds the whole score matrix."""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class ReferenceModel:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.weights = {t.name: self._array(t) for t in reader.tensors}
        arch = reader.fields["general.architecture"].contents()
        self.arch = arch

        def meta(key, default=None):
            field = reader.fields.get(f"{arch}.{key}")
            return default if field is None else field.contents()

        self.layers = meta("block_count")
        self.width = meta("embedding_length")
        self.heads = meta("attention.head_count")
        self.kv_heads = meta("attention.head_count_kv", self.heads)
        self.dim = meta("attention.key_length", self.width // self.heads)
        self.eps = np.float32(meta("attention.layer_norm_rms_epsilon", 1e-5))
        self.base = meta("rope.freq_base", 10000.0)
        self.window = meta("attention.sliding_window", 0)
        self.gemma = arch == "gemma3"

    @staticmethod
    def _array(t):
        a = dequantize(t.data, t.tensor_type) if t.tensor_type.name not in ("F32",) else t.data
        return np.asarray(a, np.float32).reshape([int(n) for n in reversed(t.shape)])

    def norm(self, x, name):
        r = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32) + self.eps)
        return (x * r * self.weights[name]).astype(np.float32)

    def linear(self, x, name):
        y = x @ self.weights[name + ".weight"].T
        bias = self.weights.get(name + ".bias")
        return y if bias is None else y + bias

    def rope(self, x, positions, base):
        half = self.dim // 2
        freq = (base ** (-2.0 * np.arange(half) / self.dim)).astype(np.float32)
        angle = positions.astype(np.float32)[:, None] * freq
        c, s = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        y = np.empty_like(x)
        a, b = (x[..., :half], x[..., half:]) if self.gemma else (x[..., 0::2], x[..., 1::2])
        ya, yb = a * c - b * s, b * c + a * s
        if self.gemma:
            y[..., :half], y[..., half:] = ya, yb
        else:
            y[..., 0::2], y[..., 1::2] = ya, yb
        return y

    def attend(self, x, i, start, cache):
        n = len(x)
        local = self.gemma and (i + 1) % 6 != 0
        positions = np.arange(start, start + n)
        q = self.linear(x, f"blk.{i}.attn_q").reshape(n, self.heads, self.dim)
        k = self.linear(x, f"blk.{i}.attn_k").reshape(n, self.kv_heads, self.dim)
        v = self.linear(x, f"blk.{i}.attn_v").reshape(n, self.kv_heads, self.dim)
        if self.gemma:
            q = self.norm(q, f"blk.{i}.attn_q_norm.weight")
            k = self.norm(k, f"blk.{i}.attn_k_norm.weight")
        base = 10000.0 if local else self.base
        q, k = self.rope(q, positions, base), self.rope(k, positions, base)
        if cache[i] is not None:
            k = np.concatenate([cache[i][0], k])
            v = np.concatenate([cache[i][1], v])
        cache[i] = (k, v)
        keys = np.arange(len(k))
        hidden = keys[None, :] > positions[:, None]
        if local:
            hidden |= keys[None, :] <= positions[:, None] - self.window
        out = np.empty((n, self.heads, self.dim), np.float32)
        for h in range(self.heads):
            g = h // (self.heads // self.kv_heads)
            s = (q[:, h] @ k[:, g].T) / np.float32(np.sqrt(self.dim))
            s[hidden] = -np.inf
            e = np.exp(s - s.max(axis=1, keepdims=True))
            out[:, h] = (e @ v[:, g]) / e.sum(axis=1, keepdims=True)
        return self.linear(out.reshape(n, -1), f"blk.{i}.attn_output")

    def feed_forward(self, x, i):
        gate = self.linear(x, f"blk.{i}.ffn_gate")
        if self.gemma:
            act = 0.5 * gate * (1 + np.tanh(0.7978845608028654 * (gate + 0.044715 * gate**3)))
        else:
            act = gate / (1 + np.exp(-gate))
        return self.linear(act * self.linear(x, f"blk.{i}.ffn_up"), f"blk.{i}.ffn_down")

    def logits(self, tokens, start=0, cache=None):
        """Logits of all given positions; cache is a list with an entry a layer, updated."""
        cache = cache if cache is not None else [None] * self.layers
        x = self.weights["token_embd.weight"][np.asarray(tokens)]
        if self.gemma:
            x = x * np.float32(np.sqrt(self.width))
        for i in range(self.layers):
            a = self.attend(self.norm(x, f"blk.{i}.attn_norm.weight"), i, start, cache)
            if self.gemma:
                a = self.norm(a, f"blk.{i}.post_attention_norm.weight")
            x = x + a
            f = self.feed_forward(self.norm(x, f"blk.{i}.ffn_norm.weight"), i)
            if self.gemma:
                f = self.norm(f, f"blk.{i}.post_ffw_norm.weight")
            x = x + f
        x = self.norm(x, "output_norm.weight")
        return self.linear(x, "output" if "output.weight" in self.weights else "token_embd")

    def greedy(self, tokens, n):
        cache = [None] * self.layers
        out, start, new = [], 0, list(tokens)
        for _ in range(n):
            row = self.logits(new, start, cache)[-1]
            start += len(new)
            new = [int(np.argmax(row))]
            out += new
        return out
