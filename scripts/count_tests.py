#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the tests in ctest's JUnit reports, names the failed and tells why others were skipped.

    count_tests.py [--no-skips] REPORT.xml...

A ctest case is skipped when it says so (exit status 77, GTEST_SKIP). A case that passed but
skipped a part of itself (a line "SKIP: reason", a GoogleTest or pytest skip inside) counts as
passed, and each such part as one skipped. A line "ABSENT: reason" is repeated and counts for nothing:
what the test is about does not exist here. A case that could not be started is a failed one.
Exits 1 when a test failed, when there was none, or, with --no-skips, when one was skipped.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

# How ctest marks the cases that asked to be skipped; "notrun" alone is also a missing program.
ASKED_TO_SKIP = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")

REASON = re.compile(
    r"^SKIP: (?P<line>.+)"
    r"|^\S+:\d+: Skipped\n(?!\[)(?:SKIP: )?(?P<gtest>.+)"
    r"|^(?P<bare_gtest>\[  SKIPPED \] \S+) \(\d+ ms\)"
    r"|^SKIPPED \[\d+\] (?P<pytest>.+)",
    re.MULTILINE)


def reasons(output):
    """Returns the reasons of all skips that a test's output tells of."""
    found = []
    explained = False
    for match in REASON.finditer(output):
        # GoogleTest closes every skipped test with a line of its own, explained or not.
        if match["bare_gtest"]:
            if not explained:
                found.append(match["bare_gtest"].split()[-1])
            explained = False
            continue
        explained = match["gtest"] is not None or match["line"] is not None
        found.append((match["line"] or match["gtest"] or match["pytest"]).strip())
    return found


def main():
    arguments = sys.argv[1:]
    no_skips = "--no-skips" in arguments
    passed, failed, skipped, absent = 0, [], [], []
    for path in (a for a in arguments if a != "--no-skips"):
        with open(path, "rb") as report:
            text = report.read().decode("utf-8", "replace")
        for case in ElementTree.fromstring(text.encode()).iter("testcase"):
            name = case.get("name")
            output = case.findtext("system-out") or ""
            mark = case.find("skipped")
            message = mark.get("message", "") if mark is not None else ""
            status = case.get("status")
            if status == "run":
                passed += 1
                skipped += [(name, f"in part: {reason}") for reason in reasons(output)]
                absent += [(name, reason) for reason in re.findall(r"^ABSENT: (.+)", output, re.MULTILINE)]
            elif status == "disabled":
                skipped.append((name, "disabled in CMake"))
            elif status == "notrun" and message.startswith(ASKED_TO_SKIP):
                told = reasons(output)
                skipped.append((name, told[0] if told else "no reason given"))
            else:
                failure = case.find("failure")
                cause = failure.get("message") if failure is not None else message
                failed.append((name, cause or "failed"))

    for name, reason in skipped:
        print(f"skipped: {name}: {reason}")
    for name, reason in absent:
        print(f"absent: {name}: {reason}")
    for name, cause in failed:
        print(f"failed: {name}: {cause}")
    if no_skips and skipped:
        print("a skipped test is a failure here (--no-skips)")
    print(f"tests: {passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed or not passed + len(skipped) or (no_skips and skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
