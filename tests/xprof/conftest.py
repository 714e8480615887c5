# SPDX-License-Identifier: Apache-2.0
"""With TBPROF_TEST_NO_SKIPS (scripts/test.sh --no-skips) a test that is skipped fails, as ctest sees whole files only."""

import os

import pytest

# What tests look for in the terminal is in the tables.
os.environ.setdefault("TBPROF_SUMMARY", "full")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if not report.skipped or not os.environ.get("TBPROF_TEST_NO_SKIPS") or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"{item.nodeid} was skipped: {reason}"
