# SPDX-License-Identifier: Apache-2.0
"""The checks of scripts/gpu_check.sh: its opening comment says how they are called."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/gpu"
WHOLE_LIMIT_S = 450
# A file that comes back from a lent machine has at most 16 MiB, and there are at most eight.
MOST_PACKED_BYTES = 14 << 20
MOST_PACKS = 5

CARRIED = (
    "bin/tbprof",
    "lib/tbprof/libtbprof_preload.so",
    "lib/tbprof/libtbprof_cupti.so",
    "tests/gpu/spin_shared",
    "tests/gpu/spin_static",
    "tests/sim/subjects/driver_opened",
    "tests/sim/subjects/forks",
    "tests/sim/subjects/graphs",
    "tests/sim/subjects/rival_opened",
    "tests/sim/subjects/train",
    "tests/sim/subjects/unified",
)


class Skip(Exception):
    pass


class Failed(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Ran:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds
        lines = err.splitlines()
        self.own_lines = [line for line in lines if line.startswith("tbprof: ")]
        self.program_err = "\n".join(line for line in lines if not line.startswith("tbprof: "))
        self.summary = None
        self.runs = []

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
            if not name.startswith("TBPROF_") and name not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
        }
        if arguments.simulated:
            self.environment["LD_LIBRARY_PATH"] = str(self.build / "tests/sim/cuda13")
        if self.simulated:
            self.environment.pop("CUDA_VISIBLE_DEVICES", None)
        self.nvcc = shutil.which("nvcc") or next(
            (path for path in ("/usr/local/cuda/bin/nvcc",) if os.access(path, os.X_OK)), None
        )
        self.libraries = None

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


class Check:
    """One row: a directory for its files, a time limit, and the runs."""

    def __init__(self, machine, name, directory, limit_s):
        self.machine, self.name, self.directory = machine, name, directory
        self.until = time.monotonic() + limit_s
        self.facts = {}
        self.count = 0

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
            process.communicate()
            raise Failed(f"no end within {limit_s:.0f} s: {' '.join(command)[:200]}") from None
        return Ran(process.returncode, out, err, time.monotonic() - start)

    def bare(self, command, environment=None):
        return self.run(command, environment)

    def profiled(self, command, environment=None, options=(), on_start=None):
        self.count += 1
        place = self.directory / f"profiled-{self.count}"
        place.mkdir()
        summary = place / "summary.json"
        ran = self.run(
            [
                str(self.machine.tbprof),
                "run",
                f"--logdir={place / 'logs'}",
                f"--spool-dir={place}",
                "--keep-spool",
                f"--summary-json={summary}",
                *options,
                "--",
                *command,
            ],
            environment,
            on_start=on_start,
        )
        (place / "said.txt").write_text(ran.err)
        if summary.exists():
            ran.summary = json.loads(summary.read_text())
        ran.runs = sorted((place / "logs/plugins/profile").glob("*"))
        if ran.runs:
            checked = self.run([str(self.machine.tbprof), "check", "--json", str(place / "logs")])
            (place / "check.json").write_text(checked.out)
            expect(checked.status in (0, 1), f"tbprof check says status {checked.status}: {checked.out[-400:]}")
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
        self.facts["kernels"] = ran.kernels()
        self.facts["gpus"] = [gpu["name"] for gpu in ran.summary["gpus"]]
        uses = [process["gpu"] for process in ran.summary["processes"] if process["gpu"]]
        self.facts["cupti"] = sorted({f"{gpu['library']} {gpu['versions']}" for gpu in uses})
        self.facts["dropped"] = sum(gpu["dropped"] for gpu in uses)
        self.facts["warnings"] = ran.summary.get("warnings", []) + ran.summary.get("errors", [])

    def counted(self, ran, expected):
        expect(not self.facts["dropped"], f"CUPTI dropped {self.facts['dropped']} records")
        expect(ran.kernels() == expected, f"{ran.kernels()} kernels recorded, {expected} launched; {self.facts['warnings']}")

    def lasted(self, ran, kernel_ns):
        """Of kernels that wait for a given time: no less, and not much more."""
        total = sum(gpu["kernel_s"] for gpu in ran.summary["gpus"]) * 1e9
        self.facts["kernel_ns"] = [round(total), kernel_ns]
        expect(0.95 * kernel_ns <= total <= 2 * kernel_ns, f"kernels took {total:.0f} ns, asked for {kernel_ns}")


def without_times(text):
    return [line for line in text.splitlines() if "_ns=" not in line]


def doctor(check):
    ran = check.run([str(check.machine.tbprof), "doctor", "--json", f"--logdir={check.directory / 'logs'}"])
    rows = {row["name"]: row for row in json.loads(ran.out)["rows"]}
    check.facts["rows"] = {name: f"{row['verdict']} {row['found']}" for name, row in rows.items()}
    bad = [f"{name}: {row['found']}" for name, row in rows.items() if row["verdict"] == "FAIL"]
    expect(not bad, "; ".join(bad))
    expect("GPU" in rows["driver"]["found"] and "no GPU" not in rows["driver"]["found"], rows["driver"]["found"])
    for name in ("driver", "cupti", "self-test"):
        expect(rows[name]["verdict"] == "PASS", f"{name}: {rows[name]['found']}")
    return rows["driver"]["found"]


def spin(check, program, environment):
    ran = check.pair([program, "200", "200000"], environment)
    check.counted(ran, ran.fact("kernels"))
    check.lasted(ran, ran.fact("kernel_ns"))
    expect(ran.copies("MemcpyHToD") == 1 and ran.copies("MemcpyDToH") == 1, "the two copies are not there once each")
    return f"{ran.kernels()} kernels, all of them"


def runtime_shared(check):
    environment = check.machine.with_libraries()
    if not check.machine.loads("libcudart.so.13", environment):
        raise Skip("no libcudart.so.13 is found")
    return spin(check, check.machine.program("tests/gpu/spin_shared"), environment)


def runtime_static(check):
    if check.machine.simulated:
        raise Skip("NVIDIA's static runtime refuses the simulated driver")
    return spin(check, check.machine.program("tests/gpu/spin_static"), None)


def nvcc(check):
    if check.machine.nvcc is None:
        raise Skip("no nvcc")
    if check.machine.simulated:
        raise Skip("nvcc's default runtime refuses the simulated driver")
    program = str(check.directory / "spin")
    made = check.run([check.machine.nvcc, "-O2", "-o", program, str(HERE / "spin.cu")], limit_s=60)
    expect(made.status == 0, f"nvcc: {made.err[-300:]}")
    return spin(check, program, None)


def driver(check):
    ran = check.pair([check.machine.program("tests/sim/subjects/driver_opened"), "50"])
    check.counted(ran, ran.fact("kernels"))
    ran = check.pair([check.machine.program("tests/sim/subjects/driver_opened"), "50", "by_address"])
    check.counted(ran, ran.fact("kernels"))
    return f"twice {ran.kernels()} kernels"


def cuda_graphs(check):
    command = [check.machine.program("tests/sim/subjects/graphs"), "20"]
    ran = check.pair(command, check.machine.with_libraries())
    check.counted(ran, ran.fact("kernels"))
    whole = check.pair(command, check.machine.with_libraries(), ["--cuda-graphs=graph"])
    graphs = sum(gpu["graphs"] for gpu in whole.summary["gpus"])
    expect(graphs == ran.fact("graph_launches"), f"{graphs} graphs recorded, {ran.fact('graph_launches')} launched")
    return f"{ran.kernels()} kernels of nodes; {graphs} graphs as a whole"


def unified_memory(check):
    command = [check.machine.program("tests/sim/subjects/unified"), "4"]
    ran = check.pair(command, check.machine.with_libraries(), ["--cuda-unified-memory"])
    refused = [text for text in ran.summary["warnings"] if "unified memory" in text]
    if refused:
        raise Skip(refused[0])
    totals = {row["name"]: row for gpu in ran.summary["gpus"] for row in gpu["unified_memory"]}
    check.facts["totals"] = totals
    check.facts["host_page_faults"] = [process["gpu"]["host_page_faults"] for process in ran.summary["processes"]]
    for way, times in (("HtoD", ran.fact("to_device")), ("DtoH", ran.fact("to_host"))):
        moved, expected = totals.get(f"unified memory {way}", {"bytes": 0})["bytes"], times * ran.fact("bytes")
        # The driver fetches ahead and knows its own page sizes.
        expect(0.9 * expected <= moved <= 4 * expected, f"{way}: {moved} bytes moved, {expected} touched")
    return ", ".join(f"{row.get('bytes', row.get('count'))} {name}" for name, row in totals.items())


def fork(check):
    ran = check.pair([check.machine.program("tests/sim/subjects/forks")], check.machine.with_libraries())
    # The third is of the child that became a new program.
    check.counted(ran, 3)
    return "parent, forked child and executed child"


def cupti_yield(check):
    environment = check.machine.with_libraries()
    if not check.machine.loads("libcupti.so.13", environment):
        raise Skip("no libcupti.so.13 is found")
    ran = check.pair(
        [check.machine.program("tests/sim/subjects/rival_opened"), "1", "20"], environment, same=without_times
    )
    expect(ran.fact("own_kernels") == ran.fact("kernels"), "the program did not see all of its kernels itself")
    return f"the program recorded its {ran.fact('own_kernels')} kernels itself"


def window(check):
    command = [check.machine.program("tests/gpu/spin_shared"), "500", "200000", "10000"]
    ran = check.pair(command, check.machine.with_libraries(), ["--window=2s+1s"])
    expect(0 < ran.kernels() < 400, f"{ran.kernels()} of 500 kernels in one of five seconds")
    return f"{ran.kernels()} of 500 kernels in one second"


def capture(check):
    asked = []

    def ask(process):
        time.sleep(2.0)
        process.send_signal(signal.SIGUSR1)
        asked.append(time.monotonic())

    command = [check.machine.program("tests/gpu/spin_shared"), "500", "200000", "10000"]
    ran = check.profiled(
        command, check.machine.with_libraries(), ["--window=none", "--window-duration=1s"], on_start=ask
    )
    expect(ran.status == 0, ran.tail())
    expect(len(ran.runs) == 1, f"{len(ran.runs)} captures were written; {ran.tail()}")
    summaries = sorted(ran.runs[0].glob("*summary.json"))
    expect(summaries, "the capture has no summary")
    ran.summary = json.loads(summaries[0].read_text())
    check.note(ran)
    expect(0 < ran.kernels() < 400, f"{ran.kernels()} of 500 kernels in one of five seconds")
    return f"{ran.kernels()} of 500 kernels in a capture of one second"


def killed(check):
    program = check.machine.program("tests/gpu/spin_shared")
    script = '"$0" 5000 200000 1000 & sleep 3; kill -KILL $!; wait $!; echo $?'
    ran = check.profiled(["/bin/sh", "-c", script, program], check.machine.with_libraries())
    expect(ran.out.strip().splitlines()[-1:] == ["137"], f"the program was not killed: {ran.tail()}")
    check.note(ran)
    expect(ran.kernels() > 100, f"{ran.kernels()} kernels before the SIGKILL")
    return f"{ran.kernels()} kernels were there after SIGKILL"


def require_gpu(check):
    command = [check.machine.program("tests/gpu/spin_shared"), "10", "10000"]
    ran = check.profiled(command, check.machine.with_libraries(), ["--require-gpu"])
    expect(ran.status == 0, ran.tail())
    ran = check.profiled(["/bin/true"], None, ["--require-gpu"])
    expect(ran.status == 3, ran.tail())
    return ran.own_lines[-1].removeprefix("tbprof: ")[:160]


def torch_python(check):
    python = check.machine.python_with("torch")
    code = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
    asked = check.run([python, "-c", code], limit_s=90)
    version = asked.out.split()
    if len(version) != 3 or version[2] != "True":
        raise Skip(f"{python}: PyTorch has no GPU ({asked.out.strip() or asked.err.strip()[-120:]})")
    check.facts["torch"] = " ".join(version[:2])
    return python


def torch(check):
    python = torch_python(check)
    ran = check.pair([python, str(HERE / "torch_train.py"), "60"])
    spins = ran.calls("spin_kernel")
    expect(spins == ran.fact("spin_kernels"), f"{spins} spin kernels recorded, {ran.fact('spin_kernels')} launched")
    expect(ran.kernels() > 4 * 60, f"only {ran.kernels()} kernels for 60 steps")
    return f"PyTorch {check.facts['torch']}: {ran.kernels()} kernels, each of {spins} marked ones"


def torch_profiler(check):
    python = torch_python(check)
    ran = check.pair([python, str(HERE / "torch_train.py"), "60", "profile"], same=without_profiler_words)
    expect(ran.fact("profiler_spin_kernels") == 20, f"torch.profiler saw {ran.fact('profiler_spin_kernels')} of 20")
    spins = ran.calls("spin_kernel")
    expect(20 <= spins <= 40, f"{spins} of the 40 spin kernels outside of torch.profiler")
    states = {process["gpu"]["state"] for process in ran.summary["processes"] if process["gpu"]}
    expect(states == {"recorded_with_gaps"}, f"the gap is not told: {states}")
    return f"torch.profiler saw 20 of 20, tbprof {spins} of the 40 before and after"


def without_profiler_words(text):
    """torch.profiler warns with times and process ids."""
    return [line for line in text.splitlines() if "profiler" not in line.lower() or "profiler_spin" in line]


def jax(check):
    python = check.machine.python_with("jax")
    asked = check.run([python, "-c", "import jax; print(jax.__version__, jax.default_backend())"], limit_s=90)
    if asked.out.split()[1:] != ["gpu"]:
        raise Skip(f"{python}: JAX has no GPU ({asked.out.strip() or asked.err.strip()[-120:]})")
    ran = check.pair([python, str(HERE / "jax_train.py"), "40"])
    expect(ran.kernels() >= 40, f"only {ran.kernels()} kernels for 40 steps")
    return f"JAX {asked.out.split()[0]}: {ran.kernels()} kernels for 40 steps"


CHECKS = (
    (doctor, 20),
    (runtime_shared, 60),
    (runtime_static, 60),
    (nvcc, 60),
    (driver, 60),
    (cuda_graphs, 60),
    (unified_memory, 60),
    (fork, 60),
    (cupti_yield, 60),
    (window, 60),
    (capture, 60),
    (killed, 60),
    (require_gpu, 60),
    (torch, 120),
    (torch_profiler, 120),
    (jax, 120),
)
# What the simulator must be able to show: a script that skips everything has shown nothing.
SIMULATED = {
    "doctor",
    "runtime_shared",
    "driver",
    "cuda_graphs",
    "unified_memory",
    "fork",
    "cupti_yield",
    "window",
    "capture",
    "killed",
    "require_gpu",
}


def pack(machine, to):
    for path in CARRIED:
        program = machine.build / path
        if not program.exists():
            sys.exit(f"gpu_check.sh: no {program}: build it first")
        target = to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(program, target)
        if path.startswith(("bin/", "lib/")):
            subprocess.run(["strip", "--strip-debug", str(target)], check=True)
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    print(f"{to}: {size / 2**20:.1f} MiB; there: scripts/gpu_check.sh --build {to.name}")


def pack_results(work, out):
    """All but what is too large, in files that are small enough to be brought back."""
    left_out = []
    files = sorted((path for path in work.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    number, archive, filled = 0, None, 0
    for path in files:
        size = path.stat().st_size
        if size > MOST_PACKED_BYTES or (archive is not None and filled + size > MOST_PACKED_BYTES and number == MOST_PACKS):
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


def main():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", add_help=False)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--out", default=os.environ.get("OUT") or "gpu-check")
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--pack")
    parser.add_argument("checks", nargs="*")
    arguments = parser.parse_args()
    machine = Machine(arguments)
    if arguments.list:
        print("\n".join(function.__name__ for function, _ in CHECKS))
        return 0
    if arguments.pack:
        pack(machine, pathlib.Path(arguments.pack))
        return 0
    known = {function.__name__ for function, _ in CHECKS}
    for name in arguments.checks:
        if name not in known:
            sys.exit(f"gpu_check.sh: no check `{name}`; --list names them")
    if not os.access(machine.tbprof, os.X_OK):
        sys.exit(f"gpu_check.sh: no {machine.tbprof}: build it, or --build DIR")
    out = pathlib.Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("spools-*.tar.gz"):
        old.unlink()
    begun = time.monotonic()
    rows, lines = [], []
    with tempfile.TemporaryDirectory(prefix="tbprof-gpu-check-") as place:
        work = pathlib.Path(place)
        for function, limit_s in CHECKS:
            name = function.__name__
            if arguments.checks and name not in arguments.checks:
                continue
            directory = work / name
            directory.mkdir()
            left = WHOLE_LIMIT_S - (time.monotonic() - begun)
            check = Check(machine, name, directory, min(limit_s, max(left, 1)))
            start = time.monotonic()
            try:
                if left < 5:
                    raise Skip(f"{WHOLE_LIMIT_S} s were over")
                verdict, detail = "PASS", function(check)
            except Skip as skip:
                verdict, detail = "SKIP", str(skip)
                if machine.simulated and name in SIMULATED:
                    verdict, detail = "FAIL", f"must run on the simulator: {detail}"
            except Failed as failed:
                verdict, detail = "FAIL", str(failed)
            except Exception as error:  # a check that breaks is a result, too; the others go on
                verdict, detail = "FAIL", f"{type(error).__name__}: {error}"
            seconds = round(time.monotonic() - start, 2)
            detail = " ".join(str(detail).split())
            rows.append({"name": name, "verdict": verdict, "detail": detail, "seconds": seconds, "facts": check.facts})
            lines.append(f"{verdict}  {name:<16}{seconds:7.1f} s  {detail[:300]}")
            print(lines[-1], flush=True)
        left_out = pack_results(work, out)
    failed = sum(row["verdict"] == "FAIL" for row in rows)
    passed = sum(row["verdict"] == "PASS" for row in rows)
    version = subprocess.run([str(machine.tbprof), "--version"], capture_output=True, text=True).stdout.strip()
    report = {
        "schema": 1,
        "tbprof": version,
        "simulated": machine.simulated,
        "build": str(machine.build),
        "kernel": os.uname().release,
        "seconds": round(time.monotonic() - begun, 1),
        "rows": rows,
        "left_out": left_out,
    }
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n")
    lines.append(f"{passed} passed, {failed} failed, {len(rows) - passed - failed} skipped in {report['seconds']:.0f} s")
    if left_out:
        lines.append(f"too large to be kept: {', '.join(left_out)}")
    print("\n".join(lines[len(rows) :]))
    (out / "gpu_check.log").write_text("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
