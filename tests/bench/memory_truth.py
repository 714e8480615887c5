#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What filled the memory: tbprof's answer, exact and sampled, beside programs' own ledgers and memray's.

    tests/bench/memory_truth.py [--tbprof build/bin/tbprof] [--only NAME] [--python PYTHON] [--runs N]

Each program holds blocks by known lines and knows how many bytes at its peak. Printed for each line: truth, the bytes
of `memory` in summary.json with --malloc=exact and with the default, and the differences in percent of the peak. The
pandas program has no ledger: where PYTHON has memray, its high-water mark is the truth.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# `held(LINE)` adds to the ledger of a line; `peak()` keeps the ledger if it is the highest. Line numbers are looked up
# by the marks `#A` to `#E` at the lines' ends.
PROLOGUE = """
import json, os, random, signal, sys, threading, time
ledger, best = {}, {}
def held(line, n): ledger[line] = ledger.get(line, 0) + n
def peak():
    global best
    if sum(ledger.values()) > sum(best.values()): best = dict(ledger)
def done(): print("LEDGER " + json.dumps(best), flush=True)
random.seed(5)
"""

PROGRAMS = {
    "three_lines": """
def a(): held("A", 60 << 20); return [bytearray(60 << 10) for _ in range(1024)] #A
def b(): held("B", 150 << 20); return [bytearray(150 << 10) for _ in range(1024)] #B
def c(): held("C", 300 << 20); return [bytearray(300 << 10) for _ in range(1024)] #C
x, y, z = a(), b(), c(); peak(); done()
""",
    "small_blocks": """
def a(): held("A", 200000 * 700); return [bytearray(700) for _ in range(200000)] #A
def b(): held("B", 100000 * 900); return [bytearray(900) for _ in range(100000)] #B
x = a(); y = b(); peak(); done()
""",
    "large_blocks": """
def a(): held("A", 64 << 20); return bytearray(64 << 20) #A
def b(): held("B", 200 << 20); return bytearray(200 << 20) #B
x = a(); y = b(); peak(); done()
""",
    "sawtooth": """
def a(n): held("A", n * 5000); return [bytearray(5000) for _ in range(n)] #A
def b(n): held("B", n * 20000); return [bytearray(20000) for _ in range(n)] #B
kept = []
for turn in range(30):
    kept.append(b(200))
    x = a(5000 + 800 * (turn % 7)); peak(); held("A", -5000 * len(x)); del x
done()
""",
    "churn_then_peak": """
def a(): return bytearray(3000) #A
def b(): held("B", 3000 * 60000); return [bytearray(3000) for _ in range(60000)] #B
for _ in range(300000): a()
x = b(); peak(); held("B", -3000 * 60000); del x
for _ in range(100000): a()
done()
""",
    "mixed_sizes": """
def a(n): held("A", n); return bytearray(n) #A
def b(n): held("B", n); return bytearray(n) #B
def c(n): held("C", n); return bytearray(n) #C
kept, which = [], [(a, "A"), (b, "B"), (c, "C")]
for i in range(120000):
    f, name = which[random.choices((0, 1, 2), (6, 3, 1))[0]]
    n = int(random.lognormvariate(8, 1.4)) + 600
    kept.append((f(n), name, n))
    if len(kept) > 20000:
        at = random.randrange(len(kept)); _, gone, n = kept[at]; kept[at] = kept[-1]; kept.pop(); held(gone, -n)
    peak()
done()
""",
    "realloc": """
def a(x): x.extend(bytes(100000)) #A
x = bytearray()
for _ in range(2000): a(x)
held("A", len(x)); peak(); done()
""",
    "threads": """
def a(n): return [bytearray(10000) for _ in range(n)] #A
def b(n): return [bytearray(30000) for _ in range(n)] #B
kept = []
def work():
    for _ in range(20): kept.append(a(100)); kept.append(b(100))
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
held("A", 4 * 20 * 100 * 10000); held("B", 4 * 20 * 100 * 30000); peak(); done()
""",
    "fork": """
def a(): held("A", 20000 * 4000); return [bytearray(4000) for _ in range(20000)] #A
def b(): held("B", 20000 * 6000); return [bytearray(6000) for _ in range(20000)] #B
x = a()
if os.fork() == 0:
    del x; os._exit(0)
os.wait(); y = b(); peak(); done()
""",
    "killed": """
def a(): held("A", 30000 * 3000); return [bytearray(3000) for _ in range(30000)] #A
def b(): held("B", 3000 * 60000); return [bytearray(60000) for _ in range(3000)] #B
def c(): held("C", 50 << 20); return bytearray(50 << 20) #C
x, y, z = a(), b(), c(); peak(); done(); os.kill(os.getpid(), signal.SIGKILL)
""",
    "frames": """
import pandas
def load(n): return pandas.DataFrame({"k": range(n), "v": [float(i) for i in range(n)]}) #A
def double(frame): return pandas.concat([frame, frame, frame, frame]) #B
def group(frame): return frame.sort_values("v") #C
frame = load(1000000); more = double(frame); last = group(more)
""",
}


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, **options)


def by_tbprof(tbprof, options, python, script, directory):
    done = run([tbprof, "run", f"--logdir={directory}", *options, "--", python, script])
    found = sorted(pathlib.Path(directory).glob("plugins/profile/*/*summary.json"))
    if not found:
        sys.exit(f"no summary: {done.stderr}")
    processes = json.loads(found[-1].read_text())["memory"]["processes"]
    verdict = [line for line in done.stderr.splitlines() if "memory: " in line]
    return processes[0], done.stdout, verdict


def by_memray(python, script, directory):
    """High-water mark and its bytes by line of the script."""
    trace = os.path.join(directory, "memray.bin")
    if run([python, "-m", "memray", "run", "-q", "-f", "--trace-python-allocators", "-o", trace, script]).returncode:
        trace = os.path.join(directory, "memray2.bin")
        if run([python, "-m", "memray", "run", "-q", "-o", trace, script]).returncode:
            return None
    code = ("import json, memray, sys\n"
            "reader = memray.FileReader(sys.argv[1]); rows, whole = {}, 0\n"
            "native = (memray.AllocatorType.MMAP, memray.AllocatorType.PYMALLOC_MALLOC,"
            " memray.AllocatorType.PYMALLOC_CALLOC, memray.AllocatorType.PYMALLOC_REALLOC)\n"
            "for r in reader.get_high_watermark_allocation_records(merge_threads=True):\n"
            "    if memray.AllocatorType(r.allocator) in native: continue\n"
            "    whole += r.size; stack = r.stack_trace(max_stack_size=1)\n"
            "    key = f'{stack[0][1]}:{stack[0][2]}' if stack else ''; rows[key] = rows.get(key, 0) + r.size\n"
            "print(json.dumps([whole, rows]))\n")
    done = run([python, "-c", code, trace])
    return json.loads(done.stdout) if done.returncode == 0 else None


def lines_of(process):
    rows = process["live_at_peak"]
    if rows is None:
        return {}
    # A line has a row for each call site in native code.
    lines = {}
    for row in rows:
        if row["file"] is not None:
            place = f"{row['file']}:{row['line']}"
            lines[place] = lines.get(place, 0) + row["bytes"]
    return lines


def show(name, truth, whole, exact, sampled):
    peak = whole or max(exact["peak_bytes"], 1)
    print(f"{name}: peak {peak / 2**20:.1f} MiB of "
          f"{'memray' if whole else 'exact'}; exact {exact['peak_bytes'] / 2**20:.1f} ({exact['basis']}), "
          f"sampled {sampled['peak_bytes'] / 2**20:.1f} ({sampled['samples']} samples); "
          f"difference {100 * (sampled['peak_bytes'] - exact['peak_bytes']) / peak:+.2f} %")
    by_exact, by_samples = lines_of(exact), lines_of(sampled)
    worst = 0.0
    for place, held in sorted(truth.items(), key=lambda item: -item[1])[:5]:
        one, two = by_exact.get(place, 0), by_samples.get(place, 0)
        worst = max(worst, abs(two - held) / peak)
        print(f"    {os.path.basename(place):28} truth {held / 2**20:9.2f}  exact {one / 2**20:9.2f} "
              f"({100 * (one - held) / peak:+.2f} %)  sampled {two / 2**20:9.2f} ({100 * (two - held) / peak:+.2f} %)")
    return worst


def measure(name, arguments):
    with tempfile.TemporaryDirectory() as directory:
        script = os.path.join(directory, f"{name}.py")
        text = PROLOGUE + PROGRAMS[name]
        pathlib.Path(script).write_text(text)
        marks = {line[-1]: number for number, line in enumerate(text.splitlines(), 1) if line[-3:-1] == " #"}
        exact, output, verdict = by_tbprof(arguments.tbprof, ["--malloc=exact"], arguments.python, script,
                                           os.path.join(directory, "exact"))
        ledgers = [line for line in output.splitlines() if line.startswith("LEDGER ")]
        whole, truth = None, {}
        if ledgers:
            held = json.loads(ledgers[-1][len("LEDGER "):])
            truth = {f"{script}:{marks[mark]}": bytes_ for mark, bytes_ in held.items()}
        else:
            memray = by_memray(arguments.python, script, directory)
            whole, truth = memray if memray else (None, lines_of(exact))
        for turn in range(arguments.runs):
            sampled, _, verdict = by_tbprof(arguments.tbprof, [], arguments.python, script,
                                            os.path.join(directory, f"sampled{turn}"))
            worst = show(name, truth, whole, exact, sampled)
            print(f"    worst line {100 * worst:.2f} % of the peak")
        for line in verdict:
            print("    " + line)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tbprof", default="build/bin/tbprof")
    parser.add_argument("--python", default="/tmp/pv/bin/python")
    parser.add_argument("--only", choices=PROGRAMS)
    parser.add_argument("--runs", type=int, default=1)
    arguments = parser.parse_args()
    for name in [arguments.only] if arguments.only else PROGRAMS:
        measure(name, arguments)


if __name__ == "__main__":
    main()
