#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills sampled Python programs, or the tbprof that samples them, at random moments.

    tests/python_kills/run.py --tbprof=PATH [--count=50] [--python=PATH] [--seed=N]

A program of four busy threads, whose functions f0, f1, ... and g0, g1, ... never call each other, gets SIGKILL up to 60 ms
after it has begun; in every fifth round its tbprof does, and `tbprof recover` converts what is left. Checked of every round:
tbprof ends by the signal of the command, the profile has no corrupt records, every sample has its stack of known functions,
and of 1,000 stacks at most one is impossible. The program ends with its standard input, should this script be killed. Exit
status: 0, or 1 with a line for each fault.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import os, threading
source = "def spin(n):\\n    for _ in range(200): n += 1\\n    return n\\n"
for family in "fg":
    for i in range(12):
        call = "spin(n)" if i == 11 else "%s%d(n) + 1" % (family, i + 1)
        source += "def %s%d(n):\\n    return %s\\n" % (family, i, call)
exec(compile(source, "families.py", "exec"))
def work():
    while True:
        f0(1)
        g0(1)
def end():
    os.read(0, 1)
    os._exit(0)
for target in (work, work, work, end):
    threading.Thread(target=target, daemon=True).start()
os.write(1, b"%d\\n" % os.getpid())
work()
"""
FRAME = re.compile(r"^.+ \(.+:\d+\)$")
FAMILY = re.compile(r"^([fg])(\d+) \(families\.py:\d+\)$")
NO_FRAMES = "(no Python frames)"


def is_possible(frames):
    """Whether the frames, outermost first, are those of one family in order."""
    family, expected = None, 0
    for frame in frames:
        match = FAMILY.match(frame)
        if match:
            if family not in (None, match[1]) or int(match[2]) != expected:
                return False
            family, expected = match[1], expected + 1
    return True


class Totals:
    samples = impossible = without_samples = 0


def check_profile(folded, summary, totals):
    """Faults of one profile, as lines."""
    faults = []
    if summary["records"]["corrupt"]:
        faults.append("corrupt records")
    python = summary.get("python")
    if python is None:
        totals.without_samples += 1
        return faults
    counted = sum(process["samples"] for process in python["processes"])
    for process in python["processes"]:
        if process["state"] != "sampled":
            faults.append(f"state {process['state']}: {process['reason']}")
    found = 0
    for path in folded:
        with open(path, encoding="utf-8") as file:
            for line in file:
                stack, number = line.rstrip("\n").rsplit(" ", 1)
                frames = stack.split(";")[2:]
                if stack.startswith("native "):
                    continue  # samples of the kernel's
                found += int(number)
                for frame in frames:
                    if frame != NO_FRAMES and not FRAME.match(frame):
                        faults.append(f"a frame without a function: {frame}")
                if not is_possible(frames):
                    totals.impossible += int(number)
    if found != counted:
        faults.append(f"{found} samples have a stack, {counted} were counted")
    totals.samples += found
    return faults


def files_below(directory, ending):
    return [os.path.join(at, name) for at, _, names in os.walk(directory) for name in names if name.endswith(ending)]


def run_round(arguments, number, rng, totals, work):
    kill_tbprof = number % 5 == 4
    logdir = os.path.join(work, f"logs{number}")
    spools = os.path.join(work, f"spools{number}")
    os.mkdir(spools)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TBPROF_")}
    tbprof = subprocess.Popen(
        [arguments.tbprof, "run", "--quiet", "--sample-rate=1000", "--also=folded", f"--logdir={logdir}",
         f"--spool-dir={spools}", "--", arguments.python, "-c", PROGRAM],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    program = int(tbprof.stdout.readline())
    time.sleep(rng.uniform(0, 0.06))
    try:
        os.kill(tbprof.pid if kill_tbprof else program, signal.SIGKILL)
    finally:
        if kill_tbprof:
            tbprof.wait()
            os.kill(program, signal.SIGKILL)
    _, said = tbprof.communicate(timeout=120)
    faults = []
    if not kill_tbprof and tbprof.returncode != -signal.SIGKILL:
        faults.append(f"tbprof's status is {tbprof.returncode}: {said.decode()}")
    if kill_tbprof:
        left = [os.path.join(spools, name) for name in os.listdir(spools)]
        recover = subprocess.run([arguments.tbprof, "recover", "--quiet", "--also=folded", f"--logdir={logdir}", *left],
                                 capture_output=True, env=environment, timeout=120)
        if recover.returncode != 0:
            faults.append(f"recover's status is {recover.returncode}: {recover.stderr.decode()}")
    summaries = files_below(logdir, "summary.json")
    if not summaries:
        return faults + [f"no profile: {said.decode()}"]
    with open(summaries[0], encoding="utf-8") as file:
        summary = json.load(file)
    return faults + check_profile(files_below(logdir, ".folded"), summary, totals)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tbprof", required=True)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    totals = Totals()
    failed = 0
    for number in range(arguments.count):
        with tempfile.TemporaryDirectory(prefix="tbprof-kills-") as work:
            for fault in run_round(arguments, number, rng, totals, work):
                print(f"round {number}: {fault}")
                failed = 1
    print(f"seed {arguments.seed}: {arguments.count} rounds, {totals.samples} samples, {totals.impossible} impossible, "
          f"{totals.without_samples} profiles without samples")
    if totals.impossible * 1000 > totals.samples or totals.samples == 0:
        print("too many impossible stacks, or no samples")
        failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
