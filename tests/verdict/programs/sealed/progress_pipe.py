# SPDX-License-Identifier: Apache-2.0
# Trains a dictionary for a compressor and shows progress for each sample; a filter timestamps and forwards the output.
import fcntl
import random
import subprocess
import sys
import zlib

from laps import Laps

STEPS = 100
SAMPLES = 30
FILTER = """
import sys, time
kept = []
for line in sys.stdin:
    time.sleep(0.0012)
    kept.append((time.time(), line))
"""


def run():
    rng = random.Random(31)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(900)]
    samples = [" ".join(rng.choices(words, k=900)).encode() for _ in range(120)]
    shipper = subprocess.Popen([sys.executable, "-c", FILTER], stdin=subprocess.PIPE, text=True)
    fcntl.fcntl(shipper.stdin, 1031, 4096)  # F_SETPIPE_SZ
    clock = Laps()
    dictionary, saved = b"", 0
    for step in range(STEPS):
        clock.begin()
        for i in range(SAMPLES):
            sample = samples[(step * SAMPLES + i) % len(samples)]
            coder = zlib.compressobj(6, zdict=dictionary) if dictionary else zlib.compressobj(6)
            size = len(coder.compress(sample) + coder.flush())
            clock.lap("operations")
            saved += len(sample) - size
            if i % 10 == 0:
                dictionary = (dictionary + sample[:300])[-12000:]
            bar = "#" * (i * 40 // SAMPLES)
            clock.lap()
            print(f"step {step:3d} [{bar:<40}] saved {saved:9d} bytes, ratio {size / len(sample):.3f}", file=shipper.stdin, flush=True)  # the cause
            clock.blame(clock.lap())
        clock.end()
    shipper.stdin.close()
    shipper.wait()
    print("saved", saved)
    clock.write()


if __name__ == "__main__":
    run()
