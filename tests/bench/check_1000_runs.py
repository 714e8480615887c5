#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `tbprof check` takes on a logdir of 1,000 profile runs and 1,000 runs with scalars.

    tests/bench/check_1000_runs.py [TBPROF]     default: build/bin/tbprof

Prints the wall time and CPU time of each of ten calls, files in the page cache.
"""

import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
    TABLE.append(byte)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, data):
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def record(event):
    length = struct.pack("<Q", len(event))
    return length + masked_crc32c(length) + event + masked_crc32c(event)


def scalar(step):
    value = field(1, b"loss") + b"\x15" + struct.pack("<f", 1 / (step + 1))
    return record(b"\x09" + struct.pack("<d", 1e9 + step) + bytes([0x10, step & 0x7F | 0x80, step >> 7]) +
                  field(5, field(1, value)))


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    tbprof = sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build", "bin", "tbprof")
    version = record(b"\x09" + struct.pack("<d", 1e9) + field(3, b"brain.Event:2"))
    events = version + b"".join(scalar(step) for step in range(1, 1001))
    line = field(2, b"thread") + field(4, b"\x08\x01") * 20
    step = field(4, b"\x08\x01" + field(2, b"\x08\x01" + field(2, b"TraceContext")))
    plane = field(2, b"/host:CPU") + b"\x1a" + bytes([len(line)]) + line + step
    assert len(plane) < 1 << 14
    profile = b"\x0a" + bytes([len(plane) & 0x7F | 0x80, len(plane) >> 7]) + plane
    with tempfile.TemporaryDirectory() as logdir:
        for number in range(1000):
            run = os.path.join(logdir, "plugins", "profile", f"run{number:04}")
            put(os.path.join(run, "host.xplane.pb"), profile)
            put(os.path.join(run, "summary.json"), b'{"schema": 1, "records": {"dropped": {}}}')
            put(os.path.join(run, "NO_MODULE.hlo_proto.pb"), b"")
            put(os.path.join(logdir, f"trial{number:04}", "events.out.tfevents.1000000000.host.1.0"), events)
        for _ in range(10):
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            result = subprocess.run([tbprof, "check", logdir], capture_output=True, text=True)
            wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            assert result.returncode == 0 and "Profile page: 1000 runs" in result.stdout, result.stdout
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(f"{wall:.3f} s wall, {cpu:.3f} s CPU")


if __name__ == "__main__":
    main()
