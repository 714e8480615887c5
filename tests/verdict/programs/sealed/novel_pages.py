# SPDX-License-Identifier: Apache-2.0
# Novelty of pages by LZMA against a window of earlier ones; a reader thread stays a few pages ahead.
import lzma
import queue
import random
import threading

from laps import Laps

PAGES = 140


def read_pages(pages, words):
    rng = random.Random(71)
    for number in range(PAGES):
        topic = number // 10 * 40
        pages.put(" ".join(rng.choices(words[topic : topic + 300], k=1600)).encode())


def run():
    rng = random.Random(70)
    words = ["".join(rng.choices("abcdefghilmnoprstuv", k=rng.randint(3, 10))) for _ in range(900)]
    pages = queue.Queue(maxsize=8)
    reader = threading.Thread(target=read_pages, args=(pages, words), name="page-reader")
    reader.start()
    seen = b" ".join(rng.choices(words, k=9)[0].encode() for _ in range(2500))
    clock = Laps()
    novelty = 0
    for _ in range(PAGES):
        clock.begin()
        page = pages.get()
        clock.lap("input")
        novelty += len(lzma.compress(seen + page, preset=4)) - len(lzma.compress(seen, preset=4))
        clock.lap("operations")
        seen = (seen + b" " + page)[-40000:]
        clock.end()
    reader.join()
    print("novelty", novelty)
    clock.write()


if __name__ == "__main__":
    run()
