"""A real training under `tbprof run`, and what the real converters, TensorBoard and a browser make of its profile."""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")
pytest.importorskip("torch")

import screenshot  # noqa: E402
import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from places import ROOT, TBPROF  # noqa: E402

TRAINING = [sys.executable, os.path.join(ROOT, "examples", "train_digits.py"), "--synthetic", "--epochs", "2"]


def without_ours(text):
    return [line for line in text.splitlines() if not line.startswith("tbprof:")]


class Training:
    def __init__(self, logdir):
        self.logdir = logdir
        self.bare = subprocess.run(TRAINING, capture_output=True, text=True, timeout=300)
        # A slow machine takes over 30 s for it, and a run that long has its start in a run of its own.
        command = [TBPROF, "run", "--logdir", logdir, "--window=all", "--also=perfetto", "--"] + TRAINING
        self.result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert self.result.returncode == 0, self.result.stderr
        runs = os.listdir(os.path.join(logdir, "plugins", "profile"))
        assert len(runs) == 1, self.result.stderr
        self.run = runs[0]
        self.directory = os.path.join(logdir, "plugins", "profile", self.run)
        with open(os.path.join(self.directory, "summary.json")) as file:
            self.summary = json.load(file)


def lines_of(training):
    """(plane, line) of the file as it was written."""
    path = os.path.join(training.directory, training.summary["host"] + ".xplane.pb")
    with open(path, "rb") as file:
        space = xspace_maker.decode(file.read())
    return [(plane, line) for plane in space["planes"] for line in plane["lines"]]


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    return Training(str(tmp_path_factory.mktemp("logs")))


@pytest.fixture(scope="module")
def data(training):
    with tool_data.ToolData(training.directory) as opened:
        yield opened


def test_the_training_does_not_notice(training):
    assert training.bare.returncode == 0 and training.result.returncode == 0, training.result.stderr
    assert training.result.stdout == training.bare.stdout
    assert without_ours(training.result.stderr) == without_ours(training.bare.stderr)


def test_the_terminal_says_where_to_look(training):
    ours = [line for line in training.result.stderr.splitlines() if line.startswith("tbprof:")]
    assert len(ours) <= 35
    assert any("verified:" in line for line in ours)
    assert any(f"tensorboard --logdir {training.logdir}" in line for line in ours)


def test_tools_are_offered(data):
    names = data.tool_names()
    for tool in ("trace_viewer@", "overview_page", "input_pipeline_analyzer", "framework_op_stats", "memory_profile"):
        assert tool in names


def test_overview_shows_the_steps_of_the_training(training, data):
    events = [event for _, line in lines_of(training) for event in line["events"]]
    # 45 batches in each of two epochs; the first ones may be a warm-up, and one may be long.
    batches = len([event for event in events if event["name"] == "Optimizer.step#Adam.step"])
    assert batches == 90
    told = training.summary["steps"]
    assert told["source"] == "Optimizer.step" and told["confidence"] >= 0.9
    assert 80 <= told["count"] <= 90
    steps = tool_data.overview_steps(data.overview())
    assert len(steps) == told["count"]
    lengths = sorted(event["duration_ps"] / 1e9 for event in events
                     if str(event["stats"].get("graph_type", "")) == "step")
    median = statistics.median(step["stepTimeMs"] for step in steps.values())
    assert abs(median - statistics.median(lengths)) < 0.02 * median
    messages = " ".join(message for _, message in tool_data.diagnostics(data.overview()))
    assert "No step marker" not in messages and "synthetic" not in messages


def test_every_event_reaches_the_viewer(training, data):
    events, _ = data.trace_events()
    shown = [event for event in events if event["ph"] == "X"]
    written = int(re.search(r"(\d+) events", training.summary["files"][0]["verified"]).group(1))
    hidden = sum(len(line["events"]) for _, line in lines_of(training)
                 if line["name"] in ("memory", "_counters_"))
    assert len(shown) == written - hidden
    end_us = training.summary["wall_s"] * 1e6
    assert min(event["ts"] for event in shown) >= 0
    assert max(event["ts"] + event.get("dur", 0) for event in shown) <= end_us + 1


def test_workers_that_leave_by_os_exit_are_there(training, data):
    workers = [process for process in training.summary["processes"] if process["forked"]]
    assert len(workers) == 2
    assert all(process["records"] > 20 for process in workers)
    _, rows = data.trace_events()
    processes = {process for process, _ in rows.values()}
    for worker in workers:
        assert any(f"pid {worker['pid']}" in name for name in processes), processes


def test_call_sites_are_named(training):
    sites = {event["stats"]["call_site"] for _, line in lines_of(training) for event in line["events"]
             if "call_site" in event["stats"]}
    assert any("PyThread_acquire_lock_timed" in site for site in sites), sorted(sites)[:20]


def test_the_heap_is_a_counter_and_a_memory_profile(training, data):
    events, _ = data.trace_events()
    highest = max(value for event in events if event["ph"] == "C" and event["name"].startswith("heap")
                  for _, value in event["entries"])
    peak = max(process["allocator"]["peak_bytes"] for process in training.summary["processes"])
    assert 0.5 * peak < highest <= peak
    profile = json.dumps(data.memory_profile())
    assert "heap" in profile


def test_other_pages_convert(data):
    for page in (data.input_pipeline(), data.op_stats()):
        assert page is not None


def test_perfetto_output_is_there_and_json(training):
    import gzip
    names = [name for name in os.listdir(training.directory) if name.endswith(".trace.json.gz")]
    assert len(names) == 1
    with gzip.open(os.path.join(training.directory, names[0])) as file:
        trace = json.load(file)
    assert any(event.get("ph") == "X" for event in trace["traceEvents"])


def test_tensorboard_serves_it(training):
    with screenshot.serve(training.logdir) as (base, _):
        assert screenshot.wait_for_run(base) == training.run
        tools = screenshot.get(base, screenshot.PLUGIN + "/run_tools", run=training.run)
        assert "trace_viewer@" in tools and "overview_page" in tools


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
def test_a_browser_draws_the_trace(training, tmp_path):
    with screenshot.serve(training.logdir) as (base, _), screenshot.Browser() as browser:
        run = screenshot.wait_for_run(base)
        host = training.summary["host"]
        browser.goto(screenshot.trace_url(base, run, host))
        assert browser.wait(f"({screenshot.SHOWN_TEXT}).includes('(pid ')", settle=2) is not None
        text = browser.eval(screenshot.SHOWN_TEXT)
        assert "train_digits.py" in text and "steps" in text
        picture = tmp_path / "trace.png"
        browser.save(str(picture))
        assert picture.stat().st_size > 20000


def test_a_static_command_shows_why_nothing_was_recorded(tmp_path):
    source = tmp_path / "program.c"
    source.write_text("int main(void) { return 5; }\n")
    program = str(tmp_path / "program")
    if subprocess.run(["cc", "-static", "-o", program, str(source)], capture_output=True).returncode != 0:
        pytest.skip("no static C library")
    logdir = str(tmp_path / "logs")
    result = subprocess.run([TBPROF, "run", "--logdir", logdir, "--", program], capture_output=True, timeout=120)
    assert result.returncode == 5, result.stderr
    (run,) = os.listdir(os.path.join(logdir, "plugins", "profile"))
    with tool_data.ToolData(os.path.join(logdir, "plugins", "profile", run)) as opened:
        assert {"trace_viewer@", "overview_page"} <= set(opened.tool_names())
        messages = " ".join(message for _, message in tool_data.diagnostics(opened.overview()))
        assert "no process was recorded" in messages and "linked statically" in messages
        assert "command not recorded, exit status 5" in [event["name"] for event in opened.trace_events()[0]]
