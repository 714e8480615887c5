#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of README.md, as they are written, in a clean Debian 12 as a user: run.py DIST WHEELS

DIST has tbprof's wheel. WHEELS is a directory for TensorBoard and xprof, which pip downloads here: the root itself has no
network. Their versions are those of scripts/requirements-test.txt. A command of README.md that is not in the tables below
is a failure; what compiles the whole tree is named with the test that runs it.
"""

import fcntl
import gzip
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
USER = 1234

FIRST_TRACE = [
    "python3 -m venv env && ./env/bin/pip install ./dist/tbprof-*.whl tensorboard xprof",
    "./env/bin/tbprof run -- python train.py",
    "./env/bin/tensorboard --logdir ./tbprof-logs",
]
BLOCKS = [["tbprof run -- python train.py"], FIRST_TRACE]
IN_TEXT = {
    "kill -USR1 PID",
    "tbprof run --window=last=30s -- ...",
    "tbprof run --window=none --port=6009 -- ...",
    "tbprof capture localhost:6009",
    "tbprof doctor -- COMMAND",
    "tbprof check LOGDIR",
    "tbprof report",
    "pip install ./dist/tbprof-*.whl",
}
COMPILES = {
    "./scripts/build_wheel.sh": "packages_build",
    "./scripts/build_packages.sh": "packages_build",
    "cmake --install build --prefix /opt/tbprof": "check_install",
    "./scripts/quickstart.sh": "by hand, minutes; check_install has its target",
    "tbprof ab --base 'CMD A' --new 'CMD B'": "ci_examples",
    "tbprof compare BASE NEW": "ci_examples",
    "tbprof attach PID": "run_attach_test: the right to read another process differs between machines",
    "build/bin/tbprof run -- python3 your_training.py": "the integration tests",
}
# An inline code span that starts so is a command, if it has more than one word or is a path.
COMMAND = re.compile(r"(kill|tbprof|pip|python3?|cmake|tensorboard|apt-get|git|sudo|make|docker)\s+\S|\./\S|build/\S")


def check_readme():
    """Every command of README.md, and of the ways to install, is one that is run."""
    support = (SOURCE / "docs/support.md").read_text().split("\n## Installation\n")[1].split("\n## ")[0]
    text = (SOURCE / "README.md").read_text()
    fences = re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    blocks = [[line[2:] for line in fence.splitlines() if line.startswith("$ ")] for fence in fences]
    # What tbprof prints is no command.
    blocks = [block for block, fence in zip(blocks, fences) if not fence.startswith("tbprof: ")]
    assert blocks == BLOCKS, f"README.md has command blocks that this test does not run: {blocks}"
    for block, fence in zip(blocks, [fence for fence in fences if not fence.startswith("tbprof: ")]):
        assert len(block) == len(fence.splitlines()), f"README.md: a line without $ in a command block: {fence}"
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL) + support
    found = {span for span in re.findall(r"`([^`\n]+)`", outside) if COMMAND.match(span)}
    assert found == IN_TEXT | COMPILES.keys(), f"README.md and this test differ in: {found ^ (IN_TEXT | COMPILES.keys())}"


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def download(wheels):
    if subprocess.run([SOURCE / "scripts/venv.sh", "--check"], capture_output=True).returncode != 0:
        skip("no virtual environment with pip (scripts/venv.sh makes it; needs PyPI)")
    done = subprocess.run(
        [SOURCE / ".venv/bin/python", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
         "--python-version=3.11", "--only-binary=:all:", f"--find-links={wheels}", f"--dest={wheels}",
         "--constraint", SOURCE / "scripts/requirements-test.txt", "tensorboard", "xprof"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        skip(f"pip downloads no TensorBoard: {done.stdout.strip().splitlines()[-1]}")


class Root:
    """A shell of the user in the root, in the directory where the reader works."""

    def __init__(self, dist, wheels):
        self.path = pathlib.Path(os.environ["TBPROF_DEBIAN_ROOT"])
        home = self.path / "home/reader"
        for name in (home, home / "dist", self.path / "wheels"):
            name.mkdir()
        subprocess.run(["cp", *dist.glob("*.whl"), home / "dist"], check=True)
        subprocess.run(["cp", SOURCE / "tests/readme/train.py", home], check=True)
        subprocess.run(["mount", "--bind", wheels, self.path / "wheels"], check=True)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", home], check=True)
        self.home = home
        # The environment of the reader's program is another one than that of tbprof.
        made = self.start("python3 -m venv program && program/bin/pip install --quiet numpy")
        assert made.wait() == 0

    def start(self, script, **options):
        return subprocess.Popen(
            ["chroot", f"--userspec={USER}:{USER}", self.path, "env", "-i", "HOME=/home/reader", "PATH=/home/reader/program/bin:/usr/bin:/bin",
             "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels", "bash", "-e", "-c", f"cd; {script}"], **options)

    def run(self, command, on_path=True):
        script = f"PATH=$PATH:$HOME/env/bin; {command}" if on_path else command
        done = self.start(script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = done.communicate()[0]
        assert done.returncode == 0, f"{command}: exit status {done.returncode}\n{output}"
        print(f"ran: {command}", flush=True)
        return output

    def profiles(self):
        return len(list(self.home.glob("tbprof-logs/plugins/profile/*/*.xplane.pb")))


class Job:
    """A command that trains until it is ended."""

    def __init__(self, root, command):
        self.flag = root.home / "keep-training"
        self.flag.touch()
        started = root.home / "training"
        started.unlink(missing_ok=True)
        self.command = command
        self.process = root.start(f"PATH=$PATH:$HOME/env/bin; {command}", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.pid = self.wait_for(r"kill -USR1 (\d+)").group(1)
        # The line comes before the program: a capture of nothing would be reported as one.
        while not started.exists():
            assert self.process.poll() is None, f"{command}: ended with {self.process.returncode}"
            time.sleep(0.05)

    def wait_for(self, pattern):
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"{self.command}: no {pattern} in {seen}")

    def end(self):
        self.flag.unlink()
        rest = self.process.stderr.read()
        assert self.process.wait() == 0, rest
        print(f"ran: {self.command}", flush=True)


def loopback_up():
    with socket.socket() as any_socket:
        # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))


def first_trace(root):
    """The block as a reader pastes it; its last command serves until it is ended."""
    viewer = root.start("\n".join(FIRST_TRACE[:-1]) + f"\nexec {FIRST_TRACE[-1]}")
    runs = []
    while not runs:
        assert viewer.poll() is None, f"the commands ended with {viewer.returncode}"
        try:
            with urllib.request.urlopen("http://localhost:6006/data/plugin/profile/runs") as reply:
                body = reply.read()
                # xprof compresses always.
                runs = json.loads(gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body)
        except OSError:
            # Not yet there. What is waited for is the reply; ctest's timeout bounds it.
            time.sleep(0.2)
    assert root.profiles() == 1 and len(runs) == 1, runs
    viewer.terminate()
    viewer.wait()
    print(f"TensorBoard lists {runs}", flush=True)


def in_text(root):
    # TensorBoard is in tbprof's environment, which a shell does not know.
    output = root.run(FIRST_TRACE[1], on_path=False)
    assert "view: /home/reader/env/bin/tensorboard --logdir" in output and "view needs" not in output, output
    # Of the run that the first trace left: what a client of the port writes has no summary.
    assert "verdict: " in root.run("tbprof report")
    assert "FAIL" not in root.run("tbprof doctor -- COMMAND".replace("COMMAND", "python train.py"))

    job = Job(root, "tbprof run --window=last=30s -- ...".replace("...", "python train.py"))
    before = root.profiles()
    root.run("kill -USR1 PID".replace("PID", job.pid))
    job.wait_for(r"xplane\.pb .*verified")
    assert root.profiles() == before + 1
    job.end()

    job = Job(root, "tbprof run --window=none --port=6009 -- ...".replace("...", "python train.py"))
    before = root.profiles()
    root.run("tbprof capture localhost:6009")
    assert root.profiles() == before + 1
    job.end()
    assert "xplane.pb" in root.run("tbprof check LOGDIR".replace("LOGDIR", "tbprof-logs"))


def main():
    if "TBPROF_DEBIAN_ROOT" in os.environ:
        loopback_up()
        root = Root(*map(pathlib.Path, sys.argv[1:]))
        first_trace(root)
        in_text(root)
        return
    check_readme()
    dist, wheels = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    assert len(list(dist.glob("*.whl"))) == 1, f"not one wheel in {dist}: scripts/build_packages.sh"
    wheels.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        download(wheels)
    script = SOURCE / "scripts/debian_root.sh"
    os.execv(script, [script, "bookworm", "unshare", "--net", os.path.abspath(__file__), str(dist), str(wheels)])


main()
