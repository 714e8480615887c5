# SPDX-License-Identifier: Apache-2.0
"""scripts/compare_conversions.py: what it must find, and what it must accept. Its builds are scripts that copy made files."""

import gzip
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/compare_conversions.py"
sys.path.insert(0, str(ROOT / "scripts"))

try:
    import google.protobuf  # noqa: F401
except ImportError:
    VENV = ROOT / ".venv/bin/python"
    if not VENV.exists() or pathlib.Path(sys.prefix) == ROOT / ".venv":
        print("SKIP: no google.protobuf, and no virtual environment (scripts/venv.sh)")
        sys.exit(77)
    os.execv(VENV, [str(VENV), *sys.argv])

import compare_conversions  # noqa: E402

XSpace = compare_conversions.schema()
RUN = "logdir/plugins/profile/run"

BUILD = """#!/bin/sh
for word; do case $word in --logdir=*) logdir=${word#--logdir=};; esac; done
cp -r "$(dirname "$0")/files/." "$(dirname "$logdir")"
cat "$(dirname "$0")/stderr" >&2
exit $(cat "$(dirname "$0")/status")
"""


def space(first_id=1, duration=70, stats=(("bytes", 8), ("site", "main.c:3")), warning="waits were not told",
          names=("read", "write"), display="", line_name="main", reference=True):
    made = XSpace(warnings=[warning], hostnames=["host"])
    plane = made.planes.add(id=3, name="/host:CPU")
    line = plane.lines.add(id=7, name=line_name, timestamp_ns=5)
    for number, name in enumerate(names):
        key = first_id + number
        plane.event_metadata[key].id = key
        plane.event_metadata[key].name = name
        plane.event_metadata[key].display_name = display
        event = line.events.add(metadata_id=key, offset_ps=100 * number, duration_ps=duration)
        for position, (stat_name, value) in enumerate(stats):
            stat_key = first_id + 10 + position
            plane.stat_metadata[stat_key].name = stat_name
            stat = event.stats.add(metadata_id=stat_key)
            if isinstance(value, int):
                stat.int64_value = value
            elif reference:
                plane.stat_metadata[first_id + 20].name = value
                stat.ref_value = first_id + 20
            else:
                stat.str_value = value
    return made.SerializeToString()


def operation(name, total):
    return {"operation": name, "total_s": total}


def summary(size=100, median=1.5, operations=(("read", 2.0), ("write", 1.0), ("open", 1.0)), note="a note"):
    return {"schema_version": 1, "files": [{"path": "x.xplane.pb", "bytes": size, "verified": "3 planes"}],
            "steps": {"median_s": median}, "notes": [note], "processes": [{"operations": [operation(*one) for one in operations]}]}


def event_file(wall_time, content=b"\x1a\x0dbrain.Event:2"):
    return struct.pack("<Q", 24) + b"CRC1" + b"\x09" + struct.pack("<d", wall_time) + content + struct.pack("<d", wall_time)[:4]


def build(place, xplane=None, trace=None, totals=None, stderr="tbprof: 3 records were not told\n", status=0, second=11,
          events=None, more=()):
    files = place / "files"
    run = files / RUN
    run.mkdir(parents=True)
    (run / "host.xplane.pb").write_bytes(space() if xplane is None else xplane)
    (run / "host.trace.json.gz").write_bytes(gzip.compress(json.dumps(trace or {"traceEvents": [{"ts": 1}]}).encode(), mtime=0))
    (run / "summary.json").write_text(json.dumps(totals or summary()))
    (files / f"logdir/events.out.tfevents.{second}.host").write_bytes(events or event_file(second))
    for name in more:
        (files / name).write_text("")
    (place / "stderr").write_text(stderr)
    (place / "status").write_text(str(status))
    (place / "tbprof").write_text(BUILD)
    (place / "tbprof").chmod(0o755)
    return place / "tbprof"


def compare(rewordings=None, conversions=None, **new):
    """(exit status, output) of a build against one that differs so."""
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        case = place / "spools/case"
        case.mkdir(parents=True)
        (case / "x.spool").write_text("")
        if conversions:
            (case / "conversions").write_text(conversions)
        arguments = []
        if rewordings is not None:
            (place / "rewordings").write_text(rewordings)
            arguments = [f"--rewordings={place}/rewordings"]
        old, new = build(place / "old"), build(place / "new", **new)
        ran = subprocess.run([sys.executable, SCRIPT, old, new, place / "spools", "--jobs=1", *arguments],
                             capture_output=True, text=True, timeout=120)
        return ran.returncode, ran.stdout + ran.stderr


def accepts(rewordings=None, **new):
    status, output = compare(rewordings, **new)
    assert status == 0 and "identical" in output, output
    return output


def finds(*texts, rewordings=None, **new):
    status, output = compare(rewordings, **new)
    assert status == 1 and "identical" not in output, output
    for text in texts:
        assert text in output, f"{text!r} is not in:\n{output}"
    return output


ROW = "not told\tnot recorded\n"
REWORDED = {"xplane": space(warning="waits were not recorded"), "stderr": "tbprof: 3 records were not recorded\n"}


def test_same_content_is_identical():
    accepts()
    assert "1 files with other bytes" in accepts(xplane=space(first_id=40)), "ids of metadata may differ"
    accepts(xplane=space(stats=(("site", "main.c:3"), ("bytes", 8))))
    accepts(xplane=space(reference=False))


def test_changed_event_is_found():
    finds("line 'main' 7: event 0 'read' at 0: duration_ps 70 -> 71", xplane=space(duration=71))
    finds("stat site: 'main.c:3' (str_value) -> missing", xplane=space(stats=(("bytes", 8),)))
    finds("stat bytes: 8 (int64_value) -> 9 (int64_value)", xplane=space(stats=(("bytes", 9), ("site", "main.c:3"))))
    finds("stat more: missing -> 1", xplane=space(stats=(("bytes", 8), ("site", "main.c:3"), ("more", 1))))
    finds("2 -> 1 events", "only old: 'write'", xplane=space(names=("read",)))
    finds("name 'write' -> 'close'", xplane=space(names=("read", "close")))
    finds("metadata", xplane=space(display="shown"))
    finds("line 'main' 7: missing in new", "line 'other' 7: only in new", xplane=space(line_name="other"))
    finds("cannot be compared", xplane=b"\xff")


def test_changed_json_is_found():
    finds("trace.json.gz: .traceEvents[0].ts: 1 -> 2", trace={"traceEvents": [{"ts": 2}]})
    finds("1 -> 2 items", trace={"traceEvents": [{"ts": 1}, {"ts": 2}]})
    finds("ts: 1 -> 1.0", trace={"traceEvents": [{"ts": 1.0}]})
    finds(".steps.median_s: 1.5 -> 1.6", totals=summary(median=1.6))
    lacks = summary()
    del lacks["steps"]["median_s"]
    finds(".steps.median_s: missing in new", totals=lacks)


def test_changed_texts_statuses_and_files_are_found():
    finds("exit status: b'0'", status=1)
    finds("stderr: ", "4 records", stderr="tbprof: 4 records were not told\n")
    finds("no line", stderr="")
    finds("extra: only in new", more=("extra",))
    finds("warnings: only new: another", xplane=space(warning="another"))


def test_values_of_a_run_are_accepted_and_no_more():
    accepts(second=12)
    finds("tfevents", second=12, events=event_file(12, b"\x1a\x0dbrain.Event:3"))
    accepts(totals=summary(size=101))
    finds("operations[1]", totals=summary(operations=(("read", 2.0), ("open", 1.0), ("write", 1.0))))
    finds("operations[2]", totals=summary(operations=(("read", 2.0), ("write", 1.0), ("open", 1.1))))


def test_rewordings_are_accepted_by_their_row_alone():
    finds("warnings: only old", "stderr: ", **REWORDED)
    output = accepts(ROW, **REWORDED)
    assert "never used" not in output, output
    accepts("re:not (t)old\tnot recorded\n", **REWORDED)
    assert "rewording never used: nobody\tno one" in accepts(ROW + "nobody\tno one\n", **REWORDED)
    finds("warnings: only old: waits were not recorded", rewordings=ROW)
    finds("stderr: ", rewordings=ROW, **(REWORDED | {"stderr": "tbprof: 4 records were not recorded\n"}))
    accepts("records were not told\twere not recorded, records\n",
            stderr="tbprof: 3 were not\n  recorded, records\n"), "a line may break elsewhere"


def test_each_conversion_of_a_case_is_compared():
    status, output = compare(conversions="convert\nconvert --step-marker=x\n", status=1)
    assert status == 1 and "[convert --step-marker=x] exit status" in output and "2 conversions" in output, output


def test_nothing_to_compare_is_no_success():
    with tempfile.TemporaryDirectory() as place:
        ran = subprocess.run([sys.executable, SCRIPT, "/bin/true", "/bin/true", place], capture_output=True, text=True)
        assert ran.returncode not in (0, 77), ran.stdout
    status, output = compare(rewordings="no tab\n")
    assert status not in (0, 77), output


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: passed")
