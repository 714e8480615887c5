# SPDX-License-Identifier: Apache-2.0
"""Which line of Python made a call of CUDA, and which steps a training without marks makes, on a real GPU."""

import collections
import json

from basics import jax_python, torch_python
from harness import PROGRAMS, expect
from xplane import Profile

# What each function of torch_lines.py alone does, by the host's calls; `synchronize` is PyTorch's own.
CALLS_OF = {
    "products": ("cudaLaunchKernelExC", "cuLaunchKernelEx", "cudaLaunchKernel", "cuLaunchKernel"),
    "sines": ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernelEx"),
    "sends": ("cudaMemcpyAsync", "cudaMemcpy", "cuMemcpyHtoDAsync_v2", "cudaStreamSynchronize"),
    "synchronize": ("cudaDeviceSynchronize", "cuCtxSynchronize", "cuCtxSynchronize_v2"),
}


def python_of_calls(check):
    python = torch_python(check)
    found = {}
    for way in ("auto", "hooks"):
        ran = check.profiled([python, str(PROGRAMS / "torch_lines.py"), "400"], None, [f"--cuda={way}"])
        expect(ran.status == 0 and ran.summary, ran.tail())
        profile = Profile(next(ran.runs[0].glob("*.xplane.pb")))
        rows = collections.Counter()
        for name, line in profile.python:
            if "torch_lines.py" in line or line.endswith(" synchronize"):
                rows[name, line.rsplit(" ", 1)[-1]] += 1
        found[way] = rows
        told = {function: 0 for function in CALLS_OF}
        wrong = collections.Counter()
        for (name, function), count in rows.items():
            if function not in CALLS_OF:
                continue
            if name in CALLS_OF[function]:
                told[function] += count
            # What comes with a first call (modules, memory) may be any function's.
            elif any(name in calls for calls in CALLS_OF.values()):
                wrong[name, function] += count
        check.facts[way] = {"right": told, "wrong": {" ".join(key): count for key, count in wrong.items()}}
        check.facts[f"{way}_rows"] = {" ".join(key): count for key, count in rows.most_common(30)}
    for way, facts in [(way, check.facts[way]) for way in found]:
        right, wrong = sum(facts["right"].values()), sum(facts["wrong"].values())
        expect(all(facts["right"].values()), f"{way}: no line for some: {facts}")
        expect(wrong <= 0.01 * right, f"{way}: {wrong} wrong of {right + wrong}: {facts['wrong']}")
    return "; ".join(f"{way}: {check.facts[way]['right']}" for way in found)


def jax_steps(check):
    python = jax_python(check)
    ran = check.profiled([python, str(PROGRAMS / "jax_steps.py"), "400"])
    expect(ran.status == 0 and ran.summary, ran.tail())
    told = dict(line.split("=") for line in ran.err.splitlines() if line.startswith(("steps=", "step_us=")))
    steps = {**ran.summary["steps"], "list": None}
    check.facts.update(program=told, steps=json.loads(json.dumps(steps)))
    expect(steps["known"], f"no steps: {steps['unknown_because']}; the program: {told}")
    ratio = steps["median_s"] * 1e6 / int(told["step_us"])
    expect(380 <= steps["count"] <= 400 and 0.95 < ratio < 1.1, f"{steps['count']} steps, {ratio:.2f} of the length")
    return f"{steps['count']} of {told['steps']} steps, {ratio:.3f} of their length, confidence {steps['confidence']}"
