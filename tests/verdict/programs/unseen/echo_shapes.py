# SPDX-License-Identifier: Apache-2.0
"""Classifies sonar echoes by their spectra; the next shard is unpacked ahead by an executor's thread."""

import lzma
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from sklearn.linear_model import SGDClassifier  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from lapclock import LapClock  # noqa: E402

SHARDS = 10
STEPS = 100
ROWS, SAMPLES, KINDS = 500, 1024, 4


def write_shards(folder):
    random = np.random.default_rng(8)
    time = np.arange(SAMPLES) / SAMPLES
    for shard in range(SHARDS):
        kinds = random.integers(0, KINDS, ROWS)
        waves = np.sin(2 * np.pi * (20 + 15 * kinds[:, None]) * time) * 380 + random.normal(0, 120, (ROWS, SAMPLES))
        packed = lzma.compress(waves.astype(np.int16).tobytes(), preset=0)
        (folder / f"echo-{shard:02}.xz").write_bytes(packed)
        np.save(folder / f"kind-{shard:02}.npy", kinds)


def load(folder, step):
    shard = step % SHARDS
    packed = (folder / f"echo-{shard:02}.xz").read_bytes()
    raw = lzma.decompress(packed)  # the cause
    return np.frombuffer(raw, np.int16).reshape(ROWS, SAMPLES), np.load(folder / f"kind-{shard:02}.npy")


def main():
    clock = LapClock()
    scaler = StandardScaler()
    model = SGDClassifier(loss="log_loss", alpha=1e-3, random_state=5)
    right = seen = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1, thread_name_prefix="reader") as pool:
        folder = Path(name)
        write_shards(folder)
        ahead = pool.submit(load, folder, 0)
        for step in range(STEPS):
            with clock.step():
                with clock.part("input"):
                    waves, kinds = ahead.result()  # the wait
                ahead = pool.submit(load, folder, step + 1)
                with clock.own():
                    spectrum = np.log1p(np.abs(np.fft.rfft(waves.astype(np.float32), axis=1)))
                    scaler.partial_fit(spectrum)
                    features = scaler.transform(spectrum)
                    if step:
                        right += int((model.predict(features) == kinds).sum())
                        seen += ROWS
                    model.partial_fit(features, kinds, classes=range(KINDS))
        ahead.result()
    print(f"progressive accuracy {right / seen:.3f}")
    clock.save()


if __name__ == "__main__":
    main()
