# SPDX-License-Identifier: GPL-2.0-only
"""Who else here loads schedulers or sets priorities: what it does to us, how bad that is, and what stops it.

Reads /proc and, where there is one, asks systemd over the bus for the state of units. Stops nobody. A scheduler that
somebody started by hand is none of these: sysfs shows it, and the agent goes on hold.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from asa.bus import Bus, BusError

LOADER = "scx_loader"
LOADER_UNIT = "scx_loader.service"
COMM_CHARACTERS = 15
"""What is left of a program's name in that of its process (TASK_COMM_LEN)."""

_PROFILES = "power-profiles-daemon"
_TELLS_LOADER = (
    "it was built to tell scx_loader, as CachyOS builds it, so that a power profile has a scheduler start; ASA holds "
    "until that ends"
)
_LARGEST_BYTES = 8 << 20  # of a program that is looked into
_ACTIVE = ("active", "activating", "reloading", "refreshing")
_ASK_LIMIT_S = 1.0
_SYSTEMD = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


class Harm(StrEnum):
    """What a rival does to us."""

    SWITCHES = "switches"  # loads schedulers by itself: with it, ASA must not switch
    MAY_SWITCH = "may-switch"  # would load one if somebody told it to; the kernel then shows it, and ASA holds
    PRIORITIES = "priorities"  # changes what schedulers and the model see; switching goes on
    NONE = "none"  # named so that nobody wonders


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """One that is here. `stop` is the command that ends it, for good where that can be."""

    name: str
    harm: Harm
    where: str  # "pid 812", "scx.service is active"
    text: str
    stop: str
    orders_loader: bool = False  # it tells scx_loader what to start, and nobody has asked it to

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.name} is running ({self.where}): {self.text}; stop it: {self.stop}"

    def is_master(self, *, loader_is_ours: bool) -> bool:
        """Does it load schedulers by itself? While it is here, ASA must not switch.

        `loader_is_ours`: what scx_loader runs was our order (`by_loader`); one that follows the load is a rival all
        the same.
        """
        return self.harm is Harm.SWITCHES and not (loader_is_ours and self.name == LOADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What /proc says of one."""

    pid: int
    parent: int
    uid: int  # real: who runs it, and not whose a setuid program is
    name: str  # at most 15 characters


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    name: str
    unit: str
    harm: Harm
    text: str
    orders_loader: bool = False


_KNOWN = (
    _Known(
        name="scx",
        unit="scx.service",
        harm=Harm.SWITCHES,
        text="it keeps the scheduler of /etc/default/scx loaded",
    ),
    _Known(
        name="scx-adapt",
        unit="scx-adapt.service",
        harm=Harm.SWITCHES,
        text="it chooses schedulers by load and pressure",
    ),
    _Known(
        name="falcond",
        unit="falcond.service",
        harm=Harm.MAY_SWITCH,
        text="it has scx_loader start a scheduler for each game, unless its configuration says scx_sched = none (in "
        "/etc/falcond/config.conf and the games' profiles); ASA holds until that ends",
        orders_loader=True,
    ),
    _Known(
        name="steamos-manager",
        unit="steamos-manager.service",
        harm=Harm.MAY_SWITCH,
        text="it has scx_loader start the scheduler that is chosen in its settings; ASA holds until that ends",
    ),
    _Known(
        name="scx-manager",
        unit="scx-manager.service",
        harm=Harm.MAY_SWITCH,
        text="a person chooses schedulers with it, by scx_loader; ASA holds until that ends",
    ),
    _Known(
        name="scxctl-ui",
        unit="scxctl-ui.service",
        harm=Harm.MAY_SWITCH,
        text="a person chooses schedulers with it, by scx_loader; ASA holds until that ends",
    ),
    _Known(
        name="tuned",
        unit="tuned.service",
        harm=Harm.PRIORITIES,
        text="its scheduler plug-in sets policies, priorities and CPU masks of tasks, as its profile says",
    ),
    _Known(
        name="system76-scheduler",
        unit="com.system76.Scheduler.service",
        harm=Harm.PRIORITIES,
        text="it sets nice values, I/O priorities, and the time slices of the kernel's own scheduler",
    ),
    _Known(
        name="ananicy",
        unit="ananicy.service",
        harm=Harm.PRIORITIES,
        text="it sets nice values and I/O priorities by program name",
    ),
    _Known(
        name="ananicy-cpp",
        unit="ananicy-cpp.service",
        harm=Harm.PRIORITIES,
        text="it sets nice values and I/O priorities by program name",
    ),
    _Known(
        name="gamemoded",
        unit="gamemoded.service",
        harm=Harm.NONE,
        text="it raises the priority of a game while that runs; where its scripts (gamemode.ini, [custom] start) start "
        "a scheduler, ASA holds until that ends",
    ),
    _Known(
        name=_PROFILES,
        unit="power-profiles-daemon.service",
        harm=Harm.NONE,
        text="it sets the platform's profile and the CPUs' energy preference, which ASA follows",
    ),
    _Known(
        name="tuned-ppd",
        unit="tuned-ppd.service",
        harm=Harm.NONE,
        text="it has TuneD set the platform's profile and the CPUs' energy preference, which ASA follows",
    ),
    _Known(
        name="tlp",
        unit="tlp.service",
        harm=Harm.NONE,
        text="it sets the platform's profile and the CPUs' energy preference, which ASA follows",
    ),
    _Known(
        name="auto-cpufreq",
        unit="auto-cpufreq.service",
        harm=Harm.NONE,
        text="it sets the CPUs' frequencies and energy preference, which ASA follows",
    ),
)


def found(proc: Path, states: Mapping[str, str] | None = None) -> tuple[Rival, ...]:
    """All that are here, the worst first. `states`: from `unit_states`."""
    states = states or {}
    everybody = tuple(processes(proc))
    rivals = [*_loader(proc, everybody, states), *_keepers(proc, everybody)]
    for known in _KNOWN:
        here = [one for one in everybody if one.name == known.name[:COMM_CHARACTERS]]
        if here:
            rivals.append(_running(proc, known, here[0]))
        elif is_active(states, known.unit) and not any(known.unit in rival.stop for rival in rivals):
            where = f"{known.unit} is {states[known.unit]}"
            stop = f"systemctl disable --now {known.unit}"
            told = known.orders_loader
            rivals.append(
                Rival(name=known.name, harm=known.harm, where=where, text=known.text, stop=stop, orders_loader=told)
            )
    order = tuple(Harm)
    return tuple(sorted(rivals, key=lambda rival: order.index(rival.harm)))


def masters(proc: Path, states: Mapping[str, str] | None = None, *, loader_is_ours: bool = False) -> tuple[Rival, ...]:
    """Those beside which ASA must not switch, see `Rival.is_master`."""
    return tuple(rival for rival in found(proc, states) if rival.is_master(loader_is_ours=loader_is_ours))


def by_loader(backend: str, states: Mapping[str, str]) -> bool:
    """Does the setting `switch.backend` mean scx_loader here? `auto`: where its unit is active."""
    return backend == "loader" or (backend == "auto" and is_active(states, LOADER_UNIT))


def unit_states(bus: Bus | None = None) -> dict[str, str]:
    """ActiveState of the units of rivals; {} where no systemd answers. Waits a second at most."""
    names = [LOADER_UNIT, *(known.unit for known in _KNOWN)]
    try:
        connection = bus or Bus.system()
    except BusError:
        return {}
    try:
        (rows,) = connection.ask(*_SYSTEMD, "ListUnitsByNames", "as", (names,), limit_s=_ASK_LIMIT_S)
        return {str(row[0]): str(row[3]) for row in rows if isinstance(row, tuple)}
    except (BusError, ValueError, LookupError, TypeError):  # what answers is not systemd as we know it
        return {}
    finally:
        if bus is None:
            connection.close()


def is_active(states: Mapping[str, str], unit: str) -> bool:
    """Is it running, or about to be?"""
    return states.get(unit) in _ACTIVE


def processes(proc: Path) -> Iterator[Process]:
    """All that are there now; those that end meanwhile are left out."""
    for folder in proc.iterdir():
        if folder.name.isdigit():
            process = process_of(proc, int(folder.name))
            if process is not None:
                yield process


def process_of(proc: Path, pid: int) -> Process | None:
    """One process by its pid (proc_pid_status(5)); None when it is gone or a zombie."""
    try:
        text = (proc / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    try:
        if fields["State"][0] in "ZX":
            return None
        name, parent, uid = fields["Name"], int(fields["PPid"]), int(fields["Uid"].split()[0])
    except (LookupError, ValueError):
        return None
    return Process(pid=pid, parent=parent, uid=uid, name=name)


def _loader(proc: Path, everybody: Iterable[Process], states: Mapping[str, str]) -> Iterator[Rival]:
    # a name is anybody's to choose: only what root runs can load a scheduler
    loaders = [one for one in everybody if one.name == LOADER]
    for loader in loaders:
        words = _words(proc, loader.pid)
        theirs = [one.name for one in everybody if one.parent == loader.pid and one.name.startswith("scx_")]
        harm, name = Harm.MAY_SWITCH, LOADER
        text = "it loads a scheduler when somebody tells it to (scxctl, default_sched in its configuration)"
        if loader.uid == 0 and {"--auto", "-a"} & set(words):
            harm, name = Harm.SWITCHES, f"{LOADER} --auto"
            text = "it loads and unloads scx_lavd by the load of the processors"
        elif loader.uid == 0 and theirs:
            harm, text = Harm.SWITCHES, f"it has loaded {theirs[0]}"
        stop = _stop(proc, loader.pid)
        yield Rival(name=name, harm=harm, where=f"pid {loader.pid}", text=text, stop=stop)
    if not loaders and is_active(states, LOADER_UNIT):
        text = "it loads a scheduler when somebody tells it to"
        stop = f"systemctl disable --now {LOADER_UNIT}"
        where = f"{LOADER_UNIT} is {states[LOADER_UNIT]}"
        yield Rival(name=LOADER, harm=Harm.MAY_SWITCH, where=where, text=text, stop=stop)


def _keepers(proc: Path, everybody: Iterable[Process]) -> Iterator[Rival]:
    # any system unit whose main process is a scheduler, such as scx.service and sched-ext-nest.service
    for one in everybody:
        if one.uid != 0 or one.parent != 1 or not one.name.startswith("scx_") or one.name == LOADER:
            continue
        unit, of_user = _unit(proc, one.pid)
        if unit and not of_user and not unit.startswith("asa"):
            where = f"{unit}, pid {one.pid}"
            text = f"it keeps {one.name} loaded"
            stop = f"systemctl disable --now {unit}"
            yield Rival(name=unit.removesuffix(".service"), harm=Harm.SWITCHES, where=where, text=text, stop=stop)


def _running(proc: Path, known: _Known, process: Process) -> Rival:
    harm = Harm.NONE if known.harm is Harm.SWITCHES and process.uid != 0 else known.harm
    text, stop, orders_loader = known.text, _stop(proc, process.pid), known.orders_loader and process.uid == 0
    if known.name == _PROFILES and process.uid == 0 and _names_loader(_words(proc, process.pid)):
        harm, text, orders_loader = Harm.MAY_SWITCH, _TELLS_LOADER, True
    where = f"pid {process.pid}"
    return Rival(name=known.name, harm=harm, where=where, text=text, stop=stop, orders_loader=orders_loader)


def _names_loader(words: Iterable[str]) -> bool:
    # who calls another on the bus has its name in the program
    try:
        with Path(next(iter(words))).open("rb") as program:
            return b"org.scx.Loader" in program.read(_LARGEST_BYTES)
    except (OSError, StopIteration, ValueError):
        return False


def _stop(proc: Path, pid: int) -> str:
    unit, of_user = _unit(proc, pid)
    if not unit:
        return f"kill {pid}"
    return f"systemctl {'--user ' if of_user else ''}disable --now {unit}"


def _unit(proc: Path, pid: int) -> tuple[str, bool]:
    # the unit that systemd put it into ("" for none), and whether it is a user's
    try:
        text = (proc / str(pid) / "cgroup").read_text(errors="replace")
    except OSError:
        return "", False
    path = next((line[3:] for line in text.splitlines() if line.startswith("0::")), "")
    units = [part for part in path.split("/") if part.endswith(".service")]
    of_user = "/user.slice/" in path
    if not units or (of_user and len(units) == 1 and units[0].startswith("user@")):
        return "", of_user
    return units[-1], of_user


def _words(proc: Path, pid: int) -> list[str]:
    try:
        return (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []
