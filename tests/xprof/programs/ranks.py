# SPDX-License-Identifier: Apache-2.0
"""ranks.py DIRECTORY: a data-parallel training for torchrun (gloo). Every rank writes the end of each step, Unix
nanoseconds, to DIRECTORY/steps.<rank>; ends with the file DIRECTORY/stop."""

import os
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stopped = torch.zeros(1)
with open(os.path.join(sys.argv[1], f"steps.{rank}"), "w", buffering=1) as facts:
    while not stopped:
        loss = model(torch.randn(16, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        facts.write(f"{time.time_ns()}\n")
        time.sleep(0.05)
        if rank == 0:
            stopped += os.path.exists(os.path.join(sys.argv[1], "stop"))
        dist.broadcast(stopped, 0)
dist.destroy_process_group()
