# SPDX-License-Identifier: Apache-2.0
"""Presses "Capture profile" as a user does, in TensorBoard or in the standalone `xprof` server, by headless Chromium.

    .venv/bin/python tests/xprof/capture_click.py HOST:PORT[,HOST:PORT...] LOGDIR OUT_DIR [--server tensorboard|xprof]
                     [--duration-ms 1000] [--retries N] [--delay-ms N] [--timeout 120]

Prints JSON: the message that the page showed, the request that the dialog sent and its answer, the runs that were not
there before, when the page shows the new one, and the pictures. `capture()` does the same for a test. What the
dialog does with answers is in docs/stock-clients.md.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import screenshot  # noqa: E402

# In every document of the page, frames included: TensorBoard shows the plugin in one.
FIND = """((wanted) => {
  const look = (view, left, top) => {
    let document_;
    try { document_ = view.document; } catch (error) { return null; }
    const found = wanted(document_);
    if (found) {
      found.scrollIntoView({block: 'nearest'});
      const box = found.getBoundingClientRect();
      return {text: found.textContent.trim(), value: found.value, disabled: !!found.disabled, width: box.width,
              focused: document_.activeElement === found,
              x: left + box.left + box.width / 2, y: top + box.top + box.height / 2};
    }
    for (const frame of document_.querySelectorAll('iframe')) {
      const box = frame.getBoundingClientRect();
      if (!box.width) continue;
      const inner = frame.contentWindow && look(frame.contentWindow, left + box.left, top + box.top);
      if (inner) return inner;
    }
    return null;
  };
  return look(window, 0, 0);
})"""

# Their conditions are compared without case and space: the buttons are in capitals by a style or by the program.
BUTTON = """(d) => [...d.querySelectorAll('button')].find((b) =>
  b.getBoundingClientRect().width && b.textContent.replace(/\\s+/g, ' ').trim().toLowerCase() == %s)"""
INPUT = """(d) => {
  const field = [...d.querySelectorAll('mat-dialog-content mat-form-field')].find((f) =>
    (f.querySelector('mat-label') || f).textContent.trim().toLowerCase().startsWith(%s));
  return field && field.querySelector('input');
}"""
MESSAGE = "(d) => d.querySelector('.mat-mdc-snack-bar-label, simple-snack-bar')"
ADVANCED = "(d) => d.querySelector('mat-dialog-content mat-expansion-panel-header')"
DIALOG = "(d) => d.querySelector('mat-dialog-content')"
CHOSEN_RUN = """(d) => [...d.querySelectorAll('mat-select')].find((s) => s.textContent.includes(%s))"""


@dataclasses.dataclass
class Capture:
    message: str  # None: the page never showed one
    request: dict  # the query of the dialog's GET
    status: int  # of its answer
    answer: str
    runs: list  # those that were not there before
    shown: str  # when the page has the new run chosen: "at once", "after a reload", "in a new page", "" for never
    seconds: float  # from the click to the message
    pictures: dict
    log: str = ""  # what TensorBoard wrote


class Clicker(screenshot.Browser):
    def __init__(self, *arguments):
        self.captures = {}  # id of the request -> {url, status}
        super().__init__(*arguments)

    def _handle(self, message):
        super()._handle(message)
        method, params = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent" and "/capture_profile?" in params["request"]["url"]:
            self.captures[params["requestId"]] = {"url": params["request"]["url"], "method": params["request"]["method"]}
        elif method == "Network.responseReceived" and params["requestId"] in self.captures:
            self.captures[params["requestId"]]["status"] = params["response"]["status"]

    def find(self, wanted):
        return self.eval(f"{FIND}({wanted})")

    def wait_for(self, wanted, timeout=60, gone=False):
        """The element, or None when it never came; the first look is at once."""
        deadline = time.monotonic() + timeout
        while True:
            found = None
            with contextlib.suppress(RuntimeError):
                found = self.find(wanted)
            if (found is None) if gone else (found is not None and not found["disabled"]):
                return found
            if time.monotonic() > deadline:
                return None
            time.sleep(0.1)

    def press(self, wanted, what, timeout=60):
        if self.wait_for(wanted, timeout) is None:
            raise RuntimeError(f"no {what} on the page: {(self.eval(screenshot.SHOWN_TEXT) or '')[:500]}")
        self.settled(wanted)
        found = self.find(wanted)
        self.click(found["x"], found["y"])

    def settled(self, wanted):
        """Until it has stopped moving."""
        before = None
        for _ in range(30):
            found = self.find(wanted)
            if found and before and (found["x"], found["y"]) == (before["x"], before["y"]):
                return
            before = found
            time.sleep(0.1)

    def type_into(self, wanted, what, text, timeout=30):
        """Until the field has it: an opening dialog takes the focus for itself, also from a field pressed meanwhile."""
        deadline = time.monotonic() + timeout
        while True:
            self.press(wanted, what)
            for key, code in (("Home", 36), ("End", 35)):  # all of what is there: Home, then Shift-End
                shift = 8 if key == "End" else 0
                for kind in ("keyDown", "keyUp"):
                    self.call(
                        "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, modifiers=shift
                    )
            if self.find(wanted)["focused"]:
                self.call("Input.insertText", text=str(text))
            found = self.find(wanted)
            if found["value"] == str(text):
                return
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what}: typed {text!r}, the field has {found['value']!r}")
            time.sleep(0.2)


def button(text):
    return BUTTON % json.dumps(text.lower())


def field(label):
    return INPUT % json.dumps(label.lower())


def page_of(base, standalone):
    return base + ("/" if standalone else "/#profile")


def capture(
    address,
    logdir,
    out_dir,
    standalone=False,
    duration_ms=1000,
    retries=None,
    delay_ms=None,
    timeout=120,
    size="1400x1000",
):
    """What a user does and sees; None leaves a field of the dialog as it is."""
    os.makedirs(out_dir, exist_ok=True)
    with screenshot.serve(str(logdir), standalone) as (base, server), Clicker(size) as browser:
        result = press_in(browser, base, address, out_dir, standalone, duration_ms, retries, delay_ms, timeout)
        server.log.seek(0)
        result.log = server.log.read().decode("utf-8", "replace")
    return result


def press_in(
    browser,
    base,
    address,
    out_dir,
    standalone=False,
    duration_ms=1000,
    retries=None,
    delay_ms=None,
    timeout=120,
):
    """The same in a browser and a server that run already."""
    pictures = {}

    def picture(name):
        pictures[name] = os.path.join(str(out_dir), name + ".png")
        browser.save(pictures[name])

    before = set(screenshot.get(base, screenshot.PLUGIN + "/runs"))
    browser.goto(page_of(base, standalone))
    open_dialog = button("capture profile")
    browser.press(open_dialog, "button Capture profile")
    if browser.wait_for(DIALOG, 20) is None:
        raise RuntimeError("the dialog did not open")
    browser.type_into(field("profile service url"), "the address", address)
    browser.type_into(field("profiling duration"), "the duration", duration_ms)
    if (retries, delay_ms) != (None, None):
        browser.press(ADVANCED, "Advanced options")
        browser.settled(field("delay"))
    if retries is not None:
        browser.type_into(field("automatically retry"), "the retries", retries)
    if delay_ms is not None:
        browser.type_into(field("delay"), "the delay", delay_ms)
    picture("dialog")
    browser.press(button("capture"), "button Capture")
    begin = time.monotonic()
    if browser.wait_for(DIALOG, 5, gone=True) is None and browser.find(DIALOG):
        raise RuntimeError("the dialog did not close")
    time.sleep(0.3)
    picture("waiting")
    message = browser.wait_for(MESSAGE, timeout)
    seconds = time.monotonic() - begin
    time.sleep(0.4)  # its animation
    picture("message")
    sent = list(browser.captures.items())
    request, status, answer = {}, 0, ""
    if sent:
        number, entry = sent[-1]
        parts = urllib.parse.urlsplit(entry["url"])
        request = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        status = entry.get("status", 0)
        with contextlib.suppress(RuntimeError):
            body = browser.call("Network.getResponseBody", requestId=number)
            answer = body["body"]
    runs = sorted(set(screenshot.get(base, screenshot.PLUGIN + "/runs")) - before)
    shown = ""
    if runs:
        chosen = CHOSEN_RUN % json.dumps(runs[-1])
        if browser.wait_for(chosen, 3):
            shown = "at once"
        else:
            browser.call("Page.reload")
            if browser.wait_for(chosen, 60):
                shown = "after a reload"
            else:  # the page's address has kept the run that was chosen before
                browser.goto("about:blank")
                browser.goto(page_of(base, standalone))
                if browser.wait_for(chosen, 30):
                    shown = "in a new page"
        time.sleep(2)
        picture("after")
    return Capture(
        message=message and " ".join(message["text"].replace("Close now!", "").split()),
        request=request,
        status=status,
        answer=answer,
        runs=runs,
        shown=shown,
        seconds=round(seconds, 2),
        pictures=pictures,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("address")
    parser.add_argument("logdir")
    parser.add_argument("out_dir")
    parser.add_argument("--server", choices=["tensorboard", "xprof"], default="tensorboard")
    parser.add_argument("--duration-ms", type=int, default=1000)
    parser.add_argument("--retries", type=int)
    parser.add_argument("--delay-ms", type=int)
    parser.add_argument("--timeout", type=float, default=120.0)
    parser.add_argument("--size", default="1400x1000")
    args = parser.parse_args()
    result = capture(
        args.address,
        args.logdir,
        args.out_dir,
        args.server == "xprof",
        args.duration_ms,
        args.retries,
        args.delay_ms,
        args.timeout,
        args.size,
    )
    shown = dataclasses.asdict(result)
    shown["log"] = shown["log"].splitlines()[-20:]
    print(json.dumps(shown, indent=1))
    return 0 if result.runs and result.status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
