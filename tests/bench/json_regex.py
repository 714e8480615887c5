# SPDX-License-Identifier: Apache-2.0
"""Much allocation in small objects: JSON read and written, text taken apart and put together."""

import json
import re

document = {"rows": [{"id": i, "name": f"row {i}", "values": [i * 0.5, i * 2, None, True]} for i in range(2000)]}
text = json.dumps(document)
total = 0
for _ in range(40):
    rows = json.loads(text)["rows"]
    total += sum(len(json.dumps(row)) for row in rows)
words = re.compile(r"(\w+) (\d+)")
for _ in range(40):
    total += sum(int(match.group(2)) for match in words.finditer(text))
    total += len(re.sub(r"[aeiou]", lambda match: match.group().upper(), text))
print(total)
