# SPDX-License-Identifier: Apache-2.0
"""Searches compression settings for a corpus while a thread keeps statistics of the symbols for the dashboard."""

import threading
import time
import zlib

from corpus import documents
from steptimer import StepTimer, runnable_seconds

STEPS = 90


class SymbolStatistics(threading.Thread):
    """Entropy of each window of symbols, always up to date."""

    def __init__(self, text):
        super().__init__(name="symbol-stats", daemon=True)
        self.text = text
        self.stopped = False
        self.windows = 0

    def run(self):
        at = 0
        while not self.stopped:
            counts = {}
            for symbol in self.text[at : at + 2000]:
                counts[symbol] = counts.get(symbol, 0) + 1  # the cause
            self.windows += 1
            at = (at + 2000) % (len(self.text) - 2000)


def main():
    blocks = [text.encode() for _, text in documents(80, 6500)]
    statistics = SymbolStatistics(b" ".join(blocks[:8]).decode())
    statistics.start()
    timer = StepTimer()
    level, best, step_size = 6, None, 1
    waited_before = runnable_seconds()
    outside_cpu = 0.0
    for step in range(STEPS):
        with timer.step():
            size = 0
            begin, cpu = time.perf_counter(), time.thread_time()
            for block in blocks[step % 10 * 8 : step % 10 * 8 + 8]:
                size += len(zlib.compress(block, level))  # the wait
            used = time.thread_time() - cpu
            timer.add("operations", used)
            outside_cpu += time.perf_counter() - begin - used
            if best is None or size < best:
                best = size
            else:
                step_size = -step_size
            level = min(7, max(5, level + step_size))
    starved = min(outside_cpu, runnable_seconds() - waited_before)
    timer.add("gil", outside_cpu - starved)
    timer.add("starvation", starved)
    statistics.stopped = True
    statistics.join()
    print(f"best size {best}")
    timer.save()


if __name__ == "__main__":
    main()
