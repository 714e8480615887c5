#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what scripts/build_packages.sh built in small roots of Debian's releases and records there.
#
#   scripts/smoke_test.sh [--dist DIR] [--simulator DIR] [--roots-only] [SUITE...]
#
#   --dist DIR        where wheel, tarball and .deb lie (dist)
#   --simulator DIR   build/tests/sim: record its GPU, too, where glibc is 2.36 or newer
#   --roots-only      make the roots, test nothing
#
# Without a suite: bullseye bookworm trixie sid, i.e. glibc 2.31, 2.36, 2.41 and the newest; `here` is this machine's own
# system, which needs no network. In each, as a user that is
# not root: the wheel by pip in a virtual environment, without a network; the tarball, unpacked and moved; and, as
# root, the .deb. What they record is checked by tests/smoke/record.py. A root is made once, by debootstrap from
# the mirror that apt uses here, in ${TBPROF_ROOTS:-/var/tmp/tbprof-roots}. Needs root. What is mounted and
# unpacked goes away with the test's own mount namespace.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

ROOTS=${TBPROF_ROOTS:-/var/tmp/tbprof-roots}
USER_ID=1234
dist=$TBPROF_ROOT/dist
simulator=
roots_only=false
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
    --roots-only) roots_only=true ;;
    -h | --help) usage && exit ;;
    -*) usage_error "unknown argument '$1'" ;;
    *) suites+=("$1") ;;
  esac
  shift
done
((${#suites[@]})) || suites=(bullseye bookworm trixie sid)
((EUID == 0)) || fail "chroot needs root"

# Where apt here gets Debian itself from, not its security updates.
mirror() {
  # shellcheck disable=SC2016  # apt's fields
  apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' |
    awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

root_of() { [[ $1 == here ]] && echo / || echo "$ROOTS/$1"; } # SUITE

make_root() { # SUITE
  local root=$ROOTS/$1 place
  [[ $1 != here ]] || return 0
  [[ -e $root/etc/debian_version ]] && return
  command -v debootstrap >/dev/null || fail "no debootstrap: scripts/install_dependencies.sh package"
  place=$(mirror)
  [[ -n $place ]] || fail "apt has no mirror of Debian configured"
  mkdir -p "$ROOTS"
  rm -rf "$root.part"
  say "making $root"
  debootstrap --variant=minbase --include=python3,python3-venv "$1" "$root.part" "$place" >"$root.log" 2>&1 ||
    fail "debootstrap failed, see $root.log: $(tail -n 1 "$root.log")"
  rm -rf "$root.part/var/cache/apt/archives" "$root.part/var/lib/apt/lists"
  mv "$root.part" "$root"
}

# Runs on the other side of unshare, as its first process: the root stays as it was, an overlay takes what is written.
in_root() { # ROOT, EMPTY DIRECTORY, ARTEFACTS, SIMULATOR
  local root=$1 upper=$2/upper tree=$2/root
  mount --make-rprivate /
  mount -t tmpfs tbprof-smoke "$2"
  mkdir -p "$upper" "$2/work" "$tree"
  mount -t overlay -o "lowerdir=$root,upperdir=$upper,workdir=$2/work" tbprof-smoke "$tree"
  mount -t proc proc "$tree/proc"
  mount --rbind /dev "$tree/dev"
  mount -t tmpfs tbprof-smoke "$tree/dev/shm"
  # What every installed machine and container has, and debootstrap leaves to its caller.
  printf '127.0.0.1 localhost\n' >"$tree/etc/hosts"
  mkdir -m 1777 "$tree/smoke"
  # Of this machine's own system: what its users have there is none of a clean installation.
  mount -t tmpfs tbprof-smoke "$tree/tmp"
  chmod 1777 "$tree/tmp"
  cp "$3"/*.whl "$3"/*.tar.gz "$3"/*.deb "$TBPROF_ROOT/tests/smoke/record.py" "$TBPROF_ROOT/tests/smoke/install.sh" "$tree/smoke/"
  if [[ -n ${4:-} ]]; then
    mkdir "$tree/smoke/sim"
    cp -r "$4/cuda13" "$4/subjects" "$tree/smoke/sim/"
  fi
  chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c 'dpkg -i /smoke/tbprof_*.deb >/dev/null'
  chroot --userspec=$USER_ID:$USER_ID "$tree" env -i HOME=/smoke PATH=/usr/bin:/bin sh /smoke/install.sh
}

if [[ ${TBPROF_SMOKE_INSIDE:-} == yes ]]; then
  in_root "${suites[@]}"
  exit
fi

for suite in "${suites[@]}"; do make_root "$suite"; done
$roots_only && exit
wheels=("$dist"/*.whl)
[[ -e ${wheels[0]} && ${#wheels[@]} == 1 ]] || fail "not one wheel in $dist: scripts/build_packages.sh"
place=$(mktemp -d)
trap 'rmdir "$place"' EXIT
status=0
for suite in "${suites[@]}"; do
  began=$SECONDS
  if TBPROF_SMOKE_INSIDE=yes unshare --mount --pid --fork --kill-child "$0" "$(root_of "$suite")" "$place" "$dist" "$simulator"; then
    say "$suite passed in $((SECONDS - began)) s"
  else
    say "$suite FAILED"
    status=1
  fi
done
exit $status
