# SPDX-License-Identifier: Apache-2.0
# Mini-batch k-means of scikit-learn on made-up blobs.
import warnings

import numpy as np
from laps import Laps
from sklearn.cluster import MiniBatchKMeans

STEPS = 120


def run():
    warnings.filterwarnings("ignore")
    rng = np.random.default_rng(7)
    centres = rng.normal(size=(40, 48))
    model = MiniBatchKMeans(n_clusters=40, random_state=0, n_init=1, batch_size=1500)
    clock = Laps()
    for _ in range(STEPS):
        x = centres[rng.integers(0, 40, 1500)] + rng.normal(0, 0.3, (1500, 48))
        clock.begin()
        model.partial_fit(x)
        distances = model.transform(x)
        clock.lap("operations")
        clock.end()
    print(f"distance {float(distances.min(1).mean()):.1f}")
    clock.write()


if __name__ == "__main__":
    run()
