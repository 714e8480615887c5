#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the wheel, a tarball that runs from wherever it is unpacked, a Debian package, and SHA256SUMS of them.
#
#   scripts/build_packages.sh [BUILD_DIR [DIST_DIR]]
#
# Prints their paths. All three hold the same files (scripts/link_portable.sh).

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# <= 2)) || usage_error "expected at most two directories"
build=${1:-$TBPROF_ROOT/build}
dist=${2:-$TBPROF_ROOT/dist}
wheel=$("$TBPROF_ROOT/scripts/build_wheel.sh" "$build" "$dist")
build=$(realpath "$build")
dist=$(realpath "$dist")
tree=$build/portable/tree
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
name=tbprof-$version-linux-x86_64
# Two builds of one commit give the same bytes.
date=$(git -C "$TBPROF_ROOT" log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH=$date

tar -C "$tree" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" --transform="s,^\./,$name/," -cf - ./bin ./lib ./share |
  gzip -9n >"$dist/$name.tar.gz"

# Without tools of its own: dpkg-deb takes a directory as it is.
package=$build/portable/deb
rm -rf "$package"
mkdir -p "$package/DEBIAN" "$package/usr"
cp -r "$tree/bin" "$tree/lib" "$tree/share" "$package/usr/"
cp "$tree/share/doc/tbprof/LICENSE" "$package/usr/share/doc/tbprof/copyright"
chmod -R u+rwX,go+rX,go-w "$package"
cat >"$package/DEBIAN/control" <<CONTROL
Package: tbprof
Version: $version
Architecture: amd64
Maintainer: tbprof
Depends: libc6 (>= 2.28)
Installed-Size: $(du -sk "$package/usr" | cut -f1)
Section: devel
Priority: optional
Description: profiles unmodified ML programs for TensorBoard
 Records threads, waits, memory, PyTorch, TensorFlow, JAX and CUDA activity of a
 command and its children, and writes profiles that TensorBoard shows.
CONTROL
deb=$dist/tbprof_${version}_amd64.deb
dpkg-deb --root-owner-group -Zxz --build "$package" "$deb" >&2

"$TBPROF_ROOT/scripts/check_glibc.sh" "$wheel" "$dist/$name.tar.gz" "$deb" >&2
(cd "$dist" && sha256sum "${wheel##*/}" "$name.tar.gz" "${deb##*/}" >SHA256SUMS)
printf '%s\n' "$wheel" "$dist/$name.tar.gz" "$deb" "$dist/SHA256SUMS"
