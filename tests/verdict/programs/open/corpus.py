# SPDX-License-Identifier: Apache-2.0
"""A made-up corpus: documents whose words follow a Zipf law, of several topics."""

import random


def vocabulary(size, seed=1):
    rng = random.Random(seed)
    syllables = [c + v for c in "bcdfghklmnprstvw" for v in ("a", "e", "i", "o", "u", "ai", "en")]
    return ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(size)]


def documents(count, words, topics=4, seed=2):
    """`count` pairs of (topic, text) with about `words` words each."""
    rng = random.Random(seed)
    general = vocabulary(3000)
    special = [vocabulary(400, seed=100 + topic) for topic in range(topics)]
    weights = [1 / (rank + 2) for rank in range(len(general))]
    made = []
    for number in range(count):
        topic = number % topics
        length = max(8, int(rng.gauss(words, words / 6)))
        text = rng.choices(general, weights, k=length)
        for at in range(0, length, 5):
            text[at] = rng.choice(special[topic])
        made.append((topic, " ".join(text)))
    return made
