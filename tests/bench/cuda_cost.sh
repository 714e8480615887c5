#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What recording CUDA costs a program on the simulator: *simulated*.
#
#   tests/bench/cuda_cost.sh [BUILD_DIR [ROUNDS]]
#
# One thread launches a million kernels as fast as it can, in turn bare; with the simulated CUPTI recording the same
# kinds into buffers of the same size that are not read (libsim_collector, `light`); and under tbprof. The second is
# CUPTI's own cost, the ratio of the third to it ours. Then the memory of a process with 64 launching threads, with and
# without --cuda=off. cupti_bench has the cost of our code alone.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

build=$(realpath "${1:-build}")
rounds=${2:-15}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

LD_LIBRARY_PATH=$build/tests/sim/cuda13 python3 - "$build" "$work" "$rounds" <<'PYTHON'
import json, os, statistics, subprocess, sys

build, work, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
SIM = build + '/tests/sim/'
COLLECTOR = {'CUDA_INJECTION64_PATH': SIM + 'libsim_collector.so', 'COLLECTOR_FLAGS': 'light',
             'COLLECTOR_BUFFER': str(384 * 1024), 'COLLECTOR_KINDS': '8,9,37,11,10,1,22,2,5,4,38,17,49',
             'COLLECTOR_FACTS': work + '/facts'}


def run(command, extra=None):
    out = subprocess.run(command, check=True, env={**os.environ, **(extra or {})}, stdout=subprocess.PIPE, text=True).stdout
    return {key: int(value) for key, value in (line.split('=') for line in out.split())}


def profiled(arguments, *options):
    logs, summary = work + '/logs', work + '/summary.json'
    facts = run([build + '/bin/tbprof', 'run', '--quiet', '--logdir', logs, '--summary-json', summary, *options, '--',
                 SIM + 'subjects/launches', *arguments])
    with open(summary) as file:
        profile = json.load(file)
    subprocess.run(['rm', '-rf', logs], check=True)
    facts['recorded'] = sum(gpu['kernels'] + gpu['untimed'] for gpu in profile['gpus'])
    facts['dropped'] = sum(profile['records']['dropped'].values()) + profile['records']['not_kept']
    return facts


def spread(values):
    low, _, high = statistics.quantiles(values, n=4)
    return f'{statistics.median(values):10.2f} {low:9.2f}..{high:.2f}'


launches = ['1', '1000000']
bare, recorded, ours = [], [], []
for _ in range(rounds):
    bare.append(run([SIM + 'subjects/launches', *launches]))
    recorded.append(run([SIM + 'subjects/launches', *launches], COLLECTOR))
    ours.append(profiled(launches))
print(f'{"":34} {"median":>10} {"quartiles":>16}')
for name, key, scale in (('launch, p50 ns', 'launch_p50_ns', 1), ('launch, p99.9 ns', 'launch_p99_9_ns', 1),
                         ('launches/s, million', 'launches_per_second', 1e-6)):
    for what, results in (('bare', bare), ('CUPTI alone', recorded), ('tbprof', ours)):
        print(f'{name:20} {what:13} {spread([result[key] * scale for result in results])}')
    print(f'{name:20} {"tbprof/CUPTI":13} {spread([a[key] / b[key] for a, b in zip(ours, recorded)])}', flush=True)
print('kernels: launched', sum(r['kernels'] for r in ours), 'recorded', sum(r['recorded'] for r in ours),
      'said to be dropped (records)', sum(r['dropped'] for r in ours), flush=True)

threads = ['64', '20000']
growth, segment = [], []
for _ in range(max(3, rounds // 3)):
    without, with_it = profiled(threads, '--cuda=off'), profiled(threads)
    growth.append((with_it['rss_anonymous_kib'] - without['rss_anonymous_kib']) / 1024)
    segment.append((with_it['rss_shared_kib'] - without['rss_shared_kib']) / 1024)
print(f'{"64 threads, MiB":20} {"own":13} {spread(growth)}')
print(f'{"":20} {"segment":13} {spread(segment)}')
PYTHON
