#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Whether what is installed is what scripts/quickstart.sh builds, and records from wherever it is moved.
#
#   scripts/check_install.sh [BUILD_DIR]

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

build=$(realpath "${1:-build}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/first" >"$place/install.log" || { cat "$place/install.log" >&2; exit 1; }
mv "$place/first" "$place/moved"

# The build's files that the target of quickstart.sh depends on.
target=$(sed -n 's/^build_tree build //p' "$TBPROF_ROOT/scripts/quickstart.sh")
[[ -n $target ]] || { say "scripts/quickstart.sh builds nothing"; exit 1; }
# shellcheck disable=SC2086  # several targets are several words
inputs=$(ninja -C "$build" -t inputs $target)
status=0
while IFS= read -r file; do
  if ! grep -qxF -- "${file#"$place/moved/"}" <<<"$inputs"; then
    say "installed, but not built by scripts/quickstart.sh: ${file#"$place/moved/"}"
    status=1
  fi
done < <(find "$place/moved" -type f)

cd "$place"
for part in bin/tbprof lib/tbprof/libtbprof_preload.so lib/tbprof/libtbprof_cupti.so; do
  [[ -s moved/$part ]] || { say "not installed: $part"; status=1; }
done
if ! moved/bin/tbprof run --logdir="$place/logs" --port=none -- sh -c 'sleep 0.01' 2>"$place/run.log"; then
  cat "$place/run.log" >&2
  status=1
fi
compgen -G "$place/logs/plugins/profile/*/*.xplane.pb" >/dev/null || { say "the moved installation wrote no profile"; status=1; }
exit $status
