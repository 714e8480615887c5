# SPDX-License-Identifier: Apache-2.0
"""Where the steps of a loop spend their time, by the program's own clock; saved as JSON where VERDICT_CLOCK says."""

import contextlib
import json
import os
import resource
from time import perf_counter, thread_time


def run_delay():
    with open("/proc/thread-self/schedstat", encoding="ascii") as stat:
        return int(stat.read().split()[1]) * 1e-9


class LapClock:
    def __init__(self):
        self.step_s, self.parts, self.cause_s = [], {}, None

    def add(self, name, seconds):
        self.parts[name] = self.parts.get(name, 0.0) + max(0.0, seconds)

    def blame(self, seconds):
        self.cause_s = (self.cause_s or 0.0) + seconds

    @contextlib.contextmanager
    def step(self):
        begin = perf_counter()
        yield
        self.step_s.append(perf_counter() - begin)

    @contextlib.contextmanager
    def part(self, name):
        begin = perf_counter()
        yield
        self.add(name, perf_counter() - begin)

    @contextlib.contextmanager
    def own(self, name="operations", otherwise="rest"):
        """Own CPU time goes to `name`, waiting for a processor to `starvation`, any other waiting to `otherwise`."""
        delay, cpu, begin = run_delay(), thread_time(), perf_counter()
        yield
        wall, used = perf_counter() - begin, thread_time() - cpu
        idle = max(0.0, wall - used)
        waited = min(idle, run_delay() - delay)
        self.add(name, min(used, wall))
        self.add("starvation", waited)
        self.add(otherwise, (idle - waited) * 0.999)

    @contextlib.contextmanager
    def pages(self):
        """As `own`, with the kernel's share of this thread's CPU time as `reclaim`."""
        delay, cpu, begin = run_delay(), thread_time(), perf_counter()
        kernel = resource.getrusage(resource.RUSAGE_THREAD).ru_stime
        yield
        wall, used = perf_counter() - begin, thread_time() - cpu
        kernel = min(used, resource.getrusage(resource.RUSAGE_THREAD).ru_stime - kernel)
        self.add("reclaim", kernel)
        self.add("operations", used - kernel)
        self.add("starvation", min(max(0.0, wall - used), run_delay() - delay))

    def save(self):
        path = os.environ.get("VERDICT_CLOCK")
        if not path:
            return
        report = {"steps": len(self.step_s), "step_s": self.step_s, "parts": self.parts}
        if self.cause_s is not None:
            report["cause_s"] = self.cause_s
        with open(path, "w", encoding="ascii") as file:
            json.dump(report, file)
