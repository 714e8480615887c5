# SPDX-License-Identifier: Apache-2.0
"""A fraud model whose decisions have to be in the audit log before the next sample is looked at."""

import hashlib
import logging
import os
import random
import tempfile

from steptimer import StepTimer

STEPS = 180
BATCH = 50
timer = StepTimer()


class AuditHandler(logging.FileHandler):
    """A record is on the disk when emit returns."""

    def emit(self, record):
        super().emit(record)
        with timer.part("disk"):
            os.fsync(self.stream.fileno())  # the cause


def main():
    rng = random.Random(11)
    weights = [rng.uniform(-1, 1) for _ in range(32)]
    profiles = [rng.randbytes(400_000) for _ in range(64)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("SCRATCH", "/var/tmp")) as directory:
        handler = AuditHandler(os.path.join(directory, "audit.log"))
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        log = logging.getLogger("fraud")
        log.setLevel(logging.INFO)
        log.propagate = False
        log.addHandler(handler)
        flagged = 0
        for step in range(STEPS):
            with timer.step():
                for i in range(BATCH):
                    with timer.part("operations"):
                        features = hashlib.sha256(profiles[(step + i) % 64]).digest()
                    score = sum(w * (f / 255 - 0.5) for w, f in zip(weights, features))
                    label = features[0] & 1
                    rate = 0.01 * (label - (score > 0))
                    weights = [w + rate * (f / 255 - 0.5) for w, f in zip(weights, features)]
                    flagged += score > 0
                    log.info("step %d sample %d score %.4f label %d", step, i, score, label)  # the cause
        handler.close()
    print(f"flagged {flagged} of {STEPS * BATCH}")
    timer.save()


if __name__ == "__main__":
    main()
