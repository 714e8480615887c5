# SPDX-License-Identifier: Apache-2.0
"""The simulator's programs on the real libraries, and the frameworks: the same output as bare, each kernel counted."""

import re

from basics import torch_python
from harness import PROGRAMS, Failed, Skip, expect

# Lines with durations, or that differ from run to run.
VARYING = re.compile(r"_ns=|per_second=|_kib=|pid|runtime=")
# Leaves calls of the driver by siglongjmp: NVIDIA's keeps its locks, and the program hangs, bare too (H200).
ONLY_SIMULATED = {"left_calls"}
MODES = {"left_calls": "wait_signal"}  # of the simulator, without which the program cannot go on
# Program, arguments, GPUs needed.
SUBJECTS = (
    ("copies", (), 1),
    ("devices", (), 1),
    ("driver_linked", (), 1),
    ("driver_opened", ("20", "by_address"), 1),
    ("driver_calls", (), 2),
    ("driver_calls_ptsz", (), 2),
    ("faults", ("none",), 1),
    ("faults", ("illegal_address",), 1),
    ("faults", ("launch_failure",), 1),
    ("faults", ("device_assert",), 1),
    ("forks", (), 1),
    ("graphs", ("10",), 1),
    ("green", (), 2),
    ("large_graph", ("1000", "5"), 1),
    ("launches", ("4", "2000"), 1),
    ("left_calls", (), 1),
    ("nvtx", (), 1),
    ("resets", ("3",), 1),
    ("streams", (), 1),
    ("train", ("50", "20000"), 1),
    ("train", ("50", "20000", "graph"), 1),
    ("unified", ("4",), 1),
    ("train_static", ("50", "20000"), 1),
    ("graphs_static", ("10",), 1),
    ("streams_static", (), 1),
)
# By hooks a graph is one piece of work, and its nodes are no kernels.
WHOLE_GRAPHS = {"graphs", "graphs_static", "large_graph"}


def stable(text):
    return sorted(line for line in text.splitlines() if not VARYING.search(line))


def subject(check, name, arguments, gpus, options):
    """None, or what is wrong; Skip where the program itself does not run here."""
    machine = check.machine
    environment = dict(machine.with_libraries())
    if name in ONLY_SIMULATED and not machine.simulated:
        raise Skip("on a GPU it hangs without tbprof")
    static = name.endswith("_static")
    if static and machine.simulated:
        raise Skip("NVIDIA's static runtime refuses the simulated driver")
    if machine.simulated and gpus > 1:
        environment["CUDASIM_GPUS"] = str(gpus)
    if name in MODES:
        environment["CUDASIM_CUDA"] = MODES[name]
    command = [machine.program(f"tests/gpu/{name}" if static else f"tests/sim/subjects/{name}"), *arguments]
    bare = check.bare(command, environment)
    # Written for the simulator: what a real library makes of it is a finding about that, and none about tbprof.
    if bare.status != 0:
        raise Skip(f"bare: status {bare.status} {(bare.err or bare.out).strip()[-80:]!r}")
    ran = check.profiled(command, environment, options)
    if ran.status != bare.status:
        return f"status {bare.status} bare, {ran.tail()}"
    if stable(ran.out) != stable(bare.out):
        return f"stdout {stable(bare.out)} bare, {stable(ran.out)}"
    if stable(ran.program_err) != stable(bare.err):
        return f"stderr {bare.err[-100:]!r} bare, {ran.program_err[-100:]!r}"
    if ran.summary is None:
        return f"no summary: {ran.tail()}"
    by_hooks = "--cuda=hooks" in options
    if ran.has("kernels") and ran.fact("kernels") > 0:
        check.mode_is_right(ran)
    if not ran.has("kernels") or by_hooks and (name in WHOLE_GRAPHS or "graph" in arguments):
        return None
    seen = ran.kernels() + sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    # What the child that became a new program launched is not in its parent's number.
    expected = ran.fact("kernels") + (1 if name == "forks" else 0)
    if not ran.dropped() and seen != expected:
        return f"{seen} kernels recorded, {expected} launched"
    return None


def all_subjects(check, options):
    rows, wrong, ran = [], [], 0
    for name, arguments, gpus in SUBJECTS:
        called = " ".join((name, *arguments))
        if check.left_s() < 8:
            rows.append((called, "not begun: no time left"))
            continue
        try:
            found = subject(check, name, arguments, gpus, options)
            # Some look at the clock, and others are at work on the GPU meanwhile: reported, and tried once more.
            if found and check.left_s() > 15:
                first, found = found, subject(check, name, arguments, gpus, options)
                rows.append((called, f"first: {first}"))
        except Skip as skip:
            rows.append((called, f"skipped: {skip}"))
            continue
        except Failed as failed:
            found = str(failed)
        ran += 1
        rows.append((called, found or "as bare"))
        if found:
            wrong.append(f"{called}: {found}")
    check.table("Programs of the simulator", ["program", "found"], rows)
    expect(not wrong, "; ".join(wrong))
    skipped = [row[0] for row in rows if row[1].startswith(("skipped", "not begun"))]
    expect(ran >= len(SUBJECTS) // 2, f"only {ran} of {len(SUBJECTS)} programs run here: {rows}")
    return f"{ran} programs as bare, kernels counted; skipped: {', '.join(skipped) or 'none'}"


def subjects(check):
    return all_subjects(check, ())


def subjects_by_hooks(check):
    return all_subjects(check, ("--cuda=hooks",))


def python_subject(check, module, program, *arguments, kernel):
    """A program that says how often it launched a kernel of that name."""
    python = torch_python(check) if module in ("torch", "triton") else check.machine.python_with(module)
    if module == "triton":
        python = check.machine.python_with("triton")
    command = [python, str(PROGRAMS / program), *arguments]
    bare = check.bare(command)
    if bare.status != 0:
        raise Skip(f"it does not run here: {bare.out.strip()[-150:] or bare.err.strip()[-150:]}")
    ran = check.profiled(command)
    expect(ran.status == 0 and ran.summary, ran.tail())
    check.note(ran)
    expect(stable(ran.out) == stable(bare.out), f"stdout {stable(bare.out)} bare, {stable(ran.out)}")
    seen, launched = ran.calls(kernel), ran.fact("launched")
    expect(ran.dropped() or seen == launched, f"{seen} of {launched} {kernel}; {ran.warnings()}")
    return f"{seen} of {launched} {kernel}, {ran.kernels()} kernels in all"


def torch_compile(check):
    return python_subject(check, "torch", "torch_modes.py", "compile", kernel="spin_kernel")


def torch_cuda_graphs(check):
    return python_subject(check, "torch", "torch_modes.py", "graphs", kernel="spin_kernel")


def torch_loader_and_threads(check):
    return python_subject(check, "torch", "torch_modes.py", "loader", kernel="spin_kernel")


def triton(check):
    return python_subject(check, "triton", "triton_add.py", kernel="add_kernel")


def cupy(check):
    if check.machine.simulated:
        raise Skip("CuPy does not run on the simulator")
    return python_subject(check, "cupy", "cupy_work.py", kernel="raw_scale")


def trainer(check):
    """A training by another library's loop, as people have them: Python's lines and the steps are there, too."""
    python = torch_python(check)
    check.machine.python_with("transformers")
    steps = 24
    command = [python, str(PROGRAMS / "gpt2_trainer.py"), str(check.directory / "trainer"), str(steps)]
    # Sums of floating point numbers come in another order each time.
    ran = check.pair(command, None, [], same=lambda text: "steps=" in text)
    expect(ran.fact("steps") == steps, f"{ran.fact('steps')} steps of {steps}")
    expect(ran.kernels() > 200 * steps, f"only {ran.kernels()} kernels for {steps} steps; {ran.warnings()}")
    python_found, found = ran.summary.get("python"), ran.summary.get("steps")
    check.facts.update(python=bool(python_found), steps=found if isinstance(found, list) else str(found)[:400])
    expect(python_found, "nothing of Python is in the summary")
    return f"{ran.kernels()} kernels in {steps} steps of transformers' Trainer"
