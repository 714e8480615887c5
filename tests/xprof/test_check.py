"""`tbprof check --json` against what the installed xprof plugin and TensorBoard really list."""

import json
import os
import struct
import subprocess
import sys
import time
import types

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")

import screenshot  # noqa: E402
import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from places import TBPROF  # noqa: E402
from tensorboard.compat.proto import event_pb2, summary_pb2  # noqa: E402
from tensorboard.summary.writer.record_writer import masked_crc32c  # noqa: E402
from xprof import profile_plugin  # noqa: E402


def check(logdir):
    result = subprocess.run([TBPROF, "check", "--json", str(logdir)], capture_output=True, text=True, timeout=60)
    assert result.stderr == "", result.stderr
    report = json.loads(result.stdout)
    assert result.returncode == report["exit_status"]
    return report


def ids(report):
    return {finding["id"] for finding in report["findings"]}


def plugin(logdir):
    flags = types.SimpleNamespace(master_tpu_unsecure_channel="")
    return profile_plugin.ProfilePlugin(types.SimpleNamespace(logdir=str(logdir), data_provider=None, flags=flags))


def listed_by_xprof(logdir):
    """{run: (hosts, tools)}"""
    xprof = plugin(logdir)
    with tool_data.NativeLog():
        return {run: ([host["hostname"] for host in xprof.host_impl(run, "memory_profile")],
                      sorted(xprof.run_tools_imp(run))) for run in xprof.runs_imp()}


def listed_by_check(logdir):
    return {run["name"]: (run["hosts"], run["tools"]) for run in check(logdir)["profile"]["runs"]}


def space(*planes, stat=None, event="step"):
    made = xspace_maker.Space("h")
    for name in planes or ("/host:CPU",):
        plane = made.plane(name)
        plane.line(1, "thread").event(event, 0, xspace_maker.MS, {stat: 1} if stat else {"_r": 1, "step_num": 1})
    return made.encode()


def put(path, content=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def both_agree(logdir):
    """Without the plugin's caches, and with them."""
    ours = listed_by_check(logdir)
    theirs = listed_by_xprof(logdir)
    assert ours == theirs
    assert listed_by_check(logdir) == theirs
    return theirs


def test_places(tmp_path):
    profile = space()
    for place in (".", "sub", "a/b/c", ".hidden", "with space", "plugins/profile/r/inner"):
        put(tmp_path / place / "plugins" / "profile" / "run" / "h.xplane.pb", profile)
    put(tmp_path / "plugins" / "profile" / ".dot" / "h.xplane.pb", profile)
    (tmp_path / "plugins" / "profile" / "empty").mkdir()
    put(tmp_path / "plugins" / "profile" / "no_run.txt")
    put(tmp_path / "plugins" / "profile" / "h.xplane.pb", profile)
    put(tmp_path / "plugin" / "profile" / "run" / "h.xplane.pb", profile)
    put(tmp_path / "x" / "plugins" / "profiles" / "run" / "h.xplane.pb", profile)
    put(tmp_path / "y" / "Plugins" / "Profile" / "run" / "h.xplane.pb", profile)
    put(tmp_path / "z" / "profile" / "run" / "h.xplane.pb", profile)
    runs = both_agree(tmp_path)
    assert len(runs) == 9
    report = check(tmp_path)
    misspelt = {finding["where"] for finding in report["findings"] if finding["id"] == "profile-misspelt"}
    assert misspelt == {"plugin/profile", "x/plugins/profiles", "y/Plugins/Profile"}
    misplaced = {finding["where"] for finding in report["findings"] if finding["id"] == "profile-misplaced"}
    assert misplaced == {"plugins/profile", "z/profile/run"}


def test_the_fixes_fix(tmp_path):
    for name, place in enumerate(("plugin/profile/run", "plugins/profiles/run", "profile/run", "plugins/run", ".",
                                  "plugins/profile", "plugins/profile/run/sub", "Plugins/Profile/run")):
        logdir = tmp_path / str(name)
        put(logdir / place / "h.xplane.pb", space())
        before = check(logdir)
        assert before["exit_status"] == 2, place
        # One directory too deep shows as a run without a profile as well.
        finding = [f for f in before["findings"] if f["id"] in ("profile-misspelt", "profile-misplaced")][0]
        subprocess.run(["sh", "-c", finding["command"]], check=True)
        assert check(logdir)["exit_status"] == 0, (place, check(logdir)["findings"])
        assert [hosts for hosts, _ in listed_by_xprof(logdir).values()] == [["h"]], place


def test_links(tmp_path):
    outside = tmp_path / "outside"
    put(outside / "plugins" / "profile" / "run" / "h.xplane.pb", space())
    logdir = tmp_path / "logs"
    (logdir / "plugins" / "profile").mkdir(parents=True)
    (logdir / "plugins" / "profile" / "linked").symlink_to(outside / "plugins" / "profile" / "run")
    (logdir / "plugins" / "profile" / "dangling").symlink_to("/nonexistent")
    (logdir / "whole").symlink_to(outside)
    (logdir / "half" / "plugins").mkdir(parents=True)
    (logdir / "half" / "plugins" / "profile").symlink_to(outside / "plugins" / "profile")
    (logdir / "other").mkdir()
    (logdir / "other" / "plugins").symlink_to(outside / "plugins")
    (logdir / "loop").symlink_to(logdir)
    assert set(both_agree(logdir)) == {"linked", "half/run"}
    # All of it is shown by another way, but in a logdir with nothing else it is lost.
    alone = tmp_path / "alone"
    (alone / "x").mkdir(parents=True)
    (alone / "x" / "whole").symlink_to(outside)
    assert both_agree(alone) == {}
    assert "profile-behind-link" in ids(check(alone))
    # The root's own is listed in another way than those below it.
    root = tmp_path / "root"
    root.mkdir()
    (root / "plugins").symlink_to(outside / "plugins")
    assert set(both_agree(root)) == {"run"}


def test_wrong_levels(tmp_path):
    put(tmp_path / "logs" / "plugins" / "profile" / "run" / "h.xplane.pb", space())
    for level in ("logs/plugins/profile", "logs/plugins/profile/run"):
        assert both_agree(tmp_path / level) == {}
        assert "logdir-too-deep" in ids(check(tmp_path / level))
    with pytest.raises(ValueError):
        plugin(tmp_path / "logs" / "plugins").runs_imp()
    report = check(tmp_path / "logs" / "plugins")
    assert report["profile"] == {"active": False, "plugin_fails": True, "runs": []}
    for level in ("logs/plugins", "logs/plugins/profile", "logs/plugins/profile/run"):
        command = [f["command"] for f in check(tmp_path / level)["findings"] if f["id"] == "logdir-too-deep"]
        assert command == [f"tensorboard --logdir {tmp_path}/logs"]
    assert set(both_agree(tmp_path)) == {"logs/run"}
    assert ids(check(tmp_path)) == {"logdir-too-high", "old-plugins"}


def test_brackets_in_the_path(tmp_path):
    for number, name in enumerate(("trial[1]", "x[[]", "a[!b]", "a[", "a]", "a[]", "a{b,c}", "a*", "a?", "~a")):
        logdir = tmp_path / str(number) / name
        put(logdir / "sub" / "plugins" / "profile" / "run" / "h.xplane.pb", space())
        put(logdir / "plugins" / "profile" / "own" / "h.xplane.pb", space())
        both_agree(logdir)
        assert ("path-pattern" in ids(check(logdir))) == (number < 3), name
        inside = tmp_path / f"inside{number}"
        put(inside / name / "plugins" / "profile" / "run" / "h.xplane.pb", space())
        put(inside / "plugins" / "profile" / name / "h.xplane.pb", space())
        assert set(both_agree(inside)) == {f"{name}/run", name}
        for finding in check(inside)["findings"]:
            if finding["id"] == "path-pattern":
                subprocess.run(["sh", "-c", finding["command"]], check=True)
        assert [hosts for hosts, _ in both_agree(inside).values()] == [["h"], ["h"]], name


def test_hosts(tmp_path):
    profile = space()
    for run, names in {
        "plain": ["h.xplane.pb"], "dots": ["node1.example.com.xplane.pb"], "two": ["b.xplane.pb", "a.xplane.pb"],
        "bare": ["xplane.pb"], "nothing": [".xplane.pb"], "capital": ["H.XPLANE.PB"], "colon": ["a:b.xplane.pb"],
        "comma": ["a,b.xplane.pb"], "reserved": ["ALL_HOSTS.xplane.pb"], "temporary": ["h.xplane.pb.tmp"],
        "packed": ["h.xplane.pb.gz"], "old": ["h.trace.json.gz"], "hlo": ["module.hlo_proto.pb"],
        "newline": ["a\nb.xplane.pb"], "blank": [" .xplane.pb"], "dot": [".h.xplane.pb"],
        "dots_alone": ["..xplane.pb"], "dot_beside": [".h.xplane.pb", "h.xplane.pb"],
    }.items():
        for name in names:
            put(tmp_path / "plugins" / "profile" / run / name, profile)
    runs = both_agree(tmp_path)
    assert runs["two"][0] == ["a", "b"] and runs["bare"][0] == [] and runs["capital"] == ([], [])


def test_tools(tmp_path):
    made = {
        "host": space(), "gpu": space("/host:CPU", "/device:GPU:0"), "tpu": space("/device:TPU:0"),
        "counters": space("/device:TPU:0", stat="counter_value"), "hlo": space("/host:metadata", stat="Hlo Proto"),
        "elsewhere": space("/host:CPU", stat="Hlo Proto"), "megascale": space(event="MegaScale: x"),
        "empty": b"", "cut": space()[:-5], "garbage": b"\xff" * 100, "text": b"hello, world\n",
        "no_planes": xspace_maker.Space("h").encode(),
    }
    for run, content in made.items():
        put(tmp_path / "plugins" / "profile" / run / "h.xplane.pb", content)
    (tmp_path / "plugins" / "profile" / "directory" / "h.xplane.pb").mkdir(parents=True)
    report = check(tmp_path)
    runs = both_agree(tmp_path)
    assert runs["cut"][1] == runs["garbage"][1] == runs["text"][1] == []
    assert "kernel_stats" in runs["gpu"][1] and "graph_viewer" in runs["hlo"][1]
    assert "graph_viewer" not in runs["elsewhere"][1] and "perf_counters" in runs["counters"][1]
    where = {finding["where"].split("/")[2]: finding["id"] for finding in report["findings"]
             if finding["level"] == "fail"}
    assert where == {"empty": "profile-empty", "cut": "profile-truncated", "garbage": "profile-unparsable",
                     "text": "profile-unparsable", "directory": "profile-unreadable"}


def test_steps_are_those_of_the_overview(tmp_path):
    """`run-no-steps` exactly where the converter says that no step was marked."""
    ms = xspace_maker.MS

    def host(made, name, stats):
        line = made.plane("/host:CPU").line(1, "thread")
        for step in range(5):
            line.event(name, step * 10 * ms, 9 * ms, stats and dict(stats))
            line.event("inner", step * 10 * ms + ms, ms, {"group_id": step} if "group_id" in (stats or {}) else None)

    def gpu(made, stats):
        line, stream = made.plane("/host:CPU").line(1, "thread"), made.plane("/device:GPU:0").line(2, "Stream #2")
        for step in range(5):
            line.event("work", step * 10 * ms, 9 * ms, stats)
            line.event("launch", step * 10 * ms + ms, ms, {"correlation_id": xspace_maker.U(step + 1)})
            stream.event("kernel", step * 10 * ms + 2 * ms, 3 * ms,
                         {"correlation_id": xspace_maker.U(step + 1), "kernel_details": "regs:1 grid:1,1,1 block:1,1,1"})

    cases = {
        "plain": (host, "work", None), "train": (host, "train", None), "root": (host, "work", {"_r": 1}),
        "numbered": (host, "train", {"_r": 1, "step_num": 1}), "context": (host, "TraceContext", None),
        "function": (host, "FunctionRun", {"_r": 1}), "level_0": (host, "work", {"_r": 0}),
        "torch": (host, "ProfilerStep#3", None), "grouped": (host, "work", {"group_id": 1}),
        "named": (host, "work", {"group_id": 1, "step_name": "s 1"}), "gpu": (gpu, None), "gpu_root": (gpu, {"_r": 1}),
    }
    without = set()
    for name, (make, *arguments) in cases.items():
        made = xspace_maker.Space("h")
        make(made, *arguments)
        run = tmp_path / "plugins" / "profile" / name
        put(run / "h.xplane.pb", made.encode())
        with tool_data.ToolData(str(run)) as data:
            text = data.raw("overview_page")
        if "No step marker observed" in (text if isinstance(text, str) else text.decode("utf-8", "replace")):
            without.add(name)
    assert {"plain", "gpu"} <= without and not {"root", "level_0", "context", "gpu_root"} & without
    found = {finding["where"].split("/")[-1] for finding in check(tmp_path)["findings"] if finding["id"] == "run-no-steps"}
    assert found == without


def test_the_first_file_decides_the_tools(tmp_path):
    for number in range(8):
        directory = tmp_path / "plugins" / "profile" / f"run{number}"
        put(directory / f"{number * 7919 % 13}.xplane.pb", space())
        put(directory / f"{number * 104729 % 17}x.xplane.pb", space("/device:GPU:0"))
    both_agree(tmp_path)


def test_one_broken_file_hides_the_tools(tmp_path):
    """Wherever it is in the directory's order, and whether it is a host or not."""
    for number in range(4):
        for kind, content in {"cut": space()[:-5], "mac": b"\0\5\x16\7\0\2\0\0Mac OS X", "empty": b""}.items():
            for name in ("a", "z", "._m", ".z"):
                run = tmp_path / "plugins" / "profile" / f"{kind}{number}{name}"
                put(run / f"{number * 7919 % 13}m.xplane.pb", space())
                put(run / f"{name}.xplane.pb", content)
    runs = both_agree(tmp_path)
    assert all(bool(tools) == run.startswith("empty") for run, (_, tools) in runs.items())


def test_a_broken_file_in_a_marked_run(tmp_path):
    """NO_MODULE.hlo_proto.pb, which a view of the run leaves: the first file decides, and pages of all hosts fail."""
    for number in range(12):
        run = tmp_path / "plugins" / "profile" / f"r{number}"
        put(run / "m.xplane.pb", space())
        put(run / f"{number * 7919 % 13}.xplane.pb", space()[:-5])
        os.utime(run / f"{number * 7919 % 13}.xplane.pb", (1.7e9, 1.7e9))
        put(run / "NO_MODULE.hlo_proto.pb")
    runs = both_agree(tmp_path)
    listed = {run for run, (_, tools) in runs.items() if tools}
    assert listed
    report = check(tmp_path)
    named = {f["where"].split("/")[-1]: f["id"] for f in report["findings"] if f["id"].startswith("run-")}
    assert named == {run: "run-pages-fail" if run in listed else "run-no-tools" for run in runs}
    for finding in report["findings"]:
        if finding["command"]:
            subprocess.run(["sh", "-c", finding["command"]], check=True)
    after = both_agree(tmp_path)
    assert {run for run, (_, tools) in after.items() if tools} == set(runs), after


def test_nuls_hide_the_tools_where_they_are_no_data(tmp_path):
    made = xspace_maker.Space("h")
    line = made.plane("/host:CPU").line(1, "thread")
    for step in range(2000):
        line.event("step", step * xspace_maker.MS, xspace_maker.MS // 2, {"_r": 1, "step_num": step})
    whole = made.encode()
    hole = whole[:8192] + b"\0" * 8192 + whole[16384:]
    assert len(hole) == len(whole) > 32768
    data = whole + xspace_maker.field(1, xspace_maker.field(2, "/x") + xspace_maker.field(
        6, xspace_maker.field(1, 1) + xspace_maker.field(6, b"\0" * 20000)))
    for run, content in {"whole": whole, "hole": hole, "data": data, "tail": whole + b"\0" * 5000,
                         "text": whole.replace(b"\n", b"\r\n")}.items():
        put(tmp_path / "plugins" / "profile" / run / "h.xplane.pb", content)
        os.utime(tmp_path / "plugins" / "profile" / run / "h.xplane.pb", (1.7e9, 1.7e9))
    report = check(tmp_path)
    runs = both_agree(tmp_path)
    assert {run for run, (_, tools) in runs.items() if tools} == {"whole", "data"}
    damaged = {finding["where"].split("/")[2] for finding in report["findings"] if finding["id"] == "profile-damaged"}
    assert damaged == {"hole", "tail", "text"}


def test_names_that_are_no_utf8(tmp_path):
    """Of a host: no tool of its run. Of a run: none of it. Of a directory above: xprof fails."""
    put(tmp_path / "plugins" / "profile" / "good" / "h.xplane.pb", space())
    for number, name in enumerate((b"plugins/profile/host/\xe9.xplane.pb", b"plugins/profile/r\xe9/h.xplane.pb",
                                   b"e\xe9/plugins/profile/r/h.xplane.pb", b"f\xe9/plugins/profile/readme")):
        path = tmp_path / os.fsdecode(name)
        put(path, b"" if b"readme" in name else space())
        if b"host" in name:
            put(path.with_name("h.xplane.pb"), space())
        report = check(tmp_path)
        assert report["profile"]["plugin_fails"] == (number > 1)
        if number > 1:
            with pytest.raises(UnicodeEncodeError):
                plugin(tmp_path).runs_imp()
            assert report["profile"]["runs"] == []
        else:
            xprof = plugin(tmp_path)
            run = "host" if b"host" in name else os.fsdecode(b"r\xe9")
            assert run in xprof.runs_imp()
            with pytest.raises(UnicodeEncodeError):
                xprof.run_tools_imp(run)
            tools = {run["name"]: run["tools"] for run in report["profile"]["runs"]}
            assert tools.pop("good") and len(tools) == number + 1
            assert tools[run.replace("\udce9", r"\xe9")] == []
        commands = [f["command"] for f in report["findings"] if f["level"] == "fail"]
        assert len(commands) == 1, report["findings"]
        subprocess.run(["sh", "-c", commands[0]], check=True)
        assert all(tools for _, tools in both_agree(tmp_path).values())


def test_a_cache_is_believed(tmp_path):
    path = tmp_path / "plugins" / "profile" / "run" / "h.xplane.pb"
    put(path, space())
    state = f"{int(path.stat().st_mtime)}-{path.stat().st_size}"
    cache = path.parent / ".cached_tools.json"
    cache.write_text(json.dumps({"version": 1, "files": {"h.xplane.pb": state}, "tools": []}))
    assert both_agree(tmp_path) == {"run": (["h"], [])}
    report = check(tmp_path)
    assert "cache-empty" in ids(report)
    command = [finding["command"] for finding in report["findings"] if finding["id"] == "cache-empty"][0]
    subprocess.run(["sh", "-c", command], check=True)
    assert "overview_page" in both_agree(tmp_path)["run"][1]
    for wrong in ('{"version": 2, "files": {"h.xplane.pb": "%s"}, "tools": []}' % state, "{", "[]",
                  '{"version": 1, "files": {"h.xplane.pb": "1-1"}, "tools": []}'):
        cache.write_text(wrong)
        if wrong == "[]":  # the plugin itself fails at it
            continue
        assert "overview_page" in listed_by_check(tmp_path)["run"][1], wrong


# ---- events files


def record(data):
    length = struct.pack("<Q", len(data))
    return (length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data)))


def version(wall=1000.0):
    return record(event_pb2.Event(wall_time=wall, file_version="brain.Event:2").SerializeToString())


def scalar(tag, step, value=1.0, wall=1000.0):
    summary = summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=value)])
    return record(event_pb2.Event(wall_time=wall, step=step, summary=summary).SerializeToString())


def scalars_of_tensorboard(logdir, fast, seconds=60):
    """({run}, {(run, tag): [step]})"""
    port = screenshot.free_port()
    command = [os.path.join(os.path.dirname(sys.executable), "tensorboard"), "--logdir", str(logdir), "--port",
               str(port), "--host", "127.0.0.1", f"--load_fast={'true' if fast else 'false'}", "--reload_interval=1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    base = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + seconds
        last = None
        while time.monotonic() < deadline:
            try:
                runs = set(screenshot.get(base, "/data/runs", 5))
                points = {}
                for run, tags in screenshot.get(base, "/data/plugin/scalars/tags").items():
                    for tag in tags:
                        values = screenshot.get(base, "/data/plugin/scalars/scalars", run=run, tag=tag)
                        points[run, tag] = [step for _, step, _ in values]
            except (OSError, ValueError):
                time.sleep(0.2)
                continue
            # It loads in the background: what is seen twice, a reload apart, is all of it.
            if runs and (runs, points) == last:
                return runs, points
            last = (runs, points)
            time.sleep(1.5)
        raise RuntimeError("TensorBoard does not answer")
    finally:
        screenshot.stop(process)


@pytest.fixture(scope="module")
def scalars(tmp_path_factory):
    logdir = tmp_path_factory.mktemp("scalars")
    good = version() + b"".join(scalar("loss", step, wall=1000.0 + step) for step in range(10))
    corrupt = bytearray(good)
    corrupt[len(good) // 2] ^= 0x55
    name = "events.out.tfevents.1000.host.1.0"
    put(logdir / name, good)
    put(logdir / "only_header" / name, version())
    put(logdir / "empty" / name, b"")
    put(logdir / "marker" / "events.out.tfevents.1000.host.profile-empty", version())
    put(logdir / "one_step" / name, version() + b"".join(scalar("loss", 0, wall=1000.0 + i) for i in range(5)))
    put(logdir / "back" / name, good + b"".join(scalar("loss", step, wall=2000.0 + step) for step in range(3)))
    put(logdir / "corrupt" / name, bytes(corrupt))
    put(logdir / "cut" / name, good[:-7])
    put(logdir / "nested" / "deep" / name, good)
    put(logdir / "odd" / "my_tfevents_copy", good)
    put(logdir / "two" / name, good)
    put(logdir / "two" / "events.out.tfevents.1001.host.2.0", good)
    put(logdir / "not_events" / "events.out.txt", good)
    return logdir


def test_events_runs_are_those_of_tensorboard(scalars):
    report = check(scalars)
    ours = {run["name"] for run in report["events"]["runs"] if run["listed"]}
    runs, points = scalars_of_tensorboard(scalars, fast=True)
    assert ours == runs
    with_values = {run["name"] for run in report["events"]["runs"] if run["values"]}
    assert with_values == {run for run, _ in points}


def test_the_slower_loader_lists_them_too(scalars):
    runs, _ = scalars_of_tensorboard(scalars, fast=False)
    ours = {run["name"] for run in check(scalars)["events"]["runs"]}
    assert ours == runs


def test_a_directory_named_as_an_events_file_stops_the_slower_loader(tmp_path):
    content = version() + b"".join(scalar("loss", step, wall=1000.0 + step) for step in range(10))
    put(tmp_path / "a" / "my_tfevents" / "events.out.tfevents.1000.host.1.0", content)
    finding = [f for f in check(tmp_path)["findings"] if f["id"] == "events-directory"][0]
    assert scalars_of_tensorboard(tmp_path, fast=True)[0] == {"a/my_tfevents"}
    with pytest.raises(RuntimeError):
        scalars_of_tensorboard(tmp_path, fast=False, seconds=8)
    subprocess.run(["sh", "-c", finding["command"]], check=True)
    assert scalars_of_tensorboard(tmp_path, fast=False)[0] == {"a/my_tf_events"}
    assert "events-directory" not in ids(check(tmp_path))


def test_events_findings_are_true(scalars):
    _, points = scalars_of_tensorboard(scalars, fast=True)
    report = check(scalars)
    found = {(finding["id"], finding["where"].split("/")[0]) for finding in report["findings"]}
    values = {run["name"]: run["values"] for run in report["events"]["runs"]}
    assert points["one_step", "loss"] == [0] and ("events-one-step", "one_step") in found
    assert points["back", "loss"] == [0, 1, 2] and ("events-steps-back", "back") in found
    assert len(points["corrupt", "loss"]) == values["corrupt"] < 10 and ("events-corrupt", "corrupt") in found
    assert len(points["cut", "loss"]) == values["cut"] == 9 and ("events-truncated", "cut") in found
    assert points["two", "loss"] != list(range(10)) + list(range(10))
    assert ("events-several-writers", "two") in found
    assert ("events-empty", "only_header") in found and ("events-empty", "empty") in found
    assert ("events-misnamed", "not_events") in found
    assert not any(where in ("marker", "nested", "odd") for _, where in found), found


def test_torch_writes_nothing_suspicious(tmp_path):
    torch = pytest.importorskip("torch")
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    writer = tensorboard.SummaryWriter(str(tmp_path))
    for step in range(100):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_histogram("weights", torch.arange(step + 2.0), step)
    writer.add_text("note", "text", 0)
    writer.close()
    report = check(tmp_path)
    assert ids(report) == {"no-profile", "events-live"}
    assert report["events"]["runs"][0]["highest_step"] == 99 and report["events"]["runs"][0]["values"] == 201


def test_tbprof_s_own_logdir_passes(tmp_path):
    subprocess.run([TBPROF, "run", "--logdir", str(tmp_path), "--", "sh", "-c", "sleep 0.01 | cat"], check=True,
                   capture_output=True, timeout=60)
    report = check(tmp_path)
    assert report["exit_status"] == 0, report["findings"]
    assert report["profile"]["active"] and len(report["profile_before_2_20_3"]["runs"]) == 1
    both_agree(tmp_path)
