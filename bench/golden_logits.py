#!/usr/bin/env python3
"""Write bench/support/golden_logits.h: logits of the pinned models after a fixed token sequence, from the
NumPy implementation of tests/peer, which shares nothing with the library.

    golden_logits.py SMOLLM2.gguf GEMMA3.gguf > bench/support/golden_logits.h"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "peer"))
from reference_model import ReferenceModel  # noqa: E402

LENGTH, PICKS = 24, 16


def golden(path):
    model = ReferenceModel(path)
    vocab = model.weights["token_embd.weight"].shape[0]
    tokens = [(7919 * i + 1013) % vocab for i in range(LENGTH)]
    row = model.logits(tokens)[-1]
    picks = [(104729 * i + 11) % vocab for i in range(PICKS)]
    values = ", ".join(f"{row[p]:.6f}f" for p in picks)
    print(f"    {{{os.path.getsize(path)}, {int(np.argmax(row))}, {float(row.max()):.6f}f,\n     {{{values}}}}},")


print("/* Made by bench/golden_logits.py; do not edit. After tokens (7919 i + 1013) mod vocabulary, i < GOLDEN_LENGTH:")
print(" * the best token, its logit, and the logits of tokens (104729 i + 11) mod vocabulary. */")
print("#ifndef BENCH_GOLDEN_LOGITS_H\n#define BENCH_GOLDEN_LOGITS_H\n")
print("#include <stdint.h>\n")
print(f"enum {{ GOLDEN_LENGTH = {LENGTH}, GOLDEN_PICKS = {PICKS} }};\n")
print("typedef struct golden_logits {\n    uint64_t file_bytes; /* tells the model */\n    int32_t best;")
print("    float best_logit, picked[GOLDEN_PICKS];\n} golden_logits;\n")
print("static const golden_logits golden[] = {")
for file in sys.argv[1:]:
    golden(file)
print("};\n\n#endif")
