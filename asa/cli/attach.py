# SPDX-License-Identifier: GPL-2.0-only
"""`asa report --attach`: gathers what a bug report needs, shows all of it, asks, and writes it to a new file."""

import os
import platform
import pwd
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from asa.config import Settings
    from asa.paths import Places
    from asa.report.attached import Mask, Parts
    from asa.report.figures import Report

_USERS_FROM, _NOBODY = 1000, 65534  # ids of people, as login.defs(5) has them


def run(out: Path, journal: Path, *, yes: bool) -> int:
    """0: written. 1: not, as nobody said yes. Raises AsaError for a file that exists or cannot be written."""
    from asa import files, paths
    from asa.cli.doctor import agreed
    from asa.core.errors import AsaError, InputError
    from asa.report import attached

    if os.path.lexists(out):
        raise InputError(path=str(out), key="", value="exists", allowed="the name of a new file")
    places = paths.default()
    text = attached.text(_parts(places, journal), _mask(places), time.time_ns())
    print(text, end="", flush=True)
    if not yes and not agreed(f"Write exactly this to {out}? [y/N] "):
        print("nothing was written")
        return 1
    try:
        files.replace(out, text.encode())
    except OSError as error:
        raise AsaError(f"{out}: cannot be written: {error.strerror}; name another file") from error
    print(f"{out}: written; read it once more before you give it away")
    return 0


def _mask(places: "Places") -> "Mask":
    from asa import paths
    from asa.act.portfolio import Portfolio
    from asa.cli.proof import shipped
    from asa.core.errors import AsaError
    from asa.report import attached

    people = [one for one in pwd.getpwall() if _USERS_FROM <= one.pw_uid < _NOBODY]
    users = {name for one in people for name in (one.pw_name, *one.pw_gecos.replace(",", " ").split())}
    try:
        own = set(Portfolio.of_host(_settings(places).switch, places.schedulers).modes()) - set(shipped())
    except AsaError:  # a broken manifest is a finding of its own
        own = set()
    common = paths.Places()
    mine = {"settings": places.config, "run": places.run, "cache": places.cache, "state": places.state}
    mine |= {"asa": paths.base_model().parents[2]}  # the program's folder
    told = {str(path): f"<{name}>" for name, path in mine.items() if path not in (common.config, common.run)}
    return attached.Mask(names=attached.names(os.uname().nodename, users, own), places=told)


def _parts(places: "Places", journal: Path) -> "Parts":
    from asa import doctor, paths, status, verdict
    from asa.cli import proof as command
    from asa.core.errors import AsaError
    from asa.decide import proof
    from asa.report import attached
    from asa.report.proof import of_host

    lacking: list[str] = []
    agent, found, lines = None, None, list[str]()
    try:
        agent = status.read(places.run) or status.read(paths.Places().run)
    except AsaError as error:
        lacking.append(f"agent: {error}")
    try:
        found = _newest(journal)
    except AsaError as error:
        lacking.append(f"journal: {error}")
    try:
        lines = list(command.lines(proof.redacted(of_host(places), command.shipped())))
    except AsaError as error:
        lacking.append(f"proof: {error}")
    findings = doctor.examine(places)
    return attached.Parts(
        machine=dict(_machine(places)),
        verdict=verdict.of(findings),
        findings=findings,
        settings=dict(_changed(places)),
        agent=agent,
        journal=found,
        proof=lines,
        lacking=lacking,
    )


def _newest(path: Path) -> "Report":
    from asa.report.gathering import gather
    from asa.report.reading import opened

    with opened(path) as journal:
        numbers = [one.number for one in journal.sessions()]
        return gather(journal, "", session=max(numbers, default=0))


def _machine(places: "Places") -> "Iterator[tuple[str, str]]":
    import asa
    from asa import host

    yield "asa", asa.__version__
    try:
        told = platform.freedesktop_os_release()
        yield "distribution", f"{told.get('ID', '')} {told.get('VERSION_ID', told.get('BUILD_ID', ''))}"
    except OSError:
        yield "distribution", "unknown"
    facts = host.facts(places.proc, places.sys)
    yield "kernel", os.uname().release
    yield "CPU", f"{facts.cpu_model}, {facts.cpus} CPUs, {facts.cores or 'unknown'} cores"
    yield "memory", f"{facts.memory_gb or 0.0:.0f} GB" if facts.memory_gb else "unknown"
    yield "python", platform.python_version()
    session = (os.environ.get("XDG_CURRENT_DESKTOP"), os.environ.get("XDG_SESSION_TYPE"))
    yield "desktop", " on ".join(filter(None, session)) or "unknown"


def _changed(places: "Places") -> "Iterator[tuple[str, str]]":
    from asa.cli import config

    for one in config.settings(_settings(places), {}):
        if one.value != one.default:
            yield one.key, str(one.value)


def _settings(places: "Places") -> "Settings":
    from asa import config
    from asa.core.errors import AsaError

    try:
        return config.load(places.config)
    except AsaError:  # the broken file is one of doctor's findings
        return config.Settings()
