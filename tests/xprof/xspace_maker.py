"""Encodes and decodes XSpace files by hand, for experiments and tests.

Nothing here depends on generated protobuf code, so that a file can also be made
wrong on purpose: unsorted, with bad UTF-8, with the wrong value arm.

    space = Space("myhost")
    host = space.plane("/host:CPU")
    main = host.line(100, "python/100")
    main.event("train", 0 * MS, 10 * MS, {"_r": 1, "step_num": 7})
    space.write("/tmp/logdir", "2026_01_01_00_00_00")

Times are integers in picoseconds. Values of stats: int -> int64, U(n) -> uint64,
float -> double, str -> str, Ref("text") -> ref, bytes -> bytes.
"""

import os
import struct

NS, US, MS, S = 10**3, 10**6, 10**9, 10**12


class U(int):
    """An integer stored in the uint64 arm."""


class Ref(str):
    """A string stored once per plane, and referred to."""


def varint(value):
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """One field: int -> varint, float -> fixed64, bytes/str -> length-delimited."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape")
    return varint(number << 3 | 2) + varint(len(value)) + value


class Line:
    def __init__(self, plane, line_id, name, timestamp_ns, display_id, display_name):
        self.plane = plane
        self.line_id = line_id
        self.name = name
        self.timestamp_ns = timestamp_ns
        self.display_id = display_id
        self.display_name = display_name
        self.events = []  # (offset, -duration, order, encoded)
        self.sort = True

    def event(self, name, offset_ps, duration_ps, stats=None, display_name="", occurrences=None):
        out = field(1, self.plane.event_id(name, display_name))
        out += field(2, offset_ps) if occurrences is None else field(5, occurrences)
        if duration_ps:
            out += field(3, duration_ps)
        for stat, value in (stats or {}).items():
            out += field(4, self.plane.stat(stat, value))
        self.events.append((offset_ps, -duration_ps, len(self.events), out))

    def encode(self):
        out = field(1, self.line_id) + field(2, self.name)
        if self.timestamp_ns:
            out += field(3, self.timestamp_ns)
        if self.display_id:
            out += field(10, self.display_id)
        if self.display_name:
            out += field(11, self.display_name)
        events = sorted(self.events) if self.sort else self.events
        return out + b"".join(field(4, event[3]) for event in events)


class Plane:
    def __init__(self, name, plane_id):
        self.name = name
        self.plane_id = plane_id
        self.lines = []
        self.stats = {}
        self._events = {}
        self._stats = {}

    def line(self, line_id, name, timestamp_ns=0, display_id=0, display_name=""):
        line = Line(self, line_id, name, timestamp_ns, display_id, display_name)
        self.lines.append(line)
        return line

    def event_id(self, name, display_name=""):
        return self._events.setdefault((name, display_name), len(self._events) + 1)

    def stat_id(self, name):
        return self._stats.setdefault(name, len(self._stats) + 1)

    def stat(self, name, value):
        out = field(1, self.stat_id(name))
        if isinstance(value, Ref):
            return out + field(7, self.stat_id(str(value)))
        if isinstance(value, float):
            return out + field(2, value)
        if isinstance(value, U):
            return out + field(3, int(value))
        if isinstance(value, int):
            return out + field(4, value)
        if isinstance(value, str):
            return out + field(5, value)
        return out + field(6, value)

    def encode(self):
        out = field(2, self.name)
        if self.plane_id:
            out = field(1, self.plane_id) + out
        lines = b"".join(field(3, line.encode()) for line in self.lines)
        stats = b"".join(field(6, self.stat(k, v)) for k, v in self.stats.items())
        for (name, display_name), key in self._events.items():
            meta = field(1, key) + field(2, name)
            if display_name:
                meta += field(4, display_name)
            out += field(4, field(1, key) + field(2, meta))
        for name, key in self._stats.items():
            out += field(5, field(1, key) + field(2, field(1, key) + field(2, name)))
        return out + stats + lines


class Space:
    def __init__(self, hostname="host"):
        self.hostname = hostname
        self.planes = []
        self.errors = []
        self.warnings = []

    def plane(self, name, plane_id=0):
        plane = Plane(name, plane_id)
        self.planes.append(plane)
        return plane

    def encode(self):
        out = b"".join(field(1, plane.encode()) for plane in self.planes)
        out += b"".join(field(2, text) for text in self.errors)
        out += b"".join(field(3, text) for text in self.warnings)
        return out + field(4, self.hostname)

    def write(self, logdir, run, filename=None):
        """Writes <logdir>/plugins/profile/<run>/<host>.xplane.pb; returns the run directory."""
        directory = os.path.join(logdir, "plugins", "profile", run)
        os.makedirs(directory, exist_ok=True)
        name = filename or self.hostname + ".xplane.pb"
        with open(os.path.join(directory, name), "wb") as file:
            file.write(self.encode())
        return directory


# Decoding: plain dictionaries, names resolved.


def fields(data):
    at = 0
    end = len(data)

    def read():
        nonlocal at
        shift = value = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < end:
        key = read()
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, read()
        elif wire == 1:
            yield number, struct.unpack_from("<d", data, at)[0]
            at += 8
        elif wire == 2:
            size = read()
            if at + size > end:
                raise ValueError("truncated field")
            yield number, data[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {wire}")


def _text(value):
    return bytes(value).decode("utf-8", "backslashreplace")


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _stat(data, names):
    name, value = None, None
    for number, item in fields(data):
        if number == 1:
            name = names.get(item, f"#{item}")
        elif number == 4:
            value = _signed(item)
        elif number == 5:
            value = _text(item)
        elif number == 7:
            value = names.get(item, f"#{item}")
        else:
            value = item
    return name, value


def _metadata(data):
    key, name, display = 0, "", ""
    for number, item in fields(data):
        if number == 1:
            key = item
        elif number == 2:
            for inner, text in fields(item):
                if inner == 2:
                    name = _text(text)
                elif inner == 4:
                    display = _text(text)
    return key, name, display


def decode(data):
    """XSpace bytes -> {planes: [{name, id, stats, lines: [{id, name, events: [...]}]}], ...}."""
    space = {"planes": [], "errors": [], "warnings": [], "hostnames": []}
    for number, value in fields(memoryview(data)):
        if number == 1:
            space["planes"].append(_plane(value))
        elif number in (2, 3, 4):
            space[("errors", "warnings", "hostnames")[number - 2]].append(_text(value))
    return space


def _plane(data):
    plane = {"id": 0, "name": "", "stats": {}, "lines": []}
    lines, stats, names, events = [], [], {}, {}
    for number, value in fields(data):
        if number == 1:
            plane["id"] = _signed(value)
        elif number == 2:
            plane["name"] = _text(value)
        elif number == 3:
            lines.append(value)
        elif number == 4:
            key, name, display = _metadata(value)
            events[key] = (name, display)
        elif number == 5:
            key, name, _ = _metadata(value)
            names[key] = name
        elif number == 6:
            stats.append(value)
    plane["stats"] = dict(_stat(stat, names) for stat in stats)
    plane["lines"] = [_line(line, events, names) for line in lines]
    return plane


def _line(data, metadata, names):
    line = {"id": 0, "name": "", "timestamp_ns": 0, "display_id": 0, "display_name": "", "events": []}
    keys = {1: "id", 3: "timestamp_ns", 10: "display_id"}
    for number, value in fields(data):
        if number in keys:
            line[keys[number]] = _signed(value)
        elif number == 2:
            line["name"] = _text(value)
        elif number == 11:
            line["display_name"] = _text(value)
        elif number == 4:
            event = {"name": "", "shown": "", "offset_ps": 0, "duration_ps": 0, "stats": {}}
            for inner, item in fields(value):
                if inner == 1:
                    event["name"], event["shown"] = metadata.get(item, (f"#{item}", ""))
                    event["shown"] = event["shown"] or event["name"]
                elif inner == 2:
                    event["offset_ps"] = _signed(item)
                elif inner == 3:
                    event["duration_ps"] = _signed(item)
                elif inner == 4:
                    name, stat = _stat(item, names)
                    event["stats"][name] = stat
            line["events"].append(event)
    return line
