#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that a file of the product has at most 600 lines and a function at most 80.
#
#   scripts/check_sizes.sh [ROOT]
#
# Exceptions stand below, each with its reason. One that is not needed any more is refused too.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

root=${1:-$TBPROF_ROOT}
cd "$root"

readonly MAX_FILE=600 MAX_FUNCTION=80
# FILE or FILE:FUNCTION
declare -A exceptions=(
  # A table: each instruction of DWARF's call frame information with its operands.
  [writer/symbols/frame_entry.cc:CheckInstructions]=1
)

mapfile -t files < <(find wire preload cupti writer launcher -type f \( -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.js' \) | sort)
((${#files[@]})) || fail "no source file under $root"

# Functions are found by the layout that scripts/format.sh gives them: their first line ends with `) {` or so, their last
# is a `}` in the column where the first begins.
large=$(awk -v max_file="$MAX_FILE" -v max_function="$MAX_FUNCTION" '
  function end_file() {
    if (lines > max_file) print name, lines, "lines"
  }
  FNR == 1 {
    if (NR > 1) end_file()
    name = FILENAME; start = 0; first = 0
  }
  { lines = FNR }
  # The signature may take several lines: it begins where the line before ended a statement, a block or a label.
  start == 0 && /^ *[A-Za-z~]/ && first == 0 { first = FNR; match($0, /^ */); column = RLENGTH; text = $0 }
  start == 0 && /[;}:]$|^ *[#\/]/ && !/\) :$/ { first = 0 }
  start == 0 && /^ *$/ { first = 0 }
  start == 0 && /\{$/ {
    if (text ~ /\(/ && text !~ /^ *(if|for|while|switch|do|else|namespace|class|struct|union|enum|extern|case|default)[ ({:]/ \
        && text !~ / = (\[|\{)/ && column <= 4 && first > 0) {
      start = first
      function_name = text
      sub(/\(.*/, "", function_name); sub(/.*[ *&]/, "", function_name)
    }
    first = 0
  }
  start > 0 && /^ *\}/ {
    match($0, /^ */)
    if (RLENGTH == column) {
      if (FNR - start + 1 > max_function) print name ":" function_name, FNR - start + 1, "lines"
      start = 0; first = 0
    }
  }
  END { end_file() }
' "${files[@]}")

bad=0
declare -A seen=()
while read -r what lines _; do
  [[ -n $what ]] || continue
  seen[$what]=1
  if [[ -z ${exceptions[$what]-} ]]; then
    echo "$what: $lines lines" >&2
    bad=1
  fi
done <<< "$large"
for what in "${!exceptions[@]}"; do
  if [[ -e ${what%%:*} && -z ${seen[$what]-} ]]; then
    echo "$what: is small enough by now, and needs no exception" >&2
    bad=1
  fi
done
((bad == 0)) || fail "a file has at most $MAX_FILE lines, a function $MAX_FUNCTION"
echo "check_sizes.sh: ${#files[@]} files of at most $MAX_FILE lines, functions of at most $MAX_FUNCTION, ${#exceptions[@]} exceptions"
