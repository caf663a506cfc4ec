# SPDX-License-Identifier: GPL-2.0-only
"""Types keys and moves a pointer through a device of its own, which ends with it: `type_keys.py KEYS MOTIONS`, as root.

Each key is pressed and released. Interface: Documentation/input/uinput.rst, include/uapi/linux/uinput.h.
"""

import fcntl
import json
import os
import struct
import sys

UI_DEV_CREATE, UI_DEV_DESTROY = 0x5501, 0x5502
UI_DEV_SETUP = 0x405C5503  # _IOW of struct uinput_setup, 92 bytes
UI_SET_EVBIT, UI_SET_KEYBIT, UI_SET_RELBIT = 0x40045564, 0x40045565, 0x40045566
EV_SYN, EV_KEY, EV_REL = 0, 1, 2
KEY_SPACE, BTN_LEFT, REL_X = 57, 0x110, 0  # REL_X needs a button to make a pointer
BUS_VIRTUAL = 6


def main():
    keys, motions = map(int, sys.argv[1:])
    device = os.open("/dev/uinput", os.O_WRONLY)
    for request, value in (
        (UI_SET_EVBIT, EV_KEY),
        (UI_SET_KEYBIT, KEY_SPACE),
        (UI_SET_KEYBIT, BTN_LEFT),
        (UI_SET_EVBIT, EV_REL),
        (UI_SET_RELBIT, REL_X),
    ):
        fcntl.ioctl(device, request, value)
    fcntl.ioctl(device, UI_DEV_SETUP, struct.pack("HHHH80sI", BUS_VIRTUAL, 1, 1, 1, b"asa check", 0))
    fcntl.ioctl(device, UI_DEV_CREATE)

    def send(kind, code, value):
        for event in ((kind, code, value), (EV_SYN, 0, 0)):
            os.write(device, struct.pack("llHHi", 0, 0, *event))  # struct input_event

    for _ in range(keys):
        send(EV_KEY, KEY_SPACE, 1)
        send(EV_KEY, KEY_SPACE, 0)
    for _ in range(motions):
        send(EV_REL, REL_X, 1)
    fcntl.ioctl(device, UI_DEV_DESTROY)
    print(json.dumps({"keys": keys, "motions": motions}))


if __name__ == "__main__":
    main()
