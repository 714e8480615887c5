# SPDX-License-Identifier: Apache-2.0
# Online learning on records that are parsed in the loop. PLANT names what is slower.
import json
import os
import random

import torch
from torch import nn

PLANT = os.environ.get("PLANT", "")


def parse(lines):
    rows = []
    for line in lines:
        record = json.loads(line)
        if PLANT == "parse":
            record = json.loads(json.dumps(record))
        rows.append([record[f"f{i}"] for i in range(12)])
    return torch.tensor(rows)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = random.Random(3)
    lines = [json.dumps({f"f{i}": rng.random() for i in range(12)}) for _ in range(400)]
    labels = torch.tensor([i % 2 for i in range(400)], dtype=torch.float32)
    net = nn.Linear(12, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(150):
        batch = parse(lines)
        if PLANT == "copies":
            batch = torch.cat([batch] * 400)[:400]
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(batch)[:, 0], labels)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
