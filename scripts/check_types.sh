#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that no two types of one program have the same name: the linker would take the functions of one for both (the
# destructor, or those of a vector of them), and no compiler reports it.
#
#   scripts/check_types.sh [ROOT]
#
# Of the launcher and of what it links: types that are defined in no other type and in no unnamed namespace, whatever
# the named one.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

cd "${1:-$TBPROF_ROOT}"
mapfile -t files < <(find wire writer launcher -type f \( -name '*.h' -o -name '*.cc' \) 2>/dev/null | sort)
((${#files[@]})) || fail "no source file under wire, writer and launcher"

awk '
  FNR == 1 || /^}  \/\/ namespace$/ { unnamed = 0 }
  /^namespace \{$/ { unnamed = 1 }
  !unnamed && /^(class|struct|union|enum( class)?) .*\{/ {
    name = $0
    sub(/^(class|struct|union|enum( class)?) (alignas\([^)]*\) )?/, "", name)
    if (name !~ /^[A-Za-z0-9_]+( final)?( : [^:].*| *)\{/) next  # Outer::Inner, a specialization
    sub(/[^A-Za-z0-9_].*/, "", name)
    ++types
    if (name in first) {
      print first[name] " and " FILENAME ":" FNR " both define " name
      ++doubled
    } else {
      first[name] = FILENAME ":" FNR
    }
  }
  END {
    if (doubled) exit 1
    print "check_types.sh: " types " types, each with a name of its own"
  }
' "${files[@]}"
