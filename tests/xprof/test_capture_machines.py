# SPDX-License-Identifier: Apache-2.0
"""Captures of more than one process and more than one machine: ranks of torchrun, and two network namespaces that share
no directory as far as the clients know."""

import contextlib
import glob
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import profiler_rpc  # noqa: E402
import stock_client  # noqa: E402
import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from places import ROOT, TBPROF  # noqa: E402
from test_capture import PHASES, Job, length_of, window_of  # noqa: E402

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
    long_ones = labelled_steps(spaces[f"{stem}.xplane.pb"])
    assert len(steps) > 10 and abs(len(steps) + long_ones - inside) <= 2, (steps, long_ones, inside)


def waited_for(path, lines):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if len(open(path).readlines()) >= lines:
                return
        time.sleep(0.1)
    raise AssertionError(f"{path} does not get {lines} lines")


RANKS_OF_A_SHELL = """
for r in 0 1 2; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 TEST_FACTS=$TEST_FACTS.$r "$0" 10 1 1000 & done
while ! test -f $TEST_FACTS.0; do sleep 0.05; done
while ! grep -q warm $TEST_FACTS.2; do sleep 0.05; done
cat $TEST_FACTS.2 > $TEST_FACTS
wait
"""


def test_ranks_into_a_log_directory_that_is_shared(tmp_path):
    """The client and the launcher both write, and call each file alike."""
    with Job(command=("/bin/bash", "-c", RANKS_OF_A_SHELL, PHASES)) as job:
        job.warm()
        stem = job.address.replace(":", "_")
        outcome = stock_client.trace(job.address, job.logdir, duration_ms=300)
        assert outcome.ok, (outcome.error, outcome.log)
        (run,) = outcome.runs()
        assert sorted(profiles(job.logdir, run)) == [f"{stem}.r1.xplane.pb", f"{stem}.r2.xplane.pb", f"{stem}.xplane.pb"]
        root = os.path.join(job.logdir, "plugins", "profile")
        for time_ in range(2):
            result = profiler_rpc.profile(job.address, duration_ms=100, session_id="twice", repository_root=root,
                                          host_name="node")  # fmt: skip
            assert result.ok, result
            assert sorted(result.files()) == ["r1.xplane.pb", "r2.xplane.pb", "xplane.pb"]
            # The second replaces none of the first's, whichever rank they are of.
            assert len(profiles(job.logdir, "twice")) == 3 * (time_ + 1)
        assert {"node.xplane.pb", "node.r1.xplane.pb", "node.r2.xplane.pb"} <= set(profiles(job.logdir, "twice"))


STEPS = """
import sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with open(sys.argv[1], "w", buffering=1) as facts:
    while True:
        loss = model(torch.randn(8, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        facts.write(f"{time.time_ns()}\\n")
        time.sleep(0.05)
"""


def slurm_task(rank, tasks, logdir, *options, directory):
    """One task of a Slurm job's step, as srun starts it: `tbprof run` with a log directory that all tasks share."""
    environment = {"SLURM_JOB_ID": "815", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank),
                   "SLURM_NTASKS": str(tasks)}  # fmt: skip
    command = [sys.executable, "-c", STEPS, str(directory / f"steps.{rank}")]
    options = ["--logdir", str(logdir), "--print-ranks=all", *options]
    return Job(*options, command=command, environment=environment)


@pytest.fixture
def three_of_four_tasks():
    """(directory, log directory): tasks 0, 1 and 3 of four; the one called 2 was never started."""
    pytest.importorskip("torch")
    with contextlib.ExitStack() as keep:
        # Not below a directory of pytest's, which is its user's alone.
        tmp_path = pathlib.Path(keep.enter_context(tempfile.TemporaryDirectory(prefix="tasks.")))
        tmp_path.chmod(0o777)
        for rank in (0, 1, 3):
            keep.enter_context(slurm_task(rank, 4, tmp_path / "logs", "--port-users=65534", directory=tmp_path))
        for rank in (0, 1, 3):
            waited_for(tmp_path / f"steps.{rank}", lines=20)
        yield tmp_path, tmp_path / "logs"


def steps_between(path, begin, end):
    ends = [int(line) / 1e9 for line in open(path).read().splitlines()]
    # A step that the border cuts is none.
    return sum(1 for previous, at in zip(ends, ends[1:]) if previous >= begin and at <= end)


def labelled_steps(space):
    """How many steps a busy machine has made so long that they are shown as a warm-up or a pause."""
    lines = [line for plane in space["planes"] for line in plane["lines"] if line["name"] == "not steps"]
    return sum(event["name"].startswith(("warm-up ", "irregular: ")) for line in lines for event in line["events"])


@pytest.mark.parametrize("way", ["here", "there", "ports"])
def test_several_launchers_of_one_run(three_of_four_tasks, way):
    """Into a log directory of the caller's, into that of the run, by the ports in the shared directory alone."""
    tmp_path, logdir = three_of_four_tasks
    words = {"here": ["--logdir", str(tmp_path / "own")], "there": [], "ports": ["--logdir", str(logdir)]}[way]
    user = None
    if way == "ports":
        # A client that may not use the launchers' own sockets, as on another machine, has their ports.
        if os.geteuid() != 0:
            pytest.skip("needs root, to be somebody else")
        user = 65534
        for place in (logdir, logdir / ".tbprof", logdir / "plugins", logdir / "plugins" / "profile"):
            place.chmod(0o777)
    done = subprocess.run([TBPROF, "capture", "slurm-815.0", "--duration=2s", *words], cwd=tmp_path, user=user, env=dict(os.environ, HOME=str(tmp_path)),
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    # One rank is missing, and is named.
    assert done.returncode == 1, done.stderr
    assert "missing ranks: 2:" in done.stderr
    place = tmp_path / "own" if way == "here" else logdir
    (run,) = os.listdir(place / "plugins" / "profile")
    host = socket.gethostname()
    spaces = profiles(place, run)
    assert sorted(spaces) == [f"{host}_r{rank}.xplane.pb" for rank in (0, 1, 3)]
    begins = []
    for rank in (0, 1, 3):
        space = spaces[f"{host}_r{rank}.xplane.pb"]
        assert space["hostnames"] == [f"{host}_r{rank}"]
        begins.append(window_of(space)[0])
    assert max(begins) - min(begins) < 0.001, "all count from the agreed start"
    with tool_data.ToolData(str(place / "plugins" / "profile" / run)) as data:
        steps = tool_data.overview_steps(data.overview())
        for rank in (0, 1, 3):
            space = spaces[f"{host}_r{rank}.xplane.pb"]
            own = len(tool_data.overview_steps(data.overview(f"{host}_r{rank}")))
            long_ones = labelled_steps(space)
            inside = steps_between(tmp_path / f"steps.{rank}", *window_of(space))
            assert own > 10 and abs(own + long_ones - inside) <= 2, (rank, own, long_ones, inside)
    assert len(steps) > 10


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
        assert job.hear("reaches the port may take a profile")
        assert not job.published(), "the files are the clients'"
    name = worker.replace(":", "_") + ".xplane.pb"
    found = glob.glob(str(tmp_path / "**" / name), recursive=True)
    assert len(found) == 2, found
    for path in found:
        assert length_of(xspace_maker.decode(open(path, "rb").read())) > 0.3
