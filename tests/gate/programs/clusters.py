# SPDX-License-Identifier: Apache-2.0
# Clusters of points by NumPy alone. PLANT names what is slower.
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

PLANT = os.environ.get("PLANT", "")


def assign(points, centres):
    distances = (points**2).sum(axis=1)[:, None] - 2 * points @ centres.T + (centres**2).sum(axis=1)[None, :]
    if PLANT == "rank":
        return np.argsort(distances, axis=1)[:, 0]
    return distances.argmin(axis=1)


def main():
    random = np.random.default_rng(5)
    points = random.normal(0, 1, (24_000, 24))
    centres = points[:32].copy()
    for _ in range(80):
        nearest = assign(points, centres)
        sums = np.zeros_like(centres)
        np.add.at(sums, nearest, points)
        counts = np.bincount(nearest, minlength=32)[:, None]
        centres = sums / np.maximum(counts, 1)
    print(f"{centres.sum():.6f}")


if __name__ == "__main__":
    main()
