#!/usr/bin/env bash
# Makes or updates the Python environment of the tests, <repository>/.venv,
# from the pinned scripts/requirements-test.txt.
#
#   scripts/venv.sh           make or update it; returns at once when nothing has changed
#   scripts/venv.sh --check   say whether it is up to date; no network, changes nothing
#   scripts/venv.sh --path    print the path of its python
#
# Exit status: 0 up to date, 1 not up to date (--check) or failed, 2 usage,
# 3 the package index could not be reached.
# TBPROF_PYTHON names the interpreter to build from (3.10 or newer, with venv).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
requirements=$root/scripts/requirements-test.txt
stamp=$venv/.requirements.sha256

say() { printf 'venv.sh: %s\n' "$*" >&2; }

current() { # the environment runs and was made from these requirements
  [[ -x $venv/bin/python && -f $stamp ]] &&
    [[ $(<"$stamp") == "$(sha256sum <"$requirements")" ]] &&
    "$venv/bin/python" -S -c '' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in "${TBPROF_PYTHON:-}" python3 /usr/bin/python3 \
    python3.14 python3.13 python3.12 python3.11 python3.10; do
    [[ -n $candidate ]] || continue
    if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' \
      2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  say 'no python3 >= 3.10 with venv and ensurepip found (Debian: python3-venv); set TBPROF_PYTHON'
  return 1
}

case ${1:-} in
'') ;;
--check)
  if current; then exit 0; fi
  say "$venv is missing or older than ${requirements#"$root"/}; run scripts/venv.sh"
  exit 1
  ;;
--path)
  printf '%s\n' "$venv/bin/python"
  exit 0
  ;;
*)
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
  ;;
esac

if current; then exit 0; fi

mkdir -p "$venv"
exec 9<"$requirements"
flock 9
if current; then exit 0; fi # another call made it while we waited

rm -f "$stamp"
if ! "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  python=$(find_python)
  say "making $venv with $("$python" --version 2>&1)"
  "$python" -m venv --clear "$venv"
fi
printf '*\n' >"$venv/.gitignore"

log=$venv/pip.log
say "installing ${requirements#"$root"/}"
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --retries 2 \
  --progress-bar off -r "$requirements" >"$log" 2>&1; then
  reason=$(grep -m1 '^ERROR' "$log" || tail -n1 "$log")
  if grep -qE 'NewConnectionError|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError|SSLError|Max retries exceeded|Temporary failure in name resolution|Network is unreachable' "$log"; then
    say "the package index cannot be reached (${reason#ERROR: }); see $log"
    exit 3
  fi
  say "pip failed: ${reason#ERROR: }; see $log"
  exit 1
fi
sha256sum <"$requirements" >"$stamp"
say "ready: $venv"
