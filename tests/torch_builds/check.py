"""Whether a profile of training.py has what a tested build of PyTorch must tell.

  check.py XPLANE_FILE

Exit status 0, or 1 with a line for each thing that is not as it has to be.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "xprof"))

import xspace_maker  # noqa: E402

STEPS = 40


def main():
    with open(sys.argv[1], "rb") as file:
        space = xspace_maker.decode(file.read())
    lines = [line for plane in space["planes"] for line in plane["lines"]]
    wrong = []

    def expect(what, good):
        if not good:
            wrong.append(what)

    threads = [line["events"] for line in lines if line["name"] not in ("steps", "not steps", "memory", "_counters_")]
    events = [event for thread in threads for event in thread]
    of_name = {}
    for event in events:
        of_name.setdefault(event["name"], []).append(event)
    expect("40 Optimizer.step", len(of_name.get("Optimizer.step#SGD.step", [])) == STEPS)
    expect("40 batches and 5 ends", len([e for e in events if e["name"].startswith("enumerate(DataLoader)#")]) == 45)
    expect("40 ranges of the program's", len(of_name.get("named by the program", [])) == STEPS)
    for name in ("aten::linear", "aten::addmm"):
        expect("80 " + name, len(of_name.get(name, [])) == 2 * STEPS)
    shapes = sorted(str(event["stats"].get("Input Dims")) for event in of_name.get("aten::linear", []))
    expect("the shapes of each linear", shapes == ["[[8, 8], [2, 8], [2]]"] * STEPS + ["[[8, 8], [8, 8], [8]]"] * STEPS)
    nodes = of_name.get("AddmmBackward0", [])
    expect("80 AddmmBackward0", len(nodes) == 2 * STEPS)
    forward = {event["stats"].get("sequence") for event in of_name.get("aten::addmm", [])}
    backward = {event["stats"].get("sequence") for event in nodes}
    # Other operations share a number; those that have none of it would be linked to nothing.
    expect("each addmm has a number", None not in forward and len(forward) == 2 * STEPS)
    expect("each AddmmBackward0 has that of its addmm", backward == forward)
    # The other members that are read: the threads' numbers make links, and no range of this program ends elsewhere.
    linked = [event for event in nodes if "flow" in event["stats"]]
    expect("each AddmmBackward0 has an arrow from its operation", len(linked) == 2 * STEPS)
    expect("no ranges by number", not [line for line in lines if line["name"].startswith("ranges by number")])
    steps = [event for line in lines if line["name"] == "steps" for event in line["events"]
             if "step_num" in event["stats"]]
    expect("some 40 steps", 36 <= len(steps) <= STEPS + 2)
    for what in wrong:
        print("not so: " + what)
    return 1 if wrong else 0


sys.exit(main())
