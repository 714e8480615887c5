"""Steps, input and operations of an untouched PyTorch program: TensorBoard's pages against the program's own clock."""

import json
import os
import statistics
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")
pytest.importorskip("torch")

import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from places import TBPROF  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


class Run:
    def __init__(self, logdir, workers):
        command = [TBPROF, "run", "--torch=all", "--logdir", logdir, "--",
                   sys.executable, os.path.join(HERE, "programs", "slow_loader.py"), str(workers)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr
        self.own = json.loads(result.stdout)
        (self.directory,) = [entry.path for entry in os.scandir(os.path.join(logdir, "plugins", "profile"))]
        with open(os.path.join(self.directory, "summary.json")) as file:
            self.summary = json.load(file)
        with open(os.path.join(self.directory, self.summary["host"] + ".xplane.pb"), "rb") as file:
            self.space = xspace_maker.decode(file.read())


@pytest.fixture(scope="module", params=[0, 2], ids=["loads itself", "two workers"])
def run(request, tmp_path_factory):
    return Run(str(tmp_path_factory.mktemp("logs")), request.param)


@pytest.fixture(scope="module")
def data(run):
    with tool_data.ToolData(run.directory) as opened:
        yield opened


def test_the_overview_has_the_steps_of_the_program(run, data):
    steps = tool_data.overview_steps(data.overview())
    # A warm-up is not among them, nor is a step that was long by chance.
    assert run.own["steps"] - 10 <= len(steps) <= run.own["steps"]
    median = statistics.median(step["stepTimeMs"] for step in steps.values())
    # What the page leaves out is long, and on a busy machine moves the median of all.
    own = statistics.median(sorted(run.own["steps_ms"])[:len(steps)])
    assert median == pytest.approx(own, rel=0.02)
    assert run.summary["steps"]["source"] == "Optimizer.step" and run.summary["steps"]["confidence"] >= 0.9


def test_the_input_share_is_the_programs(run, data):
    steps = tool_data.overview_steps(data.overview()).values()
    share = sum(step["infeedTimeMs"] for step in steps) / sum(step["stepTimeMs"] for step in steps)
    assert share == pytest.approx(run.own["input_share"], abs=0.05)
    assert run.summary["steps"]["input_wait_share"] == pytest.approx(run.own["input_share"], abs=0.05)


def test_operations_add_up_to_their_time(run, data):
    rows = {operation: row for (where, operation), row in tool_data.op_rows(data).items()
            if where == "Host" and "/" in operation}
    told = [event for plane in run.space["planes"] if plane["name"] == "/host:CPU" for line in plane["lines"] for event in line["events"]
            if "tf_op" in event["stats"]]
    of_page = sum(row["total_self_time"] for row in rows.values())
    of_events = sum(event["duration_ps"] for event in told) / 1e6
    assert of_page == pytest.approx(of_events, rel=0.01)
    assert {"forward/aten/linear", "backward/AddmmBackward0"} <= set(rows)
