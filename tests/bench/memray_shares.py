#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bytes allocated by Python line: memray's count beside tbprof's samples and its exact blocks.

    tests/bench/memray_shares.py [--tbprof PROGRAM] [--python PYTHON] [SCRIPT]

PYTHON (this one) has memray installed; SCRIPT: a program that allocates the same in each run, else a small one made here.
Prints the bytes, the shares of the first two, and calls by memray and of exact blocks; the summary lists exact blocks of the
lines that held most at a time, so that others have none here.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """
import random
random.seed(3)
keep = []
def parse(n):
    return bytearray(n)
def table(n):
    return [bytearray(4096) for _ in range(n)]
def cache():
    keep.append(bytearray(20000))
def text(n):
    return ("x" * n) + "y"
for i in range(3000):
    parse(random.randrange(1000, 90000))
    table(12)
    if i % 3 == 0:
        cache()
    text(30000)
"""
READ = """
import collections, json, memray, sys
found = collections.Counter(), collections.Counter()
for record in memray.FileReader(sys.argv[1]).get_allocation_records():
    # Neither what is freed, which has no stack, nor mappings, which are no allocator's.
    kind = memray.AllocatorType(record.allocator).name
    frames = [] if "FREE" in kind or "MAP" in kind else record.stack_trace(1)
    if frames:
        line = f"{frames[0][1].rsplit('/', 1)[-1]}:{frames[0][2]}"
        found[0][line] += record.size
        found[1][line] += 1
print(json.dumps(found))
"""


def by_memray(python, script, place):
    subprocess.run([python, "-m", "memray", "run", "-q", "-o", place / "records", script], check=True, stdout=subprocess.DEVNULL)
    told = subprocess.run([python, "-c", READ, place / "records"], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


def summary_of(tbprof, python, script, place, *options):
    told = place / "summary.json"
    command = [tbprof, "run", "--quiet", "--sample-rate=100", f"--logdir={place / 'logs'}", f"--summary-json={told}", *options]
    subprocess.run([*command, "--", python, script], check=True, stdout=subprocess.DEVNULL)
    return json.loads(told.read_text())


def line_of(row):
    return (row["python"] or "").split(" ")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tbprof", default="build/bin/tbprof", type=os.path.abspath)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("script", nargs="?", type=os.path.abspath)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        script = options.script or place / "program.py"
        if options.script is None:
            script.write_text(PROGRAM)
        true, calls = by_memray(options.python, script, place)
        sampled, exact, blocks = collections.Counter(), collections.Counter(), collections.Counter()
        for row in summary_of(options.tbprof, options.python, script, place)["allocations_by_python_line"]:
            sampled[line_of(row)] += row["bytes_estimate"]
        for process in summary_of(options.tbprof, options.python, script, place, "--malloc=exact")["processes"]:
            for row in (process["exact_heap"] or {}).get("sites", ()):
                exact[line_of(row)] += row["bytes"]
                blocks[line_of(row)] += row["calls"]
    print(f"{'line':32} {'memray':>12} {'samples':>12} {'exact':>12} {'share':>7} {'sampled':>7} {'calls':>8} {'blocks':>8}")
    for line in sorted(true, key=true.get, reverse=True)[:10]:
        shares = [100 * one[line] / sum(one.values()) for one in (collections.Counter(true), sampled)]
        print(
            f"{line:32} {true[line]:12} {round(sampled[line]):12} {exact[line]:12} {shares[0]:7.2f} {shares[1]:7.2f} "
            f"{calls[line]:8} {blocks[line]:8}"
        )


if __name__ == "__main__":
    main()
