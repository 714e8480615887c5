# SPDX-License-Identifier: Apache-2.0
"""Walks a buffer with the cuptiActivityGetNextRecord of one libcupti: walk.py LIBCUPTI KIND=SIZE...

Prints the step of each kind, and what the walker answers at the end (12), at a kind that is none, at one that is newer
than the library, and where the last record is cut off. A process of its own: some libraries do not survive this
without a driver.
"""
import ctypes
import sys


def walk(library, kinds, sizes):
    total = sum(sizes)
    buffer = (ctypes.c_uint64 * (total // 8 + 64))()
    at = 0
    for kind, size in zip(kinds, sizes):
        ctypes.cast(ctypes.addressof(buffer) + at, ctypes.POINTER(ctypes.c_uint32))[0] = kind
        at += size
    record = ctypes.c_void_p()
    places = []
    while True:
        result = library.cuptiActivityGetNextRecord(ctypes.byref(buffer), ctypes.c_size_t(total), ctypes.byref(record))
        if result != 0 or len(places) > len(kinds):
            return places, result
        places.append(record.value - ctypes.addressof(buffer))


def main():
    library = ctypes.CDLL(sys.argv[1])
    pairs = [tuple(map(int, pair.split("="))) for pair in sys.argv[2:]]
    for kind, size in pairs:
        # A kernel behind it, whose place shows how far the step was.
        places, result = walk(library, [kind, 10], [size, dict(pairs)[10]])
        print(f"step {kind} {places[1] if len(places) > 1 else -1} {result}")
    kernel = dict(pairs)[10]
    for name, kinds, sizes in (("none", [10, 0, 10], [kernel, 64, kernel]), ("newer", [10, 900, 10], [kernel, 64, kernel]),
                               ("cut", [10, 10], [kernel, 16])):
        places, result = walk(library, kinds, sizes)
        print(f"stop {name} {len(places)} {result}")


main()
