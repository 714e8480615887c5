# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver by ctypes: kernels of a PTX module, buffers and copies."""

import ctypes

NAMES = ("gemm", "conv", "relu", "scale", "add", "adam", "loss", "gather")
ENTRY = ".visible .entry {}_for_nanoseconds(.param .u64 duration) {{ ret; }}\n"
MODULE = ".version 8.0\n.target sm_90\n.address_size 64\n" + "".join(ENTRY.format(name) for name in NAMES)


class Device:
    def __init__(self, ordinal=0):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self._check(self.cuda.cuInit(0))
        self._check(self.cuda.cuDeviceGet(ctypes.byref(device), ordinal))
        self._check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self._check(self.cuda.cuCtxSetCurrent(context))
        self._check(self.cuda.cuModuleLoadData(ctypes.byref(self.module), MODULE.encode()))
        self.cuda.cuMemAlloc_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t]
        self.cuda.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
        self.cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]

    @staticmethod
    def _check(result):
        if result != 0:
            raise RuntimeError(f"CUDA error {result}")

    def kernel(self, name, microseconds):
        """A kernel with its arguments bound; calling it launches it on the default stream."""
        function = ctypes.c_void_p()
        self._check(self.cuda.cuModuleGetFunction(ctypes.byref(function), self.module, f"{name}_for_nanoseconds".encode()))
        duration = ctypes.c_longlong(int(microseconds * 1000))
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
        launch, check = self.cuda.cuLaunchKernel, self._check

        def call(blocks=1, keep=(duration, arguments)):
            check(launch(function, blocks, 1, 1, 128, 1, 1, 0, None, arguments, None))

        return call

    def buffer(self, size):
        pointer = ctypes.c_uint64()
        self._check(self.cuda.cuMemAlloc_v2(ctypes.byref(pointer), size))
        return pointer.value

    def upload(self, pointer, host, size):
        self._check(self.cuda.cuMemcpyHtoD_v2(pointer, host, size))

    def download(self, host, pointer, size):
        self._check(self.cuda.cuMemcpyDtoH_v2(host, pointer, size))

    def synchronize(self):
        self._check(self.cuda.cuCtxSynchronize())
