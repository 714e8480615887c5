# SPDX-License-Identifier: Apache-2.0
"""What tbprof costs on the host, beside bare runs and its peers: the tables of docs/overhead.md.

    host_cost.py BUILD WORK [--rounds N] [--runs N] [--only TEXT] [--json FILE] [PART...]

Run by scripts/bench.sh, which makes the programs in WORK. Every round runs each configuration once, in another order;
figures are medians over rounds of the difference to the reference of the same round, with quartiles. Prints Markdown.
"""

import argparse
import glob
import json
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Bench:
    def __init__(self, build, work, rounds, runs=1, only=""):
        self.tbprof = build + "/bin/tbprof"
        self.work = work
        self.rounds = rounds
        self.runs = runs  # of a whole program, of which the shortest counts
        self.only = only  # text in the names of whole programs
        self.logs = work + "/logs"
        self.results = {}  # quartiles of what each way adds, by table

    def under(self, *options):
        return [self.tbprof, "run", "--quiet", "--logdir", self.logs, *options, "--"]

    def run(self, command, environment=None):
        """Standard output, wall seconds, CPU seconds of the command and all that it waited for."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run(command, env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: status {done.returncode}: {done.stderr[-500:]}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return done.stdout, wall, cpu

    def clean(self):
        shutil.rmtree(self.logs, ignore_errors=True)

    def hot(self, load, turns, prefix=(), environment=None, argument=()):
        """Nanoseconds per turn: the median of the program's own batches."""
        out, _, _ = self.run([*prefix, self.work + "/hot_paths", load, str(turns), *argument], environment)
        self.clean()
        # Peers print what they do there, too.
        return float(re.findall(r"^(\d+\.\d+) \d+\.\d+$", out, re.MULTILINE)[-1])

    def interleaved(self, ways):
        """{name: values}, each way once a round."""
        values = {name: [] for name in ways}
        names = list(ways)
        for _ in range(self.rounds):
            random.shuffle(names)
            for name in names:
                values[name].append(ways[name]())
        return values


def spread(values, digits=1):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def table(heading, rows):
    print("\n| " + " | ".join(heading) + " |")
    print("|" + "---|" * len(heading))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    sys.stdout.flush()


def library(name):
    for directory in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
        if os.path.exists(f"{directory}/{name}"):
            return f"{directory}/{name}"
    return None


class Lttng:
    """A session of LTTng that records what its wrappers of `wrapper` see; prefix() runs a command under it."""

    def __init__(self, bench, wrapper, events):
        self.library = library(wrapper)
        self.directory = bench.work + "/lttng"
        self.home = {**os.environ, "LTTNG_HOME": self.directory}
        self.events = events
        self.usable = bool(self.library and shutil.which("lttng") and shutil.which("lttng-sessiond"))

    def command(self, *words, check=True):
        return subprocess.run(["lttng", *words], check=check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=self.home).returncode

    def __enter__(self):
        if not self.usable:
            return self
        os.makedirs(self.directory, exist_ok=True)
        self.daemon = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=self.home)
        for _ in range(100):
            time.sleep(0.1)
            if self.command("list", check=False) == 0:
                break
        self.command("create", "bench", "--output", self.directory + "/trace")
        self.command("enable-channel", "-u", "all", "--subbuf-size=4M", "--num-subbuf=8")
        self.command("enable-event", "-u", "-c", "all", self.events)
        self.command("start")
        return self

    def __exit__(self, *_):
        if not self.usable:
            return
        self.command("stop")
        self.command("destroy", "bench")
        self.daemon.terminate()
        self.daemon.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def environment(self):
        return {"LD_PRELOAD": self.library, "LTTNG_HOME": self.directory}


def compare(bench, heading, values, digits=2, scale=1.0):
    """A table of each way's own figure, and what it adds to that of the first of the same round."""
    reference = next(iter(values))
    rows, numbers = [], {}
    for name, measured in values.items():
        over = [(a - b) * scale for a, b in zip(measured, values[reference])]
        numbers[name] = statistics.quantiles(over, n=4)
        rows.append((name, spread([value * scale for value in measured], digits),
                     "" if name == reference else spread(over, digits)))
    table(heading, rows)
    bench.results[heading[0]] = numbers


def allocator(bench):
    exact = ("--malloc=exact", "--window=all")
    for load, turns in (("small", 5_000_000), ("blocks", 3_000_000)):
        ways = {
            "forward only": lambda: bench.hot(load, turns, environment={"LD_PRELOAD": bench.work + "/forward.so"},
                                              argument=("10",)),
            "bare": lambda: bench.hot(load, turns, argument=("10",)),
            "disarmed": lambda: bench.hot(load, turns, bench.under("--window=none"), argument=("10",)),
            "default": lambda: bench.hot(load, turns, bench.under(), argument=("10",)),
            "`--malloc=exact`": lambda: bench.hot(load, turns, bench.under(*exact), argument=("10",)),
            "the same, each stamped": lambda: bench.hot(
                load, turns, bench.under(*exact, "--malloc-stamp-every=1"), argument=("10",)),
        }
        if shutil.which("heaptrack"):
            ways["heaptrack"] = lambda: bench.hot(load, 200_000, ["heaptrack", "-o", bench.work + "/heaptrack"],
                                                  argument=("10",))
        with Lttng(bench, "liblttng-ust-libc-wrapper.so.1", "lttng_ust_libc:*") as lttng:
            if lttng.usable:
                ways["LTTng"] = lambda: bench.hot(load, 500_000, (), lttng.environment(), argument=("10",))
            values = bench.interleaved(ways)
        compare(bench, (f"`{load}`", "ns a call", "over forward only, ns"), values, scale=0.5)
        sampled = library("libtcmalloc.so.4")
        if sampled:
            interval = {"TCMALLOC_SAMPLE_PARAMETER": "524288"}
            values = bench.interleaved({
                "tcmalloc": lambda: bench.hot(load, turns, (), {"LD_PRELOAD": sampled}, ("10",)),
                "tcmalloc, sampling each 512 KiB": lambda: bench.hot(
                    load, turns, (), {"LD_PRELOAD": sampled, **interval}, ("10",)),
                "tcmalloc under tbprof, default": lambda: bench.hot(
                    load, turns, bench.under(), {"LD_PRELOAD": sampled}, ("10",))})
            compare(bench, (f"`{load}`, another allocator", "ns a call", "over tcmalloc, ns"), values, scale=0.5)


def locks(bench):
    ways = {"bare": lambda: bench.hot("lock", 10_000_000),
            "disarmed": lambda: bench.hot("lock", 10_000_000, bench.under("--window=none")),
            "default": lambda: bench.hot("lock", 10_000_000, bench.under())}
    with Lttng(bench, "liblttng-ust-pthread-wrapper.so.1", "lttng_ust_pthread:*") as lttng:
        if lttng.usable:
            ways["LTTng"] = lambda: bench.hot("lock", 500_000, (), lttng.environment(), ("10",))
        compare(bench, ("a free mutex, lock and unlock", "ns", "added, ns"), bench.interleaved(ways))
    rows = []
    for section in (100, 1000, 10000):
        turns = str(max(2_000, 200_000_000 // (section + 200)))
        ways = {"bare": lambda: bench.hot("contended", turns, argument=(str(section),)),
                "default": lambda: bench.hot("contended", turns, bench.under(), argument=(str(section),))}
        values = bench.interleaved(ways)
        ratio = [a / b for a, b in zip(values["bare"], values["default"])]
        rows.append((f"two threads, held for {section} ns", spread(values["bare"], 0), spread(values["default"], 0),
                     spread(ratio, 3)))
    table(("contended mutex", "bare, ns a section", "default", "throughput, ratio to bare"), rows)


def waits(bench):
    ways = {"bare": lambda: bench.hot("wait", 2_000_000),
            "disarmed": lambda: bench.hot("wait", 2_000_000, bench.under("--window=none")),
            "default: counted": lambda: bench.hot("wait", 2_000_000, bench.under()),
            "--wait-threshold=0: recorded": lambda: bench.hot("wait", 2_000_000, bench.under("--wait-threshold=0"))}
    compare(bench, ("a wait that is over at once", "ns", "added, ns"), bench.interleaved(ways), 1)


def annotations(bench):
    """A range of NVTX, and the two readings of the clock that are in it."""
    try:
        ways = {"bare": lambda: bench.hot("annotation", 5_000_000, argument=("10",)),
                "disarmed": lambda: bench.hot("annotation", 5_000_000, bench.under("--window=none"), argument=("10",)),
                "recorded": lambda: bench.hot("annotation", 5_000_000,
                                              bench.under("--window=all", "--max-profile-size=1MiB"), argument=("10",)),
                "the clock twice": lambda: bench.hot("clock", 5_000_000, argument=("10",))}
        compare(bench, ("nvtxRangePush and nvtxRangePop", "ns", "added, ns"), bench.interleaved(ways), 1)
    except RuntimeError:
        print("host_cost.py: without NVTX's header no annotations are measured", file=sys.stderr)


def torch(bench):
    """PyTorch's operations, with what its observers cost, and its own profiler's."""
    python = os.path.join(ROOT, ".venv", "bin", "python")
    if not os.path.exists(python) or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        print("host_cost.py: without torch in .venv its operations are not measured", file=sys.stderr)
        return
    script = os.path.join(ROOT, "tests", "bench", "torch_cost.py")
    for load, heading in (("add", "a.add(b)"), ("loop", "a training, per operation")):
        def once(*prefix, profiled=(), load=load):
            out, _, _ = bench.run([*prefix, python, script, load, *profiled])
            bench.clean()
            return float(out)
        ways = {"bare": once}
        for name, options in (("no window", ["--window=none"]), ("--torch=off", ["--torch=off"]),
                              ("--torch=steps", ["--torch=steps"]), ("as it comes", []),
                              ("--torch=all", ["--torch=all"])):
            ways[name] = lambda options=options, once=once: once(*bench.under("--max-profile-size=1MiB", *options))
        ways["torch.profiler"] = lambda once=once: once(profiled=("profiled",))
        compare(bench, (heading, "ns", "added, ns"), bench.interleaved(ways), 0)


def starts(bench):
    ways = {"bare": lambda: bench.hot("spawn", 500),
            "disarmed": lambda: bench.hot("spawn", 500, bench.under("--window=none")),
            "default": lambda: bench.hot("spawn", 500, bench.under())}
    compare(bench, ("posix_spawn of `/bin/true` and the wait for it", "us", "added, us"), bench.interleaved(ways), 0, 1e-3)
    in_memory = "/dev/shm/tbprof-bench-" + str(os.getpid())
    values = []
    for _ in range(3 * bench.rounds):
        _, wall, _ = bench.run([bench.tbprof, "run", "--quiet", "--logdir", in_memory, "--", "/bin/true"])
        values.append(wall * 1e3)
        shutil.rmtree(in_memory, ignore_errors=True)
    table(("`tbprof run -- true`, the logdir on tmpfs", "ms"), [("from start to end", spread(values))])


def bootstrap(ratios, draws=4000):
    """95 % interval of the median."""
    medians = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(draws * 0.025)], medians[int(draws * 0.975)]


EXACT = ("--malloc=exact", "--window=all")


def whole_programs(bench):
    """{name: command}, of those that --only names"""
    here = os.path.dirname(os.path.abspath(__file__))
    python = os.environ.get("BENCH_PYTHON", sys.executable)
    commands = {"JSON and regular expressions": [python, here + "/json_regex.py"]}
    digits = os.path.join(here, "../../examples/train_digits.py")
    if subprocess.run([python, "-c", "import torch, sklearn"], stderr=subprocess.DEVNULL).returncode == 0:
        commands["train_digits.py"] = [python, digits, "--epochs", "2", "--workers", "0"]
    # The compiler proper: heaptrack does not follow into the programs that g++ starts.
    compiler = subprocess.run(["g++", "-print-prog-name=cc1plus"], stdout=subprocess.PIPE, text=True).stdout.strip()
    if os.path.isabs(compiler):
        source = bench.work + "/compiled"
        with open(source + ".cc", "w") as file:
            file.write("#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n"
                       "bool f(const std::string& s) { return std::regex_match(s, std::regex(\"a+b*(c|d)\")); }\n")
        subprocess.run(["g++", "-E", "-o", source + ".ii", source + ".cc"], check=True)
        commands["g++ (cc1plus)"] = [compiler, "-quiet", "-fpreprocessed", "-O1", "-o", "/dev/null", source + ".ii"]
    return {name: command for name, command in commands.items() if bench.only in name}


def programs(bench):
    """Whole programs: CPU time of the program alone where it can be told, and wall time."""
    commands = whole_programs(bench)
    summary = bench.work + "/summary.json"

    def bare(command):
        _, wall, cpu = bench.run(command)
        return cpu, wall

    def profiled(command, *options):
        _, wall, _ = bench.run([*bench.under("--summary-json", summary, *options), *command])
        bench.clean()
        with open(summary) as file:
            facts = json.load(file)
        return facts["user_cpu_s"] + facts["system_cpu_s"], wall

    def exact(command):
        return profiled(command, *EXACT)

    def under_lttng(command):
        _, wall, cpu = bench.run(command, lttng.environment())
        return cpu, wall

    def under_heaptrack(command):
        _, wall, cpu = bench.run(["heaptrack", "-o", bench.work + "/heaptrack", *command])
        return cpu, wall

    # In random turns. Of some runs the shortest counts: what disturbs one makes it longer, never shorter.
    ours = {"nothing: how exact this is": bare, "default": profiled, "`--malloc=exact`": exact}
    rows = []

    def tell(name, way, pairs, runs, cpu, wall):
        low, high = bootstrap(cpu)
        rows.append((name, way, f"{pairs} of {runs}", spread(cpu, 3), f"{low:.3f}..{high:.3f}", spread(wall, 3)))
        print(f"host_cost.py: {' | '.join(rows[-1])}", file=sys.stderr)

    with Lttng(bench, "liblttng-ust-libc-wrapper.so.1", "lttng_ust_libc:*") as lttng:
        peers = {}
        if lttng.usable:
            peers["LTTng"] = under_lttng
        if shutil.which("heaptrack"):
            peers["heaptrack (CPU of both)"] = under_heaptrack
        for name, command in commands.items():
            ratios = {way: ([], []) for way in ours}
            for _ in range(max(bench.rounds, 40)):
                shortest = {}
                for _ in range(bench.runs):
                    turn = [("bare", bare), *ours.items()]
                    random.shuffle(turn)
                    for way, run in turn:
                        cpu, wall = run(command)
                        least = shortest.setdefault(way, [cpu, wall])
                        shortest[way] = [min(least[0], cpu), min(least[1], wall)]
                for way, (cpu, wall) in ratios.items():
                    cpu.append(shortest[way][0] / shortest["bare"][0])
                    wall.append(shortest[way][1] / shortest["bare"][1])
            for way, (cpu, wall) in ratios.items():
                tell(name, way, len(cpu), bench.runs, cpu, wall)
            for way, run in peers.items():
                cpu, wall = [], []
                try:
                    for _ in range(max(5, bench.rounds // 2)):
                        reference, measured = bare(command), run(command)
                        cpu.append(measured[0] / reference[0])
                        wall.append(measured[1] / reference[1])
                except RuntimeError as error:
                    # A peer that the program does not survive is a result.
                    rows.append((name, way, "0", "fails", "", ""))
                    print(f"host_cost.py: {error}", file=sys.stderr)
                    continue
                tell(name, way, len(cpu), 1, cpu, wall)
    table(("program", "under", "pairs of shortest runs", "CPU time, ratio to bare", "95 % of the median", "wall, ratio to bare"),
          rows)


def turns(bench):
    """Work of a program by turns with and without the hooks, in one process (turns.py); a value is a process."""
    python = os.environ.get("BENCH_PYTHON", sys.executable)
    script = os.path.join(ROOT, "tests", "bench", "turns.py")
    ways = {("JSON and regular expressions", "a library that forwards"): (["json", "150"], None),
            ("JSON and regular expressions", "default"): (["json", "150"], ()),
            ("JSON and regular expressions", "`--malloc=exact`"): (["json", "150"], EXACT)}
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0:
        ways["train_digits.py", "`--torch=off`"] = (["training", "60"], ("--torch=off",))
    ways = {way: how for way, how in ways.items() if bench.only in way[0]}

    def ratios(arguments, options):
        if options is None:
            out, _, _ = bench.run([python, script, *arguments], {"LD_PRELOAD": bench.work + "/forward.so"})
        else:
            out, _, _ = bench.run([*bench.under(*options), python, script, *arguments])
        bench.clean()
        return json.loads(out)

    values = bench.interleaved({way: lambda how=how: ratios(*how) for way, how in ways.items()})
    rows = []
    for (name, way), measured in values.items():
        for state in measured[0]:
            of_state = [ratio[state] for ratio in measured]
            low, high = bootstrap(of_state)
            rows.append((name, way, state, len(of_state), spread(of_state, 3), f"{low:.3f}..{high:.3f}"))
    table(("work of", "under", "state", "processes", "CPU time, ratio to bare", "95 % of the median"), rows)


def shares(bench):
    """Of the samples of a whole program's time, percent in our library: other work of the machine leaves it alone."""
    if not shutil.which("perf"):
        print("host_cost.py: no perf: no shares of whole programs", file=sys.stderr)
        return
    data = bench.work + "/perf.data"

    def share(command, *options):
        bench.run(["perf", "record", "-q", "-F", "5000", "-e", "cpu-clock", "-o", data, *bench.under(*options),
                   *command])
        bench.clean()
        # With one name only (--comm), perf leaves libraries out.
        report, _, _ = bench.run(["perf", "report", "-i", data, "--stdio", "-F", "sample,comm,dso"])
        own = re.escape(os.path.basename(command[0])[:15])
        counts = {}
        for count, place in re.findall(rf"^\s*(\d+)\s+{own}\s+(\S+)\s*$", report, re.MULTILINE):
            counts[place] = counts.get(place, 0) + int(count)
        return 100 * counts.get("libtbprof_preload.so", 0) / sum(counts.values())

    rows = []
    for name, command in whole_programs(bench).items():
        for way, options in (("default", ()), ("`--malloc=exact`", EXACT)):
            rows.append((name, way, bench.rounds, spread([share(command, *options) for _ in range(bench.rounds)], 2)))
    table(("program", "under", "runs", "samples in tbprof's library, % of the program's"), rows)


def drain(bench):
    """Two threads record as fast as they can for two seconds, into memory."""
    rows = []
    summary = bench.work + "/summary.json"
    for where, directory in (("memory", "/dev/shm/tbprof-bench-" + str(os.getpid())), ("disk", bench.work + "/spool")):
        rates, lost = [], []
        for _ in range(max(3, bench.rounds // 3)):
            os.makedirs(directory, exist_ok=True)
            bench.run([bench.tbprof, "run", "--quiet", "--logdir", bench.logs, "--spool-dir", directory,
                       "--spool-limit=6GiB", "--window=all", "--wait-threshold=0", "--summary-json", summary, "--",
                       bench.work + "/burst", "2", "2"])
            with open(summary) as file:
                facts = json.load(file)
            missing = sum(facts["records"]["dropped"].values()) + facts["records"]["not_kept"]
            made = facts["records"]["decoded"] + missing
            rates.append(made / 2 / 1e6)
            lost.append(missing / made)
            bench.clean()
            shutil.rmtree(directory, ignore_errors=True)
        rows.append((where, spread(rates), spread([100 * share for share in lost], 2)))
    table(("2 s from two threads, spool on", "million records/s made", "lost, %"), rows)


def convert(bench):
    rows = []
    spool_dir = bench.work + "/spool"
    os.makedirs(spool_dir, exist_ok=True)
    bench.run([bench.tbprof, "run", "--quiet", "--logdir", bench.logs, "--spool-dir", spool_dir, "--keep-spool",
               "--window=all", "--wait-threshold=0", "--", bench.work + "/burst", "1", "1"])
    bench.clean()
    spools = [os.path.join(spool_dir, name) for name in os.listdir(spool_dir) if name.endswith(".spool")]
    for option, name in (((), "64 MiB, the default"), (("--max-profile-size=1GiB",), "1 GiB")):
        rates, memory, per_event = [], [], []
        for _ in range(max(3, bench.rounds // 3)):
            summary = bench.work + "/summary.json"
            command = ["/usr/bin/time", "-f", "%M", bench.tbprof, "convert", "--quiet", "--logdir", bench.logs,
                       "--summary-json", summary, *option, *spools]
            start = time.perf_counter()
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=True)
            wall = time.perf_counter() - start
            with open(summary) as file:
                facts = json.load(file)
            rates.append(facts["records"]["decoded"] / wall / 1e6)
            memory.append(int(re.findall(r"\d+", done.stderr)[-1]) / 1024)
            drawn = facts["records"]["drawn"]
            per_event.append(facts["files"][0]["bytes"] / max(drawn, 1))
            bench.clean()
        rows.append((name, spread(rates), spread(memory, 0), f"{facts['records']['decoded'] / 1e6:.1f} M",
                     f"{drawn / 1e6:.2f} M", spread(per_event)))
    shutil.rmtree(spool_dir, ignore_errors=True)
    table(("profile of at most", "million records/s", "memory, MiB", "records", "drawn", "bytes per event"), rows)


def profile_of(directory):
    """The profile in a log directory, if it is there; it is renamed to its name when it is whole."""
    found = glob.glob(directory + "/plugins/profile/*/*.xplane.pb")
    return found[0] if found else None


def capture(bench):
    """From the close of a window that was asked for to the profile, while the program goes on."""
    rows = []
    for records, seconds in (("few", 0.02), ("some", 0.2), ("many", 1.0)):
        after, counts = [], []
        for _ in range(max(3, bench.rounds // 3)):
            running = subprocess.Popen([*bench.under("--window=none", "--wait-threshold=0",
                                                     f"--window-duration={int(seconds * 1000)}ms"),
                                        bench.work + "/burst", "1", "60"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(0.5)
            running.send_signal(signal.SIGUSR1)
            asked = time.monotonic()
            while (path := profile_of(bench.logs)) is None and time.monotonic() - asked < 30:
                time.sleep(0.002)
            written = time.monotonic()
            running.terminate()
            running.wait()
            if path is None:
                sys.exit("host_cost.py: no profile of the capture after 30 s")
            after.append(written - asked - seconds)
            with open(os.path.join(os.path.dirname(path), "summary.json")) as file:
                counts.append(json.load(file)["records"]["decoded"] / 1e6)
            bench.clean()
        rows.append((f"{seconds:g} s", spread(counts, 2), spread(after, 2)))
    table(("window", "million records", "s from its close to the profile"), rows)


def reply(bench):
    """From the end of a window that `tbprof capture` has asked for to the file on its side, while the program goes on."""
    rows = []
    for name, program, options, records_of_event in (
            ("waits", ["/burst", "1", "60"], ["--wait-threshold=0"], 1),
            ("ranges", ["/hot_paths", "annotation", "2000000000"], [], 2)):
        for seconds in (0.5, 1, 3):
            after, counts = [], []
            for _ in range(max(3, bench.rounds // 3)):
                running = subprocess.Popen([*bench.under("--window=none", *options), bench.work + program[0], *program[1:]],
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.5)
                asked = time.monotonic()
                subprocess.run([bench.tbprof, "capture", str(running.pid), "--logdir", bench.logs,
                                f"--duration={int(seconds * 1000)}ms"], stderr=subprocess.DEVNULL, check=True)
                after.append(time.monotonic() - asked - seconds)
                status = subprocess.run([bench.tbprof, "status", "--json"], stdout=subprocess.PIPE, check=True).stdout
                counts += [job["records"] / records_of_event / 1e6 for job in json.loads(status) if job["pid"] == running.pid]
                running.terminate()
                running.wait()
                bench.clean()
            goal = 0.3 + 0.1 * statistics.median(counts)
            rows.append((name, f"{seconds:g} s", spread(counts, 1), spread(after, 2), f"{goal:.2f}"))
    table(("events", "window", "million of them", "s from its end to the file", "0.3 s and 0.1 s a million"), rows)


def idle(bench):
    """CPU time of the launcher beside a program that does nothing."""
    rows = []
    for name, options in (("armed", ("--window=all",)), ("disarmed", ("--window=none",))):
        shares = []
        for _ in range(3):
            running = subprocess.Popen([*bench.under(*options), "sleep", "30"])
            time.sleep(2)
            before, start = cpu_seconds(running.pid), time.monotonic()
            time.sleep(10)
            shares.append(100 * (cpu_seconds(running.pid) - before) / (time.monotonic() - start))
            running.terminate()
            running.wait()
            bench.clean()
        rows.append((name, spread(shares, 3)))
    table(("launcher beside `sleep`", "% of a core"), rows)


def service(bench):
    """The port: what it costs while nobody asks, and how long an answer takes."""
    python = os.path.join(ROOT, ".venv", "bin", "python")
    if not os.access(python, os.X_OK):
        print("service: left out, it needs .venv (scripts/venv.sh)\n")
        return
    before, after, late = [], [], []
    for round_number in range(3):
        running = subprocess.Popen([*(word for word in bench.under("--window=none", "--port=0") if word != "--quiet"),
                                    "sleep", "120"], stderr=subprocess.PIPE, text=True)
        try:
            address = next(found.group(1) for line in running.stderr
                           if (found := re.search(r"profiler service on (\S+)", line)))
            ask = [python, os.path.join(ROOT, "tests", "xprof", "profiler_rpc.py"), "profile", address]

            def answered_after():
                said = subprocess.run([*ask, "--set", "duration_ms=500"], stdout=subprocess.PIPE, text=True, check=True).stdout
                return json.loads(said)["seconds"]

            before.append(share_of_core([running.pid]))
            answered_after()
            worker = next(pid for pid in children(running.pid) if "--service-worker" in command_line(pid))
            after.append(share_of_core([running.pid, worker]))
            if round_number == 0:
                late = [1000 * (answered_after() - 0.5) for _ in range(20)]
        finally:
            running.terminate()
            running.communicate()
        bench.clean()
    table(("launcher and worker beside `sleep`, `--port`", "% of a core"),
          [("before anybody has connected", spread(before, 3)), ("after a capture, while the worker waits", spread(after, 3))])
    table(("a window of 500 ms over the port", "ms beyond it"), [("from the request to the whole reply", spread(late, 1))])


def share_of_core(pids):
    time.sleep(2)
    before, start = sum(map(process_cpu_seconds, pids)), time.monotonic()
    time.sleep(20)
    return 100 * (sum(map(process_cpu_seconds, pids)) - before) / (time.monotonic() - start)


def process_cpu_seconds(pid):
    # Its CPU clock (clock_getcpuclockid), which includes threads that have ended.
    return time.clock_gettime(~pid << 3 | 2)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def command_line(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read()


def cpu_seconds(pid):
    # What the scheduler has counted: ticks of 10 ms would be coarser than the answer.
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as file:
            total += int(file.read().split()[0])
    return total / 1e9


PARTS = {"allocator": allocator, "locks": locks, "waits": waits, "starts": starts, "annotations": annotations, "torch": torch,
         "programs": programs, "turns": turns, "shares": shares,
         "drain": drain, "convert": convert, "capture": capture, "reply": reply,
         "idle": idle, "service": service}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("work")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=5, help="of a whole program for each side of a pair; the shortest counts")
    parser.add_argument("--only", default="", help="whole programs with this in their names")
    parser.add_argument("--json", help="what was added, by table, goes there: plot.py draws it")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_intermixed_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown or options.rounds < 3:
        parser.error(f"parts are {', '.join(PARTS)}; at least 3 rounds")
    bench = Bench(options.build, options.work, options.rounds, options.runs, options.only)
    for part in options.parts or PARTS:
        try:
            PARTS[part](bench)
        except RuntimeError as error:
            sys.exit(f"host_cost.py: {error}")
        if options.json:
            with open(options.json, "w") as file:
                json.dump(bench.results, file, indent=1)


if __name__ == "__main__":
    main()
