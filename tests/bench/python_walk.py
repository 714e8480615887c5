#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a walk over Python frames in a hook costs with warm caches, by version: ns, the least of 2000 batches of 100.

    tests/bench/python_walk.py [--build BUILD] [DEPTH...]

Needs `ninja -C BUILD python_walk`. For other versions: within a root of Debian sid (scripts/debian_root.sh). Each
depth once with functions alone and once with nested generators.
"""

import argparse
import pathlib
import subprocess

PYTHONS = [
    *(f"/root/.pyenv/versions/{full}/bin/python{full.rsplit('.', 1)[0]}" for full in
      ("3.8.18", "3.9.18", "3.10.13", "3.11.7", "3.12.1", "3.13.0")),
    *(f"/usr/bin/python3.{minor}" for minor in range(11, 16)),
]
PROGRAM = """
import ctypes, sys
measure = ctypes.PyDLL(sys.argv[1]).MeasureWalk
measure.restype = ctypes.c_double
depth, call = int(sys.argv[2]) - 2, sys.argv[3]
source = "".join("def f%d(): %s f%d()\\n" % (i, call, i + 1) for i in range(depth))
if call == "return":
    exec(source + "def f%d(): return measure(2000)\\nprint('%%.1f' %% f0())\\n" % depth)
else:
    exec(source + "def f%d(): yield measure(2000)\\nprint('%%.1f' %% list(f0())[0])\\n" % depth)
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("depth", nargs="*", type=int, default=[30])
    options = parser.parse_args()
    library = str(pathlib.Path(options.build, "bench", "libpython_walk.so").resolve())
    for python in filter(lambda path: pathlib.Path(path).exists(), PYTHONS):
        for depth in options.depth:
            times = [subprocess.run([python, "-c", PROGRAM, library, str(depth), call], stdout=subprocess.PIPE, text=True,
                                    check=True).stdout.strip() for call in ("return", "yield from")]
            print(f"{python}: depth {depth}: {times[0]} ns, generators {times[1]} ns", flush=True)


main()
