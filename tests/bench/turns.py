# SPDX-License-Identifier: Apache-2.0
"""What the hooks cost a program's work, told within one process: turns.py json|training TURNS

A turn does the same work three times in random order: *bare*, where the program and its libraries find the C library's own
malloc, free, calloc and realloc and nothing is armed; *disarmed*, with the hooks and no window open; and *as it comes*.
Prints JSON: for the last two the median over the turns of CPU time, as a ratio to bare. Under a preloaded library that is
not tbprof's there is no *disarmed*.

Two runs of a program differ by more than the hooks cost; two turns of one run do not. What a start and an end cost is not in
it, and a rate that tbprof holds to a share of the time (`--torch=ops`) is three times what it is in a run.
"""

import bisect
import ctypes
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time

FUNCTIONS = ("malloc", "free", "calloc", "realloc")
# Of the segment (wire/layout.h): where the word is that arms, and its bits that do.
CONTROL_OFFSET, FAMILIES = 256, 0xFF
WARM_UP = 3

libc = ctypes.CDLL("libc.so.6", use_errno=True)


def mappings():
    """(begin, end, permissions, offset, path) of each."""
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            begin, end = (int(address, 16) for address in fields[0].split("-"))
            yield begin, end, fields[1], int(fields[2], 16), fields[5].strip() if len(fields) > 5 else ""


def control_word():
    """That of the segment of tbprof; None if this process has none."""
    for begin, _, permissions, offset, path in mappings():
        if "tbprof" in path and permissions.startswith("rw") and permissions.endswith("s") and offset == 0:
            return ctypes.c_uint32.from_address(begin + CONTROL_OFFSET)
    return None


def slots_of(path, base):
    """{address of the slot: function}: where the code of the file finds the functions."""
    header = subprocess.run(["readelf", "-hW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    base = base if re.search(r"Type:\s+DYN", header) else 0
    relocations = subprocess.run(["readelf", "-rW", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    wanted = re.compile(rf"^(\w+)\s+\w+\s+R_\w+_(?:JUMP_SLOT?|GLOB_DAT?)\s+\w+\s+({'|'.join(FUNCTIONS)})@", re.MULTILINE)
    return {base + int(found.group(1), 16): found.group(2) for found in wanted.finditer(relocations)}


class Allocator:
    """The slots of the program and its libraries, and what they are to lead to."""

    def __init__(self):
        own = {function: ctypes.cast(getattr(libc, function), ctypes.c_void_p).value for function in FUNCTIONS}
        ranges = sorted(mappings())
        begins = [begin for begin, *_ in ranges]
        files = {}
        for begin, _, _, offset, path in ranges:
            if offset == 0 and os.path.isfile(path):
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        files.setdefault(path, begin)
        preloaded = os.environ.get("LD_PRELOAD", "").split(":")
        hooks = {path for path in files if "libtbprof_preload" in path or path in preloaded}

        def file_at(address):
            return ranges[bisect.bisect_right(begins, address) - 1][4]

        self.hooked, self.bare = [], []
        for path, base in files.items():
            if path in hooks:
                continue
            for slot, function in slots_of(path, base).items():
                cell = ctypes.c_uint64.from_address(slot)
                if file_at(cell.value) not in hooks:  # the C library's own, or not yet filled by the loader
                    continue
                page = slot & ~0xFFF
                if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(0x1000), 3) != 0:  # after relocation it is read-only
                    raise OSError(ctypes.get_errno(), f"mprotect of a page of {path}")
                self.hooked.append((cell, cell.value))
                self.bare.append((cell, own[function]))
        if not self.hooked:
            raise RuntimeError("nothing leads to a preloaded library")

    @staticmethod
    def lead(cells):
        for cell, value in cells:
            cell.value = value


def json_work():
    import json_regex

    def work():
        json_regex.read_and_write()
        json_regex.take_apart()

    return work


def training_work():
    """A few steps of examples/train_digits.py."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples"))
    import torch
    import train_digits

    random.seed(1)
    torch.manual_seed(1)
    images, labels = train_digits.make_synthetic(torch.Generator().manual_seed(1))
    model = train_digits.make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(train_digits.ShiftedImages(images[:96], labels[:96]), batch_size=32, shuffle=True)
    return lambda: train_digits.train_epoch(model, loader, optimizer, "cpu")


WORKS = {"json": json_work, "training": training_work}


def main():
    work, turns = WORKS[sys.argv[1]](), int(sys.argv[2])
    for _ in range(WARM_UP):
        work()
    allocator, control = Allocator(), control_word()
    armed = 0 if control is None else control.value

    def enter(way):
        allocator.lead(allocator.bare if way == "bare" else allocator.hooked)
        if control is not None:
            control.value = armed if way == "as it comes" else armed & ~FAMILIES

    ways = ["bare", "as it comes"] + ([] if control is None else ["disarmed"])
    ratios = {way: [] for way in ways}
    for _ in range(turns):
        random.shuffle(ways)
        spent = {}
        for way in ways:
            enter(way)
            begin = time.process_time_ns()
            work()
            spent[way] = time.process_time_ns() - begin
        for way in ways:
            ratios[way].append(spent[way] / spent["bare"])
    enter("as it comes")
    print(json.dumps({way: statistics.median(values) for way, values in ratios.items() if way != "bare"}))


if __name__ == "__main__":
    main()
