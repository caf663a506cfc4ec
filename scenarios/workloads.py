# SPDX-License-Identifier: GPL-2.0-only
"""Workloads for `asa lab demo` and `asa lab record --campaign`: real programs from Debian packages, one load at a time.

Not the benchmark's: its applications, which play in pairs (S1 to S28), are in `scenarios.interactive` and
`scenarios.background`, listed in `scenarios.catalogue`. A new background load belongs there.

Makes argument lists out of a label, a seed and a setting; it starts nothing (`scenarios.player` does) and reads
nothing. A workload has several variants, that is different programs which load a machine in the same way, so that a
model learns the load and not one program. One more workload of this kind is one more entry in `WORKLOADS`.

All programs run until they are stopped, or end by themselves after some seconds and may then be started again.
None asks for a real-time policy: such threads would escape the scheduler under observation.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from asa.core.decision import Workload
from scenarios.application import SEVEN_ZIP, either


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where programs play: all that a variant may depend on besides its random numbers."""

    cpus: int
    disk: Path  # what fio reads and WRITES: a file, or a raw device in the lab
    disk_mb: int | None  # size of the file in MiB; None for a device, which is used whole
    port: int  # free on 127.0.0.1, TCP and UDP
    io_uring: bool  # the kernel lets this user have one
    lab: bool  # an emulated guest


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program to start. `argv[0]` is looked up on PATH and comes from the Debian package `package`."""

    package: str
    argv: tuple[str, ...]
    stdin: str = ""
    listens: int | None = None  # TCP port it opens; the next program starts only when it is open
    threads: int = 1  # that it has at least once it works; the dynamic linker of fio alone takes 15 s in the lab
    uses_disk: bool = False  # it works on `Setting.disk`, which has to be there


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to make a workload. `not_in_lab` says why an emulated guest cannot play it, "" when it can."""

    name: str
    make: Callable[[random.Random, Setting], tuple[Program, ...]]
    not_in_lab: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A declared workload: its label, what it is in one sentence, the packages of all its variants."""

    label: Workload
    sentence: str
    packages: tuple[str, ...]
    variants: tuple[Variant, ...]

    def playable(self, *, lab: bool) -> tuple[Variant, ...]:
        """Variants that may be played in this place, in declared order."""
        return tuple(variant for variant in self.variants if not (lab and variant.not_in_lab))


def variant_of(entry: Entry, seed: int, setting: Setting) -> Variant:
    """The variant for a seed: neighbouring seeds take different variants, so a few sessions already see several."""
    choice = entry.playable(lab=setting.lab)
    return choice[seed % len(choice)]


def programs(entry: Entry, seed: int, setting: Setting) -> tuple[Program, ...]:
    """What to start, in this order. The same entry, seed and setting give the same programs."""
    # Seeded by text, so that the workloads of one seed do not share their random numbers.
    return variant_of(entry, seed, setting).make(random.Random(f"{entry.label} {seed}"), setting)  # noqa: S311


def _program(package: str, *argv: object) -> Program:
    return Program(package=package, argv=tuple(str(word) for word in argv))


def _stress_ng(*words: object) -> tuple[Program, ...]:
    return (_program("stress-ng", "stress-ng", "--quiet", "--timeout", 0, *words),)


def _threads(rng: random.Random, setting: Setting) -> int:
    return rng.randint(setting.cpus, 2 * setting.cpus)


# idle: a desktop at rest is never fully silent


def _sleep(_rng: random.Random, _setting: Setting) -> tuple[Program, ...]:
    return (_program("coreutils", "sleep", "infinity"),)


def _vmstat(rng: random.Random, _setting: Setting) -> tuple[Program, ...]:
    return (_program("procps", "vmstat", "-n", rng.randint(1, 3)),)


def _top(rng: random.Random, _setting: Setting) -> tuple[Program, ...]:
    return (_program("procps", "top", "-b", "-d", rng.randint(3, 6)),)


# cpu: one thread or more a core, all of the time

_CPU_METHODS = ("int64", "int32double", "matrixprod", "fft", "sieve", "crc16", "queens", "trig", "hanoi", "bitops")


def _stress_cpu(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return _stress_ng("--cpu", _threads(rng, setting), "--cpu-method", rng.choice(_CPU_METHODS))


def _sysbench_cpu(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    threads = _threads(rng, setting)
    limits = ("--time=0", "--events=0", f"--cpu-max-prime={rng.choice((2_000, 10_000, 30_000))}")
    argv = ("sysbench", "cpu", f"--threads={threads}", *limits, "run")
    return (Program(package="sysbench", argv=argv, threads=1 + threads),)


def _openssl(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    # One size and a short time: its forked workers end soon even when nobody is left to stop them.
    how = rng.choice((("-evp", "aes-256-gcm"), ("-evp", "sha256"), ("-evp", "chacha20"), ("rsa2048",)))
    if how[0] == "-evp":
        how = ("-bytes", str(rng.choice((1_024, 16_384))), *how)
    return (_program("openssl", "openssl", "speed", "-seconds", 20, "-multi", _threads(rng, setting), *how),)


def _seven_zip(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    threads = max(2, setting.cpus)  # its benchmark wants an even share for coder and decoder
    return (_program("7zip", either(SEVEN_ZIP), "b", 1_000, f"-mmt{threads}", f"-md{rng.randint(18, 20)}"),)


# disk: the device itself, past the page cache


def _fio(setting: Setting, engine: str, jobs: int, *words: str) -> tuple[Program, ...]:
    size = () if setting.disk_mb is None else (f"--size={setting.disk_mb}M",)
    fixed = ("--name=disk", f"--filename={setting.disk}", *size, "--direct=1", "--thread", "--eta=never")
    how = ("--time_based", "--runtime=30d", f"--ioengine={engine}", f"--numjobs={jobs}", *words)
    return (Program(package="fio", argv=("fio", *fixed, *how), threads=1 + jobs, uses_disk=True),)


def _disk_random(rng: random.Random, setting: Setting, most_jobs: int = 4) -> tuple[Program, ...]:
    rw, block = rng.choice(("randread", "randwrite", "randrw")), rng.choice(("4k", "8k", "16k", "32k"))
    return _fio(setting, "psync", rng.randint(1, most_jobs), f"--rw={rw}", f"--bs={block}")


def _disk_queued(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    engine = rng.choice(("io_uring", "libaio")) if setting.io_uring else "libaio"
    mix = ("--rw=randrw", f"--rwmixread={rng.choice((30, 50, 70, 90))}", f"--bs={rng.choice(('4k', '8k', '16k'))}")
    return _fio(setting, engine, rng.randint(1, 2), *mix, f"--iodepth={rng.choice((2, 4, 8, 16))}")


def _disk_sequential(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    rw, block = rng.choice(("read", "write", "rw")), rng.choice(("64k", "128k", "256k"))
    return _fio(setting, "psync", rng.randint(1, 2), f"--rw={rw}", f"--bs={block}")


# wakeup: threads that pass messages, each wakes the next


def _hackbench(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    how = rng.choice(((), ("--pipe",), ("--threads",), ("--threads", "--pipe")))
    count = ("--groups", rng.randint(1, max(1, setting.cpus // 2)), "--fds", rng.randint(2, 5))
    return (_program("rt-tests", "hackbench", "--loops", 100_000_000, *count, *how),)


def _stress_messages(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return _stress_ng(rng.choice(("--pipe", "--mq", "--eventfd", "--msg")), _threads(rng, setting))


def _stress_switch(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return _stress_ng("--switch", _threads(rng, setting), "--switch-method", rng.choice(("pipe", "mq", "sem-sysv")))


# network: bytes through the loopback device


def _iperf(setting: Setting, *words: object) -> tuple[Program, ...]:
    here = ("-p", setting.port)
    server = Program(
        package="iperf3",
        argv=("iperf3", "-s", "-B", "127.0.0.1", "-p", str(setting.port), "-i", "0"),
        listens=setting.port,
    )
    return (server, _program("iperf3", "iperf3", "-c", "127.0.0.1", *here, "-t", 0, "-i", 0, *words))


def _tcp(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    way = rng.choice(((), ("-R",), ("--bidir",)))
    return _iperf(setting, "-P", rng.randint(1, 4), "-l", rng.choice(("8K", "32K", "128K")), *way)


def _udp(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    rate = rng.choice(("200M", "400M") if setting.lab else ("500M", "1G", "2G"))
    return _iperf(setting, "-u", "-b", rate, "-l", rng.choice(("1400", "8K", "16K")), "-P", rng.randint(1, 2))


# spawn: processes that live for a moment, as when something large is built


_NINE_P = "each exec reads its program through 9p: 9 to 24 a second, and the guest idles"


def _stress_fork(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return _stress_ng("--fork", _threads(rng, setting), "--fork-max", rng.choice((1, 4, 16)))


def _stress_vfork(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return _stress_ng("--vfork", _threads(rng, setting))


def _stress_threads(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return _stress_ng("--pthread", _threads(rng, setting), "--pthread-max", rng.choice((4, 8, 16)))


def _xargs(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    # /dev/zero is an endless list of empty words
    command = rng.choice((("/bin/true",), ("/bin/sh", "-c", ":"), ("/usr/bin/env", "true")))
    return (_program("findutils", "xargs", "-0", "-a", "/dev/zero", "-n", 1, "-P", _threads(rng, setting), *command),)


# frames: rt-app threads that wake by a timer, compute for a part of their period and sleep for the rest


def _rt_app(tasks: Mapping[str, object]) -> tuple[Program, ...]:
    # A calibration is needed only by `run` events (work by count); `runtime` (work by time) is the same load on any CPU
    general = {
        "duration": -1,
        "calibration": 100,
        "default_policy": "SCHED_OTHER",
        "lock_pages": False,
        "gnuplot": False,
    }
    text = json.dumps({"tasks": tasks, "global": general})
    return (Program(package="rt-app", argv=("rt-app", "-"), stdin=text, threads=1 + len(tasks)),)


def _periodic(period_us: int, share: float, **more: object) -> dict[str, object]:
    timer = {"ref": "unique", "period": period_us}
    return {"instance": 1, "loop": -1, "runtime": int(period_us * share), **more, "timer": timer}


def _frame_us(rng: random.Random) -> int:
    return rng.choice((8_333, 11_111, 16_667, 33_333))  # 120, 90, 60, 30 frames a second


def _game(rng: random.Random, _setting: Setting) -> tuple[Program, ...]:
    audio = _periodic(rng.choice((8_000, 10_000, 20_000)), rng.uniform(0.08, 0.2))
    return _rt_app({"frame": _periodic(_frame_us(rng), rng.uniform(0.35, 0.6)), "audio": audio})


def _chain(rng: random.Random, _setting: Setting) -> tuple[Program, ...]:
    # the game thread hands each frame over to a render thread
    period_us = _frame_us(rng)
    render = {"instance": 1, "loop": -1, "suspend": "render", "runtime": int(period_us * rng.uniform(0.25, 0.45))}
    logic = _periodic(period_us, rng.uniform(0.15, 0.3), resume="render")
    return _rt_app({"logic": logic, "render": render, "audio": _periodic(10_000, rng.uniform(0.08, 0.15))})


def _players(rng: random.Random, _setting: Setting) -> tuple[Program, ...]:
    # several streams of their own rhythm, as in an audio mixer or a wall of videos
    streams = {f"stream{i}": _periodic(_frame_us(rng), rng.uniform(0.15, 0.35)) for i in range(rng.randint(2, 3))}
    return _rt_app(streams)


# cpu+disk: both at once


def _computing(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return rng.choice((_stress_cpu, _sysbench_cpu, _openssl))(rng, setting)


def _cpu_and_random(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return (*_computing(rng, setting), *_disk_random(rng, setting, most_jobs=2))


def _cpu_and_queued(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return (*_computing(rng, setting), *_disk_queued(rng, setting))


def _cpu_and_sequential(rng: random.Random, setting: Setting) -> tuple[Program, ...]:
    return (*_computing(rng, setting), *_disk_sequential(rng, setting))


def _entry(label: str, sentence: str, packages: tuple[str, ...], *variants: Variant) -> Entry:
    return Entry(label=Workload(label), sentence=sentence, packages=packages, variants=variants)


WORKLOADS: tuple[Entry, ...] = (
    _entry(
        "idle",
        "nothing to do but a little housekeeping",
        ("coreutils", "procps"),
        Variant(name="sleep", make=_sleep),
        Variant(name="vmstat", make=_vmstat),
        Variant(name="top", make=_top),
    ),
    _entry(
        "cpu",
        "batch computing on all cores",
        ("7zip", "openssl", "stress-ng", "sysbench"),
        Variant(name="stress-ng", make=_stress_cpu),
        Variant(name="sysbench", make=_sysbench_cpu),
        Variant(name="openssl", make=_openssl),
        Variant(name="7zz", make=_seven_zip, not_in_lab="it prepares its data on one CPU for longer than a session"),
    ),
    _entry(
        "disk",
        "random or sequential reads and writes on the device",
        ("fio",),
        Variant(name="random", make=_disk_random),
        Variant(name="queued", make=_disk_queued),
        Variant(name="sequential", make=_disk_sequential),
    ),
    _entry(
        "wakeup",
        "threads that pass messages and wake each other",
        ("rt-tests", "stress-ng"),
        Variant(name="hackbench", make=_hackbench),
        Variant(name="messages", make=_stress_messages),
        Variant(name="switch", make=_stress_switch),
    ),
    _entry(
        "network",
        "a transfer over loopback TCP or UDP",
        ("iperf3",),
        Variant(name="tcp", make=_tcp),
        Variant(name="udp", make=_udp),
    ),
    _entry(
        "spawn",
        "processes and threads that are born and die all the time, as in a build",
        ("findutils", "stress-ng"),
        Variant(name="fork", make=_stress_fork),
        Variant(name="xargs", make=_xargs, not_in_lab=_NINE_P),
        Variant(name="vfork", make=_stress_vfork),
        Variant(name="threads", make=_stress_threads),
    ),
    _entry(
        "frames",
        "threads that compute a part of each frame or audio period, then sleep",
        ("rt-app",),
        Variant(name="game", make=_game),
        Variant(name="chain", make=_chain),
        Variant(name="players", make=_players),
    ),
    _entry(
        "cpu+disk",
        "batch computing on all cores while the disk works",
        ("fio", "openssl", "stress-ng", "sysbench"),
        Variant(name="cpu+random", make=_cpu_and_random),
        Variant(name="cpu+queued", make=_cpu_and_queued),
        Variant(name="cpu+sequential", make=_cpu_and_sequential),
    ),
)

LABELS: tuple[Workload, ...] = tuple(entry.label for entry in WORKLOADS)

PACKAGES: tuple[str, ...] = tuple(sorted({package for entry in WORKLOADS for package in entry.packages}))
"""Debian packages of all workloads, and of what the player itself needs, which every Debian has (util-linux)."""


def find(label: str) -> Entry | None:
    """The entry of a label, None when there is none."""
    return next((entry for entry in WORKLOADS if entry.label == label), None)
