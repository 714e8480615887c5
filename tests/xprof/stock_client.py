# SPDX-License-Identifier: Apache-2.0
"""Captures and monitors with a stock client, in a process of its own, and says as JSON what came of it.

    .venv/bin/python tests/xprof/stock_client.py trace HOST:PORT[,HOST:PORT...] LOGDIR [--duration-ms 500]
                     [--attempts 1] [--workers HOST:PORT,...] [--option delay_ms=2000] [--client xprof|tensorflow]
    .venv/bin/python tests/xprof/stock_client.py monitor HOST:PORT [--duration-ms 500] [--level 1] [--timestamp]

`xprof` is the native client that TensorBoard's button uses; it needs no TensorFlow. `tensorflow` is
tf.profiler.experimental.client. docs/stock-clients.md has what both of them do. `trace()` and `monitor()` run this
file and return an Outcome; `start_trace()` does not wait.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time


@dataclasses.dataclass
class Outcome:
    ok: bool
    error: str  # what was raised, without its type
    error_type: str
    result: str  # of monitor
    seconds: float
    files: list  # below LOGDIR, that were not there before
    log: str  # what the native layer wrote to stderr

    def runs(self):
        """{run: [files]} of what is new."""
        found = {}
        for path in self.files:
            parts = path.split(os.sep)
            if parts[:2] == ["plugins", "profile"] and len(parts) == 4:
                found.setdefault(parts[2], []).append(parts[3])
        return found


def files_below(directory):
    return {
        os.path.relpath(os.path.join(base, name), directory)
        for base, _, names in os.walk(directory)
        for name in names
    }


class Client:
    """A stock client under way."""

    def __init__(self, arguments, logdir=None, python=sys.executable, environment=None):
        self._logdir = logdir
        self._before = files_below(logdir) if logdir else set()
        self._log = tempfile.TemporaryFile()
        surroundings = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="0", **(environment or {}))
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__)] + arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            text=True,
            env=surroundings,
        )

    def running(self):
        return self.process.poll() is None

    def log(self):
        """What the native layer has written so far."""
        return os.pread(self._log.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def kill(self):
        if self.running():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def result(self, timeout=180):
        try:
            out, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            out, _ = self.process.communicate()
        log = self.log()
        self._log.close()
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if lines:
            said = json.loads(lines[-1])
        else:
            said = {"ok": False, "error": f"exit {self.process.returncode}", "error_type": "Died", "result": ""}
            said["seconds"] = 0.0
        new = sorted(files_below(self._logdir) - self._before) if self._logdir else []
        return Outcome(files=new, log=log, **said)


def start_trace(
    address,
    logdir,
    duration_ms=500,
    attempts=1,
    workers="",
    options=None,
    client="xprof",
    python=sys.executable,
    environment=None,
):
    arguments = ["trace", address, str(logdir), "--duration-ms", str(duration_ms), "--attempts", str(attempts)]
    arguments += ["--workers", workers, "--client", client]
    for name, value in (options or {}).items():
        arguments += ["--option", f"{name}={json.dumps(value)}"]
    return Client(arguments, str(logdir), python, environment)


def trace(*arguments, timeout=180, **named):
    return start_trace(*arguments, **named).result(timeout)


def monitor(
    address,
    duration_ms=500,
    level=1,
    timestamp=False,
    client="xprof",
    python=sys.executable,
    environment=None,
    timeout=180,
):
    arguments = ["monitor", address, "--duration-ms", str(duration_ms), "--level", str(level), "--client", client]
    if timestamp:
        arguments.append("--timestamp")
    return Client(arguments, None, python, environment).result(timeout)


# In the process of its own.


def _trace(args, options):
    if args.client == "tensorflow":
        import tensorflow as tf

        wanted = tf.profiler.experimental.ProfilerOptions(**options) if options else None
        begin = time.monotonic()
        tf.profiler.experimental.client.trace(
            args.address, args.logdir, args.duration_ms, args.workers, args.attempts, wanted
        )
    else:
        from xprof.convert import _pywrap_profiler_plugin as native

        # As xprof/profile_plugin.py calls it.
        begin = time.monotonic()
        native.trace(args.address, args.logdir, args.workers, True, args.duration_ms, args.attempts, options)
    return "", begin


def _monitor(args):
    if args.client == "tensorflow":
        import tensorflow as tf

        client = tf.profiler.experimental.client
        if args.timestamp:  # tf's function does not offer it
            raise NotImplementedError("timestamp")
        return client.monitor(args.address, args.duration_ms, args.level)
    from xprof.convert import _pywrap_profiler_plugin as native

    return native.monitor(args.address, args.duration_ms, args.level, args.timestamp)


def option(text):
    """(name, value) of NAME=VALUE, VALUE being JSON or text."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["trace", "monitor"])
    parser.add_argument("address")
    parser.add_argument("logdir", nargs="?")
    parser.add_argument("--duration-ms", type=int, default=500)
    parser.add_argument("--attempts", type=int, default=1)
    parser.add_argument("--workers", default="")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="VALUE is JSON, or text")
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--timestamp", action="store_true")
    parser.add_argument("--client", choices=["xprof", "tensorflow"], default="xprof")
    args = parser.parse_args()
    said = {"ok": True, "error": "", "error_type": "", "result": ""}
    begin = time.monotonic()
    try:
        if args.command == "trace":
            said["result"], begin = _trace(args, dict(map(option, args.option)))
        else:
            said["result"] = _monitor(args)
    except Exception as error:  # noqa: BLE001: whatever it is, it is the outcome
        said.update(ok=False, error=getattr(error, "message", None) or str(error), error_type=type(error).__name__)
    said["seconds"] = round(time.monotonic() - begin, 3)
    print(json.dumps(said), flush=True)
    return 0 if said["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
