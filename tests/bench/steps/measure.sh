#!/bin/sh
# Steps of real programs against their own clocks, with what names the steps hidden: measure.sh BUILD KIND...
# BUILD has bin/tbprof and bench/hidden_steps. KIND: one of real_steps.py's or python_loops.py's, run with $PYTHON
# (default python3), or `team ARGUMENTS` for tests/programs/team. One line of JSON each; options that hide or select
# come first. Python is sampled with --sample-rate=$RATE (default 100).
set -u
build=$(realpath "$1")
shift
here=$(dirname "$(realpath "$0")")
for kind in "$@"; do
  directory=$(mktemp -d)
  case $kind in
    team*) set -- "$build/tests/programs/team" ${kind#team} ;;
    *)
      script=$here/real_steps.py
      grep -q "^    \"$kind\":" "$here/python_loops.py" && script=$here/python_loops.py
      set -- "${PYTHON:-python3}" "$script" "$kind" "$directory/begins"
      ;;
  esac
  TEST_FACTS=$directory/facts timeout 200 "$build/bin/tbprof" run --torch=all --sample-rate="${RATE:-100}" --keep-spool --spool-dir="$directory/spool" \
    --logdir="$directory/logs" --quiet -- "$@" >"$directory/out" 2>"$directory/err" || cat "$directory/err" >&2
  [ -f "$directory/begins" ] || sed -n 's/^begin //p' "$directory/facts" >"$directory/begins"
  for how in "--hide=annotations" "--hide=annotations --hide=operations" \
    "--hide=annotations --hide=operations --only=python" \
    "--hide=annotations --hide=operations --only=calls" "--hide=annotations --hide=operations --only=activity"; do
    printf '%s\t%s\t' "$kind" "$how"
    # shellcheck disable=SC2086
    "$build/bench/hidden_steps" "$directory"/spool/*.spool "$directory/begins" $how
  done
  rm -rf "$directory"
done
