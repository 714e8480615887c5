#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How often `tbprof compare` and `ab` are wrong, on runs of real programs.

    measure.py record  --tbprof=T --python=P --out=DIR [--count=40]      runs of each program, all alike
    measure.py same    --tbprof=T --out=DIR [--times=2000] [--runs=10]   A/A: random choices of them as two sides
    measure.py live    --tbprof=T --python=P --out=DIR [--times=200]     A/A: pairs that are made for the purpose
    measure.py others  --out=DIR [--times=2000] [--runs=10]              what other tools say of the same choices (scipy)
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
# Program, what is planted, what the first cause must name: one of these, or a line of what is planted.
PLANTED = [
    ("mlp", "normalise", ["normalise", "aten::std", "aten::div", "aten::sub", "aten::mean"]),
    ("mlp", "compress", ["archive", "zlib"]),
    ("mlp", "wider", ["aten::addmm", "aten::mm", "aten::relu", "aten::_foreach", "aten::threshold", "operations"]),
    ("mlp", "dropout", ["dropout", "aten::native_dropout", "aten::bernoulli", "aten::mul"]),
    ("mlp", "gelu", ["gelu"]),
    ("mlp", "adam", ["Adam", "adam", "_foreach", "aten::sqrt", "aten::addcdiv", "aten::lerp", "aten::addcmul", "aten::mul"]),
    ("mlp", "batch", ["aten::addmm", "aten::mm", "aten::relu", "aten::threshold", "operations", "Linear.forward"]),
    ("mlp", "python", ["tokens", "python"]),
    ("mlp", "sleep", ["sleep"]),
    ("mlp", "clone", ["clone", "aten::copy_", "main"]),
    ("mlp", "sync_file", ["fsync", "disk"]),
    ("mlp", "sort", ["sort"]),
    ("mlp", "svd", ["svd"]),
    ("mlp", "norms", ["norm", "item", "_local_scalar"]),
    ("loader", "augment", ["input", "__getitem__", "aten::add", "aten::flip"]),
    ("loader", "read", ["input", "__getitem__"]),
    ("loader", "pad", ["input", "loader.py:29 pad"]),
    ("jax_step", "twice", ["step", "operations", "block_until_ready", "jit"]),
    ("records", "parse", ["parse", "json", "decode", "encode", "dumps"]),
    ("clusters", "rank", ["argsort"]),
    ("records", "copies", ["aten::cat", "main", "reclaim"]),
]
PROGRAMS = ["mlp", "loader", "jax_step", "records", "clusters"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "same", "others", "live", "planted"))
    parser.add_argument("--tbprof", default="tbprof")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--times", type=int)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slower", type=float, default=0, help="same, others: percent that the new side is made slower")
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


def choices(options, program, count):
    """Sides of runs that were made near one another, in random pairs."""
    rng = random.Random(f"{options.seed} {program}")
    runs = sorted(pathlib.Path(f"{options.out}/{program}").glob("plugins/profile/*"))
    for _ in range(count):
        start = rng.randrange(0, len(runs) - 2 * options.runs + 1)
        window = runs[start:start + 2 * options.runs]
        sides = [[], []]
        for pair in range(options.runs):
            first = rng.randrange(2)
            sides[first].append(window[2 * pair])
            sides[1 - first].append(window[2 * pair + 1])
        yield sides


def slow_down(options, program):
    """Copies of all summaries in which each regular step took longer; where they are."""
    factor = 1 + options.slower / 100
    target = f"{options.out}/slower-{options.slower:g}/{program}"
    for path in pathlib.Path(f"{options.out}/{program}").glob("plugins/profile/*/*summary.json"):
        summary = json.loads(path.read_text())
        steps = summary["steps"]
        for step in steps["list"] or []:
            step["duration_s"] *= factor if step["regular"] else 1
        for part in (steps, steps["distribution"]):
            for name in part:
                if name.endswith("_s"):
                    part[name] *= factor
        copy = pathlib.Path(target) / path.parent.name
        copy.mkdir(parents=True, exist_ok=True)
        (copy / "summary.json").write_text(json.dumps(summary))
    return target


def same(options):
    programs = options.program or PROGRAMS
    rows = []
    for program in programs:
        answers, counts = collections.Counter(), collections.Counter()
        target = slow_down(options, program) if options.slower else None
        for base, now in choices(options, program, (options.times or 2000) // len(programs)):
            if target:
                now = [f"{target}/{path.name}/summary.json" for path in now]
            found = compare(options, base, now)
            answers[found["answer"]] += 1
            for quantity in found["quantities"]:
                if quantity["name"].endswith("_per_step"):
                    counts[quantity["answer"] if quantity["exact"] else "not countable"] += 1
        rows.append([program, options.slower, options.runs, sum(answers.values()), answers["worse"], answers["better"],
                     answers["equivalent"], answers["cannot_tell"], counts["worse"], counts["equivalent"],
                     counts["not countable"]])
    save(options, f"same-{options.slower:g}", ["program", "slower %", "runs a side", "comparisons", "worse", "better",
                                               "equivalent", "cannot tell", "counts worse", "counts equal",
                                               "counts not countable"], rows)


def others(options):
    """By the rules of their sources: hyperfine 1.19 (ratio of means, and its deviation), Google Benchmark's compare.py
    (two-sided U test at 0.05 of the repetitions), pytest-benchmark (--benchmark-compare-fail=mean:3%)."""
    import statistics

    from scipy.stats import mannwhitneyu

    def hyperfine(base, now):
        a, b = statistics.mean(base), statistics.mean(now)
        ratio = b / a
        deviation = ratio * ((statistics.stdev(base) / a) ** 2 + (statistics.stdev(now) / b) ** 2) ** 0.5
        return ratio - deviation > 1

    def google(base, now):
        return mannwhitneyu(base, now, alternative="two-sided").pvalue < 0.05 and sum(now) > sum(base)

    def pytest_benchmark(base, now):
        return statistics.mean(now) > 1.03 * statistics.mean(base)

    rules = {"hyperfine": hyperfine, "Google Benchmark compare.py": google, "pytest-benchmark mean:3%": pytest_benchmark}
    rows = []
    for program in options.program or PROGRAMS:
        medians = {}
        for path in pathlib.Path(f"{options.out}/{program}").glob("plugins/profile/*/*summary.json"):
            medians[path.parent] = json.loads(path.read_text())["steps"]["median_s"]
            if medians[path.parent] is None:
                sys.exit(f"{path}: no steps")
        found = collections.Counter()
        times = (options.times or 2000) // len(options.program or PROGRAMS)
        for base, now in choices(options, program, times):
            for name, rule in rules.items():
                found[name] += rule([medians[path] for path in base],
                                    [medians[path] * (1 + options.slower / 100) for path in now])
        rows += [[name, program, options.slower, options.runs, times, found[name]] for name in rules]
    save(options, f"others-{options.slower:g}", ["tool", "program", "slower %", "runs a side", "comparisons", "worse"], rows)


def run_ab(options, program, base_plant, plant):
    command = " ".join(command_of(options, program))
    result = subprocess.run(
        [options.tbprof, "ab", "--json", f"--pairs={options.pairs}", f"--logdir={options.out}/ab",
         f"--base=PLANT={base_plant} {command}", f"--new=PLANT={plant} {command}"], capture_output=True, text=True)
    if result.returncode not in (0, 1, 2) or not result.stdout:
        sys.exit(f"{program} {plant}: status {result.returncode}: {result.stderr[-800:]}")
    return json.loads(result.stdout)


def change_of(found):
    """Of the step time, in words."""
    change = next((q["change"] for q in found["quantities"] if q["name"] == "step_time"), None)
    return "" if change is None else f"{100 * change:+.1f} %"


def live(options):
    """Programs in turn, so that what the machine does meanwhile hits all; what is known so far is in `live-each.csv`."""
    programs = options.program or PROGRAMS
    answers = {program: collections.Counter() for program in programs}
    with open(os.path.join(options.out, "live-each.csv"), "w", newline="", encoding="utf-8") as file:
        each = csv.writer(file)
        each.writerow(["program", "answer", "reason", "step"])
        for number in range(options.times or 200):
            program = programs[number % len(programs)]
            found = run_ab(options, program, "", "")
            answers[program][found["answer"]] += 1
            each.writerow([program, found["answer"], found["reason"], change_of(found)])
            file.flush()
    rows = [[program, options.pairs, sum(found.values()), found["worse"], found["better"], found["equivalent"],
             found["cannot_tell"]] for program, found in answers.items()]
    save(options, "live", ["program", "most pairs", "comparisons", "worse", "better", "equivalent", "cannot tell"], rows)


def lines_of(program, plant):
    """`mlp.py:52 `, ...: the lines that run with this plant alone."""
    source = (HERE / "programs" / (program + ".py")).read_text().splitlines()
    depth = None
    found = []
    for number, line in enumerate(source, 1):
        indent = len(line) - len(line.lstrip())
        if f'PLANT == "{plant}"' in line:
            depth = indent if line.endswith(":") else None
        elif depth is None or indent <= depth:
            depth = None
            continue
        found.append(f"{program}.py:{number} ")
    return found


def planted(options):
    rows, right = [], 0
    for program, plant, names in PLANTED:
        if not names or (options.program and program not in options.program):
            continue
        found = run_ab(options, program, "", plant)
        first = found["blame"][0]["name"] if found["blame"] else ""
        fits = any(name in first for name in names + lines_of(program, plant))
        right += fits
        rows.append([program, plant, found["answer"], change_of(found), first,
                     "right" if fits else "wrong"])
    save(options, "planted", ["program", "planted", "answer", "step", "first cause", "fits"], rows)
    print(f"{right} of {len(rows)} right")


if __name__ == "__main__":
    arguments = parse_arguments()
    os.makedirs(arguments.out, exist_ok=True)
    {"record": record, "same": same, "others": others, "live": live, "planted": planted}[arguments.what](arguments)
