# SPDX-License-Identifier: Apache-2.0
"""Fits a compression model to byte-pair encoded text; the encoder is plain Python and runs in the training loop."""

import collections
import lzma

from corpus import documents
from steptimer import StepTimer

STEPS = 100
BATCH = 30


def learn_merges(texts, count):
    words = collections.Counter(word for text in texts for word in text.split())
    pieces = {word: tuple(word) for word in words}
    merges = {}
    for rank in range(count):
        pairs = collections.Counter()
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += words[word]
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges[best] = rank
        for word, parts in pieces.items():
            pieces[word] = merge(parts, best)
    return merges


def merge(parts, pair):
    merged, at = [], 0
    while at < len(parts):
        if at + 1 < len(parts) and (parts[at], parts[at + 1]) == pair:
            merged.append(parts[at] + parts[at + 1])
            at += 2
        else:
            merged.append(parts[at])  # the cause
            at += 1
    return tuple(merged)


def encode(text, merges):
    tokens = []
    for word in text.split():
        parts = tuple(word)
        while len(parts) > 1:
            pair = min(zip(parts, parts[1:]), key=lambda pair: merges.get(pair, 1 << 30))  # the cause
            if pair not in merges:
                break
            parts = merge(parts, pair)  # the cause
        tokens.extend(parts)
    return tokens


def main():
    texts = [text for _, text in documents(160, 260)]
    merges = learn_merges(texts[:10], 60)
    ids = {}
    timer = StepTimer()
    bits = 0
    for step in range(STEPS):
        with timer.step():
            packed = bytearray()
            with timer.part("python"):
                for text in texts[step * BATCH % 130 : step * BATCH % 130 + BATCH]:
                    for token in encode(text, merges):  # the cause
                        packed += ids.setdefault(token, len(ids)).to_bytes(2, "little")
            with timer.part("operations"):
                bits += 8 * len(lzma.compress(bytes(packed)))
    print(f"{bits} bits, {len(ids)} tokens")
    timer.save()


if __name__ == "__main__":
    main()
