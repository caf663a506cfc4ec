# SPDX-License-Identifier: GPL-2.0-only
"""Examines a host: what the agent needs here, what is there, what is not, and how to get it. Changes nothing."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from asa import config, host, paths, status, takeover
from asa.act import btf, in_kernel, limits, loader_facts, rivals
from asa.act.gate import unusable
from asa.act.kernel import sched_ext_state
from asa.act.portfolio import Available, Portfolio, Unavailable
from asa.adviser import record
from asa.adviser import settings as adviser
from asa.bus import BUS, Bus, BusError
from asa.clock import SystemClock
from asa.core import helper_api
from asa.core.decision import EEVDF, SchedulerName, SwitchOutcome
from asa.core.errors import AsaError, InputError, SchedulerError
from asa.core.sample import RawSample
from asa.decide import hints, learning, table
from asa.decide.learning import LEARNING
from asa.decide.trial_pairs import Verdict
from asa.install import selinux
from asa.model import in_use
from asa.verdict import Finding, Level
from collectors import display
from collectors.ebpf.collector import CORE_UNUSED
from collectors.ebpf.hooks import CONFIDENTIALITY, lockdown
from collectors.ebpf.layout import PROGRAMS, lost_without
from collectors.gnome.install import Condition, Installation
from collectors.sampler import HostSampler, standard
from collectors.sources import SOURCES
from models.runtime import Ensemble

_KERNEL = "a kernel of 6.12 or newer with CONFIG_SCHED_CLASS_EXT=y (Debian: linux-image-amd64 of trixie-backports)"
_ENGINES = {
    "compiled": "its compiled evaluator",
    "numpy": "NumPy, slower than the compiled evaluator, which does not load here",
}
_INSTALL = ("sudo", "asa", "schedulers", "install")
_RECORD = "sudo asa schedulers record, after an update of the package that it is from"
_USE_IT = "; or have ASA give it orders: switch.backend: loader"
_FIX = "; sudo asa doctor --fix does it, and --undo puts it back"
_UNITS = (Path("/usr/lib/systemd/user/asa.service"), Path("/etc/systemd/user/asa.service"))  # of an installed ASA
_SYSTEMD = Path("/run/systemd/system")  # there where it has booted this machine: sd_booted(3)
_PROBES = "ebpf"
_START = ("systemctl", "--user", "start", "asa.service")
_GNOME = ("asa", "gnome", "install")
_REMEDIES = {  # of optional sources
    "desktop": "in a GNOME session: asa gnome install",
    "ebpf": "asa run --ebpf=off does without",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What is asked of the system itself, not of its files; tests pass their own."""

    uid: int
    helper: bool  # the root helper answers on the bus, or is started when somebody calls it
    units: Mapping[str, str]  # ActiveState of rivals' units
    release: str  # the kernel's
    gate: Callable[[Path], str]  # why switching by the gate is impossible, "" where it works
    loader: loader_facts.LoaderFacts | None = None  # what a running scx_loader says

    @classmethod
    def here(cls) -> Self:
        """This system."""
        return cls(
            uid=os.geteuid(),
            helper=_helper_there(),
            units=rivals.unit_states(),
            release=os.uname().release,
            gate=unusable,
            loader=_loader_facts(),
        )


def examine(places: paths.Places, around: Around | None = None) -> list[Finding]:
    """All findings, the needed ones first; `verdict.of` says what they come to."""
    around = around or Around.here()
    findings = [*_kernel(places, around.release), _privilege(around), *_switching(places, around)]
    findings.extend(_inputs(places))
    findings.extend(_sources(places, by_helper=around.helper and around.uid != 0))
    findings.extend(_screens(places))
    findings.extend(_rivals(places, around.units))
    findings.extend(_loader(places, around))
    # an installation takes the schedulers along, so it comes after them
    findings.extend([*_contexts(places), *_installed(around), *_starts(places)])
    return findings


def _kernel(places: paths.Places, release: str) -> Iterator[Finding]:
    state = sched_ext_state(places.sys)
    if state is not None:
        text = f"{state.state}, {state.ops or 'eevdf'} in force"
        yield Finding(subject="sched_ext", level=Level.OK, text=text, needed=True)
        yield from _in_kernel(places)
    else:
        option = host.kernel_option("CONFIG_SCHED_CLASS_EXT", release=release)
        said = {None: "its configuration is not in /boot", "n": "CONFIG_SCHED_CLASS_EXT is not set"}.get(option, "")
        text = f"kernel {release} has no {places.sys}/kernel/sched_ext{'; ' + said if said else ''}"
        yield Finding(subject="sched_ext", level=Level.MISSING, text=text, remedy=f"boot {_KERNEL}", needed=True)
    options = (Path(f"/boot/config-{release}"), places.proc / "config.gz")
    if not any(path.exists() for path in options):
        yield Finding(
            subject="kernel options",
            level=Level.WARNING,
            text=f"neither {options[0]} nor {options[1]} is there; most schedulers need one of them",
            remedy="install the kernel's own package, or boot one with CONFIG_IKCONFIG_PROC=y",
        )
    yield from _loading(places, sched_ext=state is not None)


def _in_kernel(places: paths.Places) -> Iterator[Finding]:
    """What of the schedulers in force a person should know, and of those of control groups, which ASA does not load."""
    for one in in_kernel.schedulers(places.sys):
        if one.sub_cgroup_id is not None:
            where = in_kernel.group(one.sub_cgroup_id, places.sys) or f"control group {one.sub_cgroup_id}"
            text = f"{one.ops} schedules {where}, and ends with the scheduler above it when ASA switches"
            yield Finding(subject="sub-scheduler", level=Level.WARNING, text=text)
        if one.trouble:
            yield Finding(subject=f"events of {one.ops}", level=Level.OK, text=one.trouble)


def _loading(places: paths.Places, *, sched_ext: bool) -> Iterator[Finding]:
    """What loading a scheduler needs of the kernel beside sched_ext itself."""
    types = places.sys / "kernel/btf/vmlinux"
    why, remedy = btf.fault(types, sched_ext=sched_ext)
    text = f"{why}; most sched_ext schedulers, or all, do not load so" if why else "is there and well formed"
    yield Finding(
        subject="BTF", level=Level.MISSING if why else Level.OK, text=f"{types} {text}", remedy=remedy, needed=True
    )
    mode = lockdown(places.sys, places.proc)
    if mode == CONFIDENTIALITY:
        yield Finding(
            subject="lockdown",
            level=Level.MISSING,
            text=f"the kernel is locked down ({mode}): it refuses programs that read its memory, as most schedulers do",
            remedy="boot with lockdown=integrity, or without lockdown=; kernel_lockdown(7)",
            needed=True,
        )
    elif mode not in ("", "none"):
        yield Finding(subject="lockdown", level=Level.OK, text=f"{mode}, which lets schedulers load")
    cpus = in_kernel.isolated(places.sys)
    if cpus:
        text = f"CPUs {cpus} are isolated, and the kernel refuses every sched_ext scheduler beside that"
        remedy = "boot without isolcpus=, and make no isolated cpuset partition"
        yield Finding(subject="isolated CPUs", level=Level.MISSING, text=text, remedy=remedy, needed=True)
    yield from _refused(places)


def _refused(places: paths.Places) -> Iterator[Finding]:
    """What a load was refused for last, by the running agent's word."""
    try:
        agent = status.read(places.run)
    except AsaError:
        return  # of another version: `asa status` says so
    last = {one.new: one for one in (agent.lately if agent is not None else ())}  # the newest of each
    for name, one in last.items():
        if one.outcome == SwitchOutcome.REFUSED and one.detail:
            text = f"was refused when it was tried last: {one.detail}"
            yield Finding(subject=f"load of {name}", level=Level.WARNING, text=text)


def _privilege(around: Around) -> Finding:
    if around.uid == 0:
        return Finding(subject="root", level=Level.OK, text="running as root", needed=True)
    if around.helper:
        text = f"running as user {around.uid}; the root helper ({helper_api.BUS_NAME}) switches for it"
        return Finding(subject="root", level=Level.OK, text=text, needed=True)
    if paths.is_installed():
        text = f"user {around.uid} is not root, and the system's bus does not find the root helper"
        remedy = "reload that bus, or start the machine anew (systemctl reload dbus); or: sudo asa run"
        return Finding(subject="root", level=Level.MISSING, text=text, remedy=remedy, needed=True)
    text = f"user {around.uid} is not root, and no root helper ({helper_api.BUS_NAME}) is installed"
    remedy = "install ASA (docs/install.md), or: sudo asa run"
    return Finding(subject="root", level=Level.MISSING, text=text, remedy=remedy, needed=True)


def _helper_there() -> bool:
    try:
        bus = Bus.system()
    except BusError:
        return False
    try:
        (startable,) = bus.ask(*BUS, "ListActivatableNames", "", ())
        (owned,) = bus.ask(*BUS, "NameHasOwner", "s", (helper_api.BUS_NAME,))
        return owned is True or helper_api.BUS_NAME in startable
    except (BusError, ValueError, TypeError):  # what answers is no bus as we know it
        return False
    finally:
        bus.close()


def _loader_facts() -> loader_facts.LoaderFacts | None:
    try:
        bus = Bus.system()
    except BusError:
        return None
    try:
        return loader_facts.ask(bus)
    finally:
        bus.close()


def _installed(around: Around) -> Iterator[Finding]:
    """That this program is none that the machine knows, where it was not installed."""
    if not paths.is_installed() and not around.helper:
        words = ("sudo", "asa", "install")
        text = "this program is not installed on the machine: no session starts it, and no helper switches for it"
        yield Finding(subject="installation", level=Level.WARNING, text=text, remedy=" ".join(words), command=words)


def _switching(places: paths.Places, around: Around) -> Iterator[Finding]:
    # tried in a folder of its own: the agent's run folder may be somebody else's, and nothing is to change
    if around.uid != 0 or sched_ext_state(places.sys) is None:
        return  # what is lacking has been said
    wanted = switch_settings(places)
    if rivals.by_loader(wanted.backend, around.units):
        text = f"through scx_loader, as switch.backend says ({wanted.backend}): stop, then start, confirmed by sysfs"
        yield Finding(subject="switching", level=Level.OK, text=text)
        return
    with TemporaryDirectory(prefix="asa-doctor-") as folder:
        off = wanted.gate is config.Gate.OFF
        why = "switch.gate is off in the settings" if off else around.gate(Path(folder))
    if not why:
        text = "by the gate: the next scheduler loads beside the one in force, and others can stand by"
        yield Finding(subject="switching", level=Level.OK, text=text)
        return
    text = f"stop, then start, with seconds between them: {why}"
    yield Finding(subject="switching", level=Level.OK if off else Level.WARNING, text=text)


def switch_settings(places: paths.Places) -> config.SwitchSettings:
    """The section `switch` of the settings; the defaults where they cannot be read."""
    try:
        return config.load(places.config).switch
    except AsaError:
        return config.SwitchSettings()  # the broken file is a finding of its own


def _inputs(places: paths.Places) -> Iterator[Finding]:
    try:
        settings = config.load(places.config)
        yield Finding(subject="settings", level=Level.OK, text=_where(places))
        portfolio = Portfolio.of_host(settings.switch, places.schedulers)
        present = table.Present.of(portfolio)
        mapping = table.for_this_machine(portfolio.modes(), settings.table, places=places, present=present)
        yield _table(mapping)
        yield _learned(places)
        model = in_use(settings, places)
        judge = Ensemble.load(model)
        mapping.check(judge.classes)
        yield _model(model, judge)
        yield _hints(places, judge.hint_weight)
        yield _adviser(places)
        yield from _schedulers(portfolio, loads=sched_ext_state(places.sys) is not None)
        yield from _limits(places, portfolio)
    except AsaError as error:
        yield Finding(subject="input", level=Level.MISSING, text=str(error), remedy="correct that file", vital=True)


def _model(path: Path, judge: Ensemble) -> Finding:
    kinds = ", ".join(sorted({kind for use in judge.classes for kind in use.split("+")}))
    text = f"{path} knows {len(judge.classes)} uses, alone or in pairs: {kinds}; by {_ENGINES[judge.engine.name]}"
    return Finding(subject="model", level=Level.OK, text=text)


def _table(mapping: table.MappingTable) -> Finding:
    text = f"{mapping.path} ({mapping.machine})"
    if mapping.elsewhere:
        text = f"{text}; {mapping.elsewhere}"
    chosen = sum(mapping.wanted(name, ()) != EEVDF for name in mapping.rankings)
    text = f"{text}; {chosen} of {len(mapping.rankings)} classes may have another one than {EEVDF} by what was measured"
    path = Path(mapping.path)
    shipped = path.parent == paths.mapping_tables()
    if os.geteuid() == 0 and not shipped and (why := table.unsafe(path)):  # others' agents may do what they like
        text = f"{text}; {why}: they can choose among the schedulers of root's agent"
        remedy = "make it root's own file, in a folder that only root can write to"
        return Finding(subject="mapping table", level=Level.WARNING, text=text, remedy=remedy)
    if not mapping.stale:
        return Finding(subject="mapping table", level=Level.OK, text=text)
    text = f"{text}; stale: {'; '.join(f'{name}: {why}' for name, why in mapping.stale.items())}"
    return Finding(subject="mapping table", level=Level.WARNING, text=text, remedy="asa calibrate generalize")


def _hints(places: paths.Places, model_weight: float) -> Finding:
    found = hints.load(places.config, model_weight)
    mine = places.config.with_name(hints.NAME)
    changed = f", changed by {mine}" if paths.there(mine) else ""
    counts = f"{len(found.categories)} categories and {len(found.signals)} signals"
    return Finding(subject="hints table", level=Level.OK, text=f"{counts}{changed}; their weight is {found.weight:g}")


def _adviser(places: paths.Places) -> Finding:
    found = adviser.load(places.config)
    if found.use is not adviser.Use.SERVER:
        return Finding(subject="adviser", level=Level.OK, text=f"{found.use} ({adviser.NAME})")
    try:
        kept = record.of_server(record.load(places.state / record.NAME), found.url, found.model)
    except InputError as error:
        return Finding(subject="adviser", level=Level.WARNING, text=f"{error}; the agent begins it anew")
    passed = record.passed(kept.examined, len(adviser.table().first))
    exam = {None: "not examined yet", True: "examined", False: "knew too few programs, is not asked"}[passed]
    counts = f"its word counts {record.weight(kept.server):.2f} of 1 by {len(kept.server)} programs"
    who = f"{found.url} {kept.model}".strip()
    return Finding(subject="adviser", level=Level.OK, text=f"{who}: {exam}; {counts}")


def _learned(places: paths.Places) -> Finding:
    path = places.state / LEARNING
    try:
        kept = learning.load(path)
    except InputError as error:
        text = f"{error}; the agent moves it away when it starts, and begins anew"
        return Finding(subject="learning", level=Level.WARNING, text=text)
    if not kept.asked:
        return Finding(subject="learning", level=Level.OK, text=f"nothing yet ({path})")
    counts = Counter(one.verdict for one in kept.asked)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.ALIKE))
    text = f"schedulers tried here: {len(kept.asked)}, of these {verdicts} ({path})"
    return Finding(subject="learning", level=Level.OK, text=text)


def _where(places: paths.Places) -> str:
    return f"{places.config}" if places.config.exists() else f"defaults ({places.config} is not there)"


def _schedulers(portfolio: Portfolio, *, loads: bool) -> Iterator[Finding]:
    # `loads`: this kernel does; for another one nothing is built
    usable, here, absent = 0, list[str](), list[str]()
    for name in portfolio.names():
        found = portfolio.look(name)
        if isinstance(found, Unavailable) and (found.on_path or found.installable):
            (here if found.on_path else absent).append(name)
        elif isinstance(found, Available) and found.path is not None and (why := _changed(portfolio, name)):
            yield Finding(subject=name, level=Level.WARNING, text=why, remedy=_RECORD)
        elif isinstance(found, Available):
            usable += found.path is not None
            version = f" {found.version}" if found.version else ""
            yield Finding(
                subject=name, level=Level.OK, text=f"{found.origin}{version}: {found.path or 'in the kernel'}"
            )
        else:
            yield Finding(subject=name, level=Level.WARNING, text=found.reason)
    record = (*_INSTALL, *here)  # without names it would build all others, too
    if here and usable:
        text = f"on PATH, and not recorded: {', '.join(here)}"
        remedy = " ".join(record)
        yield Finding(subject="schedulers", level=Level.WARNING, text=text, remedy=remedy, command=record)
    if absent:
        text = f"not installed: {', '.join(absent)}"
        yield Finding(subject="more schedulers", level=Level.OK, text=text, remedy=f"{' '.join(_INSTALL)} NAME")
    if not usable:
        text = "no scheduler is installed beside the kernel's own"
        text += f"; {', '.join(here)} are on PATH, and not recorded" if here else ""
        command = record if here or loads else ()
        yield Finding(
            subject="schedulers",
            level=Level.MISSING,
            text=text,
            remedy=" ".join(record),
            needed=True,
            command=command,
        )


def _changed(portfolio: Portfolio, name: SchedulerName) -> str:
    """Why a switch to it would be refused: the file is not the recorded one, or in unsafe hands; "" for no reason."""
    try:
        os.close(portfolio.open(name).fd)
    except SchedulerError as error:
        return error.reason
    return ""


def _limits(places: paths.Places, portfolio: Portfolio) -> Iterator[Finding]:
    there = limits.found(places.sys)
    out = limits.heedless(there, portfolio.entries()) if there else frozenset[str]()
    if not out:
        return
    if switch_settings(places).respect_limits:
        yield Finding(subject="limits", level=Level.OK, text=limits.sentence(there, out))
    else:
        text = f"{limits.sentence(there, out)}; yet switch.respect_limits is false, and they are chosen"
        remedy = "switch.respect_limits: true in the settings"
        yield Finding(subject="limits", level=Level.WARNING, text=text, remedy=remedy)


def _sources(places: paths.Places, *, by_helper: bool) -> Iterator[Finding]:
    try:
        wanted = config.load(places.config).collect
    except AsaError:
        wanted = config.CollectSettings()  # the broken file is a finding of its own
    collectors = standard(places.proc, places.sys, wanted)
    sampler = HostSampler(collectors, SystemClock())
    sampler.open()
    try:
        sample = sampler.sample()
        missing = sampler.missing | sampler.failing
        backend = sampler.backends.get(_PROBES, "")
    finally:
        sampler.close()
    yield from _probes(wanted.ebpf, backend, missing)
    yield from _seen(sample)
    if by_helper and _needs_root(missing.get(_PROBES, "")):
        del missing[_PROBES]
        text = "the root helper loads the probes, and hands their counters to the agent of who sits here"
        yield Finding(subject="eBPF", level=Level.OK, text=text)
    for source, reason in missing.items():
        if source not in PROGRAMS and source != CORE_UNUSED:
            words = _GNOME if source == "desktop" and _lacks_extension() else ()
            remedy = _remedy(source, reason)
            yield Finding(subject=f"source {source}", level=Level.WARNING, text=reason, remedy=remedy, command=words)
    if not missing:
        yield Finding(subject="sources", level=Level.OK, text="all collectors can read this host")


def _lacks_extension() -> bool:
    """Is this a session of GNOME whose shell does not have the extension?"""
    if os.geteuid() == 0 or "GNOME" not in os.environ.get("XDG_CURRENT_DESKTOP", "").split(":"):
        return False
    with suppress(AsaError):
        return Installation(os.environ).status().condition in (Condition.ABSENT, Condition.OUTDATED)
    return False


def _needs_root(reason: str) -> bool:
    return "needs root" in reason


def _remedy(source: str, reason: str) -> str:
    if source == _PROBES and _needs_root(reason):
        return "sudo asa run"
    return _REMEDIES.get(source, "")


def _probes(wanted: config.Ebpf, backend: str, missing: dict[str, str]) -> Iterator[Finding]:
    if wanted is config.Ebpf.OFF:
        yield Finding(subject="eBPF", level=Level.OK, text="off, as the setting collect.ebpf says")
    elif backend:
        absent = [program for program in PROGRAMS if program in missing]
        text = (
            f"{backend}: {len(PROGRAMS) - len(absent)} of {len(PROGRAMS)} programs are in the kernel (asked: {wanted})"
        )
        yield Finding(subject="eBPF", level=Level.OK, text=text)
        if CORE_UNUSED in missing:
            yield Finding(subject=CORE_UNUSED, level=Level.WARNING, text=missing[CORE_UNUSED])
        for program in absent:
            text = f"{missing[program]}; unknown without it: {', '.join(lost_without(program))}"
            yield Finding(subject=f"eBPF {program}", level=Level.WARNING, text=text)


def _screens(places: paths.Places) -> Iterator[Finding]:
    found = display.screens(places.sys)
    if found is not None:
        yield Finding(subject="screens", level=Level.OK, text=display.words(found))


def _seen(sample: RawSample) -> Iterator[Finding]:
    # what the optional sources have to tell, for those that tell something
    for source in SOURCES:
        state = getattr(sample, source.parts[0])
        if source.told is not None and state is not None:
            yield Finding(subject=source.title, level=Level.OK, text=source.told(state))


def _rivals(places: paths.Places, states: Mapping[str, str]) -> Iterator[Finding]:
    backend = switch_settings(places).backend
    by_loader = rivals.by_loader(backend, states)
    found = rivals.found(places.proc, states)
    masked = takeover.masks(found, backend, states)
    for rival in found:
        text = f"{rival.name} is running ({rival.where}): {rival.text}"
        if rival.is_master(loader_is_ours=by_loader):
            text = f"{text}; while it runs, the helper switches nothing"
            remedy = rival.stop + (_USE_IT if rival.name == rivals.LOADER else "")
            remedy += _FIX if takeover.units((rival,), loader_is_ours=by_loader) else ""
            yield Finding(subject="rival", level=Level.MISSING, text=text, remedy=remedy, needed=True)
        elif rival.harm is rivals.Harm.NONE or (by_loader and rival.name == rivals.LOADER):
            yield Finding(subject="rival", level=Level.OK, text=text)
        elif rival.orders_loader and takeover.is_masked(rivals.LOADER_UNIT):
            text = f"{text}; {rivals.LOADER_UNIT} is masked, so that it has none started"
            yield Finding(subject="rival", level=Level.OK, text=text)
        elif rival.orders_loader and masked:
            remedy = f"systemctl mask --now {rivals.LOADER_UNIT}{_FIX}; or stop it: {rival.stop}"
            yield Finding(subject="rival", level=Level.WARNING, text=text, remedy=remedy)
        else:
            yield Finding(subject="rival", level=Level.WARNING, text=text, remedy=rival.stop)
    if not found:
        yield Finding(subject="rivals", level=Level.OK, text="no other daemon here sets schedulers or priorities")


def _loader(places: paths.Places, around: Around) -> Iterator[Finding]:
    """What scx_loader says, and which of ours it would refuse where it takes our orders."""
    if around.loader is None:
        return
    text, unknown = around.loader.sentence, ""
    if rivals.by_loader(switch_settings(places).backend, around.units):
        with suppress(AsaError):  # a broken file is a finding of its own
            portfolio = Portfolio.of_host(switch_settings(places), places.schedulers)
            names = [entry.name for entry in portfolio.entries() if entry.ops is not None]
            unknown = ", ".join(around.loader.unknown(names))
    text += f"; it refuses {unknown}" if unknown else ""
    remedy = f"switch.never: [{unknown}], so that none of these is chosen" if unknown else ""
    level = Level.WARNING if unknown else Level.OK
    yield Finding(subject="scx_loader", level=level, text=text, remedy=remedy)


def _contexts(places: paths.Places) -> Iterator[Finding]:
    """Whether SELinux knows the installed files as what they are."""
    mode = selinux.mode(places.sys)
    if not mode:
        return
    try:
        wrong = selinux.wrong(selinux.PLACES)
    except OSError as error:
        yield Finding(subject="SELinux", level=Level.OK, text=f"{mode}; contexts of files were not looked at: {error}")
        return
    if not wrong:
        yield Finding(subject="SELinux", level=Level.OK, text=f"{mode}; ASA's files have the contexts of the policy")
        return
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    words = ("sudo", "restorecon", "-R", *(str(place) for place in selinux.PLACES if place.exists()))
    text = f"{mode}; {wrong[0]}{more} lack the context that the policy gives: programs may be refused there"
    yield Finding(subject="SELinux", level=Level.WARNING, text=text, remedy=" ".join(words), command=words)


def _starts(places: paths.Places) -> Iterator[Finding]:
    """Whether anything starts an installed agent that does not run now."""
    try:
        running = status.read(places.run) or status.read(paths.Places().run)
    except AsaError:
        return
    if running is not None or not any(unit.exists() for unit in _UNITS):
        return
    if not _SYSTEMD.is_dir():
        text, remedy = "no systemd here, so nothing starts the agent", "have the init system run `asa run` as root"
        yield Finding(subject="start", level=Level.WARNING, text=text, remedy=remedy)
    elif (target := _target()) == "inactive":
        text = "this session does not reach graphical-session.target, so nothing starts the agent"
        remedy = f"put `exec {' '.join(_START)}` into the settings of your window manager"
        yield Finding(subject="start", level=Level.WARNING, text=text, remedy=remedy)
    elif target == "active":
        text, remedy = "the agent does not run, and would start with the next session", " ".join(_START)
        yield Finding(subject="start", level=Level.WARNING, text=text, remedy=remedy, command=_START)


def _target() -> str:
    """ActiveState of graphical-session.target of this user, in a session with a display; "" where nobody says."""
    if not (os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY")):
        return ""
    name, path = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
    try:
        bus = Bus.session()
    except BusError:
        return ""
    try:
        (rows,) = bus.ask(name, path, f"{name}.Manager", "ListUnitsByNames", "as", (["graphical-session.target"],))
        return str(rows[0][3])
    except (BusError, ValueError, LookupError, TypeError):  # what answers is not systemd as we know it
        return ""
    finally:
        bus.close()
