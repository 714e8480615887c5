# SPDX-License-Identifier: Apache-2.0
# AdaBoost with decision stumps in plain Python, for a course: no libraries.
import math
import random

from laps import Laps

ROUNDS, SAMPLES, FEATURES = 90, 2400, 40


def best_stump(columns, labels, weights):
    best = (1.0, 0, 0.0, 1)
    for feature, column in enumerate(columns):
        below = sum(w for w, y in zip(weights, labels) if y < 0)
        error = below
        for value, index in column:
            error += weights[index] if labels[index] > 0 else -weights[index]
            for candidate, sign in ((error, 1), (1 - error, -1)):
                if candidate < best[0]:
                    best = (candidate, feature, value, sign)
    return best


def run():
    rng = random.Random(61)
    rows = [[rng.gauss(0, 1) for _ in range(FEATURES)] for _ in range(SAMPLES)]
    labels = [1 if row[0] + row[3] * row[5] + rng.gauss(0, 0.3) > 0 else -1 for row in rows]
    columns = [sorted((row[f], i) for i, row in enumerate(rows)) for f in range(FEATURES)]
    weights = [1 / SAMPLES] * SAMPLES
    score = [0.0] * SAMPLES
    clock = Laps()
    for _ in range(ROUNDS):
        clock.begin()
        error, feature, value, sign = best_stump(columns, labels, weights)
        alpha = 0.5 * math.log((1 - error) / max(error, 1e-9))
        for i, row in enumerate(rows):
            vote = sign if row[feature] > value else -sign
            score[i] += alpha * vote
            weights[i] *= math.exp(-alpha * vote * labels[i])
        total = sum(weights)
        weights = [w / total for w in weights]
        clock.lap("python")
        clock.end()
    print("right", sum((s > 0) == (y > 0) for s, y in zip(score, labels)), "of", SAMPLES)
    clock.write()


if __name__ == "__main__":
    run()
