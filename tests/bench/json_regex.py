# SPDX-License-Identifier: Apache-2.0
"""Much allocation in small objects: JSON read and written, text taken apart and put together."""

import json
import re

ROUNDS = 40
TEXT = json.dumps({"rows": [{"id": i, "name": f"row {i}", "values": [i * 0.5, i * 2, None, True]} for i in range(2000)]})
WORDS = re.compile(r"(\w+) (\d+)")


def read_and_write():
    rows = json.loads(TEXT)["rows"]
    return sum(len(json.dumps(row)) for row in rows)


def take_apart():
    total = sum(int(match.group(2)) for match in WORDS.finditer(TEXT))
    return total + len(re.sub(r"[aeiou]", lambda match: match.group().upper(), TEXT))


if __name__ == "__main__":
    print(sum(read_and_write() for _ in range(ROUNDS)) + sum(take_apart() for _ in range(ROUNDS)))
