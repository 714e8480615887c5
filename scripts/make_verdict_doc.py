#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of causes in docs/verdict.md from writer/timeline/verdict_causes.def.

    scripts/make_verdict_doc.py            write it
    scripts/make_verdict_doc.py --check    compare; exit 1 if the page is out of date
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/verdict.md"
CAUSES = ROOT / "writer/timeline/verdict_causes.def"
BEGIN = "<!-- causes: made by scripts/make_verdict_doc.py -->\n"
END = "<!-- end of causes -->\n"


def causes():
    """(name, is a problem, title, what to try)"""
    text = CAUSES.read_text()
    rows = re.findall(r'^TBPROF_CAUSE\(k\w+, "([^"]*)", (true|false), "([^"]*)",\s*"([^"]*)"\)', text, re.M)
    if len(rows) != len(re.findall(r"^TBPROF_CAUSE\(", text, re.M)):
        sys.exit(f"{CAUSES}: a row that this script cannot read")
    return rows


def table():
    yield "| the terminal says | `cause` | what to try |\n|---|---|---|\n"
    for name, _, title, following in causes():
        if name != "unknown":
            yield f"| {title} | `{name}` | {following} |\n"


def main():
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{PAGE}: no `{BEGIN.strip()}` ... `{END.strip()}`")
    made = before + begin + "".join(table()) + end + after
    if sys.argv[1:] == ["--check"]:
        if made != page:
            sys.exit("docs/verdict.md is out of date; run scripts/make_verdict_doc.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(made)


main()
