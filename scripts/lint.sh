#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy (.clang-tidy) on the C and C++ sources and shellcheck on the scripts.
#
#   scripts/lint.sh [--all | FILE...]
#
# Without arguments: what differs from the branch's origin, or from the last commit where there is
# none, committed or not. A changed header is checked through the sources that include it. Needs a
# configured build/ for its compile_commands.json. Exits 1 when anything is reported.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

all=false
files=()
for argument in "$@"; do
  case $argument in
    --all) all=true ;;
    -h | --help) usage && exit ;;
    -*) usage_error "unknown argument '$argument'" ;;
    *) files+=("$(realpath --relative-to="$TBPROF_ROOT" -- "$argument")") ;;
  esac
done

for tool in clang-tidy shellcheck; do
  command -v $tool >/dev/null || fail "$tool is missing: scripts/install_dependencies.sh test"
done
cd "$TBPROF_ROOT"
DATABASE=build/compile_commands.json

changed_files() {
  local base
  base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse -q --verify HEAD || git hash-object -t tree /dev/null)
  git diff --name-only --diff-filter=d "$base" --
  git ls-files --others --exclude-standard
}

if $all; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard)
elif ((!${#files[@]})); then
  mapfile -t files < <(changed_files | sort -u)
fi

sources=()
scripts=()
for file in "${files[@]}"; do
  [[ -f $file ]] || continue
  case $file in
    *.cc | *.c) sources+=("$file") ;;
    *.h | *.def)
      mapfile -t -O "${#sources[@]}" sources < <(
        git grep --untracked -lF "#include \"$file\"" -- '*.cc' '*.c' || true
      )
      ;;
    *.sh | .ci/run) scripts+=("$file") ;;
  esac
done

status=0
if ((${#scripts[@]})); then
  shellcheck -x -P SCRIPTDIR "${scripts[@]}" || status=1
fi

if ((${#sources[@]})); then
  [[ -r $DATABASE ]] || fail "no $DATABASE: configure first (cmake -S . -B build -G Ninja)"
  known=()
  while read -r source; do
    if grep -qF "\"$TBPROF_ROOT/$source\"" "$DATABASE"; then
      known+=("$source")
    else
      say "not in $DATABASE, left out: $source"
    fi
  done < <(printf '%s\n' "${sources[@]}" | sort -u)
  if ((${#known[@]})); then
    # clang stops at options that only gcc knows, and at gcc's precompiled headers.
    mkdir -p build/lint
    sed 's/ -fno-gnu-unique\b//g; s/ -include [^ ]*cmake_pch\.hxx//' "$DATABASE" >build/lint/compile_commands.json
    printf '%s\0' "${known[@]}" |
      xargs -0 -n 4 -P "$(jobs_here)" clang-tidy -p build/lint --quiet --warnings-as-errors='*' \
        --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument \
        --extra-arg=-Wno-unused-command-line-argument 2> >(grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter' >&2) || status=1
  fi
fi
exit $status
