# SPDX-License-Identifier: Apache-2.0
"""Spools of a GPU as test data: what it said, without who and where, and what a profile of it must say.

golden.py --check DIR --tbprof PROGRAM   converts each DIR/*.spool.gz and compares it with DIR/*.json
golden.py --scrub SPOOL OUT              without paths, names and words of the command
golden.py --cut OUT SPOOL...             a spool's parts as one, without samples of the allocator, which are most of it

tests/data/cuda/README.md says how a spool gets there.
"""

import argparse
import getpass
import gzip
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

SPOOL_HEADER = struct.Struct("<8sIIIIQ")
FRAME_HEADER = struct.Struct("<IHHIII")  # and the CRC of these
FRAME_MAGIC = 0x4D524654
SESSION, CHUNK, KEPT, PART = 1, 3, 13, 14
ALLOCATION_SAMPLE = 9
CHUNK_FACT_BYTES, SLOTS_OF_FACT, SLOT_BYTES = 32, 8, 32
TAG = struct.Struct("<HBBHH")  # generation, kind, flags, slots, aux
# Frames without a word: numbers may look like one (a path needs five bytes).
NUMBERS = {6, 7, 8, 11, 14, 15, 16, 17, 18, 19}
# Kinds of records with text, or with a piece of a stack.
WITH_TEXT = {6, 7, 8, 9, 10, 16, 18, 20, 24}
# What may stay: the same on every machine, or of the system.
KNOWN_PATHS = (b"/usr/", b"/lib/", b"/lib64/", b"/proc/", b"/dev/", b"/sys/", b"/bin/")
PATH = re.compile(rb"/[A-Za-z0-9_.+@-]{2,}(?:/[A-Za-z0-9_.+@-]+)+")


def crc32c_of_a_byte(value):
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value


CRC32C = [crc32c_of_a_byte(value) for value in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def frames(data):
    """(type, flags, segment, payload) of each whole frame; what is damaged ends it."""
    at = SPOOL_HEADER.size
    while at + FRAME_HEADER.size + 4 <= len(data):
        magic, kind, flags, segment, length, crc = FRAME_HEADER.unpack_from(data, at)
        begin = at + FRAME_HEADER.size + 4
        payload = data[begin : begin + length]
        if magic != FRAME_MAGIC or len(payload) != length or crc32c(payload) != crc:
            raise ValueError(f"no whole frame at byte {at}")
        yield kind, flags, segment, payload
        at = begin + -(-length // 8) * 8


def frame(kind, flags, segment, payload):
    header = FRAME_HEADER.pack(FRAME_MAGIC, kind, flags, segment, len(payload), crc32c(payload))
    return header + struct.pack("<I", crc32c(header)) + payload + bytes(-len(payload) % 8)


def neutral_path(match):
    """As long as before; the file's own name stays, which is what a library is known by."""
    path = match.group(0)
    if path.startswith(KNOWN_PATHS):
        return path
    directories, name = path.rsplit(b"/", 1)
    return re.sub(rb"[^/]", b"x", directories) + b"/" + name


def neutral_session(payload):
    session = json.loads(payload)
    session["host"] = "gpu-machine"
    session["logdir"] = "/logs"
    session["command"] = [os.path.basename(session["command"][0])] if session.get("command") else []
    return json.dumps(session, separators=(",", ":"), sort_keys=True).encode()


def scrub(data, forbidden=()):
    """Without paths, host and words. `forbidden`: texts that must not be left, each as long as it is afterwards."""

    def neutral(text):
        text = PATH.sub(neutral_path, text)
        for words in forbidden:
            text = text.replace(words, b"x" * len(words))
        return text

    out = [data[: SPOOL_HEADER.size]]
    for kind, flags, segment, payload in frames(data):
        if kind in (CHUNK, KEPT):
            payload = neutral_records(payload, neutral)
        elif kind not in NUMBERS:
            payload = neutral(neutral_session(payload) if kind == SESSION else payload)
        out.append(frame(kind, flags, segment, payload))
    return b"".join(out)


def neutral_records(payload, neutral):
    """A chunk frame's payload with its texts made neutral, and every number as it was."""
    out, at = [payload[:CHUNK_FACT_BYTES]], CHUNK_FACT_BYTES
    (all_slots,) = struct.unpack_from("<I", payload, SLOTS_OF_FACT)
    # A summary may lie behind the slots: numbers only.
    while at + SLOT_BYTES <= min(len(payload), CHUNK_FACT_BYTES + all_slots * SLOT_BYTES):
        _, kind, _, slots, _ = TAG.unpack_from(payload, at)
        end = at + max(slots, 1) * SLOT_BYTES
        record = payload[at:end]
        out.append(record[: TAG.size] + neutral(record[TAG.size :]) if kind in WITH_TEXT else record)
        at = end
    out.append(payload[at:])
    return b"".join(out)


def cut(parts):
    """One spool of the parts of one. What a part repeats for being read alone, and allocations' samples, are left out."""
    out = [parts[0][: SPOOL_HEADER.size]]
    for number, part in enumerate(parts):
        for kind, flags, segment, payload in frames(part):
            if kind in (KEPT, PART) or (kind == SESSION and number > 0):
                continue
            if kind == CHUNK:
                payload = without_samples(payload)
                if len(payload) == CHUNK_FACT_BYTES:
                    continue
            out.append(frame(kind, flags, segment, payload))
    return b"".join(out)


def without_samples(payload):
    """A chunk frame's payload without samples of the allocator and without the summary behind its slots."""
    kept, at = [], CHUNK_FACT_BYTES
    (all_slots,) = struct.unpack_from("<I", payload, SLOTS_OF_FACT)
    while at + SLOT_BYTES <= min(len(payload), CHUNK_FACT_BYTES + all_slots * SLOT_BYTES):
        _, kind, _, slots, _ = TAG.unpack_from(payload, at)
        end = at + max(slots, 1) * SLOT_BYTES
        if kind != ALLOCATION_SAMPLE:
            kept.append(payload[at:end])
        at = end
    records = b"".join(kept)
    fact = bytearray(payload[:CHUNK_FACT_BYTES])
    struct.pack_into("<I", fact, SLOTS_OF_FACT, len(records) // SLOT_BYTES)
    return bytes(fact) + records


def private_texts():
    texts = [os.uname().nodename, os.path.expanduser("~"), str(pathlib.Path(__file__).resolve().parents[2])]
    try:
        texts.append(getpass.getuser())
    except (KeyError, OSError):
        pass
    # Short ones, and those that are words of every system, would hit what is no name.
    return [text.encode() for text in texts if len(text) > 4 and not text.startswith("/usr")]


def facts(summary):
    """What a profile says of a GPU that no machine's load changes."""
    return {
        "gpus": [
            {
                "name": gpu["name"],
                "kernels": gpu["kernels"],
                "kernel_ns": round(gpu["kernel_s"] * 1e9),
                "top_kernels": {row["mangled"]: row["calls"] for row in gpu["top_kernels"]},
                "copies": {row["name"]: [row["calls"], row["bytes"]] for row in gpu["copies"]},
                "graphs": gpu["graphs"],
                "waits": gpu["waits"],
                "peak_bytes": gpu["peak_bytes"],
                "untimed": gpu["untimed"],
                "unfinished": gpu["unfinished"],
            }
            for gpu in summary["gpus"]
        ],
        "processes": [
            {
                "state": process["gpu"]["state"],
                "versions": process["gpu"]["versions"],
                "launches": process["gpu"]["launches"],
                "dropped": process["gpu"]["dropped"],
                "unknown": process["gpu"]["unknown"],
                "calls": {
                    row["operation"]: row["calls"] for row in process["operations"] if row["operation"].startswith("cu")
                },
            }
            for process in summary["processes"]
            if process["gpu"]
        ],
    }


def step_facts(summary):
    steps = summary["steps"]
    if not steps["known"]:
        return {"known": False, "unknown_because": steps["unknown_because"]}
    return {
        "known": True,
        "count": steps["count"],
        "irregular": steps["irregular"],
        "median_ns": round(steps["median_s"] * 1e9),
        "source": steps["source"],
        "confidence": round(steps["confidence"], 2),
    }


def convert(tbprof, spool, place):
    summary = place / "summary.json"
    command = [
        str(tbprof),
        "convert",
        f"--logdir={place / 'logs'}",
        f"--summary-json={summary}",
        "--keep-spool",
        str(spool),
    ]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0 or not summary.exists():
        raise ValueError(f"tbprof convert: status {ran.returncode}: {ran.stderr.strip()[-300:]}")
    return json.loads(summary.read_text())


def differences(expected, found, place=""):
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in sorted(set(expected) | set(found)):
            yield from differences(expected.get(key), found.get(key), f"{place}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found)):
            yield from differences(one, other, f"{place}[{number}]")
    elif expected != found:
        yield f"{place}: expected {expected}, found {found}"


def check(directory, tbprof):
    compared, wrong = 0, []
    for packed in sorted(directory.glob("*.spool.gz")):
        name = packed.name.removesuffix(".spool.gz")
        data = gzip.decompress(packed.read_bytes())
        expected = json.loads((directory / f"{name}.json").read_text())
        with tempfile.TemporaryDirectory() as temporary:
            place = pathlib.Path(temporary)
            spool = place / f"{name}.spool"
            spool.write_bytes(data)
            try:
                summary = convert(tbprof, spool, place)
                found = facts(summary)
                # Where it is known by something else what they are.
                if "steps" in expected:
                    found["steps"] = step_facts(summary)
            except ValueError as error:
                found = {"error": str(error)}
        compared += 1
        wrong += [f"{name}{text}" for text in differences(expected, found)]
    for text in wrong:
        print(text)
    if compared == 0:
        print(f"no spool in {directory}")
        return 1
    print(f"{compared} spools, {len(wrong)} differences")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", type=pathlib.Path)
    parser.add_argument("--tbprof")
    parser.add_argument("--scrub", nargs=2, type=pathlib.Path)
    parser.add_argument("--cut", nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.cut:
        arguments.cut[0].write_bytes(cut([part.read_bytes() for part in arguments.cut[1:]]))
        return 0
    if arguments.scrub:
        arguments.scrub[1].write_bytes(scrub(arguments.scrub[0].read_bytes(), private_texts()))
        return 0
    return check(arguments.check, arguments.tbprof)


if __name__ == "__main__":
    sys.exit(main())
