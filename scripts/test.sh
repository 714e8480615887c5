#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what the tests need, builds everything and runs every test that needs no GPU.
#
#   scripts/test.sh [--fast] [--no-skips] [--sanitize] [--repeat N]
#
#   --fast       only the default set (six minutes on two CPUs), nothing from PyPI
#   --no-skips   a skipped test is a failure
#   --sanitize   also the unit tests in build-asan, build-ubsan and build-tsan
#   --repeat N   run the default set until it fails, at most N times
#
# Tests labelled xprof need the virtual environment of scripts/venv.sh. Where PyPI cannot be
# reached they are skipped, each with its reason. The last line counts the tests.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

fast=false
no_skips=false
sanitize=false
repeat=()
while (($#)); do
  case $1 in
    --fast) fast=true ;;
    --no-skips) no_skips=true ;;
    --sanitize) sanitize=true ;;
    --repeat)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || usage_error "--repeat needs a number"
      repeat=(--repeat "until-fail:$2")
      shift
      ;;
    -h | --help) usage && exit ;;
    *) usage_error "unknown argument '$1'" ;;
  esac
  shift
done

cd "$TBPROF_ROOT"
# The default set one more at a time than there are CPUs: many of its tests wait for programs. Some of the others compile.
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(jobs_here)}
if $no_skips; then export TBPROF_TEST_NO_SKIPS=1; fi

REPORTS=build/test-reports
status=0

# Labels that the default set leaves out.
EXTRA='^(xprof|slow)$'
NEVER='^gpu$'

# run_tests NAME BUILD_DIR CTEST_ARGUMENT...
run_tests() {
  local name=$1 dir=$2
  shift 2
  say "running the $name tests"
  ctest --test-dir "$dir" --output-on-failure --test-output-size-passed 1000000 \
    --test-output-size-failed 1000000 --output-junit "$TBPROF_ROOT/$REPORTS/$name.xml" "$@" || status=1
}

scripts/install_dependencies.sh

configure_tree build -DTBPROF_BUILD_TESTS=ON -DTBPROF_BUILD_LAUNCHER=ON
build_tree build
rm -rf "$REPORTS"
mkdir -p "$REPORTS"

run_tests default build -j $((CTEST_PARALLEL_LEVEL + 1)) -LE "$EXTRA|$NEVER" --no-tests=error "${repeat[@]}"

if ! $fast; then
  venv_status=0
  scripts/venv.sh || venv_status=$?
  if ((venv_status == 3)); then
    say "PyPI cannot be reached: the tests that need it will be skipped"
  elif ((venv_status)); then
    say "scripts/venv.sh failed with status $venv_status"
    status=1
  fi
  run_tests extra build -L "$EXTRA" -LE "$NEVER" --no-tests=ignore
fi

if $sanitize; then
  for kind in address undefined thread; do
    case $kind in
      address) dir=build-asan ;;
      undefined) dir=build-ubsan ;;
      thread) dir=build-tsan ;;
    esac
    configure_tree "$dir" -DTBPROF_BUILD_TESTS=ON -DTBPROF_BUILD_LAUNCHER=ON -DTBPROF_SANITIZE="$kind"
    build_tree "$dir"
    run_tests "$kind" "$dir" -L '^unit$' -LE "$NEVER" --no-tests=error
  done
fi

arguments=()
if $no_skips; then arguments+=(--no-skips); fi
"$DEBIAN_PYTHON" scripts/count_tests.py "${arguments[@]}" "$REPORTS"/*.xml || status=1
exit $status
