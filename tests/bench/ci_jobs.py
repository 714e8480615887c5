#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wall time of CI jobs, bare and under `tbprof run`: what a user waits for, from the start of the launcher to its end.

    tests/bench/ci_jobs.py --build=build --pairs=9 [--jobs=make,ninja] [--also=base/bin/tbprof] [--json=FILE]

Builds its jobs in a temporary directory, runs them in interleaved pairs and prints for each the median of bare, the
median and quartiles of wrapped / bare (wall time, and CPU time of the whole tree), and where tbprof's share lies:
start (main to exec), attach and hooks (CPU in the processes, estimated), end (command's end to the written profile).
`--also` measures a second tbprof in the same rounds. Jobs whose tools are missing are named as left out.
"""
import argparse
import glob
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
JOBS = {}


def job(name, needs=()):
    """A function that fills the current directory and returns the command, and one that undoes a run (or None)."""
    def add(function):
        JOBS[name] = (function, needs)
        return function
    return add


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(textwrap.dedent(text))


def c_module(i):
    return f"""
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <math.h>
        #include <pthread.h>
        #include <sys/stat.h>
        #include <netinet/in.h>
        struct node{i} {{ struct node{i} *left, *right; double value; char name[32]; }};
        static struct node{i} *insert(struct node{i} *n, double v) {{
          if (n == NULL) {{ n = calloc(1, sizeof *n); n->value = v; snprintf(n->name, 32, "%g", v); return n; }}
          if (v < n->value) n->left = insert(n->left, v); else n->right = insert(n->right, v);
          return n;
        }}
        static double sum(const struct node{i} *n) {{ return n ? n->value + sum(n->left) + sum(n->right) : 0; }}
        double module_{i}(int count) {{
          struct node{i} *root = NULL;
          for (int k = 0; k < count; ++k) root = insert(root, fmod(k * 7919.0 + {i}, 1009));
          return sum(root);
        }}
    """


def c_project(count):
    for i in range(count):
        write(f"src/m{i}.c", c_module(i))
    calls = " + ".join(f"module_{i}(argc * 20)" for i in range(count))
    declared = "\n".join(f"double module_{i}(int);" for i in range(count))
    write("src/main.c", f"#include <stdio.h>\n{declared}\nint main(int argc, char** argv) {{ (void)argv;"
                        f' printf("%g\\n", {calls}); return 0; }}\n')
    return ["main"] + [f"m{i}" for i in range(count)]


@job("make -j2, gcc", ("make", "gcc"))
def _():
    names = c_project(60)
    objects = " ".join(f"{n}.o" for n in names)
    write("Makefile", f"all: {objects}\n\tgcc -o prog $^ -lm\n%.o: src/%.c\n\tgcc -O2 -Wall -c -o $@ $<\n"
                      "clean:\n\trm -f *.o prog\n")
    return ["make", "-j2"], "make -s clean"


@job("ninja, g++", ("ninja", "g++"))
def _():
    text = "rule cxx\n  command = g++ -O1 -std=c++17 -c -o $out $in\nrule link\n  command = g++ -o $out $in\n"
    for i in range(6):
        write(f"u{i}.cc", f"""
            #include <algorithm>
            #include <map>
            #include <string>
            #include <vector>
            std::string unit_{i}(int n) {{
              std::map<std::string, std::vector<int>> m;
              for (int k = 0; k < n; ++k) m[std::to_string(k % 17 + {i})].push_back(k);
              std::string s;
              for (auto& [key, list] : m) {{ std::sort(list.begin(), list.end()); s += key + std::to_string(list[0]); }}
              return s;
            }}
        """)
        text += f"build u{i}.o: cxx u{i}.cc\n"
    write("main.cc", "#include <string>\nstd::string unit_0(int);\nint main() { return unit_0(9).empty(); }\n")
    text += "build main.o: cxx main.cc\nbuild prog: link main.o " + " ".join(f"u{i}.o" for i in range(6)) + "\n"
    write("build.ninja", text)
    return ["ninja", "-j2"], "rm -f *.o prog .ninja_log .ninja_deps"


@job("ctest", ("ctest", "cmake", "gcc", "ninja"))
def _():
    write("CMakeLists.txt", """
        cmake_minimum_required(VERSION 3.13)
        project(sample C)
        enable_testing()
        add_executable(unit unit.c)
        target_link_libraries(unit m pthread)
        foreach(i RANGE 59)
          add_test(NAME unit_${i} COMMAND unit ${i})
        endforeach()
    """)
    write("unit.c", c_module(0) + """
        static void *work(void *n) { module_0(*(int *)n); return NULL; }
        int main(int argc, char **argv) {
          int n = 25000; pthread_t t;
          pthread_create(&t, NULL, work, &n);
          double x = module_0(n + (argc > 1 ? atoi(argv[1]) : 0));
          pthread_join(t, NULL);
          return x < 0;
        }
    """)
    subprocess.run("cmake -G Ninja -S . -B build && ninja -C build", shell=True, check=True, stdout=subprocess.DEVNULL)
    return ["ctest", "--test-dir", "build", "-j2"], None


@job("cmake configure", ("cmake", "gcc", "ninja"))
def _():
    checks = "\n".join(f"check_function_exists({f} HAVE_{f.upper()})" for f in (
        "fork", "execveat", "memfd_create", "strlcpy", "getrandom", "epoll_create1", "statx", "kqueue"))
    write("CMakeLists.txt", f"""
cmake_minimum_required(VERSION 3.13)
project(sample C CXX)
include(CheckFunctionExists)
include(CheckIncludeFile)
include(CheckTypeSize)
find_package(Threads)
{checks}
check_include_file(sys/epoll.h HAVE_EPOLL_H)
check_type_size(long SIZEOF_LONG)
add_library(a a.c)
""")
    write("a.c", "int a;\n")
    return ["cmake", "-G", "Ninja", "-S", ".", "-B", "b"], "rm -rf b"


@job("configure (autoconf)", ("autoconf", "gcc"))
def _():
    write("configure.ac", """\
        AC_INIT([sample], [1.0])
        AC_PROG_CC
        AC_CHECK_HEADERS([sys/epoll.h sys/event.h fcntl.h netdb.h])
        AC_CHECK_FUNCS([fork memfd_create strlcpy epoll_create1 kqueue])
        AC_CHECK_SIZEOF([long])
        AC_CONFIG_FILES([out])
        AC_OUTPUT
    """)
    write("out.in", "@CC@\n")
    subprocess.run(["autoconf"], check=True)
    return ["./configure"], "rm -rf config.* out"


@job("pytest, json and text", ("pytest",))
def _():
    write("test_text.py", """
        import json, re, zlib, hashlib, subprocess, tempfile, threading, queue
        import pytest
        DOC = {"k%d" % i: [i, str(i) * 5, {"n": i / 7}] for i in range(300)}
        @pytest.mark.parametrize("n", range(300))
        def test_round_trip(n):
            assert json.loads(json.dumps(DOC, indent=n % 4)) == DOC
        @pytest.mark.parametrize("n", range(60))
        def test_pattern(n):
            text = json.dumps(DOC)
            assert len(re.findall(r"k(%d\\d*)" % (n % 9 + 1), text)) > 0
        @pytest.mark.parametrize("n", range(100))
        def test_compression(n, tmp_path):
            data = json.dumps(DOC).encode() * (n % 5 + 1)
            path = tmp_path / "z"
            path.write_bytes(zlib.compress(data))
            assert hashlib.sha256(zlib.decompress(path.read_bytes())).digest() == hashlib.sha256(data).digest()
        @pytest.mark.parametrize("n", range(20))
        def test_queue(n):
            q = queue.Queue(4)
            t = threading.Thread(target=lambda: [q.put(i) for i in range(200)])
            t.start()
            assert sum(q.get() for _ in range(200)) == 19900
            t.join()
        @pytest.mark.parametrize("n", range(10))
        def test_process(n):
            assert subprocess.run(["echo", str(n)], capture_output=True).stdout == b"%d\\n" % n
    """)
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], None


@job("pytest, numpy's own", ("pytest", "numpy.tests"))
def _():
    import numpy
    where = os.path.join(os.path.dirname(numpy.__file__), "lib", "tests")
    tests = [os.path.join(where, f) for f in ("test_arraypad.py", "test_arraysetops.py", "test_index_tricks.py",
                                              "test_stride_tricks.py")]
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], None


@job("python, its own tests", ("python.tests",))
def _():
    return [sys.executable, "-m", "test", "test_heapq", "test_shlex", "test_textwrap", "test_re", "test_zlib"], None


@job("python, numpy", ("numpy",))
def _():
    write("work.py", """
        import os
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads spin: what they take is what the machine leaves
        import numpy as np
        rng = np.random.default_rng(1)
        a = rng.standard_normal((500, 500))
        for i in range(40):
            u, s, v = np.linalg.svd(a[:200, :200])
            a = np.tanh(a @ a.T / 500)
            np.sort(a, axis=None)
        print(a.sum())
    """)
    return [sys.executable, "work.py"], None


@job("python, torch on the CPU", ("torch",))
def _():
    write("work.py", """
        import torch
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                    torch.nn.Linear(16 * 26 * 26, 10))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        data = torch.utils.data.TensorDataset(torch.randn(600, 1, 28, 28), torch.randint(10, (600,)))
        for x, y in torch.utils.data.DataLoader(data, 20):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """)
    return [sys.executable, "work.py"], None


@job("pip install, venv", ("venv",))
def _():
    import zipfile
    with zipfile.ZipFile("sample-1.0-py3-none-any.whl", "w") as wheel:
        record = ""
        for i in range(60):
            wheel.writestr(f"sample/m{i}.py", f"def f{i}(x):\n    return [x * k for k in range({i})]\n" * 20)
            record += f"sample/m{i}.py,,\n"
        wheel.writestr("sample-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n")
        wheel.writestr("sample-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("sample-1.0.dist-info/RECORD", record)
    return ["sh", "-c", f"{sys.executable} -m venv v && v/bin/pip install -q --no-index ./sample-1.0-py3-none-any.whl "
                        "--disable-pip-version-check && v/bin/python -c 'import sample.m1'"], "rm -rf v"


@job("shell loop, 800 programs", ("sh", "sed"))
def _():
    write("loop.sh", """
        i=0
        while [ $i -lt 200 ]; do
          name=$(basename /usr/lib/libsample$i.so .so)
          echo "$name" | sed 's/lib//' | tr a-z A-Z >> out
          i=$((i + 1))
        done
        wc -l < out
    """)
    return ["sh", "loop.sh"], "rm -f out"


@job("find, grep, sort, awk", ("find", "grep", "awk"))
def _():
    return ["sh", "-c", "for i in 1 2 3; do find /usr/include /usr/share/perl -type f | sort > list; "
                        "xargs -a list grep -l define | wc -l; "
                        "xargs -a list cat | awk '{n[$1]++} END {for (w in n) print n[w], w}' | sort -rn | head -5; "
                        "done"], None


@job("git, clone to gc", ("git",))
def _():
    subprocess.run(["git", "clone", "-q", "--bare", "--no-local", ROOT, "origin.git"], check=True)
    return ["sh", "-ec", "git clone -q --no-local origin.git w; cd w; git log -p -200 > /dev/null; git checkout -q -b x; "
                         "for i in 1 2 3 4 5 6 7 8; do echo $i >> README.md; git add -A; "
                         "git -c user.name=a -c user.email=a@b commit -qm $i; done; git status --short; "
                         "git -c pack.threads=2 gc -q"], "rm -rf w"


@job("tar, xz", ("tar", "xz"))
def _():
    subprocess.run("tar -C /usr/include -cf - . | head -c 5000000 > data", shell=True, check=True)
    return ["sh", "-c", "tar -cf - data | xz -4 -T2 > d.txz && xz -dc d.txz | sha256sum"], "rm -f d.txz"


@job("gzip, sha256sum", ("gzip",))
def _():
    subprocess.run("tar -C /usr/include -cf - . | head -c 12000000 > data", shell=True, check=True)
    return ["sh", "-c", "for i in 1 2; do gzip -9 -c data | gzip -dc | sha256sum; done"], None


@job("node --test", ("node",))
def _():
    for i in range(8):
        write(f"t{i}.test.js", f"""
            const test = require('node:test'), assert = require('node:assert'), crypto = require('node:crypto');
            for (let k = 0; k < 25; k++) test('round trip ' + k, async () => {{
              const data = Array.from({{length: 800}}, (_, n) => ({{n, text: 'x'.repeat(n % 50 + {i})}}));
              assert.deepStrictEqual(JSON.parse(JSON.stringify(data)), data);
              assert.ok(crypto.createHash('sha256').update(JSON.stringify(data)).digest('hex').length === 64);
              await new Promise(r => setImmediate(r));
            }});
        """)
    return ["node", "--test"], None


@job("javac, java", ("javac", "java"))
def _():
    for i in range(60):
        write(f"s/C{i}.java", f"""
            package s;
            import java.util.*;
            import java.util.stream.*;
            public class C{i} {{
              private final Map<String, List<Integer>> map = new TreeMap<>();
              public int run(int n) {{
                for (int k = 0; k < n; k++) map.computeIfAbsent("k" + k % 31, x -> new ArrayList<>()).add(k + {i});
                return map.values().stream().mapToInt(l -> l.stream().mapToInt(Integer::intValue).sum()).sum();
              }}
            }}
        """)
    calls = "".join(f"t += new C{i}().run(20000);" for i in range(60))
    write("s/Main.java", f"package s; public class Main {{ public static void main(String[] a) {{ long t = 0; {calls}"
                         " System.out.println(t); } }")
    return ["sh", "-c", "javac -d out s/*.java && java -cp out s.Main"], "rm -rf out"


@job("go build, go test", ("go",))
def _():
    write("go.mod", "module sample\n\ngo 1.19\n")
    for i in range(6):
        write(f"p{i}/p.go", f"""package p{i}
            import ("sort"; "strings"; "fmt")
            func F(n int) string {{ var s []string
              for k := 0; k < n; k++ {{ s = append(s, fmt.Sprint(k*7%101)) }}
              sort.Strings(s); return strings.Join(s, ",") }}
        """)
        write(f"p{i}/p_test.go", f"""package p{i}
            import "testing"
            func TestF(t *testing.T) {{ for k := 0; k < 300; k++ {{ if len(F(k+1)) == 0 {{ t.Fatal(k) }} }} }}
        """)
    os.environ["GOFLAGS"], os.environ["GOTOOLCHAIN"] = "-mod=mod", "local"
    return ["sh", "-c", "go build ./... && go test -count=1 ./..."], "touch p*/p.go; sed -i '$a //' p*/p.go"


@job("cargo test", ("cargo.works",))
def _():
    write("Cargo.toml", '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n')
    tests = "".join(f"    #[test] fn t{i}() {{ assert!(super::f({i} + 10).len() > 3); }}\n" for i in range(40))
    write("src/lib.rs", "use std::collections::BTreeMap;\npub fn f(n: usize) -> String {\n let mut m = BTreeMap::new();\n"
          " for k in 0..n * 1000 { *m.entry(k * 31 % 977).or_insert(0usize) += k; }\n format!(\"{m:?}\") }\n"
          f"#[cfg(test)] mod tests {{\n{tests}}}\n")
    return ["cargo", "test", "--offline", "-q"], "rm -rf target"


@job("sqlite3", ("sqlite3",))
def _():
    write("load.sql", """
        create table t(a integer primary key, b text, c real);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 250000)
        insert into t select i, printf('row %d', i * 7919 % 250007), i / 7.0 from n;
        create index tb on t(b);
        select count(*), sum(c) from t where b between 'row 1' and 'row 5';
        delete from t where a % 3 = 0;
        vacuum;
        pragma integrity_check;
    """)
    return ["sh", "-c", "for i in 1; do rm -f x.db; sqlite3 x.db < load.sql; done"], "rm -f x.db"


@job("perl, prove", ("prove",))
def _():
    for i in range(20):
        write(f"t/t{i:02}.t", f"""
            use strict; use warnings; use Test::More tests => 40; use File::Temp; use Digest::SHA 'sha1_hex';
            for my $k (1..40) {{
              my %h = map {{ $_ => $_ * $k }} 1..600;
              my $text = join ',', map {{ "$_=$h{{$_}}" }} sort keys %h;
              my ($f) = File::Temp::tempfile(UNLINK => 1); print $f $text; close $f;
              ok(sha1_hex($text) =~ /^[0-9a-f]{{40}}$/, "{i} $k");
            }}
        """)
    return ["prove", "-j2", "-q", "t"], None


@job("clang-format of a tree", ("clang-format",))
def _():
    shutil.copytree(os.path.join(ROOT, "wire"), "wire")
    shutil.copytree(os.path.join(ROOT, "preload"), "preload")
    return ["sh", "-c", "for d in wire preload; do find $d -name '*.cc' -o -name '*.h' | "
                        "xargs -n 12 -P 2 clang-format --style=Google | sha256sum; done"], None


def has(need):
    python = {"numpy": "import numpy", "torch": "import torch", "pytest": "import pytest", "venv": "import ensurepip",
              "numpy.tests": "import numpy.lib.tests.test_arraypad",
              "python.tests": "import test.test_heapq, test.test_zlib"}
    if need in python:
        return subprocess.run([sys.executable, "-c", python[need]], capture_output=True).returncode == 0
    if need == "cargo.works":
        return shutil.which("cargo") and subprocess.run(["cargo", "--version"], capture_output=True).returncode == 0
    return shutil.which(need) is not None


def run(command, log):
    """Wall and CPU time of the whole tree, in seconds."""
    with open(log, "wb") as out:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begin = time.monotonic()
        status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out).returncode
        wall = time.monotonic() - begin
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        with open(log, errors="replace") as file:
            raise RuntimeError(f"{' '.join(command)}: status {status}\n{file.read()[-2000:]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def quartiles(values):
    ordered = sorted(values)
    quarter = (len(ordered) - 1) // 4
    return statistics.median(ordered), ordered[quarter], ordered[-1 - quarter]


def measure(name, launchers, pairs, scratch, options):
    directory = tempfile.mkdtemp(dir=scratch)
    os.chdir(directory)
    command, undo = JOBS[name][0]()
    sides = ["bare"] + list(launchers)
    taken = {side: [] for side in sides}
    splits = {side: [] for side in launchers}
    log = os.path.join(scratch, "log")
    for turn in range(-1, pairs):  # the first fills the caches
        order = sides[:]
        random.shuffle(order)
        for side in order:
            if undo:
                subprocess.run(undo, shell=True, check=True)
            if side == "bare":
                result = run(command, log)
            else:
                result = run([launchers[side], "run", f"--logdir={scratch}/logs", *options, "--"] + command, log)
                with open(glob.glob(f"{scratch}/logs/plugins/profile/*/summary.json")[0]) as file:
                    summary = json.load(file)
                own = summary["overhead"]
                if turn >= 0:
                    splits[side].append((own.get("before_command_s") or 0, own["cpu_s"],
                                         own.get("after_command_s") or 0, summary["process_count"]))
                shutil.rmtree(f"{scratch}/logs", ignore_errors=True)
            if turn >= 0:
                taken[side].append(result)
    os.chdir("/")
    shutil.rmtree(directory, ignore_errors=True)
    rows = {}
    for side in launchers:
        wall = [w[0] / b[0] for w, b in zip(taken[side], taken["bare"])]
        cpu = [w[1] / b[1] for w, b in zip(taken[side], taken["bare"])]
        added = [w[0] - b[0] for w, b in zip(taken[side], taken["bare"])]
        rows[side] = {"job": name, "bare_s": statistics.median(b[0] for b in taken["bare"]),
                      "wall": quartiles(wall), "cpu": quartiles(cpu), "added_s": statistics.median(added),
                      "start_s": statistics.median(s[0] for s in splits[side]),
                      "attach_s": statistics.median(s[1] for s in splits[side]),
                      "end_s": statistics.median(s[2] for s in splits[side]),
                      "processes": statistics.median(s[3] for s in splits[side])}
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--jobs", default="", help="parts of names, separated by commas")
    parser.add_argument("--also", default="", help="another tbprof, measured in the same rounds")
    parser.add_argument("--json", default="")
    parser.add_argument("options", nargs="*", help="options of `tbprof run`")
    arguments = parser.parse_args()
    launchers = {}
    if arguments.also:
        launchers["also"] = os.path.abspath(arguments.also)
    launchers["build"] = os.path.abspath(os.path.join(arguments.build, "bin", "tbprof"))
    parts = [part for part in arguments.jobs.split(",") if part]
    scratch = tempfile.mkdtemp(prefix="ci-jobs-")
    out = open(os.path.abspath(arguments.json), "w") if arguments.json else None
    found = {side: [] for side in launchers}
    print(f"{'':26} {'processes':>9} {'bare':>7}   {'wall ratio':17}   {'CPU ratio':17}   {'start':>6} {'attach':>6} "
          f"{'end':>6}", flush=True)
    try:
        for name, (_, needs) in JOBS.items():
            if parts and not any(part in name for part in parts):
                continue
            missing = [need for need in needs if not has(need)]
            if missing:
                print(f"{name:26} left out: no {', '.join(missing)}", flush=True)
                continue
            try:
                rows = measure(name, launchers, arguments.pairs, scratch, arguments.options)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"{name:26} left out: {error}", flush=True)
                continue
            for side, row in rows.items():
                found[side].append(row)
                wall, cpu = ("%.3f (%.3f-%.3f)" % row[key] for key in ("wall", "cpu"))
                label = name if side == "build" else "  (also)"
                print(f"{label:26} {row['processes']:9.0f} {row['bare_s']:5.2f} s   {wall}   {cpu}   "
                      f"{row['start_s'] * 1000:6.0f} {row['attach_s'] * 1000:6.0f} {row['end_s'] * 1000:6.0f}",
                      flush=True)
                if out:
                    out.write(json.dumps({"side": side, **row}) + "\n")
                    out.flush()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    for side, rows in found.items():
        if rows:
            ratios = [row["wall"][0] for row in rows]
            cpus = [row["cpu"][0] for row in rows]
            print(f"{side}: {len(rows)} jobs, wall median {statistics.median(ratios):.3f}, worst {max(ratios):.3f}; "
                  f"CPU median {statistics.median(cpus):.3f}, worst {max(cpus):.3f}")


if __name__ == "__main__":
    main()
