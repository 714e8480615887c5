#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Other projects' test suites, each bare and under tbprof: every test has to end alike.
#
#   tests/outside/run.sh [--tbprof PATH] [--full] [--list] [UNIT...]
#
#   --tbprof PATH  the program (build/bin/tbprof)
#   --full         the whole of each suite; without it a selection of a few minutes
#   --list         print the units and what is run for each
#   UNIT           e.g. python.test_signal, stress-ng.fork, numpy.test_dtype, torch.test_api; default: all
#
# Exit status 1 if a test differs. A test that fails now and then without tbprof too is listed as such.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

for argument in "$@"; do
  if [[ $argument == -h || $argument == --help ]]; then usage && exit; fi
done
if ! "$TBPROF_ROOT/scripts/install_dependencies.sh" outside; then
  echo "SKIP: the outside suites are not installed: scripts/install_dependencies.sh outside"
  exit 77
fi
exec "$DEBIAN_PYTHON" "$TBPROF_ROOT/tests/outside/suites.py" "$@"
