"""The input wait of untouched trainings: what the terminal, summary.json and TensorBoard's pages give is the same, and
none of them gives a zero that nobody has measured."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import tool_data  # noqa: E402
from places import BUILD, TBPROF  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
NOT_BOUND = "NOT input-bound"


class Run:
    def __init__(self, logdir, command, options=()):
        result = subprocess.run([TBPROF, "run", *options, "--logdir", str(logdir), "--", *command],
                                capture_output=True, text=True, timeout=500)
        assert result.returncode == 0, result.stderr
        self.own, self.printed = json.loads(result.stdout.splitlines()[-1]), result.stderr
        (directory,) = [entry.path for entry in os.scandir(os.path.join(logdir, "plugins", "profile"))]
        with open(os.path.join(directory, "summary.json")) as file:
            self.summary = json.load(file)
        self.input = self.summary["steps"]["input_wait"]
        with tool_data.ToolData(directory) as data:
            overview, pipeline = data.overview(), data.input_pipeline()
        self.warnings = [message for _, message in tool_data.diagnostics(overview)]
        self.steps = tool_data.overview_steps(overview)
        self.conclusion = tool_data.properties(overview)["input_conclusion"]
        assert tool_data.properties(pipeline)["input_conclusion"] == self.conclusion
        self.stages = {row["c"][0]["v"]: row["c"][1]["v"] for table in pipeline
                       if any(column["id"] == "opName" for column in table.get("cols", [])) for row in table["rows"]}

    def own_share(self):
        """By the program's own clock, of the steps that the page shows: a pause is none of them."""
        shown = [int(name.removeprefix("step ")) for name in self.steps]
        return sum(self.own["waits"][i] for i in shown) / sum(self.own["lengths"][i] for i in shown)

    def page_share(self):
        steps = self.steps.values()
        return sum(step["infeedTimeMs"] for step in steps) / sum(step["stepTimeMs"] for step in steps)


def fed(tmp_path, *arguments):
    pytest.importorskip("torch")
    return Run(tmp_path, [sys.executable, os.path.join(HERE, "programs", "fed.py"), *arguments])


@pytest.mark.parametrize("source", ["loader", "workers", "iterable"])
def test_a_loader_is_measured(tmp_path, source):
    # Batches take long: in a step, the program may wait for a CPU for some milliseconds between its own clock and the
    # loader's call.
    run = fed(tmp_path, source, "8", "0.08")
    assert run.input["state"] == "measured" and run.input["loader"] == "DataLoader"
    assert run.page_share() == pytest.approx(run.input["share"], abs=0.01)
    assert run.input["share"] == pytest.approx(run.own_share(), abs=0.1)
    (printed,) = re.findall(r"input wait (\d+) % of the step", run.printed)
    assert abs(int(printed) - 100 * run.input["share"]) <= 1
    assert NOT_BOUND not in run.conclusion


@pytest.mark.parametrize("source", ["thread", "process", "socket", "file", "lock"])
def test_what_nobody_knows_is_unknown(tmp_path, source):
    run = fed(tmp_path, source)
    assert run.input["state"] == "unknown" and run.input["share"] is None
    assert run.summary["steps"]["input_wait_share"] is None
    assert "input wait unknown" in run.printed
    assert any("input wait unknown" in warning for warning in run.warnings)
    assert NOT_BOUND not in run.conclusion


def test_a_program_that_computes_waits_for_nothing(tmp_path):
    run = fed(tmp_path, "nothing", "20")
    assert run.input["state"] == "none" and run.input["at_most"] < 0.05
    assert "no wait for input seen" in run.printed
    assert NOT_BOUND in run.conclusion


# 64,000 steps and more were shown with 0.0 %: waits of less than a hundred-thousandth of the run were left out.
@pytest.mark.parametrize("steps", [100, 64_000])
def test_the_page_computes_the_same_for_many_steps(tmp_path, steps):
    torch = tmp_path / "torch"
    shutil.copytree(os.path.join(BUILD, "tests", "sim", "torch", "plain"), torch / "lib",
                    ignore=lambda _, names: [name for name in names if not name.endswith(".so")])
    (torch / "version.py").write_text("__version__ = '2.13.0+cpu'\ndebug = False\n")
    program = os.path.join(BUILD, "tests", "programs", "input_steps")
    run = Run(tmp_path / "logs", [program, str(torch), str(steps), "12", "12"])
    assert run.input["state"] == "measured"
    assert len(run.steps) == run.summary["steps"]["count"] >= 0.8 * steps
    assert run.page_share() == pytest.approx(run.summary["steps"]["input_wait_share"], abs=0.01)
    assert 0.3 < run.page_share() < 0.7
    assert run.stages["dataloader"] == steps
