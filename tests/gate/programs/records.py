# SPDX-License-Identifier: Apache-2.0
# Online learning by scikit-learn on parsed records. PLANT names what is slower.
import json
import os
import random

import numpy
from sklearn.linear_model import SGDClassifier

PLANT = os.environ.get("PLANT", "")


def parse(lines):
    rows = []
    for line in lines:
        record = json.loads(line)
        if PLANT == "parse":
            record = json.loads(json.dumps(record))
        rows.append([record[f"f{i}"] for i in range(12)])
    return numpy.array(rows)


def main():
    rng = random.Random(3)
    lines = [json.dumps({f"f{i}": rng.random() for i in range(12)}) for _ in range(400)]
    labels = numpy.array([i % 2 for i in range(400)])
    model = SGDClassifier()
    for _ in range(150):
        batch = parse(lines)
        if PLANT == "copies":
            batch = numpy.concatenate([batch] * 40)[:400]
        model.partial_fit(batch, labels, classes=[0, 1])
    print(f"{model.score(batch, labels):.2f}")


if __name__ == "__main__":
    main()
