# SPDX-License-Identifier: Apache-2.0
"""Trains a passage re-ranker on candidates from a store of passages that is kept in memory."""

import gc
import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402

from lapclock import LapClock  # noqa: E402

STEPS = 80
PASSAGES = 18000
QUERIES, CANDIDATES, WIDTH = 40, 24, 192


def passages(random):
    terms = random.integers(0, 5000, (PASSAGES, 6))
    store = []
    for number, row in enumerate(terms.tolist()):
        store.append({
            "id": number,
            "spans": [[term, [term % 13, term % 7]] for term in row[:3]],
            "meta": {"source": number % 40, "tags": [row[3], row[4], [row[5]]]},
        })
    return store


class Scorer:
    def __init__(self, random):
        self.terms = random.normal(0, 0.1, (5000, WIDTH)).astype(np.float32)
        self.mix = random.normal(0, 0.05, (WIDTH, 3 * WIDTH)).astype(np.float32)
        self.score = random.normal(0, 0.05, 3 * WIDTH).astype(np.float32)

    def fit(self, terms, wanted, rate=0.1):
        """One step on the softmax over each query's candidates; the loss."""
        vectors = self.terms[terms]
        hidden = np.tanh(vectors @ self.mix)
        scores = (hidden @ self.score).mean(axis=2)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        rows = np.arange(len(wanted))
        loss = -float(np.log(chances[rows, wanted]).mean())
        chances[rows, wanted] -= 1
        slope = (chances / (len(wanted) * 3))[:, :, None, None]
        back = slope * self.score * (1 - hidden * hidden)
        self.score -= rate * (slope * hidden).sum(axis=(0, 1, 2))
        self.mix -= rate * (vectors.reshape(-1, WIDTH).T @ back.reshape(-1, 3 * WIDTH))
        return loss


def main():
    random = np.random.default_rng(3)
    store = passages(random)
    model = Scorer(random)
    clock = LapClock()
    mean = 0.0
    for step in range(STEPS):
        with clock.step():
            start = step * 811
            chosen = [store[(start + i * 37) % PASSAGES] for i in range(QUERIES * CANDIDATES)]
            terms = np.array([[span[0] for span in passage["spans"]] for passage in chosen])
            with clock.own():
                loss = model.fit(terms.reshape(QUERIES, CANDIDATES, 3), np.arange(QUERIES) % CANDIDATES)
            mean += loss / STEPS
            del chosen, terms
            with clock.part("gc"):
                gc.collect()  # the cause
    print(f"mean loss {mean:.3f}")
    clock.save()


if __name__ == "__main__":
    main()
