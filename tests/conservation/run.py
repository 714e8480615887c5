#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random runs, and whether everything that was called is in the profile or counted (docs/conservation.md).

    tests/conservation/run.py --tbprof=PATH --calls=PROGRAM [--count=1000] [--seed=1] [--only=N] [--jobs=1] [--sim=DIR]

Each run has a random mix of threads, fork children, execs, calls, options of tbprof and endings: return, exit, _exit,
SIGKILL, SIGSEGV, SIGTERM, threads that run on, a tbprof that is killed before `tbprof recover`, a spool that is full,
with --small-disks a disk that is.
Checked of each: every kind's sum holds or is unknown for a reason, a run that ends in order has no unknown sum, what the
program has counted itself is what was made (after a kill: up to one call a thread less), and `tbprof check` finds nothing
wrong with the profile. Exit status: 0, or 1 with a line for each fault.
"""

import argparse
import glob
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

KINDS = ["thread_calls", "lock_waits", "sleeps", "io_calls", "process_calls", "large_allocation_calls",
         "allocation_calls"]
ENDS = ["return"] * 4 + ["exit", "_exit", "pthread_exit", "kill", "kill", "kill", "segv", "term", "abandon"]
# What ends the program while a thread may be between two counts.
SUDDEN = {"kill", "segv", "term", "abandon", "exit", "_exit"}
PYTHON = """
import os, random, sys, threading, time
rng = random.Random(int(sys.argv[1]))
r, w = os.pipe()
lock = threading.Lock()
def work(n):
    for _ in range(n):
        k = rng.randrange(5)
        if k == 0: time.sleep(rng.random() / 5000)
        elif k == 1:
            os.write(w, b'x'); os.read(r, 1)
        elif k == 2:
            with lock: sum(range(200))
        else: bytearray(rng.randrange(1, 200000))
threads = [threading.Thread(target=work, args=(int(sys.argv[2]),)) for _ in range(int(sys.argv[3]))]
for t in threads: t.start()
pid = os.fork()
if pid == 0:
    work(20)
    os._exit(0)
os.waitpid(pid, 0)
for t in threads: t.join()
if sys.argv[4] == 'kill': os.kill(os.getpid(), 9)
"""


def read_counts(path):
    with open(path, "rb") as file:
        values = struct.unpack("9Q", file.read(72))
    return dict(zip(KINDS + ["begun", "threads"], values))


class Run:
    """One run: everything about it follows from its number."""

    def __init__(self, args, number):
        self.args = args
        self.number = number
        self.rng = rng = random.Random(args.seed * 1_000_003 + number)
        self.faults = []
        self.kernels = None
        self.children = 0
        self.contends = False
        self.python = rng.random() < 0.12
        self.sim = bool(args.sim) and not self.python and rng.random() < 0.2
        self.end = rng.choice(ENDS)
        self.options = []
        self.exact = rng.random() < 0.25
        if self.exact:
            self.options.append("--malloc=exact")
        if rng.random() < 0.3:
            self.options.append("--wait-threshold=" + rng.choice(["0", "200ns", "20us", "1ms"]))
        if rng.random() < 0.25:
            self.options.append("--max-profile-size=" + rng.choice(["1MiB", "2MiB"]))
        if rng.random() < 0.25:
            self.options.append("--malloc-interval=" + rng.choice(["4KiB", "64KiB", "8MiB"]))
        if rng.random() < 0.2:
            self.options.append("--sample-rate=" + rng.choice(["0", "1000"]))
        if rng.random() < 0.15:
            self.options.append("--buffer-size=4MiB")
        window = rng.choice(["", "", "", "all", "last=1s", "last=100ms"])
        if window:
            self.options.append("--window=" + window)
        self.full = rng.random() < 0.12
        self.kill_launcher = not self.full and rng.random() < 0.12
        if self.full:
            self.options.append("--spool-limit=" + rng.choice(["256KiB", "512KiB", "1MiB", "2MiB"]))
        self.disk_bytes = 0
        if args.small_disks and not self.full and rng.random() < 0.1:
            self.disk_bytes = rng.choice([128, 256, 1024, 4096]) << 10

    def command(self, directory):
        rng = self.rng
        if self.python:
            return [self.args.python, "-c", PYTHON, str(self.number), str(rng.randrange(10, 200)),
                    str(rng.randrange(0, 4)), self.end]
        if self.sim:
            return self.cuda_command()
        self.threads = rng.randrange(0, 9)
        calls = rng.choice([0, 10, 200, 2000, 8000])
        self.children = children = rng.choice([0, 0, 1, 4])
        at = rng.randrange(1, max(2, calls * (self.threads + 1))) if self.end in SUDDEN - {"_exit"} else 0
        self.contends = rng.random() < 0.5
        return [self.args.calls, directory + "/counts", str(self.number), str(self.threads), str(calls), str(children),
                self.end, str(at)] + (["contend"] if self.contends else [])

    def cuda_command(self):
        """Of a simulated GPU (tests/sim): ends by itself, or is killed after a while."""
        rng = self.rng
        self.end = rng.choice(["return", "return", "kill"])
        self.children = 0
        program = rng.choice(["launches", "launches", "copies", "graphs", "streams", "train"])
        command = [self.args.sim + "/subjects/" + program]
        if program == "launches":
            threads, launches = rng.randrange(1, 5), rng.choice([1, 50, 3000])
            command += [str(threads), str(launches)]
            # Each thread begins with one more.
            self.kernels = threads * (launches + 1) if self.end == "return" else None
        if program == "train":
            command += [str(rng.randrange(1, 200)), "20000"]
        if self.end == "kill":
            command = ["timeout", "-s", "KILL", f"{rng.random():.3f}"] + command
        return command

    def fault(self, text):
        self.faults.append(f"run {self.number} (end {self.end}, {' '.join(self.options)}): {text}")

    def go(self):
        with tempfile.TemporaryDirectory(prefix="conservation") as directory:
            if self.disk_bytes == 0:
                self.run_in(directory)
                return
            # A disk on which the records have no room.
            disk = directory + "/disk"
            os.mkdir(disk)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.disk_bytes}", "tmpfs", disk], check=True)
            try:
                self.options.append("--spool-dir=" + disk)
                self.run_in(directory)
            finally:
                subprocess.run(["umount", "--lazy", disk], check=True)

    def run_in(self, directory):
        logdir = directory + "/logs"
        command = self.command(directory)
        tbprof = [self.args.tbprof, "run", "--logdir=" + logdir, *self.options, "--", *command]
        self.shown = " ".join(tbprof)
        environment = dict(os.environ)
        if self.sim:
            environment["LD_LIBRARY_PATH"] = self.args.sim + "/cuda13"
        with open(directory + "/out", "wb") as out:
            process = subprocess.Popen(tbprof, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       start_new_session=True, env=environment)
            killed = False
            if self.kill_launcher:
                try:
                    process.wait(self.rng.random() * 0.5)
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, signal.SIGKILL)
                    killed = True
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self.fault("tbprof did not end in 120 s")
                return
        if killed:
            self.wait_for_group(process.pid)
            subprocess.run([self.args.tbprof, "recover", "--logdir=" + logdir], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
        self.examine(directory, logdir, killed)

    @staticmethod
    def wait_for_group(group):
        """Until the command of a killed tbprof has ended, too."""
        for _ in range(600):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)

    def examine(self, directory, logdir, killed):
        summaries = glob.glob(logdir + "/plugins/profile/*/*summary.json")
        if not summaries:
            if not killed:
                with open(directory + "/out", errors="replace") as out:
                    self.fault("no profile: " + out.read()[-400:])
            return
        counts = None
        if os.path.exists(directory + "/counts"):
            counts = read_counts(directory + "/counts")
        for path in summaries:
            with open(path) as file:
                summary = json.load(file)
            rows = {row["kind"]: row for row in summary["conservation"]}
            for kind, row in rows.items():
                self.check_row(kind, row, killed)
            whole = (len(summaries) == 1 or os.path.basename(path) == "summary.json") and not killed
            # A full disk has no room for the last counters either.
            if counts and whole and self.disk_bytes == 0:
                self.compare(rows, counts)
            made = (rows.get("gpu_kernels") or {}).get("made")
            if self.kernels is not None and whole and made != self.kernels:
                self.fault(f"gpu_kernels: made {made}, the program launched {self.kernels}")
        check = subprocess.run([self.args.tbprof, "check", "--json", logdir], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
        for finding in json.loads(check.stdout).get("findings", []):
            if finding["level"] == "fail" or finding["id"] == "profile-counts":
                self.fault(f"check: {finding['id']} {finding['where']}: {finding['what']}")
        if self.number % 8 == 0:
            self.change_a_number(logdir)

    def change_a_number(self, logdir):
        """Of a profile: `tbprof check` has to find it."""
        path = self.rng.choice(glob.glob(logdir + "/plugins/profile/*/*.xplane.pb"))
        with open(path, "rb") as file:
            content = bytearray(file.read())
        places = list(re.finditer(rb'"kind":"(?!records)[a-z_]+","made":\d+,"published":\d*(\d)', content))
        if not places:
            return
        at = self.rng.choice(places).start(1)
        content[at] = ord("0") + (content[at] - ord("0") + 1) % 10
        with open(path, "wb") as file:
            file.write(content)
        check = subprocess.run([self.args.tbprof, "check", "--json", logdir], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, timeout=120, check=False)
        if not any(finding["id"] == "profile-counts" for finding in json.loads(check.stdout)["findings"]):
            self.fault(f"check does not find the changed digit at {at} of {path}")

    def check_row(self, kind, row, killed):
        rest = {cause["cause"]: cause["count"] for cause in row["rest"]}
        if row["holds"] is False:
            self.fault(f"{kind}: made {row['made']}, published {row['published']}, rest {rest}, missing {row['missing']}")
        unknown = kind in ("thread_starts", "python_samples", "native_samples") or (
            kind == "allocation_calls" and not self.exact)
        # A child that outlives the command goes on behind its last counts.
        unknown = unknown or (not self.python and self.end in SUDDEN and self.children > 0)
        # Of dropped parts of the spool only calls are counted by kind.
        unknown = unknown or any(option.startswith("--window=last") for option in self.options)
        if row["holds"] is None and not unknown and not killed and not self.full and self.disk_bytes == 0:
            self.fault(f"{kind}: not known whether it holds: {row}")
        if row["made"] is not None and row["holds"]:
            if row["made"] != row["published"] + sum(rest.values()) and kind not in ("records", "allocation_calls"):
                self.fault(f"{kind}: the row does not add up: {row}")

    def compare(self, rows, counts):
        for kind in KINDS:
            made = (rows.get(kind) or {}).get("made") or 0
            own = counts[kind]
            if self.full:
                # The window closes with the spool: what comes later is not recorded.
                if made > own and kind not in ("allocation_calls", "lock_waits"):
                    self.fault(f"{kind}: made {made}, the program counted {own}")
                continue
            if kind == "allocation_calls" or (kind == "lock_waits" and self.contends):
                # libc allocates, too, and which locks are waited for only the hooks know.
                if made + counts["threads"] < own and not (self.end in SUDDEN and self.children):
                    self.fault(f"{kind}: made {made}, the program counted {own}")
                continue
            # A thread that is stopped between its own count and the hook has counted one more.
            most = counts["threads"] + 1 if self.end in SUDDEN else 0
            # Children that outlive the command are not recorded any more.
            if not own - most <= made <= own and not (self.end in SUDDEN and self.children and made < own):
                self.fault(f"{kind}: made {made}, the program counted {own}, {counts['threads']} threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tbprof", required=True)
    parser.add_argument("--calls", required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--sim", default="")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small-disks", action="store_true", help="some spools on a full disk: needs root, for mount")
    parser.add_argument("--only", type=int)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    numbers = [args.only] if args.only is not None else range(args.count)
    faults = 0
    kinds = {}
    for number in numbers:
        run = Run(args, number)
        run.go()
        kinds[run.end] = kinds.get(run.end, 0) + 1
        for fault in run.faults:
            print(fault, flush=True)
        if run.faults or args.verbose:
            print("   " + run.shown, flush=True)
        faults += len(run.faults)
    print(f"{len(numbers)} runs, {faults} faults; ends: {kinds}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
