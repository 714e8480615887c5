# SPDX-License-Identifier: Apache-2.0
"""The picture in docs/overhead.md: what each profiler adds to a call, on a scale of powers of ten.

    plot.py RESULTS.json PICTURE.svg

RESULTS.json is what scripts/bench.sh --json leaves. Bars are medians, whiskers the quartiles.
"""

import json
import math
import sys
from xml.sax.saxutils import escape

# Table of the results, its title, and which rows it shows under which name.
GROUPS = (
    ("`small`", "malloc or free of 48 bytes", (
        ("disarmed", "tbprof, no window open", True), ("default", "tbprof, default", True),
        ("`--malloc=exact`", "tbprof, each block", True),
        ("the same, each stamped", "tbprof, each block with its time", True),
        ("LTTng", "LTTng-UST", False), ("heaptrack", "heaptrack", False))),
    ("a free mutex, lock and unlock", "pthread_mutex_lock and unlock, free", (
        ("disarmed", "tbprof, no window open", True), ("default", "tbprof, default", True),
        ("LTTng", "LTTng-UST", False))),
)
WIDTH, LEFT, RIGHT, ROW, LEAST, MOST = 760, 230, 70, 24, 0.1, 2000.0


def place(value):
    value = min(max(value, LEAST), MOST)
    return LEFT + (WIDTH - LEFT - RIGHT) * math.log(value / LEAST) / math.log(MOST / LEAST)


def picture(tables):
    parts, y = [], 14
    for table, title, rows in GROUPS:
        if table not in tables:
            continue
        shown = [(label, ours, tables[table][name]) for name, label, ours in rows if name in tables[table]]
        y += 22
        parts.append(f'<text x="12" y="{y}" class="title">{escape(title)}: added to a call, ns</text>')
        y += 10
        top, bottom = y, y + ROW * len(shown)
        for power in range(-1, 4):
            x = place(10.0**power)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" class="grid"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 14}" class="tick">{10.0**power:g}</text>')
        for label, ours, (low, middle, high) in shown:
            centre = y + ROW / 2
            parts.append(f'<text x="{LEFT - 8}" y="{centre + 4:.1f}" class="label">{escape(label)}</text>')
            parts.append(f'<rect x="{LEFT}" y="{y + 5}" width="{max(place(middle) - LEFT, 1):.1f}" '
                         f'height="{ROW - 10}" class="{"ours" if ours else "peer"}"/>')
            parts.append(f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{centre}" y2="{centre}" class="spread"/>')
            parts.append(f'<text x="{place(max(middle, high)) + 6:.1f}" y="{centre + 4:.1f}" class="value">'
                         f'{middle:.3g}</text>')
            y += ROW
        y = bottom + 22
    style = ("text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.label{text-anchor:end}"
             ".tick{text-anchor:middle;fill:#777;font-size:10px}.grid{stroke:#ddd}.ours{fill:#2a7}.peer{fill:#999}"
             ".spread{stroke:#222;stroke-width:1.5}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}">'
            f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1]) as file:
        tables = json.load(file)
    with open(sys.argv[2], "w") as file:
        file.write(picture(tables))


if __name__ == "__main__":
    main()
