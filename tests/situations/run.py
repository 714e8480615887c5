#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the situations of table.py against a tbprof: needs Python alone, no package.

    python3 tests/situations/run.py build/bin/tbprof [NAME...]
"""

import concurrent.futures
import importlib.util
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402


def load_tables():
    """Rows of table*.py: a further file beside it is a further table."""
    rows = []
    here = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(here)):
        if name.startswith("table") and name.endswith(".py"):
            spec = importlib.util.spec_from_file_location(name[:-3], os.path.join(here, name))
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            rows += module.SITUATIONS
    return rows


def main():
    tbprof, only = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    rows = [row for row in load_tables() if not only or row.name in only]
    names = [row.name for row in rows]
    assert len(names) == len(set(names)), "two situations have the same name"
    possible = [row for row in rows if not row.other_user or os.geteuid() == 0]
    skipped = len(rows) - len(possible)
    if skipped:
        print(f"SKIP  {skipped} situations need root, to look as another user")

    def attempt(row):
        try:
            return harness.try_situation(row, programs), None
        except harness.Failed as error:
            return 0, str(error)
        except Exception as error:  # pylint: disable=broad-except
            return 0, repr(error)

    failed = commands = 0
    with (tempfile.TemporaryDirectory(prefix="situations.") as directory,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        programs = harness.make_programs(directory, tbprof)
        for row, (count, error) in zip(possible, pool.map(attempt, possible)):
            commands += count
            if error is not None:
                failed += 1
                print(f"FAIL  {row.name} ({row.source})\n{error}")
    print(f"{len(rows)} situations, {commands} recommendations followed, {failed} failed, {skipped} skipped")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
