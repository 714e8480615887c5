#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional net on scikit-learn's handwritten digits.

An ordinary PyTorch program: a DataLoader with worker processes, an optimizer,
a few epochs, an evaluation after each. It takes seconds on a CPU and uses CUDA
when torch sees a device. Two runs with the same options print the same lines.

    python3 examples/train_digits.py --epochs 3 --workers 2
"""

import argparse
import random
import sys

try:
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset
except ImportError as error:
    print(f"train_digits.py: PyTorch is needed and cannot be imported: {error}\n"
          "Debian 12: apt-get install python3-torch; elsewhere: pip install torch",
          file=sys.stderr)
    sys.exit(2)

CLASSES = 10
TEST_IMAGES = 360


def load_digits():
    """Returns the 1797 images of scikit-learn's digits, 8x8, and their labels."""
    try:
        from sklearn import datasets
    except ImportError as error:
        print(f"train_digits.py: scikit-learn is needed and cannot be imported: {error}\n"
              "Debian 12: apt-get install python3-sklearn; elsewhere: pip install scikit-learn;\n"
              "or use --synthetic, which trains on generated images instead",
              file=sys.stderr)
        sys.exit(2)
    digits = datasets.load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16.0
    return images, torch.tensor(digits.target, dtype=torch.int64)


def make_synthetic(generator):
    """Returns as many images as load_digits(): one random pattern a class, plus noise."""
    count = 1797
    patterns = torch.rand(CLASSES, 8, 8, generator=generator)
    labels = torch.arange(count) % CLASSES
    noise = torch.randn(count, 8, 8, generator=generator)
    return (patterns[labels] + 0.3 * noise).clamp(0.0, 1.0), labels


class ShiftedImages(Dataset):
    """Images enlarged to 16x16 and moved by up to two pixels, as augmentation.

    The work is done in __getitem__, hence in the loader's worker processes.
    """

    def __init__(self, images, labels):
        self.images = images
        self.labels = labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = enlarge(self.images[index][None, None])[0]
        down, right = random.randint(-2, 2), random.randint(-2, 2)
        return torch.roll(image, shifts=(down, right), dims=(1, 2)), self.labels[index]


def enlarge(images):
    return nn.functional.interpolate(images, size=(16, 16), mode="bilinear", align_corners=False)


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 24, kernel_size=3, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(24, 48, kernel_size=3, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(48 * 4 * 4, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, CLASSES),
    )


def train_epoch(model, loader, optimizer, device):
    """Returns the mean loss over the epoch's images."""
    model.train()
    loss_of = nn.CrossEntropyLoss()
    total, seen = 0.0, 0
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        seen += len(labels)
    return total / seen


@torch.no_grad()
def evaluate(model, images, labels, device):
    """Returns the share of images that the model recognises."""
    model.eval()
    guesses = model(images.to(device)).argmax(dim=1)
    return (guesses == labels.to(device)).float().mean().item()


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def not_negative(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is negative")
    return value


def parse_options():
    parser = argparse.ArgumentParser(
        description="Trains a small convolutional net on scikit-learn's handwritten digits.")
    parser.add_argument("--epochs", type=positive, default=10)
    parser.add_argument("--workers", type=not_negative, default=2,
                        help="worker processes of the DataLoader; 0 loads in the main process")
    parser.add_argument("--batch-size", type=positive, default=32)
    parser.add_argument("--seed", type=not_negative, default=1)
    parser.add_argument("--synthetic", action="store_true",
                        help="train on generated images, without scikit-learn")
    return parser.parse_args()


def main():
    options = parse_options()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)

    images, labels = make_synthetic(generator) if options.synthetic else load_digits()
    order = torch.randperm(len(images), generator=generator)
    images, labels = images[order], labels[order]
    test_images, test_labels = enlarge(images[:TEST_IMAGES, None]), labels[:TEST_IMAGES]
    train_set = ShiftedImages(images[TEST_IMAGES:], labels[TEST_IMAGES:])

    # Fork is named because newer Pythons default to another start method, and the workers
    # use no CUDA, which a forked child could not.
    worker_options = {}
    if options.workers > 0:
        worker_options = dict(multiprocessing_context="fork", persistent_workers=True)
    loader = DataLoader(train_set, batch_size=options.batch_size, shuffle=True,
                        num_workers=options.workers, generator=generator, **worker_options)

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = make_model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    print(f"device {device}, {len(train_set)} training images, {len(test_images)} test images, "
          f"{options.workers} workers", flush=True)
    accuracy = 0.0
    for epoch in range(1, options.epochs + 1):
        loss = train_epoch(model, loader, optimizer, device)
        accuracy = evaluate(model, test_images, test_labels, device)
        print(f"epoch {epoch}/{options.epochs}: loss {loss:.4f}, test accuracy {accuracy:.1%}",
              flush=True)
    print(f"final test accuracy {accuracy:.1%}")


if __name__ == "__main__":
    main()
