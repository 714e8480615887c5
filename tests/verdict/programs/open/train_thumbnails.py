# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on thumbnails that are stored compressed and decoded by DataLoader workers."""

import random
import zlib

import torch
from steptimer import StepTimer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 32
GAMMA = [(value / 255) ** 2.2 for value in range(256)]


class Thumbnails(Dataset):
    def __init__(self, count):
        rng = random.Random(3)
        self.files = []
        for number in range(count):
            base = bytes(rng.randrange(256) for _ in range(SIZE))
            pixels = b"".join(base[row % 7 :] + base[: row % 7] for row in range(3 * SIZE))
            self.files.append((zlib.compress(pixels), number % 10))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        packed, label = self.files[index]
        pixels = zlib.decompress(packed)
        linear = []
        for at in range(0, len(pixels), SIZE):
            row = pixels[at : at + SIZE]
            mean = sum(row) / SIZE
            contrast = max(row) - min(row) + 1
            for value in row:
                bright = GAMMA[value] * (1 + (mean - 128) / 1024)  # the cause
                linear.append(min(1.0, max(0.0, bright + 0.1 * (value - mean) / contrast)))  # the cause
        return torch.tensor(linear).view(3, SIZE, SIZE), label


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
                          nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Thumbnails(3600), batch_size=48, shuffle=True, num_workers=2)
    timer = StepTimer()
    total = 0.0
    batches = iter(loader)
    for _ in range(len(loader)):
        with timer.step():
            with timer.part("input"):
                images, labels = next(batches)  # the wait
            with timer.part("operations"):
                optimizer.zero_grad()
                loss = F.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                total += loss.item()
    print(f"mean loss {total / len(loader):.2f}")
    timer.save()


if __name__ == "__main__":
    main()
