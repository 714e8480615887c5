#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks tbprof against NVIDIA's own libraries, without a GPU: every package of wheels.txt.

  check.py --build=DIR [--wheels=DIR] [PART...]     PART: lookups, layouts, walk; default: all

lookups   each libcudart does its look-ups on a stub driver, bare and under tbprof; each answer is called
layouts   the records that tbprof decodes, over the headers of each CUPTI
walk      cuptiActivityGetNextRecord of each libcupti that works without a driver

The packages are downloaded once, by pip as it is configured, into DIR (default: $XDG_CACHE_HOME/tbprof/wheels).
Exit status: 0 all is as expected, 1 it is not, 77 the package index could not be reached.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import layouts
import stub_driver

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SKIP = 77


def listed():
    lines = (HERE / "wheels.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def fetch(package, wheels):
    """The folder with the package's files; None: it could not be had."""
    folder = wheels / package
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory(dir=wheels) as temporary:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--quiet", "--no-deps",
                   "--only-binary=:all:", "--dest", temporary, package]
        done = subprocess.run(command, capture_output=True, text=True)
        files = list(Path(temporary).glob("*.whl"))
        if done.returncode != 0 or len(files) != 1:
            print(f"{package}: {done.stderr.strip().splitlines()[-1:] or 'no wheel'}", file=sys.stderr)
            return None
        unpacked = Path(temporary) / "unpacked"
        with zipfile.ZipFile(files[0]) as wheel:
            names = [name for name in wheel.namelist()
                     if "/include/" in name or "libcudart.so" in name or "libcupti.so" in name]
            wheel.extractall(unpacked, names)
        unpacked.rename(folder)
    return folder


def version_of(package):
    return tuple(int(part) for part in package.split("==")[1].split(".")[:2])


def file_of(folder, pattern):
    return next(iter(sorted(folder.rglob(pattern))), None)


class Check:
    def __init__(self, build, folders):
        self.build, self.folders, self.failures = build, folders, 0
        self.compiler = os.environ.get("CXX", "c++")

    def fail(self, text):
        self.failures += 1
        print(f"FAIL {text}")

    def include_of(self, version):
        """cuda.h for the headers of a CUPTI: those of the runtime of the same release."""
        for package, folder in self.folders.items():
            if "cuda-runtime" in package and version_of(package) == version:
                return file_of(folder, "cuda.h").parent
        return None

    # ---- look-ups

    def run_lookups(self, command, libraries, options, facts):
        environment = dict(os.environ, LD_LIBRARY_PATH=str(libraries), **facts)
        if options is not None:
            with tempfile.TemporaryDirectory() as logdir:
                command = [str(self.build / "bin/tbprof"), "run", *options, f"--logdir={logdir}", "--", *command]
                return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def lookups(self, directory):
        newest = max((p for p in self.folders if "cuda-runtime" in p), key=version_of)
        stub = directory / "stub"
        stub.mkdir()
        symbols = stub_driver.build(file_of(self.folders[newest], "cuda.h").parent, stub, "cc")
        program = directory / "lookups"
        subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", f"-I{ROOT}", f"-I{HERE}", "-o", str(program), str(HERE / "lookups.c"),
                        f"-L{stub}", "-l:libcuda.so.1", "-ldl"], check=True)
        print(f"lookups: the stub driver has {len(symbols)} functions, by {newest}")
        for package, folder in self.folders.items():
            if "cuda-runtime" not in package:
                continue
            runtime = file_of(folder, "libcudart.so.*")
            self.lookups_of(package, [str(program), str(runtime)], stub, directory / "facts")
            if package == newest:
                self.lookups_of(package, [str(program), str(runtime)], stub, directory / "facts", {"STUB_REFUSES": "1"})

    def lookups_of(self, package, command, stub, facts, more=None):
        bare = self.run_lookups(command, stub, None, more or {})
        counts = ["?", "?"]
        for mode, hooks in (("cupti", "0"), ("auto", "1"), ("hooks", "1")):
            facts.unlink(missing_ok=True)
            run = self.run_lookups(command, stub, [f"--cuda={mode}"],
                                   {"LOOKUPS_HOOKS": hooks, "LOOKUPS_FACTS": str(facts)} | (more or {}))
            if (run.returncode, run.stdout) != (0, bare.stdout) or bare.returncode != 0:
                self.fail(f"{package} --cuda={mode}: {run.returncode} {run.stdout[:2000]}{run.stderr[-500:]}")
            counts = facts.read_text().split() if facts.exists() else ["?", "?"]
        print(f"lookups {package}: {bare.stdout.strip()} hooks={counts[0]} calls={counts[1]}",
              "(every third is refused)" if more else "")
        # Without the runtime's own look-ups nothing would have been compared.
        if not bare.stdout.startswith("lookups=") or int(bare.stdout.split()[0].split("=")[1]) < 300:
            self.fail(f"{package}: only {bare.stdout.strip()}")

    # ---- layouts and the walker

    def records(self, directory, parts):
        for package, folder in self.folders.items():
            if "cuda-cupti" not in package:
                continue
            cupti = file_of(folder, "cupti_activity.h").parent
            cuda = self.include_of(version_of(package))
            if cuda is None:
                self.fail(f"{package}: no runtime of the same release in the list")
                continue
            count, differences, sizes = layouts.compare([cupti, cuda], ROOT, directory, self.compiler)
            if "layouts" in parts:
                print(f"layouts {package}: {count} fields, {len(differences)} differ")
                for line in differences:
                    self.fail(f"{package}: {line}")
            if "walk" in parts:
                self.walk(package, file_of(folder, "libcupti.so.*"), sizes)

    def walk(self, package, library, sizes):
        command = [sys.executable, str(HERE / "walk.py"), str(library)] + [f"{k}={s}" for k, s in sizes.items()]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        lines = [line.split() for line in run.stdout.splitlines()]
        steps = {int(words[1]): int(words[2]) for words in lines if words[0] == "step"}
        stops = {words[1]: (int(words[2]), int(words[3])) for words in lines if words[0] == "stop"}
        if run.returncode != 0 or not any(step > 0 for step in steps.values()):
            print(f"walk {package}: does not work without a driver ({run.returncode}, {stops.get('cut')})")
            return
        wrong = {kind: (steps.get(kind), size) for kind, size in sizes.items() if steps.get(kind) != size}
        print(f"walk {package}: {len(steps) - len(wrong)} of {len(sizes)} kinds step as the headers say; "
              f"none {stops['none']}, newer {stops['newer']}, cut {stops['cut']}")
        for kind, (step, size) in wrong.items():
            self.fail(f"{package}: kind {kind} steps {step}, the newest structure has {size}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, required=True)
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--wheels", type=Path, default=cache / "tbprof/wheels")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    parts = options.parts or ["lookups", "layouts", "walk"]
    options.wheels.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(listed(), pool.map(lambda package: fetch(package, options.wheels), listed())))
    missing = [package for package, folder in found.items() if folder is None]
    if missing:
        print(f"SKIP: unavailable: {', '.join(missing)}")
        return SKIP
    check = Check(options.build.resolve(), found)
    with tempfile.TemporaryDirectory() as directory:
        if "lookups" in parts:
            check.lookups(Path(directory))
        if "layouts" in parts or "walk" in parts:
            check.records(Path(directory), parts)
    print(f"{check.failures} failures")
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
