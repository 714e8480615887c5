#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Links the objects of a build once more, for older versions of glibc, into a tree that can be packed.
#
#   scripts/link_portable.sh BUILD_DIR DIRECTORY
#
#   bin/tbprof                    glibc 2.28
#   lib/tbprof/                   the libraries as built
#   lib/tbprof/glibc-2.17/        the libraries where glibc is older than 2.34
#   share/doc/tbprof/             licences
#
# The compiler and the linker are the build's. Only glibc's symbol versions and start-up code are those of the older
# glibc, out of PyPI's ziglang, which goes into a virtual environment at BUILD_DIR/ziglang (TBPROF_ZIG_PYTHON names a
# Python that has it). docs/decisions/039-packages-for-old-glibc.md

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# == 2)) || usage_error "expected a build directory and a directory to make"
build=$(realpath "$1")
mkdir -p "$2"
tree=$(realpath "$2")
work=$build/portable
[[ $(uname -m) == x86_64 ]] || fail "only x86-64 is packed"
[[ -x $build/bin/tbprof ]] || fail "no bin/tbprof under $1: build the target tbprof_product first"

ZIGLANG=ziglang==0.17.1
ZIGLANG_SHA256=ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54
LAUNCHER_GLIBC=2.28
LIBRARY_GLIBC=2.17

zig_python() {
  local python=${TBPROF_ZIG_PYTHON:-$build/ziglang/bin/python}
  if ! "$python" -m ziglang version >/dev/null 2>&1; then
    [[ -z ${TBPROF_ZIG_PYTHON:-} ]] || fail "$TBPROF_ZIG_PYTHON has no ziglang"
    say "installing $ZIGLANG into ${build#"$TBPROF_ROOT"/}/ziglang"
    "$DEBIAN_PYTHON" -m venv "$build/ziglang"
    echo "$ZIGLANG --hash=sha256:$ZIGLANG_SHA256" |
      "$python" -m pip install --disable-pip-version-check --no-input --progress-bar off -r /dev/stdin >&2
  fi
  printf '%s\n' "$python"
}

# Libraries that hold glibc's symbols of a version and no code, and the start-up code that goes with them. They are
# what `zig cc -v` reports as its linker's inputs.
make_stubs() { # VERSION
  local directory=$work/glibc-$1 python log name
  [[ -e $directory/libc.so ]] && return
  python=$(zig_python)
  rm -rf "$directory"
  mkdir -p "$directory"
  printf 'int main(void) { return 0; }\n' >"$directory/empty.c"
  log=$(cd "$directory" && ZIG_GLOBAL_CACHE_DIR=$work/zig ZIG_LOCAL_CACHE_DIR=$work/zig \
    "$python" -m ziglang cc -target "x86_64-linux-gnu.$1" -v -o empty empty.c 2>&1) || fail "zig cc: $log"
  (
    cd "$directory" || exit 1
    grep ' -o empty ' <<<"$log" | grep -oE '[^ ]+/(lib[a-z]+\.so\.[0-9]|libc_nonshared\.a|crt1\.o)' | xargs cp -t .
    for name in m pthread dl rt resolv util; do ln -s lib$name.so.? lib$name.so; done
    [[ -s crt1.o && -s libc_nonshared.a && -s libc.so.6 ]] || fail "no start-up code in what zig cc -v reports"
    # Last: whoever finds it finds all.
    echo "GROUP ( $directory/libc.so.6 $directory/libc_nonshared.a AS_NEEDED ( $directory/libld.so.2" \
      "$directory/libpthread.so.0 $directory/libdl.so.2 $directory/librt.so.1 ) )" >libc.so
  ) || fail "zig cc -v: $log"
}

# The build's own command that links a file.
link_command() { # FILE
  ninja -C "$build" -t commands "$1" | tail -n 1 | sed 's/^: && //; s/ && .*//'
}

# Debian's archives are found after the stubs; -lstdc++ and -lm of CMake's C++ rules are not needed.
link_library() { # NAME
  local command
  command=$(link_command "lib/tbprof/$1")
  command=${command/" -o lib/tbprof/$1 "/" -o $tree/lib/tbprof/glibc-$LIBRARY_GLIBC/$1 -L$work/glibc-$LIBRARY_GLIBC "}
  command=${command/" -lstdc++  -lm"/}
  (cd "$build" && eval "$command")
}

link_launcher() {
  local command stubs=$work/glibc-$LAUNCHER_GLIBC start end
  command=$(link_command bin/tbprof)
  g++ -std=c++20 -O2 -I"$TBPROF_ROOT" -c "$TBPROF_ROOT/launcher/glibc/newer_symbols.cc" -o "$work/newer_symbols.o"
  # Before 2.34 the start-up code itself runs the constructors, and does so only in its own version.
  start="-nostartfiles $stubs/crt1.o $(g++ -print-file-name=crti.o) $(g++ -print-file-name=crtbegin.o)"
  end="-lpthread -lrt -lm $(g++ -print-file-name=crtend.o) $(g++ -print-file-name=crtn.o)"
  command=${command/" -o bin/tbprof "/" -o $tree/bin/tbprof $start $work/newer_symbols.o -L$stubs "}
  # The gigabyte of debug information stays in the build.
  (cd "$build" && eval "$command -Wl,--strip-all $end")
}

# Of every Debian package that a file of the link comes from, as Apache-2.0, BSD and their kin ask.
copy_licences() {
  local documents=$tree/share/doc/tbprof file package
  mkdir -p "$documents/licences"
  cp "$TBPROF_ROOT/LICENSE" "$documents/LICENSE"
  {
    link_command bin/tbprof | tr ' ' '\n' | grep -E '^/.*\.a$'
    g++ -print-file-name=libstdc++.a
    printf '%s\n' /usr/include/nlohmann/json.hpp /usr/include/CLI/CLI.hpp /usr/include/boost/math/distributions/students_t.hpp
  } | while read -r file; do
    realpath "$file"
  done | sort -u | while read -r file; do
    package=$(dpkg-query -S "$file" 2>/dev/null | head -n 1 | cut -d: -f1)
    [[ -n $package ]] || fail "no Debian package has $file"
    cp "/usr/share/doc/$package/copyright" "$documents/licences/$package"
  done
  # The stubs' start-up code is glibc's.
  cp /usr/share/doc/libc6-dev/copyright "$documents/licences/libc6-dev"
}

mkdir -p "$work"
rm -rf "${tree:?}/bin" "$tree/lib/tbprof" "$tree/share/doc/tbprof"
mkdir -p "$tree/bin" "$tree/lib/tbprof/glibc-$LIBRARY_GLIBC"
make_stubs "$LIBRARY_GLIBC"
make_stubs "$LAUNCHER_GLIBC"
for name in libtbprof_preload.so libtbprof_cupti.so; do
  cp "$build/lib/tbprof/$name" "$tree/lib/tbprof/$name"
  link_library "$name"
  strip --strip-unneeded "$tree/lib/tbprof/$name" "$tree/lib/tbprof/glibc-$LIBRARY_GLIBC/$name"
done
for directory in "$tree/lib/tbprof" "$tree/lib/tbprof/glibc-$LIBRARY_GLIBC"; do
  cp -r "$build/lib/tbprof/libasan.so-accepts" "$directory/"
done
link_launcher
copy_licences
