# SPDX-License-Identifier: GPL-2.0-only
"""The textures of the benchmark's world: PNG files of 16 x 16 coloured noise. Writes one folder; reads nothing."""

import random
import struct
import zlib
from pathlib import Path

_SIDE = 16

# Name -> red, green, blue, how far it varies, and the share of opaque pixels.
_KINDS = {
    "stone": (122, 122, 126, 18, 1.0),
    "dirt": (120, 84, 54, 16, 1.0),
    "sand": (214, 200, 148, 12, 1.0),
    "brick": (158, 74, 58, 22, 1.0),
    "trunk": (96, 70, 42, 20, 1.0),
    "grass": (92, 154, 60, 22, 1.0),
    "snow": (236, 240, 246, 8, 1.0),
    "fur": (190, 120, 70, 26, 1.0),
    "water": (48, 96, 180, 14, 1.0),
    "leaves": (52, 112, 44, 30, 0.75),
    "blades": (104, 170, 66, 30, 0.3),
    "flower": (220, 90, 140, 40, 0.15),
    "specks": (40, 32, 28, 20, 0.12),
    "fringe": (92, 154, 60, 22, 0.2),
}


def write_textures(folder: Path, rng: random.Random) -> None:
    """One file a kind, `asa_NAME.png`; another seed gives other pixels of the same kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (red, green, blue, spread, opaque) in _KINDS.items():
        rows = bytearray()
        for _ in range(_SIDE):
            rows.append(0)  # the row is not filtered
            for _ in range(_SIDE):
                by = rng.randint(-spread, spread)
                alpha = (150 if name == "water" else 255) if rng.random() < opaque else 0
                rows += bytes(max(0, min(255, part + by)) for part in (red, green, blue)) + bytes((alpha,))
        (folder / f"asa_{name}.png").write_bytes(_png(bytes(rows)))


def _png(rows: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", _SIDE, _SIDE, 8, 6, 0, 0, 0)  # eight bits, RGBA
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
