# SPDX-License-Identifier: Apache-2.0
"""A PyTorch training of a fixed number of steps; each step also launches one spin kernel, whose number is thereby known.

torch_train.py [STEPS] [profile|kill|exit|raise]

profile: a torch.profiler over the middle third, which prints what it saw; kill, exit, raise: that is how it ends.
TORCH_DEVICE=cpu tries the script where there is no GPU.
"""

import os
import signal
import sys

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30
how = sys.argv[2] if len(sys.argv) > 2 else ""

torch.manual_seed(7)
torch.use_deterministic_algorithms(False)
device = torch.device(os.environ.get("TORCH_DEVICE", "cuda"))
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batch = torch.randn(512, 256, device=device)
labels = torch.randint(0, 10, (512,), device=device)


def train(count):
    for _ in range(count):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda._sleep(100_000)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return loss.item()


third = steps // 3
train(third)
if how == "profile":
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as session:
        train(third)
    seen = sum(event.count for event in session.key_averages() if "spin_kernel" in event.key)
    print(f"profiler_spin_kernels={seen}")
else:
    train(third)
loss = train(steps - 2 * third)
print(f"spin_kernels={steps}\nloss={loss:.4f}", flush=True)
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "exit":
    os._exit(7)
if how == "raise":
    raise RuntimeError("in the middle of a training")
