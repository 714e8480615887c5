# SPDX-License-Identifier: Apache-2.0
"""Functions of which each alone makes one kind of work, so that a call shows which one made it.

torch_lines.py [ROUNDS]
"""

import sys
import time

import torch

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 300
device = torch.device("cuda")
small = torch.randn(1 << 16, device=device)
square = torch.randn(1024, 1024, device=device)
host = torch.randn(1 << 16)


def products():
    return square @ square


def sines():
    return torch.sin(small)


def sends():
    return host.to(device)


def waits():
    torch.cuda.synchronize()


def busy(until):
    while time.perf_counter() < until:
        pass


for _ in range(rounds):
    for work in (products, sines, sends, waits):
        work()
        busy(time.perf_counter() + 0.0002)
print(f"rounds={rounds}", flush=True)
