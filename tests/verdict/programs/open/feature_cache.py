# SPDX-License-Identifier: Apache-2.0
"""Training from a cache of compressed features that three threads refresh; one lock guards all of it."""

import threading
import zlib

from corpus import documents
from steptimer import StepTimer

STEPS = 110
LOOKUPS = 10


class FeatureCache:
    def __init__(self, texts):
        self.lock = threading.Lock()
        self.texts = texts
        self.features = [zlib.compress(text) for text in texts]
        self.closed = threading.Event()

    def refresh(self, first, step):
        at = first
        while not self.closed.is_set():
            with self.lock:
                self.features[at] = min((zlib.compress(self.texts[at], level) for level in (6, 8, 9)), key=len)  # the cause
            at = (at + step) % len(self.texts)
            self.closed.wait(0.0005)


def main():
    texts = [text.encode() for _, text in documents(90, 4500)]
    cache = FeatureCache(texts)
    threads = [threading.Thread(target=cache.refresh, args=(i, 3), name=f"refresh-{i}") for i in range(3)]
    for thread in threads:
        thread.start()
    timer = StepTimer()
    total = 0
    for step in range(STEPS):
        with timer.step():
            for i in range(LOOKUPS):
                index = (step * LOOKUPS + i) % len(texts)
                with timer.part("locks"):
                    cache.lock.acquire()  # the wait
                features = cache.features[index]
                cache.lock.release()
                with timer.part("operations"):
                    total += len(zlib.decompress(features)) + len(zlib.compress(texts[index], 3))
    cache.closed.set()
    for thread in threads:
        thread.join()
    print(f"{total} bytes")
    timer.save()


if __name__ == "__main__":
    main()
