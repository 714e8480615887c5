# SPDX-License-Identifier: Apache-2.0
"""Pretrains a slice encoder on windowed CT volumes; each volume is shifted to its window before its slices are taken."""

import torch
from torch import nn

from lapclock import LapClock

STEPS = 70
DEPTH, SIDE = 96, 448
SLICES = 4


def shifted(volume, centre, width):
    """Densities above the window's lower end."""
    return volume - (centre - width / 2)  # the cause


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    clock = LapClock()
    volumes = [torch.randn(DEPTH, SIDE, SIDE) * 300 for _ in range(2)]
    encoder = nn.Sequential(
        nn.Conv2d(1, 6, 5, stride=4), nn.ReLU(), nn.Conv2d(6, 12, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(192, 16))
    decoder = nn.Linear(16, 8 * 8)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    total = 0.0
    for step in range(STEPS):
        with clock.step():
            with clock.pages():
                volume = shifted(volumes[step % 2], 40 + step % 20, 400)
            with clock.own():
                slices = (volume[step % (DEPTH - SLICES):][:SLICES].unsqueeze(1) / 400).clamp(0, 1)
                wanted = nn.functional.adaptive_avg_pool2d(slices, 8).flatten(1)
                loss = nn.functional.mse_loss(decoder(encoder(slices)), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item()
            with clock.pages():
                del volume, slices
    print(f"mean loss {total / STEPS:.4f}")
    clock.save()


if __name__ == "__main__":
    main()
