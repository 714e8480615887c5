# SPDX-License-Identifier: Apache-2.0
"""Small spools of this machine, without who and where, ready to become test data (tests/data/cuda/README.md)."""

import gzip
import json
import time

import golden
from basics import jax_python, torch_python
from harness import PROGRAMS, Failed, Skip, expect

MOST_BYTES = 2_000_000


def programs(check):
    machine = check.machine
    yield "train", lambda: [machine.program("tests/sim/subjects/train"), "20", "20000"], ()
    yield "train_graph", lambda: [machine.program("tests/sim/subjects/train"), "20", "20000", "graph"], ()
    yield (
        "whole_graphs",
        lambda: [machine.program("tests/sim/subjects/train"), "20", "20000", "graph"],
        ("--cuda-graphs=graph",),
    )
    yield "copies", lambda: [machine.program("tests/sim/subjects/copies")], ()
    yield "hooks", lambda: [machine.program("tests/sim/subjects/train"), "20", "20000"], ("--cuda=hooks",)
    yield "torch_eager", lambda: [torch_python(check), str(PROGRAMS / "torch_train.py"), "12"], ()
    yield "torch_graphs", lambda: [torch_python(check), str(PROGRAMS / "torch_modes.py"), "graphs"], ()
    yield "torch_profiler", lambda: [torch_python(check), str(PROGRAMS / "torch_train.py"), "12", "profile"], ()
    yield "jax", lambda: [jax_python(check), str(PROGRAMS / "jax_train.py"), "10"], ()


def golden_spools(check):
    machine = check.machine
    prefix = check.pick("", "simulated_")
    place = check.machine.out / "golden"
    place.mkdir(exist_ok=True)
    rows, wrong = [], []
    for name, command, options in programs(check):
        name = prefix + name
        if check.left_s() < 10:
            rows.append((name, "", "", "not begun: no time left"))
            continue
        try:
            # Threads and the allocator are other tests' matter, and would be most of a spool.
            command = command()
            options = ("--no-argv", "--trace=process,gpu", *options)
            # PyTorch and JAX bring libraries of their own.
            native = command[0].startswith(str(machine.build))
            ran = check.profiled(command, machine.with_libraries() if native else machine.environment, options)
            expect(ran.status == 0 and ran.summary, ran.tail())
            if ran.has("kernels") and name.removeprefix(prefix) in ("train", "train_graph", "hooks"):
                launched = ran.fact("kernels")
                expect(
                    ran.kernels() == launched, f"{ran.kernels()} kernels recorded, {launched} launched: no golden one"
                )
            found = list((check.directory / f"profiled-{check.count}").glob("*.spool"))
            expect(len(found) == 1, f"{len(found)} spools")
            start = time.monotonic()
            told = [str(check.directory).encode(), str(check.machine.build).encode(), *golden.private_texts()]
            data = golden.scrub(found[0].read_bytes(), told)
            packed = gzip.compress(data, mtime=0)
            left = [text for text in told if text in data]
            expect(not left, f"{left} is left in it")
            expect(len(packed) < MOST_BYTES, f"{len(packed)} bytes are too many")
            spool = check.directory / f"{name}.spool"
            spool.write_bytes(data)
            converted = check.directory / f"converted-{name}"
            converted.mkdir()
            again = golden.facts(golden.convert(check.machine.tbprof, spool, converted))
            lost = list(golden.differences(golden.facts(ran.summary), again))
            expect(not lost, f"scrubbed it says something else: {'; '.join(lost)}")
            (place / f"{name}.spool.gz").write_bytes(packed)
            (place / f"{name}.json").write_text(json.dumps(again, indent=1, sort_keys=True) + "\n")
            rows.append((name, len(packed), ran.kernels(), f"scrubbed in {time.monotonic() - start:.1f} s"))
        except Skip as skip:
            rows.append((name, "", "", f"skipped: {skip}"))
        except (Failed, ValueError) as error:
            rows.append((name, "", "", str(error)))
            wrong.append(f"{name}: {error}")
    check.table("Spools for tests/data/cuda", ["spool", "bytes", "kernels", "found"], rows)
    expect(not wrong, "; ".join(wrong))
    return f"{sum(bool(row[1]) for row in rows)} spools, {sum(row[1] or 0 for row in rows)} bytes"
