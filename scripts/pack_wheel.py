#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what scripts/link_portable.sh made as a wheel: pack_wheel.py TREE VERSION DIST_DIR

pip puts .data/scripts into PREFIX/bin and .data/data into PREFIX: the launcher finds ../lib/tbprof there. A wheel has no
links, and what it holds is the same on every machine: files in order, one date.
"""

import base64
import hashlib
import os
import sys
import zipfile

# The launcher's floor (scripts/link_portable.sh); 2_17 libraries go where glibc is older than 2.34.
TAG = "py3-none-manylinux_2_28_x86_64"
METADATA = """\
Metadata-Version: 2.1
Name: tbprof
Version: {version}
Summary: Profiles unmodified ML programs for TensorBoard
License: Apache-2.0
Classifier: Operating System :: POSIX :: Linux
Requires-Python: >=3.7
"""
WHEEL = f"""\
Wheel-Version: 1.0
Generator: tbprof
Root-Is-Purelib: false
Tag: {TAG}
"""


def place_of(path, version):
    """Where in the wheel a file of the tree goes."""
    if path.startswith("bin/"):
        return f"tbprof-{version}.data/scripts/{path[len('bin/'):]}"
    if path.startswith("share/doc/tbprof/"):
        return f"tbprof-{version}.dist-info/licenses/{path[len('share/doc/tbprof/'):]}"
    return f"tbprof-{version}.data/data/{path}"


def main():
    tree, version, dist = sys.argv[1:]
    entries = {}
    for directory, _, files in os.walk(tree):
        for name in files:
            path = os.path.join(directory, name)
            mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with open(path, "rb") as file:
                entries[place_of(os.path.relpath(path, tree), version)] = (file.read(), mode)
    info = f"tbprof-{version}.dist-info"
    entries[f"{info}/METADATA"] = (METADATA.format(version=version).encode(), 0o644)
    entries[f"{info}/WHEEL"] = (WHEEL.encode(), 0o644)
    record = ""
    for path, (content, _) in sorted(entries.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    record += f"{info}/RECORD,,\n"
    wheel = os.path.join(dist, f"tbprof-{version}-{TAG}.whl")
    # The standard asks for .dist-info at the end.
    order = sorted(entries, key=lambda path: (path.startswith(info), path))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in order:
            content, mode = entries[path]
            write(archive, path, content, mode)
        write(archive, f"{info}/RECORD", record.encode(), 0o644)
    print(wheel)


def write(archive, path, content, mode):
    entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, content)


main()
