# SPDX-License-Identifier: Apache-2.0
"""Tunes a filter before a production encoder; the encoder is a program of its own and is run for each batch."""

import random
import subprocess
import zlib

from steptimer import StepTimer

STEPS = 90


def encode(data):
    return subprocess.run(["gzip", "-9", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout  # the cause


def main():
    rng = random.Random(23)
    signal = bytearray()
    level = 128
    for _ in range(400_000):
        level = (level + rng.randint(-3, 3)) & 255
        signal.append(level)
    shift, best, direction = 1, 1 << 60, 1
    timer = StepTimer()
    for step in range(STEPS):
        with timer.step():
            at = step * 3000 % 200_000
            block = bytes(signal[at : at + 150_000])
            with timer.part("operations"):
                table = bytes(value >> (shift & 3) for value in range(256))
                filtered = block.translate(table)
                estimate = min(len(zlib.compress(filtered, level)) for level in (1, 6, 9))
            with timer.part("child"):
                size = len(encode(filtered))
            if size + estimate > best:
                direction = -direction
            best = size + estimate
            shift += direction
    print(f"last size {best}")
    timer.save()


if __name__ == "__main__":
    main()
