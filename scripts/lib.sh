# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Functions shared by the scripts of this folder; sourced, never run:
#
#   . "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
#
# Everything for the user goes to stderr through say/fail, so that stdout stays free for results.

set -euo pipefail

TBPROF_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Debian's Python, whatever else is first on PATH: python3-torch is installed for this one alone.
# shellcheck disable=SC2034  # read by the scripts that source this file
DEBIAN_PYTHON=/usr/bin/python3

say() { printf '%s\n' "${0##*/}: $*" >&2; }

fail() {
  say "$@"
  exit 1
}

# Prints the script's opening comment, its usage text.
usage() { awk 'NR > 1 && !/^#/ { exit } NR > 1 && !/SPDX|shellcheck/ { sub(/^# ?/, ""); print }' "$0"; }

usage_error() {
  say "$*"
  usage >&2
  exit 2
}

jobs_here() { nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2; }

# configure_tree DIR [CMAKE_ARGUMENT...]: nothing to do in a configured tree unless arguments are
# given; ninja configures again by itself when a CMakeLists.txt changes.
configure_tree() {
  local dir=$1 generator=(-G Ninja)
  shift
  if [[ -f $dir/build.ninja || -f $dir/Makefile ]]; then
    (($#)) || return 0
    generator=()
  fi
  say "configuring ${dir#"$TBPROF_ROOT"/}"
  cmake -S "$TBPROF_ROOT" -B "$dir" "${generator[@]}" "$@" >&2
}

# build_tree DIR [TARGET...]
build_tree() {
  local dir=$1
  shift
  cmake --build "$dir" --parallel "$(jobs_here)" ${1:+--target "$@"} >&2
}

# find_library BUILD_DIR NAME: prints the one path, wherever in the build tree the library lies.
find_library() {
  local found
  # portable/ holds what is packed (scripts/link_portable.sh).
  found=$(find "$1" -path "$1/portable" -prune -o -name "$2" -type f -print -quit 2>/dev/null)
  [[ -n $found ]] || fail "no $2 under $1: build it first (cmake --build $1)"
  printf '%s\n' "$found"
}
