#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tbprof's own cost in the program: what it reports against what it is.
#
#   tests/bench/own_cost.sh [BUILD_DIR [PAIRS]]
#
# Each load runs bare and under `tbprof run` in turn, PAIRS times; the cost is the median of the differences in user and
# system time of the command, the claim the median of those in summary.json. Exit status 1 if a claim of 5 ms or more is
# off by more than 1.5 times.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

build=$(realpath "${1:-build}")
pairs=${2:-9}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -O2 -D_GNU_SOURCE -o "$work/load" "$(dirname "${BASH_SOURCE[0]}")/own_cost_load.c" -lpthread

python3 - "$build/bin/tbprof" "$work" "$pairs" <<'PYTHON'
import json, os, statistics, subprocess, sys

tbprof, work, pairs = sys.argv[1], sys.argv[2], int(sys.argv[3])
EXACT = ['--malloc=exact', '--window=all']
LOADS = [('allocate', 4_000_000, []), ('small', 10_000_000, []), ('short', 5_000_000, []), ('uncontended', 20_000_000, []),
         ('read', 1_000_000, []), ('records', 60_000, []), ('processes', 100, []), ('small', 10_000_000, EXACT),
         ('allocate', 4_000_000, EXACT), ('read', 1_000_000, ['--wait-threshold=0'])]


def bare(command):
    pid = os.posix_spawn(command[0], command, os.environ)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime


def profiled(command, options):
    summary = os.path.join(work, 'summary.json')
    subprocess.run([tbprof, 'run', '--quiet', '--logdir', os.path.join(work, 'logs'), '--summary-json', summary, *options, '--',
                    *command], check=True)
    with open(summary) as file:
        facts = json.load(file)
    subprocess.run(['rm', '-rf', os.path.join(work, 'logs')], check=True)
    return facts['user_cpu_s'] + facts['system_cpu_s'], facts['overhead']['cpu_s']


wrong = False
print(f'{"load":26} {"turns":>9} {"bare ms":>9} {"cost ms":>9} {"spread":>15} {"ns/turn":>8} {"claim ms":>9} {"claim/cost":>10}')
for name, turns, options in LOADS:
    command = [os.path.join(work, 'load'), name, str(turns)]
    times, costs, claims = [], [], []
    for _ in range(pairs):
        without = bare(command)
        with_it, claim = profiled(command, options)
        times.append(without)
        costs.append(with_it - without)
        claims.append(claim)
    cost, claim = statistics.median(costs), statistics.median(claims)
    low, high = statistics.quantiles(costs, n=4)[::2]
    ratio = claim / cost if cost > 0 else float('nan')
    off = claim >= 0.005 and not 1 / 1.5 <= ratio <= 1.5
    wrong |= off
    print(f'{" ".join([name, *options[:1]]):26} {turns:9} {statistics.median(times) * 1e3:9.1f} {cost * 1e3:9.1f} '
          f'{low * 1e3:7.1f}..{high * 1e3:6.1f} {cost / turns * 1e9:8.1f} {claim * 1e3:9.1f} {ratio:10.2f}'
          f'{"  <- off" if off else ""}', flush=True)
sys.exit(wrong)
PYTHON
