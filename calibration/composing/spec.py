# SPDX-License-Identifier: GPL-2.0-only
"""What a composed scheduler is: one choice for each of five slots, and numbers in their ranges.

Reads a file of the form of `presets/`. Makes the C header that fills the slots of scx_compose.bpf.c, and an entry of a
manifest by which the agent knows the scheduler. Compiles nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec

from asa import yamlfile
from asa.act.knobs import Knobs, Number, Scale, Value
from asa.act.manifest import Composed, Heeded, SchedulerEntry
from asa.core.errors import InputError

PRESETS = Path(__file__).with_name("presets")
_ORDERS_OF_LENGTH = ("sjf", "ljf", "edf")


class Classes(StrEnum):
    """By what a task is of a class."""

    NONE = "none"
    NICE = "nice"  # 0: below nice 0, 1: nice 0, 2: above
    BURST = "burst"  # 0: runs for less than threshold-us between sleeps, 1: longer
    CGROUP = "cgroup"  # as the loader's --member lists them; 3: all others
    COMM = "comm"


CLASS_COUNTS: Mapping[Classes, int] = {
    Classes.NONE: 1,
    Classes.NICE: 3,
    Classes.BURST: 2,
    Classes.CGROUP: 4,
    Classes.COMM: 4,
}


class Order(StrEnum):
    """Who is first in a queue."""

    FIFO = "fifo"
    VTIME = "vtime"  # least run time by weight
    SJF = "sjf"  # shortest predicted burst
    LJF = "ljf"  # longest predicted job
    EDF = "edf"  # the class's period after it came


class Queues(StrEnum):
    """Which queues there are."""

    GLOBAL = "global"
    LLC = "llc"  # one for the CPUs that share the last cache; others are stolen from
    CPU = "cpu"
    CLASS = "class"


class Between(StrEnum):
    """Which class's queue is served. A head that waited for age-ms goes first, always."""

    NONE = "none"
    SHARES = "shares"  # the class with the least run time by its weight
    PRIORITY = "priority"  # the class with the least number


class Placement(StrEnum):
    """Where a task wakes if a CPU is idle."""

    DEFAULT = "default"  # as the kernel's own scx_bpf_select_cpu_dfl
    PREVIOUS = "previous"  # where it ran, then as default
    CORE = "core"  # on a core of which nothing runs, then as default


class Spec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file. `id` names the scheduler: scx_compose_ID."""

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    purpose: Annotated[str, msgspec.Meta(pattern=r"^[ -~]{1,200}$")]
    order: Order
    classes: Classes = Classes.NONE
    queues: Queues = Queues.GLOBAL
    between: Between = Between.NONE
    placement: Placement = Placement.DEFAULT
    parameters: dict[str, int] = {}  # name -> default, where it is another than the list's

    @property
    def name(self) -> str:
        """Of its program, and in a manifest."""
        return f"scx_compose_{self.id}"

    @property
    def slots(self) -> dict[str, StrEnum]:
        """Slot -> what fills it."""
        return {
            "classes": self.classes,
            "order": self.order,
            "queues": self.queues,
            "between": self.between,
            "placement": self.placement,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A number that the loader takes. `place`: where it lies in the program's read-only data."""

    place: str
    number: Number


def _of(place: str, unit: str, low: int, high: int, default: int, scale: Scale = Scale.LINEAR) -> Parameter:
    number = Number(unit=unit, low=low, high=high, default=default, scale=scale)
    return Parameter(place=place, number=number)


_WEIGHT = {"weight": _of("weight", "weight", 1, 1_000, 100, Scale.LOG)}
_PERIOD = {"period-us": _of("period_us", "us", 500, 100_000, 20_000, Scale.LOG)}
# 20 ms is the kernel's own slice (SCX_SLICE_DFL, include/linux/sched/ext.h), and what scx_simple lets a sleeper save.
_SLICE = {"slice-us": _of("slice_us", "us", 100, 20_000, 20_000, Scale.LOG)}
_LAG = {"lag-us": _of("lag_us", "us", 0, 100_000, 20_000)}
_THRESHOLD = {"threshold-us": _of("threshold_us", "us", 100, 100_000, 5_000, Scale.LOG)}
_EWMA = {"ewma-shift": _of("ewma_shift", "halvings", 1, 5, 2)}
_AGE = {"age-ms": _of("age_ms", "ms", 1, 1_000, 200, Scale.LOG)}  # far below the watchdog's 30 s
_CAP = {"cap-ms": _of("cap_ms", "ms", 1, 3_600_000, 600_000, Scale.LOG)}
_STEAL = {"steal-max": _of("steal_max", "queues", 0, 16, 16)}
_DEBT = {"debt-us": _of("debt_us", "us", 0, 100_000, 20_000)}


def parameters(spec: Spec) -> dict[str, Parameter]:
    """Those that the slots' choices read, with the spec's own defaults."""
    found = dict(_SLICE)
    if spec.order is Order.VTIME:
        found |= _LAG
    if spec.classes is Classes.BURST:
        found |= _THRESHOLD
    if spec.classes is Classes.BURST or spec.order is Order.SJF:
        found |= _EWMA
    if spec.between is not Between.NONE or spec.order in _ORDERS_OF_LENGTH:
        found |= _AGE
    if spec.order is Order.LJF:
        found |= _CAP
    if spec.order is Order.EDF:
        found |= _each(_PERIOD, spec.classes)
    if spec.queues in (Queues.LLC, Queues.CPU):
        found |= _STEAL
    if spec.between is Between.SHARES:
        # a control group has a weight of its own, which may change
        found |= _DEBT | (_each(_WEIGHT, spec.classes) if spec.classes is not Classes.CGROUP else {})
    return {name: _set(one, spec.parameters.get(name)) for name, one in found.items()}


def _each(kind: Mapping[str, Parameter], classes: Classes) -> dict[str, Parameter]:
    # one for each class
    return {
        f"{name}-{number}": Parameter(place=f"{one.place}[{number}]", number=one.number)
        for name, one in kind.items()
        for number in range(CLASS_COUNTS[classes])
    }


def _set(one: Parameter, value: int | None) -> Parameter:
    if value is None:
        return one
    return Parameter(place=one.place, number=msgspec.structs.replace(one.number, default=float(value)))


def preset_names() -> list[str]:
    """What ships."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def load(wanted: str, given: Mapping[str, int]) -> Spec:
    """A preset by its name, or a file; `given` over its parameters. Raises InputError."""
    if wanted in preset_names():
        path = PRESETS / f"{wanted}.yaml"
    elif "/" in wanted or wanted.endswith(".yaml"):
        path = Path(wanted)
    else:
        allowed = f"one of {', '.join(preset_names())}, or a file NAME.yaml"
        raise InputError(path="asa lab compose", key="PRESET", value=wanted, allowed=allowed)
    spec = yamlfile.load(path, Spec)
    check(spec, str(path))
    spec = msgspec.structs.replace(spec, parameters={**spec.parameters, **given})
    check(spec, "--param")
    return spec


def check(spec: Spec, path: str) -> None:
    """Raises InputError, which tells `path`, for slots that do not go together and parameters that cannot be."""
    by_class = spec.queues is Queues.CLASS
    if by_class and spec.classes is Classes.NONE:
        raise _wrong(path, "classes", spec.classes, "another than none with queues: class")
    if by_class != (spec.between is not Between.NONE):
        allowed = "shares or priority" if by_class else "none, unless queues is class"
        raise _wrong(path, "between", spec.between, allowed)
    if spec.classes is not Classes.NONE and not by_class and spec.order is not Order.EDF:
        raise _wrong(path, "classes", spec.classes, "none, unless queues is class or order is edf")
    known = {name: one.number for name, one in parameters(msgspec.structs.replace(spec, parameters={})).items()}
    for name, value in spec.parameters.items():
        if name not in known:
            raise _wrong(path, f"parameters.{name}", value, f"parameters of these slots: {', '.join(known)}")
        one = known[name]
        if not one.low <= value <= one.high:
            allowed = f"a whole number of {one.unit}, {one.low:.0f} to {one.high:.0f}"
            raise _wrong(path, f"parameters.{name}", value, allowed)


def _wrong(path: str, key: str, value: Value, allowed: str) -> InputError:
    shown = str(value) if isinstance(value, StrEnum) else value  # as a file has it
    return InputError(path=path, key=key, value=shown, allowed=allowed)


def header(spec: Spec) -> str:
    """The text of scx_compose_slots.h: names of the enumerations above and numbers, nothing else of the spec."""
    lines = [
        "/* SPDX-License-Identifier: GPL-2.0-only */",
        "/* Made by calibration/composing/spec.py. */",
        f'#define COMPOSED "{spec.id}"',
        f'#define COMPOSED_OF "{", ".join(f"{slot} {value}" for slot, value in spec.slots.items())}"',
        *(f"#define {slot.upper()} {slot.upper()}_{value.upper()}" for slot, value in spec.slots.items()),
        "#define PARAMETERS(X) \\",
    ]
    rows = []
    for name, one in parameters(spec).items():
        number = one.number
        numbers = f"{number.low:.0f}, {number.high:.0f}, {number.default:.0f}"
        rows.append(f'\tX("{name}", {one.place}, "{number.unit}", {numbers})')
    return "\n".join([*lines, " \\\n".join(rows)]) + "\n"


def entry(spec: Spec) -> SchedulerEntry:
    """As a manifest has it; where the program is on PATH the agent finds it."""
    return SchedulerEntry(
        name=spec.name,
        source=Composed(),
        purpose=spec.purpose,
        ops=spec.name.removeprefix("scx_"),
        help=("--help",),
        paper=False,
        knobs=Knobs(numbers={f"--{name}": one.number for name, one in parameters(spec).items()}),
        honours=(Heeded.WEIGHT,) if spec.classes is Classes.CGROUP and spec.between is Between.SHARES else (),
    )
