#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What tbprof costs a program that makes many short processes or threads: interleaved pairs of runs, bare and profiled.
# Wall time, the median of the pairs' ratios and the ratio of the shortest runs, which other work on the machine disturbs
# least; and CPU time of the command and its children, without the launcher.
#
#   tests/bench/fork_storm.sh BUILD_DIR [PAIRS]

set -euo pipefail
build=$1
pairs=${2:-7}
programs=$build/tests/programs
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# `wall cpu` in seconds of the command itself, printed by a shell around it inside of what is recorded.
seconds() {
  "$@" bash -c 'exec 3>"$0"; TIMEFORMAT="%R %U %S"; { time "$@" >/dev/null 2>&4; } 4>&2 2>&3' \
    "$directory/time" "${command[@]}" >/dev/null 2>&1
  awk '{ print $1, $2 + $3 }' "$directory/time"
}

measure() {
  local what=$1
  shift
  command=("$@")
  for ((i = 0; i < pairs; ++i)); do
    local bare profiled
    bare=$(seconds env)
    profiled=$(seconds "$build/bin/tbprof" run --quiet --logdir="$directory/logs" --)
    echo "$bare $profiled"
  done | awk -v what="$what" '
    { wall[NR] = $3 / $1; cpu[NR] = $4 / $2; bare[NR] = $1; profiled[NR] = $3; bare_cpu[NR] = $2; profiled_cpu[NR] = $4 }
    function median(values, n,  i, j, t) {
      for (i = 1; i <= n; ++i)
        for (j = i + 1; j <= n; ++j)
          if (values[j] < values[i]) { t = values[i]; values[i] = values[j]; values[j] = t }
      return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
    }
    END {
      wall_ratio = median(wall, NR); cpu_ratio = median(cpu, NR)
      b = median(bare, NR); p = median(profiled, NR); bc = median(bare_cpu, NR); pc = median(profiled_cpu, NR)
      printf "%-26s wall %.2f s, %.2f s: x%.2f (shortest x%.2f)   CPU %.2f s, %.2f s: x%.2f   (%d pairs)\n", what, b, p,
             wall_ratio, profiled[1] / bare[1], bc, pc, cpu_ratio, NR
    }'
}

measure "5,000 fork children" "$programs/many_children" 5000
measure "20,000 threads" "$programs/many_threads" 8 20000
measure "5,000 and 20,000" sh -c "$programs/many_children 5000 & $programs/many_threads 8 20000; wait"
measure "1,000 of posix_spawn" "$programs/many_children" 1000 exec /bin/true
