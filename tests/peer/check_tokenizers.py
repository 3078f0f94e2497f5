#!/usr/bin/env python3
"""Token ids on random and ordinary texts against PyPI tokenizers, built from the same GGUF metadata.

Every vocabulary gets the same texts: words, code, numbers, all planes of Unicode, odd spaces. Decoding
must give the text back, except for WordPiece. A byte that a vocabulary cannot spell is an error here
(the peer drops it), and then the vocabulary must indeed lack one. The comparison is shown able to fail:
with two ids exchanged in the peer's vocabulary it must find a difference."""

import ctypes as C
import os
import random
import sys
import unicodedata

import gguf
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "examples", "python"))
import mlsys  # noqa: E402
from mlsys import lib  # noqa: E402

TEXTS, SEED = 4000, int(os.environ.get("MLSYS_TEST_SEED", "20"))
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
RANGES = [(0x20, 0x7E)] * 6 + [(0xA0, 0x17F), (0x370, 0x52F), (0x300, 0x36F), (0x5D0, 0x6FF), (0x900, 0xDFF)]
RANGES += [(0x2000, 0x206F), (0x2100, 0x27BF), (0x3000, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3)]
RANGES += [(0xF900, 0xFDFF), (0xFE00, 0xFFEF), (0x10400, 0x104FF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF)]
RANGES += [(0x20000, 0x2A6DF), (0, 0x1F), (0x80, 0x9F), (0x1680, 0x1680), (0x180E, 0x180E)]
PIECES = ["the ", " and", "ing", "'s", "'RE", "'\u017f", " 12", "3456", "\n", "\r\n", "\t", "  ", "    ", "...",
          "!?", "{}", "();", " //", "don't", "I'LL", "\u00df", "\u0130", "e\u0301", "\u200d", "\ufe0f", "\u00a0", "_"]


def random_text(rng):
    out = []
    for _ in range(rng.randint(0, 24)):
        if rng.random() < 0.5:
            out.append(rng.choice(PIECES))
        else:
            low, high = rng.choice(RANGES)
            out += [chr(rng.randint(low, high)) for _ in range(rng.randint(1, 4))]
    return "".join(out)


def is_old(text):
    """WordPiece depends on character classes, and the peer's are of an old Unicode."""
    return all(unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c) for c in text)


class Library:
    def __init__(self, path):
        self.ctx = mlsys.Handle(lib.mlsys_ctx_create, None, None)
        self.model = mlsys.Handle(lib.mlsys_model_open, self.ctx, path.encode(), None)
        self.tokenizer = mlsys.Handle(lib.mlsys_model_tokenizer, self.model)

    def encode(self, text):
        data, need = text.encode(), C.c_uint64()
        ids = (C.c_int32 * (2 * len(data) + 16))()
        lib.mlsys_tokenizer_encode(self.tokenizer, data, len(data), 0, ids, len(ids), C.byref(need))
        return list(ids[: need.value])

    def decode(self, ids):
        need, buf = C.c_uint64(), C.create_string_buffer(65536)
        array = (C.c_int32 * len(ids))(*ids)
        lib.mlsys_tokenizer_decode(self.tokenizer, array, len(ids), 0, buf, len(buf), C.byref(need))
        return buf.raw[: need.value - 1]


def peer_bpe(tokens, merges, name):
    peer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges, ignore_merges=name == "llama-bpe"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in ("smollm", "gpt-2"))
    first = {
        "smollm": lambda: pre_tokenizers.Digits(individual_digits=True),
        "llama-bpe": lambda: pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        "qwen2": lambda: pre_tokenizers.Split(Regex(QWEN2), "isolated"),
    }
    peer.pre_tokenizer = pre_tokenizers.Sequence(([first[name]()] if name in first else []) + [level])
    return peer


def peer_wordpiece(tokens):
    def hugging(t):
        return t[1:] if t.startswith("\u2581") else t if t.startswith("[") and t.endswith("]") else "##" + t

    vocab = {hugging(t): i for i, t in enumerate(tokens)}
    peer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    peer.normalizer = normalizers.BertNormalizer()
    peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return peer


def byte_chars():
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def check(name, path, texts):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    if name == "bert-bge":
        peer, broken = peer_wordpiece(tokens), None
    else:
        merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
        peer = peer_bpe(tokens, merges, name)
        swapped = list(tokens)
        a, e = swapped.index("a"), swapped.index("e")
        swapped[a], swapped[e] = swapped[e], swapped[a]
        broken = peer_bpe(swapped, merges, name)
    chars = byte_chars()
    missing = {b for b in range(256) if chars[b] not in tokens} if broken else set()
    library, unspelled, caught = Library(path), 0, False
    for text in texts:
        want = peer.encode(text, add_special_tokens=False).ids
        try:
            got = library.encode(text)
        except mlsys.Error as error:
            assert missing & set(text.encode()), f"{name}: {text!r}: {error}"
            unspelled += 1
            continue
        assert got == want, f"{name}: {text!r}: {got} instead of {want}"
        if broken:
            assert library.decode(got) == text.encode(), f"{name}: {text!r} came back as {library.decode(got)!r}"
            caught = caught or broken.encode(text, add_special_tokens=False).ids != got
    assert caught or not broken, f"{name}: a wrong vocabulary went unnoticed"
    print(f"{name}: {len(texts) - unspelled} texts alike, {unspelled} with bytes that the vocabulary lacks")


def main():
    rng = random.Random(SEED)
    print(f"MLSYS_TEST_SEED={SEED}")
    texts = [random_text(rng) for _ in range(TEXTS)]
    suites, ran = os.environ.get("MLSYS_SUITES", ""), 0
    for name in ("smollm", "gpt-2", "llama-bpe", "qwen2", "bert-bge"):
        path = os.path.join(suites, "tokenizer", f"ggml-vocab-{name}.gguf")
        if name == "smollm":
            path = os.environ.get("MLSYS_MODEL_SMOLLM2", "")
        if not os.path.isfile(path):
            print(f"SKIP: token ids of {name}: no vocabulary")
            continue
        check(name, path, list(filter(is_old, texts)) if name == "bert-bge" else texts)
        ran += 1
    sys.exit(0 if ran else 77)


if __name__ == "__main__":
    main()
