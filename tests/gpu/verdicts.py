# SPDX-License-Identifier: Apache-2.0
"""What the verdict names in PyTorch trainings with one cause each, on a real GPU."""

from concurrent.futures import ThreadPoolExecutor

from basics import torch_python
from harness import PROGRAMS, expect

CAUSES = {
    "sync": {"sync", "tiny_kernels"},
    "pageable": {"pageable_copy"},
    "tiny": {"tiny_kernels"},
    "loader": {"slow_loader"},
    "python": {"python"},
    "healthy": {"kernels"},
}


def causes_in_torch(check):
    python = torch_python(check)

    def one(mode):
        return mode, check.profiled([python, str(PROGRAMS / "torch_causes.py"), mode])

    with ThreadPoolExecutor(3) as pool:
        runs = dict(pool.map(one, CAUSES))
    rows, wrong = [], []
    for mode, ran in runs.items():
        expect(ran.status == 0 and ran.summary, f"{mode}: {ran.tail()}")
        verdict = ran.summary["verdict"]
        split = ", ".join(f"{part['part']} {part['share']:.2f}" for part in verdict["split"]["parts"][:5])
        where = verdict["where"][0] if verdict["where"] else {}
        place = f"{str(where.get('file')).rsplit('/', 1)[-1]}:{where.get('line')} {where.get('doing') or ''}"
        steps = ran.summary["steps"]
        rows.append((mode, verdict["cause"], f"{verdict['share'] or 0:.2f}", place, split, steps["count"]))
        check.facts[mode] = verdict
        if verdict["cause"] not in CAUSES[mode]:
            wrong.append(f"{mode}: {verdict['cause']}")
    check.table("Verdicts", ["planted", "named", "share", "where", "split", "steps"], rows)
    expect(not wrong, "; ".join(wrong))
    return ", ".join(f"{row[0]}: {row[1]}" for row in rows)
