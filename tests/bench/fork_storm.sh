#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What tbprof costs a program that makes many short processes or threads: the ratio of wall times, as the median of
# interleaved pairs.
#
#   tests/bench/fork_storm.sh BUILD_DIR [PAIRS]

set -euo pipefail
build=$1
pairs=${2:-7}
programs=$build/tests/programs
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# Wall seconds of the command itself, told by a clock around it inside of the recorded shell.
seconds() {
  local name=$1
  shift
  "$@" sh -c 'exec 3>"$0"; a=$(date +%s%N); "$@" >/dev/null; b=$(date +%s%N); echo $((b - a)) >&3' \
    "$directory/$name" "${command[@]}" >/dev/null 2>&1
  cat "$directory/$name"
}

measure() {
  local what=$1
  shift
  command=("$@")
  for ((i = 0; i < pairs; ++i)); do
    local bare profiled
    bare=$(seconds bare env)
    profiled=$(seconds profiled "$build/bin/tbprof" run --quiet --logdir="$directory/logs" --)
    echo "$bare $profiled"
  done | awk -v what="$what" '
    { ratio[NR] = $2 / $1; bare[NR] = $1 / 1e9; profiled[NR] = $2 / 1e9 }
    function median(values, n,  i, j, t) {
      for (i = 1; i <= n; ++i) for (j = i + 1; j <= n; ++j) if (values[j] < values[i]) { t = values[i]; values[i] = values[j]; values[j] = t }
      return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
    }
    END { printf "%-28s bare %.3f s  profiled %.3f s  ratio %.3f (median of %d pairs)\n", what, median(bare, NR), median(profiled, NR), median(ratio, NR), NR }'
}

measure "5,000 fork children" "$programs/many_children" 5000
measure "1,000 posix_spawn /bin/true" "$programs/many_children" 1000 exec /bin/true
measure "20,000 threads" "$programs/many_threads" 8 20000
