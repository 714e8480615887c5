#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the launcher and its workers hold while a command runs, over time.

    tests/bench/launcher_size.py BUILD_DIR SCENARIO...

Scenarios: children (5,000 by fork), threads (20,000), captures (1,000 in a row), records (10^7 of one process), sigterm
(to the group at 10^7 records: when the spool has them), programs (300 at a time, each with a megabyte of records). Sampled from /proc every 20 ms; memory is resident
memory without what is shared with the target (RssAnon), and all of it (VmRSS). Slots are those that the segments call
used so far (thread_high, process_high), read through the launcher's own mappings: only as root.
"""

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

PERIOD = 0.02


def status(pid):
    """VmRSS, RssAnon (KiB) and Threads; None when the process is gone."""
    found = {}
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name in ("VmRSS", "VmHWM", "RssAnon", "Threads"):
                    found[name] = int(value.split()[0])
    except OSError:
        return None
    return found if "VmRSS" in found else None


def count(directory):
    try:
        return len(os.listdir(directory))
    except OSError:
        return 0


def bytes_in(directory):
    total = 0
    try:
        for entry in os.scandir(directory):
            try:
                total += entry.stat().st_size
            except OSError:
                pass
    except OSError:
        pass
    return total


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def is_worker(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"convert-worker" in file.read() or os.readlink(f"/proc/{pid}/exe").endswith("/tbprof")
    except OSError:
        return False


def slots(pid):
    """thread_high and process_high, summed over the launcher's segments."""
    threads = processes = segments = 0
    try:
        with open(f"/proc/{pid}/maps") as file:
            lines = [line for line in file if "memfd:tbprof" in line]
        for line in lines:
            area = line.split()[0]
            segments += 1
            start, end = (int(word, 16) for word in area.split("-"))
            with open(f"/proc/{pid}/map_files/{start:x}-{end:x}", "rb") as segment:
                header = segment.read(340)
            threads += struct.unpack_from("<I", header, 332)[0]
            processes += struct.unpack_from("<I", header, 336)[0]
    except (OSError, struct.error):
        pass
    return threads, processes, segments


class Sampled:
    """A command under tbprof, and what was seen of the launcher."""

    def __init__(self, build, command, options=(), environment=None):
        self.directory = tempfile.mkdtemp(prefix="tbprof-size-", dir=os.environ.get("TBPROF_BENCH_DIR"))
        self.logdir = os.path.join(self.directory, "logs")
        self.log = open(os.path.join(self.directory, "out"), "w+")
        self.samples = []
        self.worker = {"VmRSS": 0, "RssAnon": 0}
        self.target_rss = []
        self.process = subprocess.Popen(
            [os.path.join(build, "bin/tbprof"), "run", f"--logdir={self.logdir}", *options, "--", *command],
            stdout=self.log, stderr=self.log, cwd=self.directory, start_new_session=True,
            env={**os.environ, **(environment or {})})
        self.pid = self.process.pid
        self.start = time.monotonic()

    def sample(self):
        facts = status(self.pid)
        if facts is None:
            return False
        threads, processes, segments = slots(self.pid)
        self.samples.append({
            "t": time.monotonic() - self.start, **facts, "fds": count(f"/proc/{self.pid}/fd"),
            "files": count(self.logdir + "/.tbprof"), "spool": bytes_in(self.logdir + "/.tbprof"),
            "thread slots": threads, "process slots": processes, "segments": segments})
        for child in children(self.pid):
            if is_worker(child):
                facts = status(child)
                for name in self.worker:
                    self.worker[name] = max(self.worker[name], (facts or {}).get(name, 0))
        return True

    def run(self, until=None):
        while self.process.poll() is None:
            if not self.sample() or (until is not None and until()):
                break
            time.sleep(PERIOD)

    def text(self):
        self.log.flush()
        with open(self.log.name) as file:
            return file.read()

    def finish(self):
        self.run()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.directory)

    def table(self, title):
        print(title)
        names = ("VmRSS", "RssAnon", "fds", "Threads", "files", "thread slots", "process slots", "segments")
        print("    at     " + "".join(f"{name:>15}" for name in names))
        last = len(self.samples) - 1
        for part in (0.1, 0.25, 0.5, 0.75, 0.95):
            sample = self.samples[int(last * part)]
            print(f"  {sample['t']:7.2f} s" + "".join(f"{sample.get(name, 0):>15,}" for name in names))
        print("  highest: " + ", ".join(f"{name} {max(sample.get(name, 0) for sample in self.samples):,}" for name in names)
              + f"; worker VmRSS {self.worker['VmRSS']:,}, RssAnon {self.worker['RssAnon']:,} (KiB)")
        sys.stdout.flush()


def measure_children(build):
    for options in ((), ("--wait-threshold=0",)):
        run = Sampled(build, [f"{build}/tests/programs/many_children", "5000"], options)
        run.run()
        run.table("5,000 fork children, one after the other " + " ".join(options))
        run.finish()


def measure_threads(build):
    for options in ((), ("--wait-threshold=0",)):
        run = Sampled(build, [f"{build}/tests/programs/many_threads", "8", "20000"], options)
        run.run()
        run.table("20,000 threads, eight at a time " + " ".join(options))
        run.finish()


def measure_programs(build):
    script = (f"i=0; while [ $i -lt 300 ]; do {build}/tests/programs/phases 20000 0 20000 & i=$((i+1)); done; "
              "sleep 8; touch stop; wait")
    run = Sampled(build, ["/bin/sh", "-c", script], ("--wait-threshold=0",))
    run.run()
    run.table("300 programs at a time, 40,000 records each")
    run.finish()


def measure_captures(build):
    run = Sampled(build, [f"{build}/tests/programs/phases", "10", "2", "1000"],
                  ("--window=none", "--window-duration=5ms"))
    runs = run.logdir + "/plugins/profile"
    while "kill -USR1" not in run.text():
        time.sleep(0.01)
    time.sleep(0.5)
    target = [child for child in children(run.pid) if not is_worker(child)][0]
    seen = {}
    for done in range(1, 1001):
        os.kill(run.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 30
        while count(runs) < done and time.monotonic() < deadline:
            time.sleep(0.002)
        if count(runs) < done:
            raise SystemExit(f"capture {done} did not come:\n{run.text()}")
        if done in (10, 50, 100, 250, 500, 750, 1000):
            time.sleep(0.1)
            run.sample()
            facts = status(target) or {}
            with open(f"/proc/{target}/maps") as file:
                maps = len(file.readlines())
            seen[done] = (facts.get("VmRSS", 0), maps, count(f"/proc/{target}/fd"))
    print("1,000 captures in a row")
    print("   after     VmRSS   RssAnon  fds  threads  files   spool bytes | target: VmRSS  maps  fds")
    for done, sample in zip(seen, run.samples[-len(seen):]):
        print(f"  {done:6,} {sample['VmRSS']:9,} {sample['RssAnon']:9,} {sample['fds']:4} {sample['Threads']:8} "
              f"{sample['files']:6} {sample['spool']:13,} | {seen[done][0]:13,} {seen[done][1]:5} {seen[done][2]:4}")
    open(os.path.join(run.directory, "stop"), "w").close()
    run.finish()


def measure_sigterm(build):
    grown = []
    for _ in range(5):
        run = Sampled(build, [f"{build}/tests/programs/records_until_sigterm", "10000000"],
                      ("--wait-threshold=0", "--buffer-size=1GiB"), {"TEST_FACTS": "facts"})
        facts = os.path.join(run.directory, "facts")
        while not os.path.exists(facts) or "ready" not in open(facts).read():
            run.sample()
            time.sleep(0.002)
        os.killpg(run.pid, signal.SIGTERM)
        start = time.monotonic()
        last, seen = 0.0, 0
        while time.monotonic() - start < 3:
            size = bytes_in(run.logdir + "/.tbprof")
            # Beyond what is written once a second anyway.
            if size > seen + 8192:
                last = time.monotonic() - start
                seen = size
            time.sleep(0.001)
        grown.append(last * 1000)
        os.killpg(run.pid, signal.SIGKILL)
        run.finish()
    print("SIGTERM at 10^7 records: the spool was complete after " + ", ".join(f"{ms:.0f} ms" for ms in grown))


def measure_records(build):
    for options in (("--wait-threshold=0",), ("--wait-threshold=0", "--window=all"),
                    ("--wait-threshold=0", "--window=all", "--max-profile-size=256MiB")):
        run = Sampled(build, [f"{build}/tests/programs/survive", "10000000", "return"], options)
        run.run()
        run.table("10^7 records in one process " + " ".join(options))
        run.finish()


def main():
    build = os.path.abspath(sys.argv[1])
    for name in sys.argv[2:]:
        {"children": measure_children, "threads": measure_threads, "captures": measure_captures,
         "records": measure_records, "sigterm": measure_sigterm, "programs": measure_programs}[name](build)


if __name__ == "__main__":
    main()
