# SPDX-License-Identifier: Apache-2.0
"""Times the steps of a training loop and what its thread does in them; written as JSON to the file that VERDICT_CLOCK names."""

import json
import os
import time


class _Section:
    def __init__(self, add):
        self.add = add
        self.begin = 0.0

    def __enter__(self):
        self.begin = time.perf_counter()

    def __exit__(self, *error):
        self.add(time.perf_counter() - self.begin)


class StepTimer:
    def __init__(self):
        self.step_s = []
        self.parts = {}
        self.cause_s = None

    def step(self):
        return _Section(self.step_s.append)

    def part(self, name):
        return _Section(lambda seconds: self.add(name, seconds))

    def add(self, name, seconds):
        self.parts[name] = self.parts.get(name, 0.0) + seconds

    def save(self):
        path = os.environ.get("VERDICT_CLOCK")
        if not path:
            return
        report = {"steps": len(self.step_s), "step_s": self.step_s, "parts": self.parts}
        if self.cause_s is not None:
            report["cause_s"] = self.cause_s
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file)


def runnable_seconds():
    """How long this thread has waited for a processor so far, as the kernel counts it."""
    with open("/proc/thread-self/schedstat", encoding="ascii") as file:
        return int(file.read().split()[1]) / 1e9
