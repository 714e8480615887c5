# SPDX-License-Identifier: Apache-2.0
"""Off-policy learner whose replay buffer is an SQLite database; each transition is a transaction of its own."""

import os
import random
import sqlite3
import tempfile
import zlib

from steptimer import StepTimer

STEPS = 100
TRANSITIONS = 8


def main():
    rng = random.Random(5)
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH", "/var/tmp")) as directory:
        db = sqlite3.connect(os.path.join(directory, "replay.db"), isolation_level=None)
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE replay (id INTEGER PRIMARY KEY, observation BLOB, action INTEGER, reward REAL)")
        timer = StepTimer()
        novelty = 0
        for step in range(STEPS):
            with timer.step():
                for _ in range(TRANSITIONS):
                    observation = rng.randbytes(2048) + bytes(2048)
                    db.execute("BEGIN")
                    db.execute("INSERT INTO replay (observation, action, reward) VALUES (?, ?, ?)",
                               (observation, rng.randrange(6), rng.random()))
                    with timer.part("disk"):
                        db.execute("COMMIT")  # the cause
                rows = db.execute("SELECT observation FROM replay ORDER BY id DESC LIMIT 400").fetchall()
                with timer.part("operations"):
                    novelty += len(zlib.compress(b"".join(row[0] for row in rows), 6))
        count = db.execute("SELECT count(*) FROM replay").fetchone()[0]
        db.close()
    print(f"{count} transitions, novelty {novelty}")
    timer.save()


if __name__ == "__main__":
    main()
