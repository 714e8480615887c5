# SPDX-License-Identifier: Apache-2.0
# Logistic regression in PyTorch with an HTML report that is redrawn all the time by a thread.
import html
import threading

import torch
from laps import Laps, Waited

STEPS = 90


def redraw(history, stop, made):
    while not stop.is_set():
        points = []
        for index in range(4000):
            value = history[index % len(history)]
            points.append("<circle cx='%d' cy='%.2f' r='1'/>" % (index, 100 * (1 - value)))  # the cause
        made[0] = html.escape("".join(points))[:100]


def run():
    torch.manual_seed(2)
    torch.set_num_threads(1)
    x = torch.randn(16000, 700)
    y = (x[:, :1] - x[:, 1:2] > 0).float()
    w = torch.zeros(700, 1)
    history, stop, made = [0.5], threading.Event(), [""]
    reporter = threading.Thread(target=redraw, args=(history, stop, made), name="html-report")
    reporter.start()
    clock, waited = Laps(), Waited()
    for _ in range(STEPS):
        waited.enter()
        clock.begin()
        score = torch.sigmoid(x @ w)  # the wait
        gradient = x.T @ (score - y)  # the wait
        w -= 0.5 / len(x) * gradient  # the wait
        right = ((score > 0.5).float() == y).float().mean()  # the wait
        history.append(float(right))  # the wait
        clock.end()
        waited.leave()
    cpu, runnable, _ = waited.result()
    clock.parts.update(operations=cpu, starvation=runnable, gil=max(0.0, sum(clock.steps) - cpu - runnable))
    stop.set()
    reporter.join()
    print(f"accuracy {history[-1]:.2f}")
    clock.write()


if __name__ == "__main__":
    run()
