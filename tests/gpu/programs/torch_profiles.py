# SPDX-License-Identifier: Apache-2.0
"""Uses torch.profiler three times, with the same work in it and around it; a gate before each.

torch_profiles.py FILE   a line of JSON for each: what torch.profiler saw of its 20 steps
TORCH_DEVICE=cpu tries the script where there is no GPU.
"""

import json
import os
import sys
import time

import gates
import torch

device = torch.device(os.environ.get("TORCH_DEVICE", "cuda"))
on_gpu = device.type == "cuda"
torch.manual_seed(7)
weights = torch.randn(512, 512, device=device, requires_grad=True)
activity = torch.profiler.ProfilerActivity.CUDA if on_gpu else torch.profiler.ProfilerActivity.CPU


def work(count):
    for _ in range(count):
        (weights @ weights).relu().sum().backward()
        if on_gpu:
            torch.cuda._sleep(100_000)
    if on_gpu:
        torch.cuda.synchronize()


work(5)
with open(sys.argv[1], "w") as told:
    for number in range(3):
        gates.wait(number)
        work(20)
        with torch.profiler.profile(activities=[activity]) as session:
            work(20)
        found = [event for event in session.events() if event.device_type.name == ("CUDA" if on_gpu else "CPU")]
        spins = sum("spin_kernel" in event.name for event in found)
        told.write(json.dumps({"kernels": len(found), "spin_kernels": spins}) + "\n")
        told.flush()
        # Another profiler comes back on a thread of its own, tbprof after a second without calls of CUPTI.
        time.sleep(0.5 if number < 2 else 2.0)
        work(20)
print("rounds=3")
