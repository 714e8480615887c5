# SPDX-License-Identifier: Apache-2.0
"""The program uses CUPTI itself, before, during and after our windows: its records are complete, ours have a marked gap."""

import json
import os
import pathlib
import signal
import time

import xplane
from basics import jax_python, torch_python
from harness import PROGRAMS, Skip, expect

BACK_S = 1.5
ROUNDS = 3  # before the window, in it, after it


def through_gates(check, command, environment, variable):
    """Runs a program that waits before each of its own recordings: the second is in a capture of ours."""
    gates = check.directory / f"gates-{check.count}"
    gates.mkdir()
    place = check.directory / f"profiled-{check.count + 1}"
    length_s = check.pick(6.0, 1.0)

    def pass_gates(process):
        for number in range(ROUNDS):
            while not (gates / f"ready-{number}").exists():
                if process.poll() is not None or check.left_s() < 5:
                    return
                time.sleep(0.005)
            if number == 1:
                # tbprof records again after a second in which the program made no call of CUPTI, and looks every 0.2 s.
                time.sleep(BACK_S)
                process.send_signal(signal.SIGUSR1)
                time.sleep(0.4)
            if number == 2:
                while not list(place.glob("logs/plugins/profile/*/*summary.json")) and check.left_s() > 5:
                    time.sleep(0.02)
            (gates / f"go-{number}").touch()

    ran = check.profiled(
        command,
        {**environment, variable: str(gates)},
        ["--window=none", f"--window-duration={length_s * 1000:.0f}ms"],
        on_start=pass_gates,
    )
    expect(ran.status == 0, ran.tail())
    expect(len(ran.runs) == 1, f"{len(ran.runs)} captures were written; {ran.tail()}")
    ran.summary = json.loads(next(ran.runs[0].glob("*summary.json")).read_text())
    check.note(ran)
    return ran


def gap_is_reported(check, ran):
    gpus = ran.gpu_processes()
    states = {gpu["state"] for gpu in gpus}
    check.facts["gaps"] = [gap for gpu in gpus for gap in gpu["gaps"]]
    check.facts["states"] = [f"{gpu['state']}: {gpu['reason']}" for gpu in gpus]
    expect(states & {"recorded_with_gaps", "unavailable"}, f"the gap is not told: {states}")


def cupti_in_a_window(check):
    """A CUPTI client in C, by both ways to subscribe."""
    environment = check.machine.with_libraries()
    if not check.machine.loads("libcupti.so.13", environment):
        raise Skip("no libcupti.so.13 is found")
    for version in ("1", "2"):
        command = [check.machine.program("tests/sim/subjects/rival_opened"), version, str(ROUNDS)]
        ran = through_gates(check, command, environment, "RIVAL_GATES")
        expect(
            ran.fact("own_kernels") == 5 * ROUNDS,
            f"the program saw {ran.fact('own_kernels')} of its {5 * ROUNDS} kernels",
        )
        # Those it launched in the window before it subscribed.
        expect(ran.calls("rival") == 5, f"{ran.calls('rival')} of 5 kernels before the program's own recording")
        gap_is_reported(check, ran)
    return f"the program saw its {5 * ROUNDS} kernels, tbprof the 5 before them, and the gap"


def cupti_12_library(machine):
    """Of an earlier CUDA, where there is one."""
    names = [os.environ.get("GPU_CHECK_CUPTI12", ""), str(machine.build / "carried/libcupti.so.12")]
    if machine.simulated:
        names.append(str(machine.build / "tests/sim/cuda12/libcupti.so.12"))
    places = [directory.parent.parent / "cuda_cupti/lib" for directory in machine.library_directories()]
    names += [str(place / "libcupti.so.12") for place in places]
    names += [str(path) for path in pathlib.Path("/usr/local").glob("cuda-12*/extras/CUPTI/lib64/libcupti.so.12")]
    for name in names:
        if name and os.access(name, os.R_OK):
            return name
    raise Skip("no libcupti.so.12 here; GPU_CHECK_CUPTI12 names one, also for --pack")


def two_cuptis(check):
    """CUPTI 12 and 13 in one process, of which the driver serves the first that is used: the program's, whichever it is."""
    environment = check.machine.with_libraries()
    older = cupti_12_library(check.machine)
    for mine, also in (("libcupti.so.13", older), (older, "libcupti.so.13")):
        told = {**environment, "RIVAL_CUPTI": mine, "RIVAL_ALSO": also}
        command = [check.machine.program("tests/sim/subjects/rival_opened"), "1", "20"]
        bare = check.bare(command, told)
        expect(bare.status == 0, f"the bare program with {mine}: {bare.tail()}")
        ran = check.profiled(command, told)
        expect(ran.status == 0 and ran.summary, f"with {mine}: {ran.tail()}")
        own = bare.fact("own_kernels")
        expect(ran.fact("own_kernels") == own, f"with {mine}: the program saw {ran.fact('own_kernels')} kernels, {own} bare")
        process = ran.gpu_processes()[0]
        expect("several copies of CUPTI" in process["approximate"], f"with {mine}: {process['approximate']}")
    # What it opens when tbprof has one is refused, and the profile says by what.
    told = {**environment, "RIVAL_CUPTI": older, "RIVAL_LATE": "1"}
    ran = check.profiled([check.machine.program("tests/sim/subjects/rival_opened"), "1", "20"], told)
    expect(ran.status == 0 and ran.summary, f"opened late: {ran.tail()}")
    gaps = [gap["left"] for gpu in ran.gpu_processes() for gap in gpu["gaps"]]
    expect(gaps == ["other_copy"], f"opened late: gaps {gaps}; {ran.warnings()}")
    return f"each of two copies records its {own} kernels, tbprof by hooks; one that is opened late is refused, which the gap names"


def torch_in_a_window(check):
    """torch.profiler before, in and after a window."""
    python = torch_python(check)
    told = check.directory / "torch.json"
    command = [python, str(PROGRAMS / "torch_profiles.py"), str(told)]
    ran = through_gates(check, command, check.machine.environment, "GATES")
    seen = [json.loads(line) for line in told.read_text().splitlines()]
    check.facts["torch_profiler"] = seen
    expect(len(seen) == ROUNDS, f"{len(seen)} of {ROUNDS} recordings of torch.profiler")
    for number, one in enumerate(seen):
        expect(
            one["spin_kernels"] == 20,
            f"recording {number} of torch.profiler has {one['spin_kernels']} of 20 spin kernels",
        )
        # Not to the last: a library may set its memory once.
        same = abs(one["kernels"] - seen[0]["kernels"]) <= 2
        expect(same, f"recording {number} has {one['kernels']} kernels, the first {seen[0]['kernels']}")
    # A PyTorch that keeps its subscription leaves what is behind its session to the gap; what is before it is ours.
    gap_is_reported(check, ran)
    spins = ran.calls("spin_kernel")
    expect(20 <= spins <= 40, f"{spins} of the 40 spin kernels before and after torch.profiler in the window")
    gaps = ", ".join(f"{gap['start_s']:.2f}-{gap['end_s']:.2f} s {gap['reason']}" for gap in check.facts["gaps"])
    return (
        f"torch.profiler has {seen[0]['kernels']} kernels each time, tbprof {spins} of the 40 around them; gaps: {gaps}"
    )


def jax_in_a_window(check):
    """jax.profiler before, in and after a window."""
    python = jax_python(check)
    traces = check.directory / "jax"
    command = [python, str(PROGRAMS / "jax_profiles.py"), str(traces)]
    ran = through_gates(check, command, check.machine.environment, "GATES")
    counts = []
    for number in range(ROUNDS):
        kernels = 0
        for path in (traces / str(number)).rglob("*.xplane.pb"):
            kernels += xplane.Profile(path).on_device
        counts.append(kernels)
    check.facts["jax_profiler"] = counts
    expect(min(counts) >= 20, f"jax.profiler has {counts} pieces of device work, of 20 steps each")
    expect(max(counts) - min(counts) <= 0.1 * max(counts), f"jax.profiler has {counts} pieces of device work")
    gap_is_reported(check, ran)
    expect(ran.kernels() >= 20, f"tbprof recorded {ran.kernels()} kernels around jax.profiler in the window")
    return f"jax.profiler has {counts} pieces of work, tbprof {ran.kernels()} kernels around, and the gap"
