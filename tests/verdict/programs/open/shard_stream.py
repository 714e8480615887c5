# SPDX-License-Identifier: Apache-2.0
"""Classifies documents by compressed length (gzip k-nearest neighbours); shards come from a slow object store."""

import gzip
import json
import queue
import threading
import time
import zlib

from corpus import documents
from steptimer import StepTimer

STEPS = 110
STORE = {}


def fill_store():
    texts = documents(400, 180)
    for shard in range(20):
        lines = [json.dumps({"label": label, "text": text}) for label, text in texts[shard * 20 : shard * 20 + 20]]
        STORE[f"train/shard-{shard:05d}.jsonl.gz"] = gzip.compress("\n".join(lines).encode())


def get_object(key):
    """One GET; the round trip to the bucket's region is what it costs."""
    time.sleep(0.045)  # the cause
    return STORE[key]


def fetch_shards(ready):
    keys = sorted(STORE)
    for number in range(STEPS):
        body = gzip.decompress(get_object(keys[number % len(keys)]))
        ready.put([json.loads(line) for line in body.splitlines()])
    ready.put(None)


def main():
    fill_store()
    ready = queue.Queue(maxsize=2)
    threading.Thread(target=fetch_shards, args=(ready,), name="shard-fetch", daemon=True).start()
    centres = [(topic, text.encode()) for topic, text in documents(8, 200, seed=9)]
    lengths = [len(zlib.compress(text)) for _, text in centres]
    timer = StepTimer()
    right = seen = 0
    for _ in range(STEPS):
        with timer.step():
            with timer.part("input"):
                batch = ready.get()  # the wait
            for sample in batch:
                text = sample["text"].encode()
                with timer.part("operations"):
                    own = len(zlib.compress(text))
                    distances = [len(zlib.compress(centre + text)) - min(own, length)
                                 for (_, centre), length in zip(centres, lengths)]
                right += centres[distances.index(min(distances))][0] == sample["label"]
                seen += 1
    print(f"accuracy {right / seen:.3f} of {seen}")
    timer.save()


if __name__ == "__main__":
    main()
