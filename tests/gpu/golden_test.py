# SPDX-License-Identifier: Apache-2.0
"""What golden.scrub and golden.cut leave alone, and what they do not."""

import golden


def record(kind, slots, body):
    return golden.TAG.pack(1, kind, 0, slots, 0) + body.ljust(slots * golden.SLOT_BYTES - golden.TAG.size, b"\0")


KERNEL, MODULE, CLOCK, NOTE = 11, 8, 6, 10
kernel = record(KERNEL, 3, b"/ab/cd" * 10)
module = record(MODULE, 4, bytes(88) + b"/home/me/lib.so")
summary = record(MODULE, 4, b"/be/hind")
fact = bytearray(golden.CHUNK_FACT_BYTES)
fact[golden.SLOTS_OF_FACT] = (len(kernel) + len(module)) // golden.SLOT_BYTES
chunk = bytes(fact) + kernel + module + summary
data = bytes(golden.SPOOL_HEADER.size) + b"".join(
    golden.frame(kind, 0, 1, payload)
    for kind, payload in ((golden.CHUNK, chunk), (CLOCK, b"/ab/cd12"), (NOTE, b"see /home/me/x of jane"))
)
scrubbed = golden.scrub(data, (b"jane",))
assert len(scrubbed) == len(data)
after, clock, note = (payload for *_, payload in golden.frames(scrubbed))
begin = golden.CHUNK_FACT_BYTES
assert after[begin : begin + len(kernel)] == kernel, "times that look like a path are times"
assert after.endswith(summary)
assert clock == b"/ab/cd12"
assert b"me" not in after[begin + len(kernel) :] and b"lib.so" in after
assert b"me" not in note and b"jane" not in note and note.startswith(b"see /")

sample = record(golden.ALLOCATION_SAMPLE, 6, b"registers")
fact[golden.SLOTS_OF_FACT] = (len(kernel) + len(sample) + len(module)) // golden.SLOT_BYTES
mixed = bytes(fact) + kernel + sample + module + summary
fact[golden.SLOTS_OF_FACT] = len(sample) // golden.SLOT_BYTES
only_samples = bytes(fact) + sample
header = b"a header".ljust(golden.SPOOL_HEADER.size, b"\0")
first = header + golden.frame(golden.SESSION, 0, 0, b"{}") + golden.frame(golden.CHUNK, 2, 1, mixed)
second = (
    bytes(golden.SPOOL_HEADER.size)
    + golden.frame(golden.SESSION, 0, 0, b"{}")
    + golden.frame(golden.PART, 0, 0, b"part")
    + golden.frame(golden.KEPT, 0, 1, chunk)
    + golden.frame(golden.CHUNK, 0, 1, only_samples)
    + golden.frame(CLOCK, 0, 1, b"/ab/cd12")
)
cut = golden.cut([first, second])
assert cut.startswith(header)
session, (kind, flags, segment, kept), last = golden.frames(cut)
assert session[3] == b"{}" and last[3] == b"/ab/cd12"
assert (kind, flags, segment) == (golden.CHUNK, 2, 1)
assert kept[begin:] == kernel + module
assert kept[golden.SLOTS_OF_FACT] == len(kernel + module) // golden.SLOT_BYTES
