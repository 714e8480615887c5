#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that code, tests, messages and documents use the words of scripts/words.txt and not those that they replace.
# Decision records keep the words of their time.
#
#   scripts/check_words.sh [ROOT]

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

root=${1:-$TBPROF_ROOT}
words=$TBPROF_ROOT/scripts/words.txt

broken=0
while IFS=$'\t' read -r word replacement; do
  [[ -n $word && $word != \#* ]] || continue
  [[ -n $replacement ]] || fail "$words: no replacement for '$word'"
  found=$(cd "$root" && find wire preload cupti writer launcher tests examples scripts docs ./*.md \
    -path docs/decisions -prune -o -path tests/data -prune -o -name words.txt -prune -o -type f \
    \( -name '*.cc' -o -name '*.h' -o -name '*.c' -o -name '*.def' -o -name '*.py' -o -name '*.sh' -o -name '*.md' \
    -o -name '*.csv' -o -name '*.js' -o -name '*.html' \) -exec grep -nwF -e "$word" {} + || true)
  [[ -z $found ]] && continue
  sed "s/^/  /" <<<"$found" >&2
  say "not '$word', but: $replacement"
  broken=$((broken + 1))
done <"$words"
((broken == 0)) || fail "$broken words that are replaced by others (scripts/words.txt)"
say "$(grep -vc '^#' "$words") words are not used any more"
