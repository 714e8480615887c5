# SPDX-License-Identifier: Apache-2.0
"""Gzip nearest neighbours with prototypes that move; logs every 10 steps and saves a checkpoint every 25."""

import logging
import os
import pickle
import tempfile
import zlib

from corpus import documents
from steptimer import StepTimer

STEPS = 130
BATCH = 16


def save(path, state):
    with open(path + ".new", "wb") as file:
        pickle.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def main():
    samples = [(label, text.encode()) for label, text in documents(240, 420)]
    prototypes = [text for _, text in samples[:8]]
    labels = [label for label, _ in samples[:8]]
    timer = StepTimer()
    right = 0
    with tempfile.TemporaryDirectory() as directory:
        logging.basicConfig(filename=os.path.join(directory, "train.log"), level=logging.INFO)
        for step in range(STEPS):
            with timer.step():
                for label, text in (samples[(step * BATCH + i) % len(samples)] for i in range(BATCH)):
                    with timer.part("operations"):
                        sizes = [len(zlib.compress(prototype + text, 9)) - len(prototype) for prototype in prototypes]
                    nearest = sizes.index(min(sizes))
                    if labels[nearest] == label:
                        right += 1
                        prototypes[nearest] = (prototypes[nearest] + text[:64])[-2600:]
                if step % 10 == 9:
                    logging.info("step %d, %d right so far", step, right)
                if step % 25 == 24:
                    save(os.path.join(directory, "prototypes.pkl"), (step, labels, prototypes))
    print(f"{right} of {STEPS * BATCH} right")
    timer.save()


if __name__ == "__main__":
    main()
