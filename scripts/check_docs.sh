#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks that docs/wire-records.md and docs/wire-format.md give the sizes, offsets and values that the headers have, and
# leave none out; that files, links and code names in the pages are there; that docs/data/cuda_hooks.csv names every hook
# on CUDA, docs/data/fault_tests.csv tests that exist for every fault of docs/faults.md; that scripts/print_tables.py can
# print docs/data; that figures in tables of docs/overhead.md and docs/steps.md are in docs/data; and that README.md quotes
# what docs/overhead.md has.
#
#   scripts/check_docs.sh [DOCUMENT...]
#
# Tables behind these comments are turned into static_asserts and compiled:
#   <!-- struct NAME BYTES -->   offset | size | `field`; the rows must cover the struct without a gap
#   <!-- enum NAME HEADER -->    value | `enumerator`; all of them
#   <!-- records -->             kind | `Name` | fixed slots | variable part (none, or what it is); all of records.def
#   <!-- constants HEADER... --> `name` | value
#   <!-- layout CHUNKS -->       offset | part, for a segment of that many chunks

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($#)) || set -- "$TBPROF_ROOT"/docs/wire-{records,format}.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - "$TBPROF_ROOT" "$@" >"$work/facts.cc" <<'PYTHON' || fail "$*: see above"
import pathlib, re, sys

root, documents = pathlib.Path(sys.argv[1]), sys.argv[2:]
checks, broken = 0, []

def emit(condition, what):
    global checks
    checks += 1
    print(f'static_assert({condition}, "{what}");')

def enumerators(header, name):
    text = re.sub(r'//[^\n]*', '', (root / header).read_text())
    body = re.search(r'enum (?:class )?%s\b[^{]*\{([^}]*)\}' % name, text)
    return set(re.findall(r'(?:^|,)\s*(k\w+)', body.group(1))) if body else set()

def is_class(header, name):
    return re.search(r'enum class %s\b' % name, (root / header).read_text()) is not None

def check(kind, words, rows):
    if kind == 'struct':
        name, total = words[0], int(words[1])
        emit(f'sizeof({name}) == {total}', f'size of {name}')
        at = 0
        for offset, size, field in ((int(r[0]), int(r[1]), r[2]) for r in rows):
            if offset != at:
                broken.append(f'{name}: {at} to {offset} is in no row')
            at = offset + size
            emit(f'offsetof({name}, {field}) == {offset}', f'offset of {name}.{field}')
            emit(f'sizeof({name}::{field}) == {size}', f'size of {name}.{field}')
        if at != total:
            broken.append(f'{name}: the rows end at {at}, the struct at {total}')
    elif kind == 'enum':
        name, header = words
        scope = f'{name}::' if is_class(header, name) else ''
        for row in rows:
            emit(f'static_cast<unsigned>({scope}{row[1]}) == {row[0]}', f'value of {name} {row[1]}')
        documented, real = {row[1] for row in rows}, enumerators(header, name)
        if documented != real:
            broken.append(f'{name}: {sorted(documented ^ real)} only on one side')
    elif kind == 'records':
        text = (root / 'wire/records.def').read_text()
        real = {m[1]: m for m in re.findall(r'^TBPROF_RECORD\((\d+), (\w+), (\d+), ([01]), \w+\)', text, re.M)}
        for number, name, slots, variable in ((r[0], r[1], r[2], r[3]) for r in rows):
            found = real.pop(name, None)
            if found != (number, name, slots, '0' if variable == 'none' else '1'):
                broken.append(f'record {name}: documented {(number, slots, variable)}, records.def has {found}')
            emit(f'static_cast<unsigned>(RecordKind::k{name}) == {number}', f'kind of {name}')
        if real:
            broken.append(f'records without a row: {sorted(real)}')
    elif kind == 'constants':
        for row in rows:
            emit(f'{row[0]} == {row[1]}', f'value of {row[0]}')
    elif kind == 'layout':
        names = {'header': '0', 'operations': 'operations', 'process slots': 'process_slots',
                 'thread slots': 'thread_slots', 'chunk states': 'chunk_states', 'chunks': 'chunks', 'end': 'bytes'}
        for row in rows:
            member = names[row[1]]
            value = '0u' if member == '0' else f'LayoutFor({words[0]}).{member}'
            emit(f'{value} == {row[0]}u', f'offset of {row[1]}')
    else:
        broken.append(f'unknown check: {kind}')

print('#include <cstddef>\n#include "wire/rendezvous.h"\n#include "wire/chunk.h"\n#include "writer/spool/frames.h"\n'
      'using namespace tbprof;')
seen = set()
for document in documents:
    lines = open(document, encoding='utf-8').read().splitlines()
    for number, line in enumerate(lines):
        opened = re.fullmatch(r'<!-- (struct|enum|records|constants|layout)\b(.*) -->', line)
        if not opened:
            continue
        rows = []
        for row in lines[number + 3:]:  # behind the comment, the heading and its rule
            if not row.startswith('|'):
                break
            rows.append([cell.strip().strip('`') for cell in row.strip('|').split('|')])
        words = opened.group(2).split()
        if not rows:
            broken.append(f'{document}:{number + 1}: no table')
        seen.add(words[0] if words and opened.group(1) == 'struct' else '')
        check(opened.group(1), words, rows)

# Every struct that travels has a table.
for header in ('wire/layout.h', 'wire/records.h', 'wire/rendezvous.h', 'writer/spool/frames.h'):
    for name in re.findall(r'^struct (\w+) \{', (root / header).read_text(), re.M):
        if name not in seen and name not in ('SegmentLayout', 'SessionVariable', 'Frame', 'SpoolExtent'):
            broken.append(f'{header}: struct {name} has no table')
for line in broken:
    print(line, file=sys.stderr)
print(f'{checks} facts', file=sys.stderr)
sys.exit(1 if broken else 0)
PYTHON

"${CXX:-c++}" -std=c++20 -fsyntax-only -Wno-invalid-offsetof -I "$TBPROF_ROOT" "$work/facts.cc" 2>"$work/log" || {
  grep 'static assertion failed' "$work/log" | sed 's/.*static assertion failed: /  wrong: /' >&2 || true
  grep -m5 'error:' "$work/log" | grep -v 'static assertion' >&2 || true
  fail "$* differs from the headers"
}
say "${*##*/} agree with the headers"

# What the pages lead to is there: linked files and headings, files named `folder/file.h`; and where the code is explained,
# the functions, types and constants.
python3 - "$TBPROF_ROOT" <<'PYTHON' || fail "see above"
import pathlib, re, sys

root = pathlib.Path(sys.argv[1])
broken = []
code = ' '.join(path.read_text(errors='replace') for folder in ('wire', 'preload', 'cupti', 'writer', 'launcher', 'scripts')
                for path in (root / folder).rglob('*') if path.suffix in ('.h', '.cc', '.def', '.sh', '.map', '.txt'))
words = set(re.findall(r'\w+', code))
# Fields that docs/wire-format.md names: no word of a comment counts.
fields = set(re.findall(r'\w+', ' '.join(
    re.sub(r'//[^\n]*', '', path.read_text()) for folder in ('wire', 'preload', 'writer/spool', 'launcher/session')
    for path in (root / folder).rglob('*') if path.suffix in ('.h', '.cc', '.def'))))

def anchors(page):
    titles = re.findall(r'^#+ (.*)', page.read_text(), re.M)
    return {re.sub(r'[^\w\- ]', '', title.lower()).replace(' ', '-') for title in titles}

pages = [root / 'CONTRIBUTING.md', root / 'README.md', root / 'preload/RULES.md', *sorted((root / 'docs').rglob('*.md'))]
for page in pages:
    text = re.sub(r'^```.*?^```', '', page.read_text(), flags=re.M | re.S)
    name = page.relative_to(root)
    for target, anchor in re.findall(r'\]\(([^)#\s]*)(?:#([^)]*))?\)', text):
        if target.startswith(('http', 'mailto')):
            continue
        file = (page.parent / target) if target else page
        if not file.exists():
            broken.append(f'{name}: no file {target}')
        elif anchor and file.suffix == '.md' and anchor not in anchors(file):
            broken.append(f'{name}: no heading {target}#{anchor}')
    if 'decisions' in name.parts:
        continue  # what was true at its time
    for path in re.findall(r'`((?:wire|preload|cupti|writer|launcher|scripts|tests|docs)/[\w./-]+\.\w+)`', text):
        if 'NNN' not in path and not (root / path).exists():
            broken.append(f'{name}: no file {path}')
    if name.name in ('life-of-a-record.md', 'where-to-add.md', 'wire-format.md'):
        for identifier in re.findall(r'`(?:\w+::)?((?!Hook_)(?:k?[A-Z][a-z]|TBPROF_)\w+)`', text):
            if identifier not in words:
                broken.append(f'{name}: nothing is called {identifier}')
    if name.name == 'wire-format.md':
        broken += [f'{name}: nothing is called {word}' for word in re.findall(r'`([a-z]\w+)`', text) if word not in fields]
for line in sorted(set(broken)):
    print(line, file=sys.stderr)
sys.exit(1 if broken else 0)
PYTHON

# Every hook on CUDA, CUPTI and NCCL is in the table of them.
absent=""
while read -r name; do
  grep -q ",$name," "$TBPROF_ROOT/docs/data/cuda_hooks.csv" || absent+=" $name"
done < <(sed -nE 's/^TBPROF_CUDA_(STREAM_)?CALL\((\w+),.*/\2/p' "$TBPROF_ROOT/wire/cuda_calls.def" &&
  sed -nE 's/^TBPROF_(LATE|NCCL)\(Gpu, (\w+),.*/\2/p' "$TBPROF_ROOT/preload/hooks.def")
[[ -z $absent ]] || fail "docs/data/cuda_hooks.csv does not name these hooks:$absent"

# Every fault has a row of tests, and the tests' names are in their files.
python3 - "$TBPROF_ROOT" <<'PYTHON' || fail "docs/data/fault_tests.csv: see above"
import csv, pathlib, re, sys

root = pathlib.Path(sys.argv[1])
files = {}
for path in (root / 'tests').rglob('*'):
    for name in {path.stem, path.name} if path.suffix in ('.cc', '.py', '.sh') else ():
        files.setdefault(name, []).append(path)
rows = list(csv.reader((root / 'docs/data/fault_tests.csv').open(newline='')))[1:]
broken = []
for fault, test, cases in rows:
    text = '\n'.join(path.read_text() for path in files.get(pathlib.Path(test).name, []))
    if not text:
        broken.append(f'{fault}: there is no {test}')
    for word in re.findall(r'\w{3,}', cases):
        if text and word not in text:
            broken.append(f'{fault}: {test} has no {word}')
described = set(re.findall(r'\bF\d+\b', ' '.join(
    line.split('|')[1] for line in (root / 'docs/faults.md').read_text().splitlines() if line.startswith('| F'))))
broken += [f'{fault}: only on one side' for fault in sorted(described ^ {row[0] for row in rows})]
for line in broken:
    print(f'docs/faults.md: {line}', file=sys.stderr)
sys.exit(1 if broken else 0)
PYTHON
say "docs/faults.md: every fault has a test that exists"

# Tables of measurements can be printed: each row has as many cells as the heading.
"$TBPROF_ROOT/scripts/print_tables.py" >/dev/null || fail "docs/data: see above"

# Figures with a decimal point in tables of these pages are in a table of measurements, and the medians are its medians.
python3 - "$TBPROF_ROOT" <<'PYTHON' || fail "docs/data: see above"
import csv, pathlib, re, statistics, sys

docs = pathlib.Path(sys.argv[1]) / 'docs'
measured = {figure for path in (docs / 'data').glob('*.csv') for figure in re.findall(r'\d+\.\d+', path.read_text())}
broken = []
for page in ('overhead.md', 'steps.md'):
    for line in (docs / page).read_text().splitlines():
        if line.startswith('|'):
            broken += [f'{page}: {figure} is in no file of docs/data: {line}'
                       for figure in re.findall(r'\d+\.\d+', line) if figure not in measured]
jobs = [row for row in csv.reader((docs / 'data/overhead_ci_jobs.csv').open(newline='')) if re.match(r'[1-9]', row[2])]
for row, column in (('wall time', 3), ('CPU time of the whole tree', 4)):
    median = statistics.median(float(job[column].split()[0]) for job in jobs)
    if f'| {row} | {median:.3f} |' not in (docs / 'overhead.md').read_text():
        broken.append(f'overhead.md: the median of the {len(jobs)} jobs of 1 s and more, {row}: {median:.3f}')
for line in broken:
    print(line, file=sys.stderr)
sys.exit(1 if broken else 0)
PYTHON

# What the README quotes of the measurements stands there, word for word.
quoted=0
while IFS= read -r row; do
  quoted=$((quoted + 1))
  grep -qxF -- "$row" "$TBPROF_ROOT/docs/overhead.md" || fail "README.md quotes what docs/overhead.md does not have: $row"
done < <(awk '/^<!-- quoted from docs\/overhead.md -->$/ { inside = 1; next } inside && !/^\|/ { inside = 0 } inside && !/^\|-/' \
  "$TBPROF_ROOT/README.md")
((quoted > 0)) || fail "README.md quotes nothing of docs/overhead.md"
say "README.md: $quoted lines quoted from docs/overhead.md"
