# SPDX-License-Identifier: GPL-2.0-only
"""Takes over from daemons that load schedulers by themselves: stops and disables their units, and puts them back.

One that does so by orders to scx_loader (falcond, CachyOS's power-profiles-daemon) keeps its other work: scx_loader is
masked, since the bus would start it again at the next order.

How each unit was is on disk before the first is touched. Root alone; it asks nobody (`asa doctor --fix` does).
"""

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from asa import files, runfile, wire
from asa.act.rivals import LOADER_UNIT, Harm, Rival, by_loader
from asa.core.errors import AsaError

NAME = "taken-over.json"
"""Below the state folder of an installed ASA."""

_LIMIT_S = 100.0  # units end within TimeoutStopSec, 90 s by default
_LIMIT_BYTES = 1 << 16
_DISABLE = "systemctl disable --now"
_Unit = Annotated[str, Meta(pattern=r"^[A-Za-z0-9:_.@\\-]{1,255}\.service$")]

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a program; gives its exit code and what it printed."""


class Unit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A unit as it was before."""

    name: _Unit
    enabled: bool  # it started with the machine
    active: bool
    masked: bool = False  # by us


def units(found: Iterable[Rival], *, loader_is_ours: bool) -> tuple[str, ...]:
    """System units of those beside which ASA must not switch, in their order."""
    masters = (one for one in found if one.is_master(loader_is_ours=loader_is_ours) and one.harm is Harm.SWITCHES)
    names = (one.stop.removeprefix(f"{_DISABLE} ") for one in masters if one.stop.startswith(f"{_DISABLE} "))
    return tuple(dict.fromkeys(name for name in names if not name.startswith("-")))


def masks(found: Iterable[Rival], backend: str, states: Mapping[str, str]) -> tuple[str, ...]:
    """Units that must not be started by somebody's order either, in force or not.

    `backend` is the setting `switch.backend`, `states` from `unit_states`: scx_loader is spared where it will take our
    orders, which it does not by `auto` once it was stopped as a master (`units`).
    """
    every = tuple(found)
    stopped = units(every, loader_is_ours=by_loader(backend, states))
    ours = by_loader(backend, {name: state for name, state in states.items() if name not in stopped})
    return () if ours or not any(one.orders_loader for one in every) else (LOADER_UNIT,)


def commands(names: Iterable[str], masked: Iterable[str] = ()) -> tuple[str, ...]:
    """What `take` does to these, for people."""
    hidden = tuple(masked)
    every = tuple(dict.fromkeys((*names, *hidden)))
    return (*(f"{_DISABLE} {name}" for name in every), *(f"systemctl mask {name}" for name in hidden))


def systemctl(words: Sequence[str]) -> tuple[int, str]:
    """The `Run` of this machine. Raises AsaError where there is no systemctl."""
    try:
        done = subprocess.run(
            ["systemctl", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AsaError(f"systemctl {' '.join(words)}: {error}; do it by hand") from error
    return done.returncode, " ".join((done.stdout or done.stderr).split())


def is_masked(name: str, folder: Path = Path("/etc/systemd/system")) -> bool:
    """Does systemd start that unit for nobody? systemctl(1): a link to /dev/null."""
    return (folder / name).resolve() == Path("/dev/null")


def there(name: str, run: Run = systemctl) -> bool:
    """Has systemd a unit of that name?"""
    return run(("cat", name))[0] == 0


def take(names: Iterable[str], path: Path, run: Run = systemctl, masked: Iterable[str] = ()) -> tuple[Unit, ...]:
    """Stop these units and start them no more. Raises AsaError; `back` then puts back what was changed.

    Those of `masked` do not start by anybody's order either. `path` keeps how they were; what is there already stays,
    so that a second time forgets nothing.
    """
    hidden = tuple(masked)
    every = tuple(dict.fromkeys((*names, *hidden)))
    kept = {one.name: one for one in known(path)}
    for name in every:
        if name not in kept:
            enabled, active = (run((f"is-{what}", name))[1] == what for what in ("enabled", "active"))
            kept[name] = Unit(name=name, enabled=enabled, active=active)
        kept[name] = msgspec.structs.replace(kept[name], masked=kept[name].masked or name in hidden)
    _write(path, kept.values())
    for words in (*(("disable", "--now", name) for name in every), *(("mask", name) for name in hidden)):
        code, said = run(words)
        if code:
            did = f"systemctl {' '.join(words)}"
            raise AsaError(f"{did} ended with {code}: {said!r}; asa doctor --undo puts back what changed")
    return tuple(kept.values())


def back(path: Path, run: Run = systemctl) -> tuple[Unit, ...]:
    """Put units back as they were, and forget them; () where none were taken over.

    Raises AsaError at the first that cannot be put back; it and those after it stay known. One that has gone with its
    package meanwhile is forgotten.
    """
    left = list(known(path))
    done = []
    while left:
        unit = left[0]
        for wanted, verb in ((unit.masked, "unmask"), (unit.enabled, "enable"), (unit.active, "start")):
            code, said = run((verb, unit.name)) if wanted else (0, "")
            if code and there(unit.name, run):
                raise AsaError(
                    f"systemctl {verb} {unit.name} ended with {code}: {said!r}; do it by hand, and try again"
                )
        done.append(left.pop(0))
        _write(path, left)
    return tuple(done)


def known(path: Path) -> tuple[Unit, ...]:
    """What was taken over and not put back. Raises AsaError for a file that is damaged, or not root's own."""
    body = runfile.read_own(path, _LIMIT_BYTES)
    if body is None:
        return ()
    try:
        return wire.from_json(body, tuple[Unit, ...])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AsaError(f"{path}: damaged: {error}; enable by hand the units that it names, and remove it") from error


def _write(path: Path, found: Iterable[Unit]) -> None:
    every = tuple(found)
    try:
        if every:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace(path, wire.json_bytes(every) + b"\n", mode=0o644, durable=True)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise AsaError(f"{path}: {error.strerror}; nothing was changed") from error
