#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what scripts/build_packages.sh built in small roots of Debian's releases and records there.
#
#   scripts/smoke_test.sh [--dist DIR] [--simulator DIR] [--absent-passes] [SUITE...]
#
#   --dist DIR        where wheel, tarball and .deb lie (dist)
#   --simulator DIR   build/tests/sim: record its GPU, too, where glibc is 2.36 or newer
#   --absent-passes   exit 0 where the mirror does not have a suite
#
# Without a suite: bullseye bookworm trixie sid, i.e. glibc 2.31, 2.36, 2.41 and the newest; `here` is this machine's own
# system, which needs no network. scripts/debian_root.sh makes the roots and has the exit statuses. In each, as a user that
# is not root: the wheel by pip in a virtual environment, without a network; the tarball, unpacked and moved; and, as root,
# the .deb. What they record is checked by tests/smoke/record.py.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

USER_ID=1234

# As the command of scripts/debian_root.sh.
install_and_record() { # ARTEFACTS SIMULATOR
  local tree=$TBPROF_DEBIAN_ROOT
  mkdir -m 1777 "$tree/smoke"
  cp "$1"/*.whl "$1"/*.tar.gz "$1"/*.deb "$TBPROF_ROOT/tests/smoke/record.py" "$TBPROF_ROOT/tests/smoke/install.sh" "$tree/smoke/"
  if [[ -n $2 ]]; then
    mkdir "$tree/smoke/sim"
    cp -r "$2/cuda13" "$2/subjects" "$tree/smoke/sim/"
  fi
  chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'dpkg -i /smoke/tbprof_*.deb >/dev/null'
  chroot --userspec=$USER_ID:$USER_ID "$tree" env -i HOME=/smoke PATH=/usr/bin:/bin sh /smoke/install.sh
}

if [[ -n ${TBPROF_DEBIAN_ROOT:-} ]]; then
  install_and_record "$@"
  exit
fi

dist=$TBPROF_ROOT/dist
simulator=
absent=78
suites=()
while (($#)); do
  case $1 in
    --dist)
      [[ -d ${2:-} ]] || usage_error "--dist needs a directory"
      dist=$2
      shift
      ;;
    --simulator)
      [[ -x ${2:-}/subjects/train ]] || usage_error "--simulator needs a built tests/sim"
      simulator=$(realpath "$2")
      shift
      ;;
    --absent-passes) absent=0 ;;
    -h | --help) usage && exit ;;
    -*) usage_error "unknown argument '$1'" ;;
    *) suites+=("$1") ;;
  esac
  shift
done
((${#suites[@]})) || suites=(bullseye bookworm trixie sid)
wheels=("$dist"/*.whl)
[[ -e ${wheels[0]} && ${#wheels[@]} == 1 ]] || fail "not one wheel in $dist: scripts/build_packages.sh"

status=0
for suite in "${suites[@]}"; do
  began=$SECONDS
  result=0
  # Whoever kills this process ends the root as well.
  setpriv --pdeathsig KILL "$TBPROF_ROOT/scripts/debian_root.sh" "$suite" "$(realpath "$0")" "$(realpath "$dist")" "$simulator" ||
    result=$?
  case $result in
    0) say "$suite passed in $((SECONDS - began)) s" ;;
    77) ((status)) || status=77 ;;
    78) ((status)) || status=$absent ;;
    *)
      say "$suite FAILED"
      status=1
      ;;
  esac
done
exit $status
