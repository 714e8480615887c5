#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The checks of the house find what they look for: an include against the order of folders, a folder without a place in
# it, a word that is replaced by another, a file or a function that is too long, two types of one name.

. "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{wire,preload,cupti,writer/base,writer/outputs,launcher/base,tests,examples,scripts,docs}
echo '#include "writer/base/text.h"' >"$work/writer/outputs/xplane.cc"
echo '// every Nth' >"$work/writer/base/text.h"
touch "$work/README.md"

# refuses CHECK TEXT: the check fails, and prints TEXT.
refuses() {
  local said
  if said=$("$TBPROF_ROOT/scripts/$1" "$work" 2>&1); then fail "$1 accepts: $2"; fi
  grep -qF "$2" <<<"$said" || fail "$1 does not name $2: $said"
}

"$TBPROF_ROOT/scripts/check_layers.sh" "$work" >/dev/null || fail "check_layers.sh refuses an include downwards"
"$TBPROF_ROOT/scripts/check_words.sh" "$work" >/dev/null || fail "check_words.sh refuses plain words"

echo '#include "writer/outputs/outputs.h"' >"$work/writer/base/text.cc"
refuses check_layers.sh "writer/outputs comes after writer/base"
rm "$work/writer/base/text.cc"
mkdir "$work/writer/misc"
touch "$work/writer/misc/all.cc"
echo '// all' >"$work/writer/misc/all.cc"
refuses check_layers.sh "writer/misc is not in the order"

word=wit
echo "// asks the ${word}ness" >"$work/launcher/base/signals.cc"
refuses check_words.sh "not '${word}ness', but: signal probe"
rm "$work/launcher/base/signals.cc"

# lines COUNT: so many statements.
lines() { printf '  ++number;\n%.0s' $(seq "$1"); }
{ echo 'void Count(int number,'; echo '           int more) {'; lines 77; echo '}'; } >"$work/launcher/base/count.cc"
"$TBPROF_ROOT/scripts/check_sizes.sh" "$work" >/dev/null || fail "check_sizes.sh refuses a function of 80 lines"
{ echo 'class Counter {'; echo '  int Count(int number,'; echo '            int more) const {'; lines 78; echo '  }'
  echo '};'; } >"$work/launcher/base/count.cc"
refuses check_sizes.sh "launcher/base/count.cc:Count: 81 lines"
{ echo 'int number;'; lines 600; } >"$work/launcher/base/count.cc"
refuses check_sizes.sh "launcher/base/count.cc: 601 lines"

echo 'struct Span { int start; };' >"$work/writer/base/span.h"
{ echo 'namespace {'; echo 'class Span {};'; echo '}  // namespace'; echo 'struct Other::Span {};'; } \
  >"$work/launcher/base/span.cc"
"$TBPROF_ROOT/scripts/check_types.sh" "$work" >/dev/null || fail "check_types.sh refuses a type of one file"
echo 'class Span : public Other {' >>"$work/launcher/base/span.cc"
refuses check_types.sh "writer/base/span.h:1 both define Span"
say "the checks refuse what they should"
