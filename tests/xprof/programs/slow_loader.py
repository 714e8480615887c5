"""A training that waits for its data, and what its own clock says: slow_loader.py WORKERS"""

import json
import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 60 * 8

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((256,), float(index)), index % 10


torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps, waits = [], []
for epoch in range(2):
    batches = iter(DataLoader(Slow(), batch_size=8, num_workers=int(sys.argv[1])))
    begin = time.perf_counter()
    while True:
        try:
            inputs, targets = next(batches)
        except StopIteration:
            break
        got = time.perf_counter()
        optimizer.zero_grad()
        for _ in range(4):
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()
        end = time.perf_counter()
        steps.append(end - begin)
        waits.append(got - begin)
        begin = end
usual = [(step, wait) for step, wait in zip(steps, waits) if step < 4 * statistics.median(steps)]
print(json.dumps({"steps": len(steps), "steps_ms": [1e3 * step for step in steps],
                  "input_share": sum(wait for _, wait in usual) / sum(step for step, _ in usual)}))
