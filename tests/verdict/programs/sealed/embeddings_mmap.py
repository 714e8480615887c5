# SPDX-License-Identifier: Apache-2.0
# Clusters embeddings that lie in a memory-mapped file. The file is larger than the memory that is left for its pages: they are
# dropped behind the reader.
import hashlib
import mmap
import os
import random
import tempfile

from laps import Laps

ROW = 4096
ROWS = 24000
STEPS = 100
PER_STEP = 1500


class Embeddings:
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY)
        self.rows = mmap.mmap(self.fd, 0, prot=mmap.PROT_READ)
        self.rows.madvise(mmap.MADV_RANDOM)

    def bucket(self, number):
        return self.rows[number * ROW + 17]  # the cause

    def row(self, number):
        return self.rows[number * ROW : number * ROW + 4000]

    def release(self):
        """Leaves the memory to others."""
        self.rows.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)


def run():
    rng = random.Random(77)
    with tempfile.NamedTemporaryFile(dir=os.environ.get("SCRATCH", "/var/tmp"), suffix=".emb") as file:
        for _ in range(ROWS // 200):
            file.write(rng.randbytes(ROW) * 200)
        file.flush()
        os.fsync(file.fileno())
        table = Embeddings(file.name)
        sizes = [0] * 256
        digest = hashlib.sha3_256()
        clock = Laps()
        for _ in range(STEPS):
            first = rng.randrange(ROWS - PER_STEP)
            chosen = range(first, first + PER_STEP)
            clock.begin()
            buckets = bytes(map(table.bucket, chosen))  # the cause
            clock.lap("reclaim")
            for number in chosen:
                digest.update(table.row(number))
            clock.lap("operations")
            for bucket in buckets:
                sizes[bucket] += 1
            clock.end()
            table.release()
    print("largest cluster", max(sizes), digest.hexdigest()[:12])
    clock.write()


if __name__ == "__main__":
    run()
