# SPDX-License-Identifier: Apache-2.0
"""Reads a profile (writer/proto/xplane.proto) with nothing but Python: a GPU machine may have no protobuf."""

import collections

# `operation`: its tf_op, None without one.
Event = collections.namedtuple("Event", "name start_ps duration_ps correlation kernel line operation")

# CUPTI gives such a copy like work of a GPU, and calls it MemcpyHToH.
HOST_COPY = "copy from host to host"
# Of an arrow (writer/outputs/flow_ids.h).
FLOW_CATEGORY, GPU_LAUNCH = 58, 9


def _varint(data, at):
    """The number at a place, and the place behind it."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data, at, end):
    """(number, value) of a message; value is an int, or the (begin, end) of bytes."""
    while at < end:
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0 or wire == 2:
            value, at = _varint(data, at)
            if wire == 2:
                value, at = (at, at + value), at + value
        elif wire == 1:
            value, at = (at, at + 8), at + 8
        elif wire == 5:
            value, at = (at, at + 4), at + 4
        else:
            raise ValueError(f"wire type {wire} at byte {at}")
        yield key >> 3, value


def _named(data, entry):
    """Of an entry of a map from numbers to messages with a name."""
    number, name = 0, ""
    for field, value in _fields(data, *entry):
        if field == 1:
            number = value
        elif field == 2:
            for inner, text in _fields(data, *value):
                if inner == 2:
                    name = data[slice(*text)].decode("utf-8", "replace")
    return number, name


def _stat(data, span):
    number, value = 0, None
    for field, found in _fields(data, *span):
        if field == 1:
            number = found
        else:
            value = found
    return number, value


class Profile:
    """`device`: what CUPTI gives as work of GPUs; `host`: the calls that caused it. Both have a correlation; a copy that
    the host made in a call has none. `on_device`: how many events planes of GPUs have, by whomever they were written.
    `python`: (event, line of Python) of the host's events that have one."""

    def __init__(self, path):
        self.device, self.host, self.on_device, self.python = [], [], 0, []
        data = path.read_bytes()
        for field, plane in _fields(data, 0, len(data)):
            if field == 1:
                self._plane(data, plane)

    def _plane(self, data, span):
        plane_name, lines, names, stats = "", [], {}, {}
        for field, value in _fields(data, *span):
            if field == 2:
                plane_name = data[slice(*value)].decode()
            elif field == 3:
                lines.append(value)
            elif field == 4:
                number, name = _named(data, value)
                names[number] = name
            elif field == 5:
                number, name = _named(data, value)
                stats[number] = name
        # Work outside of the steps is on a plane of its own.
        on_device = plane_name.startswith(("/device:GPU:", "/device:CUSTOM:GPU"))
        # Work outside of the steps has an arrow instead of a number: both ends have one value but for the direction.
        wanted = {name: number for number, name in stats.items()
                  if name in ("correlation_id", "flow", "kernel_details", "tf_op")}
        if on_device:
            self.on_device += sum(field == 4 for line in lines for field, _ in _fields(data, *line))
        python = next((number for number, name in stats.items() if name == "python"), None)
        if python is not None and not on_device:
            for line in lines:
                self._python_of(data, line, names, stats, python)
        for line in lines:
            self._line(data, line, names, stats, wanted, on_device)

    def _python_of(self, data, span, names, stats, python):
        for number, event in _fields(data, *span):
            if number != 4:
                continue
            name = ""
            for field, value in _fields(data, *event):
                if field == 1:
                    name = names.get(value, "")
                elif field == 4:
                    stat, said = _stat(data, value)
                    if stat == python:
                        said = stats.get(said) if isinstance(said, int) else data[slice(*said)].decode()
                        self.python.append((name, said))

    def _line(self, data, span, names, stats, wanted, on_device):
        line_id, start_ns, found = 0, 0, []
        for field, value in _fields(data, *span):
            if field == 1:
                line_id = value
            elif field == 3:
                start_ns = value
            elif field == 4:
                found.append(value)
        for event in found:
            name, offset, duration, correlation, kernel, operation = "", 0, 0, None, False, None
            for field, value in _fields(data, *event):
                if field == 1:
                    name = names.get(value, "")
                elif field == 2:
                    offset = value
                elif field == 3:
                    duration = value
                elif field == 4:
                    number, stat = _stat(data, value)
                    if number == wanted.get("correlation_id"):
                        correlation = stat
                    elif number == wanted.get("flow") and stat >> FLOW_CATEGORY == GPU_LAUNCH:
                        correlation = -(stat >> 2)
                    kernel = kernel or number == wanted.get("kernel_details")
                    if number == wanted.get("tf_op"):
                        operation = stats.get(stat) if isinstance(stat, int) else data[slice(*stat)].decode()
            events = self.device if on_device or name == HOST_COPY else self.host
            if name == HOST_COPY:
                name = "MemcpyHToH"
            if correlation is not None or name == "MemcpyHToH":
                events.append(Event(name, start_ns * 1000 + offset, duration, correlation, kernel, line_id, operation))
