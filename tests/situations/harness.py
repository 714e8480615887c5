"""Builds broken log directories, follows every recommendation of `tbprof check`, and counts what TensorBoard lists.

A row of table.py is a shell snippet that builds a tree, and what is expected of the check. For each row, each command
of the report is run alone on a fresh tree, then all of them one after the other until the check recommends nothing
more. Never may TensorBoard list fewer profiles than before, and no file's content may be gone from the disk.

Shell functions of a snippet (paths relative to the tree; each profile has content of its own):
  profile PATH             a whole profile with steps      profile_no_steps PATH   without step markers
  cut PATH                 its first half                  empty PATH              a file of 0 bytes
  large PATH               100 KiB, not counted            nuls PATH FROM COUNT    NULs in place of bytes
  crlf PATH                each LF becomes CR LF           as_text PATH            bytes that are no UTF-8 are replaced
  events PATH [NAME]       10 values of `loss`             events_header PATH      nothing but the header
  events_one_step PATH     10 values at step 0             trace_export PATH       TensorFlow's trace_export with
                                                                                   profiler=True; trace_graph: without
  fresh PATH               changed just now; all else was last changed at second $OLD
"""

import collections
import hashlib
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "xprof"))

import xspace_maker  # noqa: E402

COLUMNS = 100
MAX_ROUNDS = 5
OLD = 1_700_000_000
# All that a recommendation may do: none of these removes a file, or replaces one.
ALLOWED = (["mkdir", "-p", "--"], ["mv", "-nT", "--"], ["ln", "-sT", "--"], ["rmdir", "--"], ["chmod", "u+rwx", "--"],
           ["rmdir", "-p", "--ignore-fail-on-non-empty", "--"], ["chmod", "u+rx", "--"], ["chmod", "u+r", "--"],
           ["gzip", "-dk", "--"], ["bzip2", "-dk", "--"], ["xz", "-dk", "--"], ["zstd", "-dk", "--"],
           ["tensorboard", "--logdir"], ["tbprof", "recover"])
# Messages that a profile brings along, and records that are lost for good: there is nothing to do.
NO_FIX = {"profile-errors", "profile-warnings", "profile-drops"}

PRELUDE = r"""
set -e
_put() { mkdir -p -- "$(dirname -- "$2")"; cat -- "$FIXTURES/$1" >"$2"; }
_id() { _count=$((_count + 1)); printf '\172\010%08d' "$_count" >>"$1"; }
_count=0
profile() { _put profile "$1"; _id "$1"; }
profile_no_steps() { _put profile_no_steps "$1"; _id "$1"; }
large() { _put large "$1"; }
cut() { _put cut "$1"; }
nuls() { dd if=/dev/zero of="$1" bs=1 seek="$2" count="$3" conv=notrunc status=none; }
_edit() { python3 -c 'import sys
with open(sys.argv[1], "rb") as file: data = file.read()
with open(sys.argv[1], "wb") as file: file.write('"$2"')' "$1"; }
crlf() { _edit "$1" 'data.replace(b"\n", b"\r\n")'; }
as_text() { _edit "$1" 'data.decode("utf-8", "replace").encode()'; }
empty() { mkdir -p -- "$(dirname -- "$1")"; : >"$1"; }
_events() { mkdir -p -- "$2"; _put "$1" "$2/${3:-events.out.tfevents.1700000000.host.1.0}"; }
events() { _events events "$@"; }
events_header() { _events events_header "$@"; }
events_one_step() { _events events_one_step "$@"; }
trace_export() { _events trace_export "$@"; }
trace_graph() { _events trace_graph "$@"; }
fresh() { printf '%s\0' "$1" >>"$FRESH"; }
"""


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def event(step, *fields):
    data = xspace_maker.field(1, 1700000000.0 + step) + xspace_maker.field(2, step) + b"".join(fields)
    length = struct.pack("<Q", len(data))
    return length + masked_crc32c(length) + data + masked_crc32c(data)


def summary(tag, *more):
    return xspace_maker.field(5, xspace_maker.field(1, xspace_maker.field(1, tag) + b"".join(more)))


def scalar(step, tag="loss"):
    return event(step, summary(tag, xspace_maker.varint(2 << 3 | 5) + struct.pack("<f", 1.0)))


def plugin_summary(plugin):
    """As TensorFlow writes it: the tensor, and behind it the name of the plugin."""
    data = xspace_maker.field(1, xspace_maker.field(1, plugin))
    return event(0, summary("trace", xspace_maker.field(8, b"\x08\x07\x12\x00"), xspace_maker.field(9, data)))


def space(steps, count=5):
    made = xspace_maker.Space("h")
    line = made.plane("/host:CPU").line(1, "thread")
    for step in range(count):
        start = step * 10 * xspace_maker.MS
        stats = {"_r": 1, "step_num": step} if steps else None
        line.event("train" if steps else "work", start, 9 * xspace_maker.MS, stats)
        line.event("inner", start + xspace_maker.MS, xspace_maker.MS)
    return made.encode()


def write_fixtures(directory):
    header = event(0, xspace_maker.field(3, "brain.Event:2"))
    fixtures = {
        "profile": space(True), "profile_no_steps": space(False), "cut": space(True)[:-9],
        "large": space(True, 2000),
        "events": header + b"".join(scalar(step) for step in range(10)), "events_header": header,
        "events_one_step": header + scalar(0) * 10,
        "trace_export": header + plugin_summary("graph_run_metadata"),
        "trace_graph": header + plugin_summary("graph_run_metadata_graph"),
    }
    os.makedirs(directory)
    for name, content in fixtures.items():
        with open(os.path.join(directory, name), "wb") as file:
            file.write(content)


# ---- what TensorBoard lists


def is_pattern(path):
    """Python's glob takes a `[…]` in it for a class of characters."""
    return any(re.search(r"\[!?[^/][^/]*?\]", part) for part in path.split("/"))


def listed_by_model(logdir):
    """[(run, host, path)] by the rules of xprof 2.20.3 and newer: docs/check.md."""
    logdir = logdir.rstrip("/") or "/"
    if not os.path.isdir(logdir):
        return []
    if os.path.basename(logdir) == "plugins" and os.path.isdir(os.path.join(logdir, "profile")):
        return []  # the plugin fails
    places = {logdir}
    if not is_pattern(logdir):
        for directory, names, _ in os.walk(logdir):  # does not go through links
            if os.path.basename(directory) == "plugins" and "profile" in names:
                places.add(os.path.dirname(directory))
    found = []
    for place in sorted(places):
        if re.search("[\udc80-\udcff]", place):
            continue  # bytes that are no UTF-8
        profile = os.path.join(place, "plugins", "profile")
        for run in sorted(os.listdir(profile)) if os.path.isdir(profile) else []:
            directory = os.path.join(profile, run)
            if not os.path.isdir(directory) or is_pattern(directory) or not os.access(directory, os.R_OK | os.X_OK):
                continue
            name = os.path.relpath(os.path.join(place, run), logdir)
            for file in sorted(os.listdir(directory)):
                match = re.fullmatch(r"([^.].*)\.xplane\.(pb|riegeli)", file, re.DOTALL)
                if match:
                    found.append((name, match[1], os.path.join(directory, file)))
    return found


def count_files(listed):
    """A link that leads nowhere has a host of its own, and is no profile."""
    return sum(os.path.exists(path) for _, _, path in listed)


def profile_id(path):
    """The number that the shell function `profile` gave to its content; None: not a whole one."""
    try:
        with open(path, "rb") as file:
            match = re.search(rb"\x7a\x08(\d{8})$", file.read())
    except OSError:
        return None
    return match[1] if match else None


def events_shown(logdir):
    """[contents of the events files of a directory]: what is in one directory is one run."""
    runs = []
    for directory, _, names in os.walk(logdir):
        paths = [os.path.join(directory, name) for name in names if "tfevents" in name]
        runs.append(sorted(digest(path) for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)))
    return [run for run in runs if run]


def is_shown_still(before, after):
    """Every events file is shown, and none is read as one run with a file that it was apart from."""
    count, now = collections.Counter(sum(before, [])), collections.Counter(sum(after, []))
    apart = all(any(not collections.Counter(run) - collections.Counter(old) for old in before)
                for run in after if len(run) > 1)
    return apart and not count - now


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def contents(tree):
    """How often each content is on the disk."""
    counts = {}
    for directory, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            counts[digest(path)] = counts.get(digest(path), 0) + 1
    return counts


# ---- one situation


class Failed(Exception):
    pass


def make_programs(directory, tbprof):
    """What the recommendations call, where any user can start it. Before there are threads: a program that a child of
    one still holds open for writing cannot be started."""
    os.chmod(directory, 0o755)
    shutil.copy(tbprof, os.path.join(directory, "tbprof"))
    # Stands for the viewer: which directory it was given.
    with open(os.path.join(directory, "tensorboard"), "w", encoding="ascii") as file:
        file.write('#!/bin/sh\n[ "$1" = --logdir ] && printf %s "$2" >"$VIEWED"\n')
    os.chmod(os.path.join(directory, "tensorboard"), 0o755)
    return directory


class Tree:
    """A tree that a snippet has built, and that can be had again as it was."""

    def __init__(self, work, situation, programs, listed=listed_by_model):
        self.situation = situation
        self.listed = listed
        self.root = os.path.join(work, "tree")
        self.backup = os.path.join(work, "backup")
        self.bin = programs
        self.viewed = os.path.join(work, "viewed", "logdir")
        self.user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if situation.other_user else []
        os.makedirs(self.root)
        os.makedirs(os.path.dirname(self.viewed))
        # Another user enters; only the owner may write beside the tree, else no command would be given.
        os.chmod(work, 0o755)
        os.chmod(os.path.dirname(self.viewed), 0o777)
        write_fixtures(os.path.join(work, "fixtures"))
        self._build(work)

    def _build(self, work):
        fresh = os.path.join(work, "fresh")
        environment = dict(os.environ, FIXTURES=os.path.join(work, "fixtures"), FRESH=fresh, OLD=str(OLD))
        subprocess.run(["bash", "-c", PRELUDE + self.situation.build], cwd=self.root, env=environment, check=True)
        for directory, names, files in os.walk(self.root, topdown=False):
            for name in files + names:
                os.utime(os.path.join(directory, name), (OLD, OLD), follow_symlinks=False)
        if os.path.exists(fresh):
            with open(fresh, encoding="utf-8") as file:
                for name in file.read().split("\0")[:-1]:
                    os.utime(os.path.join(self.root, name))
        subprocess.run(["cp", "-a", self.root, self.backup], check=True)

    def restore(self):
        subprocess.run(["rm", "-rf", self.root], check=True)
        subprocess.run(["cp", "-a", self.backup, self.root], check=True)

    @property
    def logdir(self):
        return os.path.join(self.root, self.situation.logdir)

    def run(self, command, check=False):
        environment = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", VIEWED=self.viewed, HOME=self.root)
        return subprocess.run(self.user + command, capture_output=True, text=True, timeout=120, env=environment,
                              cwd="/", check=check, stdin=subprocess.DEVNULL)

    def check(self, logdir):
        result = self.run(["tbprof", "check", "--json", logdir])
        if result.returncode not in (0, 1, 2) or result.stderr:
            raise Failed(f"tbprof check: {result.returncode} {result.stderr}")
        return json.loads(result.stdout)

    def follow(self, command, logdir):
        """Runs it; the directory that TensorBoard is given from then on."""
        if os.path.exists(self.viewed):
            os.remove(self.viewed)
        self.run(["sh", "-c", command])
        if os.path.exists(self.viewed):
            with open(self.viewed, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        return logdir

    def ids(self, logdir):
        return {profile_id(path) for _, _, path in self.listed(logdir)} - {None}


def check_lines(tree):
    text = tree.run(["tbprof", "check", tree.logdir]).stdout
    for line in text.splitlines():
        if re.match(r"(FAIL|WARN|NOTE)  ", line) and len(line) > COLUMNS:
            raise Failed(f"{len(line)} columns: {line}")
    report = tree.check(tree.logdir)
    for finding in report["findings"]:
        # Only what another program wrote may be cut, and a tag at the end.
        if finding["id"] not in NO_FIX and finding["what"].split("`")[0] not in text:
            raise Failed(f"cut in the text: {finding['what']}")
    result = text.splitlines()
    if report["exit_status"] == 0 and "tbprof doctor" not in result[-1]:
        raise Failed("PASS does not name `tbprof doctor`")


def check_findings(report, situation):
    found = {finding["id"] for finding in report["findings"]}
    missing = set(situation.finds) - found
    if missing:
        raise Failed(f"expected {sorted(missing)}, found {sorted(found)}")
    bad = {finding["id"] for finding in report["findings"] if finding["level"] == "fail"} - set(situation.finds)
    if bad:
        raise Failed(f"unexpected failures {sorted(bad)}")
    for finding in report["findings"]:
        if finding["level"] != "note" and finding["id"] not in NO_FIX and not finding["fix"]:
            raise Failed(f"no advice: {finding}")
        if finding["command"] and not is_allowed(finding["command"]):
            raise Failed(f"a recommendation that may lose data: {finding['command']}")


def is_allowed(command):
    steps = [[]]
    for word in shlex.shlex(command, posix=True, punctuation_chars=True):
        if word == "&&":
            steps.append([])
        elif word and not set(word) - set("();<>|&"):
            return False
        else:
            steps[-1].append(word)
    return all(any(step[:len(start)] == start for start in ALLOWED) for step in steps)


def check_kept(tree, before, logdir, what):
    """`before`: listed, ids, contents, events."""
    listed, ids, disk, events = before
    after = count_files(tree.listed(logdir))
    lost = ids - tree.ids(logdir)
    if lost or after < count_files(listed):
        raise Failed(f"{what}\nlists {after} profiles, {count_files(listed)} before; lost {sorted(lost)}")
    now = contents(tree.root)
    gone = [content for content, count in disk.items() if now.get(content, 0) < count]
    if gone:
        raise Failed(f"{what}\n{len(gone)} files are gone from the disk")
    if logdir == tree.logdir and not is_shown_still(events, events_shown(logdir)):
        raise Failed(f"{what}\nan events file is no longer shown, or mixed with another")


def try_situation(situation, programs, listed=listed_by_model):
    """`programs`: as make_programs returns it. Raises Failed. Returns the number of commands that were run."""
    work = tempfile.mkdtemp(prefix="situation.")
    try:
        tree = Tree(work, situation, programs, listed)
        return follow_all(tree)
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", work], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(work, ignore_errors=True)


def follow_all(tree):
    situation = tree.situation
    before = (tree.listed(tree.logdir), tree.ids(tree.logdir), contents(tree.root), events_shown(tree.logdir))
    report = tree.check(tree.logdir)
    check_findings(report, situation)
    check_lines(tree)
    commands = [finding["command"] for finding in report["findings"] if finding["command"]]
    if situation.honest and commands and not situation.shows:
        raise Failed(f"commands where nothing can be done: {commands}")
    for command in commands:
        logdir = tree.follow(command, tree.logdir)
        check_kept(tree, before, logdir, command)
        tree.restore()
    # As a user would: follow all of it, look again.
    logdir, done, followed = tree.logdir, set(), collections.Counter()
    for _ in range(MAX_ROUNDS):
        found = [finding for finding in tree.check(logdir)["findings"]
                 if finding["command"] and finding["level"] != "note" and finding["command"] not in done]
        todo = [finding["command"] for finding in found]
        if not todo:
            break
        followed.update({(finding["id"], finding["where"]) for finding in found})
        # Twice is one that another command of the same report was in the way of.
        again = sorted(place for place, rounds in followed.items() if rounds > 2)
        if again:
            raise Failed(f"recommended again after it was followed: {again}\n" + "\n".join(todo))
        for command in todo:
            done.add(command)
            logdir = tree.follow(command, logdir)
        check_kept(tree, before, logdir, "\n".join(todo))
    shown = len(tree.ids(logdir))
    if shown != situation.shows:
        report = tree.check(logdir)
        text = "\n".join(f"{f['level']} {f['id']} {f['where']}: {f['what']}; {f['fix']}" for f in report["findings"])
        ran = "\n".join(shlex.join([c]) for c in done)
        raise Failed(f"{shown} profiles shown at the end, {situation.shows} expected; followed:\n{ran}\nleft:\n{text}")
    return len(commands)
