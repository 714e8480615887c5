#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates examples/ci/*.yml and runs each of their scripts, as they are written: run.py --wheel=DIR | --bin=DIR

--wheel=DIR    has tbprof's wheel, which the scripts install
--bin=DIR      has a built tbprof: the scripts that install it are left out, with a line
--include=DIR  has nvtx3/nvToolsExt.h, for the program that the scripts build
--allow-missing  a script whose tbprof command or option this tbprof does not have is left out, with a line

The YAML is checked against the schemas of GitHub workflows and of GitLab CI that check-jsonschema carries
(scripts/requirements-test.txt). The scripts run in the order of the file, with bash as the runners call it, in a
repository of two commits that has what the examples name: build/bench by make, tests/, examples/train_digits.py.
Those of GitHub run as on the main branch, then as of a pull request; of GitLab each once, whatever its `rules`. `ab` makes at most
four pairs (TBPROF_PAIRS).
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "examples/ci"
SCHEMAS = {"github-actions.yml": ["--builtin-schema", "vendor.github-workflows"],
           "gitlab-ci.yml": ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]}

# Stands for the program of the reader, which marks its steps by NVTX as C++ programs do (docs/steps.md).
BENCH = r"""
#include <nvtx3/nvToolsExt.h>
#include <cstdlib>
#include <string>
#include <vector>
int main() {
  for (int step = 0; step < 100; ++step) {
    nvtxRangePushA(("step " + std::to_string(step)).c_str());
    std::vector<double> numbers(300000, 1.0);
    for (int i = 0; i < 4; ++i) {
      for (double& number : numbers) number = number * 1.0001 + i;
    }
    nvtxRangePop();
    if (numbers[7] < 0) abort();
  }
}
"""
MAKEFILE = "build/bench: bench.cc\n\tmkdir -p build\n\tc++ -O1 -I{include} -o $@ $< -ldl\n"
TEST = "def test_sum():\n    assert sum(range(100000)) == 4999950000\n"


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def enter_environment():
    """Runs this file by the Python of the tests, which has check-jsonschema and pytest."""
    python = SOURCE / ".venv/bin/python"
    if subprocess.run([SOURCE / "scripts/venv.sh", "--check"], capture_output=True).returncode != 0:
        skip("no virtual environment (scripts/venv.sh makes it; needs PyPI)")
    if pathlib.Path(sys.executable).absolute() != python.absolute():
        os.execv(python, [str(python), *sys.argv])


def load(path):
    import ruamel.yaml
    return ruamel.yaml.YAML(typ="safe", pure=True).load(path.read_text())


def validate(path):
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", *SCHEMAS[path.name], path],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    print(f"valid: {path.name}")


def github_scripts(path):
    """(number of the job, name, script) of each step with `run`: as on the main branch, then as of a pull request."""
    conditions = {"github.ref == 'refs/heads/main'": 1, "github.event_name == 'pull_request'": 2}
    for number in (1, 2):
        for job in load(path)["jobs"].values():
            for step in job["steps"]:
                if "run" not in step or ("if" in step and conditions[step["if"]] != number):
                    continue
                assert "${{" not in step["run"], f"{step['name']}: no plain bash: {step['run']}"
                assert "shell" not in step, f"{step['name']}: a shell of its own"
                yield number, step["name"], step["run"]


def gitlab_scripts(path):
    """Likewise: each job has a number of its own."""
    config = load(path)
    number = 0
    for name, job in config.items():
        if not isinstance(job, dict) or "script" not in job:
            continue
        base = config[job["extends"]]
        number += 1
        yield number, f"{name}, install", "\n".join(base["before_script"])
        yield number, name, "\n".join(job["script"])


def make_repository(directory, include):
    for name, text in (("bench.cc", BENCH), ("Makefile", MAKEFILE.format(include=include)), ("tests/test_sum.py", TEST),
                       ("examples/train_digits.py", (SOURCE / "examples/train_digits.py").read_text())):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", "-c", "init.defaultBranch=main"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["commit", "-q", "--allow-empty", "-m", "second"]):
        subprocess.run([*git, *command], cwd=directory, check=True)


class Runner:
    def __init__(self, arguments, directory, variables):
        self.arguments = arguments
        self.directory = directory
        self.home = directory.parent / f"{directory.name}-home"
        self.home.mkdir()
        self.path_file = self.home / "path"
        self.summary = self.home / "summary"
        for file in (self.path_file, self.summary):
            file.touch()
        python = str(pathlib.Path(sys.executable).parent)
        self.path = [python, "/usr/local/bin", "/usr/bin", "/bin"]
        self.variables = {"HOME": str(self.home), "GITHUB_PATH": str(self.path_file),
                          "GITHUB_STEP_SUMMARY": str(self.summary), **variables}
        if arguments.bin:
            self.path.insert(0, str(arguments.bin))
        else:
            wheels = list(arguments.wheel.glob("tbprof-*.whl"))
            assert len(wheels) == 1, f"not one wheel in {arguments.wheel}"
            self.variables["PROFILER_WHEEL"] = str(wheels[0])
            self.path.insert(0, str(self.home / "bin"))

    def environment(self):
        added = self.path_file.read_text().split()
        return {**self.variables, "PATH": ":".join([*reversed(added), *self.path])}

    def help(self, *words):
        done = subprocess.run(["tbprof", *words], env=self.environment(), capture_output=True, text=True)
        return done.stdout

    def missing(self, script):
        """What of its tbprof commands this tbprof does not have."""
        known = set(re.findall(r"^ +(?:tbprof )?([a-z]+)\b", self.help("help"), re.MULTILINE))
        for line in script.replace("\\\n", " ").splitlines():
            for command, rest in re.findall(r"(?:^|\s)tbprof ([a-z]+)(.*)", line):
                if command not in known:
                    return f"tbprof {command}"
                options = self.help(command, "--help")
                for option in re.findall(r"\s(--[a-z][a-z-]*)", rest.split(" -- ")[0]):
                    if f"{option}=" not in options and f"{option} " not in options:
                        return f"tbprof {command} {option}"
        return ""

    def run(self, name, script):
        if self.arguments.bin and "PROFILER_WHEEL" in script:
            print(f"not run, installs a wheel: {name}")
            return
        missing = self.missing(script) if self.arguments.allow_missing else ""
        if missing:
            print(f"not run, no {missing}: {name}")
            return
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script], cwd=self.directory,
                              env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, f"{name}: exit status {done.returncode}\n{script}\n{done.stdout}"
        print(f"ran: {name}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--bin", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--include", type=pathlib.Path, default="/usr/local/cuda/include")
    parser.add_argument("--allow-missing", action="store_true")
    arguments = parser.parse_args()
    if (arguments.wheel is None) == (arguments.bin is None):
        parser.error("one of --wheel and --bin")
    enter_environment()
    if not (arguments.include / "nvtx3/nvToolsExt.h").exists():
        skip(f"no NVTX in {arguments.include}: --include")
    assert {path.name for path in EXAMPLES.iterdir()} == SCHEMAS.keys(), "a file of examples/ci that is not checked"
    for name, scripts in (("github-actions.yml", github_scripts), ("gitlab-ci.yml", gitlab_scripts)):
        validate(EXAMPLES / name)
        with tempfile.TemporaryDirectory(prefix="tbprof-ci-") as place:
            directory = pathlib.Path(place) / "repository"
            directory.mkdir()
            make_repository(directory, arguments.include)
            base = subprocess.run(["git", "rev-parse", "HEAD~1"], cwd=directory, check=True, capture_output=True, text=True)
            base = base.stdout.strip()
            runner = Runner(arguments, directory, {"BASE": base, "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
                                                   "TBPROF_PAIRS": "4"})
            count = 0
            for number, title, script in scripts(EXAMPLES / name):
                # Each job has a fresh directory; here its name in the log directory must be its own.
                count += 1
                runner.variables["GITHUB_RUN_ID"] = runner.variables["CI_JOB_ID"] = str(17 + number)
                runner.run(f"{name}: {title}", script)
            assert count >= 7, f"{name}: only {count} scripts"


main()
