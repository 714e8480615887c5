# SPDX-License-Identifier: Apache-2.0
"""Actor-critic updates on a GPU; the advantage of every time step is looked at to decide on clipping."""

import ctypes
import random

from gpu import Device
from steptimer import StepTimer

STEPS = 120
HORIZON = 160
ENVIRONMENTS = 700


def generalised_advantages(rewards, values):
    """GAE over the horizon, for each environment."""
    total = 0.0
    for reward, value in zip(rewards, values):
        running = following = 0.0
        for t in range(HORIZON - 1, -1, -1):
            delta = reward[t] + 0.99 * following - value[t]
            running = delta + 0.99 * 0.95 * running
            following = value[t]
        total += running
    return total


def main():
    device = Device()
    forward = device.kernel("gemm", 40)
    advantage = device.kernel("scale", 12)
    backward = device.kernel("gemm", 2500)
    update = device.kernel("adam", 300)
    scalars = device.buffer(4 * HORIZON)
    read = (ctypes.c_float * 16)()
    clipped = 0
    rng = random.Random(1)
    rewards = [[rng.random() for _ in range(HORIZON)] for _ in range(ENVIRONMENTS)]
    values = [[rng.random() for _ in range(HORIZON)] for _ in range(ENVIRONMENTS)]
    advantages = 0.0
    timer = StepTimer()
    for _ in range(STEPS):
        with timer.step():
            for t in range(HORIZON):
                with timer.part("launch"):
                    forward(32)
                    advantage()
                with timer.part("kernels"):
                    device.synchronize()  # the cause
                if t % 16 == 15:
                    with timer.part("copies"):
                        device.download(read, scalars + 4 * (t - 15), 64)
                    clipped += sum(abs(value) > 0.2 for value in read)
            with timer.part("python"):
                advantages += generalised_advantages(rewards, values)
            with timer.part("launch"):
                backward(128)
                update(64)
            with timer.part("kernels"):
                device.synchronize()
    print(f"clipped {clipped} of {STEPS * HORIZON}, advantages {advantages:.2f}")
    timer.save()


if __name__ == "__main__":
    main()
