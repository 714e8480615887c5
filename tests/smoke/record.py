#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records with an installed tbprof and reads what the profiles hold: record.py TBPROF EMPTY_DIRECTORY [SIMULATOR]

Only Python's own library (3.9 and newer): scripts/smoke_test.sh runs it in small roots of several distributions.
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys

PROGRAM = """
import os, signal, subprocess, sys, threading
CHILD = '''
import sys, threading, time
thread = threading.Thread(target=time.sleep, args=(0.02,), name="pause")
thread.start(); thread.join()
print("ready", flush=True)
sys.stdin.read()
'''
children = [subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
for child in children:
    assert child.stdout.readline() == b"ready\\n"
children[1].send_signal(signal.SIGKILL)
assert children[1].wait() == -signal.SIGKILL
for child in (children[0], children[2]):
    child.stdin.close()
    assert child.wait() == 0
print(os.getpid(), *[child.pid for child in children])
"""

# Works until its input ends.
LOOP = """
import sys, threading
ended = threading.Event()
def work():
    while not ended.wait(0.002):
        bytearray(1 << 20)
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
sys.stdin.read()
ended.set()
thread.join()
"""


def fields(message):
    """(number, value) of a protobuf message's integers and byte strings."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 2:
            size = varint()
            yield key >> 3, message[at : at + size]
            at += size
        else:
            at += 8 if key & 7 == 1 else 4


def read_planes(logdir):
    """Of the one profile there: its path, and {plane: {line: events}}."""
    paths = glob.glob(f"{logdir}/plugins/profile/*/*.xplane.pb")
    assert len(paths) == 1, f"profiles in {logdir}: {paths}"
    planes = {}
    with open(paths[0], "rb") as file:
        space = file.read()
    for number, plane in fields(space):
        if number != 1:
            continue
        name, lines = "", {}
        for field, value in fields(plane):
            if field == 2:
                name = value.decode()
            if field == 3:
                parts = list(fields(value))
                line = [text.decode() for key, text in parts if key == 2]
                lines[line[0] if line else ""] = sum(key == 4 for key, _ in parts)
        planes[name] = lines
    return paths[0], planes


def read_profile(logdir):
    """The planes and the summary of the one profile there."""
    path, planes = read_planes(logdir)
    with open(os.path.join(os.path.dirname(path), "summary.json")) as file:
        return planes, json.load(file)


def lines_of(planes, pid):
    """Threads of a process, by their lines `NAME/TID` on its plane; the command's own plane has no pid in its name."""
    own = {}
    for name, lines in planes.items():
        if name.endswith(f" pid {pid}") or any(line.endswith(f"/{pid}") for line in lines):
            own.update({line: events for line, events in lines.items() if re.search(r"/\d+$", line)})
    return own


def check_children(tbprof, logdir):
    done = subprocess.run(
        [tbprof, "run", f"--logdir={logdir}", "--", sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    parent, *children = [int(word) for word in done.stdout.split()]
    planes, summary = read_profile(logdir)
    recorded = {process["pid"]: process for process in summary["processes"]}
    assert set(recorded) == {parent, *children}, (recorded.keys(), parent, children)
    for pid in (parent, *children):
        assert recorded[pid]["state"] == "recorded" and recorded[pid]["records"] > 0, recorded[pid]
        assert recorded[pid]["allocator"]["allocations"] > 100, recorded[pid]
        assert sum(lines_of(planes, pid).values()) > 0, (pid, planes)
    for pid in children:
        # The killed one's second thread as well: its records outlive it.
        assert len(lines_of(planes, pid)) >= 2, (pid, planes)
    assert summary["records"]["corrupt"] == 0 and not summary["records"]["dropped"], summary["records"]
    assert not summary["unrecorded"] and not summary["warnings"], summary
    return f"{len(recorded)} processes, {summary['threads']} threads, {summary['records']['decoded']} records"


class Job:
    """LOOP under `tbprof run --window=none`, which records nothing until it is asked."""

    def __init__(self, tbprof, logdir, *options):
        self.process = subprocess.Popen(
            [tbprof, "run", "--window=none", f"--logdir={logdir}", *options, "--", sys.executable, "-c", LOOP],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def wait_for(self, pattern):
        seen = []
        for line in self.process.stderr:
            found = re.search(pattern, line)
            if found:
                return found
            seen.append(line)
        raise AssertionError(f"no {pattern} in {seen}")

    def end(self):
        self.process.stdin.close()
        rest = self.process.stderr.read()
        assert self.process.wait() == 0, rest


def check_window(planes):
    # The main thread waits in one call from before the window to after it: the events are the other thread's.
    events = sum(count for lines in planes.values() for line, count in lines.items() if re.search(r"/\d+$", line))
    assert events >= 10, planes
    return f"{events} events"


def check_signal(tbprof, logdir):
    job = Job(tbprof, logdir, "--window-duration=300ms")
    job.process.send_signal(signal.SIGUSR1)
    job.wait_for(r"xplane\.pb .*verified")
    job.end()
    planes, summary = read_profile(logdir)
    assert [process["state"] for process in summary["processes"]] == ["recorded"], summary["processes"]
    assert summary["processes"][0]["allocator"]["allocations"] > 10, summary["processes"]
    return check_window(planes)


def check_port(tbprof, logdir):
    job = Job(tbprof, logdir + "-job", "--port=0")
    port = job.wait_for(r"profiler service on 127\.0\.0\.1:(\d+)").group(1)
    # By a name: the launcher's look-up of names is that of this machine's glibc.
    done = subprocess.run([tbprof, "capture", "--duration=300ms", f"--logdir={logdir}", f"localhost:{port}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    job.end()
    assert done.returncode == 0, done.stdout
    return check_window(read_planes(logdir)[1])


def check_check(tbprof, logdir):
    done = subprocess.run([tbprof, "check", "--json", logdir], stdout=subprocess.PIPE, text=True)
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["result"] == "pass", report
    assert len(report["profile"]["runs"]) == 1 and report["profile"]["runs"][0]["bytes"] > 1000, report
    return f"{report['profile']['runs'][0]['bytes']} bytes"


def check_doctor(tbprof):
    done = subprocess.run([tbprof, "doctor", "--json"], stdout=subprocess.PIPE, text=True)
    report = json.loads(done.stdout)
    rows = {row["name"]: row for row in report["rows"]}
    failed = [row for row in report["rows"] if row["verdict"] == "FAIL"]
    assert done.returncode == 0 and not failed, failed
    for name in ("system", "library", "self-test", "driver"):
        assert rows[name]["verdict"] == "PASS", rows[name]
    return rows["system"]["found"]


def check_gpu(tbprof, simulator, logdir):
    """On the simulated CUDA libraries (tests/sim), which are built for this project's own glibc."""
    version = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    if tuple(int(part) for part in version.split(".")) < (2, 36):
        return f"not here, the simulator needs glibc 2.36 (this is {version})"
    done = subprocess.run(
        [tbprof, "run", "--require-gpu", f"--logdir={logdir}", "--", f"{simulator}/subjects/train", "40"],
        env={**os.environ, "LD_LIBRARY_PATH": f"{simulator}/cuda13"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    planes, _ = read_profile(logdir)
    events = sum(sum(lines.values()) for name, lines in planes.items() if name.startswith("/device:GPU:"))
    assert events >= 40, planes
    return f"{events} events"


def main():
    tbprof, directory, *simulator = (os.path.abspath(path) for path in sys.argv[1:])
    os.chdir(directory)
    steps = (("children, one killed", check_children, "children"), ("capture by signal", check_signal, "signal"),
             ("capture by port", check_port, "port"), ("check", check_check, "children"))
    for name, step, logdir in steps:
        print(f"  {name}: {step(tbprof, os.path.join(directory, logdir))}", flush=True)
    if simulator:
        print(f"  GPU: {check_gpu(tbprof, simulator[0], os.path.join(directory, 'gpu'))}", flush=True)
    print(f"  doctor: {check_doctor(tbprof)}", flush=True)


main()
