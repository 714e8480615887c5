# SPDX-License-Identifier: Apache-2.0
# Mini-batch k-means of scikit-learn on made-up blobs.
import os
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from laps import Laps  # noqa: E402
from sklearn.cluster import MiniBatchKMeans  # noqa: E402

STEPS = 120


def run():
    warnings.filterwarnings("ignore")
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(40, 48))
    model = MiniBatchKMeans(n_clusters=40, random_state=0, n_init=1, batch_size=11000)
    clock = Laps()
    for _ in range(STEPS):
        x = centres[rng.integers(0, 40, 11000)] + rng.normal(0, 0.3, (11000, 48))
        clock.begin()
        model.partial_fit(x)
        distances = model.transform(x)
        clock.lap("operations")
        clock.end()
    print(f"distance {float(distances.min(1).mean()):.1f}")
    clock.write()


if __name__ == "__main__":
    run()
