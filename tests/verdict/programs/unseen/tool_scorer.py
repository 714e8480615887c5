# SPDX-License-Identifier: Apache-2.0
"""Tunes a spelling corrector; candidates are scored by the reference scorer, a command that answers a line with a line."""

import hashlib
import json
import random
import subprocess
import sys

STEPS = 140
WORDS = 28


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


def serve():
    """What the installed scorer does."""
    for line in sys.stdin:
        pairs = json.loads(line)
        answer = [distance(a, b) / max(len(a), len(b)) for a, b in pairs]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def spelled(word, source):
    letters = list(word)
    for _ in range(4):
        letters[source.randrange(len(letters))] = source.choice("abcdefghij")
    return "".join(letters)


def main():
    from lapclock import LapClock

    source = random.Random(29)
    words = ["".join(source.choice("abcdefghij") for _ in range(80)) for _ in range(200)]
    scorer = subprocess.Popen([sys.executable, "-S", __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    clock = LapClock()
    threshold, total = 0.5, 0.0
    for step in range(STEPS):
        with clock.step():
            chosen = [words[(step * WORDS + i) % len(words)] for i in range(WORDS)]
            pairs = [(word, spelled(word, source)) for word in chosen]
            scorer.stdin.write(json.dumps(pairs) + "\n")
            scorer.stdin.flush()
            with clock.part("child"):
                answer = json.loads(scorer.stdout.readline())  # the cause
            with clock.own():
                sketch = hashlib.pbkdf2_hmac("sha256", json.dumps(pairs).encode(), b"buckets", 50000)
            total += sum(answer) / WORDS
            threshold += 0.02 * (sum(answer) / WORDS - threshold) + (sketch[0] - 128) * 1e-6
    scorer.stdin.close()
    scorer.wait()
    print(f"threshold {threshold:.4f}, mean {total / STEPS:.4f}")
    clock.save()


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["--serve"] else main()
