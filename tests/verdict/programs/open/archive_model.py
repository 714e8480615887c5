# SPDX-License-Identifier: Apache-2.0
"""Chooses LZMA filter settings for records; helpers for uploads and alerts exist and have nothing to do."""

import lzma
import threading
from concurrent.futures import ThreadPoolExecutor

from corpus import documents
from steptimer import StepTimer

STEPS = 90


class AlertSender(threading.Thread):
    def __init__(self):
        super().__init__(name="alerts", daemon=True)
        self.changed = threading.Condition()
        self.alerts = []

    def run(self):
        while True:
            with self.changed:
                while not self.alerts:
                    self.changed.wait()
                self.alerts.clear()

    def send(self, text):
        with self.changed:
            self.alerts.append(text)
            self.changed.notify()


def main():
    texts = [text.encode() for _, text in documents(160, 520)]
    alerts = AlertSender()
    alerts.start()
    uploads = ThreadPoolExecutor(4, thread_name_prefix="upload")
    list(uploads.map(len, texts[:64]))  # starts its threads; the next upload is at the end
    scores = {}
    timer = StepTimer()
    for step in range(STEPS):
        with timer.step():
            block = b"\n".join(texts[step * 4 % 148 : step * 4 % 148 + 10])
            for lc, pb in ((3, 0), (4, 0), (3, 2), (2, 0)):
                filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "lc": lc, "pb": pb, "dict_size": 1 << 16}]
                with timer.part("operations"):
                    size = len(lzma.compress(block, format=lzma.FORMAT_XZ, filters=filters))
                scores[lc, pb] = scores.get((lc, pb), 0.0) * 0.9 + size
    alerts.send("done")
    best = min(scores, key=scores.get)
    print(f"best filter {best}, {sum(uploads.map(len, texts))} bytes")
    uploads.shutdown()
    timer.save()


if __name__ == "__main__":
    main()
