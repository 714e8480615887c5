#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sampling Python stacks costs: CPU of the sampler a stack, and what the sampled program loses, by version.

    tests/bench/python_sampling.py [--build BUILD] [--rate HZ] [--rounds N]

Runs BUILD/bench/python_sampling beside a program of each installed CPython, which does a fixed amount of work with
and without being sampled, in turns; prints medians. Needs a quiet machine for the last column.
"""

import argparse
import pathlib
import statistics
import subprocess
import time

PYTHONS = [
    *(f"/root/.pyenv/versions/{full}/bin/python{full.rsplit('.', 1)[0]}" for full in
      ("3.8.18", "3.9.18", "3.10.13", "3.11.7", "3.12.1", "3.13.0")),
    "/usr/bin/python3.11",
]
WORK = """
import sys, time
def f(n):
    return f(n - 1) + 1 if n else sum(range(300))
sys.stdin.readline()
begin = time.process_time()
for _ in range(%d): f(28)
print(time.process_time() - begin, flush=True)
sys.stdin.readline()
"""


def run(python, bench, rate, loops):
    """CPU seconds of the program, and the bench's line: stacks, CPU ns of the sampler."""
    program = subprocess.Popen([python, "-I", "-c", WORK % loops], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    sampler = None
    if bench:
        sampler = subprocess.Popen([bench, str(program.pid), str(rate)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        sampler.stdout.readline()
    program.stdin.write("\n")
    program.stdin.flush()
    seconds = float(program.stdout.readline())
    line = None
    if sampler:
        line = [int(part) for part in sampler.communicate("\n")[0].split()]
    program.communicate("\n")
    return seconds, line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--rate", default=100, type=int)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--loops", default=150000, type=int)
    options = parser.parse_args()
    bench = options.build / "bench" / "python_sampling"
    print(f"{'CPython':24} {'stacks':>8} {'us a stack':>10} {'torn':>6} {'slow-down':>9}")
    for python in PYTHONS:
        if not pathlib.Path(python).exists():
            continue
        bare, sampled, costs, stacks, torn = [], [], [], 0, 0
        for _ in range(options.rounds):
            bare.append(run(python, None, options.rate, options.loops)[0])
            seconds, line = run(python, bench, options.rate, options.loops)
            sampled.append(seconds)
            costs.append(line[1] / 1000 / max(line[0], 1))
            stacks += line[0]
            torn += line[2]
        slower = statistics.median(sampled) / statistics.median(bare) - 1
        name = "/".join(python.split("/")[-3::2]) if ".pyenv" in python else python
        print(f"{name:24} {stacks:8} {statistics.median(costs):10.1f} {torn:6} {slower:8.1%}", flush=True)


if __name__ == "__main__":
    main()
