# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU with an Adam that is written as one kernel for each arithmetic operation on each parameter."""

import time

from gpu import Device
from steptimer import StepTimer

STEPS = 110
TENSORS = 1500


class Adam:
    """exp_avg, exp_avg_sq, both corrections, denominator, update: eleven kernels for each tensor."""

    def __init__(self, device, timer):
        self.ops = [device.kernel(name, 1.5) for name in
                    ("scale", "add", "scale", "gather", "add", "scale", "scale", "add", "relu", "scale", "add")]
        self.timer = timer

    def step(self, tensors):
        for blocks in tensors:
            for op in self.ops:
                with self.timer.part("launch"):
                    op(blocks)  # the cause


def main():
    device = Device()
    timer = StepTimer()
    optimizer = Adam(device, timer)
    layers = [device.kernel("conv", 160) for _ in range(16)]
    gradients = [device.kernel("gemm", 210) for _ in range(16)]
    tensors = [1 + number % 4 for number in range(TENSORS)]
    for _ in range(STEPS):
        with timer.step():
            for layer in layers + gradients[::-1]:
                with timer.part("launch"):
                    layer(256)
            with timer.part("kernels"):
                device.synchronize()  # the loss is looked at
            begin, launched = time.perf_counter(), timer.parts["launch"]
            optimizer.step(tensors)
            timer.add("python", time.perf_counter() - begin - (timer.parts["launch"] - launched))
            with timer.part("kernels"):
                device.synchronize()
    print(f"{STEPS} steps of {len(tensors)} tensors")
    timer.save()


if __name__ == "__main__":
    main()
