#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# In a root of scripts/smoke_test.sh, as a user: installs the artefacts in /smoke and records with each.

set -eu
cd /smoke
record() { # NAME TBPROF
  echo "$1:"
  mkdir "/smoke/$1"
  if [ -d /smoke/sim ]; then
    python3 /smoke/record.py "$2" "/smoke/$1" /smoke/sim
  else
    python3 /smoke/record.py "$2" "/smoke/$1"
  fi
}

began=$(date +%s.%N)
python3 -m venv /smoke/venv
/smoke/venv/bin/pip install --quiet --no-index --disable-pip-version-check /smoke/*.whl
/smoke/venv/bin/tbprof run --quiet --logdir=/smoke/first -- python3 -c pass
ls /smoke/first/plugins/profile/*/*.xplane.pb >/dev/null
echo "venv, pip install, first profile: $(echo "$began $(date +%s.%N)" | awk '{ printf "%.1f", $2 - $1 }') s"
record wheel /smoke/venv/bin/tbprof

tar -xzf /smoke/tbprof-*-linux-x86_64.tar.gz
mv /smoke/tbprof-*-linux-x86_64 /smoke/moved
record tarball /smoke/moved/bin/tbprof

record deb /usr/bin/tbprof

# pip takes away all that it put there.
/smoke/venv/bin/pip uninstall --quiet --yes --disable-pip-version-check tbprof
left=$(find /smoke/venv -path '*tbprof*')
[ -z "$left" ] || { echo "left by pip uninstall: $left"; exit 1; }
