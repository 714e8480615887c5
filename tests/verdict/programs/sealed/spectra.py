# SPDX-License-Identifier: Apache-2.0
# Averages spectra and fits their envelope; the linear algebra's thread pool is only used once, for the basis.
import numpy as np
from laps import Laps

STEPS = 110


def run():
    rng = np.random.default_rng(1)
    basis, _ = np.linalg.qr(rng.normal(size=(700, 700)) @ rng.normal(size=(700, 700)))
    window = np.hanning(4096)
    envelope = np.zeros(2049)
    signals = [rng.normal(size=(420, 4096)) + np.sin(np.arange(4096) / 9) for _ in range(3)]
    clock = Laps()
    for _ in range(STEPS):
        clock.begin()
        signal = signals[len(clock.steps) % len(signals)]
        spectrum = np.abs(np.fft.rfft(signal * window, axis=1))
        ordered = np.sort(spectrum, axis=0)
        envelope += 0.1 * (np.median(ordered[-40:], axis=0) - envelope)
        clock.lap("operations")
        clock.end()
    print(f"peak {int(envelope.argmax())}, trace {abs(np.trace(basis)):.0f}")
    clock.write()


if __name__ == "__main__":
    run()
