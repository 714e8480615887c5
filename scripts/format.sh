#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Formats the C and C++ sources with clang-format (.clang-format).
#
#   scripts/format.sh [--check] [FILE...]
#
# Without files: all that git tracks or would add. --check changes nothing and exits 1 when a file
# would change. Tables (*.def) are left alone: their rows stay one line each.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

mode=(-i)
files=()
for argument in "$@"; do
  case $argument in
    --check) mode=(--dry-run --Werror) ;;
    -h | --help) usage && exit ;;
    -*) usage_error "unknown argument '$argument'" ;;
    *) files+=("$(realpath -- "$argument")") ;;
  esac
done

command -v clang-format >/dev/null || fail "clang-format is missing: scripts/install_dependencies.sh test"
cd "$TBPROF_ROOT"
if ((!${#files[@]})); then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cc' '*.c' '*.cu' | sort -u)
fi
# Files removed from the work tree are still in git's list.
present=()
for file in "${files[@]}"; do
  if [[ -f $file ]]; then present+=("$file"); fi
done
((${#present[@]})) || exit 0

if ! printf '%s\0' "${present[@]}" | xargs -0 -n 20 -P "$(jobs_here)" clang-format --style=file "${mode[@]}"; then
  if [[ ${mode[0]} != -i ]]; then fail "not formatted: run scripts/format.sh"; fi
  fail "clang-format failed"
fi
