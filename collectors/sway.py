# SPDX-License-Identifier: GPL-2.0-only
"""sway: the window in front, by its IPC (sway-ipc(7)): the tree of windows, in which one has the focus.

Of the tree the process, the class and whether it fills the screen are kept; of the title its class alone.
"""

import struct
from collections.abc import Iterable
from pathlib import Path

import msgspec

from collectors import titles
from collectors.ipc import LARGEST_ANSWER_BYTES, IpcReader
from collectors.window import Window, name_of

_MAGIC = b"i3-ipc"
_HEADER = struct.Struct("=6sII")  # magic, bytes that follow, type; in the order of the machine
_GET_TREE = 4


class _Properties(msgspec.Struct, rename={"window_class": "class"}):
    window_class: str = ""


class _Node(msgspec.Struct):
    focused: bool = False
    pid: int | None = None  # of windows alone
    app_id: str | None = None  # of Wayland's windows
    window_properties: _Properties | None = None  # of Xwayland's
    name: str | None = None
    fullscreen_mode: int = 0  # 1: of its workspace, 2: of all
    nodes: list["_Node"] = []
    floating_nodes: list["_Node"] = []


_TREE = msgspec.json.Decoder(_Node)


class SwayReader(IpcReader):
    """The DesktopReader for sway."""

    name = "sway"
    compositor = "sway"

    def sockets(self, runtime: Path) -> Iterable[Path]:
        """sway-ipc.UID.PID.sock."""
        return runtime.glob("sway-ipc.*.sock")

    def question(self) -> bytes:
        """GET_TREE."""
        return _HEADER.pack(_MAGIC, 0, _GET_TREE)

    def answer(self, heard: bytes, *, ended: bool) -> Window | None:  # noqa: ARG002  # its length is told
        """The focused window of a tree. Raises ValueError."""
        if len(heard) < _HEADER.size:
            return None
        magic, length, kind = _HEADER.unpack_from(heard)
        if magic != _MAGIC or kind != _GET_TREE or length > LARGEST_ANSWER_BYTES:
            raise ValueError(f"no answer of sway: {heard[: _HEADER.size]!r}")
        if len(heard) < _HEADER.size + length:
            return None
        return window_of(heard[_HEADER.size : _HEADER.size + length])


def window_of(tree: bytes) -> Window:
    """The window that has the focus in the JSON of a tree. Raises ValueError (msgspec's is one)."""
    waiting = [_TREE.decode(tree)]
    while waiting:
        node = waiting.pop()
        if node.focused:
            return _window(node)
        waiting += (*node.nodes, *node.floating_nodes)
    return Window(pid=None, fullscreen=False)


def _window(node: _Node) -> Window:
    if node.pid is None or node.pid <= 0:  # an empty workspace
        return Window(pid=None, fullscreen=False)
    properties = node.window_properties or _Properties()
    return Window(
        pid=node.pid,
        window_class=name_of(node.app_id or properties.window_class),
        title_class=titles.class_of(node.name or ""),
        fullscreen=node.fullscreen_mode != 0,
    )
