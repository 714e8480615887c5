# SPDX-License-Identifier: Apache-2.0
"""Texts of two conversions, made comparable: a table of intended rewordings, and values that no two runs share."""

import re

# What differs between two conversions of one spool by the same build, or follows from how a text is encoded. This list and
# `neutral_bytes` are all; anything else that differs is a difference.
RUN_TO_RUN = (
    # The name of the event file that makes TensorBoard list the run has the second of the conversion.
    (re.compile(r"\bevents\.out\.tfevents\.\d+\."), "events.out.tfevents.SECOND."),
    # Sizes of the files written: they follow from the length of texts and the numbers of ids. What the files hold is compared.
    (re.compile(r"(\.xplane\.pb|\.trace\.json\.gz|summary\.json)  [\d.]+ [KMG]?i?B\b"), r"\1  SIZE"),
)

# TFRecord: length, its checksum, the message (wall time of the writing first), its checksum.
EVENT_FILE = re.compile(rb"(\x18\0{7}.{4}\x09).{8}(\x1a\x0dbrain\.Event:2).{4}", re.DOTALL)


def neutral_bytes(name, data):
    """Of a file that is compared byte for byte."""
    if ".tfevents." in name:
        # The time at which it was made, and the checksum over it.
        return EVENT_FILE.sub(rb"\1TIME\2CRC", data)
    return data


class Rewordings:
    """Rows `old<TAB>new` of a file, applied in order to texts of the old build. `re:` in front of old: a regular
    expression, whose groups new may name (`\\1`). Empty lines and lines with `#` in front count for nothing."""

    def __init__(self, rows=()):
        self.rows = [(old, re.compile(old[3:]) if old.startswith("re:") else None, new) for old, new in rows]
        self.used = set()  # indices of rows

    @classmethod
    def read(cls, path):
        rows = []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            old, tab, new = line.partition("\t")
            if not tab or not old or old == "re:":
                raise SystemExit(f"{path}:{number}: not old<TAB>new: {line!r}")
            rows.append((old, new))
        return cls(rows)

    def apply(self, text):
        for index, (old, pattern, new) in enumerate(self.rows):
            changed = pattern.sub(new, text) if pattern else text.replace(old, new)
            if changed != text:
                self.used.add(index)
                text = changed
        return text

    def unused(self, used):
        return [f"{old}\t{new}" for index, (old, _, new) in enumerate(self.rows) if index not in used]


class Side:
    """Makes the texts of one side comparable; each text once."""

    def __init__(self, rewordings=None):
        self.rewordings = rewordings
        self.known = {}

    def text(self, text):
        made = self.known.get(text)
        if made is None:
            made = self.rewordings.apply(text) if self.rewordings else text
            for pattern, replacement in RUN_TO_RUN:
                made = pattern.sub(replacement, made)
            self.known[text] = made
        return made


def neutral_json(value):
    """Of a summary: sizes that follow from how texts are encoded get lost."""
    if isinstance(value, dict):
        if "bytes" in value and "verified" in value:  # one of `files`
            value = value | {"bytes": "SIZE"}
        return {name: neutral_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [neutral_json(item) for item in value]
    return value
