# SPDX-License-Identifier: Apache-2.0
"""The same work in each run, between two spin kernels: training steps, copies both ways, sets, a sort, on two streams.

torch_work.py [--profile FILE]   FILE: the trace of torch.profiler, over all of it
"""

import sys

import torch

file = sys.argv[2] if sys.argv[1:2] == ["--profile"] else None
torch.manual_seed(7)
torch.use_deterministic_algorithms(True, warn_only=True)
device = torch.device("cuda")


def work():
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.LayerNorm(512), torch.nn.GELU(), torch.nn.Linear(512, 10)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    pinned = torch.randn(512, 256).pin_memory()
    labels = torch.randint(0, 10, (512,)).to(device)
    side = torch.cuda.Stream()

    def step():
        batch = pinned.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        with torch.cuda.stream(side):
            scores = torch.zeros(4096, device=device).normal_()
            scores.sort()
        return loss.item()

    # Libraries are loaded, and their ways chosen, before the first mark.
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    torch.cuda._sleep(100_000)
    torch.cuda.synchronize()
    for _ in range(50):
        loss = step()
    torch.cuda.synchronize()
    torch.cuda._sleep(100_000)
    torch.cuda.synchronize()
    return loss


if file:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as session:
        loss = work()
    session.export_chrome_trace(file)
else:
    loss = work()
print(f"steps=50\nloss={loss:.4f}")
