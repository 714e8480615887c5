# SPDX-License-Identifier: Apache-2.0
"""Waits that another process ends: `ready-N` appears in the directory that GATES names, until `go-N` does."""

import os
import pathlib
import time


def wait(number):
    gates = os.environ.get("GATES")
    if not gates:
        return
    (pathlib.Path(gates) / f"ready-{number}").touch()
    while not (pathlib.Path(gates) / f"go-{number}").exists():
        time.sleep(0.002)
