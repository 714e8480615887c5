# SPDX-License-Identifier: Apache-2.0
# Builds a shingle model of texts on a spot instance: all state is pickled, hashed and made durable after each third step.
import bz2
import hashlib
import os
import pickle
import random
import tempfile
from time import perf_counter

from laps import Laps

STEPS = 81


class Snapshots:
    def __init__(self, directory):
        self.directory = directory
        self.number = 0

    def write(self, model):
        blob = pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL)  # the cause
        path = os.path.join(self.directory, "snapshot-%d.pkl" % (self.number % 2))
        with open(path, "wb") as out:
            out.write(hashlib.sha256(blob).digest() + blob)  # the cause
            out.flush()
            os.fsync(out.fileno())  # the cause
        self.number += 1


def run():
    rng = random.Random(41)
    alphabet = "abcdefghijklmnop    "
    texts = ["".join(rng.choices(alphabet, k=42000)).encode() for _ in range(20)]
    model = {f"shingle-{i}": [i, rng.random(), rng.randbytes(12)] for i in range(120_000)}
    keys = list(model)
    clock = Laps()
    total = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH", "/var/tmp")) as directory:
        snapshots = Snapshots(directory)
        for step in range(STEPS):
            clock.begin()
            packed = bz2.compress(texts[step % len(texts)] * 6, 9)
            clock.lap("operations")
            total += len(packed)
            for at in range(0, len(packed) - 3, 40):
                model[keys[int.from_bytes(packed[at : at + 3], "big") % len(keys)]][1] *= 0.99
            if step % 3 == 2:
                begin = perf_counter()
                snapshots.write(model)  # the cause
                clock.blame(perf_counter() - begin)
            clock.end()
    print(total, "bytes")
    clock.write()


if __name__ == "__main__":
    run()
