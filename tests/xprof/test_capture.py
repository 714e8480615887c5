# SPDX-License-Identifier: Apache-2.0
"""A running job under `tbprof run --port`, captured by the clients that users have. What these clients do of
themselves is in docs/stock-clients.md."""

import contextlib
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")
pytest.importorskip("grpc")

import capture_click  # noqa: E402
import profiler_rpc  # noqa: E402
import screenshot  # noqa: E402
import stock_client  # noqa: E402
import tool_data  # noqa: E402
import xspace_maker  # noqa: E402
from places import BUILD, ROOT, TBPROF  # noqa: E402

PHASES = os.path.join(BUILD, "tests", "programs", "phases")
NOBODY = "127.0.0.1:1"


def knows_the_port():
    try:
        said = subprocess.run([TBPROF, "run", "--help"], capture_output=True, text=True, timeout=60)
    except OSError:
        return False
    return "--port" in said.stdout + said.stderr


pytestmark = pytest.mark.skipif(not knows_the_port(), reason=f"{TBPROF} does not know --port")
needs_chromium = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")


class Job:
    """A command under `tbprof run --window=none --port=0`; ended by its id, at the latest when the test is over."""

    def __init__(
        self, *options, command=(PHASES, "0", "2", "2000"), launcher=(), environment=(), pass_fds=()
    ):
        self.directory = tempfile.mkdtemp(prefix="job.")
        self.logdir = os.path.join(self.directory, "logs")
        arguments = [*launcher, TBPROF, "run", "--window=none", "--port=0", "--logdir", self.logdir, *options, "--", *command]
        output = os.open(os.path.join(self.directory, "output"), os.O_WRONLY | os.O_CREAT, 0o644)
        self.process = subprocess.Popen(
            arguments,
            cwd=self.directory,
            env=dict(os.environ, TEST_FACTS=os.path.join(self.directory, "facts"), PYTHONUNBUFFERED="1", **dict(environment)),
            pass_fds=pass_fds,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        os.close(output)
        self.printed = []
        self._heard = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            line = self.hear(r"^tbprof: .*profiler service on ", 30)
            self.port = int(re.search(r"profiler service on \S*:(\d+)", line).group(1))
            self.address = f"127.0.0.1:{self.port}"
        except BaseException:
            self.__exit__()
            raise

    def _read(self):
        for line in self.process.stderr:
            with self._heard:
                self.printed.append(line.rstrip("\n"))
                self._heard.notify_all()

    def hear(self, pattern, timeout=30):
        """The first line on stderr that matches."""
        deadline = time.monotonic() + timeout
        with self._heard:
            while True:
                for line in self.printed:
                    if re.search(pattern, line):
                        return line
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError(f"no line like {pattern!r}: {self.printed}")
                self._heard.wait(0.2)

    def warm(self, file="facts", text="warm 1"):
        """Until the program is past its beginning: it has written `text`."""
        path = os.path.join(self.directory, file)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if text in read(path).decode():
                    return self
            time.sleep(0.05)
        raise AssertionError(f"the program does not begin: {self.printed}")

    def stop(self):
        """Lets the program end by itself; tbprof's exit status."""
        open(os.path.join(self.directory, "stop"), "w").close()
        self.process.wait(60)
        self._reader.join(10)
        return self.process.returncode

    def published(self):
        return glob.glob(os.path.join(self.logdir, "plugins", "profile", "*", "*.xplane.pb"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
                break
        self._reader.join(10)
        self.process.stderr.close()
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture
def job():
    with Job() as started:
        yield started.warm()


@pytest.fixture(scope="module")
def shared_job():
    """For tests that leave it as it was."""
    with Job() as started:
        yield started.warm()


def space_of(data):
    """The profile; asserts that it shows what the program did."""
    space = xspace_maker.decode(data)
    assert any(line["events"] for plane in space["planes"] for line in plane["lines"]), space
    return space


def window_of(space):
    """(begin, end), Unix seconds."""
    stats = next(plane["stats"] for plane in space["planes"] if plane["name"] == "Task Environment")
    return stats["profile_start_time"] / 1e9, stats["profile_stop_time"] / 1e9


def length_of(space):
    begin, end = window_of(space)
    return end - begin


def read(*parts):
    with open(os.path.join(*map(str, parts)), "rb") as file:
        return file.read()


def expect_one_file(outcome, logdir, *addresses):
    """(directory of the run, one profile per address)"""
    assert outcome.ok, (outcome.error, outcome.log)
    ((run, files),) = outcome.runs().items()
    directory = os.path.join(str(logdir), "plugins", "profile", run)
    names = [address.replace(":", "_") + ".xplane.pb" for address in addresses]
    assert sorted(files) == sorted(names)
    assert re.fullmatch(r"\d{4}(_\d\d){5}", run)
    return directory, [space_of(read(directory, name)) for name in names]


def expect_pages(directory, address):
    """The real converters read it."""
    host = address.replace(":", "_")
    with tool_data.ToolData(directory) as data:
        assert {"trace_viewer@", "overview_page"} <= set(data.tool_names())
        assert data.overview() and data.overview(host) and data.memory_profile(host) is not None
        events, rows = data.trace_events(host)
        assert any(event["ph"] == "X" for event in events)
        return events, rows


# What a user does.


def test_a_stock_client_gets_a_profile(job, tmp_path):
    outcome = stock_client.trace(job.address, tmp_path, duration_ms=700)
    directory, (space,) = expect_one_file(outcome, tmp_path, job.address)
    assert 0.69 < length_of(space) < 0.7 + 0.3
    events, rows = expect_pages(directory, job.address)
    assert "phases" in str(rows)
    assert outcome.seconds < 10
    # The command decides how it ends.
    assert job.stop() == 5
    naps = read(job.directory, "facts").decode()
    assert int(re.search(r"naps (\d+)", naps).group(1)) > 100


def test_again_and_again(shared_job, tmp_path):
    for i in range(4):
        outcome = stock_client.trace(shared_job.address, tmp_path / str(i), duration_ms=200)
        expect_one_file(outcome, tmp_path / str(i), shared_job.address)


def test_several_jobs_and_a_dead_one(shared_job, tmp_path):
    with Job() as second:
        second.warm()
        addresses = ",".join((shared_job.address, NOBODY, second.address))
        outcome = stock_client.trace(addresses, tmp_path, duration_ms=500)
        directory, spaces = expect_one_file(outcome, tmp_path, shared_job.address, second.address)
        for address in (shared_job.address, second.address):
            expect_pages(directory, address)
        # The client gave both the same start.
        begins = [window_of(space)[0] for space in spaces]
        assert abs(begins[0] - begins[1]) < 0.2
        assert f"{NOBODY} returned UNAVAILABLE" in outcome.log


def test_a_delay(shared_job, tmp_path):
    begin = time.time()
    outcome = stock_client.trace(shared_job.address, tmp_path, duration_ms=300, options={"delay_ms": 1500})
    _, (space,) = expect_one_file(outcome, tmp_path, shared_job.address)
    assert outcome.seconds >= 1.8
    assert window_of(space)[0] > begin + 1.3


def test_ipv6(shared_job, tmp_path):
    with socket.socket(socket.AF_INET6) as probe:
        if probe.connect_ex(("::1", shared_job.port)) != 0:
            pytest.skip("the service has no IPv6 address here")
    outcome = stock_client.trace(f"[::1]:{shared_job.port}", tmp_path, duration_ms=200)
    expect_one_file(outcome, tmp_path, f"[__1]_{shared_job.port}")


def test_monitor(shared_job):
    outcome = stock_client.monitor(shared_job.address, duration_ms=300, timestamp=True)
    assert outcome.ok, outcome.error
    assert len(outcome.result.splitlines()) >= 2
    result = profiler_rpc.monitor(shared_job.address, duration_ms=300)
    assert result.ok and result.response.data and not profiler_rpc.unknown(result.response)


def test_a_worker_list_is_refused_in_words(shared_job, tmp_path):
    outcome = stock_client.trace(shared_job.address, tmp_path, workers=shared_job.address)
    assert not outcome.ok and "worker" in outcome.error


@needs_chromium
@pytest.mark.parametrize("standalone", [False, True], ids=["tensorboard", "xprof"])
def test_the_button(job, tmp_path, standalone):
    logdir = tmp_path / "logs"
    logdir.mkdir()
    done = capture_click.capture(job.address, logdir, tmp_path / "pictures", standalone, duration_ms=800)
    assert done.message == "Capture profile successfully. Please refresh.", (done.message, done.log[-3000:])
    assert done.status == 200 and done.request["duration"] == "800"
    assert len(done.runs) == 1 and done.shown == "after a reload", done
    assert os.path.getsize(done.pictures["after"]) > 20000
    directory = logdir / "plugins" / "profile" / done.runs[0]
    host = job.address.replace(":", "_")
    space_of(read(directory, host + ".xplane.pb"))
    with screenshot.serve(str(logdir), standalone) as (base, _):
        hosts = screenshot.get(base, screenshot.PLUGIN + "/hosts", run=done.runs[0], tag="trace_viewer@")
        assert [entry["hostname"] for entry in hosts] == [host]
        query = {"run": done.runs[0], "tag": "trace_viewer@", "host": host}
        events = screenshot.get(base, screenshot.PLUGIN + "/data", **query)["traceEvents"]
        assert any(event.get("ph") == "X" for event in events)


@needs_chromium
def test_the_button_for_several_jobs_and_a_dead_one(shared_job, tmp_path):
    logdir = tmp_path / "logs"
    logdir.mkdir()
    with Job() as second:
        second.warm()
        addresses = ",".join((shared_job.address, NOBODY, second.address))
        done = capture_click.capture(addresses, logdir, tmp_path / "pictures", duration_ms=500)
        assert done.message == "Capture profile successfully. Please refresh.", (done.message, done.log[-3000:])
        (run,) = done.runs
        for address in (shared_job.address, second.address):
            space_of(read(logdir, "plugins", "profile", run, address.replace(":", "_") + ".xplane.pb"))
        assert f"{NOBODY} returned UNAVAILABLE" in done.log


def test_a_training_has_its_steps(tmp_path):
    pytest.importorskip("torch")
    training = [sys.executable, os.path.join(ROOT, "examples", "train_digits.py"), "--synthetic", "--epochs", "1000"]
    with Job(command=training) as job:
        job.warm("output", "epoch")
        outcome = stock_client.trace(job.address, tmp_path, duration_ms=3000)
        directory, _ = expect_one_file(outcome, tmp_path, job.address)
        with tool_data.ToolData(directory) as data:
            assert len(tool_data.overview_steps(data.overview())) >= 5


# What is on the wire.


def test_the_answer_carries_the_file(shared_job, tmp_path):
    # A directory that this machine does not have: nothing is shared but the connection.
    result = profiler_rpc.profile(shared_job.address, duration_ms=300, repository_root="/proc/nowhere/plugins/profile")
    assert result.ok, result
    assert list(result.files()) == ["xplane.pb"] and not result.response.empty_trace
    assert not profiler_rpc.unknown(result.response)
    space_of(result.files()["xplane.pb"])


def test_emit_xspace(shared_job):
    result = profiler_rpc.profile(shared_job.address, duration_ms=300, emit_xspace=True)
    assert result.ok and not result.response.empty_trace
    space_of(result.response.xspace)


UNTIL_OPEN_S = 0.5  # from the call to the begin of its window, at the most


def test_a_second_client_is_told_who_and_when(job, tmp_path):
    first = profiler_rpc.start_profile(job.address, duration_ms=4000, session_id="first")
    time.sleep(UNTIL_OPEN_S)
    for session_id in ("second", "first"):
        second = profiler_rpc.profile(job.address, duration_ms=200, session_id=session_id)
        assert second.code == "ALREADY_EXISTS" and "127.0.0.1" in second.details, second
        assert second.seconds < 2
    outcome = stock_client.trace(job.address, tmp_path, duration_ms=200, attempts=3)
    assert not outcome.ok and "returned ALREADY_EXISTS" in outcome.log
    result = first.result()
    assert result.ok and length_of(space_of(result.files()["xplane.pb"])) > 3
    assert profiler_rpc.profile(job.address, duration_ms=200, session_id="first").ok


def test_terminate_ends_early_with_what_there_is(job):
    call = profiler_rpc.start_profile(job.address, duration_ms=60000, session_id="long", timeout=130)
    time.sleep(UNTIL_OPEN_S)
    for stranger in ("other", "", "lon"):
        assert profiler_rpc.terminate(job.address, stranger).code in ("OK", "NOT_FOUND")
    time.sleep(0.7)
    assert not call.done()
    assert profiler_rpc.terminate(job.address, "long").ok
    result = call.result()
    assert result.ok and result.seconds < 15, result
    assert length_of(space_of(result.files()["xplane.pb"])) < 5
    # Not remembered for the next of that name.
    result = profiler_rpc.profile(job.address, duration_ms=1000, session_id="long")
    assert result.ok and result.seconds >= 1


def test_a_client_that_goes_leaves_the_window_here(job, tmp_path):
    client = stock_client.start_trace(job.address, tmp_path, duration_ms=60000)
    while "Waiting for completion" not in client.log():
        assert client.running()
        time.sleep(0.05)
    time.sleep(0.7)
    client.kill()
    client.result()
    deadline = time.monotonic() + 5
    while True:  # idle again
        result = profiler_rpc.profile(job.address, duration_ms=200)
        if result.ok or time.monotonic() > deadline:
            break
        assert result.code == "ALREADY_EXISTS"
        time.sleep(0.1)
    assert result.ok, result
    deadline = time.monotonic() + 10
    while not job.published() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert job.published(), job.printed
    space_of(read(job.published()[0]))


def test_a_program_that_ends_delivers_its_window(job):
    call = profiler_rpc.start_profile(job.address, duration_ms=60000, timeout=130)
    time.sleep(UNTIL_OPEN_S)
    assert job.stop() == 5
    result = call.result()
    assert result.ok and result.seconds < 30, result
    space_of(result.files()["xplane.pb"])
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", job.port), 5).close()


@pytest.mark.parametrize("fields, named", [
    ({"duration_ms": 0, "opts": {"duration_ms": 0}}, "duration_ms"),
    ({"duration_ms": 2**63, "opts": {"duration_ms": 2**63}}, "duration_ms"),
    ({"duration_ms": 10**7, "opts": {"duration_ms": 10**7}}, "duration_ms"),
    ({"session_id": ".."}, "session_id"),
    ({"session_id": "../../up"}, "session_id"),
    ({"session_id": "/absolute"}, "session_id"),
    ({"session_id": "nul\0"}, "session_id"),
    ({"session_id": "x" * 1000000}, "session_id"),
    ({"opts": {"session_id": "../up"}}, "session_id"),
    ({"host_name": "a/b"}, "host_name"),
    ({"host_name": "../a"}, "host_name"),
    ({"opts": {"override_hostname": "../a"}}, "override_hostname"),
    ({"opts": {"start_timestamp_ns": 2**63}}, "start_timestamp_ns"),
])
def test_refused_with_the_name_of_the_field(shared_job, fields, named):
    before = sorted(glob.glob(os.path.join(shared_job.directory, "**"), recursive=True))
    result = profiler_rpc.profile(shared_job.address, **dict({"duration_ms": 200}, **fields))
    assert result.code == "INVALID_ARGUMENT" and named in result.details, result
    assert len(result.details) < 1000
    assert sorted(glob.glob(os.path.join(shared_job.directory, "**"), recursive=True)) == before
    assert not os.path.exists("/absolute")


@pytest.mark.parametrize("opts", [
    {"host_tracer_level": 99, "device_tracer_level": 99, "python_tracer_level": 99},
    {"start_timestamp_ns": 5},
    {"version": 0},
    {"device_type": 3},
    {"advanced_configuration": {"no_such_key": {"int64_value": 7}, "gpu_max_callback_api_events": {"int64_value": 7}}},
    {"trace_options": {"host_traceme_filter_mask": 5}},
    {"enable_multipass": True, "raise_error_on_start_failure": True},
], ids=lambda opts: next(iter(opts)))
def test_taken_as_a_stock_server_does(shared_job, opts):
    result = profiler_rpc.profile(shared_job.address, duration_ms=200, opts=opts)
    assert result.ok, result
    space_of(result.files()["xplane.pb"])


def test_nothing_that_arrives_ends_it(shared_job, tmp_path):
    port = ("127.0.0.1", shared_job.port)
    hello = bytes.fromhex("16030100310100002d0303") + bytes(40)
    for data in (hello, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", os.urandom(4096), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(100)):
        with socket.create_connection(port, 5) as connection:
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                connection.sendall(data)
                while connection.recv(65536):
                    pass
    for method in ("Profile", "Monitor", "Terminate"):
        assert not profiler_rpc.raw(shared_job.address, profiler_rpc.SERVICE + method, b"\xff\xff\xff").ok
    open_ones = []
    for _ in range(500):
        with contextlib.suppress(OSError):
            open_ones.append(socket.create_connection(port, 2))
    for connection in open_ones:
        connection.close()
    deadline = time.monotonic() + 20
    while not (result := profiler_rpc.profile(shared_job.address, duration_ms=200)).ok and time.monotonic() < deadline:
        time.sleep(0.2)
    assert result.ok, result
    assert shared_job.process.poll() is None
    outcome = stock_client.trace(shared_job.address, tmp_path, duration_ms=200)
    expect_one_file(outcome, tmp_path, shared_job.address)


def test_methods_that_are_not_there(shared_job):
    for method in ("StartContinuousProfiling", "StopContinuousProfiling", "GetSnapshot"):
        result = profiler_rpc.raw(shared_job.address, profiler_rpc.SERVICE + method)
        assert result.code == "UNIMPLEMENTED", result
    assert profiler_rpc.enum_sessions(shared_job.address).code == "UNIMPLEMENTED"


def test_a_port_that_is_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with tempfile.TemporaryDirectory() as directory:
            command = [TBPROF, "run", "--window=none", f"--port={port}", "--logdir", directory, "--", "true"]
            result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    said = [line for line in result.stderr.splitlines() if line.startswith("tbprof:")]
    assert any(str(port) in line and "--port" in line for line in said), result.stderr
