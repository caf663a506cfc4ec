# SPDX-License-Identifier: GPL-2.0-only
"""The record of an installation, files.json in the program's folder: what was put there, to take away just that."""

from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec

from asa import runfile, wire
from asa.core.errors import AsaError, SetupError
from asa.install.payload import PROGRAM
from asa.install.prefix import Prefix, program

NAME = "files.json"
_LIMIT_BYTES = 16 << 20
_Absolute = Annotated[str, msgspec.Meta(pattern=r"^(/(?!\.\.?(/|$))[^/\x00]+)+$")]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one installation has made. Paths are absolute, below the root that it went to."""

    version: str
    files: dict[_Absolute, str]  # SHA-256 of each
    config: dict[_Absolute, str]  # as shipped
    folders: tuple[_Absolute, ...]  # that were not there before
    program: _Absolute = str(PROGRAM)  # where the program is, and this record

    @property
    def path(self) -> PurePosixPath:
        """Its own."""
        return PurePosixPath(self.program) / NAME


def below(root: Path, path: PurePosixPath | str) -> Path:
    """`path` of the machine whose root is `root`."""
    return root / str(path).removeprefix("/")


def read(root: Path) -> Record | None:
    """The record, None where nothing is installed. Raises SetupError for a damaged one, AsaError for a foreign one."""
    for prefix in Prefix:
        folder = program(prefix)
        path = below(root, folder / NAME)
        body = runfile.read_own(path, _LIMIT_BYTES)
        if body is None:
            continue
        try:
            return msgspec.structs.replace(wire.from_json(body, Record), program=str(folder))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SetupError(f"{path}: damaged: {error}; remove {folder} and install again") from error
    return None


def write(root: Path, record: Record) -> None:
    """Write it whole. Raises AsaError."""
    path = below(root, record.path)
    try:
        runfile.write_whole(path, msgspec.json.format(wire.json_bytes(record), indent=1) + b"\n", 0o644)
        path.chmod(0o644)
    except OSError as error:
        raise AsaError(f"{path}: cannot be written: {error.strerror}") from error
