# SPDX-License-Identifier: Apache-2.0
# A network behind a data loader with worker processes. PLANT names what is slower.
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PLANT = os.environ.get("PLANT", "")


class Images(Dataset):
    def __len__(self):
        return 64 * 120

    def __getitem__(self, index):
        image = torch.full((3, 16, 16), float(index % 7))
        if PLANT == "augment":
            for _ in range(4):
                image = image.flip(2) + 0.5
        if PLANT == "read":
            time.sleep(0.0004)
        return image, index % 10


def pad(samples):
    """To one length, value by value."""
    images = torch.tensor([[float(value) for value in image.flatten().tolist()] for image, _ in samples])
    return images.reshape(-1, 3, 16, 16), torch.tensor([label for _, label in samples])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    loader = DataLoader(Images(), batch_size=64, num_workers=1, collate_fn=pad if PLANT == "pad" else None)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
