# SPDX-License-Identifier: Apache-2.0
# An encoder on a GPU. Each layer's time is taken with a synchronisation behind it, for a table that is shown at the end.
import ctypes as c
import math
from time import perf_counter

from laps import Laps

PTX = b"""
.version 7.8
.target sm_80
.address_size 64
.visible .entry qkv_for_nanoseconds(.param .u64 ns) { ret; }
.visible .entry softmax_for_nanoseconds(.param .u64 ns) { ret; }
.visible .entry project_for_nanoseconds(.param .u64 ns) { ret; }
.visible .entry layernorm_for_nanoseconds(.param .u64 ns) { ret; }
"""
driver = c.CDLL("libcuda.so.1")
runtime = c.CDLL("libcudart.so.13")
LAYERS = 48
STEPS = 150


def ok(code):
    assert code == 0, f"CUDA: {code}"


class Kernel:
    def __init__(self, module, name, ns):
        self.handle = c.c_void_p()
        ok(driver.cuModuleGetFunction(c.byref(self.handle), module, name + b"_for_nanoseconds"))
        self.ns = c.c_uint64(ns)
        self.args = (c.c_void_p * 1)(c.addressof(self.ns))

    def on(self, stream):
        ok(driver.cuLaunchKernel(self.handle, 8, 1, 1, 64, 1, 1, 0, stream, self.args, None))


def learning_rate(step, parameters):
    """A schedule for each parameter group, with decay by its own statistics."""
    total = 0.0
    for index in range(parameters):
        scale = 1 / math.sqrt(1 + index % 17)
        total += scale * min(step + 1, 40) / 40 * 0.5 * (1 + math.cos(math.pi * step / STEPS))
    return total / parameters


def run():
    ok(runtime.cudaSetDevice(0))
    ok(runtime.cudaFree(None))
    stream = c.c_void_p()
    ok(runtime.cudaStreamCreate(c.byref(stream)))
    module = c.c_void_p()
    ok(driver.cuModuleLoadData(c.byref(module), PTX))
    layer = [Kernel(module, b"layernorm", 6000), Kernel(module, b"qkv", 35000), Kernel(module, b"softmax", 9000),
             Kernel(module, b"project", 28000)]
    table = [0.0] * len(layer)
    clock = Laps()
    rate = 0.0
    for step in range(STEPS):
        clock.begin()
        for _ in range(LAYERS):
            for index, kernel in enumerate(layer):
                begin = perf_counter()
                kernel.on(stream)
                clock.lap("launch")
                ok(runtime.cudaStreamSynchronize(stream))  # the cause
                clock.lap("kernels")
                table[index] += perf_counter() - begin
        clock.lap()
        rate = learning_rate(step, 30000)
        clock.lap("python")
        clock.end()
    ok(runtime.cudaStreamDestroy(stream))
    print("rate %.5f, %d kinds of layers timed" % (rate, len([t for t in table if t > 0])))
    clock.write()


if __name__ == "__main__":
    run()
