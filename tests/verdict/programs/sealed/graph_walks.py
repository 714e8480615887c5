# SPDX-License-Identifier: Apache-2.0
# Node signatures from random walks: walks make some cyclic garbage, which the collector takes now and then.
import gc
import hashlib
import random

from laps import Laps

STEPS = 90


class Walk:
    def __init__(self, start):
        self.nodes = [start]
        self.owner = self  # makes it a cycle


def run():
    rng = random.Random(29)
    edges = [[rng.randrange(800) for _ in range(4)] for _ in range(800)]
    sketches = {node: b"" for node in range(800)}
    clock = Laps()
    for step in range(STEPS):
        clock.begin()
        walks = []
        for start in range(0, 800, 8):
            walk = Walk(start)
            for _ in range(24):
                walk.nodes.append(rng.choice(edges[walk.nodes[-1]]))
            walks.append(walk)
        clock.lap("python")
        for walk in walks:
            sketches[walk.nodes[0]] = hashlib.pbkdf2_hmac("sha256", bytes(n & 255 for n in walk.nodes),
                                                          sketches[walk.nodes[-1]] + b"walk", 1700)
        clock.lap("operations")
        if step % 30 == 29:
            gc.collect()
            clock.lap("gc")
        clock.end()
    print("sketch", sketches[792].hex()[:16])
    clock.write()


if __name__ == "__main__":
    run()
