#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A compiler launcher: compiles with clang++ what CMake would compile with its own compiler.
#   clang_instead.sh CLANG COMPILER ARGUMENT...
clang=$1
shift 2
# A precompiled header includes the header itself, for which Clang would take what was precompiled before.
previous=
for argument; do
  case $previous$argument in -o*.gch) rm -f "$argument" ;; esac
  previous=$argument
done
exec "$clang" "$@"
