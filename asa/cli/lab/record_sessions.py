# SPDX-License-Identifier: GPL-2.0-only
"""What `asa lab record` records with: this machine's collectors, and a recorder for workloads or for scenarios."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asa.config import Ebpf
    from asa.core.decision import Workload
    from asa.journal import Journal
    from collectors.sampler import HostSampler
    from scenarios.application import Application, Tier
    from scenarios.catalogue import Scenario
    from scenarios.recorder import Recorder
    from scenarios.scenario_recorder import ScenarioRecorder


@contextmanager
def under(scheduler: str | None) -> Iterator[None]:
    """Inside, it is in force; None leaves things as they are. Raises AsaError."""
    if scheduler is None:
        yield
        return
    from asa import paths
    from asa.act.forcing import Forcing
    from asa.core.decision import SchedulerName
    from scenarios.player import find_stage

    places = paths.default()
    in_lab = find_stage(cache=places.cache, proc=places.proc).lab
    owners = [places.cache.stat().st_uid] if in_lab else []  # who built the schedulers on the host
    with Forcing(places, owners=owners) as forcing, forcing.hold(SchedulerName(scheduler)):
        yield


@contextmanager
def desktop(*, wanted: bool) -> Iterator[None]:
    """Inside, there is a GNOME Shell without a screen, that collectors and drivers find. Raises AsaError, OSError."""
    if not wanted:
        yield
        return
    import os
    import shutil
    from tempfile import TemporaryDirectory

    from asa.core.errors import SetupError
    from scenarios.programs.gnome import PROGRAMS, GnomeShell

    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    if lacking:
        raise SetupError(f"not on PATH: {', '.join(lacking)}; `asa lab setup --tests` installs a GNOME Shell")
    with TemporaryDirectory(prefix="asa-desktop-", ignore_cleanup_errors=True) as folder:
        shell = GnomeShell(Path(folder))
        before = {name: os.environ.get(name) for name in shell.environment}
        os.environ.update(shell.environment)
        try:
            yield
        finally:
            shell.stop()
            for name, value in before.items():
                os.environ.pop(name)
                os.environ.update({} if value is None else {name: value})


@contextmanager
def of_workloads(journal: "Journal", ebpf: "Ebpf | None") -> "Iterator[Recorder]":
    """Opens the collectors; inside, an ordinary kill is as Ctrl-C."""
    from asa import paths
    from asa.clock import SystemClock
    from scenarios.player import Player, find_stage
    from scenarios.recorder import Recorder, machine

    places = paths.default()
    stage = find_stage(cache=places.cache, proc=places.proc)
    with _sampler(ebpf) as sampler:
        yield Recorder(
            journal=journal,
            sampler=sampler,
            clock=SystemClock(),
            play=lambda label, seed: Player.start(label, seed=seed, stage=stage),
            machine=machine(lab=stage.lab, cpus=stage.cpus, proc=places.proc),
        )


@contextmanager
def of_scenarios(
    journal: "Journal", ebpf: "Ebpf | None", tier: "Tier | None", drawn: "Sequence[Workload] | None" = None
) -> "Iterator[ScenarioRecorder]":
    """The same for the benchmark's scenarios; without a tier the stand-ins in the lab, elsewhere the programs.

    `drawn`: to record sequences of these labels instead of single ones.
    """
    from asa import paths
    from asa.clock import SystemClock
    from asa.core.errors import InputError
    from scenarios import catalogue
    from scenarios.application import Tier
    from scenarios.player import find_stage
    from scenarios.recorder import machine
    from scenarios.scenario_recorder import ScenarioRecorder
    from scenarios.sequence_recorder import SequenceRecorder
    from scenarios.session import default_folder, place_for

    if drawn is not None and len(drawn) < 2:
        raise InputError(path="--labels", key="", value=",".join(drawn), allowed="two scenarios at least")
    places = paths.default()
    stage = find_stage(cache=places.cache, proc=places.proc)
    played = tier or (Tier.LAB if stage.lab else Tier.REAL)

    def find(label: str) -> "tuple[Scenario, tuple[Application, ...]]":
        scenario = catalogue.labelled(label)
        return scenario, catalogue.parts(scenario, played)

    with _sampler(ebpf) as sampler:
        make = ScenarioRecorder if drawn is None else partial(SequenceRecorder, labels=drawn)
        yield make(
            journal=journal,
            sampler=sampler,
            clock=SystemClock(),
            machine=machine(lab=stage.lab, cpus=stage.cpus, proc=places.proc),
            tier=played,
            tries=3,
            find=find,
            place=lambda application: place_for(application, cache=places.cache, tier=played),
            folder=default_folder(places.cache, lab=stage.lab),
            proc=places.proc,
            report=lambda line: print(f"asa: {line}", file=sys.stderr, flush=True),
        )


@contextmanager
def _sampler(ebpf: "Ebpf | None") -> "Iterator[HostSampler]":
    from msgspec.structs import replace

    from asa import config, paths
    from asa.act.priority import go_first
    from asa.clock import SystemClock
    from collectors.sampler import HostSampler, standard

    places = paths.default()
    settings = config.load(places.config)
    collect = settings.collect
    if ebpf is not None:
        collect = replace(collect, ebpf=ebpf)
    if settings.realtime:
        go_first()  # as the agent does: what it would see is what is recorded
    # Ctrl-C ends the programs on the way out; so must an ordinary kill
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with closing(HostSampler(standard(places.proc, places.sys, collect), SystemClock())) as sampler:
            sampler.open()
            for source, reason in sampler.missing.items():
                print(f"asa: {source}: {reason}; recorded without it", file=sys.stderr)
            yield sampler
    finally:
        signal.signal(signal.SIGTERM, before)
