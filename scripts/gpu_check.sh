#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks tbprof on a machine with an NVIDIA GPU: programs bare and profiled, kernels counted against known numbers.
#
#   scripts/gpu_check.sh [--build DIR] [--out DIR] [--simulated] [--list] [CHECK...]
#   scripts/gpu_check.sh --pack DIR [--build DIR]
#
#   --build DIR   a built tree, also one built elsewhere (build)
#   --out DIR     report.json, gpu_check.log and spools-*.tar.gz go there ($OUT, else ./gpu-check)
#   --simulated   on tests/sim instead of a GPU: a test of this script
#   --list        print the checks
#   --pack DIR    puts what a check needs of the build, stripped, into DIR, to be carried: --build DIR there
#   CHECK         e.g. runtime_shared, torch; default: all
#
# Needs Python 3 and nothing from a package registry. What is missing (nvcc, PyTorch, JAX) is skipped, with the reason. A
# line per check, PASS, FAIL or SKIP; exit status 1 if one failed. Under eight minutes: each check has a time limit, and what
# has not begun by then is skipped.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage && exit; fi
done
python=$(command -v python3) || fail "no python3"
exec "$python" "$TBPROF_ROOT/tests/gpu/check.py" "$@"
