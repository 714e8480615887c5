"""Starts TensorBoard on a log directory and takes pictures of the Profile plugin.

    .venv/bin/python tests/xprof/screenshot.py LOGDIR OUT_DIR [--run RUN] [--page trace] [--page overview]
                                               [--start-ms A --end-ms B] [--size 1600x1000]

Needs Debian's `chromium`. Every process started here is ended by its id. Prints JSON: the pictures,
how long each page took, and which addresses the page could not load (it tries some on the internet).
`serve()` and `Browser` are importable.
"""

import argparse
import base64
import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

PLUGIN = "/data/plugin/profile"

# All text of the page, shadow roots included.
SHOWN_TEXT = """(function text(node) {
  if (node.nodeType == 3) return node.textContent;
  if (/^(SCRIPT|STYLE|TEMPLATE)$/.test(node.nodeName)) return '';
  let all = node.shadowRoot ? text(node.shadowRoot) : '';
  for (const child of node.childNodes) all += text(child) + ' ';
  return all;
})(document.body)"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def stop(process):
    """Ends the process group that we started, by its id."""
    for number, wait in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait)
            return


def get(base, path, timeout=120, **query):
    url = base + path + ("?" + urllib.parse.urlencode(query) if query else "")
    with urllib.request.urlopen(url, timeout=timeout) as reply:
        body = reply.read()
    if body[:2] == b"\x1f\x8b":  # the plugin compresses always
        body = gzip.decompress(body)
    return json.loads(body) if body else None


@contextlib.contextmanager
def serve(logdir, standalone=False, timeout=60, **popen):
    """Yields (base URL, process) of TensorBoard, or of the xprof server, on a free loopback port."""
    port = free_port()
    bin_dir = os.path.dirname(sys.executable)
    if standalone:
        command = [os.path.join(bin_dir, "xprof"), "--logdir", logdir, "--port", str(port)]
        command += ["--grpc_port", str(free_port())]
    else:
        command = [os.path.join(bin_dir, "tensorboard"), "--logdir", logdir, "--port", str(port)]
        command += ["--host", "127.0.0.1", "--load_fast=false"]
    log = tempfile.TemporaryFile()
    process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **popen)
    base = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                get(base, PLUGIN + "/runs", 5)
                break
            except (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError) as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    text = log.read().decode("utf-8", "replace")
                    raise RuntimeError(f"{command[0]} does not answer: {error}\n{text}") from error
                time.sleep(0.2)
        process.log = log
        yield base, process
    finally:
        stop(process)


def wait_for_run(base, run=None, timeout=30):
    deadline = time.monotonic() + timeout
    while True:
        runs = get(base, PLUGIN + "/runs")
        if runs and (run is None or run in runs):
            return run or runs[0]
        if time.monotonic() > deadline:
            raise RuntimeError(f"run {run!r} is not listed; listed: {runs}")
        time.sleep(0.5)


class Browser:
    """Headless Chromium, driven through the DevTools protocol."""

    def __init__(self, size="1600x1000"):
        import websocket  # the package websocket-client

        width, height = size.split("x")
        self._profile = tempfile.mkdtemp(prefix="chromium.")
        self.process = subprocess.Popen(
            [
                shutil.which("chromium") or "chromium",
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
                f"--window-size={width},{height}",
                f"--user-data-dir={self._profile}",
                "--remote-debugging-port=0",
                "--remote-allow-origins=*",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            port = self._wait_for_port()
            tabs = get(f"http://127.0.0.1:{port}", "/json")
            page = next(tab for tab in tabs if tab["type"] == "page")
            self._socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=60)
        except BaseException:
            self.close()
            raise
        self._id = 0
        self.failed = {}  # address -> reason
        self.console = []
        self.errors = []  # what the console shows as errors, such as what a content security policy refuses
        self._pending = {}
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=int(width),
            height=int(height),
            deviceScaleFactor=1,
            mobile=False,
        )

    def _wait_for_port(self):
        path = os.path.join(self._profile, "DevToolsActivePort")
        for _ in range(150):
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    if (line := file.readline()).strip():
                        return int(line)
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError("chromium did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        stop(self.process)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _handle(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self._pending[params["requestId"]] = params["request"]["url"]
        elif method == "Network.loadingFailed":
            url = self._pending.get(params["requestId"], "?")
            self.failed[url] = params.get("errorText", "")
        elif method == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"].get("text", ""))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str([argument.get("value") for argument in params["args"]]))

    def call(self, method, **params):
        self._id += 1
        self._socket.send(json.dumps({"id": self._id, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._id:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._handle(message)

    def eval(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails'].get('text')}")
        return result["result"].get("value")

    def goto(self, url):
        self.call("Page.navigate", url=url)

    def wait(self, condition, timeout=60, settle=1.0):
        """Until the JavaScript condition holds; returns seconds, or None when it never did."""
        begin = time.monotonic()
        while time.monotonic() - begin < timeout:
            with contextlib.suppress(RuntimeError):
                if self.eval(condition):
                    took = time.monotonic() - begin
                    time.sleep(settle)
                    return took
            time.sleep(0.2)
        return None

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, text):
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, key=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=text)

    def save(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))


def trace_url(base, run, host=None, start_ms=None, end_ms=None):
    """The trace viewer alone, without the frame of the plugin around it."""
    query = {"run": run, "tag": "trace_viewer@"}
    if host:
        query["hosts"] = host  # the viewer adds hosts=none, which nothing matches, when this is missing
    data = PLUGIN + "/data?" + urllib.parse.urlencode(query)  # must be relative
    page = {"trace_data_url": data, "is_streaming": "true", "is_oss": "true"}
    if start_ms is not None:
        page.update(view_start=start_ms, view_end=end_ms)
    return base + PLUGIN + "/trace_viewer_index.html?" + urllib.parse.urlencode(page)


def page_url(base, run, tool):
    """One tool of the plugin, as TensorBoard shows it in its frame."""
    query = urllib.parse.urlencode({"run": run, "tag": tool})
    return base + PLUGIN + "/index.html?" + query


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("logdir")
    parser.add_argument("out_dir")
    parser.add_argument("--run")
    parser.add_argument("--host")
    parser.add_argument("--page", action="append", help="trace (default), or a tool such as overview_page")
    parser.add_argument("--start-ms", type=float)
    parser.add_argument("--end-ms", type=float)
    parser.add_argument("--size", default="1600x1000")
    parser.add_argument("--settle", type=float, default=2.0, help="seconds between loaded and picture")
    args = parser.parse_args()
    os.makedirs(args.out_dir, exist_ok=True)
    result = {"pictures": {}, "seconds": {}, "errors": []}
    with serve(args.logdir) as (base, _), Browser(args.size) as browser:
        run = wait_for_run(base, args.run)
        host = args.host
        if not host:
            hosts = get(base, PLUGIN + "/hosts", run=run, tag="trace_viewer@")
            names = [entry["hostname"] for entry in hosts]
            host = next((name for name in names if not name.isupper()), names[0])
        for page in args.page or ["trace"]:
            if page == "trace":
                browser.goto(trace_url(base, run, host, args.start_ms, args.end_ms))
                ready = "(pid "  # ends the heading of every process
            else:
                browser.goto(page_url(base, run, page))
                ready = run
            took = browser.wait(f"({SHOWN_TEXT}).includes({json.dumps(ready)})", settle=args.settle)
            result["seconds"][page] = took and round(took, 2)
            if took is None or "could not be loaded" in (browser.eval(SHOWN_TEXT) or ""):
                result["errors"].append(f"{page}: not shown")
            name = re.sub(r"[^A-Za-z0-9_]+", "_", f"{run}_{page}").strip("_")
            path = os.path.join(args.out_dir, name + ".png")
            browser.save(path)
            result["pictures"][page] = path
        result["not_loaded"] = browser.failed
        result["exceptions"] = browser.console
    print(json.dumps(result, indent=1))
    return 1 if result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
