# SPDX-License-Identifier: Apache-2.0
"""Factorises a rating matrix by alternating gradient steps and keeps the state, so that a sweep can go on anywhere."""

import os
import shutil
import tempfile
from time import perf_counter

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from lapclock import LapClock  # noqa: E402

STEPS = 80
EVERY = 1
USERS, ITEMS, RANK = 3000, 2400, 48


def keep(folder, step, state, clock):
    """Writes each array beside its old version, and makes sure that it is there before the old one goes."""
    for name, array in state.items():
        target = os.path.join(folder, f"{name}.npy")
        with open(target + ".new", "wb") as file:
            np.save(file, array)
            file.flush()
            with clock.part("disk"):
                os.fsync(file.fileno())  # the cause
        os.replace(target + ".new", target)
    with open(os.path.join(folder, "step"), "w", encoding="ascii") as file:
        file.write(str(step))


def main():
    random = np.random.default_rng(41)
    ratings = random.integers(0, 6, (USERS, ITEMS)).astype(np.float32)
    known = (ratings > 0).astype(np.float32)
    state = {
        "users": random.normal(0, 0.2, (USERS, RANK)).astype(np.float32),
        "items": random.normal(0, 0.2, (ITEMS, RANK)).astype(np.float32),
        "residual": np.zeros((USERS, ITEMS), np.float32),
    }
    folder = tempfile.mkdtemp(prefix="sweep-", dir=os.getcwd())
    clock = LapClock()
    try:
        for step in range(STEPS):
            with clock.step():
                with clock.own():
                    users, items, residual = state["users"], state["items"], state["residual"]
                    np.matmul(users, items.T, out=residual)
                    residual -= ratings
                    residual *= known
                    slope = residual @ items
                    items -= 2e-4 * (residual.T @ users)
                    users -= 2e-4 * slope
                if step % EVERY == EVERY - 1:
                    begin = perf_counter()
                    keep(folder, step, state, clock)
                    clock.blame(perf_counter() - begin)
        error = float(np.sqrt((state["residual"] ** 2).sum() / known.sum()))
    finally:
        shutil.rmtree(folder)
    print(f"error {error:.3f}")
    clock.save()


if __name__ == "__main__":
    main()
