# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can answer, the most valuable first: other profilers beside ours, starts and ends, hooks on a static
runtime, graphs that were made before a capture, millions of graph kernels."""

import collections
import json
import shutil
import signal
import subprocess
import sys
import threading
import time

import xplane
from basics import jax_python, torch_python
from harness import PROGRAMS, Skip, device_is_named, expect
from yields import ROUNDS, cupti_12_library, gap_is_reported

# Of torch_profiles.py and jax_profiles.py: 5 steps at first, then for each round 20 before its profiler, 20 in it, 20 behind.
STEPS, FIRST = 20, 5


def sessions_of_torch(path):
    expect(path.exists(), "torch_profiles.py left nothing")
    return [json.loads(line) for line in path.read_text().splitlines()]


def torch_sessions(check, python, environment, options=None):
    """What torch.profiler saw in each of its sessions; profiled if there are options."""
    check.count += 1
    told = check.directory / f"torch-{check.count}.json"
    command = [python, str(PROGRAMS / "torch_profiles.py"), str(told)]
    ran = check.bare(command, environment) if options is None else check.profiled(command, environment, options)
    expect(ran.status == 0, ran.tail())
    return ran, sessions_of_torch(told)


def sessions_are_whole(bare, seen, what):
    expect(len(bare) == len(seen) == ROUNDS, f"{what}: {len(bare)} sessions bare, {len(seen)} under tbprof, of {ROUNDS}")
    for number, (before, now) in enumerate(zip(bare, seen)):
        # Not to the last: a library may set its memory once.
        expect(abs(before - now) <= 2, f"{what}: session {number} has {now} kernels, {before} bare")
        expect(before >= STEPS, f"{what}: session {number} has {before} kernels bare: nothing was measured")


def own_profilers_torch(check):
    """torch.profiler three times, bare and under tbprof; tbprof records the rest, or says why not."""
    python = torch_python(check)
    _, bare = torch_sessions(check, python, check.machine.environment)
    ran, seen = torch_sessions(check, python, check.machine.environment, ())
    check.facts.update(bare=bare, under_tbprof=seen)
    sessions_are_whole([one["kernels"] for one in bare], [one["kernels"] for one in seen], "torch.profiler")
    for number, one in enumerate(seen):
        expect(one["spin_kernels"] == STEPS, f"session {number} has {one['spin_kernels']} of {STEPS} spin kernels")
    expect(ran.summary is not None, ran.tail())
    check.note(ran)
    gap_is_reported(check, ran)
    # The last session is followed by more than the second of silence after which tbprof records again.
    open_ended = [gap for gap in check.facts["gaps"] if gap["end_s"] > ran.summary["wall_s"] - 0.3]
    expect(not open_ended, f"tbprof did not record again after the last session: {open_ended}")
    spins, all_spins = ran.calls("spin_kernel"), FIRST + 2 * ROUNDS * STEPS
    expect(FIRST + STEPS <= spins <= all_spins + ROUNDS * STEPS, f"tbprof has {spins} spin kernels of {all_spins} around")
    gaps = ", ".join(f"{gap['start_s']:.2f}-{gap['end_s']:.2f} s" for gap in check.facts["gaps"])
    return f"PyTorch {check.facts['torch']}: {ROUNDS} sessions as bare; tbprof {spins} of the {all_spins} around; gaps {gaps}"


def jax_sessions(check, python, options=None):
    check.count += 1
    traces = check.directory / f"jax-{check.count}"
    command = [python, str(PROGRAMS / "jax_profiles.py"), str(traces)]
    ran = check.bare(command) if options is None else check.profiled(command, None, options)
    expect(ran.status == 0, ran.tail())
    files = [(traces / str(number)).rglob("*.xplane.pb") for number in range(ROUNDS)]
    return ran, [sum(xplane.Profile(path).on_device for path in one) for one in files]


def own_profilers_jax(check):
    """jax.profiler three times, bare and under tbprof."""
    python = jax_python(check)
    _, bare = jax_sessions(check, python)
    ran, seen = jax_sessions(check, python, ())
    check.facts.update(bare=bare, under_tbprof=seen)
    sessions_are_whole(bare, seen, "jax.profiler")
    expect(ran.summary is not None, ran.tail())
    check.note(ran)
    gap_is_reported(check, ran)
    # The steps before the first session are ours whatever JAX does afterwards.
    expect(ran.kernels() >= STEPS, f"tbprof recorded {ran.kernels()} kernels around the sessions")
    return f"JAX {check.facts['jax']}: sessions of {seen} pieces of work, {bare} bare; tbprof {ran.kernels()} kernels around"


def torch_teardown(check):
    """TEARDOWN_CUPTI=1: PyTorch gives CUPTI back. What we record afterwards does not begin before its call."""
    python = torch_python(check)
    environment = {**check.machine.environment, "TEARDOWN_CUPTI": "1"}
    ran, seen = torch_sessions(check, python, environment, ())
    check.facts["under_tbprof"] = seen
    for number, one in enumerate(seen):
        expect(one["spin_kernels"] == STEPS, f"session {number} has {one['spin_kernels']} of {STEPS} spin kernels")
    expect(ran.summary is not None, ran.tail())
    check.note(ran)
    profile = ran.profile()
    calls = {event.correlation: event for event in profile.host}
    early = [
        (calls[event.correlation].start_ps - event.start_ps) / 1000 for event in profile.device if event.correlation in calls
    ]
    expect(early, "no piece of work has a call")
    check.facts.update(earliest_before_its_call_ns=round(max(early)), events=len(early))
    expect(max(early) <= 50_000, f"work begins {max(early):.0f} ns before the call that asked for it")
    spins = ran.calls("spin_kernel")
    expect(spins >= FIRST + STEPS, f"{spins} spin kernels recorded")
    return f"{spins} spin kernels around {ROUNDS} sessions, the earliest start {max(early):.0f} ns before its call"


def starts_and_ends(check):
    """Short programs and a bare cuInit, one after the other: none hangs, none loses its kernel."""
    environment = check.machine.with_libraries()
    program = check.machine.program("tests/gpu/spin_shared")
    limit_s, times = check.pick(5, 60), []
    for number in range(check.pick(50, 10)):
        command, place = check.profiled_command([program, "1", "1000"])
        ran = check.run(command, environment, limit_s=limit_s)
        expect(ran.status == 0, f"run {number}: {ran.tail()}")
        ran.summary = json.loads((place / "summary.json").read_text())
        check.note(ran)
        expect(ran.kernels() == 1, f"run {number}: {ran.kernels()} kernels of 1; {ran.warnings()}")
        times.append(ran.seconds)
        shutil.rmtree(place)
    code = "import ctypes; print('cuInit', ctypes.CDLL('libcuda.so.1').cuInit(0))"
    for number in range(check.pick(10, 3)):
        command, _ = check.profiled_command([sys.executable, "-c", code])
        ran = check.run(command, environment, limit_s=limit_s)
        expect(ran.status == 0 and "cuInit 0" in ran.out, f"cuInit {number}: {ran.tail()}")
    check.facts.update(longest_s=round(max(times), 2), runs=len(times))
    return f"{len(times)} programs of one kernel, the longest {max(times):.2f} s; cuInit alone"


def static_by_hooks(check):
    """NVIDIA's static runtime by hooks, against a bare CUPTI client: whether it launches by ways that no hook sees."""
    if check.machine.simulated:
        raise Skip("NVIDIA's static runtime refuses the simulated driver")
    command = [check.machine.program("tests/gpu/train_static"), "200", "20000"]
    client = check.with_client(command)
    expect(client.status == 0, f"under the bare client: {client.tail()}")
    ran = check.profiled(command, None, ["--cuda=hooks"])
    expect(ran.status == 0 and ran.summary, ran.tail())
    check.note(ran)
    kinds = collections.Counter(record.kind for record in client.records)
    seen, untimed = ran.kernels(), sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    expect(kinds["K"] > 0, "the client saw no kernel")
    expect(not untimed, f"{untimed} pieces of work without times")
    expect(seen == kinds["K"] == ran.fact("kernels"), f"{seen} kernels by hooks, {kinds['K']} of the client")
    return f"{seen} kernels by hooks, as the client counts them"


def graphs_before_captures(check):
    """Two captures of a graph that was instantiated before either."""
    nodes, launches, length_s = 20, check.pick(100000, 15000), check.pick(1.0, 0.4)
    command = [check.machine.program("tests/sim/subjects/large_graph"), str(nodes), str(launches), "2000"]

    def ask(process):
        place = check.directory / "profiled-1/logs/plugins/profile"
        for number in range(2):
            time.sleep(check.pick(1.0, 0.3))
            if process.poll() is None:
                process.send_signal(signal.SIGUSR1)
            until = time.monotonic() + 15
            while len(list(place.glob("*/*summary.json"))) <= number and time.monotonic() < until and process.poll() is None:
                time.sleep(0.02)
        # The rest of its launches shows nothing more.
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)

    options = ["--window=none", f"--window-duration={length_s * 1000:.0f}ms"]
    ran = check.profiled(command, check.machine.with_libraries(), options, on_start=ask)
    expect(len(ran.runs) == 2, f"{len(ran.runs)} captures were written, 2 asked for: {ran.tail()}")
    counts = []
    for run in ran.runs:
        ran.summary = json.loads(next(run.glob("*summary.json")).read_text())
        check.note(ran)
        device_is_named(ran)
        counts.append(ran.calls("node_for_nanoseconds"))
        expect(counts[-1] >= nodes, f"{counts[-1]} kernels of the graph's nodes in a capture; {ran.warnings()}")
        expect(ran.dropped() == 0, f"dropped: {ran.summary['records']['dropped']}")
    check.facts["kernels_of_nodes"] = counts
    return f"{counts} kernels of a graph from before"


def cupti_slots(check):
    """Two copies of CUPTI by turns: what becomes of the one when the other was used before. No tbprof in it."""
    a = check.machine.cupti_library(check)
    b = cupti_12_library(check.machine)
    program = check.machine.program("tests/gpu/cupti_slots")
    begin = "a:open b:open init "
    rows = []
    for what, steps in (
        ("b alone", "b:on run b:count"),
        ("a off, then b", "a:on run a:count a:off b:on run b:count b:off"),
        ("a finalized, then b", "a:on run a:count a:off a:end b:on run b:count b:off"),
        ("a off, b twice", "a:on run a:off b:on run b:count b:off b:on run b:count"),
        ("a finalized, b, a again", "a:on run a:off a:end b:on run b:count b:off a:on run a:count"),
        ("a finalized, b finalized, a again", "a:on run a:off a:end b:on run b:count b:off b:end a:on run a:count"),
        ("a without subscription, finalized, b", "a:on- run a:count a:off a:end b:on run b:count"),
        ("b off, then a", "b:on run b:off a:on run a:count"),
        ("b finalized, then a", "b:on run b:off b:end a:on run a:count"),
    ):
        command = [program, a, b, *(begin + steps).split()]
        ran = check.bare(command, check.machine.with_libraries())
        told = " ".join(line.replace(": ", "=").replace(" ", ",") for line in ran.out.splitlines()[3:])
        rows.append((what, f"{told} {'' if ran.status == 0 else ran.tail()}".strip()))
    check.table(f"Two copies of CUPTI: a = {a}, b = {b}", ["", "steps and results"], rows)
    return f"{len(rows)} orders"


class MemoryOfTheGpu:
    """What is in use on the first GPU while a program runs, MiB."""

    def __init__(self):
        self.read, self.ended = [], threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"]
        while not self.ended.wait(0.5):
            try:
                ran = subprocess.run(command, capture_output=True, text=True, timeout=10)
                self.read.append(int(ran.stdout.split()[0]))
            except (OSError, subprocess.TimeoutExpired, ValueError, IndexError):
                return

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(15)


def memory_around_a_window(check):
    """GPU memory before a window, at its end and after it, MiB: what comes back there is CUPTI's, since the program allocates
    nothing meanwhile (docs/decisions/038). Graphs are launched all along."""
    stop, before_s, window_s = check.directory / "stop", check.pick(4, 1), check.pick(10, 1)
    command = [check.machine.program("tests/sim/subjects/large_graph"), "1000", "0", "0", "until", str(stop)]
    marks = []

    def watch(process):
        time.sleep(before_s - 0.5)
        marks.append(len(memory.read))
        time.sleep(window_s)
        marks.append(len(memory.read))
        logs, until = check.directory / f"profiled-{check.count}/logs", time.monotonic() + 20
        while not list(logs.glob("plugins/profile/*/summary.json")) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        time.sleep(check.pick(4, 0))
        stop.touch()

    with MemoryOfTheGpu() as memory:
        ran = check.profiled(command, check.machine.with_libraries(), [f"--window={before_s}s+{window_s}s"], on_start=watch)
    expect(ran.status == 0 and ran.summary, ran.tail())
    expect(ran.kernels() > 0, "no kernel in the window")
    if not memory.read:
        return ran.kernels(), None
    expect(0 < marks[0] < marks[1] < len(memory.read), f"no reading of the memory in each part: {marks}")
    return ran.kernels(), [memory.read[marks[0] - 1], memory.read[marks[1] - 1], memory.read[-1]]


def long_graphs(check):
    """1.5 million kernels of a graph: GPU memory that grows, and whether the end of recording gives it back; starts and
    ends that are zero or go back."""
    nodes, launches = 1000, check.pick(1500, 60)
    command = [check.machine.program("tests/sim/subjects/large_graph"), str(nodes), str(launches), "0"]
    environment = check.machine.with_libraries()
    with MemoryOfTheGpu() as bare_memory:
        bare = check.bare(command, environment)
    expect(bare.status == 0, bare.tail())
    with MemoryOfTheGpu() as memory:
        ran = check.profiled(command, environment)
    expect(ran.status == 0 and ran.summary, ran.tail())
    check.note(ran)
    seen = ran.kernels() + sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    expect(seen + ran.dropped() >= nodes * launches, f"{seen} of {nodes * launches} kernels, {ran.dropped()} dropped")
    untimed = sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    lengths = [event.duration_ps for event in ran.profile().device if event.kernel]
    expect(lengths, "the profile shows no kernel")
    growth = [max(read) - min(read) for read in (bare_memory.read, memory.read) if read]
    in_window, around = memory_around_a_window(check)
    check.facts.update(memory_growth_mib=growth, untimed=untimed, warnings=ran.warnings())
    check.facts.update(memory_in_window_mib=around, kernels_in_window=in_window)
    expect(check.machine.simulated or around, "nvidia-smi did not say how much memory is in use around a window")
    expect(check.machine.simulated or len(growth) == 2, "nvidia-smi did not say how much memory is in use")
    # An invalid time is one of the two: it is drawn with a length, or it is reported to have none.
    expect(min(lengths) >= 0, "a kernel ends before it starts")
    expect(untimed == 0 or ran.warnings(), f"{untimed} kernels without times, and no line about it")
    return (
        f"{seen} kernels, {untimed} without times, GPU memory grew by {growth} MiB (bare, under tbprof); "
        f"before, at the end of and after a window of {in_window} kernels: {around} MiB"
    )
