"""The facts of docs/xspace-mapping.md that the writer depends on, checked against the installed xprof."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import tool_data  # noqa: E402
from xspace_maker import MS, NS, Ref, Space, U  # noqa: E402


@pytest.fixture
def opened(tmp_path):
    """Writes spaces as files of one run and opens it."""
    contexts = []

    def open_run(*spaces):
        for space in spaces:
            run = space.write(tmp_path / str(len(contexts)), "run")
        contexts.append(tool_data.ToolData(run))
        return contexts[-1].__enter__()

    yield open_run
    for context in contexts:
        context.__exit__(None, None, None)


def steps_of(data):
    return tool_data.overview_steps(data.overview())


def host(name="h"):
    space = Space(name)
    plane = space.plane("/host:CPU")
    return space, plane


def simple(name="h", count=3, length=10, marker="train", stats=None):
    space, plane = host(name)
    line = plane.line(2, "main")
    for i in range(count):
        line.event(marker, i * 20 * MS, length * MS, stats or {"_r": 1, "step_num": 100 + i})
        line.event("work", i * 20 * MS + MS, MS)
    return space


def gpu_rank(name, offset=0, duration=3, space=None, device=0, base=0, level=1):
    space = space or Space(name)
    plane = next((p for p in space.planes if p.name == "/host:CPU"), None) or space.plane("/host:CPU")
    main = plane.line(100 + device, "main")
    stream = space.plane(f"/device:GPU:{device}", device).line(7, "Stream #7(Compute)")
    for i in range(4):
        at = offset + i * 12 * MS
        main.event("train", at, 10 * MS, {"_r": level, "step_num": i})
        link = {"correlation_id": U(base + i + 1)}
        main.event("cudaLaunchKernel", at + MS, MS, dict(link, device_id=device))
        stream.event("gemm", at + 3 * MS, duration * MS, dict(link, kernel_details="regs:1"))
    return space


def test_the_steps_line_gives_running_input_and_other_waits(opened):
    space, plane = host()
    steps = plane.line(1, "steps")
    main = plane.line(2, "main")
    for i in range(4):
        at = i * 12 * MS
        steps.event("train", at, 12 * MS, {"_r": 1, "step_num": 7 + i})
        steps.event("wait for input", at, 3 * MS, {"_ipl_stage_name": "DataLoader"})
        steps.event("running", at + 3 * MS, 5 * MS)
        steps.event("running", at + 10 * MS, 2 * MS)
        main.event("pthread_mutex_lock", at + 8 * MS, 2 * MS)
    steps = steps_of(opened(space))
    assert list(steps) == ["train 7", "train 8", "train 9", "train 10"]
    for step in steps.values():
        assert step["stepTimeMs"] == 12 and step["infeedTimeMs"] == 3
        assert step["hostComputeTimeMs"] == 7 and step["otherTimeMs"] == 2


# Where the input is unknown, the writer leaves no step with less than 5 % of neither.
@pytest.mark.parametrize("running, conclusion", [(100, "NOT input-bound"), (95, "POTENTIALLY input-bound"),
                                                 (0, "POTENTIALLY input-bound")])
def test_time_that_is_neither_input_nor_running_may_be_input(opened, running, conclusion):
    space, plane = host()
    steps = plane.line(1, "steps")
    for i in range(8):
        steps.event("train", i * 100 * MS, 100 * MS, {"_r": 1, "step_num": i})
        steps.event("running", i * 100 * MS, running * MS or NS)
    data = opened(space)
    for page in (data.overview(), data.input_pipeline()):
        assert conclusion in tool_data.properties(page)["input_conclusion"]


def test_a_synthetic_step_can_say_so(opened):
    space, plane = host()
    line = plane.line(1, "steps")
    line.event("step", 0, 50 * MS, {"_r": 1, "step_num": 0, "graph_type": "no steps found:"})
    line.event("running", 0, NS)
    data = opened(space)
    assert list(steps_of(data)) == ["no steps found: 0"]
    assert tool_data.diagnostics(data.overview()) == []


@pytest.mark.parametrize("child", [None, "input", "crossing"])
def test_a_step_needs_host_compute_wholly_inside(opened, child):
    space, plane = host()
    line = plane.line(1, "steps")
    line.event("train", 0, 10 * MS, {"_r": 1, "step_num": 0})
    if child == "input":
        line.event("wait", MS, MS, {"_ipl_stage_name": "x"})
    elif child == "crossing":
        line.event("work", 9 * MS, 2 * MS)
    data = opened(space)
    assert steps_of(data) == {}
    assert "No step marker" in tool_data.diagnostics(data.overview())[0][1]


def test_equal_step_names_are_merged(opened):
    assert list(steps_of(opened(simple(stats={"_r": 1, "step_num": 5})))) == ["train 5"]


def test_ranks_in_files_of_their_own(opened):
    data = opened(simple("h_r0", length=10), simple("h_r1", length=11))
    assert {step["stepTimeMs"] for step in steps_of(data).values()} == {10}
    assert len(steps_of(data)) == 3
    gpu = opened(gpu_rank("h_r0"), gpu_rank("h_r1"))
    assert list(steps_of(gpu)) == ["0", "1", "2", "3"]


def test_gpu_ranks_in_one_file_break_the_steps(opened):
    space = gpu_rank("h")
    gpu_rank("h", 3 * MS, 4, space, device=1, base=50)
    assert len(steps_of(opened(space))) != 4


def test_a_file_without_steps_empties_the_run(opened):
    helper, plane = host("h_helper")
    plane.line(1, "x").event("read", 0, MS)
    assert steps_of(opened(helper, simple("h_r0"))) == {}


def test_an_idle_gpu_plane_hides_host_steps(opened):
    space = simple()
    space.plane("/device:GPU:0", 0).line(7, "Stream #7(Compute)")
    assert steps_of(opened(space)) == {}


def test_helper_planes_are_drawn_and_not_counted(opened):
    space = simple()
    line = space.plane("/host:CPU loader 00 pid 9").line(1, "main")
    line.event("decode", 0, MS, {"_ipl_stage_id": 1 << 31, "_ipl_stage_name": "d", "_ipl_stage_cat": "read"})
    data = opened(space)
    _, rows = data.trace_events()
    assert [row[0] for row in rows.values()] == ["h /host:CPU", "h /host:CPU loader 00 pid 9"]
    assert "decode" not in str(data.input_pipeline())


def test_input_stage_ids_share_the_numbers_of_event_names(opened):
    def shown(stage):
        space, plane = host()
        line = plane.line(1, "main")
        line.event("work", 0, 9 * MS)  # metadata id 1
        stats = {"_ipl_stage_id": stage, "_ipl_stage_name": "s", "_ipl_stage_cat": "read"}
        line.event("read", MS, 5 * MS, stats)
        for table in opened(space).input_pipeline():
            if table.get("cols") and table["cols"][0]["id"] == "opName":
                return [cell["v"] for cell in table["rows"][0]["c"]][:2]

    assert shown(1 << 31) == ["read", 1]
    assert shown(1) == ["read", 2]


def test_flow_by_hand_leaves_the_grouping_alone(opened):
    space = simple(count=1)
    plane = space.planes[0]
    plane.lines[0].event("pthread_create", 3 * MS, MS, {"flow": U(77 << 2 | 2)})
    other = space.plane("/host:CPU helper").line(1, "main")
    other.event("thread start", 5 * MS, 4 * MS, {"flow": U(77 << 2 | 1)})
    events, _ = opened(space).trace_events()
    arrows = {e["name"]: e for e in events if "bind_id" in e}
    assert arrows["pthread_create"]["flow_out"] and arrows["thread start"]["flow_in"]
    assert arrows["pthread_create"]["bind_id"] == arrows["thread start"]["bind_id"]
    assert "group_id" not in arrows["thread start"]["args"]


def test_memory_outside_steps_lists_every_live_allocation(opened):
    space = simple()
    line = space.planes[0].line(3, "memory")
    live = 0
    for i in range(9):
        live += 1000
        stats = {"allocator_name": "heap", "bytes_allocated": live, "allocation_bytes": 1000}
        stats.update(requested_bytes=1000, addr=i, peak_bytes_in_use=live, tf_op=Ref(f"site{i}"))
        line.event("MemoryAllocation", i * 6 * MS, 0, stats)
    heap = opened(space).memory_profile()["memoryProfilePerAllocator"]["heap"]
    assert len(heap["activeAllocations"]) == 9 and heap["specialAllocations"] == []
    assert heap["profileSummary"]["peakBytesUsageLifetime"] == "9000"


def test_counters_of_several_processes(opened):
    space = simple()
    space.planes[0].line(9, "_counters_").event("heap live bytes", 0, 0, {"bytes": 5})
    other = space.plane("/host:CPU helper")
    other.line(9, "_counters_").event("heap live bytes", MS, 0, {"bytes": 7})
    counters = [e for e in opened(space).trace_events()[0] if e["ph"] == "C"]
    assert [c["entries"] for c in counters] == [[[0, 5]], [[1000, 7]]]


def test_errors_and_warnings_are_shown(opened):
    space = simple()
    space.errors.append("an error")
    space.warnings.append("a warning")
    shown = tool_data.diagnostics(opened(space).overview())
    assert sorted(shown) == [("ERROR", "an error"), ("WARNING", "a warning")]


def test_invalid_utf8_is_refused_as_a_whole(opened):
    space, plane = host()
    plane.line(1, "x").event("bad \udcff", 0, MS)
    with pytest.raises(RuntimeError):
        opened(space).overview()


def test_every_event_comes_back_at_high_resolution(opened):
    space, plane = host()
    line = plane.line(1, "x")
    for i in range(20000):
        line.event("lock", i * 10 * NS, 5 * NS)
    assert len(opened(space).trace_events()[0]) == 20000


def test_operations_add_up_where_only_the_outermost_has_tf_op(opened):
    space, plane = host()
    line = plane.line(2, "main")
    for i in range(3):
        line.event("aten::linear", i * 10 * MS, 5 * MS, {"tf_op": Ref("forward/aten/linear:linear")})
        line.event("aten::addmm", i * 10 * MS + MS, 3 * MS)
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        line.event(node, i * 10 * MS + 5 * MS, 4 * MS, {"tf_op": Ref("backward/AddmmBackward0:AddmmBackward0")})
        line.event("AddmmBackward0", i * 10 * MS + 6 * MS, 2 * MS)
    rows = tool_data.op_rows(opened(space))
    assert {key[1]: row["total_self_time"] for key, row in rows.items()} == {
        "forward/aten/linear": 15000,
        "backward/AddmmBackward0": 12000,
    }


def test_a_name_with_a_colon_is_an_operation_of_its_left_side(opened):
    """Unless there is a blank behind the colon; the viewer shows the display name."""
    space, plane = host()
    line = plane.line(2, "main")
    line.event("gloo:all_reduce", 0, MS, {"tf_op": Ref("gloo/all_reduce:all_reduce")})
    line.event("gloo:broadcast", 2 * MS, MS)
    for i, name in enumerate(("all_gather", "all_gather", "gather")):
        tf_op = Ref(f"nccl/{name}:{name}")
        line.event(f"nccl: {name}", (4 + i) * MS, MS, {"tf_op": tf_op}, display_name=f"nccl:{name}")
    data = opened(space)
    rows = {key[1]: row["occurrences"] for key, row in tool_data.op_rows(data).items()}
    assert rows == {"gloo": 2, "nccl/all_gather": 2, "nccl/gather": 1}
    assert {event["name"] for event in data.trace_events("h")[0]} >= {"nccl:all_gather", "nccl:gather"}


def test_a_line_of_python_samples_changes_no_step_and_no_operation(opened):
    space, plane = host()
    steps = plane.line(1, "steps")
    for i in range(3):
        steps.event("step", i * 10 * MS, 10 * MS, {"_r": 1, "step_num": i, "graph_type": "steps:"})
        steps.event("running", i * 10 * MS, 4 * MS)
    plane.line(2, "python/7").event("aten::mm", MS, MS, {"tf_op": Ref("aten/mm:mm")})
    line = plane.line(3, "python: python/7 (sampled)")
    shown = ["train_step (train.py:50)", "test_epoch (train.py:9)", "TraceContext (x.py:1)", "ForOp (x.py:2)"]
    for i, name in enumerate(shown):
        hides = name.startswith("t")
        line.event(("def " if hides else "") + name, i * MS, (30 - 2 * i) * MS, {"samples": 3, "line": 51},
                   display_name=name if hides else "")
    data = opened(space)
    found = steps_of(data)
    assert list(found) == ["steps: 0", "steps: 1", "steps: 2"]
    assert all(step["stepTimeMs"] == 10 and step["hostComputeTimeMs"] == 4 for step in found.values())
    assert {key[1] for key in tool_data.op_rows(data) if key[0] == "Host"} <= {"aten/mm", "IDLE"}
    assert {event["name"] for event in data.trace_events("h")[0]} >= set(shown)


def test_copies_with_tf_op_have_rows_and_stay_input(opened):
    space, plane = host()
    main = plane.line(2, "main")
    stream = space.plane("/device:GPU:0", 0).line(7, "Stream #7(Compute)")
    for i in range(3):
        at = i * 10 * MS
        main.event("train", at, 9 * MS, {"_r": 1, "step_num": i})
        for j, (name, details) in enumerate((("MemcpyHToD", "memcpy_details"), ("gemm", "kernel_details"))):
            call = U(2 * i + j + 1)
            main.event("call", at + (j + 1) * MS, MS, {"correlation_id": call})
            stats = {"correlation_id": call, "tf_op": Ref(f"a/{name}:op"), details: "num_bytes:1"}
            stream.event(name, at + (2 + j) * MS, MS, stats)
    data = opened(space)
    assert {key[1] for key in tool_data.op_rows(data) if key[0] == "Device"} == {"a/MemcpyHToD", "a/gemm"}
    assert all(step["infeedTimeMs"] == pytest.approx(1) for step in steps_of(data).values())


def outside_of_steps(space, spans, separate):
    """After the work of each of four steps, 2 ms of work that was launched between the steps."""
    (host_plane, gpu_plane) = space.planes
    main, stream = host_plane.lines[0], gpu_plane.lines[0]
    line = gpu_plane.line(1999999, "outside of steps")
    for i in range(4):
        at = i * 12 * MS
        if not separate:
            link = {"correlation_id": U(100 + i)}
            main.event("cudaLaunchKernel", at + 10 * MS + NS, MS, link)
            stream.event("eval", at + 8 * MS, 2 * MS, dict(link, kernel_details="regs:1"))
            continue
        flow = 9 << 58 | (1 << 31 | 100 + i) << 2
        main.event("cudaLaunchKernel", at + 10 * MS + NS, MS, {"flow": U(flow | 2)})
        stream.event("eval", at + 8 * MS, 2 * MS, {"flow": U(flow | 1), "kernel_details": "regs:1"})
        if spans:
            line.event("outside of steps", at + 8 * MS - 1, 2 * MS + 1, {"_r": 1, "step_num": i + 1})
    return space


def test_work_outside_of_steps_counts_for_the_step_before_it(opened):
    steps = steps_of(opened(outside_of_steps(gpu_rank("h"), spans=False, separate=False))).values()
    assert [step["deviceComputeTimeMs"] for step in steps] == [5] * 4
    assert [step["stepTimeMs"] for step in steps] == [7] * 4


def test_an_arrow_instead_of_a_number_is_not_counted_but_lengthens_the_step(opened):
    steps = steps_of(opened(outside_of_steps(gpu_rank("h"), spans=False, separate=True))).values()
    assert [step["deviceComputeTimeMs"] for step in steps] == [3] * 4
    assert [step["stepTimeMs"] for step in steps] == [7] * 4


def test_a_root_of_a_lower_level_on_the_device_ends_the_step_before_it(opened):
    data = opened(outside_of_steps(gpu_rank("h", level=2), spans=True, separate=True))
    steps = steps_of(data)
    assert list(steps) == ["0", "1", "2", "3"]
    assert all(step["deviceComputeTimeMs"] == 3 and step["stepTimeMs"] == 3 for step in steps.values())
    events, _ = data.trace_events("h")
    out = {event["bind_id"]: event for event in events if event.get("flow_out")}
    evals = [event for event in events if event["name"] == "eval"]
    assert len(evals) == 4 and all(out[event["bind_id"]]["name"] == "cudaLaunchKernel" for event in evals)
    assert {event["cat"] for event in evals} == {"gpu_launch"}


def test_a_sample_of_memory_lengthens_the_step_before_it(opened):
    space = gpu_rank("h")
    space.planes[1].line(2000000, "_counters_").event("GPU memory in use", 8 * MS, 0, {"bytes": 1.0})
    assert [step["stepTimeMs"] for step in steps_of(opened(space)).values()] == [5, 3, 3, 3]


def test_shape_makes_a_kernel_one_of_16_bits(opened):
    space = gpu_rank("h")
    stream = space.planes[1].lines[0]
    for i in range(4):
        at = i * 12 * MS + 3 * MS
        stats = {"correlation_id": U(i + 1), "kernel_details": "regs:1", "shape": Ref("bf16 (half precision)")}
        stream.event("gemm_bf16", at + 3 * MS, MS, stats)
    shown = tool_data.properties(opened(space).overview())
    assert shown["device_compute_16bit_percent"] == "25.0%" and shown["device_compute_32bit_percent"] == "75.0%"


def test_kernels_of_one_operation_count_as_one(opened):
    """The occurrences of an operation are not the sum of those of its kernels."""
    space = gpu_rank("h")
    stream = space.planes[1].lines[0]
    for i in range(6):
        name = f"kernel<{i // 2}>"
        stream.event(name, (60 + i) * MS, MS, {"correlation_id": U(50), "kernel_details": "regs:1", "tf_op": Ref("k:Kernel")})
    row = tool_data.op_rows(opened(space))["Device", "k"]
    assert row["occurrences"] == 2 and row["total_self_time"] == 6000


def test_a_row_says_how_many_lines_it_has(opened):
    """The viewer folds a row of more than 20 (_collapseBigProcessTracks)."""
    space, plane = host()
    for i in range(21):
        plane.line(1 + i, f"thread {i}").event("work", i * MS, MS)
    space.plane("/host:CPU + 1 thread").line(30, "other").event("work", 0, MS)
    rows = [event for event in opened(space).trace("h")["traceEvents"] if event and event["name"] == "process_name"]
    assert sorted(row["thread_count"] for row in rows if "host" in row["args"]["name"]) == [1, 21]
