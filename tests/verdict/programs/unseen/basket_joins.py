# SPDX-License-Identifier: Apache-2.0
"""Target encoding for a next-basket model: each round joins a day's baskets with its statistics and updates these."""

import numpy as np
import pandas as pd

from lapclock import LapClock

ROUNDS = 160
ROWS, BASKETS, PRODUCTS = 340000, 30000, 4000


def day(random):
    return pd.DataFrame({
        "basket": random.integers(0, BASKETS, ROWS),
        "product": random.integers(0, PRODUCTS, ROWS),
        "price": random.gamma(2.0, 4.0, ROWS),
        "again": random.integers(0, 2, ROWS).astype(np.float64),
    })


def main():
    random = np.random.default_rng(44)
    days = [day(random) for _ in range(3)]
    encoding = pd.Series(0.5, index=pd.RangeIndex(PRODUCTS), name="encoding")
    clock = LapClock()
    error = 0.0
    for number in range(ROUNDS):
        with clock.step():
            with clock.own():
                today = days[number % 3]
                known = today["product"].map(encoding)
                error = float(((known - today["again"]) ** 2).mean())
                spent = today.groupby("basket", sort=False)["price"].sum()
                weight = today["basket"].map(np.log1p(spent))
                sums = (weight * today["again"]).groupby(today["product"]).sum()
                weights = weight.groupby(today["product"]).sum()
                encoding = 0.9 * encoding + 0.1 * (sums / weights).reindex(encoding.index).fillna(0.5)
    print(f"error {error:.4f}, encoding {encoding.mean():.4f}")
    clock.save()


if __name__ == "__main__":
    main()
