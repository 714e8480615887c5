# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/gpu_check.sh: its opening comment says how they are called.

A check is a function of a Check (harness.py) that returns a line of what it found, or raises Skip or Failed.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

import basics
import cost
import experiments
import python_lines
import spools
import suite
import survival
import truth
import verdicts
import windows
import yields
from harness import ROOT, Check, Failed, Machine, Skip, Warming

# A machine is lent for so long at a time that what a check hangs in must not take the others' results along.
WHOLE_LIMIT_S, GIVE_UP_AFTER_S = 525, 30
# A file that comes back from a lent machine has at most 16 MiB, and there are at most eight.
MOST_PACKED_BYTES = 14 << 20
MOST_PACKS = 4

# `alone`: nothing beside it on the GPU, as it looks at times. `simulated`: the simulator must be able to show it; a
# script that skips everything has shown nothing.
Row = collections.namedtuple("Row", "function limit_s alone simulated")
# Most valuable first: when time runs out, what has not begun is skipped.
CHECKS = (
    Row(basics.doctor, 20, False, True),
    # The program's own profilers stay whole.
    Row(experiments.own_profilers_torch, 120, False, False),
    Row(experiments.own_profilers_jax, 120, False, False),
    Row(basics.cupti_yield, 40, False, True),
    # Starts and ends never hang.
    Row(experiments.starts_and_ends, 60, True, True),
    Row(basics.runtime_shared, 30, True, True),
    # Each record is CUPTI's.
    Row(truth.records_of_the_run, 60, True, True),
    # What hooks can see of a static runtime.
    Row(experiments.static_by_hooks, 30, False, False),
    Row(basics.runtime_static, 60, False, False),
    Row(basics.driver, 30, False, True),
    # Loss at the end.
    Row(survival.endings, 60, False, True),
    # Counts.
    Row(basics.torch, 90, False, False),
    Row(truth.torch_counts, 90, False, False),
    Row(suite.triton, 90, False, False),
    Row(suite.cupy, 90, False, False),
    Row(basics.jax, 90, False, False),
    Row(suite.trainer, 120, False, False),
    Row(python_lines.python_of_calls, 90, False, False),
    Row(python_lines.jax_steps, 90, False, False),
    Row(verdicts.causes_in_torch, 120, False, False),
    Row(experiments.graphs_before_captures, 60, False, True),
    Row(experiments.torch_teardown, 60, False, False),
    Row(experiments.long_graphs, 120, True, True),
    # Other profilers and a window, then the rest.
    Row(yields.torch_in_a_window, 90, False, False),
    Row(yields.jax_in_a_window, 90, False, False),
    Row(yields.cupti_in_a_window, 60, False, True),
    Row(experiments.cupti_slots, 40, False, True),
    Row(yields.two_cuptis, 60, False, True),
    Row(truth.bare_client, 90, True, True),
    Row(survival.torch_killed, 90, False, False),
    Row(survival.endings_by_hooks, 60, False, True),
    Row(basics.torch_by_hooks, 90, False, False),
    Row(basics.nvcc, 60, False, False),
    Row(basics.cuda_graphs, 60, False, True),
    Row(basics.graph_operations, 60, False, True),
    Row(windows.captures, 60, False, True),
    Row(windows.flight_recorder, 60, False, True),
    Row(spools.golden_spools, 90, False, True),
    Row(suite.subjects, 120, False, True),
    Row(suite.subjects_by_hooks, 120, False, True),
    Row(suite.torch_cuda_graphs, 90, False, False),
    Row(suite.torch_loader_and_threads, 90, False, False),
    Row(suite.torch_compile, 120, False, False),
    Row(windows.many_at_once, 120, False, True),
    Row(basics.capture, 60, False, True),
    Row(basics.window, 60, False, True),
    Row(basics.torch_profiler, 90, False, False),
    Row(basics.unified_memory, 60, False, True),
    Row(basics.fork, 60, False, True),
    Row(basics.require_gpu, 60, False, True),
)
# A call of their own (--cost): they need the machine for themselves, and all of its time.
COSTS = (
    Row(cost.steps, 200, True, True),
    Row(cost.launches_closely, 150, True, True),
    Row(cost.after_a_window, 90, True, True),
    Row(cost.kinds_of_steps, 150, True, True),
    Row(cost.launches, 200, True, True),
)

CARRIED = (
    "bin/tbprof",
    "lib/tbprof/libtbprof_preload.so",
    "lib/tbprof/libtbprof_cupti.so",
    "tests/gpu/endings",
    "tests/gpu/cupti_slots",
    "tests/gpu/libcupti_client.so",
    "tests/gpu/libcupti_tee.so",
    "tests/gpu/librates.so",
    "tests/gpu/spin_shared",
    "tests/gpu/*_static",
    "tests/sim/subjects/*",
)
# So that what was packed is all that is needed.
CARRIED_SCRIPTS = ("scripts/gpu_check.sh", "scripts/lib.sh", "tests/gpu/*.py", "tests/gpu/programs/*")


def pack(machine, to):
    def carry(root, pattern, stripped):
        found = [path for path in root.glob(pattern) if path.is_file()]
        if not found:
            sys.exit(f"gpu_check.sh: no {root / pattern}: build it first")
        for path in found:
            target = to / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
            if stripped and target.suffix != ".py":
                subprocess.run(["strip", "--strip-debug", str(target)], check=True)

    for pattern in CARRIED:
        carry(machine.build, pattern, stripped=True)
    for pattern in CARRIED_SCRIPTS:
        carry(ROOT, pattern, stripped=False)
    older = os.environ.get("GPU_CHECK_CUPTI12")
    if older:
        (to / "carried").mkdir(exist_ok=True)
        shutil.copy2(older, to / "carried/libcupti.so.12")
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    print(f"{to}: {size / 2**20:.1f} MiB; there: {to.name}/scripts/gpu_check.sh")
    if size > 60 << 20:
        sys.exit("gpu_check.sh: too large to be carried")


def pack_results(work, out):
    """All but what is too large, in files that are small enough to be brought back."""
    left_out = []
    files = sorted((path for path in work.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    number, archive, filled = 0, None, 0
    for path in files:
        size = path.stat().st_size
        if size > MOST_PACKED_BYTES or (
            archive is not None and filled + size > MOST_PACKED_BYTES and number == MOST_PACKS
        ):
            left_out.append(str(path.relative_to(work)))
            continue
        if archive is None or filled + size > MOST_PACKED_BYTES:
            if archive is not None:
                archive.close()
            number, filled = number + 1, 0
            archive = tarfile.open(out / f"spools-{number}.tar.gz", "w:gz")
        archive.add(path, str(path.relative_to(work)))
        filled += size
    if archive is not None:
        archive.close()
    return left_out


def table_lines(table):
    cells = [table["header"], *table["rows"]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table["header"]))]
    lines = [table["title"]]
    for row in cells:
        lines.append(
            "  "
            + "  ".join(
                cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(zip(row, widths))
            )
        )
    return lines


class Session:
    """The rows of one run of the script, one after the other or side by side, and what they left."""

    def __init__(self, machine, wanted, work, jobs, limit_s):
        self.machine, self.wanted, self.work, self.jobs, self.limit_s = machine, wanted, work, jobs, limit_s
        self.begun = time.monotonic()
        self.rows = {}
        self.lock = threading.Lock()
        version = subprocess.run([str(machine.tbprof), "--version"], capture_output=True, text=True).stdout.strip()
        self.head = {
            "schema": 2,
            "tbprof": version,
            "simulated": machine.simulated,
            "build": str(machine.build),
            "machine": machine.facts(),
            "jobs": jobs,
        }

    def left_s(self):
        return self.limit_s - (time.monotonic() - self.begun)

    def run(self):
        beside = []
        for row in self.wanted:
            if not row.alone:
                beside.append(row)
                continue
            self.side_by_side(beside)
            beside = []
            self.one(row)
        self.side_by_side(beside)

    def side_by_side(self, rows):
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self.one, rows))

    def one(self, row):
        name = row.function.__name__
        if row.alone:
            self.machine.warm(60)
        directory = self.work / name
        directory.mkdir()
        check = Check(self.machine, name, directory, min(row.limit_s, max(self.left_s(), 1)))
        start = time.monotonic()
        try:
            if self.left_s() < 5:
                raise Skip(f"{self.limit_s} s were over")
            verdict, detail = "PASS", row.function(check)
        except Skip as skip:
            verdict, detail = "SKIP", str(skip)
            if self.machine.simulated and row.simulated:
                verdict, detail = "FAIL", f"must run on the simulator: {detail}"
        except Failed as failed:
            verdict, detail = "FAIL", str(failed)
        except Exception as error:  # a check that breaks is a result, too; the others go on
            verdict, detail = "FAIL", f"{type(error).__name__}: {error}"
        seconds = round(time.monotonic() - start, 2)
        detail = " ".join(str(detail).split())
        row = {
            "name": name,
            "verdict": verdict,
            "detail": detail,
            "seconds": seconds,
            "facts": check.facts,
            "tables": check.tables,
        }
        print(row_line(row), flush=True)
        with self.lock:
            self.rows[name] = row
            self.write()

    def write(self, left_out=()):
        """What is known so far, and the lines behind those of the checks."""
        rows = [self.rows[row.function.__name__] for row in self.wanted if row.function.__name__ in self.rows]
        seconds = round(time.monotonic() - self.begun, 1)
        verdicts = collections.Counter(row["verdict"] for row in rows)
        lines = []
        for row in rows:
            for table in row["tables"]:
                lines += ["", *table_lines(table)]
        passed, failed, skipped = (verdicts[verdict] for verdict in ("PASS", "FAIL", "SKIP"))
        lines += ["", f"{passed} passed, {failed} failed, {skipped} skipped in {seconds:.0f} s"]
        if len(rows) < len(self.wanted):
            lines.append(f"{len(self.wanted) - len(rows)} checks have not ended")
        if left_out:
            lines.append(f"{len(left_out)} files were too large to be kept: report.json names them")
        report = {**self.head, "seconds": seconds, "rows": rows, "left_out": list(left_out)}
        (self.machine.out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
        (self.machine.out / "gpu_check.log").write_text("\n".join([row_line(row) for row in rows] + lines) + "\n")
        return lines, failed

    def finish(self):
        """The number of checks that failed."""
        out = self.machine.out
        left_out = pack_results(self.work, out)
        # Few files, and none deep, come back from a lent machine.
        if (out / "golden").exists():
            with tarfile.open(out / "golden.tar.gz", "w:gz") as archive:
                archive.add(out / "golden", "golden")
            shutil.rmtree(out / "golden")
        with self.lock:
            lines, failed = self.write(left_out)
        print("\n".join(lines), flush=True)
        return failed

    def give_up(self):
        print(f"gpu_check.sh: no end within {self.limit_s + GIVE_UP_AFTER_S} s; what there is is kept", flush=True)
        try:
            self.finish()
        finally:
            os._exit(1)


def row_line(row):
    return f"{row['verdict']}  {row['name']:<24}{row['seconds']:7.1f} s  {row['detail'][:300]}"


def arguments_of_the_call():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", add_help=False)
    parser.add_argument("--build", default=str(ROOT if (ROOT / "bin/tbprof").exists() else ROOT / "build"))
    parser.add_argument("--out", default=os.environ.get("OUT") or "gpu-check")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--jobs", type=int, default=max(2, min(5, (os.cpu_count() or 1) // 3)))
    parser.add_argument("--limit", type=int, default=WHOLE_LIMIT_S)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--pack")
    parser.add_argument("checks", nargs="*")
    return parser.parse_args()


def main():
    arguments = arguments_of_the_call()
    machine = Machine(arguments)
    names = [row.function.__name__ for row in CHECKS + COSTS]
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.pack:
        pack(machine, pathlib.Path(arguments.pack))
        return 0
    for name in arguments.checks:
        if name not in names:
            sys.exit(f"gpu_check.sh: no check `{name}`; --list names them")
    if not os.access(machine.tbprof, os.X_OK):
        sys.exit(f"gpu_check.sh: no {machine.tbprof}: build it, or --build DIR")
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("spools-*.tar.gz"), *out.glob("golden*")]:
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    machine.out = out.resolve()
    # By name, whichever call they belong to.
    rows = CHECKS + COSTS if arguments.checks else COSTS if arguments.cost else CHECKS
    wanted = [row for row in rows if not arguments.checks or row.function.__name__ in arguments.checks]
    with tempfile.TemporaryDirectory(prefix="tbprof-gpu-check-") as place:
        session = Session(machine, wanted, pathlib.Path(place), arguments.jobs, arguments.limit)
        watch = threading.Timer(arguments.limit + GIVE_UP_AFTER_S, session.give_up)
        watch.daemon = True
        watch.start()
        machine.warming = Warming(machine)
        with machine.hold_gpu() as holder:
            session.run()
            holder.stdin.close()
        machine.warming.end()
        watch.cancel()
        return 1 if session.finish() else 0


if __name__ == "__main__":
    sys.exit(main())
