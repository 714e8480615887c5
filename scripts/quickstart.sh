#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what tbprof needs, builds it into build/, and profiles examples/train_digits.py.
#
#   scripts/quickstart.sh [--yes | --no]
#
# Needs Debian 12's packages alone. Where no TensorBoard with xprof is found, it offers to put both
# into .venv, which needs PyPI; --yes accepts the offer, --no declines it without asking.
# Safe to repeat; nothing that is already there is done again.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

answer=ask
for argument in "$@"; do
  case $argument in
    -y | --yes) answer=yes ;;
    --no) answer=no ;;
    -h | --help) usage && exit ;;
    *) usage_error "unknown argument '$argument'" ;;
  esac
done

cd "$TBPROF_ROOT"
LOGDIR=${TBPROF_LOGDIR:-tbprof-logs}

has_viewer() { # PYTHON
  "$1" -c 'import importlib.util as u, sys
sys.exit(not all(u.find_spec(m) for m in ("tensorboard", "xprof")))' >/dev/null 2>&1
}

# Prints the command that starts a TensorBoard with xprof, fails when none is installed.
viewer_command() {
  local python
  if has_viewer .venv/bin/python; then
    printf '.venv/bin/tensorboard --logdir %q\n' "$LOGDIR"
    return
  fi
  for python in python3 "$DEBIAN_PYTHON"; do
    if has_viewer "$python"; then
      printf '%s -m tensorboard.main --logdir %q\n' "$python" "$LOGDIR"
      return
    fi
  done
  return 1
}

# The viewer's part of the tests' requirements: not torch, which is a hundred times as large.
viewer_requirements() { grep -E '^(xprof|tensorboard|protobuf|grpcio|numpy)==' scripts/requirements-test.txt; }

install_viewer() {
  local log=.venv/pip-viewer.log
  scripts/install_dependencies.sh venv || return
  say "installing TensorBoard and xprof into .venv"
  [[ -x .venv/bin/python ]] || "$DEBIAN_PYTHON" -m venv .venv || return
  if ! viewer_requirements | .venv/bin/python -m pip install --disable-pip-version-check \
    --no-input --retries 1 --timeout 10 --progress-bar off -r /dev/stdin >"$log" 2>&1; then
    say "not installed: $(grep -m1 '^ERROR' "$log" || tail -n 1 "$log"); see $log"
    return 1
  fi
}

# Whether the offer makes sense. Without a pip to ask with, the installation itself will tell.
pypi_may_be_reached() {
  local python
  for python in .venv/bin/python "$DEBIAN_PYTHON" python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      "$python" -m pip --disable-pip-version-check --retries 0 --timeout 5 index versions xprof >/dev/null 2>&1
      return
    fi
  done
}

offer_viewer() {
  local reply=n
  case $answer in
    yes) install_viewer && return ;;
    no) ;;
    ask)
      if ! pypi_may_be_reached; then
        say "TensorBoard with xprof is not installed, and PyPI cannot be reached"
        return 1
      fi
      if [[ -t 0 && -t 2 ]]; then
        read -r -p "TensorBoard with xprof is not installed. Install both into .venv (from PyPI)? [y/N] " reply || true
        if [[ $reply == [yY]* ]]; then
          install_viewer && return
        fi
      fi
      ;;
  esac
  say "to install TensorBoard with xprof into .venv: scripts/quickstart.sh --yes"
  return 1
}

scripts/install_dependencies.sh build example

configure_tree build
build_tree build tbprof_product

build/bin/tbprof run -- "$DEBIAN_PYTHON" examples/train_digits.py

if viewer=$(viewer_command) || { offer_viewer && viewer=$(viewer_command); }; then
  say "to view it: $viewer"
fi
