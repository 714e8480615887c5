# SPDX-License-Identifier: Apache-2.0
"""A character model with a GRU; it logs each step, saves now and then, and reads its windows through a DataLoader."""

import logging
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lapclock import LapClock

STEPS = 90
LENGTH, BATCH, LETTERS, HIDDEN = 48, 24, 60, 160


class CharacterModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, 48)
        self.recurrent = nn.GRU(48, HIDDEN, num_layers=2, batch_first=True)
        self.output = nn.Linear(HIDDEN, LETTERS)

    def forward(self, letters):
        return self.output(self.recurrent(self.embedding(letters))[0])


def main():
    torch.manual_seed(13)
    torch.set_num_threads(1)
    text = torch.randint(0, LETTERS, (STEPS * BATCH, LENGTH + 1))
    text[:, 1::2] = (text[:, 0:-1:2] + 5) % LETTERS
    loader = DataLoader(TensorDataset(text), batch_size=BATCH, shuffle=True)
    model = CharacterModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    clock = LapClock()
    recent = 0.0
    with tempfile.TemporaryDirectory() as folder:
        handler = logging.FileHandler(os.path.join(folder, "train.log"))
        log = logging.getLogger("characters")
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
        batches = iter(loader)
        for step in range(STEPS):
            with clock.step():
                with clock.part("input"):
                    (window,) = next(batches)
                with clock.own():
                    logits = model(window[:, :-1])
                    loss = nn.functional.cross_entropy(logits.reshape(-1, LETTERS), window[:, 1:].reshape(-1))
                    optimizer.zero_grad()
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                recent = 0.9 * recent + 0.1 * loss.item()
                with clock.part("disk"):
                    log.info("step %d loss %.4f", step, recent)
                    if step % 30 == 29:
                        torch.save(model.state_dict(), os.path.join(folder, "characters.pt"))
        log.removeHandler(handler)
        handler.close()
    print(f"recent loss {recent:.3f}")
    clock.save()


if __name__ == "__main__":
    main()
