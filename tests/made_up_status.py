# SPDX-License-Identifier: GPL-2.0-only
"""The status of a running agent, with a value for each field that has to have one."""

import os
import time

import msgspec

from asa import wire
from asa.status import Status


def status(**changes):
    empty = {"int": 0, "str": "", "float": 0.0, "list": [], "dict": {}}
    values = {
        field.name: None if "None" in str(field.type) else empty[str(getattr(field.type, "__name__", field.type))]
        for field in msgspec.structs.fields(Status)
        if field.required
    }
    values |= {"pid": os.getpid(), "mode": "switching", "interval_s": 1.0, "updated_ns": time.time_ns()}
    return wire.shaped(values | changes, Status)
