#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tbprof costs a program, and what it uses itself, with samples of stacks and without.

    tests/bench/sampling_cost.py [--build BUILD] [--python PYTHON] [--rounds N] [--rate HZ] [--csv FILE]

Programs: two trainings of one thread each (examples/train_digits.py), two that read and write JSON, and eight processes
of which one maps and unmaps memory all the time: two cores are always busy. Each round runs each program bare, with `--sample-rate=0` and with sampling, in another
order. *program* is the CPU time of the program's processes, as they see it themselves; *both* is that and all that
tbprof used, its conversion included; *wall* is that of the whole command. Prints the median over the rounds of the
ratio to bare, and the bounds within which that median lies at 95 % (by ranks, no distribution assumed).
"""

import argparse
import csv
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Runs commands, each argument one, at the same time, and writes the CPU seconds that they used.
START = """
import resource, subprocess, sys
running = [subprocess.Popen(command.split("\\x1f"), stdout=subprocess.DEVNULL) for command in sys.argv[2:]]
failed = [each for each in running if each.wait() != 0]
used = resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(str(used.ru_utime + used.ru_stime))
sys.exit(len(failed))
"""
MAPS = """
import mmap
total = 0
for round in range(%d):
    block = mmap.mmap(-1, 1 << 20)
    block[0] = block[-1] = 1
    total += block[0]
    block.close()
print(total)
"""
JSON = """
import json
text = json.dumps({"rows": [{"id": i, "name": f"row {i}", "values": [i * 0.5, i * 2, None, True]} for i in range(2000)]})
print(sum(len(json.dumps(json.loads(text))) for _ in range(%d)))
"""


def programs(python, scale):
    training = [python, str(ROOT / "examples" / "train_digits.py"), f"--epochs={8 * scale}", "--workers=0", "--synthetic"]
    one = [python, "-I", "-c", JSON % (3000 * scale)]
    eight = [[python, "-I", "-c", JSON % (400 * scale)]] * 7 + [[python, "-I", "-c", MAPS % (50000 * scale)]]
    return {"2 trainings": [training] * 2, "2 of JSON": [one] * 2, "8 processes": eight}


def cpu(kind):
    used = resource.getrusage(kind)
    return used.ru_utime + used.ru_stime


def measure(commands, prefix, place):
    """Seconds: CPU of the program, CPU of all, wall."""
    told = pathlib.Path(place) / "cpu"
    full = [*prefix, sys.executable, "-I", "-c", START, str(told), *("\x1f".join(command) for command in commands)]
    before, begin = cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(full, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=place,
                   env={**os.environ, "OMP_NUM_THREADS": "1"})
    wall = time.perf_counter() - begin
    return {"program": float(told.read_text()), "both": cpu(resource.RUSAGE_CHILDREN) - before, "wall": wall}


def bounds(ratios):
    """(low, median, high): the median, and ranks that hold it with 95 %."""
    ordered, n = sorted(ratios), len(ratios)
    reach = int((n - 1.96 * n**0.5) / 2) if n >= 6 else 0
    return ordered[max(0, reach - 1)], statistics.median(ordered), ordered[min(n - 1, n - max(reach, 1))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--scale", type=int, default=1, help="length of the programs; 1: about 10 s")
    parser.add_argument("--only", default="")
    parser.add_argument("--csv")
    arguments = parser.parse_args()
    rows = []
    for name, commands in programs(arguments.python, arguments.scale).items():
        if arguments.only not in name:
            continue
        results = {}
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as place:
                tbprof = [f"{arguments.build}/bin/tbprof", "run", "--quiet", f"--logdir={place}/logs"]
                ways = {"bare": [], "0": [*tbprof, "--sample-rate=0"], str(arguments.rate): [*tbprof, f"--sample-rate={arguments.rate}"]}
                for way in random.sample(list(ways), len(ways)):
                    results.setdefault(way, []).append(measure(commands, ways[way], place))
        base = statistics.median(each["program"] for each in results["bare"])
        for way in results:
            if way == "bare":
                continue
            for what in ("program", "both", "wall"):
                ratios = [each[what] / bare[what] for each, bare in zip(results[way], results["bare"])]
                low, middle, high = bounds(ratios)
                rows.append([name, f"{base:.1f}", way, what, len(ratios), f"{low:.3f}", f"{middle:.3f}", f"{high:.3f}"])
                print(*rows[-1], sep="\t", flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["program", "cpu_s", "sample_rate", "what", "rounds", "low", "median", "high"])
            writer.writerows(rows)


if __name__ == "__main__":
    main()
