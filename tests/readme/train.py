# SPDX-License-Identifier: Apache-2.0
"""A reader's training: numpy, batches from a worker process. It goes on while the file keep-training exists, and
makes the file training when it has begun."""

import multiprocessing
import os

import numpy


def make_batches(queue, ended):
    generator = numpy.random.default_rng(0)
    while not ended.is_set():
        inputs = generator.standard_normal((64, 32))
        queue.put((inputs, inputs @ numpy.arange(32.0)))


def main():
    queue, ended = multiprocessing.Queue(4), multiprocessing.Event()
    worker = multiprocessing.Process(target=make_batches, args=(queue, ended), daemon=True)
    worker.start()
    weights, steps, loss = numpy.zeros(32), 0, None
    while steps < 300 or os.path.exists("keep-training"):
        inputs, targets = queue.get()
        error = inputs @ weights - targets
        loss = float((error**2).mean())
        weights -= 0.1 * inputs.T @ error / len(error)
        steps += 1
        if steps == 1:
            open("training", "w").close()
    ended.set()
    while worker.is_alive():
        try:
            queue.get(timeout=0.01)
        except Exception:
            pass
    print(f"{steps} steps, loss {loss:.2g}")


if __name__ == "__main__":
    main()
