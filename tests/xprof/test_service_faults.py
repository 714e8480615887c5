# SPDX-License-Identifier: Apache-2.0
"""What arrives at the port of `tbprof run --port`, and what happens to those who use it: the command never notices,
the launcher and its worker stay small, the next client is served, and what was recorded is somewhere."""

import contextlib
import glob
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.importorskip("xprof")
grpc = pytest.importorskip("grpc")

import profiler_rpc  # noqa: E402
import stock_client  # noqa: E402
import test_capture  # noqa: E402
from places import TBPROF  # noqa: E402
from test_capture import PHASES, Job, job, knows_the_port, length_of, read, shared_job, space_of  # noqa: E402, F401

pytestmark = pytest.mark.skipif(not knows_the_port(), reason=f"{TBPROF} does not know --port")

HERE = os.path.dirname(os.path.abspath(__file__))


# Looking at processes.


def status_of(pid, name):
    """`VmRSS`, `Threads`, `voluntary_ctxt_switches`, ...; 0 of a process that is gone."""
    with contextlib.suppress(OSError):
        for line in read("/proc", pid, "status").decode().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return 0


def cpu_seconds_of(pid):
    # Its CPU clock: clock_getcpuclockid(3).
    return time.clock_gettime(~pid << 3 | 2)


def children_of(pid):
    with contextlib.suppress(OSError):
        return [int(child) for child in read("/proc", pid, "task", pid, "children").split()]
    return []


def command_line_of(pid):
    with contextlib.suppress(OSError):
        return read("/proc", pid, "cmdline").decode(errors="replace")
    return ""


def worker_of(job):
    """The process that serves the port, or 0."""
    return next((pid for pid in children_of(job.process.pid) if "--service-worker" in command_line_of(pid)), 0)


def target_of(job):
    (pid,) = [pid for pid in children_of(job.process.pid) if command_line_of(pid).startswith(PHASES)]
    return pid


def descriptors_of(pid):
    links = {}
    with contextlib.suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                links[int(number)] = os.readlink(f"/proc/{pid}/fd/{number}")
    return links


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.02)
    return found


def expect_alive(job):
    """The command, whose first thread sleeps for 2 ms again and again."""
    assert job.process.poll() is None, job.printed
    target = target_of(job)
    before = status_of(target, "voluntary_ctxt_switches")
    until(lambda: status_of(target, "voluntary_ctxt_switches") > before + 20, 20, "the command does not go on")


def profile_at_last(address, seconds=20, **fields):
    """A profile within that time, however often one has to ask."""
    fields.setdefault("duration_ms", 100)
    deadline = time.monotonic() + seconds
    while True:
        result = profiler_rpc.profile(address, timeout=max(5.0, deadline - time.monotonic()), **fields)
        if result.ok or time.monotonic() > deadline:
            assert result.ok, result
            return space_of(result.files()["xplane.pb"])
        time.sleep(0.1)


class Size:
    """The memory of the launcher and the worker together, from its begin to its end; KiB."""

    def __init__(self, job):
        self._job = job
        self.begin = self.now()
        self.peak = self.begin

    def now(self):
        return sum(status_of(pid, "VmRSS") for pid in (self._job.process.pid, worker_of(self._job)))

    def __enter__(self):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self):
        while not self._over.wait(0.05):
            self.peak = max(self.peak, self.now())

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
        marks = sum(status_of(pid, "VmHWM") for pid in (self._job.process.pid, worker_of(self._job)))
        self.peak = max(self.peak, self.now(), marks)

    @property
    def grown_mib(self):
        return (self.peak - self.begin) / 1024


# HTTP/2 without a library.

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def headers(path):
    """Of a call; HPACK's literal fields without a table."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost")]
    fields += [("content-type", "application/grpc"), ("te", "trailers")]
    out = b""
    for name, value in fields:
        out += b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
    return out


def message(data, announced=None):
    return b"\0" + struct.pack(">I", len(data) if announced is None else announced) + data


def greeting(window=65535):
    return PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", 4, window))


def connect(job):
    connection = socket.create_connection(("127.0.0.1", job.port), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(10)
    return connection


def send_for(connection, data, seconds):
    """Sends as much as the other end takes in that time; reads what it says. Bytes sent."""
    connection.setblocking(False)
    sent, deadline, view = 0, time.monotonic() + seconds, memoryview(data)
    with contextlib.suppress(ConnectionError):
        while sent < len(view) and time.monotonic() < deadline:
            moved = False
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(view[sent:sent + 65536])
                moved = True
            with contextlib.suppress(BlockingIOError):
                if not connection.recv(1 << 20):
                    break
                moved = True
            if not moved:
                time.sleep(0.002)
    return sent


def ends(connection, seconds):
    """Whether the other end closes the connection within that time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            if not connection.recv(1 << 20):
                return True
        except TimeoutError:
            return False
        except OSError:
            return True
    return False


# F45: names that lead elsewhere.

BAD_NAMES = ["..", ".", "../x", "../../x", "../../../x", "../../../../x", "/tmp/tbprof-escaped", "a/../../x", "x/", "/",
             ".hidden", "a\0b", "\0", "x" * 900_000, "../" * 100_000, "a\nb", "a b", "~", "a\\b"]
# A message of more than 1 MiB is refused as a whole.


@pytest.mark.parametrize("field", ["session_id", "host_name", "opts.session_id", "opts.override_hostname"])
def test_names_that_lead_elsewhere(shared_job, field):
    def everything():
        return {os.path.join(base, name) for base, folders, files in os.walk(shared_job.directory) for name in folders + files}

    before = everything()
    for name in BAD_NAMES:
        inner = field.removeprefix("opts.")
        fields = {"opts": {inner: name}} if field.startswith("opts.") else {inner: name}
        result = profiler_rpc.profile(shared_job.address, duration_ms=5, **fields)
        assert result.code == "INVALID_ARGUMENT" and f"{inner} is " in result.details, (name[:50], result)
        assert len(result.details) < 500 and result.details.isprintable()
    assert everything() == before
    assert not os.path.exists("/tmp/tbprof-escaped")
    result = profiler_rpc.profile(shared_job.address, duration_ms=5, session_id="x" * 3_000_000)
    assert result.code == "RESOURCE_EXHAUSTED", result


def test_repositories_that_lie_elsewhere(job):
    """The client writes there, not we; only the log directory itself, as it is called, means that we do."""
    victim = os.path.join(job.directory, "victim")
    os.mkdir(victim)
    for root in (victim, victim + "/plugins/profile", job.logdir + "/../victim", job.logdir + "/plugins/../../victim",
                 job.logdir + "/plugins/profile/../../../victim", "victim", "../victim", "/", ""):
        result = profiler_rpc.profile(job.address, duration_ms=5, repository_root=root, session_id="run")
        assert result.ok, (root, result)
        space_of(result.files()["xplane.pb"])
    for root in ("/a\0b", "d" * 5000, "/" * 900_000):
        result = profiler_rpc.profile(job.address, duration_ms=5, repository_root=root)
        assert result.code == "INVALID_ARGUMENT" and "repository_root" in result.details, result
    assert os.listdir(victim) == [] and job.published() == []
    assert sorted(os.listdir(job.directory)) == ["facts", "logs", "output", "victim"]


# F46: what is no request.


def garbage(job, _):
    for size in (1, 9, 24, 4096, 1 << 20):
        for _ in range(10):
            with connect(job) as connection:
                send_for(connection, os.urandom(size), 0.2)
    for _ in range(10):
        with connect(job) as connection:
            send_for(connection, greeting() + os.urandom(1 << 16), 0.2)


def tls(job, _):
    hello = bytes.fromhex("16030100c8010000c40303") + os.urandom(32) + b"\x20" + os.urandom(32) + bytes(130)
    for _ in range(20):
        with connect(job) as connection:
            send_for(connection, hello, 0.2)


def http1(job, _):
    for request in (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /tensorflow.ProfilerService/Profile HTTP/1.1\r\n"
                    b"Content-Length: 2000000000\r\n\r\n" + bytes(1 << 20), b"GET / HTTP/1.1\r\nX: " + b"x" * (1 << 20)):
        for _ in range(10):
            with connect(job) as connection:
                send_for(connection, request, 0.2)


def slow_loris(job, keep):
    """200 that send the first bytes one by one, and another after a while."""
    patient = [keep.enter_context(connect(job)) for _ in range(200)]
    begin = time.monotonic()
    for byte in PREFACE[:-1]:
        for connection in patient:
            with contextlib.suppress(OSError):
                connection.send(bytes((byte,)))
        time.sleep(0.3)
    # Those who come in between are served.
    assert time.monotonic() - begin >= 5
    profile_at_last(job.address)
    # They were given 5 s, not for as long as they like.
    assert all(ends(connection, 20) for connection in patient)


def many_connections(job, keep):
    """10,000, all open at the same time as far as the other end keeps them."""
    wanted = 10_000
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[0] < wanted + 500:
        if before[1] != resource.RLIM_INFINITY and before[1] < wanted + 500:
            pytest.skip(f"RLIMIT_NOFILE is {before[1]}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + 500, before[1]))
        keep.callback(resource.setrlimit, resource.RLIMIT_NOFILE, before)
    for _ in range(wanted // 500):
        batch = []
        for _ in range(500):
            connection = keep.enter_context(socket.socket())
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", job.port))
            batch.append(connection)
        for connection in batch[::10]:
            with contextlib.suppress(OSError):
                connection.send(PREFACE)
        time.sleep(0.05)
    time.sleep(1)


def long_messages(job, _):
    call = headers("/tensorflow.ProfilerService/Profile")
    begin = greeting() + frame(HEADERS, END_HEADERS, 1, call)
    body = frame(DATA, 0, 1, message(b"", announced=2**31 - 1)) + frame(DATA, 0, 1, bytes(16384)) * 4096
    for _ in range(10):
        with connect(job) as connection:
            send_for(connection, begin + body, 1)  # 64 MiB, whatever the other end makes of them
    with connect(job) as connection:
        send_for(connection, begin + frame(DATA, 0, 1, message(b"", announced=2**32 - 1)), 0.5)
    for method in ("Profile", "Monitor", "Terminate"):
        for _ in range(5):
            result = profiler_rpc.raw(job.address, profiler_rpc.SERVICE + method, bytes(5 << 20))
            assert result.code == "RESOURCE_EXHAUSTED", result
            result = profiler_rpc.raw(job.address, profiler_rpc.SERVICE + method, b"\xff\xff\xff")
            assert not result.ok


@pytest.mark.parametrize("attack", [garbage, tls, http1, slow_loris, many_connections, long_messages],
                         ids=lambda attack: attack.__name__)
def test_what_is_no_request(job, attack):
    profile_at_last(job.address)
    with Size(job) as size:
        with contextlib.ExitStack() as keep:
            attack(job, keep)
            expect_alive(job)
        profile_at_last(job.address)
    assert size.grown_mib <= 64
    assert job.stop() == 5
    assert not [line for line in job.printed if "has ended" in line], job.printed


@pytest.mark.parametrize("kind", ["resets", "open calls", "endless headers", "pings", "settings"])
def test_floods_of_what_http2_allows(job, kind):
    """gRPC 1.51 has no limit for some of them; the worker has one of its own, and is then replaced."""
    call = headers("/tensorflow.ProfilerService/Profile")
    reset = frame(RST_STREAM, 0, 1, bytes(4))[:-8]
    flood = {
        "resets": lambda: b"".join(
            frame(HEADERS, END_HEADERS, stream, call) + reset + struct.pack(">II", stream, 0) for stream in range(1, 40_000, 2)),
        "open calls": lambda: b"".join(frame(HEADERS, END_HEADERS, stream, call) for stream in range(1, 40_000, 2)),
        "endless headers": lambda: frame(HEADERS, 0, 1, call) + frame(CONTINUATION, 0, 1, b"\0\x01a\x7f" + b"x" * 127) * 50_000,
        "pings": lambda: frame(PING, 0, 0, bytes(8)) * 200_000,
        "settings": lambda: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)) * 100_000,
    }[kind]()
    profile_at_last(job.address)
    with Size(job) as size:
        for _ in range(20):
            with connect(job) as connection:
                send_for(connection, greeting() + flood, 1)
            time.sleep(0.1)
        expect_alive(job)
        profile_at_last(job.address)
    assert size.grown_mib <= 256
    until(lambda: size.now() - size.begin <= 128 << 10, 20, "it stays large")
    for line in job.printed:
        # gRPC is not prepared for every allocation that fails.
        assert "has ended" not in line or "too much memory" in line or "signal 11" in line, job.printed
    assert job.stop() == 5


# F47: odd numbers.


def test_odd_numbers_are_refused(shared_job):
    now_ns = time.time_ns()
    for fields, named in [
        ({"duration_ms": 0, "opts": {"duration_ms": 0}}, "duration_ms is 0"),
        ({"opts": {"duration_ms": 2**63}}, f"duration_ms is {2**63}"),
        ({"opts": {"duration_ms": 2**64 - 1}}, f"duration_ms is {2**64 - 1}"),
        ({"opts": {"duration_ms": 600_001}}, "from 1 to 600000"),
        ({"opts": {"start_timestamp_ns": now_ns + 7200 * 10**9}}, "start_timestamp_ns"),
        ({"opts": {"start_timestamp_ns": 2**64 - 1}}, "start_timestamp_ns"),
        ({"opts": {"start_timestamp_ns": now_ns + 100 * 10**9}}, "deadline"),
    ]:
        result = profiler_rpc.profile(shared_job.address, **fields)
        assert result.code == "INVALID_ARGUMENT" and named in result.details, result
    result = profiler_rpc.monitor(shared_job.address, duration_ms=2**63)
    assert result.code == "INVALID_ARGUMENT" and "duration_ms" in result.details, result


def test_what_has_no_effect_is_in_the_profile(shared_job):
    opts = {"host_tracer_level": 99, "device_tracer_level": 99, "python_tracer_level": 99, "start_timestamp_ns": 1}
    opts["advanced_configuration"] = {"no_such_key": {"int64_value": -(2**63)}, "x\x1b[31m" * 10_000: {"bool_value": True}}
    result = profiler_rpc.profile(shared_job.address, duration_ms=5, opts=dict(opts, duration_ms=5))
    assert result.ok, result
    warnings = "\n".join(space_of(result.files()["xplane.pb"])["warnings"])
    for part in ("host_tracer_level 99", "device_tracer_level 99", "python_tracer_level", "no_such_key"):
        assert part in warnings
    assert "\x1b" not in warnings and len(warnings) < 5000


# F48: clients that do not wait.


def test_idle_again_when_a_client_has_died(job):
    took = []
    for _ in range(3):  # a machine that has other things to do may need a second look
        captures = len([line for line in job.printed if ": recording for " in line])
        arguments = [sys.executable, os.path.join(HERE, "profiler_rpc.py"), "profile", job.address]
        client = subprocess.Popen(arguments + ["--set", "duration_ms=60000", "--timeout", "130"], stdout=subprocess.DEVNULL)
        try:
            until(lambda: len([line for line in job.printed if ": recording for " in line]) > captures, 30, lambda: job.printed)
            time.sleep(0.3)
        finally:
            client.kill()
            client.wait(10)
        begin = time.monotonic()
        profile_at_last(job.address, duration_ms=5)
        took.append(time.monotonic() - begin)
        if min(took) < 1:
            break
    assert min(took) < 1, took
    until(lambda: len(job.published()) >= len(took), 20, lambda: (job.published(), job.printed))
    for path in job.published():
        space = space_of(read(path))
        assert "went away" in "\n".join(space["warnings"])
        assert length_of(space) < 30
    assert job.stop() == 5


@pytest.mark.parametrize("timeout", [6, 12])
def test_a_deadline_before_the_end_of_the_window(shared_job, timeout):
    result = profiler_rpc.profile(shared_job.address, timeout=timeout, duration_ms=60_000)
    assert result.ok and result.seconds < timeout, result
    space = space_of(result.files()["xplane.pb"])
    assert re.search(r"this window was closed \S+ early", "\n".join(space["warnings"]))
    # Most of the time that there was.
    assert timeout - 4 < length_of(space) < timeout


@pytest.mark.parametrize("timeout", [0.8, 1.4])
def test_a_deadline_that_is_shorter_than_a_conversion_may_take(shared_job, timeout):
    for _ in range(5):  # a machine that has other things to do may need longer for the answer
        result = profiler_rpc.profile(shared_job.address, timeout=timeout, duration_ms=60_000)
        if result.ok:
            break
        until(lambda: profiler_rpc.profile(shared_job.address, duration_ms=5).ok, 20, "it is not idle again")
    assert result.ok, result
    space = space_of(result.files()["xplane.pb"])
    assert re.search(r"this window was closed \S+ early", "\n".join(space["warnings"]))
    assert timeout / 4 < length_of(space) < timeout


def big_job():
    """One that records tens of MB in seconds."""
    return Job("--max-profile-size=1GiB", "--wait-threshold=0", command=(PHASES, "0", "16", "100"))


# Records of a profile of over 6 MiB.
ENOUGH_SPOOLED = 32 << 20


def spooled(job):
    """Bytes of the job's records on the disk."""
    files = glob.glob(os.path.join(job.logdir, ".tbprof", "**"), recursive=True)
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def test_a_long_reply_arrives_though_the_command_has_ended():
    with big_job() as job:
        job.warm()
        call = profiler_rpc.start_profile(job.address, duration_ms=60_000, timeout=130)
        job.hear(": recording for ")
        deadline = time.monotonic() + 50
        while spooled(job) < ENOUGH_SPOOLED and time.monotonic() < deadline:
            time.sleep(0.05)
        begin = time.monotonic()
        assert job.stop() == 5
        assert time.monotonic() - begin < 30
        result = call.result()
    assert result.ok, result
    data = result.files()["xplane.pb"]
    # More than fits into the sockets' buffers.
    assert len(data) > 6 << 20
    space_of(data)


def slow_client(job, duration_ms):
    """A client that takes nothing of its answer."""
    request = profiler_rpc.make("ProfileRequest", profiler_rpc.profile_fields(job.address, duration_ms=duration_ms))
    connection = connect(job)
    body = frame(DATA, END_STREAM, 1, message(request.SerializeToString()))
    connection.sendall(greeting(0) + frame(HEADERS, END_HEADERS, 1, headers("/tensorflow.ProfilerService/Profile")) + body)
    job.hear(": recording for ")
    return connection


def test_a_client_that_dies_while_it_is_answered(job):
    connection = slow_client(job, 300)
    time.sleep(3)
    before = cpu_seconds_of(job.process.pid)
    time.sleep(2)
    # The launcher sleeps until then.
    assert cpu_seconds_of(job.process.pid) - before < 0.7
    # It may still take it.
    assert job.published() == [] and not [line for line in job.printed if " sent to " in line]
    connection.close()
    (path,) = until(job.published, 20, lambda: job.printed)
    space_of(read(path))
    assert job.stop() == 5


def test_the_command_ends_while_a_client_is_slow(job):
    with slow_client(job, 60_000):
        time.sleep(0.5)
        begin = time.monotonic()
        assert job.stop() == 5
        assert time.monotonic() - begin < 20
        (path,) = job.published()
        space_of(read(path))


# F49


def terminates(connection, first, session_ids):
    """Sends them on streams from `first` on, and waits until each is answered; that there were OKs is not looked at."""
    call = headers("/tensorflow.ProfilerService/Terminate")
    for i, session_id in enumerate(session_ids):
        request = profiler_rpc.make("TerminateRequest", {"session_id": session_id}).SerializeToString()
        stream = first + 2 * i
        connection.sendall(frame(HEADERS, END_HEADERS, stream, call) + frame(DATA, END_STREAM, stream, message(request)))
    ended, seen = 0, b""
    while ended < len(session_ids):
        part = connection.recv(1 << 20)
        assert part, "the connection was closed"
        seen += part
        while len(seen) >= 9 and len(seen) >= 9 + (size := int.from_bytes(seen[:3], "big")):
            kind, flags = seen[3], seen[4]
            assert kind != RST_STREAM, seen[:40]
            if kind == PING and not flags & ACK:
                connection.sendall(frame(PING, ACK, 0, seen[9:9 + size]))
            ended += kind == HEADERS and flags & END_STREAM
            seen = seen[9 + size:]
    return first + 2 * len(session_ids)


def test_terminates_of_nobody(job):
    profile_at_last(job.address)
    with connect(job) as connection:
        connection.settimeout(60)
        # Of what comes back, 1 GiB may: 20,000 answers are more than the 64 KiB without a word.
        connection.sendall(greeting() + frame(SETTINGS, ACK, 0) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))
        stream = 1
        for i in range(2_000 // 32):
            stream = terminates(connection, stream, [f"warm-{i}-{j}" for j in range(32)])
        with Size(job) as size:
            for i in range(20_000 // 32):
                stream = terminates(connection, stream, [f"{'x' * 100}-{i}-{j}" for j in range(32)])
        assert size.now() - size.begin < 8 << 10
        assert size.grown_mib < 32
    assert profiler_rpc.terminate(job.address, "nobody").ok
    expect_alive(job)
    assert length_of(profile_at_last(job.address, duration_ms=200)) > 0.19
    assert job.stop() == 5


# F51: the port.


def run(*options, command=("sh", "-c", "echo out; exit 7"), environment=()):
    with tempfile.TemporaryDirectory() as directory:
        arguments = [TBPROF, "run", "--window=none", "--logdir", directory, *options, "--", *command]
        return subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=dict(os.environ, **dict(environment)))


def test_a_busy_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(f"--port={port}")
        assert (result.returncode, result.stdout) == (7, "out\n")
        (line,) = [line for line in result.stderr.splitlines() if "--port" in line]
        assert line.startswith("tbprof: ") and f"--port={port}" in line and "--port=0" in line
        result = run(f"--port={port}", "--strict")
        assert (result.returncode, result.stdout) == (125, "")
        assert "--port=0" in result.stderr


def test_an_address_that_is_not_here():
    result = run("--port=0", "--listen=203.0.113.7")
    assert (result.returncode, result.stdout) == (7, "out\n")
    assert [line for line in result.stderr.splitlines() if "--port=0: cannot listen" in line]


def test_a_proxy_of_the_launchers_has_no_effect(tmp_path):
    nobody = "http://127.0.0.1:1"
    proxies = {name: nobody for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "all_proxy")}
    with Job(environment=proxies) as job:
        job.warm()
        profile_at_last(job.address)
        outcome = stock_client.trace(job.address, tmp_path, duration_ms=100)
        assert outcome.ok, outcome.error
        assert job.stop() == 5


def test_ipv6_alone(tmp_path):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    with Job("--listen=::1") as job:
        job.warm()
        with socket.socket() as connection:
            assert connection.connect_ex(("127.0.0.1", job.port)) != 0
        profile_at_last(f"[::1]:{job.port}")
        assert job.stop() == 5


# F52: more than a reply takes.


RANKS_OF_A_SHELL = """
for r in 0 1 2; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 TEST_FACTS=$TEST_FACTS.$r "$0" 0 8 100 & done
while ! test -f $TEST_FACTS.0; do sleep 0.05; done
while ! grep -q warm $TEST_FACTS.2; do sleep 0.05; done
cat $TEST_FACTS.2 > $TEST_FACTS
wait
"""


def limited_job(most, command):
    return Job("--max-profile-size=1GiB", "--wait-threshold=0", command=command, environment={"TBPROF_TEST_MAX_REPLY": str(most)})


@pytest.mark.parametrize("command, names", [
    ((PHASES, "0", "16", "100"), ["xplane.pb"]),
    (("/bin/bash", "-c", RANKS_OF_A_SHELL, PHASES), ["r1.xplane.pb", "r2.xplane.pb", "xplane.pb"]),
], ids=["one", "ranks"])
def test_a_reply_that_would_be_too_long(command, names):
    most = 600_000
    with limited_job(most, command) as job:
        job.warm()
        result = profiler_rpc.profile(job.address, duration_ms=1500)
        assert result.ok, result
        files = result.files()
        assert sorted(files) == names
        assert most / 4 < sum(map(len, files.values())) <= most
        for data in files.values():
            warnings = "\n".join(space_of(data)["warnings"])
            assert "a reply takes at most 585 KiB" in warnings and "not drawn" in warnings
        # What the job publishes itself is not limited.
        job.process.send_signal(signal.SIGUSR1)
        until(job.published, 60, lambda: job.printed)
        assert not any("a reply takes" in text for path in job.published() for text in space_of(read(path))["warnings"])


def test_a_reply_that_cannot_be_made_short_enough():
    with limited_job(1000, (PHASES, "0", "2", "2000")) as job:
        job.warm()
        result = profiler_rpc.profile(job.address, duration_ms=300)
        assert result.code == "RESOURCE_EXHAUSTED" and "job's own log directory" in result.details, result
        (path,) = until(job.published, 20, lambda: job.printed)
        assert not any("a reply takes" in text for text in space_of(read(path))["warnings"])
        # A second one is granted.
        assert profiler_rpc.profile(job.address, duration_ms=300).code == "RESOURCE_EXHAUSTED"
        assert job.stop() == 5


# F53: the wall clock is set.


@pytest.fixture(scope="module")
def clock_preload(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler")
    library = str(tmp_path_factory.mktemp("clock") / "steps_clock.so")
    source = os.path.join(HERE, "programs", "steps_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True, timeout=60)
    return library


@pytest.mark.parametrize("step", [3600, -3600])
def test_the_wall_clock_is_set_within_a_window(clock_preload, tmp_path, step):
    place = tmp_path / "step"
    place.write_text("0")
    clock = {"LD_PRELOAD": clock_preload, "CLOCK_STEP": str(place)}
    with Job(environment=clock) as job:
        job.warm()
        client = subprocess.Popen(
            [TBPROF, "capture", str(job.process.pid), "--duration=3s", "--retries=0", "--logdir", str(tmp_path / "own")],
            env=dict(os.environ, **clock), stderr=subprocess.PIPE, text=True)  # fmt: skip
        job.hear(": recording for 3s")
        begin = time.time()
        time.sleep(1)
        place.write_text(str(step))
        said = client.communicate(timeout=60)[1]
        assert client.returncode == 0, said
        (path,) = glob.glob(str(tmp_path / "own" / "**" / "*.xplane.pb"), recursive=True)
        space = space_of(read(path))
        assert 2.9 < length_of(space) < 4
        # The clock's old time: that is when it began.
        assert abs(test_capture.window_of(space)[0] - begin) < 2
        last = 0
        for plane in space["planes"]:
            for line in plane["lines"]:
                for event in line["events"]:
                    assert event["duration_ps"] >= 0 and 0 <= event["offset_ps"] <= 4e12
                    last = max(last, line["timestamp_ns"] / 1e9 + event["offset_ps"] / 1e12)
        assert 2.5 < last < 4
        # And of the next the new.
        place.write_text(str(2 * step))
        job.process.send_signal(signal.SIGUSR1)
        (path,) = until(job.published, 60, lambda: job.printed)
        assert abs(test_capture.window_of(space_of(read(path)))[0] - time.time() - 2 * step) < 60
        profile_at_last(job.address)
        assert job.stop() == 5


def test_clients_whose_clock_is_wrong(shared_job):
    for hours, code in ((-1, "OK"), (-1000, "OK"), (1.5, "INVALID_ARGUMENT")):
        start = time.time_ns() + int(hours * 3600e9)
        result = profiler_rpc.profile(shared_job.address, duration_ms=200, opts={"duration_ms": 200, "start_timestamp_ns": start})
        assert result.code == code, (hours, result)
        if code == "OK":
            space = space_of(result.files()["xplane.pb"])
            assert 0.19 < length_of(space) < 1
            assert abs(test_capture.window_of(space)[0] - time.time()) < 20


# Ends of those who take part.


def test_a_worker_that_is_killed(job):
    call = profiler_rpc.start_profile(job.address, duration_ms=60_000, timeout=130)
    job.hear(": recording for ")
    time.sleep(0.5)
    worker = worker_of(job)
    os.kill(worker, signal.SIGKILL)
    assert call.result().code == "UNAVAILABLE"
    job.hear(r"the process that serves the port has ended \(signal 9\)")
    profile_at_last(job.address)
    assert worker_of(job) not in (0, worker)
    (path,) = until(job.published, 20, lambda: job.printed)
    space = space_of(read(path))
    assert 0.3 < length_of(space) < 30
    assert "went away" in "\n".join(space["warnings"])
    expect_alive(job)
    assert job.stop() == 5


def test_workers_that_are_killed_again_and_again(job):
    for _ in range(3):
        profile_at_last(job.address, duration_ms=5)
        os.kill(worker_of(job), signal.SIGKILL)
    profile_at_last(job.address)
    assert job.stop() == 5
    assert not [pid for pid in children_of(job.process.pid)]


def test_a_worker_that_is_stopped(job):
    call = profiler_rpc.start_profile(job.address, duration_ms=1000, timeout=60)
    job.hear(": recording for ")
    worker = worker_of(job)
    for _ in range(3):
        os.kill(worker, signal.SIGSTOP)
        until(lambda: read("/proc", worker, "stat").rsplit(b")", 1)[1].split()[0] not in b"Tt", 20, "it stays stopped")
    assert call.result().ok
    job.hear("was stopped; it goes on")
    profile_at_last(job.address)
    assert worker_of(job) == worker
    expect_alive(job)
    assert job.stop() == 5
    assert len([line for line in job.printed if "was stopped" in line]) == 1


def test_the_worker_ends_when_nobody_comes(job):
    profile_at_last(job.address)
    worker = worker_of(job)
    with connect(job) as connection:
        connection.sendall(greeting())
        time.sleep(1)
    until(lambda: not os.path.exists(f"/proc/{worker}"), 50, "it stays")
    profile_at_last(job.address)
    assert not [line for line in job.printed if "has ended" in line], job.printed
    assert job.stop() == 5


def test_the_worker_ends_when_the_launcher_is_killed(job):
    with connect(job), grpc.insecure_channel(job.address) as channel:
        grpc.channel_ready_future(channel).result(20)
        call = profiler_rpc.start_profile(job.address, duration_ms=60_000, timeout=130)
        job.hear(": recording for ")
        worker, target = worker_of(job), target_of(job)
        ending = os.pidfd_open(worker)
        try:
            job.process.kill()
            job.process.wait(10)
            assert select.select([ending], [], [], 2)[0]
        finally:
            os.close(ending)
        assert call.result().code == "UNAVAILABLE"
        assert not os.path.exists(f"/proc/{worker}/exe") or "tbprof" not in command_line_of(worker)
        # The command goes on to its own end.
        assert command_line_of(target).startswith(PHASES)
        open(os.path.join(job.directory, "stop"), "w").close()
        until(lambda: "naps" in read(job.directory, "facts").decode(), 20, "the command does not end")


def test_the_worker_ignores_what_the_terminal_sends(job):
    profile_at_last(job.address)
    worker = worker_of(job)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        os.kill(worker, number)
    time.sleep(0.3)
    profile_at_last(job.address)
    assert worker_of(job) == worker
    assert job.stop() == 5


def test_whoever_reads_our_pipes_does_not_wait_for_clients():
    reading, writing = os.pipe()
    try:
        with Job(pass_fds=(writing,)) as job:
            os.close(writing)
            writing = -1
            job.warm()
            with connect(job), grpc.insecure_channel(job.address) as channel:
                grpc.channel_ready_future(channel).result(20)
                worker = worker_of(job)
                inherited, errors = (os.readlink(f"/proc/self/fd/{fd}") for fd in (reading, job.process.stderr.fileno()))
                assert inherited.startswith("pipe:") and errors.startswith("pipe:")
                # The launcher has only the pipe that it writes to, the worker neither.
                launchers = set(descriptors_of(job.process.pid).values())
                assert errors in launchers and inherited not in launchers
                assert not {inherited, errors} & set(descriptors_of(worker).values())
                begin = time.monotonic()
                open(os.path.join(job.directory, "stop"), "w").close()
                # The end of file on stderr.
                job._reader.join(20)
                assert not job._reader.is_alive()
                assert os.read(reading, 1) == b""
                assert time.monotonic() - begin < 20
                assert job.process.wait(10) == 5
            assert not os.path.exists(f"/proc/{worker}")
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_run_in_a_pipeline():
    with tempfile.TemporaryDirectory() as directory:
        script = 'cd "$1" && shift && TEST_FACTS=facts "$@" 2>&1 | cat'
        command = [TBPROF, "run", "--window=none", "--port=0", "--logdir", directory + "/logs", "--", PHASES, "0", "2", "2000"]
        shell = subprocess.Popen(["sh", "-c", script, "sh", directory, *command], stdout=subprocess.PIPE, text=True, start_new_session=True)
        try:
            port = 0
            for line in shell.stdout:
                if found := re.search(r"profiler service on 127\.0\.0\.1:(\d+)", line):
                    port = int(found.group(1))
                    break
            assert port
            with socket.create_connection(("127.0.0.1", port), 10), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                grpc.channel_ready_future(channel).result(20)
                profile_at_last(f"127.0.0.1:{port}")
                open(os.path.join(directory, "stop"), "w").close()
                assert shell.communicate(timeout=20)[0] is not None
            assert shell.returncode == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait(10)


# F59, over the port.


def test_three_hundred_windows(job):
    def size():
        worker = worker_of(job)
        found = {}
        for name, pid in (("launcher", job.process.pid), ("worker", worker)):
            found[name, "rss_kib"] = status_of(pid, "VmRSS")
            found[name, "descriptors"] = len(descriptors_of(pid))
            found[name, "threads"] = status_of(pid, "Threads")
        spool = glob.glob(os.path.join(job.logdir, ".tbprof", "*"))
        found["spool", "files"] = len(spool)
        found["spool", "bytes"] = sum(os.path.getsize(path) for path in spool if os.path.isfile(path))
        return found, worker

    def capture(count):
        for _ in range(count):
            result = profiler_rpc.profile(job.address, duration_ms=5)
            assert result.ok, result

    capture(50)
    warm, worker = size()
    capture(250)
    until(lambda: not glob.glob(os.path.join(job.logdir, ".tbprof", "*.capture-*")), 10, "an answer is left")
    after, same = size()
    assert same == worker
    print(warm, after, sep="\n")
    for part, allowed in (("launcher", 4 << 10), ("worker", 4 << 10)):
        assert after[part, "rss_kib"] <= warm[part, "rss_kib"] + allowed, (warm, after)
        assert after[part, "descriptors"] <= warm[part, "descriptors"] + 4, (warm, after)
        assert after[part, "threads"] <= warm[part, "threads"] + 2, (warm, after)
    assert after["spool", "files"] <= 2
    assert after["spool", "bytes"] <= warm["spool", "bytes"] + 250 * 4096
    assert job.published() == []
    assert job.stop() == 5
