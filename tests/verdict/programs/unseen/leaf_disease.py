# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a small convolutional classifier on photographs of leaves, with a DataLoader and one worker."""

import os
import tempfile

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lapclock import LapClock

STEPS = 90
BATCH = 8


def photographs(folder, count=48, size=(330, 250)):
    random = np.random.default_rng(4)
    paths = []
    for i in range(count):
        coarse = random.integers(0, 255, (20, 26, 3), dtype=np.uint8)
        path = os.path.join(folder, f"leaf-{i:03}.jpg")
        Image.fromarray(coarse).resize(size, Image.BICUBIC).save(path, quality=92)
        paths.append(path)
    return paths


class Leaves(Dataset):
    def __init__(self, paths, length):
        self.paths = paths
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        image = Image.open(self.paths[index % len(self.paths)]).convert("RGB")
        angle = (index * 37) % 50 - 25
        image = image.rotate(angle, Image.BICUBIC, expand=True).resize((64, 64), Image.LANCZOS)  # the cause
        pixels = np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / 255.0
        return torch.from_numpy(pixels), index % 5


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)
    clock = LapClock()
    model = nn.Sequential(
        nn.Conv2d(3, 20, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(512, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    with tempfile.TemporaryDirectory() as folder:
        data = Leaves(photographs(folder), STEPS * BATCH)
        loader = DataLoader(data, batch_size=BATCH, shuffle=False, num_workers=1)
        batches = iter(loader)
        running = 0.0
        for _ in range(STEPS):
            with clock.step():
                with clock.part("input"):
                    images, labels = next(batches)  # the wait
                with clock.own():
                    optimizer.zero_grad(set_to_none=True)
                    loss = criterion(model(images), labels)
                    loss.backward()
                    optimizer.step()
                running = 0.9 * running + 0.1 * loss.item()
        del batches
    print(f"running loss {running:.3f}")
    clock.save()


if __name__ == "__main__":
    main()
