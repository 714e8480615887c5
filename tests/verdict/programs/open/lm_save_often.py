# SPDX-License-Identifier: Apache-2.0
"""A small language model on a preemptible machine: the state is saved every second step so that nothing is lost."""

import os
import tempfile
import time

import torch
from steptimer import StepTimer
from torch import nn
from torch.nn import functional as F

STEPS = 80


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(8000, 192)
        layer = nn.TransformerEncoderLayer(192, 4, 384, batch_first=True, dropout=0.0)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(192, 8000)

    def forward(self, tokens):
        return self.head(self.body(self.embed(tokens)))


def save(directory, step, model, optimizer):
    path = os.path.join(directory, "last.pt")
    with open(path + ".new", "wb") as file:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)  # the cause
        file.flush()
        os.fsync(file.fileno())  # the cause
    os.replace(path + ".new", path)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    timer = StepTimer()
    timer.cause_s = 0.0
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH", "/var/tmp")) as directory:
        for step in range(STEPS):
            with timer.step():
                with timer.part("operations"):
                    tokens = torch.randint(0, 8000, (1, 17))
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
                    loss.backward()
                    optimizer.step()
                if step % 2 == 1:
                    begin = time.perf_counter()
                    save(directory, step, model, optimizer)  # the cause
                    timer.cause_s += time.perf_counter() - begin
    print(f"last loss {loss.item():.2f}")
    timer.save()


if __name__ == "__main__":
    main()
