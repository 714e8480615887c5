# SPDX-License-Identifier: Apache-2.0
"""A residual network on a GPU: all launches of a step are queued, then its loss is waited for."""

import ctypes

from gpu import Device
from steptimer import StepTimer

STEPS = 130
BLOCKS = 16


def main():
    device = Device()
    forward = [(device.kernel("conv", 700), device.kernel("relu", 60), device.kernel("add", 40)) for _ in range(BLOCKS)]
    backward = [(device.kernel("conv", 1400), device.kernel("relu", 80)) for _ in range(BLOCKS)]
    update = device.kernel("adam", 900)
    loss_pointer, loss = device.buffer(4), ctypes.c_float()
    timer = StepTimer()
    for _ in range(STEPS):
        with timer.step():
            with timer.part("launch"):
                for kernels in forward:
                    for kernel in kernels:
                        kernel(512)
                for kernels in reversed(backward):
                    for kernel in kernels:
                        kernel(512)
                update(1024)
            with timer.part("kernels"):
                device.synchronize()
            with timer.part("copies"):
                device.download(ctypes.byref(loss), loss_pointer, 4)
    print(f"loss {loss.value:.3f} after {STEPS} steps")
    timer.save()


if __name__ == "__main__":
    main()
