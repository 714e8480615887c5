# SPDX-License-Identifier: Apache-2.0
"""A Python program that uses the driver through ctypes: each function by its handle, as numba and CuPy do."""

import ctypes
import sys

IMAGE = b".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry python_for_nanoseconds(.param .u64 d) { ret; }\n"


def must(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name}: {result}")


launches = int(sys.argv[1]) if len(sys.argv) > 1 else 5
cuda = ctypes.CDLL("libcuda.so.1")
device, context = ctypes.c_int(), ctypes.c_void_p()
module, function = ctypes.c_void_p(), ctypes.c_void_p()
must("cuInit", 0)
must("cuDeviceGet", ctypes.byref(device), 0)
must("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
must("cuCtxSetCurrent", context)
must("cuModuleLoadData", ctypes.byref(module), IMAGE)
must("cuModuleGetFunction", ctypes.byref(function), module, b"python_for_nanoseconds")
duration = ctypes.c_longlong(40000)
parameters = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
for _ in range(launches):
    must("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, parameters, None)
must("cuCtxSynchronize")
print(f"kernels={launches}\nkernel_ns={launches * 40000}")
