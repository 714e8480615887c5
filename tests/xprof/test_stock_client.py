# SPDX-License-Identifier: Apache-2.0
"""The facts of docs/stock-clients.md: what xprof's native client sends, and makes of what a server answers."""

import os
import re
import shutil
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")
pytest.importorskip("grpc")

import capture_click  # noqa: E402
import profiler_rpc  # noqa: E402
import screenshot  # noqa: E402
import stock_client  # noqa: E402
import xspace_maker  # noqa: E402
from profiler_rpc import FakeService, Reply  # noqa: E402

NOTHING = (
    "UNAVAILABLE: No trace event was collected because there were no responses from clients or the responses did not "
    "have trace data."
)
NOBODY = "127.0.0.1:1"


def an_xspace():
    space = xspace_maker.Space("host")
    space.plane("/host:CPU").line(1, "thread").event("work", 0, 10 * xspace_maker.MS)
    return space.encode()


GOOD = Reply(tool_data=[("xplane.pb", an_xspace())])


def capture(logdir, *script, **named):
    """(outcome, requests) of one client and one server."""
    with FakeService(script) as service:
        return stock_client.trace(service.address, logdir, **named), service.requests


def prefix(request):
    return request["host_name"].replace(":", "_")


def test_the_schema_is_that_of_the_client():
    from google.protobuf import descriptor_pb2
    from xprof.convert import _pywrap_profiler_plugin as native

    kinds = descriptor_pb2.FieldDescriptorProto
    with open(native.LIB_PATH, "rb") as file:
        library = file.read()

    def embedded(name):
        """The longest prefix of what follows the file's name that is a descriptor, without what would be merged in."""
        begin = library.index(b"\n" + bytes([len(name)]) + name.encode() + b"\x12\x0atensorflow")
        fields = xspace_maker.fields(memoryview(library)[begin : begin + 65536])
        seen, descriptor = set(), descriptor_pb2.FileDescriptorProto()
        for number, value in fields:
            if number in seen - {3, 4, 5, 6, 10, 11} or number > 14:
                break
            seen.add(number)
            if number == 4:
                descriptor.message_type.add().MergeFromString(bytes(value))
        return descriptor

    found = {}

    def note(message):
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        fields = []
        for field in message.field:
            kind = kinds.Type.Name(field.type)[5:].lower()
            kind = {"enum": "int32", "message": field.type_name.split(".")[-1]}.get(kind, kind)
            if kind in entries:
                fields.append((field.number, field.name, "string>" + value_of(entries[kind])))
                continue
            kind = "bytes" if kind == "XSpace" else kind
            fields.append((field.number, field.name, kind + "*" * (field.label == kinds.LABEL_REPEATED)))
        found[message.name] = sorted(fields)
        for nested in message.nested_type:
            if not nested.options.map_entry:
                note(nested)

    def value_of(entry):
        return next(field.type_name.split(".")[-1] for field in entry.field if field.number == 2)

    for name in ("service", "options", "analysis", "service_monitor_result"):
        for message in embedded(f"tsl/profiler/protobuf/profiler_{name}.proto").message_type:
            note(message)
    for name, fields in profiler_rpc.SCHEMA.items():
        assert found[name] == sorted(fields), name


def test_the_request(tmp_path):
    outcome, requests = capture(tmp_path, GOOD, duration_ms=700)
    assert outcome.ok, outcome
    (entry,) = requests
    request = dict(entry["request"])
    assert entry["method"] == "/tensorflow.ProfilerService/Profile" and not entry["unknown"]
    assert re.fullmatch(r"\d{4}(_\d\d){5}", request.pop("session_id"))
    opts = request.pop("opts")
    assert opts.pop("start_timestamp_ns") > 0
    assert opts == {
        "version": 1,
        "include_dataset_ops": True,
        "host_tracer_level": 2,
        "device_tracer_level": 1,
        "enable_hlo_proto": True,
        "duration_ms": 700,
        "repository_path": str(tmp_path),
    }
    tools = request.pop("tools")
    assert len(tools) == 10 and tools[-1] == "xplane.pb"
    assert request == {
        "duration_ms": 700,
        "max_events": 1000000,
        "repository_root": os.path.join(tmp_path, "plugins", "profile"),
        "host_name": entry["address"],
    }


def test_options(tmp_path):
    options = {"host_tracer_level": 3, "device_tracer_level": 0, "python_tracer_level": 1, "session_id": "mine"}
    outcome, requests = capture(tmp_path, GOOD, options=dict(options, gpu_max_activity_api_events=7))
    opts = requests[0]["request"]["opts"]
    assert opts["host_tracer_level"] == 3 and opts["python_tracer_level"] == 1
    assert "device_tracer_level" not in opts and "advanced_configuration" not in opts
    assert opts["session_id"] == requests[0]["request"]["session_id"] == "mine"
    assert "Unrecognised key: gpu_max_activity_api_events" in outcome.log
    assert outcome.runs() == {"mine": [prefix(requests[0]["request"]) + ".xplane.pb"]}


def start_in(entry):
    return entry["request"]["opts"]["start_timestamp_ns"] / 1e9 - entry["at"]


def test_delay(tmp_path):
    outcome, requests = capture(tmp_path, Reply(code="INTERNAL", delay=0.3), GOOD, attempts=2, options={"delay_ms": 1500})
    assert outcome.ok and len(requests) == 2
    assert all(1.2 < start_in(entry) < 1.6 for entry in requests)


def test_the_deadline_does_not_know_the_delay(tmp_path):
    for duration, deadline in ((500, 60), (40000, 80)):
        _, requests = capture(tmp_path, GOOD, duration_ms=duration, options={"delay_ms": 20000})
        assert deadline - 2 < requests[0]["deadline_s"] <= deadline
        assert 18 < start_in(requests[0]) <= 20.1


def test_several_addresses(tmp_path):
    with FakeService([GOOD]) as first, FakeService([GOOD]) as second, FakeService([GOOD]) as third:
        services = (first, second, third)
        addresses = ",".join(service.address for service in services)
        outcome = stock_client.trace(addresses, tmp_path, options={"delay_ms": 500})
        assert outcome.ok
        requests = [service.requests[0] for service in services]
        assert [entry["request"]["host_name"] for entry in requests] == addresses.split(",")
        assert all(2.5 < start_in(entry) < 3.1 for entry in requests)
        for entry in requests:
            entry["request"].pop("host_name")
        assert requests[0]["request"] == requests[1]["request"] == requests[2]["request"]
        (files,) = outcome.runs().values()
        assert sorted(files) == sorted(f"127.0.0.1_{service.port}.xplane.pb" for service in services)


def test_refused_before_dialling(tmp_path):
    with FakeService([GOOD]) as service:
        good = service.address
        outcome = stock_client.trace(good, tmp_path, duration_ms=0)
        assert outcome.error == "INVALID_ARGUMENT: duration_ms must be greater than zero."
        assert not stock_client.trace(good, tmp_path, duration_ms=-1).ok
        assert stock_client.trace("", tmp_path).error == "INVALID_ARGUMENT: No service address provided."
        for address in ("127.0.0.1", "127.0.0.1:99999", "http://" + good, "grpc://" + good, good + "/", good + ","):
            wrong = "" if address.endswith(",") else address
            told = f'INVALID_ARGUMENT: Could not interpret "{wrong}" as a host-port pair.'
            assert stock_client.trace(address, tmp_path).error == told
        assert not service.requests


def test_ipv6(tmp_path):
    try:
        service = FakeService([GOOD], host="[::1]")
    except RuntimeError:
        pytest.skip("no IPv6 here")
    with service:
        outcome = stock_client.trace(f"[::1]:{service.port}", tmp_path)
        assert outcome.ok and list(outcome.runs().values()) == [[f"[__1]_{service.port}.xplane.pb"]]
        assert "host-port pair" in stock_client.trace(f"::1:{service.port}", tmp_path).error


def test_a_proxy_is_asked(tmp_path):
    proxy = {"http_proxy": "http://" + NOBODY}
    assert capture(tmp_path, GOOD, environment=dict(proxy, no_proxy=""))[0].error == NOTHING
    assert capture(tmp_path, GOOD, environment=dict(proxy, no_proxy="127.0.0.1"))[0].ok


def test_worker_list(tmp_path):
    with FakeService([Reply(error_message="something"), Reply(code="UNIMPLEMENTED", details="why")]) as service:
        outcome = stock_client.trace(service.address, tmp_path, workers=service.address)
        assert outcome.ok and not outcome.files
        (entry,) = service.requests
        assert entry["method"] == "/tensorflow.ProfileAnalysis/NewSession" and not entry["unknown"]
        assert entry["deadline_s"] > 1e6
        assert entry["request"]["request"]["host_name"] == "127.0.0.1"
        outcome = stock_client.trace(service.address, tmp_path, workers=service.address)
        assert outcome.error == "UNIMPLEMENTED: why"


def test_files(tmp_path):
    names = ["xplane.pb", "r1.xplane.pb", "summary.json", "x.trace.json.gz", ""]
    reply = Reply(tool_data=[(name, f"<{name}>") for name in names] + [("xplane.pb", "later")])
    outcome, requests = capture(tmp_path, reply)
    ((run, files),) = outcome.runs().items()
    assert sorted(files) == sorted(f"{prefix(requests[0]['request'])}.{name}" for name in names)
    path = os.path.join(tmp_path, "plugins", "profile", run, prefix(requests[0]["request"]) + ".")
    with open(path + "r1.xplane.pb") as first, open(path + "xplane.pb") as second:
        assert first.read() == "<r1.xplane.pb>" and second.read() == "later"


def test_a_name_with_a_slash(tmp_path):
    outcome, _ = capture(tmp_path, Reply(tool_data=[("one", "x"), ("../two", "x"), ("three", "x")]))
    assert outcome.error.startswith("NOT_FOUND: ")
    assert [os.path.splitext(path)[1] for path in outcome.files] == [".one"]


def test_two_files_are_two_hosts(tmp_path):
    outcome, requests = capture(
        tmp_path,
        Reply(tool_data=[("xplane.pb", an_xspace()), ("r1.xplane.pb", an_xspace()), ("summary.json", "{}")]),
    )
    (run,) = outcome.runs()
    with screenshot.serve(str(tmp_path)) as (base, _):
        assert screenshot.wait_for_run(base) == run
        hosts = screenshot.get(base, screenshot.PLUGIN + "/hosts", run=run, tag="trace_viewer@")
    name = prefix(requests[0]["request"])
    assert sorted(host["hostname"] for host in hosts) == [name, name + ".r1"]


def test_success_without_a_file(tmp_path):
    for reply in (Reply(), Reply(xspace=an_xspace())):
        outcome, _ = capture(tmp_path, reply)
        assert outcome.ok and not outcome.files


def test_empty(tmp_path):
    for data in ([], [("xplane.pb", an_xspace())]):
        outcome, requests = capture(tmp_path, Reply(empty_trace=True, tool_data=data), attempts=3)
        assert outcome.error == NOTHING and not outcome.files and len(requests) == 3


@pytest.mark.parametrize("code", ["ALREADY_EXISTS", "UNAVAILABLE", "INVALID_ARGUMENT", "UNIMPLEMENTED",
                                  "DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED", "CANCELLED"])
def test_every_code_is_the_same_sentence(tmp_path, code):
    took = []
    # A busy machine may delay an attempt; a client that pauses between its attempts is slow each time.
    while len(took) < 3 and (not took or min(took) >= 1):
        outcome, requests = capture(tmp_path, Reply(code=code, details="who and when"), attempts=3)
        assert outcome.error == NOTHING
        assert f"returned {code}: who and when" in outcome.log
        assert len(requests) == 3
        assert len({entry["request"]["session_id"] for entry in requests}) == 1
        took.append(requests[2]["at"] - requests[0]["at"])
    assert min(took) < 1


def test_nobody(tmp_path):
    outcome = stock_client.trace(NOBODY, tmp_path)
    assert outcome.error == NOTHING and "Connection refused" in outcome.log


def test_one_dead(tmp_path):
    with FakeService([GOOD]) as good, FakeService([Reply(code="INTERNAL")]) as bad, \
            FakeService([Reply(empty_trace=True)]) as empty:
        addresses = ",".join((NOBODY, bad.address, empty.address, good.address))
        outcome = stock_client.trace(addresses, tmp_path, attempts=3)
        assert outcome.ok
        assert list(outcome.runs().values()) == [[f"127.0.0.1_{good.port}.xplane.pb"]]
        assert len(good.requests) == len(bad.requests) == len(empty.requests) == 1


def test_two_in_one_second(tmp_path):
    with FakeService([Reply(tool_data=[("xplane.pb", "one")]), Reply(tool_data=[("xplane.pb", "two")])]) as service:
        for _ in range(20):
            time.sleep(1.01 - time.time() % 1)
            del service.requests[:]
            service._taken = 0
            for _ in range(2):
                assert stock_client.trace(service.address, tmp_path).ok
            sessions = {entry["session_id"] for entry in service.of("Profile")}
            if len(sessions) == 1:
                break
        directory = os.path.join(tmp_path, "plugins", "profile", sessions.pop())
        (name,) = os.listdir(directory)
        with open(os.path.join(directory, name)) as file:
            assert file.read() == "two"


def test_a_client_that_is_killed_cancels(tmp_path):
    with FakeService([Reply(delay=20)]) as service:
        client = stock_client.start_trace(service.address, tmp_path)
        while not service.requests:
            time.sleep(0.05)
        client.kill()
        client.result()
        deadline = time.monotonic() + 5
        while "gone_after_s" not in service.requests[0] and time.monotonic() < deadline:
            time.sleep(0.05)
        assert service.requests[0]["gone_after_s"] < 5


def test_monitor():
    result = {"response_type": 3, "step_time_ms_avg": 2.5}
    with FakeService([Reply(data="text", monitor_result=result), Reply(code="ALREADY_EXISTS", details="why")]) as service:
        outcome = stock_client.monitor(service.address, duration_ms=700, level=2, timestamp=True)
        assert outcome.ok and outcome.result == "text"
        (entry,) = service.requests
        assert entry["request"] == {"duration_ms": 700, "monitoring_level": 2, "timestamp": True}
        assert not entry["unknown"] and entry["deadline_s"] > 1e6
        assert stock_client.monitor(service.address).error == "ALREADY_EXISTS: why"
    assert stock_client.monitor(NOBODY).error.startswith("UNAVAILABLE: failed to connect to all addresses")


DIALOG = {
    "is_tpu_name": "false",
    "duration": "1000",
    "num_retry": "3",
    "worker_list": "",
    "host_tracer_level": "2",
    "device_tracer_level": "1",
    "python_tracer_level": "0",
    "delay": "0",
}
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")


@needs_chromium
@pytest.mark.parametrize("standalone", [False, True], ids=["tensorboard", "xprof"])
def test_the_dialog(tmp_path, standalone):
    logdir = tmp_path / "logs"
    logdir.mkdir()
    with FakeService([GOOD]) as service:
        done = capture_click.capture(service.address, logdir, tmp_path / "pictures", standalone)
        assert done.message == "Capture profile successfully. Please refresh." and done.status == 200, done
        assert done.request == dict(DIALOG, service_addr=service.address)
        (request,) = service.of("Profile")
        assert done.runs == [request["session_id"]] and done.shown == "after a reload"
        assert request["duration_ms"] == 1000
        assert request["repository_root"] == str(logdir / "plugins" / "profile")


@needs_chromium
def test_the_dialog_keeps_the_reason_to_itself(tmp_path):
    logdir = tmp_path / "logs"
    logdir.mkdir()
    with FakeService([Reply(code="ALREADY_EXISTS", details="held by 10.0.0.7")]) as service:
        done = capture_click.capture(service.address, logdir, tmp_path / "pictures", duration_ms=700)
        assert done.message == "Failed to capture profile: [object Object]" and done.status == 500, done
        assert NOTHING in done.answer and "held by" not in done.answer
        assert "returned ALREADY_EXISTS: held by 10.0.0.7" in done.log
        assert len(service.requests) == 4 and not done.runs
