# SPDX-License-Identifier: Apache-2.0
# Online text classification with scikit-learn; the labelling service allows ten requests a second.
import random
import time

from laps import Laps
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier

STEPS = 75


class RateLimit:
    def __init__(self, per_second):
        self.interval = 1 / per_second
        self.next = 0.0

    def acquire(self):
        now = time.monotonic()
        if now < self.next:
            time.sleep(self.next - now)  # the cause
        self.next = max(now, self.next) + self.interval


def run():
    rng = random.Random(3)
    words = ["".join(rng.choices("bdklmnraeiou", k=5)) for _ in range(4000)]
    vectorizer = HashingVectorizer(n_features=1 << 15, ngram_range=(1, 2))
    model = SGDClassifier(loss="log_loss", random_state=0)
    limit = RateLimit(10)
    clock = Laps()
    right = 0
    for _ in range(STEPS):
        topics = [rng.randrange(3) for _ in range(60)]
        texts = [" ".join(rng.choices(words[topic * 1200 : topic * 1200 + 1600], k=120)) for topic in topics]
        clock.begin()
        limit.acquire()  # the cause
        clock.lap("sleep")
        x = vectorizer.transform(texts)
        if hasattr(model, "classes_"):
            right += int((model.predict(x) == topics).sum())
        model.partial_fit(x, topics, classes=[0, 1, 2])
        clock.lap("operations")
        clock.end()
    print("right", right)
    clock.write()


if __name__ == "__main__":
    run()
