# SPDX-License-Identifier: Apache-2.0
# Segmentation of volumes on a GPU: each batch goes from an ordinary buffer to the device before its kernels start.
import ctypes as c
import random

from laps import Laps

VOLUME = 48 << 20
STEPS = 120
KERNELS = (("down", 2600), ("bottleneck", 3800), ("up", 2600), ("dice", 500))


class Gpu:
    def __init__(self):
        self.lib = c.CDLL("libcuda.so.1")
        self.rt = c.CDLL("libcudart.so.13")
        context, module = c.c_void_p(), c.c_void_p()
        self.check(self.lib.cuInit(0))
        self.check(self.lib.cuDevicePrimaryCtxRetain(c.byref(context), 0))
        self.check(self.lib.cuCtxSetCurrent(context))
        text = "".join(f".visible .entry {name}_for_nanoseconds(.param .u64 n) {{ ret; }}\n" for name, _ in KERNELS)
        self.check(self.lib.cuModuleLoadData(c.byref(module), f".version 8.0\n.target sm_90\n.address_size 64\n{text}".encode()))
        self.queue = []
        for name, microseconds in KERNELS:
            function = c.c_void_p()
            self.check(self.lib.cuModuleGetFunction(c.byref(function), module, f"{name}_for_nanoseconds".encode()))
            length = c.c_longlong(microseconds * 1000)
            self.queue.append((function, length, (c.c_void_p * 1)(c.addressof(length))))

    @staticmethod
    def check(code):
        if code:
            raise OSError(f"CUDA error {code}")

    def alloc(self, size):
        pointer = c.c_void_p()
        self.check(self.rt.cudaMalloc(c.byref(pointer), c.c_size_t(size)))
        return pointer

    def to_device(self, pointer, host):
        self.check(self.rt.cudaMemcpy(pointer, host, c.c_size_t(len(host)), 1))  # the cause

    def forward_backward(self):
        for function, _, arguments in self.queue:
            self.check(self.lib.cuLaunchKernel(function, 64, 1, 1, 256, 1, 1, 0, None, arguments, None))

    def wait(self):
        self.check(self.rt.cudaDeviceSynchronize())


def run():
    gpu = Gpu()
    block = random.Random(9).randbytes(1 << 20)
    volumes = [(c.c_char * VOLUME).from_buffer(bytearray(block * (VOLUME >> 20))) for _ in range(3)]
    scans, masks = gpu.alloc(VOLUME), gpu.alloc(VOLUME)
    clock = Laps()
    for step in range(STEPS):
        clock.begin()
        gpu.to_device(scans, volumes[step % 3])  # the cause
        gpu.to_device(masks, volumes[(step + 1) % 3])  # the cause
        clock.lap("copies")
        gpu.forward_backward()
        clock.lap("launch")
        gpu.wait()
        clock.lap("kernels")
        clock.end()
    print(STEPS, "volumes")
    clock.write()


if __name__ == "__main__":
    run()
