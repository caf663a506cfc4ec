# SPDX-License-Identifier: GPL-2.0-only
"""What a user asks of the running agent: one file for each request in the run folder, and SIGUSR1 to make it look.

The folder belongs to the agent's user, so only they (and root) can ask. A file is written whole before it has its name,
and read only if it belongs to that user or root. Does not carry answers: those show in the status (`asa.status`), for
which `ask` waits.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec

from asa import paths, runfile, status, wire
from asa.core.decision import Order, OrderKind, SchedulerName
from asa.core.errors import AsaError
from asa.core.evidence import SURE
from asa.status import Status

_MOST_WAITING = 16
_FILE_BYTES = 4096
_PREFIX = "request-"
_LIMIT_S = 3.0  # beyond the tick in which the agent shows what became of it
_LOOK_S = 0.02
_DAY_NS = 86_400 * 10**9

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # CLOCK_REALTIME in ns
_Client = Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[\w .:@/()+?-]*$")]
_Lease = Annotated[str, msgspec.Meta(max_length=64)]


class Resume(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="resume", forbid_unknown_fields=True):
    """Go on after a hold, and forget that schedulers failed: of one, or of all when `scheduler` is None."""

    scheduler: _Name | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="hold", forbid_unknown_fields=True):
    """Switch nothing, until then or until told to resume. A client's ends with its lease, too (`asa.lease`)."""

    until_ns: _Time | None = None
    client: _Client = ""
    lease: _Lease = ""


class Switch(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="switch", forbid_unknown_fields=True):
    """Bring this scheduler up, and hold. The guard judges a client's, which ends with its lease unless it is `kept`."""

    scheduler: _Name
    until_ns: _Time | None = None
    client: _Client = ""
    lease: _Lease = ""
    kept: bool = False


class Try(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="try", forbid_unknown_fields=True):
    """Try this scheduler for what is done now; None: the one in question, or the one that is next."""

    scheduler: _Name | None = None


class Untry(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="untry", forbid_unknown_fields=True):
    """End the trial under way; without one, the one in question is not to be tried."""


class Lapse(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="lapse", forbid_unknown_fields=True):
    """A client takes back what it had asked for with this lease. Nothing else changes."""

    lease: _Lease


class Hint(msgspec.Struct, frozen=True, kw_only=True, tag_field="request", tag="hint", forbid_unknown_fields=True):
    """A client says what the machine is used for. It ends with its lease, which is one of its own (`asa.lease`)."""

    use: Annotated[str, msgspec.Meta(pattern=r"^[a-z]{1,20}([+][a-z]{1,20})?$")]
    sure: Literal["low", "medium", "high"]
    until_ns: _Time
    client: _Client
    lease: _Lease


Request: TypeAlias = Resume | Hold | Switch | Try | Untry | Lapse | Hint


class RequestError(AsaError):
    """A request could not be handed over; nothing has changed."""


def send(folder: Path, request: Request) -> Path:
    """Leave it for the agent whose run folder this is; `wake` it then. The file is gone when the agent has taken it.

    Raises RequestError when this user may not, or when the agent does not take requests.
    """
    if len(_waiting(folder)) >= _MOST_WAITING:
        raise RequestError(f"{folder}: {_MOST_WAITING} requests wait already; the agent does not take them")
    path = folder / f"{_PREFIX}{time.monotonic_ns():020}-{os.getpid()}.json"
    try:
        runfile.write_whole(path, wire.json_bytes(request), mode=0o644)
    except PermissionError as error:
        raise RequestError(f"{folder}: only root may ask this agent: run it with sudo") from error
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def wake(pid: int, proc: Path = Path("/proc")) -> None:
    """SIGUSR1 to the agent, which then calls `take`. Raises RequestError.

    One that does not handle the signal would be ended by it, so it is asked first (SigCgt, proc_pid_status(5)).
    """
    try:
        pidfd = os.pidfd_open(pid)
        try:
            text = (proc / str(pid) / "status").read_text()
            caught = int(text.partition("\nSigCgt:")[2].split(maxsplit=1)[0], 16)
            if not caught >> (signal.SIGUSR1 - 1) & 1:
                raise RequestError(f"the agent (pid {pid}) takes no requests: not this version of asa; restart it")
            signal.pidfd_send_signal(pidfd, signal.SIGUSR1)
        finally:
            os.close(pidfd)
    except PermissionError as error:
        raise RequestError(f"the agent (pid {pid}) is another user's: run this as root") from error
    except (OSError, ValueError, IndexError) as error:
        raise RequestError(f"the agent (pid {pid}) has just ended") from error


def agent() -> tuple[Path, Status]:
    """Run folder and status of this user's agent, else the system's. Raises AsaError when none is running."""
    for folder in (paths.default().run, paths.Places().run):
        found = status.read(folder)
        if found is not None:
            return folder, found
    raise AsaError("no agent is running; `asa run` starts one")


def ask(
    folder: Path, agent: Status, request: Request, *, settled: Callable[[Status], bool], limit_s: float = 0.0
) -> Status:
    """Hand a request over and wait for a status that is `settled`, or for the latest when the time is over.

    The agent has `_LIMIT_S` and a tick to take it, and `limit_s` more to do it. Raises AsaError when it does not take
    it, RequestError when it may not be asked.
    """
    asked_ns, end_s = time.time_ns(), time.monotonic() + _LIMIT_S + agent.interval_s
    was_settled = settled(agent)  # then one from after the request was taken has to say so, not just a later one
    file = send(folder, request)
    latest, gone_ns = None, None
    try:
        wake(agent.pid, paths.default().proc)
        while True:
            if gone_ns is None and not file.exists():
                gone_ns = time.time_ns()  # taken some moment ago: a status from before this may still be the old one
            found = status.read(folder)
            if found is None:
                raise AsaError("the agent has just ended")
            if gone_ns is not None and settled(found) and found.updated_ns > (gone_ns if was_settled else asked_ns):
                return found
            if gone_ns is not None and found.updated_ns > gone_ns:
                end_s += limit_s if latest is None else 0.0
                latest = found
            if time.monotonic() > end_s:
                break
            time.sleep(_LOOK_S)
    finally:
        file.unlink(missing_ok=True)  # one that was not taken is not left for a later agent
    if latest is None:
        raise AsaError(f"the agent (pid {agent.pid}) has not answered within {_LIMIT_S + agent.interval_s:g} s")
    return latest


def order(request: Request, wall_ns: int) -> Order:
    """A request as the policy takes it, at `wall_ns` (CLOCK_REALTIME)."""
    match request:
        case Resume():
            scheduler = None if request.scheduler is None else SchedulerName(request.scheduler)
            return Order(kind=OrderKind.RESUME, scheduler=scheduler)
        case Try():
            return Order(
                kind=OrderKind.TRY,
                scheduler=None if request.scheduler is None else SchedulerName(request.scheduler),
            )
        case Untry():
            return Order(kind=OrderKind.UNTRY)
        case Lapse():
            return Order(kind=OrderKind.LAPSE, lease=request.lease)
        case Hint():
            return Order(
                kind=OrderKind.HINT,
                use=request.use,
                sure=SURE[request.sure],
                until_ns=request.until_ns,
                until=_until(request.until_ns, wall_ns),
                client=request.client,
                lease=request.lease,
            )
        case Hold():
            return Order(
                kind=OrderKind.HOLD,
                until_ns=request.until_ns,
                until=_until(request.until_ns, wall_ns),
                client=request.client,
                lease=request.lease,
            )
        case Switch():
            return Order(
                kind=OrderKind.SWITCH,
                scheduler=SchedulerName(request.scheduler),
                until_ns=request.until_ns,
                until=_until(request.until_ns, wall_ns),
                client=request.client,
                lease=request.lease,
                kept=request.kept,
            )


def _until(until_ns: int | None, wall_ns: int) -> str:
    """Local time, with the date when it is not within a day; "" when there is no end."""
    if until_ns is None:
        return ""
    form = "%H:%M" if until_ns - wall_ns < _DAY_NS else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(until_ns // 10**9))


def take(folder: Path) -> tuple[Request, ...]:
    """Requests that wait, the oldest first; they are taken away. What is not one, or not from this user, is dropped."""
    found: list[Request] = []
    for path in _waiting(folder)[:_MOST_WAITING]:
        try:
            body = runfile.read_own(path, _FILE_BYTES)
            if body is not None:
                found.append(wire.from_json(body, Request))
        except (AsaError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # the sender sees in the status that nothing came of it
        with suppress(OSError):
            path.unlink()
    return tuple(found)


def _waiting(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*.json"))
