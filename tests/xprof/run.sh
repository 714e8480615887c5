#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one pytest file in the project's virtual environment; 77 (skipped) with the reason where there is none.
set -u
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if ! "$root/scripts/venv.sh" --check >/dev/null 2>&1; then
  echo "SKIP: no virtual environment with xprof and TensorBoard (scripts/venv.sh makes it; needs PyPI)"
  exit 77
fi
exec "$root/.venv/bin/python" -m pytest -q -rs -p no:cacheprovider "$@"
