# SPDX-License-Identifier: GPL-2.0-only
"""Tokens: root's word that a composed or tuned policy was verified, for one file, its flags and one kernel.

A token is sealed by HMAC-SHA256 with a key that root alone can read. Who seals and who checks is the same root program,
so that a pair of keys would add a library and keep nobody out. Anybody may read a token; it says what was verified.
Does not verify anything, and does not know who may ask for a token (`asa.helper.vouching`).
"""

import functools
import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from asa import files, wire
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError
from asa.runfile import read_own

DAYS = 90
"""How long a token is good for; another kernel or another file ends it sooner."""

STAGES = ("object", "load", "behaviour")
"""Stages that have to have been passed, as the verifier names them."""

SOURCE = "source"
"""One more, of what was composed."""

_KEY, _FOLDER = "token.key", "tokens"
_KEY_BYTES, _LIMIT_BYTES = 32, 65_536
_WHAT = b"asa token 1\0"  # nothing else that is ever sealed with this key is taken for a token


class Token(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sealed."""

    policy: str  # SchedulerName
    sha256: str  # of the program
    flags: tuple[str, ...]  # what the program is called with
    kernel: str  # release
    btf: str  # SHA-256 of the kernel's types
    stages: tuple[str, ...]
    until_s: int  # CLOCK_REALTIME


class _Sealed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: Token
    seal: str


class Tokens:
    """The tokens below `state`, and the key beside them. `wall_s` is CLOCK_REALTIME."""

    def __init__(
        self, state: Path, *, sys: Path = Path("/sys"), kernel: str = "", wall_s: Callable[[], float] = time.time
    ) -> None:
        self._state = state
        self._btf = sys / "kernel/btf/vmlinux"
        self._kernel = kernel or os.uname().release
        self._wall_s = wall_s

    @property
    def kernel(self) -> tuple[str, str]:
        """Release of this kernel and SHA-256 of its types. Raises AsaError without types."""
        try:
            return self._kernel, _digest(self._btf)
        except OSError as error:
            raise AsaError(f"{self._btf}: {error.strerror}; no token can name this kernel") from error

    def issue(self, policy: SchedulerName, sha256: str, flags: tuple[str, ...], stages: tuple[str, ...]) -> Token:
        """Seal and keep a token for this kernel. Raises AsaError."""
        kernel, btf = self.kernel
        token = Token(
            policy=policy,
            sha256=sha256,
            flags=flags,
            kernel=kernel,
            btf=btf,
            stages=stages,
            until_s=int(self._wall_s()) + DAYS * 86_400,
        )
        path = self._path(policy)
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            sealed = _Sealed(token=token, seal=_seal(self._key(make=True), token))
            files.replace(path, wire.json_bytes(sealed) + b"\n", mode=0o644, durable=True)
        except OSError as error:
            raise AsaError(f"{error.filename or path}: cannot be written: {error.strerror}") from error
        return token

    def withdraw(self, policy: SchedulerName) -> bool:
        """The policy has no token any more; False when it had none. Raises AsaError when it stays."""
        path = self._path(policy)
        try:
            path.unlink()
            files.sync_folder(path.parent)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise AsaError(f"{path}: cannot be removed: {error.strerror}; remove it by hand") from error
        return True

    def wrong(self, policy: SchedulerName, sha256: str, flags: tuple[str, ...], stages: tuple[str, ...]) -> str:
        """Why this file may not run with these flags on this kernel, in one line; "" when its token says it may.

        `stages`: those that have to have been passed.
        """
        again = f"`asa lab verify {policy} --token` makes a new one"
        try:
            body = read_own(self._path(policy), _LIMIT_BYTES, never=0o022)
            if body is None:
                return f"composed or tuned, and without a token of the verifier; {again}"
            sealed = wire.from_json(body, _Sealed)
            if not hmac.compare_digest(sealed.seal.encode(), _seal(self._key(make=False), sealed.token).encode()):
                return f"{self._path(policy)}: was changed, or sealed with another key; {again}"
            fault = self._fault(sealed.token, policy, sha256, flags)
            missing = [one for one in stages if one not in sealed.token.stages]
            fault = fault or (f"says nothing of the stage {missing[0]}" if missing else "")
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return f"{self._path(policy)}: is no token, or was changed; {again}"
        except AsaError as error:
            return f"{error}; {again}"
        return f"{self._path(policy)}: {fault}; {again}" if fault else ""

    def _fault(self, token: Token, policy: SchedulerName, sha256: str, flags: tuple[str, ...]) -> str:
        kernel, btf = self.kernel
        wrong = {
            f"is the token of {token.policy}": token.policy != policy,
            f"is of another file (SHA-256 {token.sha256[:12]}, this one {sha256[:12]})": token.sha256 != sha256,
            f"is of other flags ({' '.join(token.flags) or 'none'})": token.flags != flags,
            f"is of kernel {token.kernel}, and this is {kernel}": token.kernel != kernel,
            f"is of another build of kernel {kernel}": token.btf != btf,
            "has expired": token.until_s <= self._wall_s(),
        }
        return next((words for words, holds in wrong.items() if holds), "")

    def _path(self, policy: SchedulerName) -> Path:
        return self._state / _FOLDER / f"{policy.replace(':', '-')}.json"

    def _key(self, *, make: bool) -> bytes:
        path = self._state / _KEY
        found = read_own(path, _LIMIT_BYTES, never=0o077)
        if found is None:
            if not make:
                raise AsaError(f"{path}: is gone, and with it all tokens")
            found = secrets.token_bytes(_KEY_BYTES)
            files.replace(path, found, mode=0o600, durable=True)
        if len(found) != _KEY_BYTES:
            raise AsaError(f"{path}: is no key of {_KEY_BYTES} bytes; remove it")
        return found


def _seal(key: bytes, token: Token) -> str:
    return hmac.new(key, _WHAT + wire.json_bytes(token), hashlib.sha256).hexdigest()


@functools.cache  # a kernel's types are the same until it ends
def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
