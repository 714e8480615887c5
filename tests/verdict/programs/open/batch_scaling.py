# SPDX-License-Identifier: Apache-2.0
"""Self-supervised features of large scans; each stage of the preparation makes a new copy of the batch."""

import hashlib
import random
import resource
import time

from steptimer import StepTimer

STEPS = 70
SCAN = 5 << 20
BATCH = 8


def system_seconds():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_stime


def main():
    rng = random.Random(17)
    scans = [rng.randbytes(SCAN) for _ in range(12)]
    window = bytes(min(255, value * 3 // 2) for value in range(256))
    timer = StepTimer()
    digest = hashlib.blake2b(digest_size=8)
    for step in range(STEPS):
        with timer.step():
            begin, system = time.perf_counter(), system_seconds()
            batch = b"".join(scans[(step + i) % len(scans)] for i in range(BATCH))  # the cause
            padded = batch.ljust(len(batch) + 4096, b"\0")  # the cause
            flipped = bytearray(padded)  # the cause
            crop = bytes(flipped)  # the cause
            del batch, padded, flipped
            faults = system_seconds() - system
            timer.add("reclaim", faults)
            timer.add("operations", max(0.0, time.perf_counter() - begin - faults))
            with timer.part("operations"):
                features = crop[: 4 << 20].translate(window)
                digest.update(features)
            del crop
    print(f"features {digest.hexdigest()}")
    timer.save()


if __name__ == "__main__":
    main()
