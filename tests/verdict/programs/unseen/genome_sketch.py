# SPDX-License-Identifier: Apache-2.0
"""Sketches a genome in windows from a mapped file; a heartbeat thread reports, and the best windows are kept on disk."""

import hashlib
import json
import mmap
import os
import random
import tempfile
import threading
import zlib

from lapclock import LapClock

STEPS = 110
WINDOW = 2_600_000
LENGTH = 24_000_000
COMPLEMENT = bytes.maketrans(b"ACGT", b"TGCA")


class Heartbeat(threading.Thread):
    def __init__(self, path):
        super().__init__(name="heartbeat", daemon=True)
        self.path = path
        self.end = threading.Event()
        self.beats = 0

    def run(self):
        while not self.end.wait(0.25):
            self.beats += 1
            with open(self.path, "w", encoding="ascii") as file:
                file.write(str(self.beats))


def write_genome(path):
    source = random.Random(21)
    unit = bytes(source.choices(b"ACGT", k=400000))
    with open(path, "wb") as file:
        for i in range(LENGTH // len(unit)):
            file.write(unit[i * 137:] + unit[:i * 137])


def main():
    clock = LapClock()
    with tempfile.TemporaryDirectory() as folder:
        genome = os.path.join(folder, "genome")
        write_genome(genome)
        heartbeat = Heartbeat(os.path.join(folder, "alive"))
        heartbeat.start()
        kept = {}
        with open(genome, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for step in range(STEPS):
                with clock.step():
                    at = step * 103333 % (LENGTH - WINDOW)
                    with clock.own():
                        window = text[at:at + WINDOW]
                        reverse = window.translate(COMPLEMENT)[::-1]
                        digest = hashlib.blake2b(min(window, reverse)).hexdigest()
                        complexity = len(zlib.compress(window, 1)) + len(zlib.compress(reverse[:WINDOW // 2], 1))
                    kept[digest] = complexity
                    if step % 20 == 19:
                        with clock.part("disk"), open(os.path.join(folder, "kept.json"), "w", encoding="ascii") as out:
                            json.dump(sorted(kept.items(), key=lambda item: -item[1])[:50], out)
        heartbeat.end.set()
        heartbeat.join()
    print(f"{len(kept)} windows, mean {sum(kept.values()) / len(kept):.1f}")
    clock.save()


if __name__ == "__main__":
    main()
