"""Nanoseconds of PyTorch's operations: torch_cost.py add|loop [profiled].

  add    one a.add(b) of two numbers
  loop   one operation of a small eager training, all of its steps together
"""

import sys
import time

import torch

# Of work, so that what is observed for a while and then not is in it; torch.profiler keeps all in memory.
SECONDS, SECONDS_PROFILED = 4, 0.5
OPERATIONS_OF_A_STEP = 100  # about: a scale for the number that is printed, the same in all runs


def add(count):
    a, b = torch.zeros(1), torch.zeros(1)
    begin = time.perf_counter_ns()
    for _ in range(count):
        a.add(b)
    return (time.perf_counter_ns() - begin) / count


def make_loop():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                                torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = torch.randn(32, 64), torch.randn(32, 8)

    def loop(count):
        steps = max(1, count // OPERATIONS_OF_A_STEP)
        begin = time.perf_counter_ns()
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        return (time.perf_counter_ns() - begin) / steps / OPERATIONS_OF_A_STEP

    return loop


def main():
    torch.set_num_threads(1)
    measure = add if sys.argv[1] == "add" else make_loop()
    measure(1000)

    def mean(seconds):
        turns, begin = [], time.perf_counter()
        while time.perf_counter() - begin < seconds:
            turns.append(measure(20_000))
        return sum(turns) / len(turns)

    if "profiled" in sys.argv[2:]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            print(mean(SECONDS_PROFILED))
    else:
        print(mean(SECONDS))


main()
