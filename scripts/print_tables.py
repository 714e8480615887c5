#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the measured tables that the documents only summarise: docs/data/*.csv.

    print_tables.py [--markdown] [NAME...]

Without a name: the tables there are, with their columns. NAME is the beginning of a file's name: `steps`, `overhead`.
"""

import csv
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "docs" / "data"


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if any(len(row) != len(rows[0]) for row in rows):
        sys.exit(f"{path}: rows differ in their number of cells")
    return rows


def print_table(rows, markdown):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        if markdown:
            print("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        else:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if number == 0:
            print("|" + "---|" * len(row) if markdown else "  ".join("-" * width for width in widths))


def main(arguments):
    markdown = "--markdown" in arguments
    names = [argument for argument in arguments if argument != "--markdown"]
    if any(name.startswith("-") for name in names):
        sys.exit(__doc__.strip())
    for path in sorted(DATA.glob("*.csv")):
        rows = rows_of(path)
        if not names:
            print(f"{path.stem}  ({len(rows) - 1} rows): {', '.join(cell for cell in rows[0] if cell)}")
        elif any(path.stem.startswith(name) for name in names):
            print(f"{path.stem}\n")
            print_table(rows, markdown)
            print()
    missing = [name for name in names if not any(path.stem.startswith(name) for path in DATA.glob("*.csv"))]
    if missing:
        sys.exit(f"no table in {DATA} begins with: {' '.join(missing)}")


if __name__ == "__main__":
    main(sys.argv[1:])
