#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What tbprof costs on the host, beside bare runs and peers: prints the tables of docs/overhead.md and docs/data.
#
#   scripts/bench.sh [--build DIR] [--rounds N] [--runs N] [--only TEXT] [--json FILE] [PART...]
#
#   --build DIR   an optimised build (build)
#   --rounds N    how often each configuration runs (15)
#   --runs N      of a whole program for each side of a pair, of which the shortest counts (5)
#   --only TEXT   whole programs with this in their names
#   --json FILE   what is added goes there: tests/bench/plot.py FILE docs/images/overhead.svg draws it
#   PART          allocator, locks, waits, starts, annotations, torch, programs, turns, shares, drain, convert, capture, reply, idle, service; all of them if none is named
#
# Nothing else should run on the machine. Peers are taken if they are installed (Debian: heaptrack, lttng-tools,
# liblttng-ust-dev, google-perftools), and perf (linux-perf) for shares. The tables of CUDA are tests/bench/cuda_cost.sh, those of forks and threads
# tests/bench/fork_storm.sh, the launcher's memory tests/bench/launcher_size.py, tbprof's own estimate
# tests/bench/own_cost.sh.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=$TBPROF_ROOT/build
arguments=()
while (($#)); do
  case $1 in
    --build)
      (($# > 1)) || usage_error "--build needs a directory"
      build=$2
      shift
      ;;
    --rounds | --runs | --only)
      (($# > 1)) || usage_error "$1 needs a value"
      arguments+=("$1" "$2")
      shift
      ;;
    --json)
      (($# > 1)) || usage_error "--json needs a file"
      arguments+=(--json "$(realpath "$2")")
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) usage_error "unknown option $1" ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[[ -x $build/bin/tbprof ]] || fail "no $build/bin/tbprof: build it first"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sources=$TBPROF_ROOT/tests/bench
for name in hot_paths burst; do
  "${CC:-cc}" -O2 -D_GNU_SOURCE -isystem "${CUDA_HOME:-/usr/local/cuda}/include" -o "$work/$name" "$sources/$name.c" -lpthread -ldl
done
"${CC:-cc}" -O2 -shared -fPIC -Wl,-z,now -o "$work/forward.so" "$sources/forward.c"
say "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1), $(nproc) CPUs, load $(cut -d' ' -f1 /proc/loadavg), $(uname -sr)"
python3 "$sources/host_cost.py" "$(realpath "$build")" "$work" "${arguments[@]}"
