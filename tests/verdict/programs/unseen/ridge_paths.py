# SPDX-License-Identifier: Apache-2.0
"""Regularisation path of a kernel ridge regression: one Cholesky factorisation for each strength."""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
from scipy import linalg  # noqa: E402

from lapclock import LapClock  # noqa: E402

STEPS = 90
POINTS, HELD_OUT, WIDTH = 1800, 300, 40


def gaussian(left, right, scale):
    squared = (left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T
    return np.exp(-squared / (2 * scale * scale))


def main():
    random = np.random.default_rng(6)
    points = random.normal(0, 1, (POINTS, WIDTH))
    held_out = random.normal(0, 1, (HELD_OUT, WIDTH))
    truth = lambda x: np.sin(x[:, 0]) + 0.3 * x[:, 1] * x[:, 2]  # noqa: E731
    targets = truth(points) + random.normal(0, 0.1, POINTS)
    kernel = gaussian(points, points, 6.0)
    cross = gaussian(held_out, points, 6.0)
    system = np.empty_like(kernel)
    clock = LapClock()
    best = (np.inf, None)
    for step in range(STEPS):
        strength = 10.0 ** (-4 + 5 * step / STEPS)
        with clock.step():
            with clock.own():
                np.copyto(system, kernel)
                system[np.diag_indices(POINTS)] += strength
                factor = linalg.cholesky(system, lower=True, overwrite_a=False, check_finite=False)
                dual = linalg.cho_solve((factor, True), targets, check_finite=False)
                error = float(np.sqrt(((cross @ dual - truth(held_out)) ** 2).mean()))
            best = min(best, (error, step))
    print(f"best error {best[0]:.4f} at strength {best[1]}")
    clock.save()


if __name__ == "__main__":
    main()
