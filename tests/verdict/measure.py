#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of programs.toml under `tbprof run` and compares the verdict of each with what was planted in it.

    measure.py --tbprof build/bin/tbprof --python venv/bin/python --out results
    measure.py --bare                      # without tbprof: are the programs what programs.toml says?

A program writes its own times into the file that VERDICT_CLOCK names. Needs Python 3.11 (tomllib), nothing else.
"""

import argparse
import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
ROOT = os.path.dirname(os.path.dirname(HERE))
PARTS = {"input", "operations", "python", "launch", "kernels", "copies", "collectives", "locks", "gil", "gc", "reclaim",
         "disk", "network", "child", "sleep", "starvation", "compile", "rest"}
TIMEOUT_S = 180
GROUPS = ("open", "sealed", "unseen")
COLUMNS = ("name", "group", "status", "healthy", "expected", "got", "part", "share", "line", "largest_difference_points",
           "largest_difference_part", "split_sum", "bare_s", "profiled_s", "reason")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tbprof", default=os.path.join(ROOT, "build", "bin", "tbprof"))
    parser.add_argument("--python", default=sys.executable, help="runs the programs that need third-party modules")
    parser.add_argument("--plain-python", default="/usr/bin/python3", help="runs all others")
    parser.add_argument("--sim", default=os.path.join(ROOT, "build", "tests", "sim", "cuda13"),
                        help="directory of the simulated libcuda.so.1")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--group", choices=(*GROUPS, "all"), default="all")
    parser.add_argument("--out", default="verdict-results")
    parser.add_argument("--keep", action="store_true", help="keep the profiles, and what tbprof said")
    parser.add_argument("--bare", action="store_true", help="check the programs themselves, without tbprof")
    return parser.parse_args()


def load_programs(options):
    with open(os.path.join(HERE, "programs.toml"), "rb") as file:
        table = tomllib.load(file)
    programs = []
    for name, program in table.items():
        program = dict(program, name=name, group=program["file"].split("/")[0],
                       path=os.path.join(PROGRAMS, program["file"]))
        if options.only and name not in options.only:
            continue
        if options.group in ("all", program["group"]):
            programs.append(program)
    if not programs:
        sys.exit("measure.py: no program of that name or group")
    return programs


def interpreter(program, options):
    return options.python if set(program["needs"]) - {"cuda-simulator"} else options.plain_python


def missing(program, options, known={}):
    """Why this program cannot run here; None if it can."""
    if program["root"] and os.geteuid() != 0:
        return "needs root"
    python = interpreter(program, options)
    for module in program["needs"]:
        if module == "cuda-simulator":
            if not os.path.exists(os.path.join(options.sim, "libcuda.so.1")):
                return f"no libcuda.so.1 in {options.sim}"
            continue
        if (python, module) not in known:
            found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
            known[python, module] = found.returncode == 0
        if not known[python, module]:
            return f"{python} has no {module}"
    return None


def marks(path):
    """Lines marked as the cause, and as the wait for it."""
    found = {"cause": [], "wait": []}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            mark = re.search(r"#.*\bthe (cause|wait)\s*$", line)
            if mark:
                found[mark.group(1)].append(number)
    return found


def run(program, options, directory, launcher):
    """The program's result, its seconds, and what its own clock says (None: not written)."""
    clock = os.path.join(directory, "clock.json")
    if os.path.exists(clock):
        os.remove(clock)
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
    environment.update(VERDICT_CLOCK=clock, PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0")
    if "cuda-simulator" in program["needs"]:
        environment["LD_LIBRARY_PATH"] = os.path.abspath(options.sim)
    begin = time.perf_counter()
    process = subprocess.Popen(launcher + [interpreter(program, options), program["path"]], cwd=directory,
                               env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its workers, too: they hold the pipes
        out, err = process.communicate()
    seconds = time.perf_counter() - begin
    times = None
    if os.path.exists(clock):
        with open(clock, encoding="utf-8") as file:
            times = json.load(file)
    return {"code": process.returncode, "out": out, "err": err, "seconds": seconds, "times": times}


def own_messages_removed(text):
    return [line for line in text.splitlines() if not line.startswith("tbprof: ")]


def failure(result):
    """What is wrong with a run, whether profiled or not."""
    if result["code"] != 0:
        return f"exit status {result['code']}: {result['err'].strip().splitlines()[-1:]}"
    times = result["times"]
    if times is None:
        return "no clock file"
    if times["steps"] != len(times["step_s"]) or times["steps"] < 40:
        return f"{times['steps']} steps, {len(times['step_s'])} times"
    unknown = set(times["parts"]) - PARTS
    if unknown:
        return f"unknown parts {sorted(unknown)}"
    total = sum(times["step_s"])
    if sum(times["parts"].values()) > total * 1.0001 or min(times["parts"].values()) < 0:
        return f"parts {sum(times['parts'].values()):.3f} s of {total:.3f} s"
    return None


def bare_row(program, result):
    """The shares that the program measures itself, and what is wrong with them."""
    row = {"name": program["name"], "problems": [failure(result)] if failure(result) else []}
    if row["problems"]:
        return row
    times = result["times"]
    total = sum(times["step_s"])
    shares = {part: seconds / total for part, seconds in sorted(times["parts"].items(), key=lambda item: -item[1])}
    ordered = sorted(times["step_s"])
    row.update(seconds=result["seconds"], steps=times["steps"], median_ms=1000 * ordered[len(ordered) // 2],
               shares=shares)
    if not 20 <= row["median_ms"] <= 150:
        row["problems"].append("median step is not 20 to 150 ms")
    if not 4 <= result["seconds"] <= 14:
        row["problems"].append("does not run 5 to 12 s")
    found = marks(program["path"])
    useful = {"operations", "kernels", "python", "rest"}
    if program["healthy"]:
        row["planted"] = None
        others = {part: share for part, share in shares.items() if part not in useful | {"launch"}}
        if others and max(others.values()) > 0.15:
            row["problems"].append("healthy, and bound by something else")
        if found["cause"] or found["wait"]:
            row["problems"].append("healthy, and a line is marked")
        return row
    part = program.get("part")
    row["planted"] = times["cause_s"] / total if "cause_s" in times else shares.get(part, 0.0)
    if not 0.35 <= row["planted"] <= 0.85:
        row["problems"].append("planted share is not 35 to 85 %")
    others = {name: share for name, share in shares.items() if name not in useful | {part}}
    if others and "cause_s" not in times and max(others.values()) >= row["planted"]:
        row["problems"].append("another cause is larger")
    if not found["cause"]:
        row["problems"].append("no line is marked as the cause")
    return row


def check_bare(programs, options):
    rows = []
    print(f"{'program':<26} {'run':>6} {'steps':>5} {'median':>8} {'planted':>8}  own shares in %")
    for program in programs:
        reason = missing(program, options)
        if reason:
            print(f"{program['name']:<26} skipped: {reason}")
            continue
        directory = os.path.join(options.out, program["name"])
        os.makedirs(directory, exist_ok=True)
        row = bare_row(program, run(program, options, directory, []))
        rows.append(row)
        if "shares" in row:
            shares = " ".join(f"{part} {100 * share:.0f}" for part, share in row["shares"].items())
            planted = "-" if row["planted"] is None else f"{100 * row['planted']:.0f} %"
            print(f"{row['name']:<26} {row['seconds']:5.1f}s {row['steps']:>5} {row['median_ms']:6.1f}ms {planted:>8}  {shares}")
        for problem in row["problems"]:
            print(f"{row['name']:<26} PROBLEM: {problem}")
        sys.stdout.flush()
    bad = sum(bool(row["problems"]) for row in rows)
    print(f"{len(rows)} programs, {bad} with problems, {len(programs) - len(rows)} skipped")
    return 1 if bad else 0


def line_found(program, where):
    """`cause`, `wait` or `no`: which of the marked lines is among those that the verdict names."""
    found = marks(program["path"])
    named = {place.get("line") for place in where or []
             if os.path.basename(place.get("file") or "") == os.path.basename(program["path"])}
    for kind in ("cause", "wait"):
        if named & set(found[kind]):
            return kind
    return "no"


def largest_difference(split, times):
    """In points of the steps' time, over the parts that the program knows."""
    total = sum(times["step_s"])
    shares = {}
    for part in (split or {}).get("parts") or []:
        shares[part["part"]] = shares.get(part["part"], 0.0) + (part.get("share") or 0.0)
    worst = (None, None)
    for part, seconds in times["parts"].items():
        difference = 100 * (shares.get(part, 0.0) - seconds / total)
        if part != "rest" and (worst[0] is None or abs(difference) > abs(worst[0])):
            worst = (difference, part)
    return worst + (sum(shares.values()) if shares else None,)


def judge(program, verdict):
    cause = verdict.get("cause")
    if program["healthy"]:
        return "right" if cause in (None, "unknown") or cause in program["causes"] else "false"
    if cause in (None, "unknown"):
        return "unknown"
    return "right" if cause in program["causes"] else "wrong"


def measure(program, options):
    row = dict.fromkeys(COLUMNS)
    row.update(name=program["name"], group=program["group"], healthy=program["healthy"],
               expected="/".join(program["causes"]))
    reason = missing(program, options)
    if reason:
        return dict(row, status="skipped", reason=reason)
    directory = os.path.join(options.out, program["name"])
    logs = os.path.join(directory, "logs")
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    bare = run(program, options, directory, [])
    row["bare_s"] = bare["seconds"]
    if failure(bare):
        return dict(row, status="error", reason="bare: " + failure(bare))
    profiled = run(program, options, directory, [os.path.abspath(options.tbprof), "run", f"--logdir={logs}", "--"])
    row["profiled_s"] = profiled["seconds"]
    if options.keep:
        with open(os.path.join(directory, "said.txt"), "w", encoding="utf-8") as file:
            file.write(profiled["err"])
    if failure(profiled):
        return dict(row, status="error", reason=failure(profiled))
    if profiled["out"] != bare["out"] or own_messages_removed(profiled["err"]) != own_messages_removed(bare["err"]):
        return dict(row, status="error", reason="output differs from the bare run's")
    summaries = glob.glob(os.path.join(logs, "plugins", "profile", "*", "*summary.json"))
    # Of a launcher with several ranks, summary.json has the verdict that the terminal shows.
    summaries.sort(key=lambda path: (os.path.basename(path) != "summary.json", path))
    if not summaries:
        return dict(row, status="error", reason="no summary.json")
    with open(summaries[0], encoding="utf-8") as file:
        verdict = json.load(file).get("verdict")
    if not options.keep:
        shutil.rmtree(logs, ignore_errors=True)
    row["times"] = profiled["times"]
    if verdict is None:
        return dict(row, status="no verdict")
    difference, part, total = largest_difference(verdict.get("split"), profiled["times"])
    row.update(status=judge(program, verdict), got=verdict.get("cause") or "unknown", part=verdict.get("part"),
               share=verdict.get("share"), line=line_found(program, verdict.get("where")), verdict=verdict,
               largest_difference_points=difference, largest_difference_part=part, split_sum=total)
    return row


def show(row):
    if row["status"] in ("skipped", "error", "no verdict"):
        return f"{row['name']:<26} {row['status']:<10} {row['reason'] or ''}"
    text = lambda value, form: "-" if value is None else format(value, form)  # noqa: E731
    share = "-" if row["share"] is None else f"{100 * row['share']:.0f} %"
    return (f"{row['name']:<26} {row['status']:<10} {row['expected'][:28]:<28} {row['got']:<18} {share:>6} "
            f"line {row['line']:<6} {text(row['largest_difference_points'], '+6.1f')} ({row['largest_difference_part']}) "
            f"sum {text(row['split_sum'], '.3f')}")


def totals(rows):
    planted = [row for row in rows if not row["healthy"] and row["status"] in ("right", "wrong", "unknown", "no verdict")]
    healthy = [row for row in rows if row["healthy"] and row["status"] in ("right", "false", "no verdict")]
    count = lambda part, field, *values: sum(row[field] in values for row in part)  # noqa: E731
    return {
        "planted": len(planted), "planted_right": count(planted, "status", "right"),
        "planted_wrong": count(planted, "status", "wrong"), "planted_unknown": count(planted, "status", "unknown"),
        "healthy": len(healthy), "healthy_false": count(healthy, "status", "false"),
        "lines_cause": count(planted, "line", "cause"), "lines_wait_only": count(planted, "line", "wait"),
        "no_verdict": count(rows, "status", "no verdict"), "errors": count(rows, "status", "error"),
        "skipped": count(rows, "status", "skipped"),
    }


def main():
    options = parse_arguments()
    programs = load_programs(options)
    os.makedirs(options.out, exist_ok=True)
    options.out = os.path.abspath(options.out)
    if options.bare:
        return check_bare(programs, options)
    if not os.access(options.tbprof, os.X_OK):
        sys.exit(f"measure.py: no tbprof at {options.tbprof}: --tbprof PATH")
    rows = []
    for program in programs:
        rows.append(measure(program, options))
        print(show(rows[-1]), flush=True)
    result = {group: totals([row for row in rows if row["group"] == group]) for group in GROUPS}
    result["all"] = totals(rows)
    for group, sums in result.items():
        if any(row["group"] == group for row in rows) or group == "all":
            print(f"{group}: {sums['planted_right']} of {sums['planted']} planted right, {sums['planted_wrong']} wrong, "
                  f"{sums['planted_unknown']} unknown; {sums['healthy_false']} of {sums['healthy']} healthy false; "
                  f"lines: {sums['lines_cause']} causes, {sums['lines_wait_only']} waits only; "
                  f"{sums['no_verdict']} without a verdict, {sums['errors']} errors, {sums['skipped']} skipped")
    with open(os.path.join(options.out, "verdicts.json"), "w", encoding="utf-8") as file:
        json.dump({"totals": result, "programs": rows}, file, indent=1)
    with open(os.path.join(options.out, "verdicts.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return 1 if result["all"]["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
