# SPDX-License-Identifier: Apache-2.0
# Fits a linear autoencoder to windows of sensor data; recordings are unpacked by a background thread.
import collections
import lzma
import os
import threading

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the unpacker has the other core

import numpy as np  # noqa: E402
from laps import Laps  # noqa: E402

WINDOWS, CHANNELS, STEPS = 768, 384, 100


class Recordings(threading.Thread):
    """Keeps at most `ahead` unpacked recordings."""

    def __init__(self, packed, ahead=2):
        super().__init__(name="unpacker", daemon=True)
        self.packed, self.ahead = packed, ahead
        self.ready = collections.deque()
        self.state = threading.Condition()

    def run(self):
        for turn in range(STEPS):
            raw = lzma.decompress(self.packed[turn % len(self.packed)])  # the cause
            window = np.frombuffer(raw, np.int16).reshape(WINDOWS, CHANNELS)
            with self.state:
                self.state.wait_for(lambda: len(self.ready) < self.ahead)
                self.ready.append(window)
                self.state.notify_all()

    def take(self):
        with self.state:
            while not self.ready:
                self.state.wait()  # the wait
            window = self.ready.popleft()
            self.state.notify_all()
            return window


def recording(rng):
    drift = np.cumsum(rng.integers(-60, 61, (WINDOWS, CHANNELS)), axis=0)
    return lzma.compress((drift % 30000).astype(np.int16).tobytes(), preset=1)


def run():
    rng = np.random.default_rng(4)
    source = Recordings([recording(rng) for _ in range(6)])
    encoder = rng.normal(0, 0.05, (CHANNELS, 96)).astype(np.float32)
    source.start()
    clock = Laps()
    for _ in range(STEPS):
        clock.begin()
        window = source.take()  # the wait
        clock.lap("input")
        x = window.astype(np.float32) / 30000
        for _ in range(3):
            code = x @ encoder
            error = code @ encoder.T - x
            encoder -= 0.01 * (x.T @ (error @ encoder) + error.T @ code) / WINDOWS
        clock.lap("operations")
        clock.end()
    print(f"error {float(np.square(error).mean()):.3f}")
    clock.write()


if __name__ == "__main__":
    run()
