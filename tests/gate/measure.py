#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `tbprof compare` and `ab` are wrong, on runs of real programs.

    measure.py record  --tbprof=T --python=P --out=DIR [--count=40]      runs of each program, all alike
    measure.py same    --tbprof=T --out=DIR [--times=2000] [--runs=10]   A/A: random choices of them as two sides
    measure.py live    --tbprof=T --python=P --out=DIR [--times=200]     A/A: pairs that are made for the purpose
    measure.py planted --tbprof=T --python=P --out=DIR [--pairs=5]       20 programs that became slower: the first cause

Each prints a row for each program and writes CSV to --out. `record` and `live` may run beside other load: that is what
they are for. Sides of `same` are chosen without a run in both, from runs that were made one after the other.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import random
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Program, what is planted, what one of the first causes must name.
PLANTED = [
    ("mlp", "normalise", ["normalise", "aten::std", "aten::div", "aten::sub", "aten::mean"]),
    ("mlp", "compress", ["archive", "zlib"]),
    ("mlp", "wider", ["aten::addmm", "aten::mm", "aten::relu", "aten::_foreach", "aten::threshold", "operations"]),
    ("mlp", "dropout", ["dropout", "aten::native_dropout", "aten::bernoulli", "aten::mul"]),
    ("mlp", "gelu", ["gelu"]),
    ("mlp", "adam", ["Adam", "adam", "_foreach", "aten::sqrt", "aten::addcdiv", "aten::lerp", "aten::addcmul", "aten::mul"]),
    ("mlp", "batch", ["aten::addmm", "aten::mm", "aten::relu", "aten::threshold", "operations"]),
    ("mlp", "python", ["tokens", "python"]),
    ("mlp", "sleep", ["sleep"]),
    ("mlp", "clone", ["clone", "aten::copy_", "main"]),
    ("mlp", "sync_file", ["fsync", "disk"]),
    ("mlp", "sort", ["sort"]),
    ("mlp", "svd", ["svd"]),
    ("mlp", "norms", ["norm", "item", "_local_scalar"]),
    ("loader", "augment", ["input", "__getitem__", "augment", "dataloader", "_get_data", "poll", "connection"]),
    ("loader", "read", ["input", "__getitem__", "dataloader", "_get_data", "poll", "connection"]),
    ("loader", "no_workers", ["input", "__getitem__", "fetch", "collate", "aten::stack", "aten::cat", "aten::full", "aten::fill_"]),
    ("jax_step", "twice", ["step", "operations", "block_until_ready", "jit"]),
    ("records", "parse", ["parse", "json", "decode", "encode", "dumps"]),
    ("records", "copies", ["concatenate", "main", "operations", "reclaim"]),
]
PROGRAMS = ["mlp", "loader", "jax_step", "records"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "same", "live", "planted"))
    parser.add_argument("--tbprof", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--times", type=int)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--program", action="append", help="of these alone")
    return parser.parse_args()


def command_of(options, program):
    return [options.python, str(HERE / "programs" / (program + ".py"))]


def record(options):
    """One run of each program in turn, so that what the machine does meanwhile hits all."""
    for number in range(options.count):
        for program in options.program or PROGRAMS:
            logdir = f"{options.out}/{program}"
            result = subprocess.run([options.tbprof, "run", "--quiet", f"--logdir={logdir}", f"--run=run-{number:03}",
                                     "--", *command_of(options, program)], capture_output=True, text=True)
            if result.returncode != 0:
                sys.exit(f"{program}: status {result.returncode}: {result.stderr[-500:]}")
            for profile in pathlib.Path(logdir).glob("plugins/profile/*/*.xplane.pb"):
                profile.unlink()
        print(number + 1, "of", options.count, flush=True)


def compare(options, base, now):
    words = [f"--base={path}" for path in base] + [f"--new={path}" for path in now]
    result = subprocess.run([options.tbprof, "compare", "--json", *words], capture_output=True, text=True)
    if result.returncode not in (0, 1, 2):
        sys.exit(f"compare: status {result.returncode}: {result.stderr[-500:]}")
    return json.loads(result.stdout)


def save(options, name, columns, rows):
    with open(f"{options.out}/{name}.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    for row in [columns, *rows]:
        print("  ".join(f"{str(value):<22}" for value in row), flush=True)


def same(options):
    """Half of the comparisons with sides that alternate in time, half with any."""
    rng = random.Random(options.seed)
    programs = options.program or PROGRAMS
    rows = []
    for program in programs:
        runs = sorted(pathlib.Path(f"{options.out}/{program}").glob("plugins/profile/*"))
        answers, counts = collections.Counter(), collections.Counter()
        for number in range((options.times or 2000) // len(programs)):
            start = rng.randrange(0, len(runs) - 2 * options.runs + 1)
            window = runs[start:start + 2 * options.runs]
            sides = [[], []]
            for pair in range(options.runs):
                first = rng.randrange(2)
                sides[first].append(window[2 * pair])
                sides[1 - first].append(window[2 * pair + 1])
            found = compare(options, *sides)
            answers[found["answer"]] += 1
            for quantity in found["quantities"]:
                if quantity["name"].endswith("_per_step"):
                    counts[quantity["answer"] if quantity["exact"] else "not countable"] += 1
        rows.append([program, options.runs, sum(answers.values()), answers["worse"], answers["better"],
                     answers["equivalent"], answers["cannot_tell"], counts["worse"], counts["equivalent"],
                     counts["not countable"]])
    save(options, "same", ["program", "runs a side", "comparisons", "worse", "better", "equivalent", "cannot tell",
                           "counts worse", "counts equal", "counts not countable"], rows)


def run_ab(options, program, base_plant, plant):
    command = " ".join(command_of(options, program))
    result = subprocess.run(
        [options.tbprof, "ab", "--json", f"--pairs={options.pairs}", f"--logdir={options.out}/ab",
         f"--base=PLANT={base_plant} {command}", f"--new=PLANT={plant} {command}"], capture_output=True, text=True)
    if result.returncode not in (0, 1, 2) or not result.stdout:
        sys.exit(f"{program} {plant}: status {result.returncode}: {result.stderr[-800:]}")
    return json.loads(result.stdout)


def live(options):
    programs = options.program or PROGRAMS
    rows = []
    for program in programs:
        answers = collections.Counter()
        for _ in range((options.times or 200) // len(programs)):
            answers[run_ab(options, program, "", "")["answer"]] += 1
        rows.append([program, options.pairs, sum(answers.values()), answers["worse"], answers["better"],
                     answers["equivalent"], answers["cannot_tell"]])
    save(options, "live", ["program", "most pairs", "comparisons", "worse", "better", "equivalent", "cannot tell"], rows)


def planted(options):
    rows, right = [], 0
    for program, plant, names in PLANTED:
        if not names or (options.program and program not in options.program):
            continue
        found = run_ab(options, program, "", plant)
        first = found["blame"][0]["name"] if found["blame"] else ""
        fits = any(name in first for name in names)
        right += fits
        change = next((q["change"] for q in found["quantities"] if q["name"] == "step_time"), None)
        rows.append([program, plant, found["answer"], "" if change is None else f"{100 * change:+.1f} %", first,
                     "right" if fits else "wrong"])
    save(options, "planted", ["program", "planted", "answer", "step", "first cause", "fits"], rows)
    print(f"{right} of {len(rows)} right")


if __name__ == "__main__":
    arguments = parse_arguments()
    os.makedirs(arguments.out, exist_ok=True)
    {"record": record, "same": same, "live": live, "planted": planted}[arguments.what](arguments)
