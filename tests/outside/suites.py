#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs outside test suites bare and under `tbprof run`, and compares them test by test.

A unit is one command line of a suite. Its result is a dictionary from the test's name to its outcome, read from the
report that the suite itself writes, and the exit status of the whole under the name `exit status`.
"""

import argparse
import concurrent.futures
import dataclasses
import glob
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
REPEATS = 4  # of what differed, on both sides
STATUS = "exit status"

PYTHON_MODULES = ["test_threading", "test_signal", "test_subprocess", "test_os", "test_fork1", "test_socket",
                  "test_multiprocessing_fork", "test_multiprocessing_spawn", "test_multiprocessing_forkserver"]
# Of those that take minutes, in the selection only these classes.
PYTHON_SELECTION = {
    "test_multiprocessing_fork": ["WithProcessesTest*"],
    "test_multiprocessing_spawn": ["WithProcessesTestProcess", "WithProcessesTestQueue", "WithProcessesTestPool"],
    "test_multiprocessing_forkserver": ["WithProcessesTestProcess", "WithProcessesTestQueue"],
}

# The address that a virtual machine gives its own vsock need not be one that it can reach: the accept waits for ever.
PYTHON_IGNORED = {"test_socket": ["ThreadedVSOCKSocketStreamTest"]}

# Stressor and its number of operations, a second at most; 0: it looks at none, and gets two seconds.
STRESSORS = {
    "malloc": 20000, "pthread": 2000, "fork": 500, "vfork": 500, "clone": 30, "spawn": 100, "exec": 10, "signal": 100000,
    "sigrt": 20000, "sigsegv": 20000, "sigsuspend": 20000, "sigq": 20000, "signest": 500, "sigpending": 20000,
    "sigchld": 500, "sigfd": 2000, "bad-altstack": 100, "futex": 20000, "mutex": 20000, "sem": 0, "mmap": 0,
    "vforkmany": 0, "stack": 0, "zombie": 1000, "daemon": 200, "tsearch": 5, "pipe": 100000, "poll": 5000, "sock": 200,
    "itimer": 100, "kill": 10000, "resched": 500, "context": 500,
}
FULL_STRESSORS = {"clone": 300, "mmapfork": 5, "itimer": 2000, "context": 5000, "nice": 100}

# These refuse to run as root; under tbprof the launcher stays root.
UNPRIVILEGED = ["spawn", "exec"]
SETPRIV = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

NUMPY_TESTS = ["core/tests", "fft/tests", "linalg/tests", "random/tests", "lib/tests", "ma/tests", "polynomial/tests"]
NUMPY_SELECTION = ["core/tests/test_mem_overlap.py", "core/tests/test_mem_policy.py", "core/tests/test_dtype.py",
                   "core/tests/test_errstate.py", "core/tests/test_memmap.py", "core/tests/test_records.py",
                   "fft/tests", "linalg/tests/test_linalg.py", "random/tests/test_generator_mt19937.py",
                   "lib/tests/test_io.py"]

# The C++ tests in python3-torch; it carries none in Python (torch.testing is a library, its tests are not packaged),
# and lacks two libraries that test_jit needs.
TORCH_TESTS = ["test_api", "test_lazy", "test_tensorexpr", "FileStoreTest", "HashStoreTest", "TCPStoreTest"]
TORCH_SELECTION = {
    "test_api": "AutogradTest.*:DataLoaderTest.*:DataTest.*:ParallelTest.*:ThreadTest*:SerializeTest.*:TensorTest.*",
    "test_tensorexpr": "Memory*:Simplify*",
    "test_lazy": "LazyShapeTest.*:CacheTest.*:IrTest.*:UtilTest.*:PermutationUtilTest.*",
}


@dataclasses.dataclass
class Unit:
    name: str
    suite: str
    command: list  # {report} stands for the report's path
    environment: dict = dataclasses.field(default_factory=dict)
    # Of a list of tests, the command that repeats them.
    narrow: object = None
    operations: int = 0


@dataclasses.dataclass
class Result:
    outcomes: dict
    seconds: float
    output: str
    profile: str = ""  # what was wrong with the profile


def python_unit(module, full):
    command = [PYTHON, "-m", "test", "--timeout=240", "-u", "network,-urlfetch", "--junit-xml={report}"]
    command += [word for pattern in PYTHON_IGNORED.get(module, []) for word in ("-i", pattern)]
    selected = [] if full else PYTHON_SELECTION.get(module, [])

    def narrowed(patterns):
        return command + [word for pattern in patterns for word in ("-m", pattern)] + [module]

    return Unit(f"python.{module}", "python", narrowed(selected), narrow=lambda tests: narrowed(
        [test.rsplit(".", 1)[-1] for test in tests]))


def stress_unit(stressor, operations):
    limits = [f"--{stressor}-ops", str(operations), "--timeout", "120"] if operations else ["--timeout", "2"]
    privileges = SETPRIV if stressor in UNPRIVILEGED and os.geteuid() == 0 else []
    return Unit(f"stress-ng.{stressor}", "stress-ng",
                privileges + ["stress-ng", f"--{stressor}", "1", *limits, "--verify", "--metrics", "--yaml={report}"],
                operations=operations)


def numpy_unit(path):
    root = os.path.dirname(importlib.util.find_spec("numpy").origin)
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=/", "-m", "not slow",
               "--junit-xml={report}"]
    name = path.replace("/tests", "").replace("/", ".").removesuffix(".py")
    return Unit(f"numpy.{name}", "numpy", command + [os.path.join(root, path)],
                environment={"PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": "{scratch}/hypothesis"})


def torch_unit(program, full):
    root = os.path.dirname(importlib.util.find_spec("torch").origin)
    filters = "*" if full else TORCH_SELECTION.get(program, "*")
    # Of what needs a GPU or downloaded data there is nothing to compare.
    command = [os.path.join(root, "bin", program), "--gtest_output=json:{report}"]
    excluded = "-*CUDA*:*MultiCUDA:IntegrationTest.*"
    return Unit(f"torch.{program}", "torch", command + [f"--gtest_filter={filters}{excluded}"],
                narrow=lambda tests: command + ["--gtest_filter=" + ":".join(tests)])


def all_units(full):
    units = [python_unit(module, full) for module in PYTHON_MODULES]
    units += [stress_unit(*item) for item in {**STRESSORS, **(FULL_STRESSORS if full else {})}.items()]
    units += [numpy_unit(path) for path in (NUMPY_TESTS if full else NUMPY_SELECTION)]
    units += [torch_unit(program, full) for program in TORCH_TESTS]
    return units


# ---------------------------------------------------------------------------------------------------- reports


def junit_outcomes(path):
    outcomes = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = case.get("name")
        if case.get("classname"):
            name = f"{case.get('classname')}::{name}"
        outcome = "passed"
        for kind in ("failure", "error", "skipped"):
            if case.find(kind) is not None:
                outcome = kind
        # regrtest's attributes.
        if case.get("status") == "skipped":
            outcome = "skipped"
        while name in outcomes:
            name += "'"
        outcomes[name] = outcome
    return outcomes


def gtest_outcomes(path):
    outcomes = {}
    for suite in json.loads(pathlib.Path(path).read_text())["testsuites"]:
        for case in suite["testsuite"]:
            outcome = "failure" if case.get("failures") else case.get("result", "COMPLETED").lower()
            outcomes[f"{suite['name']}.{case['name']}"] = outcome
    return outcomes


def stress_outcomes(path, output, operations):
    report = pathlib.Path(path).read_text()
    done = re.findall(r"^ +bogo-ops: (\d+)", report, re.M)
    outcomes = {"ran": "passed" if len(done) == 1 else f"{len(done)} times",
                "complaints": str(len(re.findall(r"stress-ng: (?:fail|error|warn)", output)))}
    if operations and done:
        outcomes["operations"] = "passed" if int(done[0]) >= operations else f"{done[0]} of {operations}"
    return outcomes


# ---------------------------------------------------------------------------------------------------- running


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Runner:
    def __init__(self, tbprof, scratch):
        self.tbprof = tbprof
        self.scratch = scratch
        self.count = 0

    def run(self, unit, profiled, command=None, timeout=900):
        self.count += 1
        # Short: tests make sockets below it.
        scratch = tempfile.mkdtemp(prefix="p" if profiled else "b", dir=self.scratch)
        os.chmod(scratch, 0o777)
        report = os.path.join(scratch, "report")
        logdir = os.path.join(scratch, "logdir")
        work = os.path.join(scratch, "work")
        temporary = os.path.join(scratch, "t")
        os.mkdir(work)
        os.mkdir(temporary)
        for directory in (work, temporary):
            os.chmod(directory, 0o777)
        words = [word.replace("{report}", report) for word in command or unit.command]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TBPROF_")}
        environment["TMPDIR"] = temporary
        for key, value in unit.environment.items():
            environment[key] = value.replace("{scratch}", scratch)
        if profiled:
            words = [self.tbprof, "run", "--quiet", f"--logdir={logdir}", "--run=outside", "--"] + words
        start = time.monotonic()
        with open(os.path.join(scratch, "output"), "w+b") as output:
            # A session of its own: whatever a test leaves behind is ended with it.
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=work,
                                       env=environment, start_new_session=True)
            try:
                status = str(process.wait(timeout))
            except subprocess.TimeoutExpired:
                status = f"not ended after {timeout} s"
            finally:
                kill_group(process)
                process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        seconds = time.monotonic() - start
        outcomes = {}
        try:
            if unit.suite == "stress-ng":
                outcomes = stress_outcomes(report, text, unit.operations)
            elif unit.suite == "torch":
                outcomes = gtest_outcomes(report)
            else:
                outcomes = junit_outcomes(report)
        except (OSError, ElementTree.ParseError, ValueError, KeyError) as error:
            outcomes = {"report": f"none: {type(error).__name__}"}
        outcomes[STATUS] = status
        problem = ""
        if profiled and not glob.glob(f"{logdir}/plugins/profile/outside/*.xplane.pb"):
            problem = "no profile: " + "; ".join(line for line in text.splitlines() if line.startswith("tbprof:"))
        shutil.rmtree(scratch, ignore_errors=True)
        return Result(outcomes, seconds, text, problem)


# ---------------------------------------------------------------------------------------------------- comparing


def different(bare, profiled):
    names = [name for name in {**bare, **profiled} if bare.get(name) != profiled.get(name)]
    # The whole's status differs because of a test.
    return [name for name in names if name != STATUS] or names


def judge(runner, unit, bare, profiled, names):
    """Repeats what differed. Returns rows of (test, bare outcomes, profiled outcomes, verdict)."""
    command = unit.narrow(names) if unit.narrow and not {STATUS, "report"} & set(names) else None
    seen = {name: ([bare.outcomes.get(name)], [profiled.outcomes.get(name)]) for name in names}
    for _ in range(REPEATS):
        for side in (0, 1):
            outcomes = runner.run(unit, side == 1, command).outcomes
            for name in names:
                seen[name][side].append(outcomes.get(name))
    rows = []
    for name, (without, under) in seen.items():
        if len(set(without)) > 1:
            verdict = "unsteady without tbprof too"
        elif all(outcome == without[0] for outcome in under[1:]):
            verdict = f"not seen again in {REPEATS} repetitions"
        else:
            verdict = "DIFFERENT"
        rows.append((name, without, under, verdict))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tbprof", default=str(ROOT / "build/bin/tbprof"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="the end of the output of what differs")
    parser.add_argument("units", nargs="*")
    arguments = parser.parse_args()
    units = all_units(arguments.full)
    if arguments.units:
        known = {unit.name for unit in units}
        for name in arguments.units:
            if name not in known:
                sys.exit(f"no unit {name}; --list prints them")
        units = [unit for unit in units if unit.name in arguments.units]
    if arguments.list:
        for unit in units:
            print(f"{unit.name:40} {' '.join(unit.command)}")
        return 0

    bad = 0
    notes = []
    print(f"{'unit':40} {'tests':>6} {'skipped':>8} {'failed':>7} {'bare s':>7} {'tbprof s':>9}  result", flush=True)
    with tempfile.TemporaryDirectory(prefix="out", ignore_cleanup_errors=True) as scratch:
        os.chmod(scratch, 0o755)
        runner = Runner(arguments.tbprof, scratch)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            pairs = [(unit, pool.submit(runner.run, unit, False), pool.submit(runner.run, unit, True)) for unit in units]
            for unit, first, second in pairs:
                bare, profiled = first.result(), second.result()
                names = different(bare.outcomes, profiled.outcomes)
                rows = judge(runner, unit, bare, profiled, names) if names else []
                wrong = [row for row in rows if row[3] == "DIFFERENT"]
                tests = [outcome for name, outcome in bare.outcomes.items() if name != STATUS]
                skipped = tests.count("skipped")
                failed = sum(tests.count(kind) for kind in ("failure", "error"))
                verdict = f"{len(wrong)} DIFFERENT" if wrong else "equal but for unsteady tests" if rows else "equal"
                # Nothing ran is nothing compared.
                if not tests or "report" in bare.outcomes:
                    verdict = f"NOTHING TO COMPARE (exit status {bare.outcomes[STATUS]})"
                    notes.append(f"{unit.name}: the end of the bare run:\n{bare.output[-2000:]}")
                    bad += 1
                elif profiled.profile:
                    verdict = "NO PROFILE"
                    notes.append(f"{unit.name}: {profiled.profile}")
                    bad += 1
                bad += len(wrong)
                print(f"{unit.name:40} {len(tests):6} {skipped:8} {failed:7} {bare.seconds:7.1f} {profiled.seconds:9.1f}  "
                      f"{verdict}", flush=True)
                for name, without, under, text in rows:
                    notes.append(f"{unit.name}: {name}: {text}\n    bare   {without}\n    tbprof {under}")
                if wrong and arguments.verbose:
                    notes.append(f"{unit.name}: the end of the run under tbprof:\n{profiled.output[-6000:]}")
    for note in notes:
        print(note)
    print(f"{len(units)} units, {bad} differences")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
