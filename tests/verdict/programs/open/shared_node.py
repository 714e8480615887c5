# SPDX-License-Identifier: Apache-2.0
"""Training on one processor of a node on which two feature builders were left running on the same processor."""

import multiprocessing
import os
import zlib

from corpus import documents
from steptimer import StepTimer, runnable_seconds

STEPS = 80


def build_features(texts):
    counts = {}
    while True:
        for text in texts:
            for word in text.split():
                counts[word] = counts.get(word, 0) + 1  # the cause


def main():
    texts = [text for _, text in documents(120, 900)]
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    builders = [multiprocessing.Process(target=build_features, args=(texts[i::2],), name=f"features-{i}", daemon=True)
                for i in range(2)]
    for builder in builders:
        builder.start()
    dictionary = b""
    timer = StepTimer()
    total = 0
    for step in range(STEPS):
        with timer.step():
            waited = runnable_seconds()
            with timer.part("operations"):
                for i in range(36):
                    packer = zlib.compressobj(9, zdict=dictionary) if dictionary else zlib.compressobj(9)
                    text = texts[(step * 36 + i) % len(texts)].encode()
                    total += len(packer.compress(text) + packer.flush())  # the wait
                    dictionary = (dictionary + text[:400])[-16384:]
            waited = runnable_seconds() - waited
            timer.add("operations", -waited)
            timer.add("starvation", waited)
    for builder in builders:
        builder.terminate()
        builder.join()
    print(f"{total} bytes")
    timer.save()


if __name__ == "__main__":
    main()
