# SPDX-License-Identifier: Apache-2.0
"""Small programs of PyTorch on the CPU: torch_modes.py MODE"""

import sys
import threading

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters())


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        return torch.full((32,), float(index)), index % 10


def step(inputs=None, targets=None):
    inputs = torch.rand(8, 32) if inputs is None else inputs
    targets = torch.zeros(8, dtype=torch.long) if targets is None else targets
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()


def infer(count):
    with torch.inference_mode():
        for _ in range(count):
            model(torch.rand(8, 32))


def train():
    for _ in range(40):
        step()


def evaluate():
    for _ in range(3):
        train()
        model.eval()
        infer(15)
        model.train()


def loader():
    for _ in range(2):
        for inputs, targets in torch.utils.data.DataLoader(Rows(), batch_size=8, num_workers=2):
            step(inputs, targets)


def autograd_off():
    with torch.no_grad():
        for _ in range(40):
            model(torch.rand(8, 32)).sum()


def profiler():
    with torch.profiler.profile():
        for number in range(10):
            with torch.profiler.record_function(f"step {number}"):
                step()
    train()


def threads():
    ran = [threading.Thread(target=infer, args=(30,), name=f"worker {number}") for number in range(3)]
    for thread in ran:
        thread.start()
    for thread in ran:
        thread.join()


MODES = {"train": train, "evaluate": evaluate, "infer": lambda: infer(60), "loader": loader, "autograd_off": autograd_off,
         "profiler": profiler, "threads": threads}
MODES[sys.argv[1]]()
