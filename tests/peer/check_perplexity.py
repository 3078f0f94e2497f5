#!/usr/bin/env python3
"""What int8 activations cost: perplexity of SmolLM2 on English text with act=f32 and act=int8.

Text: the file MLSYS_TEXT, else the King James Bible as the program `bible` (Debian: bible-kjv) prints it.
4,096 tokens (MLSYS_PERPLEXITY_TOKENS) in windows of 512 with nothing before them; every token but a
window's first is scored. Bounds: int8 changes perplexity by at most 1 %; the text with its tokens shuffled
must score at least twice as high, or the score does not see the text."""

import ctypes as C
import os
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from library_model import LibraryModel, lib, mlsys  # noqa: E402

WINDOW, BOUND = 512, 0.01


def english():
    path = os.environ.get("MLSYS_TEXT")
    if path:
        with open(path, encoding="utf-8") as f:
            return f.read(), path
    if not shutil.which("bible"):
        return None, None
    shown = subprocess.run(["bible", "-l", "100", "gen1:1-gen12:20"], capture_output=True, text=True, check=True)
    words = [w for w in shown.stdout.split() if not w.isdigit()]
    return " ".join(words), "bible"


class Scorer(LibraryModel):
    """Negative log-likelihoods by whole windows: the model's graph with the logits of all positions."""

    def __init__(self, path, act):
        super().__init__(path, act=act, context=16)
        config = mlsys.Handle(lib.mlsys_config_create)
        lib.mlsys_config_set_i64(config, b"context", WINDOW)
        lib.mlsys_config_set_i64(config, b"chunk", WINDOW)
        lib.mlsys_config_set_str(config, b"logits", b"all")
        lib.mlsys_config_set_str(config, b"act", act.encode())
        graph = mlsys.Handle(lib.mlsys_model_graph, self.model, config)
        self.program = mlsys.Handle(lib.mlsys_graph_compile, graph, self.device, None)
        size = self.number("embedding_length") // self.number("attention.head_count")
        shape = mlsys.integers(1, WINDOW, self.number("attention.head_count_kv"), size)
        self.caches = [mlsys.Handle(lib.mlsys_tensor_create, self.device, mlsys.F32, 4, shape)
                       for _ in range(2 * self.number("block_count"))]

    def number(self, key):
        return int(mlsys.text(lib.mlsys_model_meta, self.model, b"llama." + key.encode()))

    def tensor(self, dtype, array):
        shape = mlsys.integers(*array.shape)
        t = mlsys.Handle(lib.mlsys_tensor_create, self.device, dtype, array.ndim, shape)
        lib.mlsys_tensor_write(t, self.stream, array.ctypes.data, array.nbytes)
        return t

    def window(self, tokens):
        n = len(tokens)
        logits = np.empty((n, self.vocab), np.float32)
        out = self.tensor(mlsys.F32, logits[None])
        ids = self.tensor(mlsys.I32, np.array([tokens], np.int32))
        start = self.tensor(mlsys.I64, np.array(0, np.int64))
        inputs = mlsys.handles(ids, start, *self.caches)
        outputs = mlsys.handles(*self.caches, out)
        lib.mlsys_program_run(self.program, self.stream, len(inputs), inputs, len(outputs), outputs)
        lib.mlsys_tensor_read(out, self.stream, logits.ctypes.data, logits.nbytes)
        best = logits.max(axis=1, keepdims=True)
        norm = np.log(np.exp((logits - best).astype(np.float64)).sum(axis=1)) + best[:, 0]
        return norm[:-1] - logits[np.arange(n - 1), tokens[1:]]

    def perplexity(self, tokens):
        parts = [self.window(tokens[i : i + WINDOW]) for i in range(0, len(tokens) - 1, WINDOW)]
        return float(np.exp(np.concatenate(parts).mean()))


def check_score(scorer, tokens):
    """The last row of a window and the generator see the same: one score by two ways."""
    scorer.rewind()
    scorer.append(tokens[:8])
    row = scorer.next_logits().astype(np.float64)
    want = np.log(np.exp(row - row.max()).sum()) + row.max() - row[tokens[8]]
    return abs(want - scorer.window(tokens[:9])[7])


def main():
    path = os.environ.get("MLSYS_MODEL_SMOLLM2")
    text, source = english()
    if not path or not text:
        print("SKIP: perplexity of SmolLM2:", "no text: MLSYS_TEXT is not set and there is no program bible"
              if path else "MLSYS_MODEL_SMOLLM2 is not set")
        return 77
    count = int(os.environ.get("MLSYS_PERPLEXITY_TOKENS", "4096"))
    plain = Scorer(path, "f32")
    tokens = plain.encode(text)[:count]
    if len(tokens) < count:
        print(f"{source} has {len(tokens)} tokens, {count} are needed")
        return 1
    failures = []
    apart = check_score(plain, tokens)
    if not apart <= 1e-3:
        failures.append(f"a window and the generator score a token {apart:.2e} apart")
    f32, int8 = plain.perplexity(tokens), Scorer(path, "int8").perplexity(tokens)
    change = int8 / f32 - 1
    print(f"SmolLM2, perplexity of {count} tokens of {source}: act=f32 {f32:.4f}, act=int8 {int8:.4f}, "
          f"change {100 * change:+.3f} %")
    if not abs(change) <= BOUND:
        failures.append(f"int8 changes perplexity by {100 * change:+.2f} %, bound {100 * BOUND} %")
    if f32 == int8:
        failures.append("act=int8 changed nothing")
    shuffled = list(np.random.default_rng(1).permutation(tokens[:WINDOW]))
    if not plain.perplexity(shuffled) >= 2 * f32:
        failures.append("shuffled tokens score as well as the text")
    print("\n".join(failures))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
