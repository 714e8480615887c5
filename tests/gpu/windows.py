# SPDX-License-Identifier: Apache-2.0
"""Windows as they are used: captures on request, one after the other, the flight recorder; and much at once."""

import json
import signal
import time

from harness import expect


def at_pace(check, seconds):
    """A program that launches a thousand kernels a second, each waited for, for about so long."""
    return [check.machine.program("tests/gpu/endings"), "return", str(int(seconds * 1000)), "100000", "800"]


def paced(check):
    """Whether the program's pace is the same over the run. Beside other programs, the simulator's is not."""
    return not check.machine.simulated


def captures(check):
    """SIGUSR1 three times, each after the one before is written; a fourth while a window is open is counted, not lost."""
    seconds, length_s = check.pick((12, 1.0), (5, 0.5))
    asked = []

    def ask(process):
        place = check.directory / "profiled-1/logs/plugins/profile"
        time.sleep(0.6)
        for number in range(3):
            process.send_signal(signal.SIGUSR1)
            asked.append(time.monotonic())
            if number == 1:
                time.sleep(length_s / 3)
                process.send_signal(signal.SIGUSR1)
            until = time.monotonic() + 10
            while len(list(place.glob("*/*.xplane.pb"))) <= number and time.monotonic() < until:
                time.sleep(0.05)

    ran = check.profiled(
        at_pace(check, seconds),
        check.machine.with_libraries(),
        ["--window=none", f"--window-duration={length_s * 1000:.0f}ms"],
        on_start=ask,
    )
    expect(ran.status == 0, ran.tail())
    per_second = ran.fact("kernels") / (ran.fact("elapsed_ns") / 1e9)
    rows = []
    for run in ran.runs:
        ran.summary = json.loads(min(run.glob("*summary.json"), key=lambda path: len(path.name)).read_text())
        check.note(ran)
        wall_s = ran.summary["wall_s"]
        expected = per_second * wall_s
        rows.append((run.name, f"{wall_s:.3f}", ran.kernels(), round(expected), ran.dropped()))
    check.table("Captures one after the other", ["run", "seconds", "kernels", "at the program's pace", "dropped"], rows)
    expect(len(rows) == 3, f"{len(rows)} captures were written, 3 asked for: {ran.tail()}")
    for _, wall_s, kernels, expected, dropped in rows:
        expect(float(wall_s) >= 0.8 * length_s, f"a capture of {wall_s} s")
        expect(kernels > 0 and dropped == 0, f"{kernels} kernels, {dropped} dropped records")
        if paced(check):
            near = 0.7 * expected <= kernels <= 1.3 * expected
            expect(near, f"{kernels} kernels in {wall_s} s, {expected} at the pace")
    return ", ".join(f"{kernels} kernels in {wall_s} s" for _, wall_s, kernels, *_ in rows)


def flight_recorder(check):
    """--window=last: the end of the run as it was, and nothing of before."""
    seconds, last_s = check.pick((8, 2), (4, 1))
    ran = check.profiled(at_pace(check, seconds), check.machine.with_libraries(), [f"--window=last={last_s}s"])
    expect(ran.status == 0 and ran.summary, ran.tail())
    check.note(ran)
    shown = [event for event in ran.profile().device if event.kernel]
    expect(shown, "the profile shows no kernel")
    span_s = (max(event.start_ps for event in shown) - min(event.start_ps for event in shown)) / 1e12
    per_second = ran.fact("kernels") / (ran.fact("elapsed_ns") / 1e9)
    expected = per_second * last_s
    check.facts.update(shown=len(shown), span_s=span_s, expected=expected)
    # The window may be longer by a segment, never by the whole run.
    expect(span_s <= 1.6 * last_s, f"the kernels cover {span_s} s, not the last {last_s} s")
    expect(len(shown) < ran.fact("kernels"), "the profile shows the kernels of the whole run")
    if paced(check):
        near = 0.8 * expected <= len(shown) <= 1.6 * expected
        expect(near, f"{len(shown)} kernels of the last {last_s} s, {expected:.0f} at the pace")
    return f"{len(shown)} kernels over {span_s:.2f} s, of {ran.fact('kernels')}"


def everything_counted(check, ran, what):
    """Drawn, counted, or said to be dropped: no kernel may be none of these."""
    check.note(ran)
    launched = ran.fact("kernels")
    seen = ran.kernels() + sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    expect(seen <= launched, f"{what}: {seen} kernels recorded, {launched} launched")
    if ran.dropped() == 0:
        expect(seen == launched, f"{what}: {seen} of {launched} kernels, and nothing is said to be dropped")
    else:
        expect(
            seen + ran.dropped() >= launched, f"{what}: {seen} of {launched} kernels, {ran.dropped()} dropped records"
        )
    return (what, launched, seen, ran.dropped(), f"{ran.seconds:.2f}")


def many_at_once(check):
    """64 threads that launch, and a graph of a million nodes, by node and as a whole."""
    environment = check.machine.with_libraries()
    rows = []
    command = [check.machine.program("tests/sim/subjects/launches"), "64", check.pick("2000", "200")]
    for name, options in (("64 threads", ()), ("64 threads, by hooks", ("--cuda=hooks",))):
        ran = check.profiled(command, environment, options)
        expect(ran.status == 0 and ran.summary, f"{name}: {ran.tail()}")
        rows.append(everything_counted(check, ran, name))
    nodes = check.pick("1000000", "50000")
    command = [check.machine.program("tests/sim/subjects/large_graph"), nodes, "2", "0"]
    ran = check.profiled(command, environment)
    expect(ran.status == 0 and ran.summary, f"a graph of {nodes} nodes: {ran.tail()}")
    rows.append(everything_counted(check, ran, f"graph of {nodes} nodes, twice"))
    ran = check.profiled(command, environment, ["--cuda-graphs=graph"])
    expect(ran.status == 0 and ran.summary, f"a graph of {nodes} nodes as a whole: {ran.tail()}")
    graphs = sum(gpu["graphs"] for gpu in ran.summary["gpus"])
    expect(graphs == 2, f"{graphs} graphs recorded as a whole, 2 launched")
    rows.append(("the same, whole", 2, graphs, ran.dropped(), f"{ran.seconds:.2f}"))
    bare = check.bare(command, environment)
    rows.append(("the same, bare", "", "", "", f"{bare.seconds:.2f}"))
    check.table("Much at once", ["", "launched", "recorded", "dropped records", "seconds"], rows)
    return "; ".join(f"{row[0]}: {row[2]} of {row[1]}, {row[3]} records dropped" for row in rows[:3])
