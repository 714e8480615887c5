"""What TensorBoard's overview shows where steps are unknown, or where either of two loops may be the step."""

import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import tool_data  # noqa: E402
from places import TBPROF  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
SCHEDULER = "import subprocess, time\nfor _ in range(25):\n    subprocess.run(['/bin/true'])\n    time.sleep(0.06)\n"


def profile(logdir, *command):
    # On a slow machine a run of over 30 s would get a second profile of its start.
    result = subprocess.run([TBPROF, "run", "--window=all", "--logdir", logdir, "--", *command], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    (directory,) = [entry.path for entry in os.scandir(os.path.join(logdir, "plugins", "profile"))]
    with open(os.path.join(directory, "summary.json")) as file:
        return directory, json.load(file)["steps"], result.stderr


def test_unknown_steps_are_called_so(tmp_path):
    directory, steps, terminal = profile(str(tmp_path), sys.executable, "-c", SCHEDULER)
    assert steps["known"] is False and steps["count"] is None
    assert f"steps unknown: {steps['unknown_because']}" in terminal
    with tool_data.ToolData(directory) as data:
        overview = data.overview()
        assert list(tool_data.overview_steps(overview)) == ["steps unknown, whole capture shown as step 0"]
        texts = [text for _, text in tool_data.diagnostics(overview)]
    assert any("steps unknown: " in text and "synthetic" in text for text in texts)


def test_the_other_loop_is_named(tmp_path):
    pytest.importorskip("torch")
    directory, steps, terminal = profile(str(tmp_path), sys.executable, os.path.join(HERE, "programs", "two_loops.py"), "40", "16")
    assert 600 <= steps["count"] + steps["irregular"] <= 640 and steps["confidence"] <= 0.7
    (loop,) = steps["other_loops"]
    assert (loop["count"], loop["steps_each"], loop["may_be_step"]) == (40, 16, True)
    assert "other loop: 40 iterations of 16 steps; either may be the step" in terminal
    with tool_data.ToolData(directory) as data:
        texts = [text for _, text in tool_data.diagnostics(data.overview())]
    assert any("40 iterations of 16 steps" in text for text in texts)
