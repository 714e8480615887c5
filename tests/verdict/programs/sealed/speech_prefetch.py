# SPDX-License-Identifier: Apache-2.0
# Speech model on a GPU: the next batch is copied from page-locked memory on a stream of its own while kernels run.
import ctypes as c

from laps import Laps

FRAMES = 24 << 20
STEPS = 140


def check(code):
    if code != 0:
        raise RuntimeError(f"CUDA error {code}")


def run():
    cuda = c.CDLL("libcuda.so.1")
    rt = c.CDLL("libcudart.so.13")
    check(rt.cudaSetDevice(0))
    check(rt.cudaFree(None))
    module = c.c_void_p()
    check(cuda.cuModuleLoadData(c.byref(module), b".version 8.0\n.target sm_90\n.address_size 64\n"
                                b".visible .entry lstm_for_nanoseconds(.param .u64 n) { ret; }\n"))
    function = c.c_void_p()
    check(cuda.cuModuleGetFunction(c.byref(function), module, b"lstm_for_nanoseconds"))
    length = c.c_longlong(1_050_000)
    arguments = (c.c_void_p * 1)(c.addressof(length))
    compute, transfer = c.c_void_p(), c.c_void_p()
    for stream in (compute, transfer):
        check(rt.cudaStreamCreateWithFlags(c.byref(stream), 1))
    arrived = c.c_void_p()
    check(rt.cudaEventCreateWithFlags(c.byref(arrived), 2))
    host, buffers = c.c_void_p(), (c.c_void_p(), c.c_void_p())
    check(rt.cudaHostAlloc(c.byref(host), c.c_size_t(FRAMES), 0))
    for buffer in buffers:
        check(rt.cudaMalloc(c.byref(buffer), c.c_size_t(FRAMES)))
    clock = Laps()
    for step in range(STEPS):
        clock.begin()
        check(rt.cudaStreamWaitEvent(compute, arrived, 0))
        for _ in range(40):
            check(cuda.cuLaunchKernel(function, 132, 1, 1, 256, 1, 1, 0, compute, arguments, None))
        clock.lap("launch")
        check(rt.cudaMemcpyAsync(buffers[step % 2], host, c.c_size_t(FRAMES), 1, transfer))
        check(rt.cudaEventRecord(arrived, transfer))
        clock.lap()
        check(rt.cudaStreamSynchronize(compute))
        clock.lap("kernels")
        clock.end()
    print(STEPS, "batches")
    clock.write()


if __name__ == "__main__":
    run()
