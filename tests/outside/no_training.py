#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs that are no training under `tbprof run`. tbprof must report no step of any of them.

    tests/outside/no_training.py [--tbprof=PATH] [--only=NAME;...] [--dependencies|--quick] [--half=developed|held-out]

A program fails if `summary.json` has a source of steps other than `synthetic`, or if the profile shows more than one
step. A program that ends with an unexpected status, or of which nothing was recorded, is an error: it would prove
nothing. Programs that the machine lacks are skipped; --dependencies runs those alone that need no more than what
scripts/install_dependencies.sh installs, and skips none.

The rules of writer/ were developed with the programs marked `developed`. The others were written before the rules and
looked at after.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
PORT = 18700  # and the next ones; beyond the range of ephemeral ports' usual users


@dataclasses.dataclass
class Program:
    name: str
    kind: str
    command: object  # a list, or text for `sh -c`
    setup: object = None  # called with the directory
    held_out: bool = False
    needs: tuple = ()  # programs, or modules of PYTHON with a dot in front
    dependencies: bool = False  # what it needs is installed by scripts/install_dependencies.sh
    client: str = ""  # run bare beside a server, once its port answers; then the server gets SIGTERM
    server: str = ""  # run bare beside the command, which is its client
    port: int = 0
    statuses: tuple = (0,)


PROGRAMS = []

# Of those that need no more than the dependencies: what takes a few seconds. ctest runs these.
QUICK = {
    "make -j2", "sh, a compiler in a loop", "configure, by hand", "pytest of a small project", "unittest test_json", "ctest -j2",
    "an HTTP client", "an echo server of asyncio", "a pool of threads that takes jobs", "bash, sleep in a loop", "a scheduler",
    "a monitor that logs", "ProcessPoolExecutor", "Python, sqlite3", "Python, zipfile", "Python, copies of blocks", "awk",
    "git commits in a loop", "prove",
}


def add(name, kind, command, **more):
    PROGRAMS.append(Program(name, kind, command, **more))


# ---- what the programs work on


def c_function(rng, name, size):
    lines = [f"int {name}(int n) {{", "  int total = n;"]
    for number in range(size):
        lines.append(f"  for (int i{number} = 0; i{number} < n; ++i{number}) total += (total * {rng.randrange(2, 99)}) ^ "
                     f"(i{number} << {rng.randrange(1, 9)});")
        if rng.random() < 0.3:
            lines.append(f"  if (total % {rng.randrange(2, 50)} == 0) total -= {rng.randrange(1000)};")
    return "\n".join(lines + ["  return total;", "}", ""])


def c_project(files, longest=60, extension="c"):
    """Files of different sizes, as a project has them, a header, a Makefile and a CMakeLists.txt."""

    def make(directory):
        rng = random.Random(7)
        names = [f"part{number}" for number in range(files)]
        for name in names:
            text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
            if extension == "cc":
                text += "#include <map>\n#include <string>\n#include <vector>\n"
                text += f"static std::map<std::string, std::vector<int>> table_{name};\n"
            for number in range(rng.randrange(1, 5)):
                text += c_function(rng, f"{name}_{number}", rng.randrange(3, longest))
            (directory / f"{name}.{extension}").write_text(text)
        (directory / f"main.{extension}").write_text("int main(void) { return 0; }\n")
        sources = " ".join(f"{name}.{extension}" for name in names)
        compiler = "gcc" if extension == "c" else "g++"
        (directory / "Makefile").write_text(
            f"SOURCES = {sources} main.{extension}\nall: $(SOURCES:.{extension}=.o)\n\t{compiler} -o program $^\n"
            f"%.o: %.{extension}\n\t{compiler} -O2 -c -o $@ $<\n")
        (directory / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.18)\nproject(parts C CXX)\n"
            f"add_executable(program {sources} main.{extension})\n")

    return make


def large_source(name, functions, size):
    def make(directory):
        rng = random.Random(3)
        (directory / name).write_text("".join(c_function(rng, f"f{number}", size) for number in range(functions)))

    return make


TEMPLATES = """
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <tuple>
#include <variant>
#include <vector>
template <int N> struct Deep { using type = std::tuple<typename Deep<N - 1>::type, std::vector<int>>; };
template <> struct Deep<0> { using type = int; };
"""


def template_source(directory):
    body = "".join(
        f"std::size_t g{n}(std::string text) {{ std::map<std::string, std::variant<int, std::string>> m; std::regex r(\"a{n}+\");"
        f" m[text] = {n}; return std::regex_search(text, r) + m.size() + sizeof(Deep<{n % 40}>::type); }}\n"
        for n in range(12))
    (directory / "large.cc").write_text(TEMPLATES + body)


HEADERS = ("assert ctype errno fcntl float inttypes limits locale math pthread pwd regex sched setjmp signal stdarg stddef stdint "
           "stdio stdlib string strings sys/ioctl sys/mman sys/param sys/resource sys/select sys/socket sys/stat sys/time "
           "sys/types sys/un sys/wait termios time unistd wchar").split()
FUNCTIONS = ("accept4 alarm atexit clock_gettime dup2 fork ftruncate getcwd gethostbyname getpagesize gettimeofday isatty "
             "localtime_r memchr memmove memset mkdir mmap munmap poll pow putenv realpath select setenv setlocale socket "
             "strcasecmp strchr strdup strerror strstr strtol uname vfork vprintf").split()


def hand_written_configure(headers, functions):
    """A configure script as autoconf makes it: one compiler run, sometimes a link and a run, for each check."""

    def make(directory):
        checks = ["#!/bin/sh", "exec 5>config.log", ": > confdefs.h", "CC=${CC-gcc}", textwrap.dedent("""
            check() {  # what, text, how
              printf 'checking for %s... ' "$1"
              { cat confdefs.h; printf '%s\\n' "$2"; } > conftest.c
              if $CC $3 -o conftest conftest.c >&5 2>&5; then answer=yes; else answer=no; fi
              name=`echo "HAVE_$1" | sed 'y%abcdefghijklmnopqrstuvwxyz./%ABCDEFGHIJKLMNOPQRSTUVWXYZ__%'`
              if test $answer = yes; then echo "#define $name 1" >> confdefs.h; fi
              rm -f conftest conftest.c conftest.o
              echo $answer
            }
            """)]
        for header in headers:
            checks.append(f"check {header}.h '#include <{header}.h>' -c")
        for function in functions:
            checks.append(f"check {function} 'char {function}(); int main(void) {{ return {function}(); }}' ''")
        checks.append("sed 's/^/ /' confdefs.h > config.h\necho done")
        (directory / "configure").write_text("\n".join(checks) + "\n")

    return make


def autoconf_project(libtool=False):
    def make(directory):
        (directory / "configure.ac").write_text("\n".join(
            ["AC_INIT([program], [1.0])", "AC_CONFIG_SRCDIR([main.c])", "AC_CONFIG_HEADERS([config.h])", "AC_PROG_CC",
             *(["LT_INIT"] if libtool else []),
             "AC_CHECK_HEADERS([" + " ".join(f"{header}.h" for header in HEADERS) + "])",
             "AC_TYPE_SIZE_T", "AC_C_BIGENDIAN", "AC_CHECK_SIZEOF([long])", "AC_FUNC_MALLOC",
             "AC_CHECK_FUNCS([" + " ".join(FUNCTIONS) + "])", "AC_OUTPUT", ""]))
        (directory / "main.c").write_text("int main(void) { return 0; }\n")
        (directory / "config.h.in").write_text("")
        subprocess.run("touch aclocal.m4; " + ("libtoolize -q -c; autoreconf -i" if libtool else "autoreconf -i"), shell=True,
                       cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return make


def cmake_checks(directory):
    checks = "".join(f"check_function_exists({name} HAVE_{name.upper()})\n" for name in FUNCTIONS[:20])
    (directory / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(checks C)\ninclude(CheckFunctionExists)\n{checks}")


def python_tests(directory):
    rng = random.Random(5)
    for number in range(20):
        text = "import json, os, pytest, re\n"
        for test in range(rng.randrange(5, 30)):
            kind = rng.randrange(4)
            body = ["assert json.loads(json.dumps(list(range(%d)))) is not None" % rng.randrange(10, 4000),
                    "path = tmp_path / 'file'; path.write_text('x' * %d); assert path.stat().st_size" % rng.randrange(1, 90000),
                    "assert re.match(r'(a|b)*c', 'ab' * %d + 'c')" % rng.randrange(1, 2000),
                    "with pytest.raises(OSError): os.stat('/none/%d')" % test][kind]
            text += f"def test_{number}_{test}(tmp_path):\n    {body}\n"
        (directory / f"test_part{number}.py").write_text(text)


def node_tests(directory):
    rng = random.Random(5)
    for number in range(12):
        text = "const test = require('node:test');\nconst assert = require('node:assert');\nconst fs = require('fs');\n"
        for one in range(10):
            text += (f"test('t{number} {one}', async () => {{ let s = 0; for (let i = 0; i < {rng.randrange(10, 300000)}; ++i) "
                     "s += i; fs.readFileSync(__filename); assert.ok(s >= 0); });\n")
        (directory / f"part{number}.test.js").write_text(text)


def perl_tests(directory):
    rng = random.Random(5)
    for number in range(40):
        (directory / f"t{number}.t").write_text(
            f"use Test::More tests => 2; use File::Temp; my $s = 0; $s += $_ for 1..{rng.randrange(10, 400000)};\n"
            "ok($s > 0); ok(File::Temp->new);\n")


def ctest_project(directory):
    (directory / "tests.sh").write_text("#!/bin/sh\nawk \"BEGIN { for (i = 0; i < $1 * 20000; ++i) s += i; exit s < 0 }\"\n")
    (directory / "tests.sh").chmod(0o755)
    rng = random.Random(5)
    lines = "".join(f"add_test(t{n} {directory}/tests.sh {rng.randrange(1, 20)})\n" for n in range(60))
    (directory / "CTestTestfile.cmake").write_text(lines)


def words(lines, name="words.txt"):
    def make(directory):
        rng = random.Random(11)
        vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 12))) for _ in range(5000)]
        with open(directory / name, "w") as file:
            for _ in range(lines):
                file.write(" ".join(rng.choices(vocabulary, k=8)) + f" {rng.randrange(10**6)}\n")

    return make


def tree(files, deep=True):
    def make(directory):
        rng = random.Random(13)
        for number in range(files):
            place = directory / "tree" / (f"d{number % 17}/e{number % 5}" if deep else "")
            place.mkdir(parents=True, exist_ok=True)
            (place / f"f{number}").write_bytes(rng.randbytes(int(rng.paretovariate(1) * 2000) % 300000))

    return make


def repository(commits):
    def make(directory):
        lines = []
        rng = random.Random(17)
        for number in range(1, commits + 1):
            text = "\n".join(str(rng.randrange(10**6)) for _ in range(60)).encode()
            name = f"file{rng.randrange(40)}"
            lines.append(b"blob\nmark :%d\ndata %d\n%s\n" % (2 * number, len(text), text))
            lines.append(b"commit refs/heads/main\nmark :%d\ncommitter a <a@b> %d +0000\ndata 1\nx\nM 100644 :%d %s\n" %
                         (2 * number + 1, 1700000000 + number, 2 * number, name.encode()))
        subprocess.run(["git", "init", "-q", "-b", "main", "repository"], cwd=directory, check=True)
        subprocess.run(["git", "fast-import", "--quiet"], cwd=directory / "repository", check=True, input=b"".join(lines))

    return make


def script(name, text):
    def make(directory):
        (directory / name).write_text(textwrap.dedent(text))

    return make


def both(*makers):
    def make(directory):
        for maker in makers:
            maker(directory)

    return make


# ---- compilers and builds

add("make -j2", "compiler", "make -s -j2", setup=c_project(60), needs=("make", "gcc"), dependencies=True)
add("make, C++", "compiler", "make -s", setup=c_project(16, extension="cc"), needs=("make", "g++"), held_out=True, dependencies=True)
add("gcc, one large file", "compiler", ["gcc", "-O2", "-c", "large.c"], setup=large_source("large.c", 150, 30), needs=("gcc",),
    dependencies=True)
add("g++, templates", "compiler", ["g++", "-O1", "-c", "large.cc"], setup=template_source, needs=("g++",), held_out=True,
    dependencies=True)
add("clang, one large file", "compiler", ["clang", "-O2", "-c", "large.c"], setup=large_source("large.c", 150, 30),
    needs=("clang",), dependencies=True)
add("cmake and ninja", "compiler", "cmake -S . -B build -G Ninja && ninja -C build", setup=c_project(40),
    needs=("cmake", "ninja", "gcc"), held_out=True, dependencies=True)
add("sh, a compiler in a loop", "compiler", "for file in *.c; do gcc -O1 -c $file; done", setup=c_project(40, 20), needs=("gcc",),
    dependencies=True)
add("javac and java", "compiler", "javac -d out *.java && java -cp out Main", needs=("javac",), held_out=True,
    setup=lambda directory: [(directory / f"Part{n}.java").write_text(
        f"class Part{n} {{ static long run(int k) {{ long s = 0; for (int i = 0; i < k; ++i) s += (long) i * {n} % 7; return s; }} }}\n")
        for n in range(60)] and (directory / "Main.java").write_text(
            "class Main { public static void main(String[] a) { long s = 0; java.util.List<String> l = new java.util.ArrayList<>();"
            + "".join(f" s += Part{n}.run({n * 100000}); for (int i = 0; i < 2000; ++i) l.add(\"x\" + i);" for n in range(60))
            + " System.out.println(s + l.size()); } }\n"))
add("go build of a part of its library", "compiler", "go mod init example.org/p >/dev/null 2>&1; go build -a -o p .", needs=("go",),
    setup=both(script("p.go", 'package main\nimport "os"\nfunc main() { os.Exit(0) }\n')))
add("python3 -m compileall", "compiler", [PYTHON, "-m", "compileall", "-q", "-f", "json", "email", "asyncio", "xml", "http"],
    setup=lambda directory: [shutil.copytree(f"/usr/lib/python3.11/{name}", directory / name)
                             for name in ("json", "email", "asyncio", "xml", "http")],
    held_out=True, dependencies=True)
add("cppcheck", "compiler", "cppcheck -q *.c", setup=c_project(30, 20), needs=("cppcheck",), held_out=True)
add("latex", "compiler", "for i in 1 2 3; do pdflatex -interaction=batchmode text.tex >/dev/null; done", needs=("pdflatex",),
    held_out=True, setup=lambda directory: (directory / "text.tex").write_text(
        "\\documentclass{article}\\begin{document}" + "".join(
            f"\\section{{S{n}}} " + "Some words and $x^{%d}$. " % n * 60 + "\n\n" for n in range(120)) + "\\end{document}\n"))
add("rst2html of many pages", "compiler", "for file in *.rst; do python3 -m docutils $file $file.html; done", needs=(".docutils",),
    setup=lambda directory: [(directory / f"p{n}.rst").write_text(
        "Title\n=====\n\n" + "Some *text* with ``code``.\n\n* one\n* two\n\n" * (5 + 7 * n % 60)) for n in range(12)])
add("sphinx-build", "compiler", [PYTHON, "-m", "sphinx", "-q", "-b", "html", ".", "out"], needs=(".sphinx",), held_out=True,
    setup=lambda directory: [(directory / f"p{n}.rst").write_text(
        f"Title {n}\n=========\n\n" + "Some *text* with ``code``.\n\n* one\n* two\n\n" * (5 + 7 * n % 60)) for n in range(40)] and
    [(directory / "conf.py").write_text("project = 'p'\n"), (directory / "index.rst").write_text(
        "Index\n=====\n\n.. toctree::\n   :glob:\n\n   p*\n")])
add("dot", "compiler", "dot -Tsvg -o g.svg g.dot", needs=("dot",), held_out=True,
    setup=lambda directory: (directory / "g.dot").write_text(
        "digraph g {" + "".join(f"n{i} -> n{(i * 7 + 3) % 150};n{i} -> n{(i * 3 + 1) % 150};" for i in range(150)) + "}"))

# ---- configure scripts

add("configure, by hand", "configure", ["sh", "configure"], setup=hand_written_configure(HEADERS[:30], FUNCTIONS[:20]),
    needs=("gcc",), dependencies=True)
add("configure, autoconf", "configure", ["./configure"], setup=autoconf_project(), needs=("gcc", "autoreconf"))
add("configure, autoconf and libtool", "configure", ["./configure"], setup=autoconf_project(libtool=True),
    needs=("gcc", "autoreconf", "libtoolize"), held_out=True)
add("cmake, checks of functions", "configure", ["cmake", "-S", ".", "-B", "build"], setup=cmake_checks, needs=("cmake", "gcc"),
    held_out=True, dependencies=True)

# ---- test suites

PYTEST = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"]
add("pytest of numpy.linalg", "test suite", PYTEST + ["--pyargs", "numpy.linalg"], needs=(".numpy.linalg.tests", ".pytest",
                                                                                          ".hypothesis"))
add("pytest of numpy.linalg, a part", "test suite", PYTEST + ["--pyargs", "numpy.linalg.tests.test_linalg", "-k", "not slow"],
    needs=(".numpy.linalg.tests", ".pytest", ".hypothesis"), dependencies=True)
add("pytest of numpy.fft and numpy.random", "test suite", PYTEST + ["--pyargs", "numpy.fft", "numpy.random.tests.test_generator_mt19937"],
    needs=(".numpy.fft.tests", ".pytest", ".hypothesis"), held_out=True)
add("pytest of scipy.linalg", "test suite", PYTEST + ["--pyargs", "scipy.linalg.tests.test_basic", "scipy.linalg.tests.test_decomp"],
    needs=(".scipy.linalg.tests", ".pytest"), held_out=True, statuses=(0, 1))
add("pytest of scipy.signal", "test suite", PYTEST + ["--pyargs", "scipy.signal.tests.test_signaltools"],
    needs=(".scipy.signal.tests", ".pytest"), statuses=(0, 1))
add("pytest of a small project", "test suite", PYTEST + ["."], setup=python_tests, needs=(".pytest",), dependencies=True)
add("unittest test_json", "test suite", [PYTHON, "-m", "unittest", "-q", "test.test_json"], needs=(".test.test_json",),
    dependencies=True)
add("unittest test_zipfile and test_tarfile", "test suite", [PYTHON, "-m", "unittest", "-q", "test.test_zipfile", "test.test_bz2"],
    needs=(".test.test_zipfile",), held_out=True, statuses=(0, 1))
add("unittest test_queue and test_asyncio", "test suite",
    [PYTHON, "-m", "unittest", "-q", "test.test_queue", "test.test_concurrent_futures"], needs=(".test.test_queue",),
    statuses=(0, 1))
add("node --test", "test suite", "node --test", setup=node_tests, needs=("node",), held_out=True, statuses=(0, 1))
add("prove", "test suite", "prove -q *.t", setup=perl_tests, needs=("prove",), held_out=True, dependencies=True)
add("ctest -j2", "test suite", "ctest -j2 -Q", setup=ctest_project, needs=("ctest",), dependencies=True)

# ---- servers and their clients

HTTP_CLIENT = """
    import http.client, sys, time
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
    for number in range(int(sys.argv[2])):
        connection.request("GET", "/" + sys.argv[3])
        if connection.getresponse().read() is None: break
        if number % 50 == 0: connection.close()
    """
ECHO_SERVER = """
    import asyncio, sys
    async def serve(reader, writer):
        while line := await reader.readline():
            writer.write(line)
            await writer.drain()
        writer.close()
    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]))
        async with server:
            await server.serve_forever()
    asyncio.run(main())
    """
ECHO_CLIENT = """
    import socket, sys
    made = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(4)]
    for number in range(int(sys.argv[2])):
        one = made[number % 4]
        one.sendall(b"x" * (number % 500) + b"\\n")
        one.recv(4096)
    """
NGINX = """
    daemon off; master_process on; worker_processes 1; pid nginx.pid; error_log stderr crit;
    events {{ worker_connections 256; }}
    http {{ access_log access.log; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
      server {{ listen 127.0.0.1:{port}; location / {{ root {directory}; }} }} }}
    """
PAGE = lambda directory: (directory / "page.html").write_text("<p>text</p>\n" * 400)


def nginx_setup(directory):
    PAGE(directory)
    directory.chmod(0o755)
    (directory / "nginx.conf").write_text(textwrap.dedent(NGINX).format(port=PORT + 3, directory=directory))


add("redis-server", "server", ["redis-server", "--port", str(PORT + 1), "--save", "", "--daemonize", "no"],
    client=f"redis-benchmark -q -p {PORT + 1} -n 20000 -t set,get,lpush,sadd", port=PORT + 1, needs=("redis-server", "redis-benchmark"))
add("redis-benchmark", "server", ["redis-benchmark", "-q", "-p", str(PORT + 2), "-n", "20000", "-t", "set,get,lpush,sadd"],
    server=f"redis-server --port {PORT + 2} --save '' --daemonize no", port=PORT + 2, needs=("redis-server", "redis-benchmark"),
    held_out=True)
add("nginx", "server", "exec nginx -p $PWD -c nginx.conf", setup=nginx_setup,
    client=f"ab -q -k -n 20000 -c 4 http://127.0.0.1:{PORT + 3}/page.html", port=PORT + 3, needs=("nginx", "ab"))
add("python3 -m http.server", "server", [PYTHON, "-m", "http.server", "--bind", "127.0.0.1", str(PORT + 4)], setup=both(
    PAGE, script("client.py", HTTP_CLIENT)), client=f"{PYTHON} client.py {PORT + 4} 600 page.html", port=PORT + 4, held_out=True,
    dependencies=True, statuses=(143, -15, 0, 1))
add("an HTTP client", "server", [PYTHON, "client.py", str(PORT + 5), "600", "page.html"], setup=both(
    PAGE, script("client.py", HTTP_CLIENT)), server=f"{PYTHON} -m http.server --bind 127.0.0.1 {PORT + 5}", port=PORT + 5,
    dependencies=True)
add("an echo server of asyncio", "server", [PYTHON, "server.py", str(PORT + 6)], setup=both(
    script("server.py", ECHO_SERVER), script("client.py", ECHO_CLIENT)), client=f"{PYTHON} client.py {PORT + 6} 8000", port=PORT + 6,
    held_out=True, dependencies=True, statuses=(143, -15))
add("an echo client", "server", [PYTHON, "client.py", str(PORT + 7), "8000"], setup=both(
    script("server.py", ECHO_SERVER), script("client.py", ECHO_CLIENT)), server=f"{PYTHON} server.py {PORT + 7}", port=PORT + 7,
    dependencies=True)
add("node, an HTTP server", "server", ["node", "server.js"], needs=("node", "ab"), setup=script("server.js", f"""
    const http = require('http'); const fs = require('fs');
    http.createServer((request, response) => fs.readFile(__filename, (error, text) => response.end(text)))
      .listen({PORT + 8}, '127.0.0.1');
    """), client=f"ab -q -n 3000 -c 4 http://127.0.0.1:{PORT + 8}/", port=PORT + 8, statuses=(143, -15))
add("memcached", "server", ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(PORT + 9), "-t", "4"], needs=("memcached",),
    setup=script("client.py", """
    import socket, sys
    one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for number in range(8000):
        one.sendall(b"set k%d 0 0 5\\r\\nhello\\r\\n" % (number % 100))
        one.recv(100)
        one.sendall(b"get k%d\\r\\n" % (number % 50))
        one.recv(100)
    """), client=f"{PYTHON} client.py {PORT + 9}", port=PORT + 9, held_out=True, statuses=(0, 143, -15))
add("a pool of threads that takes jobs", "server", [PYTHON, "jobs.py"], setup=script("jobs.py", """
    import hashlib, queue, random, threading
    jobs, done = queue.Queue(8), queue.Queue()
    def work():
        while (size := jobs.get()) is not None:
            done.put(hashlib.sha256(b"x" * size).digest())
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    rng = random.Random(1)
    for _ in range(3000): jobs.put(int(rng.paretovariate(0.8) * 5000) % 3000000)
    for _ in threads: jobs.put(None)
    for thread in threads: thread.join()
    """), dependencies=True)
add("haproxy before nginx", "server", "exec haproxy -q -f haproxy.cfg", needs=("haproxy", "nginx", "ab"), held_out=True,
    setup=lambda directory: [PAGE(directory), (directory / "haproxy.cfg").write_text(
        "global\n  maxconn 100\ndefaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\n"
        f"frontend f\n  bind 127.0.0.1:{PORT + 10}\n  http-request return status 200 content-type text/html file {directory}/page.html\n")],
    client=f"ab -q -n 8000 -c 4 http://127.0.0.1:{PORT + 10}/page.html", port=PORT + 10, statuses=(0, 143, -15))

# ---- databases

POSTGRES = "setpriv --reuid=postgres --regid=postgres --clear-groups"


def postgres_setup(directory):
    directory.parent.chmod(0o755)
    directory.chmod(0o777)
    for command in (["initdb", "-D", "data", "-A", "trust"],):
        subprocess.run(POSTGRES.split() + [postgres_program(command[0])] + command[1:], cwd=directory, check=True,
                       stdout=subprocess.DEVNULL)


def postgres_program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name) or name


def postgres(port):
    return f"{postgres_program('postgres')} -D data -p {port} -k /tmp -c fsync=off -c listen_addresses=127.0.0.1"


add("postgres", "database", f"exec {POSTGRES} {postgres(PORT + 11)}", setup=postgres_setup, port=PORT + 11, held_out=True,
    needs=("pgbench", postgres_program("postgres"), "root"),
    client=f"pgbench -q -i -s 2 -h 127.0.0.1 -p {PORT + 11} -U postgres postgres && "
           f"pgbench -c 4 -T 5 -h 127.0.0.1 -p {PORT + 11} -U postgres postgres")
add("pgbench", "database", f"pgbench -q -i -s 1 -h 127.0.0.1 -p {PORT + 12} -U postgres postgres && "
    f"pgbench -c 2 -t 800 -h 127.0.0.1 -p {PORT + 12} -U postgres postgres", setup=postgres_setup, port=PORT + 12,
    needs=("pgbench", postgres_program("postgres"), "root"), server=f"exec {POSTGRES} {postgres(PORT + 12)}")
add("sqlite3, a transaction a row", "database", "sqlite3 rows.db < rows.sql >/dev/null", needs=("sqlite3",),
    setup=lambda directory: (directory / "rows.sql").write_text(
        "create table t(a integer primary key, b text);\n" + "".join(
            f"insert into t(b) values('{'x' * (n % 200)}');\n" for n in range(1500))))
add("sqlite3, queries", "database", "sqlite3 rows.db < rows.sql >/dev/null", needs=("sqlite3",), held_out=True,
    setup=lambda directory: (directory / "rows.sql").write_text(
        "create table t(a integer primary key, b integer);\nwith recursive c(x) as (select 1 union all select x + 1 from c limit 300000) "
        "insert into t select x, abs(random()) % 1000 from c;\n" + "".join(
            f"select b, count(*) from t where a % {n + 2} = 0 group by b order by 2 desc limit 5;\n" for n in range(40))))
add("Python, sqlite3", "database", [PYTHON, "rows.py"], held_out=True, dependencies=True, setup=script("rows.py", """
    import random, sqlite3
    rng = random.Random(1)
    database = sqlite3.connect("rows.db")
    database.execute("create table t(a integer primary key, b text)")
    for number in range(400):
        database.executemany("insert into t(b) values(?)", [("x" * rng.randrange(90),) for _ in range(rng.randrange(1, 60))])
        if number % 3 == 0: database.commit()
        if number % 20 == 0: database.execute("select b, count(*) from t group by b").fetchall()
    """))

# ---- shells and what starts programs

add("bash, programs in a loop", "shell", ["bash", "-c", "for i in {1..150}; do ls / | wc -l; cat /etc/hostname | tr a-z A-Z; done"],
    dependencies=True)
add("bash, sleep in a loop", "shell", ["bash", "-c", "for i in {1..60}; do sleep 0.05; done"], dependencies=True)
add("sh, a clock", "shell", "i=0; while [ $i -lt 50 ]; do date > now; sleep 0.08; i=$((i + 1)); done", held_out=True,
    dependencies=True)
add("xargs -P2", "shell", "find tree -type f -print0 | xargs -0 -n 1 -P 2 gzip", setup=tree(200), held_out=True, dependencies=True)
add("find -exec", "shell", "find tree -type f -exec sha1sum {} \\;", setup=tree(200), held_out=True, dependencies=True)
add("a scheduler", "shell", [PYTHON, "scheduler.py"], dependencies=True, setup=script("scheduler.py", """
    import subprocess, time
    for number in range(25):
        subprocess.run(["true"] if number % 3 else ["ls", "/"], stdout=subprocess.DEVNULL)
        time.sleep(0.15)
    """))
add("a monitor that logs", "shell", [PYTHON, "monitor.py"], held_out=True, dependencies=True, setup=script("monitor.py", """
    import os, time
    with open("log", "w") as log:
        for number in range(60):
            log.write(f"{os.getloadavg()} {open('/proc/meminfo').read()}\\n")
            log.flush()
            os.fsync(log.fileno())
            time.sleep(0.08)
    """))
add("multiprocessing.Pool", "shell", [PYTHON, "pool.py"], dependencies=True, setup=script("pool.py", """
    import hashlib, multiprocessing
    def work(number):
        return hashlib.sha256(b"x" * (number * 7919 % 1000000)).hexdigest()
    if __name__ == "__main__":
        with multiprocessing.Pool(2) as pool:
            for _ in range(3): pool.map(work, range(600), chunksize=5)
    """))
add("ProcessPoolExecutor", "shell", [PYTHON, "pool.py"], held_out=True, dependencies=True, setup=script("pool.py", """
    import concurrent.futures, zlib
    def work(number):
        return zlib.crc32(zlib.compress(b"xyz" * (number * 7919 % 300000)))
    if __name__ == "__main__":
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            print(sum(pool.map(work, range(300))))
    """))
add("gdb -batch", "shell", ["gdb", "-batch", "-ex", "info functions main", "-ex", "disassemble main", "/usr/bin/python3"],
    needs=("gdb",), statuses=(0, 1))
add("pip install of a wheel", "shell", f"{PYTHON} -m venv v && v/bin/pip install --no-index --no-deps -q *.whl",
    needs=(".ensurepip",), dependencies=True, setup=lambda directory: make_wheel(directory))
add("pip list", "shell", f"{PYTHON} -m pip list; {PYTHON} -m pip show -f pip", needs=(".pip",), held_out=True)


def make_wheel(directory):
    import zipfile
    with zipfile.ZipFile(directory / "example-1.0-py3-none-any.whl", "w") as wheel:
        for number in range(200):
            wheel.writestr(f"example/m{number}.py", f"x = {number}\n" * (number * 13 % 400 + 1))
        wheel.writestr("example-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: example\nVersion: 1.0\n")
        wheel.writestr("example-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("example-1.0.dist-info/RECORD", "")


# ---- archivers, compression, copies

add("tar czf", "archiver", "tar czf t.tar.gz tree", setup=tree(1500), dependencies=True)
add("gzip", "archiver", "gzip -k words.txt", setup=words(300000), held_out=True, dependencies=True)
add("xz -T2", "archiver", "xz -k -T2 --block-size=1MiB words.txt", setup=words(100000), needs=("xz",))
add("zstd -T2", "archiver", "zstd -q -12 -T2 words.txt", setup=words(250000), needs=("zstd",), held_out=True)
add("7z", "archiver", "7z a -bd -mmt2 t.7z tree words.txt >/dev/null", setup=both(tree(200), words(60000)), needs=("7z",), held_out=True)
add("Python, zipfile", "archiver", [PYTHON, "-m", "zipfile", "-c", "t.zip", "tree"], setup=tree(700), dependencies=True)
add("dpkg-deb", "archiver", "mkdir -p tree/DEBIAN && printf 'Package: p\\nVersion: 1\\nArchitecture: all\\nMaintainer: a\\nDescription: b\\n' "
    "> tree/DEBIAN/control && dpkg-deb -Zxz -b tree p.deb >/dev/null && dpkg-deb -x p.deb out", setup=tree(600),
    needs=("dpkg-deb",), dependencies=True)
add("rsync", "archiver", "rsync -a tree/ copy/ && rsync -a --delete tree/ copy/", setup=tree(1200), needs=("rsync",), held_out=True)
add("cp and rm of a tree", "archiver", "for i in 1 2 3 4 5; do cp -r tree copy; rm -r copy; done", setup=tree(800),
    dependencies=True)
add("dd, blocks of a megabyte", "archiver", "dd if=/dev/urandom of=out bs=1M count=200 2>/dev/null; dd if=out of=/dev/null bs=1M 2>/dev/null",
    dependencies=True, held_out=True)
add("Python, copies of blocks", "archiver", [PYTHON, "copy.py"], setup=both(words(200000), script("copy.py", """
    import hashlib
    for _ in range(8):
        digest = hashlib.sha256()
        with open("words.txt", "rb") as source, open("out", "wb") as target:
            while block := source.read(1 << 20):
                digest.update(block)
                target.write(block)
    """)), dependencies=True)

# ---- text and data

add("awk", "text", ["awk", "{ n[$1] += $NF } END { for (w in n) if (n[w] > 10) print w, n[w] }", "words.txt"], setup=words(300000),
    dependencies=True)
add("sort, in parallel", "text", "sort --parallel=2 -S 20M words.txt > sorted", setup=words(400000), held_out=True, dependencies=True)
add("grep -r and find", "text", "for i in 1 2 3 4 5 6; do grep -rl xyz tree | wc -l; find tree -size +10k | wc -l; done", setup=tree(2000),
    dependencies=True)
add("perl, line by line", "text", ["perl", "-ne", "for my $w (split) { $n{$w}++ } END { print scalar keys %n }", "words.txt"],
    setup=words(250000), held_out=True, dependencies=True)
add("ruby, line by line", "text", ["ruby", "-e", "n = Hash.new(0); File.foreach('words.txt') { |l| l.split.each { |w| n[w] += 1 } }; puts n.size"],
    setup=words(120000), needs=("ruby",), held_out=True)
add("php", "text", ["php", "-r", "for ($i = 0; $i < 300; ++$i) { $a = []; for ($k = 0; $k < 20000; ++$k) $a[] = md5($k); sort($a); "
                    "file_put_contents('out', serialize($a)); }"], needs=("php",))
add("node, a script", "text", ["node", "-e", "const fs = require('fs'); for (let i = 0; i < 200; ++i) { let a = {}; for (let k = 0; "
    "k < 30000; ++k) a['x' + (k * i) % 977] = k; fs.writeFileSync('out', JSON.stringify(a)); }"], needs=("node",))
add("pandas, many tables", "text", [PYTHON, "tables.py"], needs=(".pandas",), setup=script("tables.py", """
    import numpy, pandas
    rng = numpy.random.default_rng(1)
    for number in range(60):
        rows = int(rng.integers(1000, 30000))
        table = pandas.DataFrame({"key": rng.integers(0, 50, rows), "value": rng.normal(size=rows)})
        table.to_csv(f"t{number}.csv")
        pandas.read_csv(f"t{number}.csv").groupby("key").agg(["mean", "std"]).to_json(f"t{number}.json")
    """))
add("pandas, a table in chunks", "text", [PYTHON, "chunks.py"], needs=(".pandas",), held_out=True, setup=script("chunks.py", """
    import numpy, pandas
    rng = numpy.random.default_rng(1)
    pandas.DataFrame({"key": rng.integers(0, 50, 400000), "value": rng.normal(size=400000)}).to_csv("t.csv")
    total = 0
    for chunk in pandas.read_csv("t.csv", chunksize=10000):
        total += chunk.groupby("key").value.sum()
        total.to_csv("total.csv")
    """))

# ---- version control

add("git gc", "version control", "git -C repository gc -q --aggressive", setup=repository(2000), needs=("git",), dependencies=True)
add("git clone", "version control", "git clone -q --no-local repository copy", setup=repository(3000), needs=("git",), held_out=True,
    dependencies=True)
add("git log -p", "version control", "git -C repository log -p --stat > out", setup=repository(2000), needs=("git",), held_out=True,
    dependencies=True)
add("git commits in a loop", "version control", "git init -q r && cd r && for i in $(seq 60); do echo $i > f$i; git add f$i; "
    "git -c user.name=a -c user.email=b commit -q -m $i; done", needs=("git",), dependencies=True)

# ---- tools that load the machine, media

add("openssl speed", "load", "openssl speed -seconds 1 sha256 aes-128-cbc >/dev/null 2>&1", needs=("openssl",), held_out=True)
add("stress-ng, processes and memory", "load", "stress-ng -q --fork 1 --fork-ops 500 --malloc 1 --malloc-ops 20000 --vm 1 --vm-ops 200",
    needs=("stress-ng",), dependencies=True)
add("stress-ng, threads and pipes", "load", "stress-ng -q --pthread 1 --pthread-ops 1000 --mutex 1 --mutex-ops 20000 --pipe 1 "
    "--pipe-ops 50000 --futex 1 --futex-ops 20000", needs=("stress-ng",), held_out=True, dependencies=True, statuses=(0, 3))
add("ffmpeg", "load", "ffmpeg -v error -f lavfi -i testsrc2=d=8:s=640x360 -threads 2 -y out.mp4", needs=("ffmpeg",), held_out=True)
add("convert", "load", "for i in 1 2 3 4 5 6; do convert -size 500x500 plasma: -blur 0x4 -resize 70% p$i.png; done", needs=("convert",),
    held_out=True)
add("gs", "load", "gs -q -dBATCH -dNOPAUSE -sDEVICE=pdfwrite -sOutputFile=out.pdf in.ps", needs=("gs",),
    setup=lambda directory: (directory / "in.ps").write_text(
        "%!PS\n" + "".join(f"/Times-Roman findfont {10 + n % 7} scalefont setfont 72 72 moveto (page {n}) show 0 0 moveto "
                           f"{n % 500} 700 lineto stroke showpage\n" for n in range(600))))


# ---- running them


def has(need):
    if need == "root":
        return os.geteuid() == 0
    if need.startswith("."):
        return subprocess.run([PYTHON, "-c", f"import {need[1:]}"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    return shutil.which(need) is not None


def wait_for_port(port, processes):
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            if any(process.poll() is not None for process in processes):
                return False
            time.sleep(0.05)
    return False


def end(process, how=signal.SIGTERM):
    if process.poll() is None:
        process.send_signal(how)
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def run(program, arguments, directory):
    """The summary, or the reason why there is none."""
    work = directory / "work"
    work.mkdir()
    if program.setup is not None:
        program.setup(work)
    environment = dict(os.environ, LC_ALL="C.UTF-8", HOME=str(directory), GOFLAGS="-mod=mod", GOCACHE=str(directory / "go"))
    quiet = dict(cwd=work, env=environment, stdin=subprocess.DEVNULL)
    summary = directory / "summary.json"
    command = program.command if isinstance(program.command, list) else ["sh", "-c", program.command]
    command = [str(arguments.tbprof), "run", "--quiet", "--sample-rate=100", f"--logdir={directory / 'logs'}", f"--summary-json={summary}",
               *([f"--spool-dir={directory / 'spool'}", "--keep-spool"] if arguments.keep else []), "--"] + command
    server = None
    with open(directory / "output", "wb") as output:
        shown = dict(quiet, stdout=output, stderr=output)
        try:
            if program.server:
                server = subprocess.Popen(["sh", "-c", "exec " + program.server.removeprefix("exec ")], **shown)
                if not wait_for_port(program.port, [server]):
                    return None, "its server did not start"
            process = subprocess.Popen(command, **shown)
            if program.client:
                if not wait_for_port(program.port, [process]):
                    end(process)
                    return None, "the server did not start"
                client = subprocess.run(["sh", "-c", program.client], timeout=arguments.timeout, **shown)
                status = end(process)
                if client.returncode != 0:
                    return None, f"its client ended with {client.returncode}"
            else:
                status = process.wait(arguments.timeout)
        except subprocess.TimeoutExpired:
            end(process)
            return None, "it took too long"
        finally:
            if server is not None:
                end(server)
    if status not in program.statuses:
        return None, f"it ended with {status}"
    try:
        report = json.loads(summary.read_text())
    except (OSError, ValueError) as error:
        return None, f"no summary: {error}"
    if report["records"]["decoded"] == 0:
        return None, "nothing was recorded"
    return report, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tbprof", default=ROOT / "build/bin/tbprof", type=pathlib.Path)
    parser.add_argument("--only", default="", help="names, separated by semicolons")
    parser.add_argument("--half", choices=["developed", "held-out"])
    parser.add_argument("--dependencies", action="store_true", help="what scripts/install_dependencies.sh installs is enough")
    parser.add_argument("--quick", action="store_true", help="of those, what takes a few seconds")
    parser.add_argument("--keep", type=pathlib.Path, help="a directory for the raw records of each program")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    arguments.tbprof = arguments.tbprof.resolve()
    only = QUICK if arguments.quick else set(filter(None, arguments.only.split(";")))
    arguments.dependencies |= arguments.quick
    wrong, errors, skipped, right = [], [], [], 0
    for program in PROGRAMS:
        if only and program.name not in only or arguments.dependencies and not program.dependencies:
            continue
        if arguments.half and program.held_out != (arguments.half == "held-out"):
            continue
        if arguments.list:
            print(f"{program.kind:16} {'held out ' if program.held_out else 'developed'} {program.name}")
            continue
        if missing := [need for need in program.needs if not has(need)]:
            (errors if arguments.dependencies else skipped).append(program.name)
            print(f"SKIP   {program.name}: the machine lacks {', '.join(missing)}", flush=True)
            continue
        began = time.monotonic()
        directory = pathlib.Path(tempfile.mkdtemp(prefix="no-training-"))
        try:
            report, reason = run(program, arguments, directory)
            if report is None:
                errors.append(program.name)
                print(f"ERROR  {program.name}: {reason}", flush=True)
                sys.stdout.write((directory / "output").read_text(errors="replace")[-2000:])
                continue
            steps = report["steps"]
            found = steps["source"] != "synthetic" or (steps["count"] or 0) > 1
            if found:
                wrong.append(program.name)
            else:
                right += 1
            said = (f"{steps['count']} steps, {steps['source']}, confidence {steps['confidence']:.2f}" if found else
                    steps.get("unknown_because") or "steps unknown")
            print(f"{'WRONG ' if found else 'right '} {program.name}: {said}; {report['wall_s']:.1f} s, "
                  f"{report['process_count']} processes, {time.monotonic() - began:.0f} s with its setup", flush=True)
            if arguments.keep:
                place = arguments.keep / program.name.replace("/", "_").replace(" ", "_")
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True)
                for spool in (directory / "spool").glob("*"):
                    shutil.move(str(spool), place)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    if arguments.list:
        return 0
    print(f"{right} without steps, {len(wrong)} with invented steps, {len(errors)} errors, {len(skipped)} skipped")
    return 1 if wrong or errors else 0


if __name__ == "__main__":
    sys.exit(main())
