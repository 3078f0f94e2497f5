#!/usr/bin/env python3
"""The cases of bench/cuda.c beside PyTorch on the same device, and both beside the speed of a copy.

    python3 bench/cuda_torch.py [--bench build/release/bench/cuda] [--times 20]

PyTorch: torch.compile where --compile is given, else its own kernels, replayed as a CUDA graph; a time is the median
of single replays with the wait for their end, as ours. The ceiling is a copy of 2 GiB on the device."""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F


def functions(rows, columns):
    return {
        "neg": (1, lambda x: -x),
        "gelu(a*b+c)*sigmoid(a)+b": (3, lambda a, b, c: F.gelu(a * b + c) * torch.sigmoid(a) + b),
        "transpose": (1, lambda x: x.t().contiguous()),
        "sum of all": (1, lambda x: x.sum()),
        "sum of rows": (1, lambda x: x.sum(1)),
        "sum of columns": (1, lambda x: x.sum(0)),
        "softmax": (1, lambda x: torch.softmax(x, -1)),
        "layer_norm": (-3, lambda x, w, b: F.layer_norm(x, (columns,), w, b)),
        "rms_norm": (-2, lambda x, w: F.rms_norm(x, (columns,), w, 1e-5)),
        "matmul": (2, lambda a, b: a @ b),
    }


def median(run, times):
    seconds = []
    for i in range(times + 4):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        run()
        torch.cuda.synchronize()
        if i >= 4:
            seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def peer(case, times, compiled):
    rows, columns = case["rows"], case["columns"]
    dtype = torch.float32 if case["dtype"] == "f32" else torch.bfloat16
    count, fn = functions(rows, columns)[case["name"]]
    inputs = [torch.randn(rows, columns, device="cuda", dtype=dtype) for _ in range(count if count > 0 else 1)]
    if count < 0:
        inputs += [torch.randn(columns, device="cuda", dtype=dtype) for _ in range(-count - 1)]
    if compiled:
        fn = torch.compile(fn)
    for _ in range(3):
        fn(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = fn(*inputs)
    seconds = median(graph.replay, times)
    del graph, result
    return seconds


def ceiling(times):
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    return 2 * (1 << 30) / median(lambda: b.copy_(a), times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", default="build/release/bench/cuda")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    lines = subprocess.run([args.bench, "--times", str(args.times)], check=True, capture_output=True, text=True)
    copy = ceiling(args.times)
    print("copy: %.2f TB/s" % (copy / 1e12))
    print("| case | size | ms | TB/s | of the copy | PyTorch, ms | ratio |")
    print("|---|---|---|---|---|---|---|")
    for line in lines.stdout.splitlines():
        case = json.loads(line)
        theirs, ours = peer(case, args.times, args.compile), case["seconds"]
        speed = case["flops"] / ours / 1e12 if case["flops"] else case["bytes"] / ours / 1e12
        share = "" if case["flops"] else "%.0f %%" % (100 * case["bytes"] / ours / copy)
        print("| %s | %d x %d %s | %.3f | %.2f%s | %s | %.3f | %.2f |" % (
            case["name"], case["rows"], case["columns"], case["dtype"], ours * 1e3, speed,
            " TFLOP/s" if case["flops"] else "", share, theirs * 1e3, theirs / ours), flush=True)


if __name__ == "__main__":
    main()
