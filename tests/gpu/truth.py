# SPDX-License-Identifier: Apache-2.0
"""Is what the profile says true: beside CUPTI's own records of the same run, a bare client, hooks, torch.profiler."""

import collections
import json
import statistics

from basics import torch_python
from harness import PROGRAMS, expect, percentile, read_records

COPY_NAMES = {0: "MemcpyPToP", 1: "MemcpyHToD", 2: "MemcpyDToH", 8: "MemcpyDToD", 9: "MemcpyHToH", 10: "MemcpyPToP"}


def records_of_the_run(check):
    """Each record that CUPTI handed over is in the profile, with the start and the length that CUPTI gave it."""
    machine = check.machine
    environment = dict(machine.with_libraries())
    cupti = machine.cupti_library(check)
    environment.update(
        LD_PRELOAD=machine.program("tests/gpu/libcupti_tee.so"),
        TEE_CUPTI=cupti,
        TEE_OUT=str(check.directory / "tee"),
    )
    # Long enough for the clock to drift, and to be slewed.
    launches, pause_us = check.pick(("3000", "5000"), ("300", "5000"))
    ran = check.profiled([machine.program("tests/gpu/spin_shared"), launches, "20000", pause_us], environment)
    expect(ran.status == 0 and ran.summary, ran.tail())
    check.note(ran)
    library = ran.gpu_processes()[0]["library"]
    expect("cupti_tee" in library, f"tbprof took {library}, not what stands between")
    given = read_records(check.directory, "tee.*")
    profile = ran.profile()
    shown = sorted(profile.device, key=lambda event: (event.start_ps, event.duration_ps))
    expect(given, "CUPTI handed nothing over")
    expect(len(shown) == len(given), f"CUPTI handed over {len(given)} pieces of work, the profile has {len(shown)}")
    origin_ps = ran.summary["start_unix_ns"] * 1000
    starts, lengths = [], []
    for record, event in zip(given, shown):
        expect((record.kind == "K") == event.kernel, f"{record} is shown as {event}")
        starts.append((origin_ps + event.start_ps - record.start * 1000) / 1000)
        lengths.append((event.duration_ps - (record.end - record.start) * 1000) / 1000)
    calls = {event.correlation: event for event in profile.host}
    before = [
        (calls[event.correlation].start_ps - event.start_ps) / 1000 for event in shown if event.correlation in calls
    ]
    middle = statistics.median(starts)
    worst = max(abs(start - middle) for start in starts)
    check.table(
        "Clock over the run: start in the profile less CUPTI's, ns, by tenths of the run",
        ["tenth", "median", "lowest", "highest"],
        [
            (tenth + 1, round(statistics.median(part)), round(min(part)), round(max(part)))
            for tenth, part in enumerate(tenths(starts))
            if part
        ],
    )
    check.facts.update(
        start_offset_ns=round(middle),
        start_worst_ns=round(worst),
        length_worst_ns=round(max(map(abs, lengths)), 3),
        earliest_before_its_call_ns=round(max(before, default=0)),
        without_a_call=len(shown) - len(before),
        notes=ran.summary["notes"],
    )
    # Both ends go through the clock's map, which is as straight as its readings are narrow.
    off = [
        abs(length) for length, record in zip(lengths, given) if abs(length) > 5 + 5e-4 * (record.end - record.start)
    ]
    expect(not off, f"{len(off)} lengths are off, by up to {max(off, default=0):.1f} ns")
    spread = percentile([abs(start - middle) for start in starts], 0.99)
    expect(spread <= machine.pick(1000, 20000), f"starts scatter by {spread:.0f} ns about their median")
    # The wall clock at the start of the run, which is what a session has of it.
    expect(abs(middle) <= 100_000, f"starts are {middle:.0f} ns off CUPTI's")
    # The driver has work of its own when it starts.
    expect(len(before) >= 0.99 * len(shown), f"{len(shown) - len(before)} pieces of work have no call")
    # The two clocks are as close as a reading of both is narrow; one bad reading is no wrong clock.
    early = percentile(before, 0.99)
    expect(early <= machine.pick(5000, 50000), f"1 % of the work begins {early:.0f} ns and more before its call")
    return f"{len(given)} records in the profile, start within {worst:.0f} ns, length within {max(map(abs, lengths)):.2f} ns"


def tenths(values):
    size = max(1, -(-len(values) // 10))
    return [values[at : at + size] for at in range(0, len(values), size)]


def by_kind(records):
    counts = collections.Counter()
    for record in records:
        if record.kind == "K":
            counts["kernels"] += 1
        elif record.kind == "C":
            counts[COPY_NAMES.get(record.detail, f"copy {record.detail}")] += 1
        elif record.kind == "S":
            counts["Memset"] += 1
        elif record.kind == "G":
            counts["graphs"] += 1
    return counts


def in_profile(profile):
    counts = collections.Counter()
    for event in profile.device:
        counts["kernels" if event.kernel else event.name.split(" ")[0].split("(")[0]] += 1
    return counts


def bare_client(check):
    """The same program under a bare CUPTI client, under tbprof, and under tbprof without CUPTI."""
    machine = check.machine
    environment = machine.with_libraries()
    rows, wrong = [], []
    programs = (
        ("spin", ["tests/gpu/spin_shared", "500", "50000"]),
        ("train", ["tests/sim/subjects/train", "200", "20000"]),
        ("train, as graphs", ["tests/sim/subjects/train", "200", "20000", "graph"]),
        ("copies", ["tests/sim/subjects/copies"]),
    )
    for name, (program, *arguments) in programs:
        command = [machine.program(program), *arguments]
        client = check.with_client(command, environment)
        expect(client.status == 0, f"{name} under the bare client: {client.tail()}")
        ours = check.profiled(command, environment)
        expect(ours.status == 0 and ours.summary, f"{name}: {ours.tail()}")
        hooks = check.profiled(command, environment, ["--cuda=hooks"])
        expect(hooks.status == 0 and hooks.summary, f"{name}, by hooks: {hooks.tail()}")
        check.note(ours)
        theirs = by_kind(client.records)
        seen = in_profile(ours.profile())
        if theirs != seen:
            wrong.append(f"{name}: the client has {dict(theirs)}, the profile {dict(seen)}")
        check.mode_is_right(hooks)
        by_hooks = in_profile(hooks.profile())
        # By hooks a graph is one piece of work. What CUPTI makes of other kinds of copies and of sets is its own matter
        # (a copy between two places on the host, a set as a kernel): it is shown, and no failure.
        if "graph" not in name:
            for what in ("kernels", "MemcpyHToD", "MemcpyDToH"):
                if by_hooks[what] != seen[what]:
                    wrong.append(f"{name}: {seen[what]} {what} by CUPTI, {by_hooks[what]} by hooks")
            if by_hooks != seen:
                check.facts[f"{name} by hooks"] = dict(by_hooks)
        expect(sum(seen.values()) > 0, f"{name}: the profile is empty: nothing was measured")
        # Calls that the runtime makes of the driver are CUPTI's secret.
        for runtime, call in (("cudaLaunchKernel", "cuLaunchKernel"), ("cudaGraphLaunch", "cuGraphLaunch")):
            if ours.operation(runtime) != hooks.operation(call) or ours.operation(call):
                wrong.append(
                    f"{name}: {runtime} {ours.operation(runtime)} times and {call} {ours.operation(call)} times by CUPTI, "
                    f"{hooks.operation(call)} by hooks"
                )
        lengths = [record.end - record.start for record in client.records if record.kind == "K"]
        shown = [event.duration_ps / 1000 for event in ours.profile().device if event.kernel]
        hooked = [event.duration_ps / 1000 for event in hooks.profile().device if event.kernel]
        if not lengths or not shown:
            continue
        for share in (0.1, 0.5, 0.9):
            theirs_ns, ours_ns = percentile(lengths, share), percentile(shown, share)
            hooks_ns = percentile(hooked, share) if hooked else None
            rows.append(
                (
                    name,
                    f"p{share * 100:.0f}",
                    theirs_ns,
                    round(ours_ns),
                    f"{ours_ns / theirs_ns:.3f}",
                    "" if hooks_ns is None else round(hooks_ns),
                    "" if hooks_ns is None else f"{hooks_ns / theirs_ns:.3f}",
                )
            )
            # Two runs: a kernel of some microseconds differs by a tick of the device's clock or two.
            if share == 0.5 and abs(ours_ns - theirs_ns) > max(0.05 * theirs_ns, 1000):
                wrong.append(f"{name}: the median kernel takes {ours_ns:.0f} ns, the client says {theirs_ns}")
        rows.append(
            (name, "sum", sum(lengths), round(sum(shown)), f"{sum(shown) / sum(lengths):.3f}", round(sum(hooked)), "")
        )
    check.table(
        "Kernel times, ns: bare CUPTI client, tbprof, tbprof by hooks (three runs)",
        ["program", "", "client", "tbprof", "ratio", "hooks", "ratio"],
        rows,
    )
    expect(not wrong, "; ".join(wrong))
    return f"{len(programs)} programs: kernels and copies as the bare client counts them, by hooks too"


def torch_counts(check):
    """Of one piece of deterministic work between two marks: what torch.profiler, the bare client and tbprof saw."""
    python = torch_python(check)
    command = [python, str(PROGRAMS / "torch_work.py")]
    told = check.directory / "torch_profiler.json"
    theirs = check.run([*command, "--profile", str(told)])
    expect(theirs.status == 0 and told.exists(), f"under torch.profiler: {theirs.tail()}")
    profiler = between_marks(
        (event["cat"] == "kernel", event["name"], event["ts"] * 1000, event["dur"] * 1000)
        for event in json.loads(told.read_text())["traceEvents"]
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    )
    told.unlink()
    ours = check.profiled(command)
    expect(ours.status == 0 and ours.summary, ours.tail())
    check.note(ours)
    tbprof = between_marks(
        (event.kernel, event.name, event.start_ps / 1000, event.duration_ps / 1000) for event in ours.profile().device
    )
    library = ours.gpu_processes()[0]["library"]
    environment, place = check.client_environment(records=True)
    environment["CLIENT_CUPTI"] = library
    ran = check.run(command, environment)
    expect(ran.status == 0, f"under the bare client: {ran.tail()}")
    client = between_marks(
        (
            record.kind == "K",
            record.name or COPY_NAMES.get(record.detail, "Memset"),
            record.start,
            record.end - record.start,
        )
        for record in read_records(place, "client.*.records")
    )
    rows = []
    for what in ("kernels", "copies and sets"):
        values = [
            [length for kernel, _, length in seen if kernel == (what == "kernels")]
            for seen in (profiler, client, tbprof)
        ]
        rows.append((what, *(len(value) for value in values), *(round(sum(value)) for value in values)))
        for share in (0.1, 0.5, 0.9):
            if all(values):
                rows.append((f"p{share * 100:.0f}", "", "", "", *(round(percentile(value, share)) for value in values)))
    check.table(
        "The same PyTorch work: count, and device time in ns",
        ["", "torch.profiler", "client", "tbprof", "torch.profiler ns", "client ns", "tbprof ns"],
        rows,
    )
    kernels = sum(kernel for kernel, _, _ in tbprof)
    for name, seen in (("torch.profiler", profiler), ("the bare client", client)):
        expected = sum(kernel for kernel, _, _ in seen)
        expect(kernels == expected, f"{kernels} kernels, {name} has {expected}")
        others, expected = len(tbprof) - kernels, len(seen) - expected
        expect(others == expected, f"{others} copies and sets, {name} has {expected}")
    return f"{kernels} kernels, {len(tbprof) - kernels} copies and sets: torch.profiler's and the client's numbers"


def between_marks(events):
    """What lies between the first and the last spin kernel, these left out: start-up is each tool's own."""
    events = sorted(events, key=lambda event: event[2])
    marks = [number for number, event in enumerate(events) if "spin_kernel" in event[1]]
    expect(len(marks) == 2, f"{len(marks)} marks of 2 among {len(events)} pieces of work")
    return [(kernel, name, length) for kernel, name, _, length in events[marks[0] + 1 : marks[1]]]
