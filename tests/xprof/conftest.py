# SPDX-License-Identifier: Apache-2.0
"""With TBPROF_TEST_NO_SKIPS (scripts/test.sh --no-skips) a test that is skipped fails, as ctest sees whole files only.

Tests marked `tensorflow` are left out where it is not installed, as in CI: it is too large to install for each run.
"""

import os

import pytest

import stock_client


def pytest_configure(config):
    config.addinivalue_line("markers", "tensorflow: needs TensorFlow, and is left out without it")


def pytest_collection_modifyitems(config, items):
    wanting = [item for item in items if item.get_closest_marker("tensorflow")]
    if wanting and not stock_client.available("tensorflow"):
        items[:] = [item for item in items if item not in wanting]
        config.hook.pytest_deselected(items=wanting)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    if not report.skipped or not os.environ.get("TBPROF_TEST_NO_SKIPS") or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"{item.nodeid} was skipped: {reason}"
