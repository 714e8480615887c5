#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks by their #include lines that the folders depend on each other in one direction only.
#
#   scripts/check_layers.sh [ROOT]
#
#   wire      may include wire, libc's headers, the freestanding part of the C++ library
#   preload   wire, preload, the same headers
#   cupti     wire, cupti, the same headers, CUDA's and CUPTI's
#   writer    wire, writer, the C++ library, protobuf, abseil, libunwind, elfutils, zlib, nlohmann-json
#   launcher  everything but preload
#
# Within writer/ and launcher/ a folder may include itself and those before it:
#
#   writer    base symbols spool timeline steps verdict convert outputs logdir
#   launcher  base cli target sampling session service convert check report gate capture run attach doctor
#
# Nobody but itself and the tests includes anything from preload/ or launcher/.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

root=${1:-$TBPROF_ROOT}
cd "$root"

folders=()
for folder in wire preload cupti writer launcher; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
((${#folders[@]})) || fail "no source folder under $root"

mapfile -t files < <(find "${folders[@]}" -type f \
  \( -name '*.h' -o -name '*.cc' -o -name '*.c' -o -name '*.def' -o -name '*.inc' -o -name '*.S' \) | sort)
((${#files[@]})) || fail "no source file under ${folders[*]}"

awk '
  BEGIN {
    # Headers of glibc and of the compiler that need no library at run time.
    libc = "^((sys|linux|asm|bits|gnu|netinet|arpa|net)/[a-z0-9_/.-]+\\.h" \
      "|(assert|aio|byteswap|complex|ctype|cpuid|dirent|dlfcn|elf|endian|err|errno|execinfo|fcntl|features" \
      "|fenv|float|getopt|grp|inttypes|iso646|libgen|limits|link|locale|malloc|math|memory|mqueue|netdb|paths" \
      "|poll|pthread|pty|pwd|regex|resolv|sched|search|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic" \
      "|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|strings|syscall|sysexits|syslog|termios|threads" \
      "|time|ucontext|uchar|unistd|unwind|utime|wait|wchar|wctype" \
      "|immintrin|x86intrin|x86gprintrin|emmintrin|nmmintrin|arm_acle|arm_neon)\\.h)$"
    # Parts of the C++ library that are templates and types alone: no libstdc++ symbol follows.
    freestanding = "^(algorithm|array|atomic|bit|cerrno|cfloat|cinttypes|climits|compare|concepts|coroutine|cstdalign" \
      "|cstdarg|cstdbool|cstddef|cstdint|cstdio|cstdlib|cstring|csignal|ctime|cwchar|initializer_list|iterator" \
      "|limits|new|numeric|ratio|source_location|span|tuple|type_traits|utility|version)$"
    cxx = "^[a-z_0-9]+$"
    cuda = "^(cuda|cupti|nv|generated_)[A-Za-z0-9_./-]*\\.h$"
    writer = "^((google/protobuf|absl|elfutils|nlohmann)/.+|libunwind[a-z0-9_-]*\\.h|(libelf|gelf|dwarf|zlib|cxxabi)\\.h)$"

    own["wire"] = "^wire/"
    own["preload"] = "^(wire|preload)/"
    own["cupti"] = "^(wire|cupti)/"
    own["writer"] = "^(wire|writer)/"
    own["launcher"] = "^(wire|cupti|writer|launcher)/"
    order["writer"] = "base symbols spool timeline steps verdict convert outputs logdir"
    order["launcher"] = "base cli target sampling session service convert check report gate capture run attach doctor"
    for (top in order) {
      count = split(order[top], names, " ")
      for (i = 1; i <= count; ++i) place[top "/" names[i]] = i
    }
    rule["wire"] = "only wire/, libc and freestanding C++ headers: it is compiled into every target"
    rule["preload"] = "only wire/, preload/, libc and freestanding C++ headers: its library may need libc alone"
    rule["cupti"] = "only wire/, cupti/, libc, freestanding C++, CUDA and CUPTI headers"
    rule["writer"] = "only wire/, writer/, C++, protobuf, abseil, libunwind, elfutils and zlib headers"
    rule["launcher"] = "anything but preload/: what both sides agree on belongs into wire/"
  }

  FNR == 1 {
    layer = FILENAME
    sub(/\/.*/, "", layer)
    folder = folder_of(FILENAME)
    if (folder != "" && !(folder in place) && folder !~ /\/(proto|glibc)$/) {
      print FILENAME ": the folder " folder " is not in the order of " layer
      broken++
    }
  }

  !/^[ \t]*#[ \t]*include[ \t_]/ && !/^[ \t]*#[ \t]*include["<]/ { next }

  {
    what = $0
    sub(/^[ \t]*#[ \t]*include(_next)?[ \t]*/, "", what)
    if (what !~ /^(<[^>]+>|"[^"]+")/) {
      complain(what " (a macro; name the header)")
      next
    }
    quoted = what ~ /^"/
    what = substr(what, 2)
    sub(/[">].*/, "", what)

    # A project header, however it is quoted.
    if (what ~ /^(wire|preload|cupti|writer|launcher|tests)\//) {
      if (what !~ own[layer]) complain(what)
      other = folder_of(what)
      if ((folder in place) && (other in place) && layer == substr(other, 1, length(layer)) && place[other] > place[folder]) {
        printf "%s:%d: includes %s; %s comes after %s\n", FILENAME, FNR, what, other, folder
        broken++
      }
      next
    }
    if (what ~ /(^|\/)\.\.\//) { complain(what " (write the path from the root of the repository)"); next }
    if (quoted && beside(what)) next
    if (allowed(what)) next
    complain(what)
  }

  # writer/base of writer/base/text.h; empty: no folder below the first.
  function folder_of(path,   parts) { return split(path, parts, "/") > 2 ? parts[1] "/" parts[2] : "" }

  function beside(what,   path, line, there) {
    path = FILENAME
    sub(/[^\/]*$/, what, path)
    there = (getline line < path) >= 0
    close(path)
    return there
  }

  function allowed(what) {
    if (layer == "launcher") return 1
    if (what ~ libc) return 1
    if (layer == "writer") return what ~ cxx || what ~ writer || what ~ /\.pb\.h$/
    if (layer == "cupti" && what ~ cuda) return 1
    return what ~ freestanding
  }

  function complain(what) {
    printf "%s:%d: includes %s; %s may include %s\n", FILENAME, FNR, what, layer, rule[layer]
    broken++
  }

  END {
    if (broken) {
      print "check_layers.sh: " broken " forbidden includes (the layers: docs/architecture.md)"
      exit 1
    }
  }
' "${files[@]}"
echo "check_layers.sh: ${#files[@]} files in ${folders[*]}: in order"
