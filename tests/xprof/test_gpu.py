"""A spool of GPU activity made by hand, converted by `tbprof convert`: what the real converters make of it.

Simulated: no device made these records. tests/unit/writer/gpu_spool.h says what is in them.
"""

import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import tool_data  # noqa: E402
from places import BUILD  # noqa: E402

GEMM = "void gemm<float>(float*, int)"


class Converted:
    def __init__(self, directory, name):
        self.made = directory
        spool = os.path.join(directory, name + ".spool")
        maker = [os.path.join(BUILD, "tests", "gpu_builder_test"), "--gtest_filter=GpuBuilder.SpoolsForOtherTests_AreWritten"]
        subprocess.run(maker, env=dict(os.environ, TBPROF_WRITE_GPU_SPOOLS=str(directory)), check=True,
                       capture_output=True)
        logdir = os.path.join(directory, "logs_" + name)
        result = subprocess.run([os.path.join(BUILD, "bin", "tbprof"), "convert", "--logdir", logdir, spool],
                                capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        self.terminal = result.stderr
        runs = os.path.join(logdir, "plugins", "profile")
        self.directory = os.path.join(runs, os.listdir(runs)[0])
        with open(os.path.join(self.directory, "summary.json")) as file:
            self.summary = json.load(file)


def opened_run(tmp_path_factory, name):
    converted = Converted(str(tmp_path_factory.mktemp(name)), name)
    return converted, tool_data.ToolData(converted.directory)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    converted, data = opened_run(tmp_path_factory, "training")
    with data as opened:
        yield converted, opened


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    converted, data = opened_run(tmp_path_factory, "copies")
    with data as opened:
        yield converted, opened


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    converted, data = opened_run(tmp_path_factory, "two")
    with data as opened:
        yield converted, opened


def rows(table):
    columns = [column["id"] for column in table["cols"]]
    return [dict(zip(columns, (cell.get("v") for cell in row["c"]))) for row in table["rows"]]


def lines_of(data, plane_name):
    for plane in data.grouped()["planes"]:
        if plane["name"] == plane_name:
            return {line["name"]: line["events"] for line in plane["lines"]}
    return {}


def test_kernel_stats_sum_up(training):
    converted, data = training
    kernels = {row["kernel_name"]: row for row in rows(data.kernel_stats())}
    assert kernels[GEMM]["occurrences"] == 3 and kernels[GEMM]["total_duration_us"] == 9000
    assert kernels["at::relu(float*)"]["total_duration_us"] == 3000
    row = kernels[GEMM]
    assert row["registers_per_thread"] == 64 and row["shmem_bytes"] == 8192
    assert row["block_dim"] == "256,1,1" and row["grid_dim"] == "128,1,1"
    assert row["occupancy_pct"] == 50
    assert row["op_name"] == "gemm"
    # And the summary agrees.
    (gpu,) = converted.summary["gpus"]
    assert sum(k["total_s"] for k in gpu["top_kernels"]) == pytest.approx(0.012)
    assert gpu["busy_s"] == pytest.approx(3 * 0.0055)


def test_overview_knows_the_device_and_the_parts_of_the_step(training):
    _, data = training
    overview = data.overview()
    (step,) = tool_data.overview_steps(overview).values()
    assert step["deviceComputeTimeMs"] == 12
    assert step["infeedTimeMs"] == 3 and step["outfeedTimeMs"] == pytest.approx(1.5)
    assert "Hopper" in json.dumps(overview)
    messages = " ".join(message for _, message in tool_data.diagnostics(overview))
    assert "No step marker" not in messages


def test_steps_are_on_the_device_plane(training):
    _, data = training
    lines = lines_of(data, "/device:GPU:0")
    assert [event["duration_ps"] for event in lines["Steps"]] == [45_500_000_000]
    assert all(event["stats"]["group_id"] == 0 for event in lines["Stream #7(Compute)"])


def test_arrows_lead_from_calls_to_kernels(training):
    _, data = training
    events, _ = data.trace_events()
    out = {event["bind_id"]: event for event in events if event.get("flow_out") and "cuda" in event["name"]}
    into = [event for event in events if event.get("flow_in") and event["name"] == GEMM]
    assert len(into) == 3
    for kernel in into:
        call = out[kernel["bind_id"]]
        assert call["name"] == "cudaLaunchKernel" and call["ts"] < kernel["ts"]


def test_operations_memory_and_transfers(training):
    _, data = training
    assert {key[1] for key in tool_data.op_rows(data)} >= {"gemm", "relu", "MemcpyHToD", "MemcpyDToH"}
    allocators = data.memory_profile()["memoryProfilePerAllocator"]
    assert allocators["GPU:0 cudaMalloc (segments)"]["profileSummary"]["peakBytesUsageLifetime"] == str(3 << 20)


def test_the_trace_viewer_has_all_lines(training):
    _, data = training
    events, named = data.trace_events()
    shown = {thread for process, thread in named.values() if "GPU" in process}
    assert {"Stream #7(Compute)", "Stream #14(MemcpyD2H,MemcpyH2D)"} <= shown
    assert sum(event["name"] == GEMM for event in events if event["ph"] == "X") >= 3
    assert any(event["ph"] == "C" and "GPU memory" in event["name"] for event in events)


def test_each_step_has_its_own_kernels(training):
    converted, _ = training
    with tool_data.ToolData(os.path.join(converted.made, "steps")) as data:
        steps = tool_data.overview_steps(data.overview())
        # xprof's own numbers. Of six steps and more it leaves out the first and the last: those around the steps.
        assert list(steps) == [str(i) for i in range(1, 7)]
        for step in steps.values():
            assert step["deviceComputeTimeMs"] == 4 and step["infeedTimeMs"] == 1
            assert step["stepTimeMs"] == 5.5
        events = lines_of(data, "/device:GPU:0")["Stream #7(Compute)"]
        assert [event["stats"]["group_id"] for event in events] == [i // 2 for i in range(16)]


def test_a_device_with_copies_alone_leaves_the_host_its_steps(copies):
    _, data = copies
    steps = tool_data.overview_steps(data.overview())
    assert len(steps) == 1 and "steps unknown" in next(iter(steps))
    _, named = data.trace_events()
    assert any("Stream #14" in thread for _, thread in named.values())


def test_two_devices_and_a_helper_process(two):
    _, data = two
    names = [plane["name"] for plane in data.grouped()["planes"]]
    assert "/device:GPU:0" in names and "/device:GPU:1" in names
    kernels = {row["kernel_name"]: row for row in rows(data.kernel_stats())}
    assert kernels["train_step_kernel"]["occurrences"] == 3
    assert kernels["triton_kernel"]["total_duration_us"] == 1000
    assert len(tool_data.overview_steps(data.overview())) == 1
    events, _ = data.trace_events()
    (kernel,) = [event for event in events if event["name"] == "triton_kernel" and event["ph"] == "X"]
    assert any(event.get("flow_out") and event["bind_id"] == kernel["bind_id"] for event in events)
