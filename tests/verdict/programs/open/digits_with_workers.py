# SPDX-License-Identifier: Apache-2.0
"""Trains a convolutional network; one DataLoader worker prepares the cheap batches well ahead of it."""

import torch
from steptimer import StepTimer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class Glyphs(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.strokes = torch.rand(10, 1, 28, 28, generator=generator)
        self.noise = torch.rand(count, generator=generator)

    def __len__(self):
        return len(self.noise)

    def __getitem__(self, index):
        return torch.roll(self.strokes[index % 10], index % 5, 2) + 0.1 * self.noise[index], index % 10


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                          nn.Linear(48 * 49, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Glyphs(5120), batch_size=64, shuffle=True, num_workers=1, prefetch_factor=4)
    timer = StepTimer()
    batches = iter(loader)
    for _ in range(len(loader)):
        with timer.step():
            with timer.part("input"):
                images, labels = next(batches)
            with timer.part("operations"):
                optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
    print(f"last loss {loss.item():.2f}")
    timer.save()


if __name__ == "__main__":
    main()
