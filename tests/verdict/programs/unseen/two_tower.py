# SPDX-License-Identifier: Apache-2.0
"""Trains item vectors of a two-tower recommender; a thread keeps the second moments of the table for whitening."""

import os
import threading

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from lapclock import LapClock  # noqa: E402

STEPS = 80
ITEMS, WIDTH = 140000, 128
BATCH = 1200


class ItemTable:
    def __init__(self, random):
        self.vectors = random.normal(0, 0.1, (ITEMS, WIDTH)).astype(np.float32)
        self.guard = threading.Lock()


class Whitening(threading.Thread):
    def __init__(self, table):
        super().__init__(name="whitening", daemon=True)
        self.table = table
        self.stop = threading.Event()
        self.moments = None

    def run(self):
        while not self.stop.wait(0.003):
            with self.table.guard:
                self.moments = self.table.vectors.T @ self.table.vectors  # the cause


def main():
    random = np.random.default_rng(23)
    table = ItemTable(random)
    users = random.normal(0, 1, (BATCH, WIDTH)).astype(np.float32)
    mixing = random.normal(0, 0.1, (WIDTH, WIDTH)).astype(np.float32)
    whitening = Whitening(table)
    whitening.start()
    clock = LapClock()
    score = 0.0
    for step in range(STEPS):
        with clock.step():
            for part in range(2):
                ids = (np.arange(BATCH) * 7 + step * 131 + part * 17) % ITEMS
                with clock.part("locks"):
                    table.guard.acquire()  # the wait
                try:
                    items = table.vectors[ids]
                finally:
                    table.guard.release()
                with clock.own():
                    queries = np.tanh(users @ mixing)
                    logits = queries @ items.T
                    logits -= logits.max(axis=1, keepdims=True)
                    weights = np.exp(logits)
                    weights /= weights.sum(axis=1, keepdims=True)
                    score += float(np.log(np.diagonal(weights)).mean())
                    gradient = weights.T @ queries - queries
                with clock.part("locks"):
                    table.guard.acquire()
                try:
                    table.vectors[ids] -= 0.01 * gradient
                finally:
                    table.guard.release()
    whitening.stop.set()
    whitening.join()
    print(f"mean log likelihood {score / (2 * STEPS):.3f}")
    clock.save()


if __name__ == "__main__":
    main()
