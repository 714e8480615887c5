# SPDX-License-Identifier: Apache-2.0
"""What the checks have in common: where things are on this machine, runs bare and profiled, what a run printed."""

import collections
import json
import os
import pathlib
import select
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

import xplane

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests/gpu/programs"


class Skip(Exception):
    pass


class Failed(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


def device_is_named(ran):
    names = [gpu["name"] for gpu in ran.summary["gpus"]]
    expect(names and all(names), f"GPUs of the profile: {names}")


class Ran:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds
        lines = err.splitlines()
        self.own_lines = [line for line in lines if line.startswith("tbprof: ")]
        self.by_hooks = False
        self.program_err = "\n".join(line for line in lines if not line.startswith("tbprof: "))
        self.summary = None
        self.runs = []

    def has(self, name):
        return any(line.startswith(name + "=") for line in self.out.splitlines())

    def fact(self, name):
        for line in self.out.splitlines():
            if line.startswith(name + "="):
                return int(line.split("=", 1)[1])
        raise Failed(f"the program did not print {name}; {self.tail()}")

    def tail(self):
        return f"status {self.status}, stderr ends: {self.err.strip()[-300:]!r}"

    def kernels(self):
        return sum(gpu["kernels"] for gpu in self.summary["gpus"])

    def calls(self, part):
        rows = [row for gpu in self.summary["gpus"] for row in gpu["top_kernels"]]
        return sum(row["calls"] for row in rows if part in row["name"])

    def copies(self, name):
        rows = [row for gpu in self.summary["gpus"] for row in gpu["copies"]]
        return sum(row["calls"] for row in rows if row["name"] == name)

    def gpu_processes(self):
        return [process["gpu"] for process in self.summary["processes"] if process["gpu"]]

    def dropped(self):
        """Records that CUPTI dropped, and those that found no room on their way."""
        records = self.summary["records"]
        return sum(records["dropped"].values()) + records["not_kept"]

    def warnings(self):
        return self.summary.get("warnings", []) + self.summary.get("errors", [])

    def profile(self):
        """Read from the file, which is what TensorBoard has."""
        path = next(row["path"] for row in self.summary["files"] if row["path"].endswith(".xplane.pb"))
        return xplane.Profile(pathlib.Path(path))

    def operation(self, name):
        rows = [row for process in self.summary["processes"] for row in process["operations"]]
        return sum(row["calls"] for row in rows if row["operation"] == name)


# Of device work as CUPTI gives it (cupti_text.h); times in its clock's nanoseconds.
Record = collections.namedtuple("Record", "kind correlation start end detail name")


def read_records(directory, pattern):
    records = []
    for path in directory.glob(pattern):
        for line in path.read_text(errors="replace").splitlines():
            parts = line.split(" ", 5)
            if len(parts) < 5:  # the last line of a process that was killed
                continue
            number = [int(part) for part in parts[1:5]]
            records.append(Record(parts[0], *number, parts[5] if len(parts) > 5 else ""))
    return sorted(records, key=lambda record: (record.start, record.end))


class Machine:
    """Where things are here."""

    def __init__(self, arguments):
        self.build = pathlib.Path(arguments.build).resolve()
        searched = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        self.simulated = arguments.simulated or any("tests/sim/" in place for place in searched)
        self.tbprof = self.build / "bin/tbprof"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TBPROF_") and name not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
        }
        if arguments.simulated:
            self.environment["LD_LIBRARY_PATH"] = str(self.build / "tests/sim/cuda13")
        if self.simulated:
            self.environment.pop("CUDA_VISIBLE_DEVICES", None)
        self.nvcc = shutil.which("nvcc") or next(
            (path for path in ("/usr/local/cuda/bin/nvcc",) if os.access(path, os.X_OK)), None
        )
        self.out = None  # where results are left
        self.libraries = None
        self.cupti = None
        self.warming = None

    def warm(self, limit_s):
        """Returns when the frameworks have been imported once, or the time is over."""
        if self.warming is not None:
            self.warming.wait(limit_s)

    def hold_gpu(self):
        """A process with a context: without one a driver may take seconds to start, for each program anew."""
        code = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
failed = cuda.cuInit(0) or cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
print(failed, flush=True)
sys.stdin.read()
"""
        command = [sys.executable, "-c", code]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        holder = subprocess.Popen(command, env=self.environment, text=True, **pipes)
        # A driver that hangs is found by the checks, each with its time limit.
        select.select([holder.stdout], [], [], 60)
        return holder

    def facts(self):
        """What a reader of the report has to know of the machine."""
        found = {"kernel": os.uname().release, "cpus": os.cpu_count(), "python": sys.version.split()[0]}
        query = "name,driver_version,pstate,clocks.sm,clocks.mem,memory.total,compute_mode,persistence_mode"
        for name, command in (
            ("gpus", ["nvidia-smi", f"--query-gpu={query}", "--format=csv"]),
            ("nvcc", [self.nvcc or "nvcc", "--version"]),
            ("nsys", ["nsys", "--version"]),
        ):
            try:
                ran = subprocess.run(command, capture_output=True, text=True, timeout=30)
                found[name] = ran.stdout.strip()
            except (OSError, subprocess.TimeoutExpired) as error:
                found[name] = str(error)
        return found

    def pick(self, real, simulated):
        """Numbers for a GPU, and those for a test of the script."""
        return simulated if self.simulated else real

    def with_libraries(self):
        """The environment for programs linked to libcudart.so.13, or that open libcupti.so.13, by name."""
        if self.libraries is not None:
            return self.libraries
        self.libraries = dict(self.environment)
        missing = [name for name in ("libcudart.so.13", "libcupti.so.13") if not self.loads(name, self.libraries)]
        places = []
        for name in missing:
            for directory in self.library_directories():
                if (directory / name).exists():
                    places.append(str(directory))
                    break
        if places:
            before = self.libraries.get("LD_LIBRARY_PATH")
            self.libraries["LD_LIBRARY_PATH"] = ":".join(places + ([before] if before else []))
        return self.libraries

    @staticmethod
    def loads(name, environment):
        code = f"import ctypes; ctypes.CDLL({name!r})"
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True).returncode == 0

    @staticmethod
    def library_directories():
        for variable in ("CUDA_HOME", "CUDA_PATH"):
            if os.environ.get(variable):
                yield pathlib.Path(os.environ[variable]) / "lib64"
                yield pathlib.Path(os.environ[variable]) / "extras/CUPTI/lib64"
        yield pathlib.Path("/usr/local/cuda/lib64")
        yield pathlib.Path("/usr/local/cuda/extras/CUPTI/lib64")
        for entry in sys.path:
            yield pathlib.Path(entry) / "nvidia/cu13/lib"

    def cupti_library(self, check):
        """The one that tbprof takes for a program in C++."""
        if self.cupti is None:
            ran = check.profiled([self.program("tests/gpu/spin_shared"), "1", "1000"], self.with_libraries())
            expect(ran.summary and ran.gpu_processes(), f"no GPU in the profile; {ran.tail()}")
            self.cupti = ran.gpu_processes()[0]["library"]
            expect(self.cupti, f"no CUPTI is found: {ran.gpu_processes()[0]}")
        return self.cupti

    def program(self, path):
        program = self.build / path
        if not os.access(program, os.X_OK):
            raise Skip(f"{path} is not built")
        return str(program)

    def python_with(self, module):
        candidates = [sys.executable, shutil.which("python3"), "/usr/bin/python3", "/usr/local/bin/python3"]
        if os.environ.get("VIRTUAL_ENV"):
            candidates.insert(0, os.environ["VIRTUAL_ENV"] + "/bin/python3")
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        for python in dict.fromkeys(path for path in candidates if path):
            if os.access(python, os.X_OK) and not subprocess.run([python, "-c", code], capture_output=True).returncode:
                return python
        raise Skip(f"no Python here has {module}")


# Prints the facts of a framework that a check needs first. The first import on a machine reads gigabytes.
WARM = {
    "torch": "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())",
    "jax": "import jax; print(jax.__version__, jax.default_backend())",
    "cupy": "import cupy; print(cupy.__version__)",
    "triton": "import triton; print(triton.__version__)",
}


class Warming:
    """Imports of the frameworks beside the first checks."""

    def __init__(self, machine):
        self.machine, self.running = machine, {}
        self.thread = threading.Thread(target=self.start, daemon=True)
        self.thread.start()

    def start(self):
        environment = {**self.machine.environment, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        for module, code in WARM.items():
            try:
                python = self.machine.python_with(module)
            except Skip:
                continue
            pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            self.running[module] = python, subprocess.Popen([python, "-c", code], env=environment, text=True, **pipes)

    def wait(self, limit_s):
        """Before a check that looks at times."""
        until = time.monotonic() + limit_s
        self.thread.join(limit_s)
        for _, process in list(self.running.values()):
            try:
                process.wait(max(until - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                return

    def end(self):
        self.thread.join(10)
        for _, process in self.running.values():
            if process.poll() is None:
                process.kill()


def mode_of(gpu):
    """How a process was recorded: CUPTI, hooks, or none."""
    if not gpu["records"]:
        return "none"
    return "hooks" if gpu["approximate"] or not gpu["library"] else "CUPTI"


class Check:
    """One row: a directory for its files, a time limit, and the runs."""

    def __init__(self, machine, name, directory, limit_s):
        self.machine, self.name, self.directory = machine, name, directory
        self.until = time.monotonic() + limit_s
        self.facts = {}
        self.tables = []
        self.count = 0
        self.pick = machine.pick

    def left_s(self):
        return self.until - time.monotonic()

    def table(self, title, header, rows):
        """For the report, and readable in the log."""
        self.tables.append(
            {"title": title, "header": list(header), "rows": [[str(cell) for cell in row] for row in rows]}
        )

    def run(self, command, environment=None, limit_s=None, on_start=None):
        start = time.monotonic()
        limit_s = min(limit_s or 1e9, max(self.until - start, 1))
        process = subprocess.Popen(
            command,
            env=environment or self.machine.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            if on_start:
                on_start(process)
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:  # who left the group holds the pipe
                pass
            raise Failed(f"no end within {limit_s:.0f} s: {' '.join(command)[:200]}") from None
        return Ran(process.returncode, out, err, time.monotonic() - start)

    def bare(self, command, environment=None):
        return self.run(command, environment)

    def client_environment(self, environment=None, records=False, graphs=False):
        """Of a program that has the bare client in place of tbprof; and its directory."""
        self.count += 1
        place = self.directory / f"client-{self.count}"
        place.mkdir()
        told = {
            "CUDA_INJECTION64_PATH": self.machine.program("tests/gpu/libcupti_client.so"),
            "CLIENT_CUPTI": self.machine.cupti_library(self),
            "CLIENT_OUT": str(place / "client"),
        }
        if records:
            told["CLIENT_RECORDS"] = "1"
        if graphs:
            told["CLIENT_GRAPHS"] = "1"
        return {**(environment or self.machine.environment), **told}, place

    def with_client(self, command, environment=None, records=True, graphs=False):
        environment, place = self.client_environment(environment, records, graphs)
        ran = self.run(command, environment)
        ran.counts, ran.records = client_counts(place), read_records(place, "client.*.records")
        return ran

    def profiled_command(self, command, options=()):
        """What to run, and the directory where its profile will be."""
        self.count += 1
        place = self.directory / f"profiled-{self.count}"
        place.mkdir()
        tbprof = [str(self.machine.tbprof), "run", f"--logdir={place / 'logs'}", f"--spool-dir={place}", "--keep-spool"]
        return [*tbprof, f"--summary-json={place / 'summary.json'}", *options, "--", *command], place

    def read_profile(self, ran, place):
        """What tbprof left of a run, each profile of it as `tbprof check` sees it."""
        (place / "said.txt").write_text(ran.err)
        if (place / "summary.json").exists():
            ran.summary = json.loads((place / "summary.json").read_text())
        ran.runs = sorted((place / "logs/plugins/profile").glob("*"))
        if ran.runs:
            checked = self.run([str(self.machine.tbprof), "check", "--json", str(place / "logs")])
            (place / "check.json").write_text(checked.out)
            expect(checked.status in (0, 1), f"tbprof check says status {checked.status}: {checked.out[-400:]}")
        return ran

    def profiled(self, command, environment=None, options=(), on_start=None):
        command, place = self.profiled_command(command, options)
        ran = self.read_profile(self.run(command, environment, on_start=on_start), place)
        ran.by_hooks = "--cuda=hooks" in options
        return ran

    def pair(self, command, environment=None, options=(), same=lambda text: text):
        bare = self.bare(command, environment)
        profiled = self.profiled(command, environment, options)
        expect(bare.status == 0, f"the bare program failed: {bare.tail()}")
        expect(profiled.status == bare.status, f"status {bare.status} bare, {profiled.tail()}")
        expect(same(profiled.out) == same(bare.out), f"stdout differs: {bare.out[-200:]!r}, {profiled.out[-200:]!r}")
        expect(
            same(profiled.program_err) == same(bare.err.rstrip("\n")),
            f"stderr differs: {bare.err[-200:]!r}, {profiled.program_err[-200:]!r}",
        )
        expect(profiled.summary is not None, f"no summary: {profiled.tail()}")
        self.facts.update(bare_s=round(bare.seconds, 3), profiled_s=round(profiled.seconds, 3))
        self.note(profiled)
        return profiled

    def note(self, ran):
        self.mode_is_right(ran)
        self.facts["kernels"] = ran.kernels()
        self.facts["gpus"] = [gpu["name"] for gpu in ran.summary["gpus"]]
        self.facts["cupti"] = sorted({f"{gpu['library']} {gpu['versions']}" for gpu in ran.gpu_processes()})
        self.facts["dropped"] = ran.dropped()
        self.facts["warnings"] = ran.warnings()

    def mode_is_right(self, ran):
        """A run that fell back to hooks, or recorded nothing, says nothing of CUPTI."""
        modes = collections.Counter(mode_of(gpu) for gpu in ran.gpu_processes())
        self.facts["modes"] = dict(modes)
        wanted, other = ("hooks", "CUPTI") if ran.by_hooks else ("CUPTI", "hooks")
        causes = [gpu["reason"] or gpu["approximate"] for gpu in ran.gpu_processes()]
        expect(modes[wanted] and not modes[other], f"recorded by {dict(modes)}, not by {wanted}: {causes}")

    def counted(self, ran, expected):
        expect(not self.facts["dropped"], f"dropped: {ran.summary['records']['dropped']}")
        expect(
            ran.kernels() == expected,
            f"{ran.kernels()} kernels recorded, {expected} launched; {self.facts['warnings']}",
        )

    def lasted(self, ran, kernel_ns):
        """Of kernels that wait for a given time: no less, and not much more."""
        total = sum(gpu["kernel_s"] for gpu in ran.summary["gpus"]) * 1e9
        self.facts["kernel_ns"] = [round(total), kernel_ns]
        expect(0.95 * kernel_ns <= total <= 2 * kernel_ns, f"kernels took {total:.0f} ns, asked for {kernel_ns}")


def client_counts(place):
    """What the client of each process counted, as one; its failure is the check's."""
    counts = collections.Counter()
    files = [path for path in place.glob("client.*") if path.suffix != ".records"]
    expect(files, "the bare CUPTI client left nothing: it was never injected, or the program did not end in order")
    for path in files:
        told = dict(line.split("=", 1) for line in path.read_text().splitlines())
        expect("failed" not in told, f"the bare CUPTI client: {told.get('what')}: {told.get('failed')}")
        counts.update({key: int(value) for key, value in told.items()})
    return counts


def quantiles(values):
    """Lower quartile, median, upper quartile."""
    values = list(values)
    return statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]
