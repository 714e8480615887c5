#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether nothing is left of a root of scripts/debian_root.sh that is killed: no process, no mount, no file.

set -euo pipefail
scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../scripts" && pwd)
state() { cat /proc/self/mounts && ls -A /mnt; }
before=$(state)

# shellcheck disable=SC2016  # expanded beside the root
exec 3< <(exec "$scripts/debian_root.sh" here bash -c '
  touch "$TBPROF_DEBIAN_ROOT/mnt/written"
  setsid chroot --userspec=1234:1234 "$TBPROF_DEBIAN_ROOT" sleep infinity &
  chroot "$TBPROF_DEBIAN_ROOT" sh -c "echo ready; exec sleep infinity"')
root=$!
IFS= read -r line <&3
[[ $line != SKIP:* ]] || { echo "$line"; exit 77; }
[[ $line == ready ]] || { echo "$line"; exit 1; }
kill -KILL "$root"
# The pipe's end: no process holds its other side any more.
cat <&3
diff <(printf '%s\n' "$before") <(state)
