# SPDX-License-Identifier: Apache-2.0
# A small network on data in memory. PLANT names what is slower: each is a change that somebody might make.
import os
import time
import zlib

import torch
from torch import nn

PLANT = os.environ.get("PLANT", "")
STEPS = int(os.environ.get("STEPS", "150"))


def normalise(batch):
    if PLANT == "normalise":
        for _ in range(6):
            batch = (batch - batch.mean()) / batch.std()
    return batch


def tokens(count):
    total = 0
    for i in range(count):
        total += (i * 31) % 7
    return total


def archive(value):
    if PLANT == "compress":
        zlib.compress(os.urandom(40_000) + repr(value).encode(), 9)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    hidden = 1024 if PLANT == "wider" else 512
    layers = [nn.Linear(256, hidden), nn.ReLU(), nn.Linear(hidden, 10)]
    if PLANT == "dropout":
        layers.insert(2, nn.Dropout(0.1))
    if PLANT == "gelu":
        layers[1] = nn.GELU()
    net = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(net.parameters()) if PLANT == "adam" else torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(768 if PLANT == "batch" else 512, 256), torch.randint(0, 10, (768 if PLANT == "batch" else 512,))
    keep = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(normalise(x)), y)
        loss.backward()
        optimizer.step()
        if PLANT == "python":
            tokens(20_000)
        if PLANT == "sleep":
            time.sleep(0.001)
        if PLANT == "clone":
            keep = [x.clone() for _ in range(8)]
        if PLANT == "sync_file":
            with open("/var/tmp/gate-checkpoint", "wb") as file:
                file.write(bytes(1000))
                file.flush()
                os.fsync(file.fileno())
        if PLANT == "sort":
            torch.sort(x.flatten()[:40_000])
        if PLANT == "svd":
            torch.linalg.svdvals(x[:48, :48])
        if PLANT == "norms":
            for parameter in net.parameters():
                for _ in range(25):
                    parameter.grad.norm().item()
        archive(step)
    print(f"loss {loss.item():.3f}", len(keep))


if __name__ == "__main__":
    main()
