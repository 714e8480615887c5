# SPDX-License-Identifier: Apache-2.0
"""Two workers with shards of the same size average a small vector after each step."""

import multiprocessing
import os
import zlib

from corpus import documents
from steptimer import StepTimer

STEPS = 90
WIDTH = 256
PER_STEP = 50


def train(rank, shard, sums, barrier):
    timer = StepTimer()
    weights = [0.0] * WIDTH
    for step in range(STEPS):
        with timer.step():
            with timer.part("operations"):
                packed = [zlib.compress(shard[(step * PER_STEP + i) % len(shard)], 9) for i in range(PER_STEP)]
            gradient = [0.0] * WIDTH
            for data in packed:
                for byte in data[:100]:
                    gradient[byte] += 0.01
            sums[rank * WIDTH : (rank + 1) * WIDTH] = gradient
            with timer.part("collectives"):
                barrier.wait()
            mean = [(a + b) / 2 for a, b in zip(sums[:WIDTH], sums[WIDTH:])]
            weights = [w - 0.1 * g for w, g in zip(weights, mean)]
            with timer.part("collectives"):
                barrier.wait()
    if rank == 0:
        print(f"weight norm {sum(w * w for w in weights):.4f}", flush=True)
        timer.save()


def main():
    texts = [text.encode() * 2 for _, text in documents(300, 1500)]
    sums = multiprocessing.Array("d", 2 * WIDTH, lock=False)
    barrier = multiprocessing.Barrier(2)
    os.environ.update(WORLD_SIZE="2", RANK="1", LOCAL_RANK="1")
    other = multiprocessing.Process(target=train, args=(1, texts[1::2], sums, barrier), name="rank-1")
    other.start()
    os.environ.update(RANK="0", LOCAL_RANK="0")
    train(0, texts[::2], sums, barrier)
    other.join()


if __name__ == "__main__":
    main()
