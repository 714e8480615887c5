# SPDX-License-Identifier: Apache-2.0
"""Two workers count compressed features of their halves of a corpus and average them after each step."""

import multiprocessing
import os
import zlib

from corpus import documents
from steptimer import StepTimer

STEPS = 90
WIDTH = 256
PER_STEP = 300


def train(rank, shard, sums, barrier):
    timer = StepTimer()
    weights = [0.0] * WIDTH
    for step in range(STEPS):
        with timer.step():
            batch = [shard[(step * PER_STEP + i) % len(shard)] for i in range(PER_STEP)]
            with timer.part("operations"):
                packed = [zlib.compress(text) for text in batch]  # the cause
            gradient = [0.0] * WIDTH
            for data in packed:
                for byte in data[:200]:
                    gradient[byte] += 0.01
            sums[rank * WIDTH : (rank + 1) * WIDTH] = gradient
            with timer.part("collectives"):
                barrier.wait()  # the wait
            for i in range(WIDTH):
                weights[i] -= 0.1 * (sums[i] + sums[WIDTH + i]) / 2
            with timer.part("collectives"):
                barrier.wait()
    if rank == 0:
        print(f"weight norm {sum(w * w for w in weights):.4f}", flush=True)
        timer.save()


def main():
    # Sorted by length, then cut in two: the second half has the long ones.
    texts = [text.encode() for words in (200, 560) for _, text in documents(400, words)]
    texts.sort(key=len)
    half = len(texts) // 2
    sums = multiprocessing.Array("d", 2 * WIDTH, lock=False)
    barrier = multiprocessing.Barrier(2)
    os.environ.update(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1")
    other = multiprocessing.Process(target=train, args=(1, texts[half:], sums, barrier), name="rank-1")
    other.start()
    os.environ.update(RANK="0", LOCAL_RANK="0")
    train(0, texts[:half], sums, barrier)
    other.join()


if __name__ == "__main__":
    main()
