# SPDX-License-Identifier: Apache-2.0
"""Differences between two outputs of the converter, as lines of text. Bytes are never compared here: ids of metadata and
the order of keys may differ, whatever a reader of the file can see may not."""

import collections
import gzip
import itertools
import json

from normal import neutral_json

MAX_TEXT = 160


def short(value):
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


# ---- XSpace


class Plane:
    """A plane with each id replaced by what it stands for."""

    def __init__(self, plane, side):
        self.side = side
        self.stat_names = {number: entry.name for number, entry in plane.stat_metadata.items()}
        self.descriptions = sorted(
            (side.text(entry.name), side.text(entry.description))
            for entry in plane.stat_metadata.values()
            if entry.description
        )
        self.name = side.text(plane.name)
        self.id = plane.id
        self.stats = self.resolve(plane.stats)
        self.types = {}
        names = {number: side.text(entry.name) for number, entry in plane.event_metadata.items()}
        for number, entry in plane.event_metadata.items():
            self.types[number] = (
                names[number],
                side.text(entry.display_name),
                entry.metadata,
                self.resolve(entry.stats),
                tuple(names.get(child, "?") for child in entry.child_id),
            )
        self.lines = [self.line(line) for line in plane.lines]

    def resolve(self, stats):
        found = []
        for stat in stats:
            kind = stat.WhichOneof("value")
            value = getattr(stat, kind) if kind else None
            if kind == "ref_value":
                kind, value = "str_value", self.stat_names.get(value, f"no stat {value}")
            if kind == "str_value":
                value = self.side.text(value)
            name = self.stat_names.get(stat.metadata_id, f"no stat {stat.metadata_id}")
            found.append((self.side.text(name), kind or "", value))
        if len(found) > 1:
            found.sort(key=lambda stat: (stat[0], stat[1], str(stat[2])))
        return tuple(found)

    def line(self, line):
        events = []
        for event in line.events:
            kind = event.WhichOneof("data") or "offset_ps"
            events.append(
                (
                    self.types.get(event.metadata_id, (f"no event {event.metadata_id}", "", b"", (), ())),
                    kind,
                    getattr(event, kind),
                    event.duration_ps,
                    self.resolve(event.stats),
                )
            )
        facts = {
            "id": line.id,
            "display_id": line.display_id,
            "name": self.side.text(line.name),
            "display_name": self.side.text(line.display_name),
            "timestamp_ns": line.timestamp_ns,
            "duration_ps": line.duration_ps,
        }
        return facts, events


def stat_text(stats):
    return ", ".join(f"{name}={value}" for name, _, value in stats) or "none"


def event_text(event):
    kind, at, duration, stats = event[1:]
    return short(f"'{event[0][0]}' {kind}={at} duration_ps={duration} stats: {stat_text(stats)}")


def changed_stats(old, new):
    """Of two tuples of stats, what only one has."""
    was, now = collections.Counter(old), collections.Counter(new)
    names = sorted({stat[0] for stat in ((was - now) | (now - was))})
    for name in names:
        gone = [f"{value!r} ({kind})" for at, kind, value in (was - now).elements() if at == name]
        come = [f"{value!r} ({kind})" for at, kind, value in (now - was).elements() if at == name]
        yield short(f"stat {name}: {', '.join(gone) or 'missing'} -> {', '.join(come) or 'missing'}")


def changed_event(old, new):
    if old[0] != new[0]:
        if old[0][0] != new[0][0]:
            yield short(f"name '{old[0][0]}' -> '{new[0][0]}'")
        elif old[0][3] != new[0][3]:
            for line in changed_stats(old[0][3], new[0][3]):
                yield f"metadata, {line}"
        else:
            yield short(f"metadata {old[0][1:]} -> {new[0][1:]}")
    if old[1:3] != new[1:3]:
        yield f"{old[1]} {old[2]} -> {new[1]} {new[2]}"
    if old[3] != new[3]:
        yield f"duration_ps {old[3]} -> {new[3]}"
    if old[4] != new[4]:
        yield from changed_stats(old[4], new[4])


def only_one_side(old, new, text=short):
    was, now = collections.Counter(old), collections.Counter(new)
    for value in (was - now).elements():
        yield f"only old: {text(value)}"
    for value in (now - was).elements():
        yield f"only new: {text(value)}"


def changed_events(old, new):
    if old == new:
        return
    if len(old) != len(new):
        yield f"{len(old)} -> {len(new)} events"
        yield from only_one_side(old, new, event_text)
        return
    for index, (before, after) in enumerate(zip(old, new)):
        if before != after:
            where = short(f"event {index} '{before[0][0]}' at {before[2]}")
            yield from (f"{where}: {line}" for line in changed_event(before, after))


def keyed(items, key):
    """Each item under its key and how many had the same before it."""
    seen = collections.Counter()
    found = {}
    for item in items:
        name = key(item)
        found[name, seen[name]] = item
        seen[name] += 1
    return found


def pairs(old, new, key, what):
    """Lines for what only one side has or that stands elsewhere, and (name, old, new) of the others."""
    before, after = keyed(old, key), keyed(new, key)
    for name in before:
        if name not in after:
            yield f"{what} {name[0]}: missing in new", None, None
    for name in after:
        if name not in before:
            yield f"{what} {name[0]}: only in new", None, None
    if list(filter(after.__contains__, before)) != list(filter(before.__contains__, after)):
        yield f"order of {what}s differs", None, None
    for name, item in before.items():
        if name in after:
            yield f"{what} {name[0]}", item, after[name]


def changed_lines(old, new):
    for text, before, after in pairs(old.lines, new.lines, lambda line: f"'{line[0]['name']}' {line[0]['id']}", "line"):
        if before is None:
            yield text
            continue
        for fact, value in before[0].items():
            if value != after[0][fact]:
                yield f"{text}: {fact} {value!r} -> {after[0][fact]!r}"
        yield from (f"{text}: {line}" for line in changed_events(before[1], after[1]))


def xspace(schema, old_bytes, new_bytes, old_side, new_side):
    spaces = []
    for data, side in ((old_bytes, old_side), (new_bytes, new_side)):
        space = schema()
        space.ParseFromString(data)
        spaces.append((space, [Plane(plane, side) for plane in space.planes], side))
    (old, old_planes, _), (new, new_planes, _) = spaces
    for field in ("errors", "warnings", "hostnames"):
        before = [old_side.text(text) for text in getattr(old, field)]
        after = [new_side.text(text) for text in getattr(new, field)]
        if before != after:
            found = list(only_one_side(before, after)) or ["another order"]
            yield from (f"{field}: {line}" for line in found)
    for text, before, after in pairs(old_planes, new_planes, lambda plane: f"'{plane.name}'", "plane"):
        if before is None:
            yield text
            continue
        if before.id != after.id:
            yield f"{text}: id {before.id} -> {after.id}"
        yield from (f"{text}: {line}" for line in changed_stats(before.stats, after.stats))
        if before.descriptions != after.descriptions:
            yield from (f"{text}: description {line}" for line in only_one_side(before.descriptions, after.descriptions))
        was, now = collections.Counter(before.types.values()), collections.Counter(after.types.values())
        for line in only_one_side([entry[0] for entry in was.elements()], [entry[0] for entry in now.elements()]):
            yield f"{text}: event metadata, {line}"
        yield from (f"{text}: {line}" for line in changed_lines(before, after))
        if was != now:
            for line in only_one_side(was.elements(), now.elements()):
                yield f"{text}: event metadata, {line}"


# ---- JSON


def comparable(value, side):
    if isinstance(value, str):
        return side.text(value)
    if isinstance(value, list):
        return [comparable(item, side) for item in value]
    if isinstance(value, dict):
        return {side.text(key): comparable(item, side) for key, item in value.items()}
    return value


def read_json(data, side):
    """A number is a tuple of its own text: none is rounded, and none is equal to a string."""
    value = comparable(json.loads(data, parse_float=lambda text: (text,), parse_int=lambda text: (text,)), side)
    return neutral_json(value) if isinstance(value, dict) and "schema_version" in value else value


def plain(value):
    return value[0] if isinstance(value, tuple) else json.dumps(value, ensure_ascii=False, default=lambda item: item[0])


def changed_json(old, new, path=""):
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield short(f"{path}.{key}: missing in new (was {plain(old[key])})")
            else:
                yield from changed_json(old[key], new[key], f"{path}.{key}")
        for key in new:
            if key not in old:
                yield short(f"{path}.{key}: only in new: {plain(new[key])}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) == len(new):
            for index, (before, after) in enumerate(zip(old, new)):
                yield from changed_json(before, after, f"{path}[{index}]")
        else:
            yield f"{path}: {len(old)} -> {len(new)} items"
            before, after = ([json.dumps(item, sort_keys=True) for item in items] for items in (old, new))
            yield from (f"{path}: {line}" for line in only_one_side(before, after))
    else:
        yield f"{path}: {short(plain(old))} -> {short(plain(new))}"


def json_files(old_bytes, new_bytes, old_side, new_side):
    yield from changed_json(read_json(old_bytes, old_side), read_json(new_bytes, new_side))


def gzipped_json(old_bytes, new_bytes, old_side, new_side):
    yield from json_files(gzip.decompress(old_bytes), gzip.decompress(new_bytes), old_side, new_side)


# ---- texts


def texts(old, new, old_side, new_side):
    """Line by line. Where a row of the rewordings changed the old text, white space is no difference: columns and breaks of
    lines follow the length of words."""
    before, after = old_side.text(old), new_side.text(new)
    if before == after:
        return
    reworded = old_side.rewordings is not None and old_side.rewordings.apply(old) != old
    if reworded and before.split() == after.split():
        return
    gone, come = before.splitlines(), after.splitlines()
    for was, now in itertools.zip_longest(gone, come):
        if was != now and not (reworded and (was or "").split() == (now or "").split()):
            yield f"{short(was) if was is not None else 'no line'!r} -> {short(now) if now is not None else 'no line'!r}"
