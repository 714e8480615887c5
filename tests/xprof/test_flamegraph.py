# SPDX-License-Identifier: Apache-2.0
"""The page of `--also=flamegraph` in a browser: what it draws, zoom, search, keys, and no error in the console."""

import glob
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import screenshot  # noqa: E402
from places import TBPROF  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")

PROGRAM = """
import threading, time

def heavy(until):
    while time.monotonic() < until: pass

def outer(until):
    heavy(until)

def waits(event):
    event.wait()

done = threading.Event()
waiter = threading.Thread(target=waits, args=(done,), name="</script><b>")
waiter.start()
outer(time.monotonic() + 1.5)
done.set()
waiter.join()
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    logdir = str(tmp_path_factory.mktemp("logs"))
    command = [TBPROF, "run", "--logdir", logdir, "--also=flamegraph", "--", sys.executable, "-c", PROGRAM]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    pages = glob.glob(os.path.join(logdir, "plugins", "profile", "*", "*.flamegraph.html"))
    assert len(pages) == 1, result.stderr
    return pages[0]


@pytest.fixture
def browser(page):
    with screenshot.Browser("1400x800") as opened:
        opened.goto("file://" + page)
        assert opened.wait("document.readyState == 'complete' && !!window.flamegraph", settle=0.2) is not None
        yield opened
        assert opened.console == [] and opened.errors == [] and opened.failed == {}


def boxes(browser):
    return int(browser.eval("document.getElementById('over').dataset.boxes"))


def text(browser, name):
    return browser.eval(f"document.getElementById({json.dumps(name)}).textContent")


def box_of(browser, name):
    return browser.eval(f"flamegraph.find({json.dumps(name)})")


def search(browser, pattern):
    browser.eval(
        "(() => { const field = document.getElementById('search'); field.focus();"
        f" field.value = {json.dumps(pattern)}; field.dispatchEvent(new Event('input')); }})()"
    )
    assert browser.wait(f"document.getElementById('search').value === {json.dumps(pattern)}", settle=0.3) is not None
    return text(browser, "found-text")


def test_boxes_are_as_wide_as_their_time(browser):
    assert boxes(browser) >= 8  # all, process, two threads, <module>, outer, heavy, waits
    assert "also while it waited" in text(browser, "about")
    outer, waits = box_of(browser, "outer ("), box_of(browser, "waits (")
    # All time: the thread that waits is as long as the one that runs.
    assert outer["width"] > 200 and waits["width"] > 200
    browser.eval("document.querySelectorAll('#views button')[1].click()")
    assert text(browser, "about").endswith("used a CPU.")
    assert box_of(browser, "heavy (")["width"] > 1000
    waits = box_of(browser, "waits (")
    assert waits is None or waits["width"] < 100


def test_a_click_zooms_and_escape_zooms_out(browser):
    before, width = boxes(browser), box_of(browser, "heavy (")["width"]
    at = box_of(browser, "outer (")
    browser.click(at["x"], at["y"])
    assert box_of(browser, "heavy (")["width"] > max(1300, width)
    assert boxes(browser) < before
    assert re.search(r"outer \(.*100 % of the zoomed box", text(browser, "status"))
    assert not browser.eval("document.getElementById('reset').disabled")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
    assert boxes(browser) == before and browser.eval("document.getElementById('reset').disabled")


def test_search_finds_functions_without_nested_matches(browser):
    share = re.fullmatch(r"found: (\d+) % of all threads .*", search(browser, "^(outer|heavy)"))
    assert share and 30 <= int(share.group(1)) <= 70
    assert search(browser, "no such function") == "not found"
    assert search(browser, "(") == "not a regular expression"
    assert search(browser, "") == ""


def test_keys_move_and_zoom(browser):
    browser.eval("document.getElementById('over').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
    status = text(browser, "status")
    assert "(no Python frames)" in status or "<module>" in status or "_bootstrap" in status
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="Enter")
    assert not browser.eval("document.getElementById('reset').disabled")


def test_names_are_text(browser):
    threads = browser.eval("[...document.getElementById('threads').options].map((o) => o.textContent)")
    assert len(threads) == 3 and any("</script><b>" in name for name in threads)
    assert browser.eval("document.querySelectorAll('b').length") == 0
    browser.eval("document.getElementById('bottom').click()")
    at = box_of(browser, "all threads")
    assert at["y"] > box_of(browser, "heavy (")["y"]
