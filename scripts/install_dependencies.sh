#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what tbprof needs from Debian 12's packages. This is the only list of them.
#
#   scripts/install_dependencies.sh [--check | --list] [GROUP...]
#
#   build     compile tbprof and its unit tests
#   example   run examples/train_digits.py
#   venv      make the project's virtual environment (scripts/venv.sh)
#   test      run every test, the format and lint scripts
#   package   build the packages, and try them in roots of Debian's releases (scripts/smoke_test.sh)
#   outside   run other projects' suites (tests/outside/run.sh)
#
# Without a group: all of them. --check installs nothing; --list prints the packages of the groups.
# Does nothing, quickly, when nothing is missing. As another user than root, or on another
# distribution, it lists exactly what is missing and exits 1.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# group, package, and how to see on another distribution that the thing is there:
# cmd:PROGRAM, header:FILE, lib:SONAME, or py:MODULE of /usr/bin/python3.
PACKAGES='
build    g++                        cmd:g++
build    cmake                      cmd:cmake
build    ninja-build                cmd:ninja
build    pkg-config                 cmd:pkg-config
build    libprotobuf-dev            header:google/protobuf/message.h
build    protobuf-compiler          cmd:protoc
build    libgrpc++-dev              header:grpcpp/grpcpp.h
build    protobuf-compiler-grpc     cmd:grpc_cpp_plugin
build    libssl-dev                 header:openssl/ssl.h
build    libabsl-dev                header:absl/status/statusor.h
build    libunwind-dev              header:libunwind.h
build    libdw-dev                  header:elfutils/libdwfl.h
build    libelf-dev                 header:libelf.h
build    libcli11-dev               header:CLI/CLI.hpp
build    libgtest-dev               header:gtest/gtest.h
build    libgmock-dev               header:gmock/gmock.h
build    libbenchmark-dev           header:benchmark/benchmark.h
build    nlohmann-json3-dev         header:nlohmann/json.hpp
build    libboost-dev               header:boost/math/distributions/non_central_t.hpp
build    zlib1g-dev                 header:zlib.h
build    liblzma-dev                header:lzma.h
build    libbz2-dev                 header:bzlib.h
example  python3-torch              py:torch
example  python3-sklearn            py:sklearn
venv     python3-venv               py:ensurepip
test     python3-venv               py:ensurepip
test     libpython3-dev             header:python3.11/Python.h
test     git                        cmd:git
test     clang                      cmd:clang
test     clang-tidy                 cmd:clang-tidy
test     clang-format               cmd:clang-format
test     libclang-rt-14-dev         cmd:clang
test     g++-aarch64-linux-gnu      cmd:aarch64-linux-gnu-g++
test     shellcheck                 cmd:shellcheck
test     chromium                   cmd:chromium
test     procps                     cmd:pgrep
test     iproute2                   cmd:ip
test     bindfs                     cmd:bindfs
test     libjemalloc2               lib:libjemalloc.so.2
test     libtcmalloc-minimal4       lib:libtcmalloc_minimal.so.4
test     libmimalloc2.0             lib:libmimalloc.so.2
package  python3-venv               py:ensurepip
package  mmdebstrap                 cmd:mmdebstrap
outside  libpython3.11-testsuite    py:test.test_threading
outside  stress-ng                  cmd:stress-ng
outside  python3-pytest             py:pytest
outside  python3-hypothesis         py:hypothesis
outside  python3-numpy              py:numpy.core.tests
outside  python3-torch              py:torch
'

LOCK_WAIT_SECONDS=900

# Prints "package probe" for the wanted groups, each package once.
wanted_rows() {
  awk -v groups=" $* " -v machine="$(uname -m)" '
    NF == 3 && index(groups, " " $1 " ") && !seen[$2]++ {
      # On arm64 this is the native compiler.
      if ($2 == "g++-aarch64-linux-gnu" && machine == "aarch64") next
      print $2, $3
    }' <<<"$PACKAGES"
}

is_debian_12() {
  local ID='' VERSION_ID=''
  [[ -r /etc/os-release ]] || return 1
  # shellcheck source=/dev/null
  . /etc/os-release
  [[ $ID == debian && $VERSION_ID == 12 ]]
}

# Reads rows, prints the packages that dpkg does not have installed.
missing_by_dpkg() {
  local rows installed
  rows=$(cat)
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null | awk '$2 == "installed" { print $1 }')
  awk 'NR == FNR { have[$1]; next } !($1 in have) { print $1 }' <(printf '%s\n' "$installed") <(printf '%s\n' "$rows")
}

probe() {
  local what=${1#*:}
  case $1 in
    cmd:*) command -v "$what" >/dev/null ;;
    header:*) printf '#include <%s>\n' "$what" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    py:*) "$DEBIAN_PYTHON" -c 'import importlib.util as u, sys; sys.exit(u.find_spec(sys.argv[1]) is None)' "$what" 2>/dev/null ;;
    lib:*) grep -qF "$what" <<<"$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null)" ;;
    *) fail "unknown probe $1" ;;
  esac
}

# Reads rows, prints what the probes do not find, with what was looked for.
missing_by_probe() {
  local package look
  while read -r package look; do
    probe "$look" </dev/null || printf '%s (%s)\n' "$package" "${look/:/ }"
  done
}

# The dpkg lock is waited for by apt-get itself; the locks of its lists and archives are not.
apt_get() {
  local log=$1 deadline=$((SECONDS + LOCK_WAIT_SECONDS))
  shift
  until LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 \
    -o "DPkg::Lock::Timeout=$LOCK_WAIT_SECONDS" "$@" >"$log" 2>&1 </dev/null; do
    grep -q 'Could not get lock\|Unable to lock' "$log" && ((SECONDS < deadline)) || return 1
    say "another package manager holds the lock; waiting"
    sleep 5
  done
}

install() {
  local log
  log=$(mktemp "${TMPDIR:-/tmp}/tbprof-apt.XXXXXX")
  say "installing $# Debian packages: $*"
  # Old lists can still do: a failed update is told only through what the install then lacks.
  apt_get "$log" update || say "apt-get update failed: $(grep -m1 '^[EW]:' "$log")"
  if ! apt_get "$log" install --no-install-recommends "$@"; then
    tail -n 20 "$log" >&2
    fail "apt-get install failed; its output is in $log"
  fi
  rm -f "$log"
}

mode=install
groups=()
for argument in "$@"; do
  case $argument in
    --check | --list) mode=${argument#--} ;;
    -h | --help) usage && exit ;;
    build | example | venv | test | package | outside) groups+=("$argument") ;;
    *) usage_error "unknown argument '$argument'" ;;
  esac
done
((${#groups[@]})) || groups=(build example venv test package outside)

rows=$(wanted_rows "${groups[@]}")
if [[ $mode == list ]]; then
  cut -d' ' -f1 <<<"$rows"
  exit
fi

if is_debian_12; then
  missing=$(missing_by_dpkg <<<"$rows")
else
  missing=$(missing_by_probe <<<"$rows")
fi
[[ -n $missing ]] || exit 0

if [[ $mode == install && $EUID == 0 ]] && is_debian_12; then
  mapfile -t packages <<<"$missing"
  install "${packages[@]}"
  exit
fi

say "missing:"
while read -r line; do printf '  %s\n' "$line" >&2; done <<<"$missing"
if is_debian_12; then
  say "as root: apt-get install --no-install-recommends $(tr '\n' ' ' <<<"$missing")"
else
  say "this is not Debian 12: install what provides these (names are Debian's), then run this again"
fi
exit 1
