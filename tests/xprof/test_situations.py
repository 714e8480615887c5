"""The table of tests/situations with the runs and hosts that the installed xprof plugin lists."""

import os
import sys
import types

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "situations"))

pytest.importorskip("xprof")

import harness  # noqa: E402
import run as situations  # noqa: E402
import tool_data  # noqa: E402
from places import TBPROF  # noqa: E402
from xprof import profile_plugin  # noqa: E402


def listed_by_xprof(logdir):
    """[(run, host, path)]"""
    if not os.path.isdir(logdir):
        return []
    flags = types.SimpleNamespace(master_tpu_unsecure_channel="")
    plugin = profile_plugin.ProfilePlugin(types.SimpleNamespace(logdir=logdir, data_provider=None, flags=flags))
    found = []
    with tool_data.NativeLog():
        try:
            runs = plugin.runs_imp()
        except ValueError:  # at `plugins` itself
            return []
        for run in runs:
            directory = plugin._run_dir(run)  # pylint: disable=protected-access
            for host in plugin.host_impl(run, "memory_profile"):
                name = host["hostname"]
                paths = [os.path.join(directory, name + end) for end in (".xplane.pb", ".xplane.riegeli")]
                found += [(run, name, path) for path in paths if os.path.lexists(path)]
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return harness.make_programs(str(tmp_path_factory.mktemp("bin")), TBPROF)


@pytest.mark.parametrize("row", situations.load_tables(), ids=lambda row: row.name)
def test_situation(row, programs):
    if row.other_user and os.geteuid() != 0:
        pytest.skip("needs root, to look as another user")
    harness.try_situation(row, programs, both)


def both(logdir):
    """The model that the tests without packages use is xprof's list."""
    theirs = sorted(listed_by_xprof(logdir))
    assert sorted(harness.listed_by_model(logdir)) == theirs
    return theirs
