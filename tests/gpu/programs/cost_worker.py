# SPDX-License-Identifier: Apache-2.0
"""Does what it is told to, and says how long it took: one of several, each below another profiler, that take turns.

cost_worker.py DIR LIBRARY   DIR/task-0.json, task-1.json, ... are done as they appear, answered by answer-0.json, ...
                             LIBRARY: rates.cu

A task: {"what": "launch", "rate": R, "count": N} | {"what": "graph", "nodes": M, "count": N} |
{"what": "steps", "model": "launches" | "gpt" | "resnet", "count": N} | {"what": "end"}; "profiler": true has
torch.profiler on for that long, "flush_s" is waited after it, for what is recorded to be on its way.
COST_TORCH=1: PyTorch is loaded first, and its libraries are what all use. TORCH_DEVICE=cpu tries the models where
there is no GPU.
"""

import contextlib
import ctypes
import importlib
import json
import os
import pathlib
import statistics
import sys
import time

if os.environ.get("COST_TORCH"):
    importlib.import_module("torch")
directory = pathlib.Path(sys.argv[1])
library = None
models = {}


class Rates(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("p50_ns", "p90_ns", "p99_ns", "mean_ns", "wall_ns", "cpu_ns")]


@contextlib.contextmanager
def on_one_cpu(wanted):
    """All workers take turns on the same CPU: two CPUs differ by more than two profilers. This thread alone."""
    everywhere = os.sched_getaffinity(0)
    try:
        if wanted:
            os.sched_setaffinity(0, {sorted(everywhere)[len(everywhere) // 2]})
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


def native(name, *numbers):
    global library
    first = library is None
    if first:
        library = ctypes.CDLL(sys.argv[2])
    told = Rates()
    # What the first call starts, threads of CUDA's and of profilers, goes where it likes.
    with on_one_cpu(not first):
        error = getattr(library, name)(*(ctypes.c_longlong(number) for number in numbers), ctypes.byref(told))
    if error:
        raise RuntimeError(f"{name}: CUDA error {error}")
    return {name: getattr(told, name) for name, _ in Rates._fields_}


def gpt(torch, device):
    """Six layers of 512 wide, 256 tokens, AdamW: some 400 kernels a step."""

    class Block(torch.nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, width = x.shape
            parts = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, width // self.heads)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))

    words, width = 8192, 512
    model = torch.nn.Sequential(
        torch.nn.Embedding(words, width), *(Block(width, 8) for _ in range(6)), torch.nn.Linear(width, words)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, words, (8, 257), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            scores = model(tokens[:, :-1])
            loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss

    return step


def resnet(torch, device):
    """Three stages of three residual blocks, batches of 64 pictures of 64 x 64, SGD."""

    class Block(torch.nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.body = torch.nn.Sequential(
                torch.nn.Conv2d(before, after, 3, stride, 1, bias=False),
                torch.nn.BatchNorm2d(after),
                torch.nn.ReLU(),
                torch.nn.Conv2d(after, after, 3, 1, 1, bias=False),
                torch.nn.BatchNorm2d(after),
            )
            same = before == after and stride == 1
            self.short = torch.nn.Identity() if same else torch.nn.Conv2d(before, after, 1, stride, bias=False)

        def forward(self, x):
            return torch.relu(self.body(x) + self.short(x))

    widths = [
        (64, 64, 1),
        (64, 64, 1),
        (64, 64, 1),
        (64, 128, 2),
        (128, 128, 1),
        (128, 128, 1),
        (128, 256, 2),
        (256, 256, 1),
    ]
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, 1, 1, bias=False),
        *(Block(*width) for width in widths),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 100),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    pictures, labels = torch.randn(64, 3, 64, 64, device=device), torch.randint(0, 100, (64,), device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def torch_steps(name, count):
    import torch

    device = torch.device(os.environ.get("TORCH_DEVICE", "cuda"))
    if name not in models:
        torch.manual_seed(7)
        models[name] = {"gpt": gpt, "resnet": resnet}[name](torch, device)
        for _ in range(5):
            models[name]().item()
    took = []
    start = time.monotonic()
    for _ in range(count):
        before = time.perf_counter_ns()
        models[name]().item()
        took.append(time.perf_counter_ns() - before)
    return {
        "p50_ns": statistics.median(took),
        "mean_ns": statistics.mean(took),
        "wall_ns": (time.monotonic() - start) * 1e9,
    }


def do(task):
    if task["what"] == "launch":
        return native("rates_launch", task["rate"], task["count"])
    if task["what"] == "graph":
        return native("rates_graph", task["nodes"], task["count"])
    if task["model"] == "launches":
        return native("rates_steps", task["count"])
    return torch_steps(task["model"], task["count"])


def profiling():
    import torch

    activities = [torch.profiler.ProfilerActivity.CPU]
    if os.environ.get("TORCH_DEVICE", "cuda") == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities)


number = 0
while True:
    path = directory / f"task-{number}.json"
    while not path.exists():
        time.sleep(0.005)
    task = json.loads(path.read_text())
    if task["what"] == "end":
        break
    try:
        with profiling() if task.get("profiler") else contextlib.nullcontext():
            answer = do(task)
    except Exception as error:
        answer = {"failed": f"{type(error).__name__}: {error}"}
    time.sleep(task.get("flush_s", 0))
    new = directory / f"answer-{number}.new"
    new.write_text(json.dumps(answer))
    new.rename(directory / f"answer-{number}.json")
    number += 1
