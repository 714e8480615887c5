# SPDX-License-Identifier: Apache-2.0
"""Programs that end in the middle of a training: what was lost, beside what the profile says was lost."""

import signal

from basics import torch_python
from harness import PROGRAMS, expect

# How it ends, its status, and how long before the end records may be missing: what is on its way in CUPTI's buffers.
ENDINGS = (
    ("return", 0, 0.0),
    ("exit", 7, 0.0),
    ("unfinished", 7, 0.0),
    ("fault", 9, 1.0),
    ("term", -signal.SIGTERM, 1.0),
    ("kill", -signal.SIGKILL, 1.0),
)


def ending(check, how, status, may_lose_s, options=()):
    launches = check.pick(3000, 400)
    command = [check.machine.program("tests/gpu/endings"), how, str(launches), "100000", "900"]
    ran = check.profiled(command, check.machine.with_libraries(), options)
    expect(ran.status in (status, 128 - status), f"{how}: status {status} is expected; {ran.tail()}")
    expect(ran.summary is not None, f"{how}: no summary; {ran.tail()}")
    check.note(ran)
    launched, seconds = ran.fact("kernels"), ran.fact("elapsed_ns") / 1e9
    if how == "fault":
        expect(ran.fact("fault") != 0, "the device did not fault")
    seen = ran.calls("work_for_nanoseconds")
    said = [gpu["lost_at_end_s"] for gpu in ran.gpu_processes()]
    # Counted, in the totals or among those without times.
    seen += sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    lost, lost_s = launched - seen, (launched - seen) * seconds / launched
    check.facts[how] = {"launched": launched, "recorded": seen, "lost_s": round(lost_s, 3), "said_s": said}
    row = (
        how,
        launched,
        seen,
        lost,
        f"{lost_s:.3f}",
        ", ".join("-" if s is None else f"{s:.3f}" for s in said),
        ran.dropped(),
    )
    # The last kernel of these two is one more.
    expect(
        lost >= (-1 if how in ("unfinished", "fault") else 0), f"{how}: {seen} kernels recorded, {launched} launched"
    )
    expect(lost_s <= may_lose_s, f"{how}: {lost} of {launched} kernels are lost, the last {lost_s:.2f} s")
    # A loss that the profile does not report would read as an idle device. What it reports is a bound.
    told_s = max((s for s in said if s is not None), default=0.0)
    expect(lost_s < 0.06 or -0.01 <= told_s - lost_s <= 0.45, f"{how}: lost {lost_s:.3f} s, the profile says {told_s:.3f}")
    return row


def all_endings(check, title, options):
    rows = [ending(check, how, status, may_lose_s, options) for how, status, may_lose_s in ENDINGS]
    check.table(title, ["ending", "launched", "recorded", "lost", "lost s", "said s", "dropped"], rows)
    return ", ".join(f"{row[0]}: {row[3]} lost" for row in rows)


def endings(check):
    return all_endings(check, "Ends in the middle of a training", ())


def endings_by_hooks(check):
    return all_endings(check, "Ends in the middle of a training, by hooks", ["--cuda=hooks"])


def torch_killed(check):
    """The same with PyTorch: SIGKILL in a step, `os._exit`, an exception."""
    python = torch_python(check)
    rows = []
    for how, status, may_lose_s in (("kill", -signal.SIGKILL, 1.0), ("exit", 7, 0.0), ("raise", 1, 0.0)):
        ran = check.profiled([python, str(PROGRAMS / "torch_train.py"), "2000", how])
        expect(ran.status in (status, 128 - status), f"{how}: status {status} is expected; {ran.tail()}")
        expect(ran.summary is not None, f"{how}: no summary; {ran.tail()}")
        check.note(ran)
        seen, launched = ran.calls("spin_kernel"), ran.fact("spin_kernels")
        said = [gpu["lost_at_end_s"] for gpu in ran.gpu_processes()]
        rows.append((how, launched, seen, launched - seen, ", ".join("-" if s is None else f"{s:.3f}" for s in said)))
        if may_lose_s == 0:
            expect(seen == launched, f"{how}: {seen} of {launched} spin kernels")
        else:
            expect(seen > 0 and (seen == launched or any(said)), f"{how}: {seen} of {launched}, and said: {said}")
    check.table("PyTorch ends in a step", ["ending", "launched", "recorded", "lost", "said s"], rows)
    return ", ".join(f"{row[0]}: {row[3]} of {row[1]} lost" for row in rows)
