# SPDX-License-Identifier: Apache-2.0
# Naive Bayes whose counts are an SQLite table in memory; a heartbeat tells the scheduler that the job lives.
import os
import random
import sqlite3
import tempfile
import threading

from laps import Laps

STEPS = 100


def heartbeat(path, stop):
    while not stop.wait(0.5):
        with open(path, "a", encoding="ascii"):
            os.utime(path)


def run():
    rng = random.Random(19)
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as directory:
        beat = threading.Thread(target=heartbeat, args=(os.path.join(directory, "alive"), stop), name="heartbeat")
        beat.start()
        db = sqlite3.connect(":memory:")
        db.execute("CREATE TABLE term (label INTEGER, word INTEGER, n INTEGER, PRIMARY KEY (label, word)) WITHOUT ROWID")
        rows = [[(i % 4, int(rng.paretovariate(0.6)) % 20000) for i in range(30000)] for _ in range(12)]
        clock = Laps()
        for step in range(STEPS):
            clock.begin()
            db.executemany("INSERT INTO term VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1", rows[step % 12])
            (mass,) = db.execute("SELECT sum(n * log10(n + 1)) FROM term").fetchone() if step % 10 == 0 else (0,)
            top = db.execute("SELECT word, sum(n) s FROM term GROUP BY word ORDER BY s DESC LIMIT 5").fetchall()
            clock.lap("operations")
            clock.end()
        stop.set()
        beat.join()
    print(top, mass)
    clock.write()


if __name__ == "__main__":
    run()
