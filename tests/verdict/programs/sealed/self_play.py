# SPDX-License-Identifier: Apache-2.0
# Self-play on small graphs; memory has grown in the past, so the collector runs after each game.
import bz2
import gc
import random

from laps import Laps

GAMES = 90


class Position:
    __slots__ = ("parent", "children", "visits", "value")

    def __init__(self, parent):
        self.parent, self.children, self.visits, self.value = parent, [], 0, 0.0


def grow(root, rng, count):
    """Random playouts: each adds a position below a random path."""
    for _ in range(count):
        node = root
        while len(node.children) >= 6:
            node = node.children[rng.randrange(6)]
        child = Position(node)
        node.children.append(child)
        while child:
            child.visits += 1
            child = child.parent


def run():
    gc.disable()
    rng = random.Random(12)
    tree = Position(None)
    grow(tree, rng, 130_000)
    moves = bytes(rng.randrange(64) for _ in range(230_000))
    clock = Laps()
    size = 0
    for game in range(GAMES):
        clock.begin()
        grow(Position(None), rng, 400)
        clock.lap("python")
        size += len(bz2.compress(moves[game * 1000 : game * 1000 + 120_000]))
        clock.lap("operations")
        gc.collect()  # the cause
        clock.lap("gc")
        clock.end()
    print("visits", tree.visits, "size", size)
    clock.write()


if __name__ == "__main__":
    run()
