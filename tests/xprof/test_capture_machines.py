# SPDX-License-Identifier: Apache-2.0
"""Captures of more than one process and more than one machine: ranks of torchrun, and two network namespaces that share
no directory as far as the clients know."""

import contextlib
import glob
import os
import shutil
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import stock_client  # noqa: E402
import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from places import ROOT, TBPROF  # noqa: E402
from test_capture import Job, length_of, window_of  # noqa: E402

RANKS = os.path.join(ROOT, "tests", "xprof", "programs", "ranks.py")


def captured(*words):
    """`tbprof capture` with these words; what it said."""
    done = subprocess.run([TBPROF, "capture", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def profiles(logdir, run):
    return {
        os.path.basename(path): xspace_maker.decode(open(path, "rb").read())
        for path in glob.glob(os.path.join(logdir, "plugins", "profile", run, "*.xplane.pb"))
    }


def test_four_ranks_of_torchrun(tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", RANKS, str(tmp_path)]
    with Job("--run=ddp", command=command) as job:
        for rank in range(4):
            waited_for(tmp_path / f"steps.{rank}", lines=20)
        captured(job.address, "--duration=3s", "--run=four", "--logdir", str(tmp_path / "logs"))
        (tmp_path / "stop").touch()
        job.process.wait(120)
    spaces = profiles(tmp_path / "logs", "four")
    stem = job.address.replace(":", "_")
    assert sorted(spaces) == [f"{stem}.r1.xplane.pb", f"{stem}.r2.xplane.pb", f"{stem}.r3.xplane.pb", f"{stem}.xplane.pb"]
    begin, end = window_of(spaces[f"{stem}.xplane.pb"])
    ends = [int(line) / 1e9 for line in open(tmp_path / "steps.0")]
    # A step that the border cuts is none.
    inside = sum(1 for previous, at in zip(ends, ends[1:]) if previous >= begin and at <= end)
    assert inside > 10
    with tool_data.ToolData(str(tmp_path / "logs" / "plugins" / "profile" / "four")) as data:
        steps = tool_data.overview_steps(data.overview())
    assert abs(len(steps) - inside) <= 2, (steps, inside)


def waited_for(path, lines):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if len(open(path).readlines()) >= lines:
                return
        time.sleep(0.1)
    raise AssertionError(f"{path} does not get {lines} lines")


@pytest.fixture
def two_machines():
    """Names of two network namespaces with a cable between them, and the address of the first."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and iproute2")
    mark = os.getpid()
    names = [f"tbprof{mark}a", f"tbprof{mark}b"]
    ends = [f"tb{mark}a", f"tb{mark}b"]

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)

    try:
        try:
            for name in names:
                ip("netns", "add", name)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr}")
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for number, (name, end) in enumerate(zip(names, ends), 1):
            ip("link", "set", end, "netns", name)
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names, "10.77.0.1"
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=30)


def test_two_machines_without_a_shared_directory(two_machines, tmp_path):
    (here, there), address = two_machines
    with Job("--listen=all", launcher=("ip", "netns", "exec", here)) as job:
        job.warm()
        worker = f"{address}:{job.port}"
        done = subprocess.run(
            ["ip", "netns", "exec", there, TBPROF, "capture", worker, "--duration=400ms", "--run=ours", "--logdir", tmp_path],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        stock = subprocess.run(
            ["ip", "netns", "exec", there, sys.executable, stock_client.__file__, "trace", worker, str(tmp_path / "stock"), "--duration-ms=400"],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert stock.returncode == 0, stock.stderr
        assert job.hear("whoever reaches the port may take a profile")
        assert not job.published(), "the files are the clients'"
    name = worker.replace(":", "_") + ".xplane.pb"
    found = glob.glob(str(tmp_path / "**" / name), recursive=True)
    assert len(found) == 2, found
    for path in found:
        assert length_of(xspace_maker.decode(open(path, "rb").read())) > 0.3
