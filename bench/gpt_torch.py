#!/usr/bin/env python3
"""The model of examples/gpt in PyTorch, from the same weights and on the same batches: do the losses agree, and how
do the times of a step compare?

    gpt --text FILE --steps 200 --threads 2 --sample 0 --dump FOLDER
    python3 bench/gpt_torch.py FOLDER --threads 2
"""
import argparse
import pathlib
import statistics
import time

import numpy
import torch
import torch.nn.functional as F


def read_sizes(folder):
    rows = [line.split() for line in (folder / "sizes.txt").read_text().splitlines()]
    return {name: float(value) if "." in value or "e" in value else int(value) for name, value in rows}


def read_weights(folder):
    """Name to parameter, in the order of the program's list."""
    data = numpy.fromfile(folder / "weights.f32", dtype=numpy.float32)
    weights, at = {}, 0
    for line in (folder / "weights.txt").read_text().splitlines():
        name, rows, columns = line.split()
        shape = [int(rows), int(columns)] if int(columns) else [int(rows)]
        count = int(numpy.prod(shape))
        weights[name] = torch.nn.Parameter(torch.from_numpy(data[at:at + count].reshape(shape).copy()))
        at += count
    assert at == data.size
    return weights


def loss_of(w, sizes, tokens, targets):
    batch, length = tokens.shape
    heads, width = sizes["heads"], sizes["width"]

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, [width], w[name + ".weight"], w[name + ".bias"], eps=1e-5)

    def split(x):
        return x.view(batch, length, heads, width // heads).transpose(1, 2)

    x = F.embedding(tokens, w["token_table"]) + w["place_table"][:length]
    for i in range(sizes["layers"]):
        y = norm(x, f"h{i}.norm1")
        q, k, v = (split(linear(y, f"h{i}.{part}")) for part in ("query", "key", "value"))
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(o.transpose(1, 2).reshape(batch, length, width), f"h{i}.project")
        x = x + linear(F.gelu(linear(norm(x, f"h{i}.norm2"), f"h{i}.up")), f"h{i}.down")
    logits = F.linear(norm(x, "norm"), w["token_table"])
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--f64", action="store_true", help="PyTorch in f64: which of the two f32 runs is nearer to it")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    sizes, w = read_sizes(args.folder), read_weights(args.folder)
    if args.f64:
        w = {name: x.detach().double().requires_grad_() for name, x in w.items()}
    shape = (sizes["steps"], 2, sizes["batch"], sizes["context"])
    batches = torch.from_numpy(numpy.fromfile(args.folder / "batches.i32", dtype=numpy.int32).reshape(shape)).long()
    theirs = numpy.loadtxt(args.folder / "losses.txt", ndmin=2)
    groups = [{"params": [p for p in w.values() if p.dim() >= 2], "weight_decay": sizes["weight_decay"]},
              {"params": [p for p in w.values() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=sizes["rate"])
    losses, seconds = [], []
    for tokens, targets in batches:
        start = time.perf_counter()
        loss = loss_of(w, sizes, tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    numpy.savetxt(args.folder / ("torch_f64.txt" if args.f64 else "torch_f32.txt"), losses)
    difference = numpy.abs(numpy.array(losses) - theirs[:, 0])
    torch_ms, ours_ms = 1e3 * statistics.median(seconds), 1e3 * float(numpy.median(theirs[:, 1]))
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f} over {len(losses)} steps; largest difference {difference.max():.2e} "
          f"at step {int(difference.argmax())}")
    print(f"median step: torch {torch_ms:.1f} ms, mlsys {ours_ms:.1f} ms, {torch_ms / ours_ms:.2f} of torch's speed "
          f"({args.threads} threads, torch {torch.__version__})")


if __name__ == "__main__":
    main()
