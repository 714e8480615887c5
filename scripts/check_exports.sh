#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks what libtbprof_preload.so shows to the dynamic linker of a target.
#
#   scripts/check_exports.sh BUILD_DIR [HOOK_TABLE]
#
# * Its exported names are those of preload/hooks.def, MACRO(family, name, ...), and of wire/cuda_calls.def, and no
#   others; a name with several symbol versions counts once. Entry points that are no hooks stand in the
#   table in a line "// check_exports: allow NAME...".
# * It needs libc.so.6 alone.
# * It has no unique symbols, no search path, no text relocations, no executable stack.
# The newest glibc version it asks for is printed: the oldest glibc it runs on.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# == 1 || $# == 2)) || usage_error "expected a build directory"
library=$(find_library "$1" libtbprof_preload.so)
table=${2:-$TBPROF_ROOT/preload/hooks.def}
[[ -r $table ]] || fail "cannot read $table"
cuda_table=$TBPROF_ROOT/wire/cuda_calls.def
compiler=${CXX:-c++}
broken=0

wrong() {
  printf '%s\n' "$@"
  broken=1
}

# Every macro used as a row is redefined to print its second argument, so that conditions, comments
# and continued lines in the table are read as the compiler reads them.
hook_names() {
  local macros definitions=()
  macros=$(grep -oE '^[[:space:]]*[A-Z][A-Z0-9_]*\(' "$table" | tr -d ' \t(' | sort -u)
  [[ -n $macros ]] || fail "no row MACRO(family, name, ...) in $table"
  while read -r macro; do
    # The names of BY_NAME rows are those of their library alone.
    [[ $macro == TBPROF_BY_NAME ]] && definitions+=("-D$macro(...)=") && continue
    definitions+=("-D$macro(family,name,...)=@hook@ name")
  done <<<"$macros"
  # An #undef at the table's end would be harmless; an #ifndef default at its start is skipped.
  "$compiler" -std=c++20 -E -P -x c++ -I"$TBPROF_ROOT" "${definitions[@]}" "$table" |
    grep -oE '@hook@ *[A-Za-z_][A-Za-z0-9_]*' | sed 's/@hook@ *//'
}

# The driver's calls, each with its second body where it has one.
cuda_names() {
  "$compiler" -std=c++20 -E -P -x c++ "-DTBPROF_CUDA_CALL(symbol,...)=@hook@ symbol" \
    "-DTBPROF_CUDA_STREAM_CALL(symbol,name,since,until,suffix,...)=@hook@ symbol @hook@ symbol##suffix" "$cuda_table" |
    grep -oE '@hook@ *[A-Za-z_][A-Za-z0-9_]*' | sed 's/@hook@ *//'
}

allowed_names() { sed -n 's/.*check_exports: allow//p' "$table" | xargs -r -n1; }

expected=$({ hook_names && cuda_names && allowed_names; } | sort -u)
# Type A are the nodes of symbol versions.
exported=$(nm -D --defined-only --format=posix "$library" | awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' | sort -u)
[[ -n $expected ]] || fail "no names found in $table"

extra=$(comm -13 <(printf '%s\n' "$expected") <(printf '%s\n' "$exported"))
absent=$(comm -23 <(printf '%s\n' "$expected") <(printf '%s\n' "$exported"))
if [[ -n $extra ]]; then
  wrong "exported without a row in ${table#"$TBPROF_ROOT"/}; they would replace the program's own:" "${extra//$'\n'/ }"
fi
if [[ -n $absent ]]; then
  wrong "rows in ${table#"$TBPROF_ROOT"/} that the library does not export; these hooks are never called:" "${absent//$'\n'/ }"
fi

dynamic=$(readelf -dW "$library")
needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
others=$(grep -vxE 'libc\.so\.6|' <<<"$needed" || true)
if [[ -n $others ]]; then
  wrong "needs more than libc.so.6, which every target would load with it:" "${others//$'\n'/ }"
fi
if grep -qE '\((RPATH|RUNPATH)\)' <<<"$dynamic"; then
  wrong "has a library search path: $(grep -E '\((RPATH|RUNPATH)\)' <<<"$dynamic")"
fi
if grep -qE '\(TEXTREL\)|\bTEXTREL\b' <<<"$dynamic"; then
  wrong "has text relocations, which SELinux and hardened kernels refuse"
fi
if grep -qE 'GNU_STACK.*RWE' <<<"$(readelf -lW "$library")"; then
  wrong "asks for an executable stack, which the loader would give to the whole target"
fi
unique=$(readelf -W --dyn-syms "$library" | awk '$5 == "UNIQUE" { print $8 }')
if [[ -n $unique ]]; then
  wrong "has unique symbols, shared with the program's copies (-fno-gnu-unique):" "${unique//$'\n'/ }"
fi

newest=$(readelf -VW "$library" | grep -oE 'Name: GLIBC_[0-9.]+' | sed 's/.*_//' | sort -Vu | tail -n 1)
((!broken)) || fail "$library breaks the rules above"
echo "check_exports.sh: $(wc -l <<<"$exported") names as in the table, needs ${needed:-nothing}, glibc ${newest:-any} or newer"
