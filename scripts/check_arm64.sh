#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compiles what runs in a target, and what reads it, for arm64. Nothing is linked or run: no such machine is at hand.
# 77 (skipped) where the cross compiler is missing.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

compiler=${TBPROF_ARM64_CXX:-aarch64-linux-gnu-g++}
if ! command -v "$compiler" >/dev/null; then
  echo "SKIP: no $compiler (Debian: g++-aarch64-linux-gnu)"
  exit 77
fi
cd "$TBPROF_ROOT"
object=$(mktemp)
trap 'rm -f "$object"' EXIT
broken=0
for source in preload/*.cc; do
  "$compiler" -std=c++20 -O1 -fno-exceptions -fno-rtti -ffreestanding -fno-builtin -fvisibility=hidden -Wall -Wextra \
    -Wno-missing-field-initializers -Wno-unused-parameter -I. -c "$source" -o "$object" || broken=1
done
for source in writer/base/crc32c.cc writer/spool/{spool,spool_facts,clock_map}.cc writer/symbols/elf_file.cc launcher/session/{drain,session}.cc; do
  "$compiler" -std=c++20 -fsyntax-only -idirafter /usr/include -I. "$source" || broken=1
done
((!broken)) || fail "the sources above do not compile for arm64"
