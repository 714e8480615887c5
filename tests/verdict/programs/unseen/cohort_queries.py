# SPDX-License-Identifier: Apache-2.0
"""Fits a churn model on cohorts that come from an in-memory SQLite table; a thread mines product pairs meanwhile."""

import math
import random
import sqlite3
import threading
from time import perf_counter, thread_time

from lapclock import LapClock, run_delay

STEPS = 110
EVENTS = 150000


class PairMiner(threading.Thread):
    """Counts which products are bought after one another, for the recommendations page."""

    def __init__(self, orders):
        super().__init__(name="pair-miner", daemon=True)
        self.orders = orders
        self.done = threading.Event()
        self.pairs = {}

    def run(self):
        while not self.done.is_set():
            self.pairs.clear()
            for first, second in zip(self.orders, self.orders[1:]):
                self.pairs[first, second] = self.pairs.get((first, second), 0) + 1  # the cause
                if self.done.is_set():
                    break


def open_table(source):
    table = sqlite3.connect(":memory:")
    table.execute("CREATE TABLE events (user INTEGER, day INTEGER, product INTEGER, amount REAL)")
    rows = ((source.randrange(4000), source.randrange(365), source.randrange(90), source.expovariate(0.02))
            for _ in range(EVENTS))
    table.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
    table.commit()
    return table


QUERY = """SELECT count(*), avg(amount), avg(amount * amount), sum(product % 7 = 3)
           FROM events WHERE user % 11 = ? AND day BETWEEN ? AND ?"""


def main():
    source = random.Random(17)
    table = open_table(source)
    miner = PairMiner([source.randrange(90) for _ in range(200000)])
    miner.start()
    clock = LapClock()
    weights = [0.0] * 4
    outside, delayed = 0.0, run_delay()
    for step in range(STEPS):
        with clock.step():
            for cohort in range(3):
                day = (step * 13 + cohort * 40) % 300
                begin, cpu = perf_counter(), thread_time()
                found = table.execute(QUERY, ((step + cohort) % 11, day, day + 60)).fetchone()  # the wait
                used = thread_time() - cpu
                clock.add("operations", used)
                outside += perf_counter() - begin - used
                count, mean, square, special = found
                features = [1.0, mean / 50, math.sqrt(max(0.0, square - mean * mean)) / 50, special / count]
                target = 1.0 if (step + cohort) % 11 < 4 else 0.0
                guess = 1 / (1 + math.exp(-sum(w * f for w, f in zip(weights, features))))
                weights = [w + 0.05 * (target - guess) * f for w, f in zip(weights, features)]
    delayed = min(outside, run_delay() - delayed)
    clock.add("starvation", delayed)
    clock.add("gil", 0.9999 * (outside - delayed))
    miner.done.set()
    miner.join()
    table.close()
    print("weights", " ".join(f"{w:.4f}" for w in weights))
    clock.save()


if __name__ == "__main__":
    main()
