# SPDX-License-Identifier: Apache-2.0
"""A kernel that CuPy compiles with NVRTC, launched a known number of times (77: no CuPy that works here)."""

import sys

try:
    import cupy

    cupy.zeros(1)
except Exception as error:
    print(type(error).__name__)
    sys.exit(77)

scale = cupy.RawKernel(
    'extern "C" __global__ void raw_scale(float* x, float by) { x[blockIdx.x * blockDim.x + threadIdx.x] *= by; }',
    "raw_scale",
)
x = cupy.ones(1 << 16, dtype=cupy.float32)
for _ in range(200):
    scale((256,), (256,), (x, cupy.float32(1.01)))
cupy.cuda.Device().synchronize()
print(f"launched=200\nsum={float(x.sum()):.0f}")
