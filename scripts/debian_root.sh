#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command beside a small root of a Debian release, which exists in memory and only as long as the command.
#
#   scripts/debian_root.sh SUITE COMMAND [ARGUMENT...]
#
#   SUITE     bullseye, bookworm, trixie, sid, ...; `here` is this machine's own system under an overlay, without a network
#   COMMAND   runs as root, outside the root, whose path is in TBPROF_DEBIAN_ROOT; chroot enters it
#
# mmdebstrap makes the root from the mirror that this machine's apt uses, with the packages in TBPROF_DEBIAN_PACKAGES (by
# default Python and its venv; commas between names, or patterns of apt), in the command's own mount and PID namespaces:
# when this process ends, also by SIGKILL, the kernel ends every process and unmounts all.
# Needs root. The exit status is the command's, or
#   77   a line `SKIP: reason`: no root rights, no namespaces, no mmdebstrap, the mirror does not answer
#   78   a line `ABSENT: reason`: the mirror answers and does not have the suite

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Exists on every system; what is mounted there is seen in the namespace alone.
PLACE=/mnt
PACKAGES=${TBPROF_DEBIAN_PACKAGES:-python3,python3-venv}
LEFT_OUT=('doc/*' 'man/*' 'info/*' 'locale/*')
# A mirror that is a snapshot has old signatures of suites in motion; they are verified none the less.
APT_CONFIGURATION='Acquire::Check-Valid-Until "false"; Acquire::Retries "2"; Acquire::http::Timeout "30"; APT::Sandbox::User "root";'

skip() {
  echo "SKIP: $*"
  exit 77
}

# Where apt here gets Debian itself from, not its security updates.
mirror() {
  # shellcheck disable=SC2016  # apt's fields
  apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' 2>/dev/null |
    awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

release_here() {
  local VERSION_CODENAME=''
  # shellcheck source=/dev/null
  . /etc/os-release
  printf '%s\n' "$VERSION_CODENAME"
}

# A release that the mirror does not have is not taken for a mirror that does not answer.
require_suite() { # MIRROR SUITE
  local log
  log=$(LC_ALL=C APT_CONFIG=$PLACE/apt.conf /usr/lib/apt/apt-helper download-file "${1%/}/dists/$2/InRelease" \
    "$PLACE/InRelease" 2>&1) && return
  log=$(grep -m1 '^E:' <<<"$log" || tail -n 1 <<<"$log")
  [[ $log == *' 404 '* ]] || skip "the mirror of this machine's apt does not answer: $log"
  # This machine came from it.
  [[ $2 != "$(release_here)" ]] || fail "the mirror does not have this machine's own release: $log"
  echo "ABSENT: the mirror of this machine's apt does not have $2"
  exit 78
}

make_root() { # SUITE ROOT
  local place log=$PLACE/log
  command -v mmdebstrap >/dev/null || skip "no mmdebstrap: scripts/install_dependencies.sh package"
  place=$(mirror)
  [[ -n $place ]] || skip "apt has no mirror of Debian configured, or no lists: apt-get update"
  printf '%s\n' "$APT_CONFIGURATION" >"$PLACE/apt.conf"
  require_suite "$place" "$1"
  mkdir "$PLACE/tmp"
  TMPDIR=$PLACE/tmp mmdebstrap --mode=root --variant=minbase --include="$PACKAGES" --aptopt="$PLACE/apt.conf" \
    "${LEFT_OUT[@]/#/--dpkgopt=path-exclude=/usr/share/}" "$1" "$2" "$place" >"$log" 2>&1 ||
    fail "mmdebstrap failed: $(tail -n 5 "$log")"
}

# On the other side of unshare, as the first process of its namespace.
inside() { # SUITE COMMAND...
  local root=$PLACE/root lower=/
  mount -t tmpfs tbprof-root "$PLACE"
  if [[ $1 != here ]]; then
    lower=$PLACE/made
    make_root "$1" "$lower"
  fi
  # An overlay, as in a container: tbprof warns of spools that lie in memory.
  mkdir "$PLACE/upper" "$PLACE/work" "$root"
  mount -t overlay -o "lowerdir=$lower,upperdir=$PLACE/upper,workdir=$PLACE/work" tbprof-root "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  # What this machine's users have there is none of a clean system.
  mount -t tmpfs tbprof-root "$root/dev/shm"
  mount -t tmpfs tbprof-root "$root/tmp"
  chmod 1777 "$root/dev/shm" "$root/tmp"
  # What every installed machine and container has.
  printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
  shift
  TBPROF_DEBIAN_ROOT=$root "$@"
}

if [[ ${TBPROF_DEBIAN_ROOT:-} == inside ]]; then
  inside "$@"
  exit
fi

[[ ${1:-} != -h && ${1:-} != --help ]] || { usage && exit; }
(($# >= 2)) || usage_error "expected a suite and a command"
((EUID == 0)) || skip "chroot and mount need root"
namespaces=(unshare --mount --pid --fork --kill-child --mount-proc)
"${namespaces[@]}" true 2>/dev/null || skip "mount and PID namespaces are not permitted here"
TBPROF_DEBIAN_ROOT=inside exec "${namespaces[@]}" "$(realpath "$0")" "$@"
