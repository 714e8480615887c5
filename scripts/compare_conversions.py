#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what two builds make of the same spools: a change of the code that should change nothing has to show no difference.

    compare_conversions.py OLD_TBPROF NEW_TBPROF SPOOL_DIR... [--rewordings FILE] [--jobs N] [--keep DIR] [--all]

  SPOOL_DIR          searched for directories that hold *.spool: each is a case, converted as a whole; or one spool
  --rewordings FILE  intended changes of texts, `old<TAB>new` a line, applied to the old build's texts in order; `re:` in
                     front of old: a regular expression (Python's), to whose groups new may refer. Columns and breaks of
                     lines of a reworded text may move. A row that changed nothing is reported
  --jobs N           cases side by side (number of processors)
  --keep DIR         outputs of both builds stay in DIR/old and DIR/new
  --all              every difference, not only the first 20 of a case

Each case is converted by both builds into the same place, one after the other, so that paths are equal. Compared are the
exit status, standard output and standard error, the names of all files, and their content: xplane.pb event for event
with every id resolved, the Perfetto trace and summary.json value for value, anything else byte for byte. A file
`conversions` in a case replaces the plain conversion: a line each, `convert` or `recover` with options.

Exit status: 0 identical, 1 with differences, 2 when nothing could be compared. Needs protoc and Python's protobuf, which
the virtual environment of scripts/venv.sh has; it is used if this Python lacks it.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/oracle"))

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    VENV = ROOT / ".venv/bin/python"
    if not VENV.exists() or pathlib.Path(sys.prefix) == ROOT / ".venv":
        sys.exit(f"no google.protobuf in {sys.executable}, and no {VENV}: scripts/venv.sh makes it")
    os.execv(VENV, [str(VENV), *sys.argv])

import differences  # noqa: E402
from normal import Rewordings, Side, neutral_bytes  # noqa: E402

MAX_LINES = 20
MOST_SECONDS = 600
PLAIN = "convert --also=perfetto"
# Apart from ours: what changes texts, and what a user has configured.
NOT_INHERITED = ("TBPROF_", "LD_PRELOAD", "XDG_CONFIG_HOME", "COLUMNS", "LC_", "LANG")


class Unusable(Exception):
    """There is nothing to compare."""


# ---- conversion


def environment(place):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)}
    # A home and a directory for temporary files of its own: no configuration, no leftovers of others.
    return kept | {"HOME": str(place), "TMPDIR": str(place), "TZ": "UTC", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}


def conversions(case):
    listed = (case if case.is_dir() else case.parent) / "conversions"
    lines = listed.read_text().splitlines() if case.is_dir() and listed.exists() else [PLAIN]
    return [line for line in lines if line.strip() and not line.startswith("#")]


def convert(tbprof, case, place):
    """[{name: bytes}] for each conversion; `exit status`, `stdout` and `stderr` are among the names."""
    found = []
    for line in conversions(case):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        subcommand, *options = shlex.split(line)
        if subcommand == "recover":
            options.append("--keep-spool")
        command = [str(tbprof), subcommand, *options, f"--logdir={place}/logdir", f"--summary-json={place}/said.json"]
        try:
            ran = subprocess.run(
                [*command, str(case)],
                cwd=place,
                env=environment(place),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Unusable(f"{tbprof} {line}: not done in {MOST_SECONDS} s") from None
        except OSError as error:
            raise Unusable(f"{tbprof}: {error.strerror}") from None
        output = {"exit status": b"%d" % ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr}
        for file in sorted(place.rglob("*")):
            name = str(file.relative_to(place))
            if file.is_symlink():
                output[name] = b"link to " + os.fsencode(os.readlink(file))
            elif file.is_file():
                output[name] = file.read_bytes()
        found.append(output)
    shutil.rmtree(place, ignore_errors=True)
    return found


# ---- comparison


def schema():
    """The class XSpace of writer/proto/xplane.proto."""
    with tempfile.NamedTemporaryFile() as made:
        subprocess.run(
            ["protoc", f"--proto_path={ROOT}", f"--descriptor_set_out={made.name}", "writer/proto/xplane.proto"],
            check=True,
            cwd=ROOT,
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(made.name).read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.profiler.XSpace"))


def changed_file(name, old, new, old_side, new_side):
    if old == new and old_side.rewordings is None:
        return
    if name.endswith(".xplane.pb"):
        yield from differences.xspace(schema.known, old, new, old_side, new_side)
    elif name.endswith(".json.gz"):
        yield from differences.gzipped_json(old, new, old_side, new_side)
    elif name.endswith(".json"):
        yield from differences.json_files(old, new, old_side, new_side)
    elif name in ("stdout", "stderr"):
        yield from differences.texts(old.decode(errors="replace"), new.decode(errors="replace"), old_side, new_side)
    elif neutral_bytes(name, old) != neutral_bytes(name, new):
        yield f"{old[:100]!r} ({len(old)} bytes) -> {new[:100]!r} ({len(new)} bytes)"


def compare(old, new, old_side, new_side):
    old, new = ({side.text(name): data for name, data in files.items()} for files, side in ((old, old_side), (new, new_side)))
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            yield f"{name}: missing in new"
        elif name not in old:
            yield f"{name}: only in new"
        else:
            for line in changed_file(name, old[name], new[name], old_side, new_side):
                yield f"{name}: {line}"


def keep(outputs, place):
    for number, output in enumerate(outputs):
        for name, data in output.items():
            file = place / str(number) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def one_case(case, name, options, place):
    """(lines, facts of the case)"""
    outputs = []
    for tbprof, side in ((options.old, "old"), (options.new, "new")):
        outputs.append(convert(tbprof, case, place))
        if options.keep:
            keep(outputs[-1], options.keep / side / name)
    rewordings = Rewordings.read(options.rewordings) if options.rewordings else None
    old_side, new_side = Side(rewordings), Side()
    lines, facts = [], {"conversions": len(outputs[0]), "other bytes": 0, "failed": 0, "profiles": 0}
    for command, old, new in zip(conversions(case), *outputs):
        prefix = "" if len(outputs[0]) == 1 else f"[{command}] "
        try:
            lines += [prefix + line for line in compare(old, new, old_side, new_side)]
        except Exception as error:  # an output that cannot be read is a difference, of whichever side
            lines.append(f"{prefix}cannot be compared: {type(error).__name__}: {error}")
        facts["other bytes"] += sum(old.get(key, data) != data for key, data in new.items() if "tfevents" not in key)
        facts["failed"] += old["exit status"] != b"0"
        facts["profiles"] += sum(key.endswith(".xplane.pb") for key in old)
    facts["used"] = rewordings.used if rewordings else set()
    return lines, facts


def start_worker():
    schema.known = schema()


def cases(places):
    found = {}
    for place in places:
        if place.is_file():
            found[place] = place.name
            continue
        for spool in sorted(place.rglob("*.spool")):
            relative = spool.parent.relative_to(place)
            found[spool.parent] = str(relative) if relative.parts else place.name
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("spools", type=pathlib.Path, nargs="+")
    parser.add_argument("--rewordings", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    options.old, options.new = options.old.resolve(), options.new.resolve()
    found = cases([place.resolve() for place in options.spools])
    if not found:
        sys.exit("no *.spool there")
    start = time.monotonic()
    different, total, used = 0, {}, set()
    with tempfile.TemporaryDirectory(prefix="tbprof-compare-") as place:
        with concurrent.futures.ProcessPoolExecutor(options.jobs, initializer=start_worker) as pool:
            running = [
                (name, pool.submit(one_case, case, name, options, pathlib.Path(place) / str(number)))
                for number, (case, name) in enumerate(found.items())
            ]
            for name, result in running:
                try:
                    lines, facts = result.result()
                except Unusable as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    pool.shutdown(cancel_futures=True)
                    return 2
                different += bool(lines)
                used |= facts.pop("used")
                for fact, count in facts.items():
                    total[fact] = total.get(fact, 0) + count
                shown = lines if options.all else lines[:MAX_LINES]
                for line in shown:
                    print(f"{name}: {line}")
                if len(lines) > len(shown):
                    print(f"{name}: and {len(lines) - len(shown)} more differences")
    if options.rewordings:
        for row in Rewordings.read(options.rewordings).unused(used):
            print(f"rewording never used: {row}")
    print(
        f"{different} of {len(found)} cases differ: {total['conversions']} conversions, {total['profiles']} profiles, "
        f"{total['failed']} with an exit status other than 0, {total['other bytes']} files with other bytes, "
        f"{time.monotonic() - start:.0f} s"
    )
    if different == 0:
        print("identical")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
