# SPDX-License-Identifier: Apache-2.0
"""Programs bare and profiled: known numbers of kernels by each way to the driver, a window, SIGKILL, Python."""

import collections
import json
import signal
import time

from harness import PROGRAMS, WARM, Skip, device_is_named, expect


def without_times(text):
    return [line for line in text.splitlines() if "_ns=" not in line]


def doctor(check):
    ran = check.run([str(check.machine.tbprof), "doctor", "--json", f"--logdir={check.directory / 'logs'}"])
    rows = {row["name"]: row for row in json.loads(ran.out)["rows"]}
    check.facts["rows"] = {name: f"{row['verdict']} {row['found']}" for name, row in rows.items()}
    bad = [f"{name}: {row['found']}" for name, row in rows.items() if row["verdict"] == "FAIL"]
    expect(not bad, "; ".join(bad))
    expect("GPU" in rows["driver"]["found"] and "no GPU" not in rows["driver"]["found"], rows["driver"]["found"])
    for name in ("driver", "cupti", "self-test"):
        expect(rows[name]["verdict"] == "PASS", f"{name}: {rows[name]['found']}")
    return rows["driver"]["found"]


def spin(check, program, environment):
    ran = check.pair([program, "200", "200000"], environment)
    check.counted(ran, ran.fact("kernels"))
    check.lasted(ran, ran.fact("kernel_ns"))
    expect(ran.copies("MemcpyHToD") == 1 and ran.copies("MemcpyDToH") == 1, "the two copies are not there once each")
    return f"{ran.kernels()} kernels, all of them"


def runtime_shared(check):
    environment = check.machine.with_libraries()
    if not check.machine.loads("libcudart.so.13", environment):
        raise Skip("no libcudart.so.13 is found")
    return spin(check, check.machine.program("tests/gpu/spin_shared"), environment)


def runtime_static(check):
    if check.machine.simulated:
        raise Skip("NVIDIA's static runtime refuses the simulated driver")
    return spin(check, check.machine.program("tests/gpu/spin_static"), None)


def nvcc(check):
    if check.machine.nvcc is None:
        raise Skip("no nvcc")
    if check.machine.simulated:
        raise Skip("nvcc's default runtime refuses the simulated driver")
    program = str(check.directory / "spin")
    made = check.run([check.machine.nvcc, "-O2", "-o", program, str(PROGRAMS / "spin.cu")], limit_s=60)
    expect(made.status == 0, f"nvcc: {made.err[-300:]}")
    return spin(check, program, None)


def driver(check):
    ran = check.pair([check.machine.program("tests/sim/subjects/driver_opened"), "50"])
    check.counted(ran, ran.fact("kernels"))
    ran = check.pair([check.machine.program("tests/sim/subjects/driver_opened"), "50", "by_address"])
    check.counted(ran, ran.fact("kernels"))
    return f"twice {ran.kernels()} kernels"


def cuda_graphs(check):
    command = [check.machine.program("tests/sim/subjects/graphs"), "20"]
    ran = check.pair(command, check.machine.with_libraries())
    check.counted(ran, ran.fact("kernels"))
    whole = check.pair(command, check.machine.with_libraries(), ["--cuda-graphs=graph"])
    graphs = sum(gpu["graphs"] for gpu in whole.summary["gpus"])
    expect(graphs == ran.fact("graph_launches"), f"{graphs} graphs recorded, {ran.fact('graph_launches')} launched")
    return f"{ran.kernels()} kernels of nodes; {graphs} graphs as a whole"


def graph_operations(check):
    """Kernels of a graph belong to the ranges that their nodes were captured in, not to those around the launch."""
    launches = 6
    program = check.machine.program("tests/sim/subjects/graph_ranges")
    ran = check.pair([program, str(launches)], check.machine.with_libraries())
    found = collections.Counter(
        (event.name.split("_")[0], event.operation) for event in ran.profile().device if event.kernel
    )
    check.facts["operations"] = {f"{kernel}: {operation}": count for (kernel, operation), count in found.items()}
    # Two of the three graphs have the model in them.
    expected = {
        ("encode", "model/encoder:encoder"): 2 * launches,
        ("decode", "model/decoder:decoder"): 2 * launches,
        ("nowhere", "replay:replay"): launches,
        ("eager", "replay/eager:eager"): launches,
    }
    expect(found == expected, f"operations of kernels: {dict(found)}")
    return f"{sum(found.values())} kernels by the ranges they were captured in"


def unified_memory(check):
    command = [check.machine.program("tests/sim/subjects/unified"), "4"]
    ran = check.pair(command, check.machine.with_libraries(), ["--cuda-unified-memory"])
    refused = [text for text in ran.summary["warnings"] if "unified memory" in text]
    if refused:
        raise Skip(refused[0])
    totals = {row["name"]: row for gpu in ran.summary["gpus"] for row in gpu["unified_memory"]}
    check.facts["totals"] = totals
    check.facts["host_page_faults"] = [process["gpu"]["host_page_faults"] for process in ran.summary["processes"]]
    for way, times in (("HtoD", ran.fact("to_device")), ("DtoH", ran.fact("to_host"))):
        moved, expected = totals.get(f"unified memory {way}", {"bytes": 0})["bytes"], times * ran.fact("bytes")
        # The driver prefetches, by its own page sizes.
        expect(0.9 * expected <= moved <= 4 * expected, f"{way}: {moved} bytes moved, {expected} touched")
    return ", ".join(f"{row.get('bytes', row.get('count'))} {name}" for name, row in totals.items())


def fork(check):
    ran = check.pair([check.machine.program("tests/sim/subjects/forks")], check.machine.with_libraries())
    # The third is of the child that became a new program.
    check.counted(ran, 3)
    return "parent, forked child and executed child"


def cupti_yield(check):
    environment = check.machine.with_libraries()
    if not check.machine.loads("libcupti.so.13", environment):
        raise Skip("no libcupti.so.13 is found")
    ran = check.pair(
        [check.machine.program("tests/sim/subjects/rival_opened"), "1", "20"], environment, same=without_times
    )
    expect(ran.fact("own_kernels") == ran.fact("kernels"), "the program did not see all of its kernels itself")
    return f"the program recorded its {ran.fact('own_kernels')} kernels itself"


def window(check):
    kernels, options = check.pick(("500", "--window=2s+1s"), ("150", "--window=400ms+400ms"))
    command = [check.machine.program("tests/gpu/spin_shared"), kernels, "200000", "10000"]
    ran = check.pair(command, check.machine.with_libraries(), [options])
    device_is_named(ran)
    expect(0 < ran.kernels() < int(kernels) * 0.8, f"{ran.kernels()} of {kernels} kernels with {options}")
    return f"{ran.kernels()} of {kernels} kernels with {options}"


def capture(check):
    asked = []

    def ask(process):
        time.sleep(check.pick(2.0, 0.5))
        process.send_signal(signal.SIGUSR1)
        asked.append(time.monotonic())

    kernels = check.pick("500", "250")
    command = [check.machine.program("tests/gpu/spin_shared"), kernels, "200000", "10000"]
    ran = check.profiled(
        command, check.machine.with_libraries(), ["--window=none", "--window-duration=1s"], on_start=ask
    )
    expect(ran.status == 0, ran.tail())
    expect(len(ran.runs) == 1, f"{len(ran.runs)} captures were written; {ran.tail()}")
    summaries = sorted(ran.runs[0].glob("*summary.json"), key=lambda path: (path.name != "summary.json", path.name))
    expect(summaries, "the capture has no summary")
    ran.summary = json.loads(summaries[0].read_text())
    check.note(ran)
    device_is_named(ran)
    expect(0 < ran.kernels() < int(kernels) * 0.8, f"{ran.kernels()} of {kernels} kernels in a capture of one second")
    return f"{ran.kernels()} of {kernels} kernels in a capture of one second"


def require_gpu(check):
    command = [check.machine.program("tests/gpu/spin_shared"), "10", "10000"]
    ran = check.profiled(command, check.machine.with_libraries(), ["--require-gpu"])
    expect(ran.status == 0 and ran.summary, ran.tail())
    check.note(ran)
    expect(ran.kernels() == 10, f"{ran.kernels()} of 10 kernels")
    ran = check.profiled(["/bin/true"], None, ["--require-gpu"])
    expect(ran.status == 3, ran.tail())
    return ran.own_lines[-1].removeprefix("tbprof: ")[:160]


def torch_python(check):
    if check.machine.simulated:
        raise Skip("PyTorch does not run on the simulator")
    python = check.machine.python_with("torch")
    check.machine.warm(check.left_s())
    asked = check.run([python, "-c", WARM["torch"]])
    version = asked.out.split()
    if len(version) != 3 or version[2] != "True":
        raise Skip(f"{python}: PyTorch has no GPU ({asked.out.strip() or asked.err.strip()[-120:]})")
    check.facts["torch"] = " ".join(version[:2])
    return python


def torch(check):
    python = torch_python(check)
    ran = check.pair([python, str(PROGRAMS / "torch_train.py"), "60"])
    spins = ran.calls("spin_kernel")
    expect(spins == ran.fact("spin_kernels"), f"{spins} spin kernels recorded, {ran.fact('spin_kernels')} launched")
    expect(ran.kernels() > 4 * 60, f"only {ran.kernels()} kernels for 60 steps")
    return f"PyTorch {check.facts['torch']}: {ran.kernels()} kernels, each of {spins} marked ones"


def torch_by_hooks(check):
    python = torch_python(check)
    ran = check.pair([python, str(PROGRAMS / "torch_train.py"), "60"], None, ["--cuda=hooks"])
    spins = ran.calls("spin_kernel")
    untimed = sum(gpu["untimed"] for gpu in ran.summary["gpus"])
    expect(spins == ran.fact("spin_kernels"), f"{spins} spin kernels of {ran.fact('spin_kernels')}, {untimed} untimed")
    expect(ran.kernels() > 4 * 60, f"only {ran.kernels()} kernels for 60 steps")
    return f"PyTorch {check.facts['torch']}: {ran.kernels()} kernels, {untimed} untimed, each of {spins} marked ones"


def torch_profiler(check):
    python = torch_python(check)
    ran = check.pair([python, str(PROGRAMS / "torch_train.py"), "60", "profile"], same=without_profiler_words)
    expect(ran.fact("profiler_spin_kernels") == 20, f"torch.profiler saw {ran.fact('profiler_spin_kernels')} of 20")
    spins = ran.calls("spin_kernel")
    check.note(ran)
    expect(20 <= spins <= 40, f"{spins} of the 40 spin kernels outside of torch.profiler")
    states = {process["gpu"]["state"] for process in ran.summary["processes"] if process["gpu"]}
    expect(states == {"recorded_with_gaps"}, f"the gap is not told: {states}")
    return f"torch.profiler saw 20 of 20, tbprof {spins} of the 40 before and after"


def without_profiler_words(text):
    """torch.profiler warns with times and process ids."""
    return [line for line in text.splitlines() if "profiler" not in line.lower() or "profiler_spin" in line]


def jax_python(check):
    if check.machine.simulated:
        raise Skip("JAX does not run on the simulator")
    python = check.machine.python_with("jax")
    check.machine.warm(check.left_s())
    asked = check.run([python, "-c", WARM["jax"]])
    if asked.out.split()[1:] != ["gpu"]:
        raise Skip(f"{python}: JAX has no GPU ({asked.out.strip() or asked.err.strip()[-120:]})")
    check.facts["jax"] = asked.out.split()[0]
    return python


def jax(check):
    python = jax_python(check)
    ran = check.pair([python, str(PROGRAMS / "jax_train.py"), "40"])
    expect(ran.kernels() >= 40, f"only {ran.kernels()} kernels for 40 steps")
    return f"JAX {check.facts['jax']}: {ran.kernels()} kernels for 40 steps"
