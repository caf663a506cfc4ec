# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the agent: typed, with defaults, read from one YAML file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec

from asa import yamlfile

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)]


class Voting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time-weighted probability voting (paper, Algorithm 1)."""

    window_s: Annotated[float, msgspec.Meta(gt=0.0, le=600.0)] = 6.0  # W; paper 5.5: 6 s
    threshold: Share = 0.3  # theta; the paper gives no value, this is a first choice that nothing was tuned on
    decay: Annotated[float, msgspec.Meta(gt=0.0, le=1.0)] = 0.8  # alpha; as above


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a decision may become a switch."""

    cooldown_s: Seconds = 10.0  # after a switch was confirmed or failed; paper 3.4 asks for one and gives no value
    dwell_s: Seconds = 2.0  # how long a class must have won before it may cause a switch


class SwitchSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits for a scheduler that comes and one that goes."""

    attach_limit_s: Annotated[float, msgspec.Meta(gt=0.0, le=600.0)] = 30.0
    stop_limit_s: Annotated[float, msgspec.Meta(gt=0.0, le=600.0)] = 10.0
    # Whose scheduler binaries are run besides root's own: their user can then run anything as root.
    trusted_owners: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = ()


class Ebpf(StrEnum):
    """Which way the eBPF programs come into the kernel."""

    AUTO = "auto"  # core where it loads, else bcc, else none
    CORE = "core"  # compile once, run everywhere: the shipped object through libbpf, needs the kernel's BTF
    BCC = "bcc"  # compiled on this machine by BCC in a child that ends
    OFF = "off"


class CollectSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which optional sources are opened. /proc and /sys are always read."""

    ebpf: Ebpf = Ebpf.AUTO
    desktop: bool = True  # GNOME Shell's extension, else X11
    gpu: bool = True
    groups: bool = True  # CPU time by control group


class JournalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the journal keeps and how often it writes."""

    size_mb: Annotated[float, msgspec.Meta(ge=1.0, le=100_000.0)] = 64.0
    commit_s: Seconds = 10.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a user may set. `table` and `model` default to what the package ships."""

    interval_s: Annotated[float, msgspec.Meta(ge=0.1, le=60.0)] = 1.0
    voting: Voting = Voting()
    policy: PolicySettings = PolicySettings()
    switch: SwitchSettings = SwitchSettings()
    collect: CollectSettings = CollectSettings()
    journal: JournalSettings = JournalSettings()
    table: str | None = None
    model: str | None = None


def load(path: Path, *, required: bool = False) -> Settings:
    """Settings from `path`; a missing file means the defaults unless `required`. Raises InputError."""
    if not required and not path.exists():
        return Settings()
    return yamlfile.load(path, Settings)
