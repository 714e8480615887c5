#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds a wheel that pip installs on any Linux with glibc 2.28 or newer.
#
#   scripts/build_wheel.sh [BUILD_DIR [DIST_DIR]]
#
# Prints its path. Debian's Python packs it; ziglang is needed to link (scripts/link_portable.sh).

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# <= 2)) || usage_error "expected at most two directories"
build=${1:-$TBPROF_ROOT/build}
dist=${2:-$TBPROF_ROOT/dist}
MAX_BYTES=$((10 * 1000 * 1000))

configure_tree "$build"
build_tree "$build" tbprof_product
build=$(realpath "$build")
tree=$build/portable/tree
"$TBPROF_ROOT/scripts/link_portable.sh" "$build" "$tree"
"$TBPROF_ROOT/scripts/check_glibc.sh" "$tree" >&2
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
mkdir -p "$dist"
wheel=$("$DEBIAN_PYTHON" "$TBPROF_ROOT/scripts/pack_wheel.py" "$tree" "$version" "$dist")
size=$(stat -c %s "$wheel")
((size <= MAX_BYTES)) || fail "$wheel has $size bytes, more than $MAX_BYTES"
printf '%s\n' "$wheel"
