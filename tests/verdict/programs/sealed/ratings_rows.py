# SPDX-License-Identifier: Apache-2.0
# Matrix factorisation with NumPy; each batch is put together row by row from dictionaries.
import random

import numpy as np
from laps import Laps

USERS, ITEMS, RANK, STEPS, BATCH = 4000, 2500, 64, 100, 3500


def collate(rows, user_ids, item_ids, bias):
    users, items, ratings, weights = [], [], [], []
    for row in rows:
        user = user_ids[row["user"]]
        item = item_ids.get(row["item"], 0)
        age = max(0.0, row["day"] - 3.0) / 30
        rating = float(row["stars"]) - bias - 0.1 * min(age, 2.0)  # the cause
        users.append(user)  # the cause
        items.append(item)  # the cause
        ratings.append(rating)  # the cause
        weights.append(1.0 / (1.0 + age) if "verified" in row["tags"] else 0.5)  # the cause
    return (np.array(users), np.array(items), np.array(ratings, np.float32), np.array(weights, np.float32))


def run():
    rng = random.Random(6)
    rows = [{"user": f"u{rng.randrange(USERS)}", "item": f"i{rng.randrange(ITEMS)}", "stars": str(rng.randint(1, 5)),
             "day": rng.uniform(0, 90), "tags": rng.choice((["verified"], [], ["gift", "verified"]))} for _ in range(40000)]
    user_ids = {f"u{i}": i for i in range(USERS)}
    item_ids = {f"i{i}": i for i in range(ITEMS)}
    gen = np.random.default_rng(6)
    p = gen.normal(0, 0.1, (USERS, RANK)).astype(np.float32)
    q = gen.normal(0, 0.1, (ITEMS, RANK)).astype(np.float32)
    clock = Laps()
    for step in range(STEPS):
        clock.begin()
        at = step * BATCH % 36000
        picked = [row for row in rows[at : at + BATCH] for _ in range(4)]
        users, items, ratings, weights = collate(picked, user_ids, item_ids, 3.0)  # the cause
        clock.lap("python")
        error = ((p[users] * q[items]).sum(1) - ratings) * weights
        step_p = 0.02 * error[:, None] * q[items]
        np.subtract.at(q, items[:4000], 0.02 * error[:4000, None] * p[users[:4000]])
        np.subtract.at(p, users, step_p)
        clock.lap("operations")
        clock.end()
    print(f"rmse {float(np.sqrt(np.square(error).mean())):.2f}")
    clock.write()


if __name__ == "__main__":
    run()
