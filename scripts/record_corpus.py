#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the programs of tests/oracle/programs.py and keeps their spools, for scripts/compare_conversions.py.

    record_corpus.py BUILD OUT_DIR [--only NAME,...] [--quick] [--list]

  BUILD     a build with its tests: its tbprof, the test programs and the simulator are copied into OUT_DIR, and what is
            recorded runs there: the modules that a conversion looks into stay where they were
  OUT_DIR   gets reference/ (tbprof and its libraries), programs/, sim/, and spools/NAME/; existing cases are replaced
  --only    these programs alone
  --quick   a handful of short ones

A line for each program: its spools and their size, or why there are none. Exit status 1 if one left none.
"""

import argparse
import filecmp
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
ORACLE = ROOT / "tests/oracle"
sys.path.insert(0, str(ORACLE))

from programs import PROGRAMS  # noqa: E402

MOST_SECONDS = 30
MOST_BYTES = 10 << 20
SIMULATOR = ("cuda13", "cuda12", "nodriver", "subjects", "tensorflow", "torch")
SCRIPTS = ("examples/train_digits.py", "tests/xprof/programs/fed.py", "tests/xprof/programs/slow_loader.py",
           "tests/oracle/torch_modes.py")
TORCH_VERSION = "__version__ = '2.13.0+cpu'\ndebug = False\n"


def copy_new(source, target):
    """Not what is there already: it may be running, and its spools name it."""
    if not os.path.exists(target) or not filecmp.cmp(source, target, shallow=False):
        shutil.copy2(source, f"{target}.new")
        os.replace(f"{target}.new", target)


def copy_tree(source, target):
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=copy_new,
                        ignore=shutil.ignore_patterns("CMakeFiles", "*.cmake"))


def copy_programs(build, out):
    """The words of commands."""
    copy_tree(build / "bin", out / "reference/bin")
    copy_tree(build / "lib", out / "reference/lib")
    copy_tree(build / "tests/programs", out / "programs")
    for part in SIMULATOR:
        copy_tree(build / "tests/sim" / part, out / "sim" / part)
    for script in SCRIPTS:
        (out / "scripts").mkdir(exist_ok=True)
        shutil.copy(ROOT / script, out / "scripts")
    torch = out / "stand_in/torch"
    copy_tree(build / "tests/sim/torch/plain", torch / "lib")
    torch.mkdir(parents=True, exist_ok=True)
    (torch / "version.py").write_text(TORCH_VERSION)
    return {"p": out / "programs", "s": out / "sim/subjects", "sim": out / "sim", "x": out / "scripts",
            "oracle": out / "scripts", "torch": torch, "python": ROOT / ".venv/bin/python"}


def filled(text, words):
    for name, path in words.items():
        text = text.replace("{" + name + "}", str(path))
    return text


def missing(program, words):
    if program.needs.startswith("."):
        found = words["python"].exists() and subprocess.run(
            [words["python"], "-c", f"import {program.needs[1:]}"], capture_output=True).returncode == 0
        return not found
    if program.needs and shutil.which(program.needs) is None:
        return True
    text = program.command if isinstance(program.command, str) else program.command[0]
    return any(word.startswith(str(words["s"])) and not pathlib.Path(word.rstrip(";")).exists()
               for word in filled(text, words).split())


def start(tbprof, program, words, work, spools, rank):
    command = ["/bin/sh", "-c", program.command] if isinstance(program.command, str) else program.command
    options = [f"--logdir={work}/logdir", f"--spool-dir={spools}", "--keep-spool", *program.options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TBPROF_", "CUDASIM_"))}
    environment |= {name: filled(value, words) for name, value in program.environment.items()}
    if program.launchers > 1:
        environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(program.launchers),
                        "TBPROF_RUN": "ranks"}
    return subprocess.Popen(
        [tbprof, "run", *options, "--", *(filled(word, words) for word in command)],
        cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True)


def record(tbprof, program, words, out):
    """What is to be reported, and whether there are spools."""
    work, place, case = out / "work" / program.name, out / "work" / f"{program.name}.spools", out / "spools" / program.name
    for directory in (work, place, case):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
    begun = time.monotonic()
    running = [start(tbprof, program, words, work, place, rank) for rank in range(program.launchers)]
    statuses, said = [], ""
    for one in running:
        try:
            said = one.communicate(timeout=MOST_SECONDS)[1].decode(errors="replace") or said
        except subprocess.TimeoutExpired:
            os.killpg(one.pid, signal.SIGKILL)  # what it has recorded by then is a case, too
            one.communicate()
        statuses.append(one.returncode)
    for file in [*place.rglob("*.spool*"), *(work / "logdir").rglob("*.spool*")]:
        file.rename(case / file.name)
    shutil.rmtree(place)
    shutil.rmtree(work)
    if program.conversions:
        (case / "conversions").write_text("".join(f"{line}\n" for line in program.conversions))
    spools = list(case.glob("*.spool"))
    size = sum(file.stat().st_size for file in case.iterdir())
    facts = f"exit status {','.join(map(str, statuses))}, {time.monotonic() - begun:.1f} s"
    if not spools or size > MOST_BYTES:
        shutil.rmtree(case)
        lines = "".join(f"\n    {line}" for line in said.splitlines()[-5:])
        return f"no spool ({facts}){lines}" if not spools else f"{size / 2**20:.1f} MiB is too large ({facts})", False
    return f"{len(spools)} spools, {size / 2**20:.2f} MiB ({facts})", True


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("build", type=pathlib.Path, nargs="?")
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    chosen = [program for program in PROGRAMS if (not only or program.name in only) and (program.quick or not options.quick)]
    if options.list:
        print("\n".join(program.name for program in chosen))
        return 0
    if options.out is None or not chosen:
        parser.error("BUILD and OUT_DIR are needed, and programs of these names")
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    words = copy_programs(options.build.resolve(), out)
    tbprof = out / "reference/bin/tbprof"
    failed = recorded = 0
    for program in chosen:
        if missing(program, words):
            print(f"{program.name}: SKIP: not on this machine", flush=True)
            continue
        text, good = record(tbprof, program, words, out)
        print(f"{program.name}: {text}", flush=True)
        failed += not good
        recorded += good
    shutil.rmtree(out / "work", ignore_errors=True)
    print(f"{recorded} recorded, {failed} without a spool")
    return 1 if failed or not recorded else 0


if __name__ == "__main__":
    sys.exit(main())
