# SPDX-License-Identifier: Apache-2.0
"""Lap times of a loop: `lap(name)` books the time since the last lap; written where VERDICT_CLOCK says."""

import json
import os
from time import perf_counter, thread_time


class Laps:
    def __init__(self):
        self.steps, self.parts = [], {}
        self.began = self.last = None
        self.cause = None

    def begin(self):
        self.began = self.last = perf_counter()

    def lap(self, name=None):
        now = perf_counter()
        took = now - self.last
        if name is not None:
            self.parts[name] = self.parts.get(name, 0.0) + took
        self.last = now
        return took

    def end(self):
        self.steps.append(perf_counter() - self.began)

    def blame(self, seconds):
        """Time of what the program itself holds for its problem, where no part has just that."""
        self.cause = (self.cause or 0.0) + seconds

    def write(self):
        target = os.environ.get("VERDICT_CLOCK")
        if target:
            data = {"steps": len(self.steps), "step_s": self.steps, "parts": self.parts}
            if self.cause is not None:
                data["cause_s"] = self.cause
            with open(target, "w", encoding="ascii") as out:
                out.write(json.dumps(data))


class Waited:
    """Splits the wall time of a stretch of native work into its own CPU time and the time without the processor."""

    def __init__(self):
        self.wall = self.cpu = 0.0
        self.delay = self._delay()

    @staticmethod
    def _delay():
        with open("/proc/thread-self/schedstat", encoding="ascii") as stat:
            return int(stat.read().split()[1]) * 1e-9

    def enter(self):
        self.at = perf_counter(), thread_time()

    def leave(self):
        self.wall += perf_counter() - self.at[0]
        self.cpu += thread_time() - self.at[1]

    def result(self):
        """(own CPU time, waiting for a processor, waiting for anything else)"""
        idle = max(0.0, self.wall - self.cpu)
        runnable = min(idle, self._delay() - self.delay)
        return self.cpu, runnable, idle - runnable
