# SPDX-License-Identifier: Apache-2.0
# Builds a perceptual index of image tiles that lie in one large file; tiles are read past the page cache.
import hashlib
import mmap
import os
import random
import tempfile

from laps import Laps

TILE = 1 << 20
TILES = 96
PER_ROUND = 18
ROUNDS = 110


class TileFile:
    def __init__(self, path):
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        except OSError:  # a file system without it
            self.fd = os.open(path, os.O_RDONLY)
        self.page = mmap.mmap(-1, TILE)

    def load(self, number):
        os.preadv(self.fd, [self.page], number * TILE)  # the cause
        return self.page


def run():
    rng = random.Random(8)
    with tempfile.NamedTemporaryFile(dir=os.environ.get("SCRATCH", "/var/tmp"), suffix=".tiles") as file:
        for _ in range(TILES):
            file.write(rng.randbytes(TILE))
        file.flush()
        os.fsync(file.fileno())
        tiles = TileFile(file.name)
        centre = bytearray(32)
        clock = Laps()
        for _ in range(ROUNDS):
            clock.begin()
            for _ in range(PER_ROUND):
                number = rng.randrange(TILES)
                clock.lap()
                tile = tiles.load(number)
                clock.lap("disk")
                code = hashlib.sha256(tile).digest()
                clock.lap("operations")
                for i, byte in enumerate(code):
                    centre[i] = (7 * centre[i] + byte) >> 3
            clock.end()
    print("centre", centre.hex())
    clock.write()


if __name__ == "__main__":
    run()
