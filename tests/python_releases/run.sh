#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Reads the stacks of CPythons that this machine does not have, in a root of a Debian release: layouts by their headers,
# programs whose functions never mix, lines of the standard library, stacks that records carry, ends amid threads.
#
#   tests/python_releases/run.sh BUILD_DIR SUITE
#
# The tests run outside of the root and read processes within it, as tbprof reads those of a container. Exit status: 77,
# a line `SKIP: reason`, and 0 with `ABSENT: reason` as of scripts/debian_root.sh.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

(($# == 2)) || usage_error "expected the build directory and a suite"
build=$(realpath "$1")

if [[ ! ${TBPROF_DEBIAN_ROOT:-} ]]; then
  # Each of them comes with its interpreter.
  TBPROF_DEBIAN_PACKAGES='python3,python3-greenlet,pypy3,?name(^python3\.[0-9]+-dev$),?name(^libpython3\.[0-9]+$)' \
    "$TBPROF_ROOT/scripts/debian_root.sh" "$2" "$(realpath "$0")" "$build" "$2" && exit
  status=$?
  ((status == 78)) && exit 0
  exit "$status"
fi

root=$TBPROF_DEBIAN_ROOT
status=0
"$TBPROF_ROOT/scripts/python_layouts.sh" --check "$root"/usr/include/python3.[0-9]* || status=1
for test in python_reader_test python_lines_test; do
  "$build/tests/$test" --gtest_brief=1 || status=1
done

# What tbprof brings into a process, and the tests' files, are within the root where they are outside of it.
TMPDIR=$(mktemp -d)
trap 'rm -rf "$TMPDIR"' EXIT
export TMPDIR TBPROF_LINKED_PROGRAMS=$TMPDIR/linked
for directory in "$build" "$TMPDIR"; do
  mkdir -p "$root$directory"
  mount --bind "$directory" "$root$directory"
done
mkdir "$TBPROF_LINKED_PROGRAMS"
for library in "$root"/usr/lib/*/libpython3.[0-9]*.so.1; do
  name=${library##*/lib}
  # Its own needs are newer than what is here.
  cc -o "$TBPROF_LINKED_PROGRAMS/${name%.so.1}" "$TBPROF_ROOT/tests/programs/runs_python_script.c" \
    -Wl,--no-as-needed,--allow-shlib-undefined "$library" -ldl || status=1
done
for test in run_python_stacks_test run_python_ends_slow_test; do
  "$build/tests/$test" --gtest_brief=1 || status=1
done
exit $status
