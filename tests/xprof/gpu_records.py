# SPDX-License-Identifier: Apache-2.0
"""What CUPTI recorded, read from a spool's own bytes (wire/records.h), without tbprof's converter and without xprof."""

import collections
import gzip
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "gpu"))

import golden  # noqa: E402

# Numbers of wire/records.def.
KERNEL, COPY, API, SPAN, MEMORY, DEVICE, NAME, TENSOR = 11, 12, 13, 14, 15, 16, 18, 25
KERNEL_NAME = 1
GRAPH_SPAN = 3
DEVICE_MEMORY_KINDS = range(3, 8)  # CUpti_ActivityMemoryKind: neither pageable nor pinned
HOST_TO_HOST, SET = 9, 255

Kernel = collections.namedtuple("Kernel", "mangled start end correlation stream grid block registers shared graph")
Copy = collections.namedtuple("Copy", "kind start end bytes correlation stream")
Call = collections.namedtuple("Call", "start end correlation tid")
Memory = collections.namedtuple("Memory", "time address bytes is_release kind")
Device = collections.namedtuple("Device", "memory_bytes bandwidth clock_khz")  # kB/s

KERNEL_FIELDS = struct.Struct("<QQ4I I2H 3HH 4I")
COPY_FIELDS = struct.Struct("<QQQ5IB")
API_FIELDS = struct.Struct("<QQIi")
SPAN_FIELDS = struct.Struct("<QQ3IB")
MEMORY_FIELDS = struct.Struct("<QQQ3IBB")


class GpuRecords:
    """Of one spool of one process that uses the GPU. Times in ns of CUPTI's clock."""

    def __init__(self, path):
        self.kernels, self.copies, self.calls, self.graphs, self.memory = [], [], [], [], []
        self.devices, self.tensor_bytes = {}, []
        names, found = {}, []
        with gzip.open(path) as file:
            data = file.read()
        for kind, payload in self._frames(data):
            if kind in (golden.CHUNK, golden.KEPT):
                for number, aux, record in self._records(payload):
                    if number == NAME and aux == KERNEL_NAME:
                        name_id, length = struct.unpack_from("<QQ", record)
                        names[name_id] = record[24 : 24 + length].split(b"\0")[0].decode()
                    elif number == DEVICE:
                        self.devices[aux] = Device(*struct.unpack_from("<QQI", record))
                    elif number == KERNEL:
                        found.append(KERNEL_FIELDS.unpack_from(record))
                    else:
                        self._take(number, record)
        for start, end, correlation, _, stream, name, *rest in found:
            x, y, z, block_x, block_y, block_z, registers, static, dynamic, _, graph = rest
            self.kernels.append(Kernel(names[name], start, end, correlation, stream, (x, y, z),
                                       (block_x, block_y, block_z), registers, static + dynamic, graph))

    @staticmethod
    def _frames(data):
        """golden.frames without checksums, which take Python a minute."""
        at = golden.SPOOL_HEADER.size
        while at < len(data):
            magic, kind, _, _, length, _ = golden.FRAME_HEADER.unpack_from(data, at)
            assert magic == golden.FRAME_MAGIC
            begin = at + golden.FRAME_HEADER.size + 4
            yield kind, data[begin : begin + length]
            at = begin + -(-length // 8) * 8

    @staticmethod
    def _records(payload):
        """(kind, aux, what follows the tag) of each record of a chunk."""
        at = golden.CHUNK_FACT_BYTES
        (all_slots,) = struct.unpack_from("<I", payload, golden.SLOTS_OF_FACT)
        while at + golden.SLOT_BYTES <= min(len(payload), golden.CHUNK_FACT_BYTES + all_slots * golden.SLOT_BYTES):
            _, kind, _, slots, aux = golden.TAG.unpack_from(payload, at)
            end = at + max(slots, 1) * golden.SLOT_BYTES
            yield kind, aux, payload[at + golden.TAG.size : end]
            at = end

    def _take(self, number, record):
        if number == COPY:
            start, end, size, correlation, _, stream, _, _, kind = COPY_FIELDS.unpack_from(record)
            self.copies.append(Copy(kind, start, end, size, correlation, stream))
        elif number == API:
            start, length, correlation, tid = API_FIELDS.unpack_from(record)
            self.calls.append(Call(start, start + (length >> 16), correlation, tid))
        elif number == SPAN:
            start, end, correlation, _, stream, kind = SPAN_FIELDS.unpack_from(record)
            if kind == GRAPH_SPAN:
                self.graphs.append((start, end, correlation, stream))
        elif number == MEMORY:
            time, address, size, _, _, _, operation, kind = MEMORY_FIELDS.unpack_from(record)
            if kind in DEVICE_MEMORY_KINDS:
                self.memory.append(Memory(time, address, size, operation == 2, kind))

        elif number == TENSOR:
            (allocated,) = struct.unpack_from("<24xQ", record)
            self.tensor_bytes.append(allocated)

    def tensor_peak_bytes(self):
        """By PyTorch's own account, which each of its allocations and releases carries."""
        return max(self.tensor_bytes, default=0)

    def kernels_by_name(self):
        """{mangled name: (count, ns in total)}"""
        sums = collections.defaultdict(lambda: [0, 0])
        for kernel in self.kernels:
            sums[kernel.mangled][0] += 1
            sums[kernel.mangled][1] += kernel.end - kernel.start
        return {name: tuple(pair) for name, pair in sums.items()}

    def busy_ns(self):
        """How long the device did anything: the union of all work but what the host does."""
        work = [(it.start, it.end) for it in self.kernels]
        work += [(it.start, it.end) for it in self.copies if it.kind != HOST_TO_HOST]
        work += [(start, end) for start, end, _, _ in self.graphs]
        total, until = 0, 0
        for start, end in sorted(work):
            total += max(0, end - max(start, until))
            until = max(until, end)
        return total

    def peak_bytes(self):
        """The most device memory in use at a time."""
        live, in_use, peak = {}, 0, 0
        for it in sorted(self.memory, key=lambda it: (it.time, not it.is_release)):
            in_use -= live.pop(it.address, 0)
            if not it.is_release:
                live[it.address] = it.bytes
                in_use += it.bytes
            peak = max(peak, in_use)
        return peak
