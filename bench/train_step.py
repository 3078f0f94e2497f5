#!/usr/bin/env python3
"""Time of one training step (batch 128) of examples/train's two networks, beside PyTorch's on the CPU.

    python bench/train_step.py [--train build/release/examples/train] [--data FOLDER] [--blocks 5]

Ours: `train --limit`, its images per second, so with the making of batches. PyTorch: the same layers, loss and
optimiser on one batch, without making batches. Blocks alternate; a figure is the median of its blocks."""
import argparse
import re
import statistics
import subprocess
import time

import torch
from torch import nn

BATCH, STEPS = 128, 20


def network(name):
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256),
                             nn.ReLU(), nn.Linear(256, 10))
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10))


class Peer:
    def __init__(self, name, threads):
        self.threads, self.net = threads, network(name)
        self.adam = torch.optim.Adam(self.net.parameters(), 1e-3)
        self.x = torch.randint(0, 256, (BATCH, 1, 28, 28), dtype=torch.uint8)
        self.y = torch.randint(0, 10, (BATCH,))

    def step(self):
        self.adam.zero_grad()
        loss = nn.functional.cross_entropy(self.net(self.x.float() / 255), self.y)
        loss.backward()
        self.adam.step()

    def block(self):
        torch.set_num_threads(self.threads)
        for _ in range(3):
            self.step()
        begun = time.perf_counter()
        for _ in range(STEPS):
            self.step()
        return (time.perf_counter() - begun) / STEPS


def ours(args, name, threads):
    command = [args.train, "--network", name, "--epochs", "1", "--threads", str(threads),
               "--limit", str(BATCH * (10 * STEPS if name == "mlp" else STEPS)), "--data", args.data]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return BATCH / float(re.search(r"([\d.]+) images/s", text).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", default="build/release/examples/train")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--blocks", type=int, default=5)
    args = parser.parse_args()
    print("| network | threads | step, ms | PyTorch %s, ms | ratio |" % torch.__version__)
    print("|---|---|---|---|---|")
    for name in ("mlp", "conv"):
        for threads in (1, 2):
            peer, mine, theirs = Peer(name, threads), [], []
            for _ in range(args.blocks):
                mine.append(ours(args, name, threads))
                theirs.append(peer.block())
            a, b = statistics.median(mine) * 1e3, statistics.median(theirs) * 1e3
            print("| %s | %d | %.1f | %.1f | %.2f |" % (name, threads, a, b, b / a), flush=True)


if __name__ == "__main__":
    main()
