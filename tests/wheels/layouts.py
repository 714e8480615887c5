# SPDX-License-Identifier: Apache-2.0
"""The fields that cupti/cupti_abi.h names, in every generation of each record that a CUPTI's headers declare."""
import re
import subprocess
from pathlib import Path

# NVIDIA's structure without its generation: (ours, the kind of the record, {their field: (our field, first generation)}).
# 0: the structure has no number.
KERNEL = {"kind": ("kind", 4), "registersPerThread": ("registers_per_thread", 4), "start": ("start", 4), "end": ("end", 4),
          "deviceId": ("device", 4), "contextId": ("context", 4), "streamId": ("stream", 4), "gridX": ("grid_x", 4),
          "gridZ": ("grid_z", 4), "blockX": ("block_x", 4), "blockZ": ("block_z", 4),
          "staticSharedMemory": ("static_shared_memory", 4), "dynamicSharedMemory": ("dynamic_shared_memory", 4),
          "localMemoryPerThread": ("local_memory_per_thread", 4), "correlationId": ("correlation", 4), "name": ("name", 4),
          "launchType": ("launch_type", 4), "graphNodeId": ("graph_node", 5), "graphId": ("graph", 6),
          "clusterX": ("cluster_x", 8), "clusterZ": ("cluster_z", 8)}


def transfer(first, **more):
    fields = {"bytes": "bytes", "start": "start", "end": "end", "deviceId": "device", "contextId": "context",
              "streamId": "stream", "correlationId": "correlation", "flags": "flags", "graphNodeId": "graph_node"}
    return {theirs: (ours, first) for theirs, ours in fields.items()} | more


RECORDS = {
    "CUpti_ActivityKernel": ("Kernel", 10, KERNEL),
    "CUpti_ActivityMemcpy": ("Memcpy", 1, transfer(3, graphId=("graph", 4), copyKind=("copy_kind", 3),
                                                   srcKind=("source_kind", 3), dstKind=("destination_kind", 3))),
    "CUpti_ActivityMemcpyPtoP": ("MemcpyPeer", 22, transfer(3, srcDeviceId=("source_device", 3),
                                                            dstDeviceId=("destination_device", 3), graphId=("graph", 3))),
    "CUpti_ActivityMemset": ("Memset", 2, transfer(2, value=("value", 2), memoryKind=("memory_kind", 2),
                                                   graphId=("graph", 3))),
    "CUpti_ActivityAPI": ("Api", 5, {"cbid": ("callback", 0), "start": ("start", 0), "end": ("end", 0),
                                     "threadId": ("thread", 0), "correlationId": ("correlation", 0),
                                     "returnValue": ("result", 0)}),
    "CUpti_ActivitySynchronization": ("Synchronization", 38, {
        "type": ("type", 0), "start": ("start", 0), "correlationId": ("correlation", 0), "streamId": ("stream", 0),
        "cudaEventId": ("event", 0)}),
    "CUpti_ActivityOverhead": ("Overhead", 17, {"overheadKind": ("overhead_kind", 2), "objectKind": ("object_kind", 2),
                                                "start": ("start", 2), "end": ("end", 2)}),
    "CUpti_ActivityGraphTrace": ("GraphTrace", 51, {"correlationId": ("correlation", 0), "graphId": ("graph", 0),
                                                    "streamId": ("stream", 0)}),
    "CUpti_ActivityMemory": ("Memory", 49, {
        "memoryOperationType": ("operation", 2), "address": ("address", 2), "bytes": ("bytes", 2),
        "timestamp": ("timestamp", 2), "deviceId": ("device", 2), "streamId": ("stream", 2),
        "isAsync": ("is_asynchronous", 3)}),
    "CUpti_ActivityUnifiedMemoryCounter": ("UnifiedMemory", 25, {
        "counterKind": ("counter", 2), "value": ("value", 2), "start": ("start", 2), "end": ("end", 2),
        "address": ("address", 2), "srcId": ("source", 2), "dstId": ("destination", 2), "processId": ("process", 2),
        "flags": ("flags", 2)}),
    "CUpti_ActivityDevice": ("Device", 8, {
        "globalMemorySize": ("memory_bytes", 3), "numMultiprocessors": ("multiprocessors", 3),
        "maxThreadsPerBlock": ("threads_per_block", 3), "computeCapabilityMajor": ("compute_major", 3), "id": ("id", 3),
        "uuid": ("uuid", 3), "name": ("name", 3), "isMigEnabled": ("is_mig", 4)}),
    "CUpti_ActivityContext": ("Context", 9, {"contextId": ("context", 0), "nullStreamId": ("null_stream", 0)}),
    "CUpti_ActivityStream": ("Stream", 37, {"streamId": ("stream", 0), "flag": ("flag", 0)}),
    "CUpti_ActivityName": ("Name", 11, {"objectKind": ("object_kind", 0), "name": ("name", 0)}),
}


# Of the compiler's package, which is a hundred times the size: what the runtime's headers need of it.
HOST_DEFINES = """#pragma once
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __align__(n) __attribute__((aligned(n)))
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ inline
#define __specialization_static static
#define CUDARTAPI
#define CUDARTAPI_CDECL
"""


def generations(headers, record):
    """The numbers under which the headers declare it, 0 for none."""
    found = re.findall(r"^\}\s*" + record + r"(\d*)\s*;", headers, re.M)
    return sorted(int(number or 0) for number in found)


def program(include):
    """C++ that compares and prints, and the number of comparisons in it."""
    headers = "".join((Path(include) / name).read_text()
                      for name in ("cupti_activity.h", "cupti_activity_deprecated.h")
                      if (Path(include) / name).exists())
    lines, sizes = [], []
    for record, (ours, kind, fields) in RECORDS.items():
        known = generations(headers, record)
        if not known:
            raise SystemExit(f"layouts.py: no {record} in {include}")
        for theirs, (member, first) in fields.items():
            for number in known:
                # Without a number it is the first; a structure that got one later begins with it.
                if number >= first:
                    lines.append(f"  SAME({record}{number or ''}, {theirs}, {ours}, {member});")
        sizes.append(f'  printf("size {kind} %zu\\n", sizeof({record}{known[-1] or ""}));')
    return """#include <cuda.h>
#include <cupti.h>
#include <stddef.h>
#include <stdio.h>
#include "cupti/cupti_abi.h"
namespace ours = tbprof::cupti;
#define SAME(record, field, own, member)                                                                        \\
  if (offsetof(record, field) != offsetof(ours::own, member) || sizeof(((record*)0)->field) != sizeof(((ours::own*)0)->member)) \\
    printf("differs %s.%s at %zu, here %zu\\n", #record, #field, offsetof(record, field), offsetof(ours::own, member))
int main() {
""" + "\n".join(lines + sizes) + "\n}\n", len(lines)


def compare(includes, root, directory, compiler):
    """(comparisons, differences, {kind: size of the newest generation}) over the headers of one CUPTI."""
    cupti = next(path for path in includes if (Path(path) / "cupti_activity.h").exists())
    text, count = program(cupti)
    source, binary = Path(directory) / "layouts.cc", Path(directory) / "layouts"
    source.write_text(text)
    defines = Path(directory) / "crt/host_defines.h"
    defines.parent.mkdir(exist_ok=True)
    defines.write_text(HOST_DEFINES)
    command = [compiler, "-std=c++20", "-w", "-O0", f"-I{root}", "-idirafter", str(directory)]
    for path in includes:
        command += ["-isystem", str(path)]
    subprocess.run(command + ["-o", str(binary), str(source)], check=True)
    out = subprocess.run([str(binary)], capture_output=True, text=True, check=True).stdout.splitlines()
    sizes = {int(words[1]): int(words[2]) for words in map(str.split, out) if words[0] == "size"}
    return count, [line for line in out if line.startswith("differs")], sizes
