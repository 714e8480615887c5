# SPDX-License-Identifier: Apache-2.0
"""What golden.scrub leaves alone, and what it does not."""

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
