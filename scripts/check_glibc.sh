#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints the newest glibc version that each ELF file asks for, and fails above what it may.
#
#   scripts/check_glibc.sh ARTEFACT...
#
# An artefact is a directory, a wheel, a .tar.gz, a .deb or an ELF file. The bounds: libraries below glibc-2.17/ 2.17,
# other libraries 2.34 (the launcher takes them where glibc is that new), everything else 2.28. A file may also need no
# shared library but glibc's, and a launcher has to come with libraries for both.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($#)) || usage_error "expected an artefact"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

wrong() {
  say "$@"
  status=1
}

bound_of() { # FILE
  case $1 in
    */glibc-2.17/*.so) echo 2.17 ;;
    *.so) echo 2.34 ;;
    *) echo 2.28 ;;
  esac
}

check_file() { # FILE, NAME
  local bound newest needed
  bound=$(bound_of "$1")
  # A dynamic symbol's version; a static program has none.
  newest=$(LC_ALL=C objdump -T "$1" 2>/dev/null | grep -oE 'GLIBC_[0-9]+(\.[0-9]+)+' | sort -uV | tail -n 1 || true)
  newest=${newest#GLIBC_}
  printf '%-60s glibc %s (bound %s)\n' "$2" "${newest:-none}" "$bound"
  [[ $(printf '%s\n' "${newest:-0}" "$bound" | sort -V | tail -n 1) == "$bound" ]] ||
    wrong "$2 needs glibc $newest, bound $bound: $(LC_ALL=C objdump -T "$1" | awk -v v="(GLIBC_$newest)" '$0 ~ /UND/ && index($0, v) { print $NF }' | xargs)"
  needed=$(LC_ALL=C readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vxE 'lib(c|m)\.so\.6|lib(dl|util|resolv)\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-x86-64\.so\.2' || true)
  [[ -z $needed ]] || wrong "$2 needs libraries that are not glibc's: $(xargs <<<"$needed")"
}

unpack() { # ARTEFACT, DIRECTORY
  case $1 in
    *.whl) "$DEBIAN_PYTHON" -m zipfile -e "$1" "$2" ;;
    *.tar.gz) tar -xzf "$1" -C "$2" ;;
    *.deb) dpkg-deb -x "$1" "$2" ;;
    *) cp "$1" "$2/" ;;
  esac
}

for artefact in "$@"; do
  [[ -e $artefact ]] || fail "no $artefact"
  directory=$artefact
  if [[ ! -d $artefact ]]; then
    directory=$(mktemp -d "$work/XXXXXX")
    unpack "$artefact" "$directory"
  fi
  files=0
  launchers=0
  while IFS= read -r file; do
    [[ $(head -c 4 "$file" | od -An -tx1 | tr -d ' ') == 7f454c46 ]] || continue
    files=$((files + 1))
    [[ ${file##*/} != tbprof ]] || launchers=$((launchers + 1))
    check_file "$file" "${file#"$directory"/}"
  done < <(find "$directory" -type f | sort)
  ((files)) || wrong "$artefact holds no ELF file"
  if ((launchers)); then
    for library in libtbprof_preload.so libtbprof_cupti.so; do
      for place in lib/tbprof lib/tbprof/glibc-2.17; do
        find "$directory" -path "*/$place/$library" | grep -q . || wrong "$artefact lacks $place/$library"
      done
    done
  fi
done
exit $status
