# SPDX-License-Identifier: GPL-2.0-only
"""The part that runs in a guest, as root: `python -m calibration.harmless.guest`.

Plays one load, and in it plants one after another. Each has an agent of its own, a copy of this process, with its guard
on and its other settings as shipped. The use is what is played, and given: recognition is not what is asked here. Says
`end ID` once the result lies in the folder. Leaves the kernel on its own scheduler.
"""

import argparse
import ctypes
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import msgspec

import asa
from asa import paths, status, wire
from asa.act import policies
from asa.act.kernel import sched_ext_state
from asa.act.priority import go_first
from asa.assembly import Assembly
from asa.core import kinds
from asa.core.decision import Decision, Judgement, SchedulerName
from asa.core.errors import AsaError
from calibration.harmless.plants import MISSED_S, STARVER, VICTIM, Plant, Played, Sort
from models.runtime import Ensemble
from scenarios import planted
from scenarios.application import Tier
from scenarios.catalogue import applications
from scenarios.session import Session, default_folder, place_for

_SYS = Path("/sys")
_ATTACH_LIMIT_S = 240.0
_END_LIMIT_S = 120.0
_LOOK_S = 0.02
_LOAD_SETTLES_S = 3.0
_STATUS_EVERY_S = 0.5
_GONE_FOR_S = 60.0  # longer than a turn and the load of what has the next one
_PR_SET_NAME, _PR_SET_PDEATHSIG = 15, 1  # prctl(2)
_TAKEN_BACK = ("starves the machine", "regressed under")


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What is played: plants of one load."""

    plants: tuple[Plant, ...]
    out: str
    starver: str  # the program


def say(line: str) -> None:
    """Progress, for who waits outside."""
    print(line, flush=True)


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr when a plant could not be played."""
    parser = argparse.ArgumentParser(prog="python -m calibration.harmless.guest")
    parser.add_argument("orders", type=Path, help="a file")
    given = parser.parse_args(words)
    try:
        orders = wire.from_json(given.orders.read_bytes(), Orders)
        with ExitStack() as stack:
            _play_load(orders.plants[0].load, stack)
            for plant in orders.plants:
                say(f"begin {plant.id}")
                played = _plant(plant, Path(orders.starver))
                (Path(orders.out) / f"{plant.id}.json").write_bytes(wire.json_bytes(played))
                say(f"end {plant.id}")
    except (AsaError, OSError, msgspec.MsgspecError) as error:
        print(f"harmless_guest: {error}", file=sys.stderr)
        return 1
    return 0


def _play_load(load: str, stack: ExitStack) -> None:
    cache, known = paths.default().cache, applications(Tier.LAB)
    for name in load.split("+") if load else ():
        place = place_for(known[name], cache=cache, tier=Tier.LAB)
        session = Session.start(known[name], seed=1, place=place, folder=default_folder(cache, lab=True))
        stack.enter_context(session).await_ready()
        say(f"{name} plays")
    time.sleep(_LOAD_SETTLES_S)


def _plant(plant: Plant, starver: Path) -> Played:
    begun_ns = time.time_ns()
    folder = Path(mkdtemp(prefix="plant-"))
    folder.chmod(0o755)
    config = _settings(plant, folder, starver)
    with _agent(config, folder) as output:
        started_s = time.monotonic()
        _until(lambda: _attached() != "", _ATTACH_LIMIT_S, output, f"{plant.scheduler} did not come into force")
        attached_s = since_s = time.monotonic()
        with ExitStack() as stack:
            if plant.sort is Sort.STARVER:
                time.sleep(plant.waits_s)
                stack.enter_context(_victim())
                since_s = time.monotonic()
            watch = _gone_after(since_s)
        gone_s = time.monotonic()
    ticks = list(_ticks(output, since_s, gone_s))
    return Played(
        plant=plant,
        seconds=watch.seconds,
        under_s=watch.under_s,
        before_s=round(attached_s - started_s, 2),
        said="" if watch.seconds is None else _said(output),
        longest_tick_s=max((after - before for before, after in pairwise(ticks)), default=None),
        medians=watch.shown,
        kernel=os.uname().release,
        asa_version=asa.__version__,
        host_s=round((time.time_ns() - begun_ns) / 1e9, 1),
    )


@dataclass(slots=True)
class _Watch:
    """What was seen of a plant."""

    seconds: float | None = None  # until it had gone for good; None: it stays
    under_s: float = 0.0  # of these, in which it was in force
    shown: dict[str, dict[str, float | None]] = field(default_factory=dict)  # what the guard saw last


def _gone_after(since_s: float) -> _Watch:
    """Watch until it is barred, or has been away for `_GONE_FOR_S`. What goes for a turn comes back."""
    watch, looked_s, left_s, last_s = _Watch(), 0.0, None, since_s
    while (now_s := time.monotonic()) - since_s < MISSED_S:
        barred = False
        if now_s - looked_s >= _STATUS_EVERY_S:
            looked_s = now_s
            with suppress(AsaError):
                found = status.read(paths.Places().run)
                if found is not None:
                    barred = bool(found.barred)
                    watch.shown = {one.scheduler: one.medians for one in found.guard}
        if _attached():
            watch.under_s, left_s = round(watch.under_s + now_s - last_s, 2), None
        else:
            left_s = now_s if left_s is None else left_s
            if barred or now_s - left_s >= _GONE_FOR_S:
                watch.seconds = round(left_s - since_s, 2)
                return watch
        last_s = now_s
        time.sleep(_LOOK_S)
    return watch


def _settings(plant: Plant, folder: Path, starver: Path) -> Path:
    """A table of plants, the starver among the schedulers, and settings as shipped but for these. Gives their file."""
    cache = paths.default().cache
    owner = cache.stat().st_uid  # who built the schedulers on the host
    classes = Ensemble.load(paths.base_model()).classes
    label = kinds.among(plant.load or kinds.IDLE, classes)
    planted.write(folder / "table.yaml", dict.fromkeys(classes, (plant.scheduler,)))
    schedulers = folder / "cache/asa/scx"
    schedulers.mkdir(parents=True)
    records = json.loads((cache / "scx/installed.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(starver.read_bytes()).hexdigest()
    records["schedulers"][STARVER] = {
        **records["schedulers"]["scx_simple"],
        "path": str(starver),
        "sha256": digest,
        "flags": ["-s"],
    }
    (schedulers / "installed.json").write_text(json.dumps(records), encoding="utf-8")
    entry = {
        "name": STARVER,
        "source": {"kind": "host", "reason": "it is the lab's"},
        "purpose": "starves tasks on purpose",
        "ops": "starver",
        "help": ["-h"],
        "paper": False,
        "knobs": {"choices": {"-s": [VICTIM]}},
    }
    starving = SchedulerName.of(STARVER, "starving")
    policy = {
        "id": starving,
        "version": "1.0",
        "purpose": entry["purpose"],
        "flags": {"-s": VICTIM},
        "provenance": {"kind": "own"},
    }
    (folder / "policies").mkdir()
    (folder / "policies" / policies.file_name(starving)).write_text(json.dumps(policy), encoding="utf-8")
    (folder / "manifest.yaml").write_text(json.dumps({"schedulers": [entry]}), encoding="utf-8")
    whole = {
        "table": str(folder / "table.yaml"),
        "policy": {"learn": "off"},
        "switch": {"trusted_owners": [owner], "attach_limit_s": _ATTACH_LIMIT_S},
    }
    (folder / "asa.yaml").write_text(json.dumps(whole), encoding="utf-8")
    (folder / "label").write_text(label, encoding="utf-8")
    return folder / "asa.yaml"


@contextmanager
def _agent(config: Path, folder: Path) -> Iterator[Path]:
    """Inside, an agent runs; it ends with it. Gives the file of its words."""
    output = folder / "agent.out"
    pid = os.fork()
    if pid == 0:
        _become_agent(config, folder, output)
    try:
        yield output
    finally:
        os.kill(pid, signal.SIGINT)
        _await(pid, output)
        if _attached():
            raise AsaError(f"{_attached()} is still in force; the agent said: {_last(output)!r}")


def _become_agent(config: Path, folder: Path, output: Path) -> None:
    """As `asa run --config` does it; each line of the output is one JSON object."""
    code = 1
    try:
        os.setsid()
        with output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False, encoding="utf-8")  # noqa: SIM115
        os.environ |= {"XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
        paths.own_manifest = lambda: folder / "manifest.yaml"
        _hold_use((folder / "label").read_text(encoding="utf-8"))
        code = _run(config)
    except AsaError as error:
        print(json.dumps({"say": str(error)}))
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def _run(config: Path) -> int:
    def say(line: str) -> None:
        print(json.dumps({"say": line}), flush=True)

    def decided(decision: Decision) -> None:
        print(json.dumps({"tick_ns": decision.monotonic_ns}), flush=True)

    made = Assembly.open(paths.default(), config_path=config, observe=False, journal_path=None, say=say)
    try:
        if made.settings.realtime:
            go_first()
        agent = made.agent(say, decided)
        agent.run(None)
    finally:
        made.close()
    return 0 if agent.clean else 1


def _hold_use(label: str) -> None:
    """The model says each time that it is this use."""
    judge = Ensemble.judge

    def held(model: Ensemble, frame: "object") -> Judgement:
        judged = judge(model, frame)  # type: ignore[arg-type]
        classes = judged.probabilities.classes
        values = tuple(float(name == label) for name in classes)
        return replace(judged, known=True, probabilities=replace(judged.probabilities, values=values))

    Ensemble.judge = held  # type: ignore[method-assign,assignment]


@contextmanager
def _victim() -> Iterator[None]:
    """Inside, a task of that name wants a CPU a hundred times a second."""
    pid = os.fork()
    if pid == 0:
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NAME, VICTIM.encode())
        while True:
            time.sleep(0.01)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _attached() -> str:
    """ops of what is attached, "" for the kernel's own scheduler."""
    found = sched_ext_state(_SYS)
    return found.ops if found is not None and found.state == "enabled" else ""


def _until(holds: Callable[[], bool], limit_s: float, output: Path, else_said: str) -> None:
    end_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end_s:
            raise AsaError(f"{else_said} within {limit_s:g} s; the agent said: {_last(output)!r}")
        time.sleep(_LOOK_S)


def _await(pid: int, output: Path) -> None:
    def has_ended() -> bool:
        return os.waitpid(pid, os.WNOHANG)[0] == pid

    try:
        _until(has_ended, _END_LIMIT_S, output, "the agent did not end")
    except AsaError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _lines(output: Path) -> Iterator[dict[str, object]]:
    for line in output.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _ticks(output: Path, since_s: float, until_s: float) -> Iterator[float]:
    for line in _lines(output):
        at_ns = line.get("tick_ns")
        if isinstance(at_ns, int) and since_s <= at_ns / 1e9 <= until_s:
            yield at_ns / 1e9


def _said(output: Path) -> str:
    said = [str(line["say"]) for line in _lines(output) if "say" in line]
    return next((line for line in said if any(words in line for words in _TAKEN_BACK)), _last(output))


def _last(output: Path) -> str:
    with suppress(OSError):
        return " / ".join(output.read_text(encoding="utf-8", errors="replace").splitlines()[-2:])[-400:]
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
