# SPDX-License-Identifier: Apache-2.0
# Click prediction from raw access logs. Lines are parsed by a pool of processes.
import hashlib
import multiprocessing as mp
import random
import re

from laps import Laps

LINE = re.compile(r'(\S+) - (\S+) \[(\d+)\] "(GET|POST) (/[^ "]*)" (\d+) (\d+)')
BUCKETS = 1 << 14
ROUNDS = 90


def raw_lines(seed, how_many):
    rng = random.Random(seed)
    out = []
    for _ in range(how_many):
        query = "&".join(f"k{rng.randrange(40)}=v{rng.randrange(900)}" for _ in range(9))
        out.append(f'10.0.{rng.randrange(256)}.{rng.randrange(256)} - u{rng.randrange(5000)} [{rng.randrange(10**9)}] '
                   f'"GET /p/{rng.randrange(300)}?{query}" 200 {rng.randrange(90000)}')
    return out


def crosses(lines):
    """Feature ids of each line, with all pairs of its query terms."""
    rows = []
    for line in lines:
        host, user, _, _, path, _, size = LINE.match(line).groups()
        terms = [host[:6], user, "size%d" % (int(size) // 1000)] + path.split("?")[1].split("&")
        ids = []
        for i, first in enumerate(terms):
            for second in terms[i:]:
                ids.append(sum(map(ord, first + "*" + second)) * 2654435761 % BUCKETS)  # the cause
        rows.append(ids)
    return rows


def run():
    weights = bytearray(BUCKETS * 32)
    chunks = [raw_lines(seed, 700) for seed in range(15)]
    clock = Laps()
    state = hashlib.sha3_256()
    with mp.get_context("fork").Pool(2) as pool:
        parsed = pool.imap(crosses, (chunks[i % len(chunks)] for i in range(ROUNDS)))
        for _ in range(ROUNDS):
            clock.begin()
            rows = next(parsed)  # the wait
            clock.lap("input")
            for ids in rows:
                for feature in ids[:12]:
                    weights[feature] = (weights[feature] + 1) & 255
            clock.lap("python")
            for _ in range(6):
                state.update(weights)
            clock.lap("operations")
            clock.end()
    print("model", state.hexdigest()[:16])
    clock.write()


if __name__ == "__main__":
    run()
