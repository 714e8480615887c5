# SPDX-License-Identifier: Apache-2.0
"""PyTorch trainings with one thing each that holds them up, and one without.

torch_causes.py MODE [STEPS]     sync, pageable, tiny, loader, python, healthy
"""

import sys
import time

import torch

mode = sys.argv[1]
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 80
device = torch.device("cuda")
torch.manual_seed(7)
wide = mode in ("healthy", "pageable")
width = 4096 if wide else 512
model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(6))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=mode != "tiny")


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return steps * 8

    def __getitem__(self, index):
        until = time.perf_counter() + 0.008
        value = float(index)
        while time.perf_counter() < until:
            value = value * 1.0000001  # the cause of `loader`
        return torch.full((width,), value % 1)


def batches():
    if mode == "loader":
        yield from torch.utils.data.DataLoader(Pictures(), batch_size=8, num_workers=2)
        return
    # 512 MiB in memory of the host that is not pinned.
    host = torch.randn(32768, width) if mode == "pageable" else None
    for _ in range(steps):
        yield host if host is not None else torch.randn(8192 if wide else 64, width, device=device)


def prepare(batch):
    if mode != "python":
        return batch
    total = 0.0
    for number in range(400_000):  # the cause of `python`
        total += number * 0.5
    return batch + total * 1e-18


def small(batch):
    if mode == "sync":
        for number in range(150):
            batch[number % 64, 0].item()  # the cause of `sync`
    if mode == "tiny":
        scalar = batch[0, :8]
        for _ in range(1500):
            scalar = scalar * 1.0001  # the cause of `tiny`


for batch in batches():
    batch = prepare(batch.to(device))  # the cause of `pageable`
    small(batch)
    optimizer.zero_grad()
    rows = batch[:64] if mode == "pageable" else batch
    loss = model(rows).square().mean()
    loss.backward()
    optimizer.step()
    loss.item()
print(f"mode={mode}")
