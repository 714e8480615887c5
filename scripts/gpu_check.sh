#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks tbprof on a machine with an NVIDIA GPU: is it true, what does it cost, what does it survive, does it yield.
#
#   scripts/gpu_check.sh [--build DIR] [--out DIR] [--jobs N] [--limit S] [--simulated] [--cost] [--list] [CHECK...]
#   scripts/gpu_check.sh --pack DIR [--build DIR]
#
#   --build DIR   a built tree, also one built elsewhere (build)
#   --out DIR     report.json, gpu_check.log with the tables, spools-*.tar.gz with what the checks left, golden.tar.gz with
#                 spools for tests/data/cuda go there ($OUT, else ./gpu-check)
#   --jobs N      so many checks side by side (a third of the CPUs, 2 to 5), but for those that look at times
#   --limit S     what has not begun after so many seconds is skipped (525)
#   --simulated   on tests/sim instead of a GPU: a test of this script
#   --cost        what tbprof costs, in place of all else: a call of its own, as these need the machine for themselves
#   --list        print the checks
#   --pack DIR    puts what a check needs of the build, stripped, and the scripts into DIR, to be carried: there it is
#                 DIR/scripts/gpu_check.sh. $GPU_CHECK_CUPTI12, a libcupti.so.12, goes along
#   CHECK         e.g. runtime_shared, torch; default: all
#
# Needs Python 3 and nothing from a package registry. What is missing (nvcc, PyTorch, JAX) is skipped, with the reason. A
# line per check, PASS, FAIL or SKIP; exit status 1 if one failed. Each row says by what it recorded, CUPTI or hooks, and fails if
# that is not what it is about, or if there was nothing to measure. Under nine minutes a call: the most valuable come first,
# each has a time limit, and what has not begun by then is skipped. The frameworks are imported beside the first checks.
# docs/cuda.md says which claim each of them proves.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage && exit; fi
done
python=$(command -v python3) || fail "no python3"
exec "$python" "$TBPROF_ROOT/tests/gpu/check.py" "$@"
