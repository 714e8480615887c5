# SPDX-License-Identifier: Apache-2.0
"""How well sampled operations show what a program's time goes to: torch_sampling.py [--tbprof T] [--seconds S] [NAME...]

Runs each program of torch_programs.py with --torch=all and as it comes, in turns, and compares the share that each
operation has of all self time, on TensorBoard's page of operations (xprof's own converter) and in summary.json. Prints
for each program the share of operations recorded, and the largest difference in points among the operations over 3 %: of the
page's self times, of summary.json's, and of its numbers of calls. On a busy machine times differ from run to run by more than
sampling does, since an operation that the machine takes the processor from counts as long as that; numbers of calls do not. There
TORCH_PROGRAMS_FIFO=1 is for times.
"""

import argparse
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "xprof")]

import tool_data  # noqa: E402

LARGE = 3  # percent


def shares(times):
    whole = sum(times.values())
    return {name: 100 * time / whole for name, time in times.items()} if whole > 0 else {}


class Run:
    def __init__(self, tbprof, program, seconds, options):
        with tempfile.TemporaryDirectory(prefix="torch_sampling.") as directory:
            summary = os.path.join(directory, "summary.json")
            command = [tbprof, "run", "--logdir", directory, "--port=none", "--summary-json", summary, *options, "--",
                       sys.executable, os.path.join(HERE, "torch_programs.py"), program, str(seconds)]
            done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
            if done.returncode != 0:
                sys.exit(done.stderr)
            self.said = [line for line in done.stderr.splitlines() if "PyTorch" in line and "operations" in line]
            with open(summary) as file:
                self.summary = json.load(file)
            paths = glob.glob(os.path.join(directory, "plugins", "profile", "*", "*.xplane.pb"))
            with tool_data.ToolData(os.path.dirname(paths[0])) as data:
                rows = tool_data.op_rows(data)
        self.page = {name: row["total_self_time"] for (_, name), row in rows.items() if row["type"] not in ("Sampled",)}
        operations = self.summary["processes"][0]["operations"]
        torch = [row for row in operations if re.search(r"::|Backward", row["operation"])]
        self.recorded = sum(row["recorded"] for row in torch)
        self.own, self.calls = collections.Counter(), collections.Counter()
        for row in torch:
            self.own[row["operation"]] += row["self_s"] or 0
            self.calls[row["operation"]] += row["calls"]

    def compare(self, whole, kind):
        ours, theirs = shares(getattr(self, kind)), shares(getattr(whole, kind))
        worst = max(((abs(ours.get(name, 0) - share), name) for name, share in theirs.items() if share > LARGE),
                    default=(0, "-"))
        extra = max(((share - theirs.get(name, 0), name) for name, share in ours.items()), default=(0, "-"))
        return max(worst, extra)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tbprof", default=os.path.join(HERE, "..", "..", "build", "bin", "tbprof"))
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("programs", nargs="*")
    arguments = parser.parse_args()
    names = arguments.programs or ["transformer", "cnn", "rl", "inference", "lstm", "gan"]
    print(f"{'program':12}{'recorded':>10}{'page':>8}{'summary':>9}{'calls':>8}  largest difference of the page")
    for name in names:
        sampled = Run(arguments.tbprof, name, arguments.seconds, [])
        whole = Run(arguments.tbprof, name, arguments.seconds, ["--torch=all", "--max-profile-size=1GiB"])
        page = sampled.compare(whole, "page")
        own, calls = sampled.compare(whole, "own"), sampled.compare(whole, "calls")
        print(f"{name:12}{100 * sampled.recorded / max(1, sum(sampled.calls.values())):9.1f}%{page[0]:8.1f}{own[0]:9.1f}"
              f"{calls[0]:8.1f}  {page[1]}")
        for line in sampled.said:
            print("    " + line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
