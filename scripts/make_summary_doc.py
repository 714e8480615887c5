#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the field tables of docs/summary.md, between its two marks, from docs/summary.schema.json.

    scripts/make_summary_doc.py            write them
    scripts/make_summary_doc.py --check    compare; exit 1 if the page is out of date
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/summary.md"
SCHEMA = ROOT / "docs/summary.schema.json"
BEGIN = "<!-- fields: made by scripts/make_summary_doc.py -->"
END = "<!-- end of fields -->"


def type_of(field):
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    named = [kind for kind in kinds if kind != "null"]
    if named == ["array"]:
        named = [f"array of {type_of(field['items'])}"]
    return " or ".join(named + (["null"] if "null" in kinds else []))


def unit_of(name, field):
    """Names end in their unit; what has none is a count, a text or a structure."""
    if "number" not in field["type"] and "integer" not in field["type"]:
        return ""
    for suffix, unit in (("_ns", "ns"), ("_per_s", "bytes/s"), ("_s", "s"), ("bytes", "bytes"), ("bytes_estimate", "bytes"),
                         ("share", "0 to 1"), ("confidence", "0 to 1")):
        if name.endswith(suffix):
            return unit
    return ""


def tables(name, field):
    """The table of an object, then those of the objects in it."""
    rows = [f"### {name}", "", "| field | type | unit | meaning | null when |", "|---|---|---|---|---|"]
    below = []
    for key, member in field["properties"].items():
        values = " One of " + ", ".join(f"`{value}`" for value in member["enum"] if value is not None) + "." if "enum" in member else ""
        meaning, _, when = member["description"].partition("Null: ")
        rows.append(f"| `{key}` | {type_of(member)} | {unit_of(key, member)} | {meaning.strip()}{values} | {when} |")
        inner = member.get("items", member)
        if "properties" in inner:
            place = key if name == "The summary" else f"{name.strip('`')}.{key}"
            below.append((f"`{place}[]`" if inner is not member else f"`{place}`", inner))
    text = "\n".join(rows) + "\n"
    for place, inner in below:
        text += "\n" + tables(place, inner)
    return text


def main():
    page = PAGE.read_text()
    before, rest = page.split(BEGIN + "\n")
    _, after = rest.split(END)
    fresh = before + BEGIN + "\n" + tables("The summary", json.loads(SCHEMA.read_text())) + END + after
    if fresh == page:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/summary.md is out of date; run scripts/make_summary_doc.py", file=sys.stderr)
        return 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
