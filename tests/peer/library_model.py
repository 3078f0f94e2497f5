"""The library through ctypes, for the peer tests: tokens, logits of all positions, greedy tokens."""

import ctypes as C
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
import mlsys  # noqa: E402
from mlsys import lib  # noqa: E402


class LibraryModel:
    def __init__(self, path, **generate):
        self.ctx = mlsys.Handle(lib.mlsys_ctx_create, None, None)
        self.device = mlsys.Handle(lib.mlsys_device_get, self.ctx, mlsys.CPU, 0)
        self.stream = mlsys.Handle(lib.mlsys_stream_create, self.device, None)
        self.model = mlsys.Handle(lib.mlsys_model_open, self.ctx, path.encode(), None)
        self.tokenizer = mlsys.Handle(lib.mlsys_model_tokenizer, self.model)
        config = mlsys.Handle(lib.mlsys_config_create)
        for key, value in {"context": 512, **generate}.items():
            if isinstance(value, str):
                lib.mlsys_config_set_str(config, key.encode(), value.encode())
            else:
                lib.mlsys_config_set_i64(config, key.encode(), value)
        self.generator = mlsys.Handle(lib.mlsys_generator_create, self.model, self.stream, config)
        n = C.c_int32()
        lib.mlsys_tokenizer_vocab(self.tokenizer, C.byref(n))
        self.vocab = n.value

    def encode(self, text):
        data, need = text.encode(), C.c_uint64()
        ids = (C.c_int32 * (len(data) + 16))()
        lib.mlsys_tokenizer_encode(self.tokenizer, data, len(data), 1, ids, len(ids), C.byref(need))
        return list(ids[: need.value])

    def append(self, tokens):
        ids = (C.c_int32 * len(tokens))(*tokens)
        lib.mlsys_generator_append_ids(self.generator, ids, len(tokens))

    def rewind(self):
        lib.mlsys_generator_rewind(self.generator, 0)

    def next_logits(self):
        row = np.empty(self.vocab, np.float32)
        lib.mlsys_generator_logits(self.generator, row.ctypes.data, row.size)
        return row

    def logits(self, tokens):
        """Row i: what follows tokens[: i + 1], one token at a time."""
        self.rewind()
        rows = []
        for t in tokens:
            self.append([t])
            rows.append(self.next_logits())
        return np.array(rows)

    def greedy(self, tokens, n):
        self.rewind()
        new, out = list(tokens), []
        for _ in range(n):
            self.append(new)
            new = [int(np.argmax(self.next_logits()))]
            out += new
        return out
