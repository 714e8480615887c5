# SPDX-License-Identifier: Apache-2.0
"""What xprof's converters make of profiles of a real GPU: tests/data/cuda's spools of an H200, converted again.

The expected numbers are read from the spools' own records (gpu_records.py), or from the file that tbprof wrote, before
xprof reads it. None is taken from xprof.
"""

import collections
import glob
import gzip
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import gpu_records  # noqa: E402
import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from gpu_records import HOST_TO_HOST, SET, GpuRecords  # noqa: E402
from places import ROOT, TBPROF  # noqa: E402

SPOOLS = sorted(glob.glob(os.path.join(ROOT, "tests", "data", "cuda", "h200_*.spool.gz")))
NAMES = [os.path.basename(path).removesuffix(".spool.gz").split("cuda130_")[-1] for path in SPOOLS]
WITH_STEPS = ["hooks", "jax_steps", "train", "train_graph", "whole_graphs"]
COPY_NAMES = {1: "MemcpyHToD", 2: "MemcpyDToH", 8: "MemcpyDToD", SET: "Memset"}
# A time in the profile is one of the device's, in whole ns, or a host's, in ticks of less than a ns.
ROUNDING_NS = 1.5


class Run:
    """A spool, the profile made of it, and that profile in xprof."""

    def __init__(self, spool, place):
        self.records = GpuRecords(spool)
        plain = place / "run.spool"
        with gzip.open(spool) as file:
            plain.write_bytes(file.read())
        self.summary = gpu_records.golden.convert(TBPROF, plain, place)
        self.logs = str(place / "logs")
        (self.directory,) = glob.glob(os.path.join(self.logs, "plugins", "profile", "*"))
        (path,) = glob.glob(os.path.join(self.directory, "*.xplane.pb"))
        self.file = xspace_maker.decode(pathlib.Path(path).read_bytes())
        self.data = tool_data.ToolData(self.directory).__enter__()
        self.pages = {}

    def close(self):
        self.data.__exit__(None, None, None)

    def page(self, tool):
        if tool not in self.pages:
            self.pages[tool] = self.data.json(tool)
        return self.pages[tool]

    def rows(self, tool, number=0):
        page = self.page(tool)
        table = page[number] if isinstance(page, list) else page
        columns = [column["id"] for column in table["cols"]]
        return [dict(zip(columns, (cell.get("v") for cell in row["c"]))) for row in table["rows"]]

    def steps(self):
        return tool_data.overview_steps(self.page("overview_page"))

    def trace(self):
        """(events, rows) of the trace viewer."""
        if "trace" not in self.pages:
            self.pages["trace"] = self.data.trace_events(self.data.hosts()[0])
        return self.pages["trace"]

    def lines(self, prefix):
        return [(plane, line) for plane in self.file["planes"] if plane["name"].startswith(prefix)
                for line in plane["lines"]]

    def device_lines(self):
        """Lines of work, as tbprof wrote them."""
        return [line for _, line in self.lines("/device:GPU:") if line["name"].startswith("Stream")]

    def shown_names(self):
        """{mangled name: the name in the profile}"""
        return {row["mangled"] or row["name"]: row["name"] for row in self.summary["gpus"][0]["top_kernels"]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    made = {}

    def run_of(name):
        if name not in made:
            made[name] = Run(SPOOLS[NAMES.index(name)], tmp_path_factory.mktemp(name))
        return made[name]

    yield run_of
    for run in made.values():
        run.close()


@pytest.fixture(params=NAMES)
def run(request, runs):
    return runs(request.param)


@pytest.fixture(params=WITH_STEPS)
def stepped(request, runs):
    return runs(request.param)


def union(spans):
    total, until = 0, float("-inf")
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def test_all_spools_of_the_h200_are_here():
    assert len(NAMES) >= 10 and set(WITH_STEPS) < set(NAMES)


def test_tbprof_check_finds_nothing_wrong(run):
    checked = subprocess.run([TBPROF, "check", run.logs], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_pages_of_a_gpu_are_offered_and_those_of_hlo_are_not(run):
    offered = set(run.data.tool_names())
    assert {"trace_viewer@", "overview_page", "input_pipeline_analyzer", "framework_op_stats", "memory_profile"} <= offered
    assert run.page("smart_suggestion") == {"suggestions": []}
    # There is no HLO and no counter in the profile: the pages would be empty.
    assert not offered & {"memory_viewer", "graph_viewer", "megascale_stats", "perf_counters", "utilization_viewer"}
    work_in_steps = bool(run.records.kernels or run.records.graphs)
    assert ("kernel_stats" in offered) == work_in_steps


def test_kernel_stats_has_each_kernel_of_the_records(run):
    expected = run.records.kernels_by_name()
    if not expected and not run.records.graphs:
        return
    found = collections.defaultdict(lambda: [0, 0, set()])
    for row in run.rows("kernel_stats"):
        entry = found[row["kernel_name"]]
        entry[0] += row["occurrences"]
        entry[1] += row["total_duration_us"] * 1000
        entry[2].add((row["registers_per_thread"], row["shmem_bytes"], row["grid_dim"], row["block_dim"]))
        assert 0 < row["occupancy_pct"] <= 100
        assert row["min_duration_us"] <= row["avg_duration_us"] <= row["max_duration_us"]
    shown = run.shown_names()
    assert {shown[name] for name in expected} == set(found)
    for mangled, (count, total_ns) in expected.items():
        assert found[shown[mangled]][0] == count
        assert found[shown[mangled]][1] == pytest.approx(total_ns, abs=count * ROUNDING_NS)
        launches = {(kernel.registers, kernel.shared, "%d,%d,%d" % kernel.grid, "%d,%d,%d" % kernel.block)
                    for kernel in run.records.kernels if kernel.mangled == mangled}
        assert found[shown[mangled]][2] == launches


def test_operations_of_the_device_are_all_its_work(run):
    rows = {row["operation"]: row for row in run.rows("framework_op_stats") if row["host_or_device"] == "Device"}
    if "kernel_stats" not in run.data.tool_names():
        assert not set(rows) - {"IDLE"}
        return
    idle = rows.pop("IDLE")
    work = [(kernel.end - kernel.start, "Kernel") for kernel in run.records.kernels]
    work += [(copy.end - copy.start, "Memory") for copy in run.records.copies if copy.kind != HOST_TO_HOST]
    work += [(end - start, "Graph") for start, end, _, _ in run.records.graphs]
    for kind in ("Kernel", "Memory", "Graph"):
        of_kind = [row for row in rows.values() if row["type"] == kind]
        lengths = [length for length, one in work if one == kind]
        assert sum(row["occurrences"] for row in of_kind) == len(lengths)
        total = sum(row["total_self_time"] for row in of_kind) * 1000
        assert total == pytest.approx(sum(lengths), abs=len(lengths) * ROUNDING_NS)
    for number, name in COPY_NAMES.items():
        copies = [copy for copy in run.records.copies if copy.kind == number]
        assert (name in rows) == bool(copies)
        if copies:
            assert rows[name]["occurrences"] == len(copies)
    # The rest of the time from the first thing on the plane to the last one.
    ends = [(event["offset_ps"], event["offset_ps"] + event["duration_ps"])
            for _, line in run.lines("/device:GPU:") for event in line["events"]]
    whole_us = (max(end for _, end in ends) - min(start for start, _ in ends)) / 1e6
    sum_us = sum(row["total_self_time"] for row in rows.values())
    assert idle["total_self_time"] == pytest.approx(whole_us - sum_us, abs=1e-3)


def test_op_profile_and_hlo_stats_have_the_same_work_without_flops(run):
    rows = {row["operation"]: row for row in run.rows("framework_op_stats") if row["host_or_device"] == "Device"}
    rows.pop("IDLE", None)
    busy_us = sum(row["total_self_time"] for row in rows.values())
    stats = [row for row in run.rows("hlo_stats") if row["category"] != "IDLE"]
    assert sum(row["total_self_time"] for row in stats) == pytest.approx(busy_us, abs=1e-3)
    assert all(row["model_flop_rate"] == 0 and row["program_id"] == "0" for row in stats)
    profile = run.page("op_profile")["byProgramExcludeIdle"]
    assert profile["metrics"]["rawTime"] == pytest.approx(busy_us * 1e6, abs=1e3)
    assert profile["metrics"]["rawFlops"] == 0


def test_roofline_knows_the_device_and_claims_no_bound(run):
    page = tool_data.properties(run.page("roofline_model"))
    if "kernel_stats" not in run.data.tool_names():
        return
    (device,) = run.records.devices.values()
    assert page["device_type"] == "Nvidia GPU (Hopper)"
    assert float(page["peak_hbm_bw"]) * 2**30 == pytest.approx(device.bandwidth * 1000, rel=1e-4)
    # 1,979 teraflops of FP16 with sparsity at 1,830 MHz by NVIDIA's data sheet; without sparsity it is half of it.
    at_clock = 989.5e3 * device.clock_khz / 1830e3
    assert float(page["peak_flop_rate"]) == pytest.approx(at_clock, rel=1e-3)
    operations = [row for row in run.rows("roofline_model") if row["operation"] not in ("Program", "IDLE")]
    assert {row["bound_by"] for row in operations} == {"Unknown"}


def test_overview_knows_the_device_and_has_no_warning_of_xprof(run):
    page = run.page("overview_page")
    shown = tool_data.properties(page)
    if "kernel_stats" in run.data.tool_names():
        assert shown["device_type"] == "Nvidia GPU (Hopper)" and shown["device_core_count"] == "1"
    said = tool_data.diagnostics(page)
    assert sorted(said) == sorted(("WARNING", text) for text in run.file["warnings"])
    text = " ".join(message for _, message in said)
    # Where steps are unknown or inferred, the page says so.
    assert ("steps unknown" if not run.summary["steps"]["known"] else "steps are inferred") in text
    assert run.steps()
    (process,) = [process for process in run.summary["processes"] if process["gpu"]]
    assert ("device times are approximate" in text) == bool(process["gpu"]["approximate"])
    assert ("its GPU activity is missing for" in text) == bool(process["gpu"]["gaps"])


class Step:
    """What belongs to a step: the device's work whose call lies in its marker, as tbprof wrote it."""

    def __init__(self):
        self.work = []  # (name, start ps, end ps)

    def spans(self, *names):
        return [(start, end) for name, start, end in self.work if name.split(" ")[0] in names]

    def computing(self):
        return [(start, end) for name, start, end in self.work if not name.startswith("Memcpy")]

    def row(self):
        """Of overlapping work, computing counts before copies to the host, and those before copies from it."""
        computing, to_host = self.computing(), self.spans("MemcpyDToH")
        device = computing + to_host
        return {
            "stepTimeMs": (max(end for *_, end in self.work) - min(start for _, start, _ in self.work)) / 1e9,
            "deviceComputeTimeMs": union(computing) / 1e9,
            "outfeedTimeMs": (union(device) - union(computing)) / 1e9,
            "infeedTimeMs": (union(device + self.spans("MemcpyHToD")) - union(device)) / 1e9,
        }


def written_steps(run):
    """[Step] in the order of the markers; those without computing are no steps of a GPU."""
    markers, calls = [], {}
    for _, line in run.lines("/host:CPU"):
        for event in line["events"]:
            stats = event["stats"]
            if line["name"] == "steps" and event["name"] == "step":
                markers.append((event["offset_ps"], event["offset_ps"] + event["duration_ps"]))
            elif "correlation_id" in stats:
                calls[stats["correlation_id"]] = event["offset_ps"]
    steps = {marker: Step() for marker in sorted(markers)}
    for line in run.device_lines():
        for event in line["events"]:
            at = calls.get(event["stats"].get("correlation_id"))
            for (start, end), step in steps.items():
                if at is not None and start <= at < end:
                    step.work.append((event["shown"], event["offset_ps"], event["offset_ps"] + event["duration_ps"]))
    return [step for step in steps.values() if step.computing()]


def test_steps_of_the_pages_have_their_own_work_and_no_other(run):
    expected = [step.row() for step in written_steps(run)]
    if not expected:
        # Copies alone: the host's synthetic step is shown.
        (name,) = run.steps()
        assert name.startswith("steps unknown")
        return
    # Of six steps and more, xprof leaves out the first and the last.
    expected = expected[1:-1] if len(expected) > 5 else expected
    found = list(run.steps().values())
    assert len(found) == len(expected)
    for step, numbers in zip(found, expected):
        for column, value in numbers.items():
            assert step[column] == pytest.approx(value, abs=1e-6), column
        assert step["deviceCollectivesTimeMs"] == 0
    pipeline = run.rows("input_pipeline_analyzer", 1)
    assert [row["infeedTimeMs"] for row in pipeline] == [step["infeedTimeMs"] for step in found]


def iterations(run, name):
    """[ns of computing] of each iteration of the program, as its source has them, by the records alone."""
    if name == "jax_steps":
        launches = collections.defaultdict(list)
        for kernel in run.records.kernels:
            if kernel.graph:
                launches[kernel.correlation].append((kernel.start, kernel.end))
        return [union(spans) for spans in sorted(launches.values())]
    if name == "whole_graphs":
        return [end - start for start, end, *_ in sorted(run.records.graphs)]
    # forward, memset, backward, optimizer, again and again.
    work = [(it.start, it.end) for it in run.records.kernels]
    work = sorted(work + [(it.start, it.end) for it in run.records.copies if it.kind == SET])
    assert len(work) == 80
    return [sum(end - start for start, end in work[i : i + 4]) for i in range(0, 80, 4)]


@pytest.mark.parametrize("name", WITH_STEPS)
def test_a_step_of_the_pages_is_one_iteration_of_the_program(runs, name):
    run = runs(name)
    left = iter(iterations(run, name))
    shown = [step["deviceComputeTimeMs"] * 1e6 for step in run.steps().values()]
    assert len(shown) >= 10
    for number, found in enumerate(shown):
        # In order; those that tbprof calls irregular, and the first and the last, are not shown.
        assert any(abs(found - expected) <= 4 * ROUNDING_NS for expected in left), (number, found)


def test_steps_are_named_on_the_device_and_so_is_what_lies_between_them(stepped):
    events, rows = stepped.trace()
    on_line = [event for event in events if event["ph"] == "X" and rows[event["pid"], event["tid"]][1] == "Steps"]
    names = [event["name"] for event in sorted(on_line, key=lambda event: event["ts"])]
    numbers = [name for name in names if not name.startswith("outside of steps")]
    assert len(numbers) == len(set(numbers)), "a step in two pieces"
    assert len(numbers) >= len(stepped.steps())
    outside = [name for name in names if name.startswith("outside of steps")]
    assert outside == [f"outside of steps {i + 1}" for i in range(len(outside))]
    irregular = stepped.summary["steps"]["irregular"]
    assert bool(outside) == bool(irregular)


def test_memory_page_has_the_peak_and_the_size_of_the_device(run):
    page = run.page("memory_profile")["memoryProfilePerAllocator"]
    (device,) = run.records.devices.values()
    segments = page["GPU:0 cudaMalloc (segments)"]["profileSummary"]
    assert int(segments["peakBytesUsageLifetime"]) == run.records.peak_bytes()
    assert int(segments["peakStats"]["heapAllocatedBytes"]) == run.records.peak_bytes()
    assert int(segments["memoryCapacity"]) == device.memory_bytes
    tensors = run.records.tensor_peak_bytes()
    assert ("GPU:0 (torch)" in page) == (tensors > 0)
    if tensors:
        assert int(page["GPU:0 (torch)"]["profileSummary"]["peakBytesUsageLifetime"]) == tensors
        assert int(page["GPU:0 (torch)"]["profileSummary"]["peakStats"]["heapAllocatedBytes"]) == tensors


def test_trace_viewer_has_each_piece_of_work_at_its_time(run):
    events, rows = run.trace()
    on_streams = [event for event in events
                  if event["ph"] == "X" and (rows.get((event["pid"], event["tid"])) or ("", ""))[1].startswith("Stream #")]
    shown = run.shown_names()
    expected = [(it.start, it.end, shown[it.mangled], it.stream) for it in run.records.kernels]
    expected += [(it.start, it.end, COPY_NAMES[it.kind], it.stream) for it in run.records.copies
                 if it.kind != HOST_TO_HOST]
    expected += [(start, end, "CudaGraphExec", stream) for start, end, _, stream in run.records.graphs]
    found = []
    for event in on_streams:
        line = rows[event["pid"], event["tid"]][1]
        stream = int(line.removeprefix("Stream #").split("(")[0])
        found.append((event["ts"] * 1000, (event["ts"] + event["dur"]) * 1000, event["name"].split(":")[0]
                      if event["name"].startswith("CudaGraphExec") else event["name"], stream))
    assert collections.Counter((name, stream) for *_, name, stream in found) == collections.Counter(
        (name, stream) for *_, name, stream in expected)
    key = lambda work: (work[2], work[3], work[0])  # noqa: E731
    pairs = list(zip(sorted(found, key=key), sorted(expected, key=key)))
    # Since the first piece of work: the clocks of device and host differ by a number that is as good as constant.
    first, first_expected = min(one[0] for one, _ in pairs), min(other[0] for _, other in pairs)
    for one, other in pairs:
        assert one[0] - first == pytest.approx(other[0] - first_expected, abs=50)
        assert one[1] - one[0] == pytest.approx(other[1] - other[0], abs=ROUNDING_NS)


def test_arrows_lead_from_each_call_to_its_work(run):
    events, rows = run.trace()
    calls = collections.defaultdict(list)
    work = []
    for event in events:
        if event["ph"] != "X" or event.get("cat") != "gpu_launch":
            continue
        if event.get("flow_out"):
            calls[event["bind_id"]].append(event)
        elif event.get("flow_in"):
            work.append(event)
    assert len(work) == sum(len(line["events"]) for line in run.device_lines()) or not run.device_lines()
    for event in work:
        (call,) = calls[event["bind_id"]]
        # The two clocks are read together to within a fraction of a microsecond.
        assert call["ts"] <= event["ts"] + 0.5, (call, event)
        assert call["name"].startswith("cu")
    launched = {it.correlation for it in run.records.kernels} | {it[2] for it in run.records.graphs}
    launched |= {it.correlation for it in run.records.copies if it.kind != HOST_TO_HOST}
    assert len(calls) == len(launched)


def test_streams_are_named_by_number_kinds_and_the_programs_own_name(runs):
    def names(name):
        _, rows = runs(name).trace()
        return {thread for process, thread in rows.values() if "/device:GPU:0" in process and "Stream" in thread}

    assert names("train") == {"Stream #7(MemcpyH2D)", "Stream #13(Compute,MemcpyD2H,Memset)", "Stream #14(MemcpyH2D)"}
    # XLA names its streams.
    assert any(name.startswith("Stream #14(Compute") and " Compute" in name for name in names("jax_steps"))


def test_copies_from_host_to_host_are_the_hosts(runs):
    """CUPTI gives a copy of 8 bytes 0.4 ms: the time of the call, in which kernels of the same stream run."""
    run = runs("jax")
    copies = [copy for copy in run.records.copies if copy.kind == HOST_TO_HOST]
    assert len(copies) == 174 and sum(copy.end - copy.start for copy in copies) > 5 * run.records.busy_ns()
    events, rows = run.trace()
    shown = [event for event in events if event["ph"] == "X" and event["name"] == "copy from host to host"]
    assert len(shown) == len(copies)
    assert all("/host:CPU" in rows[event["pid"], event["tid"]][0] for event in shown)
    # The GPU is busy for what it did itself.
    (gpu,) = run.summary["gpus"]
    assert gpu["busy_s"] * 1e9 == pytest.approx(run.records.busy_ns(), rel=1e-3)
    (step,) = run.steps().values()
    computing = [(it.start, it.end) for it in run.records.kernels]
    computing += [(it.start, it.end) for it in run.records.copies if it.kind == SET]
    assert step["deviceComputeTimeMs"] * 1e6 == pytest.approx(union(computing), rel=1e-3)
