# SPDX-License-Identifier: GPL-2.0-only
"""The part that runs in a guest, as root: `python -m calibration.verify.lab.guest ORDERS`.

Plays the probes under the kernel's own scheduler, then under the one that is verified, and tells each as a line of JSON
as soon as it is known: a guest that dies has told what came before. Judges nothing.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from asa import wire
from asa.act import in_kernel
from asa.act.kernel import sched_ext_state
from asa.act.priority import go_first
from asa.act.watch import KernelLog
from asa.core.errors import AsaError
from calibration.verify.lab import budget, gang, probes, programs
from calibration.verify.lab.judge import Probed, fallbacks

_SYS = Path("/sys")
_LINKS = Path("/sys/fs/bpf/asa-verify")
_ATTACH_S, _LEAVE_S, _BACK_S = 120.0, 20.0, 30.0
_LOOK_S = 0.02
_SETTLE_S = 1.0
_MOST_FAULTS = 3


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What is run. `program`: with its flags; of an object alone its path, and `is_object`."""

    program: tuple[str, ...]
    is_object: bool = False
    probes: tuple[str, ...] = ()  # () for the load stage alone
    cpus: int = 2
    soak_s: float = 0.0


def main(words: list[str]) -> int:
    """Entry point. Exit code 1 with one line on stderr where the guest itself is at fault."""
    try:
        orders = wire.from_json(Path(words[0]).read_bytes(), Orders)
        go_first()  # with SCHED_RESET_ON_FORK: what it starts is ordinary
        for one in _behaviour(orders) if orders.probes else _load(orders):
            print(wire.json_text(one), flush=True)
            gang.reap()
    except (AsaError, OSError, msgspec.MsgspecError, subprocess.SubprocessError) as error:
        print(f"verify: {error}", file=sys.stderr)
        return 1
    return 0


@dataclass(slots=True)
class Running:
    """The scheduler that is verified, by its program, or by bpftool where there is an object alone."""

    orders: Orders
    log: KernelLog = field(default_factory=KernelLog)
    child: "subprocess.Popen[bytes] | None" = None
    words: Path = Path("/tmp/asa-verify.log")  # noqa: S108  # a guest's own

    def start(self) -> str:
        """Why it is not in force, "" once it is."""
        with self.words.open("wb") as out:
            if self.orders.is_object:
                command = ["bpftool", "struct_ops", "register", self.orders.program[0], str(_LINKS)]
                done = subprocess.run(command, stdout=out, stderr=out, check=False, timeout=_ATTACH_S)
                if done.returncode:
                    return f"bpftool cannot load it: {self.said()}"
            else:
                self.child = subprocess.Popen(self.orders.program, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        if until(lambda: bool(self.ops()) or self.ended(), _ATTACH_S) and self.ops():
            return ""
        return f"not in force after {_ATTACH_S:.0f} s" if not self.ended() else f"it ended: {self.said()}"

    def end(self) -> str:
        """Why it did not end in order, "" when it did."""
        if self.orders.is_object:
            shutil.rmtree(_LINKS, ignore_errors=True)
        elif self.child is not None:
            self.child.send_signal(signal.SIGINT)
            if not until(self.ended, _LEAVE_S):
                self.child.kill()
                return f"still there {_LEAVE_S:.0f} s after SIGINT"
        return "" if until(lambda: not self.ops(), _LEAVE_S) else "the kernel does not let go of it"

    def ended(self) -> bool:
        """Its process has ended."""
        return self.child is not None and self.child.poll() is not None

    def ops(self) -> str:
        """What is in force, "" for the kernel's own."""
        found = sched_ext_state(_SYS)
        return found.ops if found is not None and found.state == "enabled" else ""

    def gone(self, ops: str) -> str:
        """Why it is not in force any more, "" while it is."""
        if self.ops():
            return ""
        found = self.log.why(ops)
        return f"{found.kind}: {found.reason}" if found is not None else f"nobody says why; it said {self.said()}"

    def said(self) -> str:
        """Its last words."""
        lines = self.words.read_text("utf-8", "replace").split("\n")
        return " / ".join([line.strip() for line in lines if line.strip()][-2:])[-300:]

    def bytes(self) -> float:
        """Of memory that its process and the kernel's maps have."""
        done = subprocess.run(["bpftool", "-j", "map", "show"], capture_output=True, check=False, timeout=_ATTACH_S)
        total = 0
        with suppress(msgspec.MsgspecError):
            total = sum(int(one.get("bytes_memlock", 0)) for one in wire.from_json(done.stdout, list))
        if self.child is not None:
            with suppress(OSError):
                pages = Path(f"/proc/{self.child.pid}/statm").read_text("ascii").split()[1]
                total += int(pages) * os.sysconf("SC_PAGE_SIZE")
        return float(total)


def until(holds: Callable[[], bool], limit_s: float) -> bool:
    """Wait for it. False: it did not come."""
    end_s = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > end_s:
            return False
        time.sleep(_LOOK_S)
    return True


def _load(orders: Orders) -> Iterator[Probed]:
    running, others, begun_s = Running(orders), programs.ids(), time.monotonic()
    why = running.start()
    yield Probed(probe="load", gone=why, values={"seconds": time.monotonic() - begun_s})
    if not why:
        ops = running.ops()
        yield Probed(probe=budget.PROBE, values=dict(programs.followed(others)))
        time.sleep(_SETTLE_S)
        yield Probed(probe="end", gone=running.gone(ops) or running.end())


def _behaviour(orders: Orders) -> Iterator[Probed]:
    played = [name for name in orders.probes if name in probes.EACH]
    for name in played:
        yield Probed(probe=name, own=True, values=dict(probes.EACH[name](orders.cpus)))
    running = Running(orders)
    if why := running.start():
        yield Probed(probe="attach", gone=why)
        return
    faults = 0
    for one in _under(running, orders, played):
        yield one
        faults += bool(one.gone or one.values.get("missing"))
        if one.gone or faults >= _MOST_FAULTS:
            break
    running.end()


def _under(running: Running, orders: Orders, played: list[str]) -> Iterator[Probed]:
    ops, before, grown = running.ops(), _events(), running.bytes()
    begun_s = time.monotonic()
    for name in played:
        yield _after(running, ops, name, probes.EACH[name](orders.cpus))
    if orders.soak_s and "soak" in orders.probes:
        yield _after(running, ops, "soak", probes.soak(orders.cpus, orders.soak_s))
    values: dict[str, float | None] = {"fallbacks_per_s": fallbacks(before, _events(), time.monotonic() - begun_s)}
    values["grown_bytes"] = running.bytes() - grown
    yield _after(running, ops, "counters", values)
    for name, do in (("hotplug", _hotplug), ("reload", _reload), ("kill", _kill)):
        if name in orders.probes:
            yield do(running, orders.cpus)


def _after(running: Running, ops: str, name: str, values: probes.Values) -> Probed:
    return Probed(probe=name, values=dict(values), gone=running.gone(ops))


def _hotplug(running: Running, cpus: int) -> Probed:
    ops, online = running.ops(), Path(f"/sys/devices/system/cpu/cpu{cpus - 1}/online")
    for word in ("0", "1"):
        online.write_text(word)
        time.sleep(_SETTLE_S)
    if until(lambda: bool(running.ops()) or running.ended(), _BACK_S) and running.ops():
        return Probed(probe="hotplug")
    why = running.log.why(ops)
    if why is not None and why.kind in ("error", "stall"):
        return Probed(probe="hotplug", gone=f"{why.kind}: {why.reason}")
    running.end()
    return Probed(probe="hotplug", gone=running.start(), note="it leaves when a CPU goes, and was started again")


def _reload(running: Running, _: int) -> Probed:
    why = ""
    for _turn in range(2):
        why = why or running.end() or running.start()
    return Probed(probe="reload", gone=why)


def _kill(running: Running, _: int) -> Probed:
    if running.child is None:
        return Probed(probe="kill", note="an object alone has no process to kill")
    running.child.kill()
    if not until(lambda: running.ended() and not running.ops(), _LEAVE_S):
        return Probed(probe="kill", gone="the kernel does not let go of it when it is killed")
    return Probed(probe="kill", gone=running.start())


def _events() -> Mapping[str, int]:
    found = in_kernel.schedulers(_SYS)
    return found[0].events if found else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
