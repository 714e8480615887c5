#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes the option table of docs/cli.md, between its two marks, from the options of a built tbprof.
#
#   scripts/make_cli_doc.sh [TBPROF]           write it (TBPROF: default build/bin/tbprof)
#   scripts/make_cli_doc.sh --check [TBPROF]   compare; exit 1 and show the difference if it is out of date
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
page=$root/docs/cli.md
check=false
if [[ ${1:-} == --check ]]; then
  check=true
  shift
fi
tbprof=${1:-$root/build/bin/tbprof}
begin='<!-- options: made by scripts/make_cli_doc.sh -->'
end='<!-- end of options -->'

for mark in "$begin" "$end"; do
  if [[ $(grep -cFx -- "$mark" "$page") != 1 ]]; then
    printf 'make_cli_doc.sh: %s lacks the line: %s\n' "$page" "$mark" >&2
    exit 1
  fi
done
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
table=$("$tbprof" help options.md)
{
  awk -v mark="$begin" '{ print } $0 == mark { exit }' "$page"
  printf '%s\n' "$table"
  awk -v mark="$end" '$0 == mark { on = 1 } on' "$page"
} >"$fresh"

if $check; then
  if ! diff -u --label docs/cli.md --label 'the options' "$page" "$fresh"; then
    printf 'make_cli_doc.sh: docs/cli.md is out of date; run scripts/make_cli_doc.sh\n' >&2
    exit 1
  fi
elif ! cmp -s "$page" "$fresh"; then
  cat "$fresh" >"$page"
fi
