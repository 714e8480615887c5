#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/wire-records.md: the tables of everything that target, launcher and spool exchange, from the headers.

    scripts/make_wire_doc.py            write the page
    scripts/make_wire_doc.py --check    compare; exit 1 if the page is out of date

A meaning is the comment of the field, value or struct in the header, then what docs/wire-notes.txt has. Offsets and values
are computed here by the rules of the x86-64 and arm64 ABIs; scripts/check_docs.sh has the compiler compare them.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/wire-records.md"
NOTES = ROOT / "docs/wire-notes.txt"
RECORDS = "wire/records.def"
SETTINGS = "wire/settings.def"
# Chapter, header, structs that never leave a process.
CHAPTERS = (
    ("Rendezvous", "wire/rendezvous.h", ("SessionVariable",)),
    ("Segment", "wire/layout.h", ("SegmentLayout",)),
    ("Records", "wire/records.h", ()),
    ("Spool", "writer/spool/frames.h", ()),
)
CONSTANTS = ("wire/layout.h", "wire/rendezvous.h", "wire/records.h", "wire/chunk.h", "writer/spool/frames.h")
SIZES = {"char": 1, "uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8}

constants = {}  # name: value
types = {}  # name: (size, alignment)
notes = {}  # name, or type.name: what no comment says; a note that is used goes


def value_of(expression):
    """Of an integer expression of literals and known constants; None of anything else."""
    text = re.sub(r"\b(0x[0-9a-fA-F']+|\d[\d']*)[uUlL]*\b", lambda match: match.group(1).replace("'", ""), expression)
    text = re.sub(r"\bk\w+", lambda match: str(constants.get(match.group(0), "?")), text)
    text = re.sub(r"\buint\d+_t\{(\w+)\}", r"\1", text)
    if not re.fullmatch(r"[0-9a-fx\s()+*/|<>-]+", text):
        return None
    return int(eval(text.replace("/", "//")))  # the headers are ours, and the characters are checked


def comment_of(lines):
    return " ".join(line.strip().removeprefix("//").strip() for line in lines)


def statements(lines, end):
    """Of a body: (declaration, comment), the comment being what stands above it and behind it."""
    above, code, behind = [], "", []
    found = []
    for line in lines:
        text, slashes, comment = line.partition("//")
        if not text.strip():
            if not slashes:
                above = []
            elif found and not code and not above and len(line) - len(line.lstrip()) > 8:
                found[-1][1].append(line)  # goes on from the comment of the line above
            else:
                above.append(line)
            continue
        code += " " + text.strip()
        if slashes:
            behind.append(comment)
        if code.rstrip().endswith(end):
            found.append([code.strip().rstrip(end), above + behind])
            above, code, behind = [], "", []
    if code:
        found.append([code.strip(), above + behind])
    return [(code, comment_of(comment)) for code, comment in found]


class Header:
    """What a header declares at its outermost level, in order."""

    def __init__(self, path):
        self.path = path
        self.items = []  # (kind, name, comment, rows)
        lines = (ROOT / path).read_text().splitlines()
        above, at = [], 0
        while at < len(lines):
            line = lines[at]
            opened = re.match(r"(struct|enum class|enum) (\w+)(?: : (\w+))? \{(.*)", line)
            constant = re.match(r"inline constexpr (\w+) (\w+) =(.*)", line)
            if opened:
                body, at = self.body(lines, at, opened.group(4))
                getattr(self, opened.group(1).split()[0])(opened, comment_of(above), body)
            elif constant and constant.group(1) != "char":
                while ";" not in lines[at]:
                    at += 1
                    line += " " + lines[at].strip()
                self.constant(re.match(r"inline constexpr (\w+) (.*?);\s*(?://\s*(.*))?$", line), comment_of(above))
            above = above + [line] if line.startswith("//") else []
            at += 1

    @staticmethod
    def body(lines, at, rest):
        """Lines of a body up to its brace, and the line of that."""
        if "}" in rest:
            return [rest.split("}")[0]], at
        body = [rest] if rest.strip() else []
        at += 1
        while not lines[at].startswith("}"):
            body.append(lines[at])
            at += 1
        return body, at

    def constant(self, match, above):
        for part in match.group(2).split(","):
            name, _, expression = part.partition("=")
            value = value_of(expression)
            if value is None:
                continue
            constants[name.strip()] = value
            self.items.append(("constant", name.strip(), match.group(3) or above, value))

    def enum(self, opened, comment, body):
        types[opened.group(2)] = (SIZES[opened.group(3)],) * 2
        if any(line.startswith("#") for line in body):
            return  # RecordKind, from records.def
        rows, following = [], 0
        for declaration, meaning in statements(body, ","):
            parts = [part.strip() for part in declaration.split(",") if part.strip()]
            for part in parts:
                name, given, expression = part.partition("=")
                value = value_of(expression) if given else following
                following = value + 1
                constants.setdefault(name.strip(), value)
                rows.append((value, name.strip(), meaning if part is parts[-1] else "", ""))
        self.items.append(("enum", opened.group(2), comment, rows))

    def struct(self, opened, comment, body):
        rows, at, widest = [], 0, 1
        for declaration, meaning in statements(body, ";"):
            if not re.match(r"\w+ \w", declaration) or "(" in declaration:
                return  # a class with functions: nothing that travels
            type_name, names = declaration.split(" ", 1)
            if type_name not in types:
                return
            size, alignment = types[type_name]
            names = [name.strip() for name in names.split(",")]
            for name in names:
                name, _, count = name.partition("[")
                bytes_ = size * (value_of(count.rstrip("]")) if count else 1)
                at = (at + alignment - 1) // alignment * alignment
                rows.append((at, bytes_, name, meaning, type_name))
                at += bytes_
            widest = max(widest, alignment)
        total = (at + widest - 1) // widest * widest
        types[opened.group(2)] = (total, widest)
        self.items.append(("struct", opened.group(2), comment, (total, rows)))


def with_links(text):
    """Names of structs and enums lead to their tables."""
    named = "|".join(sorted((name for name in types if name not in SIZES), key=len, reverse=True))
    link = lambda match: f"[{match.group(0)}](#{'records' if match.group(0) == 'RecordKind' else match.group(0).lower()})"
    return re.sub(rf"(?<![\w`:])({named})(?![\w`:])", link, text)


def meaning_of(comment, *names, type_name=""):
    """For a cell: the type of the field where it is one of ours, the comment, the note."""
    note = next((notes.pop(name) for name in names if name in notes), "")
    kind = "" if type_name in SIZES or type_name in ("", "Tag", comment) else type_name
    return with_links("; ".join(part for part in (kind, comment, note) if part).replace("|", "\\|").replace(".; ", ". "))


def number(value):
    return hex(value) if value >= 1 << 30 else value


def render(header, left_out):
    for kind, name, comment, rows in header.items:
        if kind not in ("enum", "struct") or name in left_out:
            continue
        yield f"### {name}\n\n" + (f"{with_links(comment)}\n\n" if comment else "")
        if kind == "enum":
            yield f"<!-- enum {name} {header.path} -->\n| value | name | meaning |\n|---|---|---|\n"
            for value, entry, meaning, _ in rows:
                yield f"| {value} | `{entry}` | {meaning_of(meaning, f'{name}.{entry}', entry)} |\n"
        else:
            total, fields = rows
            yield f"<!-- struct {name} {total} -->\n| offset | size | field | meaning |\n|---|---|---|---|\n"
            for at, size, field, meaning, type_name in fields:
                yield f"| {at} | {size} | `{field}` | {meaning_of(meaning, f'{name}.{field}', type_name=type_name)} |\n"
        yield "\n"


def record_table():
    yield "<!-- records -->\n| kind | name | fixed slots | variable part | meaning |\n|---|---|---|---|---|\n"
    for kind, name, slots, variable, meaning in re.findall(
            r"^TBPROF_RECORD\((\d+), (\w+), (\d+), ([01]), \w+\)(?:\s*//\s*(.*))?$", (ROOT / RECORDS).read_text(), re.M):
        link = f"[fields](#{name.lower()}record)"
        yield (f"| {kind} | `{name}` | {slots} | {'yes' if variable == '1' else 'none'} | {meaning_of(meaning, name)}, "
               f"{link} |\n")
    yield "\n"


def settings():
    """Rows of settings.def: (macro, arguments), the last of which is the meaning."""
    text = (ROOT / SETTINGS).read_text()
    rows = re.findall(r'^TBPROF_(\w+)\(((?:[^"\n]|\n  |"[^"\n]*")*),\s+"([^"\n]+)"\)$', text, re.M)
    if len(rows) != len(re.findall(r"^TBPROF_", text, re.M)):
        sys.exit(f"{SETTINGS}: a row without a meaning")
    for macro, arguments, meaning in rows:
        yield macro, [argument.strip('"') for argument in re.split(r",\s+", arguments)], meaning


def variable_table():
    yield ("### Session variable\n\nThe numbers of `TBPROF_SESSION` behind its version and the path of the socket, from "
           f"`{SETTINGS}`.\n\n| # | field | type | written | from | to | meaning |\n|---|---|---|---|---|---|---|\n")
    number = 3
    for macro, arguments, meaning in settings():
        if macro not in ("TARGET", "OPTION"):
            continue
        base, low, high = arguments[2:5] if macro == "TARGET" else ("10", *arguments[4:6])
        option = f"`--{arguments[6]}`: " if macro == "OPTION" else ""
        written = "hexadecimal" if base == "16" else "decimal"
        yield f"| {number} | `{arguments[1]}` | {arguments[0]} | {written} | {low} | {high} | {option}{with_links(meaning)} |\n"
        number += 1
    yield "\n"


def session_table():
    yield ("### Session record\n\nMembers of the JSON of a kSession frame, from `wire/settings.def`. A reader takes one that is "
           "absent, of another type or out of range\nfor the value in the third column.\n\n"
           "| member | type | absent | meaning |\n|---|---|---|---|\n")
    names = {"std::string": "text", "std::vector<std::string>": "list of texts", '{}': "none", "": "empty"}
    for macro, arguments, meaning in sorted(settings(), key=lambda row: row[1][1]):
        if macro == "TARGET":
            continue
        absent = arguments[2] if macro == "RECORD" else arguments[3]
        option = f"`--{arguments[-1]}`: " if macro != "RECORD" else ""
        yield (f"| `{arguments[1]}` | {names.get(arguments[0], arguments[0])} | {names.get(absent, absent)} | "
               f"{option}{with_links(meaning)} |\n")
    yield "\n"


def page():
    for line in NOTES.read_text().splitlines():
        if not line.startswith("#"):
            name, _, meaning = line.partition(" ")
            notes[name] = meaning
    for name, size in SIZES.items():
        types[name] = (size, size)
    headers = {path: Header(path) for path in CONSTANTS}
    yield ("# Wire records\n\nEvery struct, value and constant that target, launcher and spool exchange: offsets and sizes in "
           "bytes, little-endian. Made by\n`scripts/make_wire_doc.py` from the headers and their comments; the invariants are "
           "in [wire-format.md](wire-format.md).\n\n")
    yield "[Constants](#constants)" + "".join(f" · [{chapter}](#{chapter.lower()})" for chapter, _, _ in CHAPTERS) + "\n\n"
    yield "## Constants\n\n"
    yield f"<!-- constants {' '.join(CONSTANTS)} -->\n| name | value | meaning |\n|---|---|---|\n"
    for path in CONSTANTS:
        for kind, name, comment, value in headers[path].items:
            if kind == "constant":
                yield f"| `{name}` | {number(value)} | {meaning_of(comment, name)} |\n"
    yield "\n"
    for chapter, path, left_out in CHAPTERS:
        yield f"## {chapter}\n\nFrom `{path}`.\n\n"
        if path == "wire/records.h":
            yield from record_table()
        yield from render(headers[path], left_out)
        if path == "wire/rendezvous.h":
            yield from variable_table()
        if path == "writer/spool/frames.h":
            yield from session_table()


def main():
    fresh = "".join(page()).rstrip() + "\n"
    if notes:
        print(f"docs/wire-notes.txt: no header declares {', '.join(notes)}", file=sys.stderr)
        return 1
    if PAGE.exists() and fresh == PAGE.read_text():
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/wire-records.md is out of date; run scripts/make_wire_doc.py", file=sys.stderr)
        return 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
