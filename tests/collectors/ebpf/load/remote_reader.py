# SPDX-License-Identifier: GPL-2.0-only
"""What a user without privileges can do with a descriptor of the map `stats`: `remote_reader.py FD FACTS`, as JSON.

Imports everything first, as root, since the tree may lie where that user cannot look; then it becomes nobody for good.
"""

import ctypes
import errno
import json
import mmap
import os
import struct
import sys

from asa.core.helper_api import ProbeFacts
from collectors.ebpf import layout, sharing
from collectors.ebpf.remote import RemoteProbes

NOBODY = 65534
UPDATE, DELETE, LOOKUP_AND_DELETE_BATCH, UPDATE_BATCH, FREEZE, BY_ID = 2, 3, 25, 26, 22, 14  # enum bpf_cmd


def refused(act):
    """The name of the error that `act` ends with; "done" when there is none."""
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"


def main():
    """Everything that is tried."""
    descriptor, facts = int(sys.argv[1]), ProbeFacts(**json.loads(sys.argv[2]))
    map_id = sharing._facts(descriptor)["map_id"]
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    pages = -(-facts.cpus * layout.ROW_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE
    keys = (ctypes.c_uint32 * facts.cpus)()
    values = ctypes.create_string_buffer(facts.cpus * layout.ROW_BYTES)
    key, value = ctypes.addressof(keys), ctypes.addressof(values)

    def bpf(command, form, *fields):
        return lambda: sharing._bpf(command, bytearray(struct.pack(form, *fields)))

    batch = (0, value, key, value, facts.cpus, descriptor, 0, 0)
    written = mmap.PROT_READ | mmap.PROT_WRITE
    tried = {
        "map to write": lambda: mmap.mmap(descriptor, pages, mmap.MAP_SHARED, written),
        "map to read": lambda: mmap.mmap(descriptor, pages, mmap.MAP_SHARED, mmap.PROT_READ),
        "update": bpf(UPDATE, "IIQQQ", descriptor, 0, key, value, 0),
        "delete": bpf(DELETE, "IIQQQ", descriptor, 0, key, 0, 0),
        "update all": bpf(UPDATE_BATCH, sharing._BATCH, *batch),
        "take all": bpf(LOOKUP_AND_DELETE_BATCH, sharing._BATCH, *batch),
        "freeze": bpf(FREEZE, "I", descriptor),
        "open by id": bpf(BY_ID, "III", map_id, 0, 0),
        "open anew": lambda: os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR),
    }
    said = {name: refused(act) for name, act in tried.items()}
    probes = RemoteProbes(lambda: (os.dup(descriptor), facts))
    probes.open()
    read = probes.read()["probes"]
    print(json.dumps({"tried": said, "switches": read.switches, "uids": os.getresuid()}))


main()
