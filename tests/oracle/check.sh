#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Records a few programs with a build, and converts each spool twice with it: nothing may differ.
#
#   tests/oracle/check.sh BUILD
#
# Exit status 77 without the virtual environment, whose protobuf reads the profiles.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

build=${1:?BUILD}
if ! "$TBPROF_ROOT/.venv/bin/python" -c 'import google.protobuf' 2>/dev/null; then
  say "SKIP: no virtual environment with protobuf (scripts/venv.sh)"
  exit 77
fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$TBPROF_ROOT/scripts/record_corpus.py" --quick "$build" "$place"
"$TBPROF_ROOT/scripts/compare_conversions.py" "$build/bin/tbprof" "$build/bin/tbprof" "$place/spools"
