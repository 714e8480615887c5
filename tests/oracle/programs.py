# SPDX-License-Identifier: Apache-2.0
"""What scripts/record_corpus.py records: programs of as many kinds as the converter treats differently.

In commands {p} is a directory with what tests/programs builds, {s} one with the subjects of tests/sim, {sim} that of its
libraries, {x} one with scripts of tests/xprof and examples, {python} the Python of the virtual environment, {torch} a
stand-in of PyTorch, {oracle} this directory. A text is a script of `sh`.
"""

import dataclasses

CUDA = {"LD_LIBRARY_PATH": "{sim}/cuda13"}
HOOKS = ("--cuda=hooks",)
ALL_WAITS = ("--wait-threshold=0",)


@dataclasses.dataclass
class Program:
    name: str
    command: object
    options: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)
    conversions: tuple = ()  # beside the plain one: `convert` or `recover` with options
    launchers: int = 1  # so many `tbprof run` side by side in one log directory, as ranks 0, 1...
    quick: bool = False  # of those that ctest records
    needs: str = ""  # a program on the search path, or a module of {python} with a dot in front


PROGRAMS = []


def add(name, command, *options, **more):
    PROGRAMS.append(Program(name, command, options, **more))


def add_cuda(name, command, *options, environment=None, **more):
    add(name, command, *options, environment={**CUDA, **(environment or {})}, **more)


# ---- threads, locks, input and output, processes

for program in ("threads", "mutex", "rwlock", "condition", "barrier", "sleeps", "pipes", "files", "polls", "sockets", "forks",
                "cancels", "unwinds", "errors"):
    add(program, ["{p}/" + program], *ALL_WAITS, quick=program in ("mutex", "pipes"))
add("old_condition", ["{p}/old_condition"])
add("team", ["{p}/team", "60", "4"])
add("fork_exec_storm", ["{p}/fork_exec_storm", "3", "1"], *ALL_WAITS)
for kind in ("spawn", "vfork", "system", "fail"):
    add(f"execs_{kind}", ["{p}/execs", kind], *ALL_WAITS)
add("shell_loop", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do /bin/true; ls / > list; done; wc list",
    quick=True)
add("shell_sleeps", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.05; done; exit 3")
add("no_command_line", ["/bin/sh", "-c", "sleep 0.01; echo words"], "--no-argv")
add("nothing_traced", ["/bin/true"], "--trace=none")
add("only_locks", ["{p}/mutex"], "--trace=lock")

# ---- ends

add("killed", "{p}/survive 2000 return; kill -9 $$", *ALL_WAITS)
add("killed_in_range", ["{p}/annotations", "killed"])
add("killed_child", "({p}/survive 500 return; kill -9 $(sh -c 'echo $PPID')); sleep 0.05; exit 2", quick=True)
add("segmentation_fault", "kill -SEGV $$")
# What a killed tbprof leaves, before and while records are on their way.
RECOVERED = ("convert --also=perfetto", "recover")
add("killed_launcher", "{p}/survive 3000 return; kill -9 $PPID; sleep 0.2", *ALL_WAITS, conversions=RECOVERED)
add("killed_launcher_at_once", "kill -9 $PPID; {p}/survive 3000 return", *ALL_WAITS, conversions=RECOVERED)
add_cuda("killed_launcher_cuda", "{s}/train 40; kill -9 $PPID; sleep 0.2", conversions=RECOVERED)

# ---- the allocator

add("heap", ["{p}/heap"], conversions=("convert --also=perfetto", "convert --max-profile-size=64KiB --also=perfetto"))
add("heap_exact", ["{p}/heap"], "--malloc=exact")
add("blocks_exact", ["{p}/blocks"], "--malloc=exact", "--malloc-stamp-every=1")
add("blocks_killed", ["{p}/blocks", "kill"], "--malloc=exact")
add("allocations", ["{p}/allocations", "1000"], "--malloc-interval=4KiB")
add("fixed_address", ["{p}/fixed_address"], "--malloc=off")

# ---- annotations, steps, windows

MARKED = ("convert --also=perfetto", "convert --step-marker=^nothing$", "convert --step-marker=fetch")
for mode in ("nest", "across", "unbalanced", "odd", "forks"):
    add(f"annotations_{mode}", ["{p}/annotations", mode], conversions=MARKED if mode == "nest" else (), quick=mode == "nest")
add("annotations_domains", ["{p}/annotations", "domains", "300"])
# The profile is limited at its conversion as well as in the run.
add("annotations_cut", ["{p}/annotations", "loop", "20000"], "--max-profile-size=64KiB", "--window=all",
    conversions=("convert --also=perfetto --max-profile-size=64KiB", "convert --max-profile-size=300KiB", "convert"))
add("marked_steps", "touch stop; exec {p}/marked_steps 40", *ALL_WAITS, quick=True)
add("window_steps", "touch stop; exec {p}/marked_steps 40", "--window=steps=10:19", *ALL_WAITS)
add("window_last", "{p}/survive 40000 return; sleep 0.5", "--window=last=400ms", *ALL_WAITS)
add("window_delay", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 0.05; done", "--window=100ms+200ms")
for mode in (["ranges", "3"], ["threads"], ["starts"], ["registered"], ["child"], ["none"], ["killed"]):
    add(f"window_nvtx_{mode[0]}", ["{p}/trigger", *mode], "--window=nvtx:hot")
add_cuda("window_cuda_profiler", ["{s}/profiler_switch", "2"], "--window=cuda-profiler")
CAPTURED = "for i in 1 2 3; do {p}/survive 300 return; done; kill -USR1 $PPID; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; done"
add("capture_signal", CAPTURED, "--window=none", "--window-duration=200ms")
add("capture_signal_in_all", CAPTURED, "--window-duration=200ms")
# Two minutes in one second: start, steady from, steady, end.
add("window_auto", "touch stop; exec {p}/marked_steps 150", "--max-profile-size=64KiB", *ALL_WAITS,
    environment={"TBPROF_TEST_AUTO": "200,500,200,300"})
add("spool_limit", ["{p}/survive", "200000", "return"], "--window=all", "--spool-limit=4MiB", *ALL_WAITS)

# ---- ranks

RANKS = "touch stop; export WORLD_SIZE=3; for r in 0 1 2; do RANK=$r LOCAL_RANK=$r {p}/marked_steps $((20 + r)) $((r + 1)) & done; wait"
add("ranks_in_one_run", RANKS, "--ranks=all", *ALL_WAITS)
add("ranks_chosen", ["{p}/ranks", "8"], "--ranks=1,5-6", "--buffer-size=8MiB")
add("ranks_with_launchers", "touch stop; exec {p}/marked_steps $((20 + RANK)) $((RANK + 1))", *ALL_WAITS, launchers=3,
    conversions=("convert --also=perfetto --run=ranks", "convert"))
add("rank_failed", "touch stop; export WORLD_SIZE=2; RANK=0 LOCAL_RANK=0 {p}/marked_steps 20 & "
    "RANK=1 LOCAL_RANK=1 {p}/ends exit 7 & wait", "--ranks=all")

# ---- CUDA

for options, suffix in (((), ""), (HOOKS, "_hooks")):
    add_cuda(f"train{suffix}", ["{s}/train", "40"], *options, quick=True)
    add_cuda(f"train_graph{suffix}", ["{s}/train", "40", "1000", "graph"], *options)
    for subject in ("copies", "streams", "devices", "forks", "driver_calls", "graphs", "static_runtime", "two_runtimes"):
        more = {"environment": {"LD_LIBRARY_PATH": "{sim}/cuda13:{sim}/cuda12"}} if subject == "two_runtimes" else {}
        add_cuda(f"cuda_{subject}{suffix}", ["{s}/" + subject], *options, **more)
    add_cuda(f"green{suffix}", ["{s}/green", "3", "20"], *options)
    add_cuda(f"large_graph{suffix}", ["{s}/large_graph", "100", "3", "1000", "global"], *options)
    add_cuda(f"nvtx{suffix}", ["{s}/nvtx", "3", "streams"], *options,
             conversions=("convert --also=perfetto", "convert --step-marker=forward"))
    add_cuda(f"cuda_ranks{suffix}", ["{s}/ranks", "2", "20"], *options)
    add_cuda(f"resets{suffix}", ["{s}/resets", "20"], *options)
add_cuda("train_whole_graphs", ["{s}/train", "40", "1000", "graph"], "--cuda-graphs=graph")
add_cuda("train_gpu_off", ["{s}/train", "20"], "--cuda=off")
add_cuda("train_required", ["{s}/train", "3"], "--require-gpu")
add_cuda("train_cut", ["{s}/train", "1500", "1000"], conversions=(
    "convert --also=perfetto --max-profile-size=64KiB", "convert --max-profile-size=200KiB"))
add_cuda("train_cuda12", ["{s}/train_cuda12", "20"], environment={"LD_LIBRARY_PATH": "{sim}/cuda12"})
add_cuda("train_without_driver", ["{s}/train", "5"], environment={"LD_LIBRARY_PATH": "{sim}/nodriver"})
for mode in ("incomplete=40", "drop=7"):
    add_cuda(f"train_{mode.partition('=')[0]}", ["{s}/train", "20"], environment={"CUDASIM_CUPTI": mode})
for mode in ("no_device", "privileges"):
    add_cuda(f"train_{mode}", ["{s}/train", "5"], environment={"CUDASIM_CUDA": mode})
add_cuda("train_capture", "kill -USR1 $PPID; exec {s}/train 200 1000000", "--window=none", "--window-duration=100ms")
add_cuda("graph_ranges", ["{s}/graph_ranges", "3"])
add_cuda("idle_threads", ["{s}/idle_threads", "4", "50"])
add_cuda("launches", ["{s}/launches", "4", "500", "100"])
add_cuda("unified", ["{s}/unified", "4"], "--cuda-unified-memory")
add_cuda("unified_not_asked", ["{s}/unified", "2"])
for order in ("xla", "kineto", "kineto_subscribed", "leaves_kinds"):
    add_cuda(f"neighbour_{order}", ["{s}/neighbour_linked", order, "2"])
# Two causes of gaps in one process: sessions that end in order, and what is left of the last.
for mode in ("cupti", "hooks"):
    for order in ("kineto_clock", "leaves_kinds", "leaves_unflushed", "leaves_callbacks", "leaves_subscriber_v2"):
        add_cuda(f"neighbour_{mode}_{order}", ["{s}/neighbour_linked", order, "2"], f"--cuda={mode}", "--window=all",
                 environment={"NEIGHBOUR_AWAITS": "1", "CUDASIM_CUPTI": "version=130100"})
add_cuda("bad_times", ["{s}/large_graph", "1000", "40", "100"], "--cuda=cupti", "--window=all",
         environment={"CUDASIM_CUPTI": "bad_times_after=1000,bad_times_turns=9"})
add_cuda("late_records", ["{s}/neighbour_linked", "kineto", "3"], "--cuda=cupti", "--window=all",
         environment={"NEIGHBOUR_AWAITS": "1", "NEIGHBOUR_QUIET_MS": "10", "CUDASIM_CUPTI": "late_ms=20"})
add_cuda("rival", ["{s}/rival_linked", "1", "2"])
add_cuda("faults", ["{s}/faults", "illegal_address"])
add_cuda("host_functions", ["{s}/host_functions"])
add_cuda("collectives", ["{s}/collectives_opened"])
add_cuda("drivers_opened", ["{s}/driver_opened"])

# ---- stand-ins of frameworks

add("tensorflow", ["{p}/executes", "{sim}/tensorflow/libpywrap.so", "60"])
add("tensorflow_input", ["{p}/executes", "{sim}/tensorflow/libpywrap.so", "60", "6000"])
for mode in (["ops"], ["thread"], ["fork"], ["odd"], ["wrong"], ["memory", "50"],
             ["asynchronous", "50"], ["storm", "20", "50", "2"], ["ends", "kill"]):
    add(f"torch_stand_in_{mode[0]}", ["{p}/torch", "{torch}", *mode])
add("torch_stand_in_all", ["{p}/torch", "{torch}", "ops"], "--torch=all", "--torch-shapes")
add("input_steps", ["{p}/input_steps", "{torch}", "60", "2000", "100", "4"])

# ---- PyTorch itself

for mode in ("train", "evaluate", "infer", "loader", "autograd_off", "profiler", "threads"):
    add(f"pytorch_{mode}", ["{python}", "{oracle}/torch_modes.py", mode], needs=".torch")
add("pytorch_shapes", ["{python}", "{oracle}/torch_modes.py", "train"], "--torch=all", "--torch-shapes", needs=".torch")
add("pytorch_off", ["{python}", "{oracle}/torch_modes.py", "train"], "--torch=off", needs=".torch")
add("pytorch_slow_loader", ["{python}", "{x}/slow_loader.py", "2"], "--malloc=off", needs=".torch")
add("pytorch_fed_by_thread", ["{python}", "{x}/fed.py", "thread"], needs=".torch")
add("pytorch_fed_by_process", ["{python}", "{x}/fed.py", "process"], needs=".torch")
add("pytorch_example", ["{python}", "{x}/train_digits.py", "--synthetic", "--epochs", "1", "--workers", "2"], "--malloc=off", needs=".torch")
add("numpy", ["{python}", "-c", "import numpy as n\nfor i in range(60): n.linalg.svd(n.random.rand(64, 64)); n.ones(1 << 18).sum()"],
    needs=".numpy")
add("jax", ["{python}", "-c", "import jax, jax.numpy as n\nf = jax.jit(lambda x: n.tanh(x @ x))\nx = n.ones((64, 64))\n"
            "for i in range(50): x = f(x).block_until_ready()"], needs=".jax")

# ---- other programs

add("python_asyncio", ["/usr/bin/python3", "-c", "import asyncio\nasync def one(n):\n  for i in range(20): await asyncio.sleep(n / 1000)\n"
                       "async def main(): await asyncio.gather(*(one(n) for n in range(1, 6)))\nasyncio.run(main())"])
add("python_threads", ["/usr/bin/python3", "-c", "import queue, threading, time\nq = queue.Queue(2)\ndef take():\n"
                       "  while q.get() is not None: time.sleep(0.001)\nt = threading.Thread(target=take)\nt.start()\n"
                       "for i in range(100): q.put(i)\nq.put(None)\nt.join()"])
add("python_multiprocessing", ["/usr/bin/python3", "-c", "import multiprocessing as m\nm.set_start_method('fork')\n"
                               "with m.Pool(3) as pool: print(sum(pool.map(abs, range(3000), 50)))"])
add("python_spawn", ["/usr/bin/python3", "-c", "import concurrent.futures as c, multiprocessing as m\nif __name__ == '__main__':\n"
                     "  with c.ProcessPoolExecutor(2, m.get_context('forkserver')) as pool: print(sum(pool.map(abs, range(40))))"])
add("python_sqlite", ["/usr/bin/python3", "-c", "import sqlite3\nd = sqlite3.connect('base')\nd.execute('create table t (a, b)')\n"
                      "for i in range(30): d.execute('insert into t values (?, ?)', (i, 'x' * 1000)); d.commit()"])
add("sqlite", "for i in 1 2 3 4 5; do sqlite3 base \"create table t$i (a); insert into t$i values ($i)\"; done", needs="sqlite3")
add("git", "git init -q r && cd r && for i in 1 2 3 4 5; do echo $i > f; git add f; git -c user.name=a -c user.email=a@b "
    "commit -qm $i; done; git log --stat | wc -l", needs="git")
add("make", "printf 'all: a b c\\na b c:\\n\\techo \"int main(void) { return 0; }\" > $@.c; gcc -o $@ $@.c\\n' > Makefile; make -s -j2",
    needs="make")
add("pipeline", "seq 1 20000 | sort -n | gzip | gunzip | tail -1; dd if=/dev/zero bs=4096 count=200 of=zeros conv=fsync")
add("java", "printf 'class M { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> {}); t.start(); "
    "t.join(); Thread.sleep(20); } }' > M.java; java -Xint M.java", needs="java", )
