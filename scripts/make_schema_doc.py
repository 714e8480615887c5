#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/xspace-names.md: every plane, line, event and stat name of writer/timeline/schema.def.

    scripts/make_schema_doc.py            write the page
    scripts/make_schema_doc.py --check    compare; exit 1 if the page is out of date

A meaning is the comment above a name; of a stat it holds for those that follow without a blank line, too.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/xspace-names.md"
TABLES = (("PLANE", "Planes", ""), ("LINE", "Lines", ""), ("EVENT", "Events", ""), ("STAT", "Stats", " value |"),
          ("FORBIDDEN_STAT", "Stats that no file may have", ""), ("FORBIDDEN_EVENT", "Events that no file may have", ""))


def rows():
    """(kind, name, arm or "", comment or "")"""
    comment, names_seen = [], False
    for line in (ROOT / "writer/timeline/schema.def").read_text().splitlines():
        row = re.match(r'TBPROF_(\w+)\((?:\w+, )?"([^"]*)"(?:, (\w+))?\)', line)
        if line.startswith("//"):
            comment, names_seen = ([] if names_seen else comment) + [line.removeprefix("//").strip()], False
        elif row:
            names_seen = True
            yield row.group(1), row.group(2), row.group(3) or "", " ".join(comment)
            comment = comment if row.group(1) == "STAT" else []
        else:
            comment, names_seen = [], False


def page():
    yield ("# Names in the profile\n\nEvery plane, line, event and stat name that `xplane.pb` may contain and that has a meaning to "
           "TensorBoard or is tbprof's own. Made by\n`scripts/make_schema_doc.py` from `writer/timeline/schema.def`; what reads them is "
           "in [xspace-mapping.md](xspace-mapping.md). *Value* is the only\nmember of `XStat.value` that readers accept for the name.\n")
    found = list(rows())
    for kind, title, column in TABLES:
        yield f"\n## {title}\n\n| name |{column} meaning |\n|---|{'---|' if column else ''}---|\n"
        for row, name, arm, comment in found:
            if row == kind:
                yield f"| `{name}` |{f' {arm} |' if column else ''} {comment.replace('|', chr(92) + '|')} |\n"


def main():
    fresh = "".join(page())
    if PAGE.exists() and fresh == PAGE.read_text():
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/xspace-names.md is out of date; run scripts/make_schema_doc.py", file=sys.stderr)
        return 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
