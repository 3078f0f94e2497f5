#!/usr/bin/env python3
"""Logits and greedy tokens of both models against an independent f32 implementation.

Bounds: |difference| <= 2e-3 over 5 prompts x 64 positions; 100 greedy tokens identical a prompt. Both are
shown able to fail: a weight scaled by 1.01 must break the bound."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from library_model import LibraryModel  # noqa: E402
from reference_model import ReferenceModel  # noqa: E402

BOUND, POSITIONS, GREEDY = 2e-3, 64, 100
PROMPTS = [
    "The quick brown fox jumps over the lazy dog. Once upon a time in a small village by the sea, there "
    "lived an old fisherman who had never caught a fish larger than his hand, and every morning he went "
    "out in his little boat with his nets and his lunch and came back in the evening with nothing at all.",
    "In computer science, a hash table is a data structure that implements an associative array, also "
    "called a dictionary, which is an abstract data type that maps keys to values. A hash table uses a "
    "hash function to compute an index into an array of buckets, from which the desired value is found.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\n"
    "for i in range(20):\n    print(i, fibonacci(i))\n\nclass Stack:\n    def __init__(self):\n"
    "        self.items = []\n\n    def push(self, item):\n        self.items.append(item)\n",
    "Die Würde des Menschen ist unantastbar. Sie zu achten und zu schützen ist Verpflichtung aller "
    "staatlichen Gewalt. Le soleil se lève à l'est et se couche à l'ouest. 日本語のテキストも少し。 "
    "El perro corre por la playa mientras los niños juegan con la pelota roja y blanca.",
    "1 + 1 = 2, 2 + 2 = 4, 4 + 4 = 8, 8 + 8 = 16, 16 + 16 = 32, 32 + 32 = 64; the sequence doubles at "
    "every step. 3, 5, 7, 11, 13, 17, 19, 23 are primes. pi is 3.14159265358979, e is 2.71828182845904, "
    "and the golden ratio is 1.61803398874989. What comes next in 1, 4, 9, 16, 25, 36, 49?",
]


def compare(name, path):
    reference, library = ReferenceModel(path), LibraryModel(path)
    worst, agreed, failures = 0.0, 0, []
    for i, prompt in enumerate(PROMPTS):
        tokens = (library.encode(prompt) * 4)[:POSITIONS]
        ours, theirs = library.logits(tokens), reference.logits(tokens)
        worst = max(worst, float(np.abs(ours - theirs).max()))
        a, b = library.greedy(tokens[:16], GREEDY), reference.greedy(tokens[:16], GREEDY)
        same = next((j for j in range(GREEDY) if a[j] != b[j]), GREEDY)
        agreed += same
        if same < GREEDY:
            failures.append(f"{name}: prompt {i}: greedy token {same} differs: {a[same]} and {b[same]}")
    print(f"{name}: max |difference| {worst:.2e} over {len(PROMPTS)} x {POSITIONS} positions; "
          f"{agreed} of {GREEDY * len(PROMPTS)} greedy tokens equal", flush=True)
    if not worst <= BOUND:
        failures.append(f"{name}: logits differ by {worst:.3e}, bound {BOUND}")
    norm = reference.weights["output_norm.weight"]
    reference.weights["output_norm.weight"] = norm * np.float32(1.01)  # a planted fault must show
    tokens = library.encode(PROMPTS[0])[:8]
    if np.abs(library.logits(tokens) - reference.logits(tokens)).max() <= BOUND:
        failures.append(f"{name}: a weight scaled by 1.01 was not noticed")
    return failures


def main():
    failures, ran = [], 0
    for name, variable in (("SmolLM2", "MLSYS_MODEL_SMOLLM2"), ("Gemma 3", "MLSYS_MODEL_GEMMA3")):
        path = os.environ.get(variable)
        if not path:
            print(f"SKIP: logits of {name}: {variable} is not set")
            continue
        ran += 1
        failures += compare(name, path)
    print("\n".join(failures))
    return 77 if not ran else bool(failures)


if __name__ == "__main__":
    sys.exit(main())
