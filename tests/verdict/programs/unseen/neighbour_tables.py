# SPDX-License-Identifier: Apache-2.0
"""Trains an item classifier while threads sort the distances for the next neighbour table."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from lapclock import LapClock  # noqa: E402

STEPS = 120
BUILDERS = 4
BATCH, WIDTH, HIDDEN, KINDS = 2048, 256, 384, 20


def neighbours(distances, done):
    tables = 0
    while not done.is_set():
        order = np.argsort(distances, axis=1, kind="stable")  # the cause
        tables += int(order[0, 0] >= 0)
    return tables


def main():
    random = np.random.default_rng(12)
    done = threading.Event()
    inputs = random.normal(0, 1, (4, BATCH, WIDTH)).astype(np.float32)
    kinds = random.integers(0, KINDS, (4, BATCH))
    first = random.normal(0, 0.06, (WIDTH, HIDDEN)).astype(np.float32)
    second = random.normal(0, 0.05, (HIDDEN, KINDS)).astype(np.float32)
    clock = LapClock()
    total = 0.0
    with ThreadPoolExecutor(BUILDERS, thread_name_prefix="neighbours") as pool:
        for _ in range(BUILDERS):
            pool.submit(neighbours, random.random((60, 6000), dtype=np.float32), done)
        for step in range(STEPS):
            with clock.step():
                batch, labels = inputs[step % 4], kinds[step % 4]
                with clock.own():
                    hidden = np.maximum(batch @ first, 0)  # the wait
                    logits = hidden @ second
                    logits -= logits.max(axis=1, keepdims=True)
                    chances = np.exp(logits)
                    chances /= chances.sum(axis=1, keepdims=True)
                    total -= float(np.log(chances[np.arange(BATCH), labels]).mean())
                    chances[np.arange(BATCH), labels] -= 1
                    back = chances @ second.T
                    back[hidden <= 0] = 0
                    second -= 0.1 / BATCH * (hidden.T @ chances)
                    first -= 0.1 / BATCH * (batch.T @ back)
        done.set()
    print(f"mean loss {total / STEPS:.3f}")
    clock.save()


if __name__ == "__main__":
    main()
