#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Jobs under `tbprof run --port`, captured by the clients that are too large for CI: TensorFlow's own, with the calls of
# its documentation as they stand there, and JAX's.
#
#   tests/outside/clients.sh [--build DIR] [--venv DIR] [PYTEST_ARGUMENT...]
#
#   --build DIR  a build (build)
#   --venv DIR   where TensorFlow and JAX are, or are installed (/tmp/tbprof-clients): 2 GB, from PyPI; it stays
#
# Exit status 1 if a test fails, 77 if the clients cannot be had.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

build=$TBPROF_ROOT/build
venv=/tmp/tbprof-clients
arguments=()
while (($#)); do
  case $1 in
    --build | --venv)
      (($# > 1)) || usage_error "$1 needs a directory"
      declare "${1#--}=$(realpath -m "$2")"
      shift
      ;;
    -h | --help) usage && exit ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[[ -x $build/bin/tbprof ]] || fail "no $build/bin/tbprof: build it first"

skip() {
  say "SKIP: $*"
  exit 77
}

"$TBPROF_ROOT/scripts/venv.sh" || skip "no virtual environment of the tests"
python=$venv/bin/python
if ! "$python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("tensorflow", "jax", "xprof"))))' 2>/dev/null; then
  free=$(df --output=avail -k "$(dirname "$venv")" | tail -1)
  ((free > 4 << 20)) || skip "less than 4 GB free beside $venv"
  [[ -x $python ]] || "$DEBIAN_PYTHON" -m venv "$venv" || skip "no virtual environment can be made"
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir \
    tensorflow-cpu==2.21.0 jax==0.10.2 xprof==2.24.2 tensorboard==2.21.0 || skip "pip could not install the clients"
fi

CLIENTS_PYTHON=$python XPROF_TEST_BUILD_DIR=$(realpath "$build") \
  "$TBPROF_ROOT/.venv/bin/python" -m pytest -q -rs -p no:cacheprovider "$TBPROF_ROOT/tests/outside/test_clients.py" "${arguments[@]}"
