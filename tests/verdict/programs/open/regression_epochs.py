# SPDX-License-Identifier: Apache-2.0
"""A regression network in PyTorch with an evaluation after each epoch of 20 steps."""

import torch
from steptimer import StepTimer
from torch import nn
from torch.nn import functional as F

EPOCHS = 6
STEPS = 20


def evaluate(model, x, y):
    model.eval()
    with torch.no_grad():
        losses = [F.mse_loss(model(part), target).item() for part, target in zip(x.split(256), y.split(256))]
    model.train()
    return sum(losses) / len(losses)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, held_out = torch.randn(4096, 256), torch.randn(2048, 256)
    target = torch.randn(256, 1) / 16
    y, held_out_y = torch.sin(x @ target), torch.sin(held_out @ target)
    model = nn.Sequential(nn.Linear(256, 384), nn.GELU(), nn.Linear(384, 384), nn.GELU(), nn.Linear(384, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    timer = StepTimer()
    for epoch in range(EPOCHS):
        order = torch.randperm(len(x))
        for step in range(STEPS):
            with timer.step(), timer.part("operations"):
                chosen = order[step * 192 : step * 192 + 768]
                optimizer.zero_grad()
                F.mse_loss(model(x[chosen]), y[chosen]).backward()
                optimizer.step()
        print(f"epoch {epoch} held-out loss {evaluate(model, held_out, held_out_y):.1f}")
    timer.save()


if __name__ == "__main__":
    main()
