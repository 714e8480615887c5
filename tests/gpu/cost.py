# SPDX-License-Identifier: Apache-2.0
"""What recording costs: workers below different profilers take turns, so that each round compares like with like.

These measure: they fail only where nothing could be measured, and say for each goal whether it was met.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

from basics import torch_python
from harness import PROGRAMS, Failed, Ran, Skip, expect, quantiles


class Worker:
    """One process of cost_worker.py, below a profiler or none."""

    def __init__(self, check, name, command, environment, place=None, torch_profiler=False):
        self.name, self.place, self.torch_profiler = name, place, torch_profiler
        self.directory = check.directory / f"worker-{name.replace(' ', '-').replace('/', '-')}"
        self.directory.mkdir()
        self.number = 0
        self.environment = environment
        self.command = [str(part) for part in command]
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [part.replace("{DIRECTORY}", str(self.directory)) for part in self.command],
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=open(self.directory / "out.txt", "w"),
            stderr=open(self.directory / "err.txt", "w"),
            start_new_session=True,
        )

    def ask(self, until, **task):
        """The answer to one task; None of a worker that is gone."""
        if self.process is None:
            return None
        if self.torch_profiler and "profiler" not in task:
            task["profiler"] = True
        new = self.directory / "task.new"
        new.write_text(json.dumps(task))
        new.rename(self.directory / f"task-{self.number}.json")
        answer = self.directory / f"answer-{self.number}.json"
        self.number += 1
        while not answer.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                return None
            time.sleep(0.005)
        told = json.loads(answer.read_text())
        return told

    def end(self, check):
        new = self.directory / "task.new"
        new.write_text('{"what": "end"}')
        new.rename(self.directory / f"task-{self.number}.json")

    def touch(self, what):
        """Tells a bare client of CUPTI to start or to stop."""
        if "CLIENT_OUT" in self.environment:
            pathlib.Path(f"{self.environment['CLIENT_OUT']}.{what}").touch()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def error(self):
        return (self.directory / "err.txt").read_text(errors="replace").strip()[-200:]


class Fleet:
    """All workers of one measurement, started at once and asked in turn, each round in another order."""

    def __init__(self, check, torch=True):
        self.check = check
        machine = check.machine
        self.python, self.torch = sys.executable, False
        if torch and not machine.simulated:
            try:
                self.python, self.torch = torch_python(check), True
            except Skip:
                pass
        # PyTorch brings libraries of its own, and has them loaded first.
        self.environment = {**machine.environment, "COST_TORCH": "1"} if self.torch else machine.with_libraries()
        self.worker = [
            self.python,
            str(PROGRAMS / "cost_worker.py"),
            "{DIRECTORY}",
            machine.program("tests/gpu/librates.so"),
        ]
        self.workers, self.gone = [], {}

    def add(self, name, options=None, client=None, told=None, **more):
        """`told`: variables of the bare client (cupti_client.c)."""
        check = self.check
        if options is not None:
            command, place = check.profiled_command(self.worker, options)
            self.workers.append(Worker(check, name, command, self.environment, place))
        elif client is not None:
            environment, place = check.client_environment(self.environment, graphs=client == "graph")
            if self.torch:
                environment["CLIENT_CUPTI"] = "libcupti.so.13"  # the one that is mapped, as tbprof takes
            environment.update(told or {})
            self.workers.append(Worker(check, name, self.worker, environment, place))
        else:
            self.workers.append(Worker(check, name, self.worker, self.environment, **more))

    def add_nsys(self):
        places = ("nsight-systems/*/bin/nsys", "nsight-compute/*/host/target-linux-x64/nsys")
        found = [str(path) for place in places for path in sorted(pathlib.Path("/opt/nvidia").glob(place))]
        nsys = shutil.which("nsys") or next((path for path in found if os.access(path, os.X_OK)), None)
        if nsys is None or self.check.machine.simulated:
            self.gone["nsys"] = "not on this machine"
            return
        command = [
            nsys,
            "profile",
            "-t",
            "cuda",
            "-s",
            "none",
            "--cpuctxsw=none",
            "-o",
            str(self.check.directory / "nsys"),
        ]
        self.workers.append(Worker(self.check, "nsys", [*command, *self.worker], self.environment))

    def __enter__(self):
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *failed):
        for worker in self.workers:
            worker.end(self.check)
        until = time.monotonic() + max(5.0, min(self.check.left_s(), 60))
        for worker in self.workers:
            try:
                worker.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.gone.setdefault(worker.name, "did not end")
            worker.kill()

    def ask(self, worker, **task):
        if worker.name in self.gone:
            return None
        # One that hangs is not to take the others' time; the first answer has the start-up in it.
        within_s = 60 if worker.number == 0 else 30
        if worker.torch_profiler and task["what"] == "launch":
            # It makes something of each record when it stops, for seconds.
            task["count"] = max(100, task["count"] // 5)
        answer = worker.ask(min(self.check.until - 10, time.monotonic() + within_s), **task)
        if answer is None or "failed" in answer:
            self.gone[worker.name] = (answer or {}).get("failed") or f"no answer to {task}: {worker.error()}"
            return None
        answer["wall_each_ns"] = answer["wall_ns"] / (task["count"] * task.get("nodes", 1))
        return answer

    def rounds(self, tasks, rounds, until_s):
        """{task: {worker: [answer, ...]}}: whole rounds only, as many as there is time for."""
        found = {name: {worker.name: [] for worker in self.workers} for name in tasks}
        order = random.Random(7)
        end = 0.0
        for number in range(rounds):
            # The first, which brings contexts and compiled code with it, is not of the time.
            if number == 1:
                end = time.monotonic() + until_s
            elif number > 1 and time.monotonic() > end:
                break
            for name, task in tasks.items():
                workers = list(self.workers)
                order.shuffle(workers)
                for worker in workers:
                    answer = self.ask(worker, **task)
                    # What the first time brings with it (contexts, lazily loaded code) is not measured.
                    if answer is not None and number > 0:
                        found[name][worker.name].append(answer)
        return found

    def must_have(self, *names):
        for name in names:
            if name in self.gone:
                raise Failed(f"{name}: {self.gone[name]}")

    def profiles(self):
        """What tbprof made of its workers, for the records it lost."""
        found = {}
        for worker in self.workers:
            if worker.place is None or not (worker.place / "summary.json").exists():
                continue
            ran = Ran(worker.process.returncode, "", (worker.directory / "err.txt").read_text(errors="replace"), 0)
            found[worker.name] = self.check.read_profile(ran, worker.place)
        return found


def ratio_of_rounds(theirs, others, key):
    """Median and quartiles of the rounds' ratios."""
    ratios = [one[key] / other[key] for one, other in zip(theirs, others) if other[key] > 0]
    return quantiles(ratios) if ratios else None


def spread(three, digits=2):
    return "" if three is None else f"{three[1]:.{digits}f} ({three[0]:.{digits}f}-{three[2]:.{digits}f})"


def goal(three, most):
    return "" if three is None else f"{'met' if three[1] <= most else 'not met'}: <= {most}"


def whole_fleet(check, *also):
    """Bare, CUPTI alone and all profilers. `also`: further modes of the client, its name behind a comma."""
    fleet = Fleet(check)
    fleet.add("bare")
    fleet.add("bare 2")
    fleet.add("CUPTI client", client="node")
    for mode in also:
        fleet.add(f"CUPTI client, {mode}", client=mode)
    fleet.add("tbprof", [])
    fleet.add("tbprof, graph", ["--cuda-graphs=graph"])
    fleet.add("tbprof, no window", ["--window=none"])
    fleet.add("tbprof, hooks", ["--cuda=hooks"])
    if fleet.torch:
        fleet.add("torch.profiler", torch_profiler=True)
    else:
        fleet.gone["torch.profiler"] = "no PyTorch for the GPU here"
    fleet.add_nsys()
    return fleet


def launches(check):
    """The added time of a launch, at 10,000 and 100,000 a second and as fast as it goes; of a graph, by node."""
    return launches_of(check, whole_fleet(check, "graph"), check.pick(8, 3), 100_000)


def launches_closely(check):
    """Likewise of those alone that have a bound, and so in many more rounds: a few percent must show."""
    fleet = Fleet(check)
    fleet.add("bare")
    fleet.add("CUPTI client", client="node")
    fleet.add("tbprof", [])
    fleet.add("tbprof, no samples", ["--sample-rate=0"])
    fleet.add("tbprof, no window", ["--window=none"])
    return launches_of(check, fleet, check.pick(40, 3), 20_000)


def launches_of(check, fleet, rounds, saturated):
    flush_s = check.pick(0.05, 0.02)
    tasks = {
        "10,000/s": {"what": "launch", "rate": 10_000, "count": check.pick(1000, 300), "flush_s": flush_s},
        "100,000/s": {"what": "launch", "rate": 100_000, "count": check.pick(10_000, 3000), "flush_s": flush_s},
        "saturated": {"what": "launch", "rate": 0, "count": check.pick(saturated, 5000), "flush_s": flush_s},
        "graph of 1,000": {"what": "graph", "nodes": 1000, "count": check.pick(50, 5), "flush_s": flush_s},
    }
    with fleet:
        found = fleet.rounds(tasks, rounds, check.pick(85, 8))
    fleet.must_have("bare", "CUPTI client", "tbprof", "tbprof, no window")
    expect(all(answers["tbprof"] for answers in found.values()), "no whole round after the first: nothing was measured")
    verdict = []
    for task, answers in found.items():
        rows = []
        graph = task.startswith("graph")
        for worker in fleet.workers:
            mine = answers[worker.name]
            if not mine:
                continue
            as_a_whole = worker.name.endswith("graph") and graph and answers.get("CUPTI client, graph")
            yardstick = "CUPTI client, graph" if as_a_whole else "CUPTI client"
            scale = 1e-3 if graph else 1
            middle = {
                key: statistics.median(one[key] for one in mine)
                for key in ("p50_ns", "p99_ns", "mean_ns", "wall_each_ns")
            }
            key = "wall_each_ns" if task == "saturated" else "p50_ns"
            added = statistics.median(one["mean_ns"] - other["mean_ns"] for one, other in zip(mine, answers["bare"]))
            by_client = ratio_of_rounds(mine, answers[yardstick], key)
            by_bare = ratio_of_rounds(mine, answers["bare"], key)
            wanted = goal(by_client, 1.05) if worker.name in ("tbprof", "tbprof, graph") else ""
            rows.append(
                (
                    worker.name,
                    spread([value * scale for value in quantiles([one["p50_ns"] for one in mine])], 1 if graph else 0),
                    f"{middle['mean_ns'] * scale:.0f}",
                    f"{middle['p99_ns'] * scale:.0f}",
                    f"{added * scale:.0f}",
                    f"{middle['wall_each_ns']:.0f}",
                    spread(by_bare),
                    spread(by_client),
                    wanted,
                )
            )
            if wanted and worker.name == "tbprof":
                verdict.append(f"{task} {by_client[1]:.2f}")
        unit = "us a replay" if graph else "ns a launch"
        each = "wall ns a node" if graph else "wall ns a launch"
        check.table(
            f"Cost at {task}, {unit}, medians (quartiles) of {len(answers['bare'])} rounds; "
            f"ratios of {'all' if task == 'saturated' else 'the p50'}",
            ["", "p50", "mean", "p99", "mean added", each, "to bare", "to client", "goal"],
            rows,
        )
    profiles = fleet.profiles()
    check.table(
        "What tbprof recorded of it",
        ["", "kernels", "graphs", "dropped records", "untimed", "warnings"],
        [
            (
                name,
                ran.kernels(),
                sum(gpu["graphs"] for gpu in ran.summary["gpus"]),
                ran.dropped(),
                sum(gpu["untimed"] for gpu in ran.summary["gpus"]),
                "; ".join(ran.warnings())[:150],
            )
            for name, ran in profiles.items()
            if ran.summary
        ],
    )
    check.facts.update(gone=fleet.gone, rounds=len(found["saturated"]["bare"]))
    expect("tbprof" in profiles and profiles["tbprof"].summary, f"tbprof left no profile: {fleet.gone}")
    # All rounds, the first one too; each rate has a kernel of its own before it, a graph one replay.
    launched = sum(
        number * (task["count"] + 1) if task["what"] == "launch" else task["nodes"] * (number * task["count"] + 1)
        for name, task in tasks.items()
        for number in [len(found[name]["tbprof"]) + 1]
    )
    seen, dropped = profiles["tbprof"].kernels(), profiles["tbprof"].dropped()
    expect(
        seen == launched or dropped and seen < launched <= seen + dropped,
        f"{seen} of {launched} kernels, {dropped} dropped",
    )
    return f"tbprof to the bare CUPTI client: {', '.join(verdict)} (goal 1.05); left out: {fleet.gone or 'none'}"


def steps(check):
    """The time of a training step: without a framework, GPT-like, ResNet-like."""
    fleet = Fleet(check)
    fleet.add("bare")
    fleet.add("bare 2")
    fleet.add("CUPTI client", client="node")
    fleet.add("tbprof", [])
    fleet.add("tbprof, no window", ["--window=none"])
    fleet.add("tbprof, no samples", ["--sample-rate=0"])
    if fleet.torch:
        fleet.add("torch.profiler", torch_profiler=True)
    tasks = {"launches": {"what": "steps", "model": "launches", "count": check.pick(100, 8)}}
    if fleet.torch:
        for model in ("gpt", "resnet"):
            tasks[model] = {"what": "steps", "model": model, "count": 40}
    with fleet:
        found = fleet.rounds(tasks, check.pick(7, 3), check.pick(75, 5))
    fleet.must_have("bare", "CUPTI client", "tbprof")
    expect(all(answers["tbprof"] for answers in found.values()), "no whole round after the first: nothing was measured")
    rows, verdict = [], []
    for task, answers in found.items():
        added = {}
        for worker in fleet.workers:
            mine = answers[worker.name]
            if not mine:
                continue
            by_bare = ratio_of_rounds(mine, answers["bare"], "p50_ns")
            by_client = ratio_of_rounds(mine, answers["CUPTI client"], "p50_ns")
            added[worker.name] = statistics.median(
                one["p50_ns"] - other["p50_ns"] for one, other in zip(mine, answers["bare"])
            )
            rows.append(
                (
                    task,
                    worker.name,
                    spread([value / 1e6 for value in quantiles([one["p50_ns"] for one in mine])], 3),
                    f"{added[worker.name] / 1e3:.0f}",
                    spread(by_bare, 3),
                    spread(by_client, 3),
                    goal(by_bare, 1.002 if "no window" in worker.name else 1.02) if "tbprof" in worker.name else "",
                )
            )
            if worker.name == "tbprof":
                verdict.append(f"{task} {by_bare[1]:.3f}")
        theirs = added.get("torch.profiler", 0)
        # Below the difference of two bare workers it is noise.
        if theirs > 2 * abs(added.get("bare 2", 0)):
            share = added["tbprof"] / theirs
            rows.append(
                (
                    task,
                    "tbprof's share of torch.profiler's",
                    "",
                    "",
                    "",
                    f"{share:.2f}",
                    f"{'met' if share < 1 / 3 else 'not met'}: < 0.33",
                )
            )
    check.table(
        f"Training steps, ms, medians (quartiles) of {len(found['launches']['bare'])} rounds",
        ["model", "", "step", "added us", "to bare", "to client", "goal"],
        rows,
    )
    check.facts["gone"] = fleet.gone
    fleet.profiles()
    return f"tbprof to bare: {', '.join(verdict)} (goal 1.02); left out: {fleet.gone or 'none'}"


def kinds_of_steps(check):
    """Which kinds of CUPTI's records a training step pays for: the bare client without one of them each."""
    fleet = Fleet(check)
    fleet.add("bare")
    everything = "runtime,driver,synchronization,overhead,memory2,"
    fleet.add("all", client="node")
    fleet.add("all, fewer runtime calls", client="node", told={"CLIENT_LIKE": "left"})
    for without in ("runtime,driver,", everything):
        fleet.add(f"without {without}", client="node", told={"CLIENT_WITHOUT": without})
    models = ("gpt",) if fleet.torch else ("launches",)
    tasks = {model: {"what": "steps", "model": model, "count": check.pick(30, 8)} for model in models}
    with fleet:
        found = fleet.rounds(tasks, check.pick(12, 3), check.pick(60, 5))
    fleet.must_have("bare", "all")
    rows = []
    for model, answers in found.items():
        expect(answers["bare"], "no whole round after the first: nothing was measured")
        for name, mine in answers.items():
            if mine:
                bare = ratio_of_rounds(mine, answers["bare"], "p50_ns")
                step = quantiles([one["p50_ns"] / 1e6 for one in mine])
                rows.append((model, name, spread(step, 3), spread(bare, 3)))
    rounds = len(next(iter(found.values()))["bare"])
    check.table(f"Steps by kinds of records, ms, {rounds} rounds", ["model", "", "step", "to bare"], rows)
    return f"{rounds} rounds; left out: {fleet.gone or 'none'}"


def after_a_window(check):
    """What is left of the cost when a window has closed. torch.profiler leaves as much as a client that starts late."""
    fleet = Fleet(check, torch=False)
    fleet.add("bare")
    fleet.add("tbprof", ["--window=none", "--window-duration=1s"])
    # What gives the cost of CUPTI back, and what keeps it.
    fleet.add("CUPTI client, disable", client="node", told={"CLIENT_STOP": "disable"})
    for like in ("", "early", "early,context"):
        told = {"CLIENT_STOP": "disable", "CLIENT_LATE": "1", "CLIENT_LIKE": like}
        fleet.add(f"CUPTI client, late {like}".strip(), client="node", told=told)
    told = {"CLIENT_STOP": "finalize", "CLIENT_LATE": "1"}
    fleet.add("CUPTI client, late, cuptiFinalize", client="node", told=told)
    task = {"what": "launch", "rate": 100_000, "count": check.pick(20_000, 3000)}
    rounds = check.pick(6, 3)
    measured = {}

    def measure(when):
        for _ in range(rounds):
            for worker in fleet.workers:
                answer = fleet.ask(worker, **task)
                if answer is not None:
                    measured.setdefault((worker.name, when), []).append(answer)

    with fleet:
        measure("first")  # contexts, lazily loaded code
        measured.clear()
        for worker in fleet.workers:
            worker.touch("off")
        time.sleep(0.5)
        measure("before")
        ours = next(worker for worker in fleet.workers if worker.name == "tbprof")
        if ours.process.poll() is None:
            ours.process.send_signal(signal.SIGUSR1)
        for worker in fleet.workers:
            worker.touch("start")
        # Its window is three seconds and two steps at most; what is measured in it need not fill it.
        time.sleep(0.3)
        measure("during")
        runs = ours.place / "logs/plugins/profile"
        while not list(runs.glob("*/*summary.json")) and check.left_s() > 20:
            time.sleep(0.1)
        for worker in fleet.workers:
            worker.touch("stop")
        time.sleep(check.pick(1.0, 0.5))
        measure("after")
    fleet.must_have("bare", "tbprof")
    rows = []
    for worker in fleet.workers:
        for when in ("before", "during", "after"):
            mine, bare = measured.get((worker.name, when)), measured[("bare", when)]
            if mine:
                rows.append(
                    (
                        worker.name,
                        when,
                        spread(quantiles([one["p50_ns"] for one in mine]), 0),
                        spread(ratio_of_rounds(mine, bare, "p50_ns")),
                        spread(ratio_of_rounds(mine, bare, "mean_ns")),
                    )
                )
    check.table(
        "A launch before, during and after a window, at 100,000 a second, ns",
        ["", "", "p50", "p50 to bare", "mean to bare"],
        rows,
    )
    captured = sorted((ours.place / "logs/plugins/profile").glob("*"))
    expect(len(captured) == 1, f"{len(captured)} captures were written")
    check.facts["gone"] = fleet.gone
    told = {(name, when): ratio for name, when, _, ratio, _ in rows}
    return "tbprof to bare: " + ", ".join(f"{when} {told['tbprof', when]}" for when in ("before", "during", "after"))
