# SPDX-License-Identifier: GPL-2.0-only
"""What the verifier catches of planted faults, and whether it fails sound schedulers.

Planted are those of `calibration.verify.corpus`, compiled with its own header, three files that are no sound objects,
and the kernel's negative selftests. These and the kernel's own schedulers come out of the source that the lab's kernel
was built from; of what is in its archive alone the source is verified. What neither object nor source gives away is
loaded in the lab, as bpftool does it; so is scx_simple, for the time that all stages take.
"""

import functools
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from asa import paths
from asa.act.portfolio import Available, Portfolio
from asa.core.decision import SchedulerName
from asa.core.errors import LabError
from calibration.composing import build
from calibration.verify import corpus, subject
from calibration.verify.lab import play
from calibration.verify.lab.play import Trial
from calibration.verify.objects import Kernel
from calibration.verify.report import Finding, Report, StageReport, Verdict
from calibration.verify.subject import Subject
from scenarios.guests import ready
from scenarios.lab import machines, scx_tree

_CLANG = ("clang-19", "-target", "bpf", "-g", "-O2", "-w", "-I", str(corpus.HOME))
_LIMIT_S = 600.0
_CPUS, _SOAK_S = 2, 60.0
_PLANTED = re.compile(r"_fails?(?:_\w+)?$|_bad_|_dbl_")  # as the kernel names its negative selftests
_PARTS = ("*/tools/sched_ext/scx_*.c", "*/tools/testing/selftests/sched_ext/*.bpf.c")


def caught() -> tuple[float, str]:
    """Of planted ones in per cent, by which stage, and which are not caught. Raises LabError, OSError."""
    reports = [one if one.verdict is Verdict.FAIL else _played(one) for one in _reports()[0]]
    stages = Counter(str(one.caught) for one in reports if one.caught)
    missed = [one.subject for one in reports if one.verdict is not Verdict.FAIL]
    said = ", ".join(f"{count} by the {stage}" for stage, count in stages.items())
    return (
        100.0 * (len(reports) - len(missed)) / len(reports),
        f"of {len(reports)}: {said}; not caught: {', '.join(missed) or 'none'}",
    )


def false_alarms() -> tuple[float, str]:
    """How many sound ones fail, and which are looked at. Raises LabError, OSError."""
    reports = _reports()[1]
    wrong = [one.subject for one in reports if one.verdict is Verdict.FAIL]
    unsure = [one.subject for one in reports if any(f.level == "doubt" and f.rule != "no-kernel" for f in _all(one))]
    said = f"failed: {', '.join(wrong) or 'none'}; inconclusive: {', '.join(unsure) or 'none'}"
    return float(len(wrong)), f"of {', '.join(one.subject for one in reports)}; {said}"


def seconds() -> tuple[float, str]:
    """All stages of scx_simple with a minute of soak, on this host. Raises LabError, OSError."""
    static = [sum(one.elapsed_s for one in report.stages) for report in _reports()[0] if len(report.stages) > 1]
    program = Portfolio.load(paths.manifest(), paths.default().schedulers).look(SchedulerName("scx_simple"))
    if not isinstance(program, Available) or program.path is None:
        raise LabError("scx_simple is not installed; run `asa schedulers install scx_simple`")
    trial = Trial(program=(str(program.path),), cpus=_CPUS, soak_s=_SOAK_S)
    stages = _in_lab(trial)
    parts = [f"{one.stage} {one.verdict} in {one.elapsed_s:.0f} s" for one in stages]
    said = f"scx_simple, {_CPUS} CPUs, {_SOAK_S:.0f} s of soak: {', '.join(parts)}"
    first = statistics.median(static)
    return (
        first + sum(one.elapsed_s for one in stages),
        f"{said}; object and source {first:.2f} s, median of {len(static)}, at most {max(static):.2f} s",
    )


def _in_lab(trial: Trial) -> tuple[StageReport, ...]:
    places = paths.default()
    tell = functools.partial(print, file=sys.stderr, flush=True)
    return tuple(play.stages(trial, places.cache, tell, places.state / "bench-policies"))


def _played(report: Report) -> Report:
    """What is planted and was not caught yet, with the stages in the lab; others as they are."""
    planted = {one.name: one for one in corpus.planted()}
    if report.subject not in planted:
        return report
    with tempfile.TemporaryDirectory(prefix="asa-verify-", dir=paths.default().cache / "lab") as name:
        source, made = Path(name) / "planted.bpf.c", Path(name) / "planted.bpf.o"
        source.write_text(corpus.loadable(planted[report.subject].source), "utf-8")
        cache, tell = paths.default().cache, functools.partial(print, file=sys.stderr, flush=True)
        tools = build.tree(cache, ready(cache, tell, machines.alike(_CPUS)).kernel, tell)
        scx_tree.compile_object(tools, source, made)
        stages = _in_lab(Trial(program=(str(made),), is_object=True, cpus=_CPUS, soak_s=0.0))
    return msgspec.structs.replace(report, stages=(*report.stages, *stages))


def _all(report: Report) -> list[Finding]:
    return [found for one in report.stages for found in one.findings]


@functools.cache
def _reports() -> tuple[tuple[Report, ...], tuple[Report, ...]]:
    """Of the planted ones, and of the sound ones."""
    with tempfile.TemporaryDirectory(prefix="asa-verify-") as name:
        folder = Path(name)
        planted = [subject.verify(one, (_kernel(),)) for one in _compiled(folder)]
        planted += [subject.verify(one, (_kernel(),)) for one in _spoiled(folder)]
        sound = []
        for path in _of_kernel(folder):
            report = subject.verify(subject.of_files([path], composed=False))
            if _PLANTED.search(path.name.removesuffix(".bpf.c")):
                planted.append(report)
            elif path.name.startswith("scx_"):
                sound.append(report)
        sound += [subject.verify(one) for one in _portfolio()]
    return tuple(planted), tuple(sound)


def _kernel() -> Kernel:
    # what the corpus' header declares are calls that Linux 6.18 has
    header = (corpus.HOME / "scx/common.bpf.h").read_text("utf-8")
    return Kernel("6.18", frozenset(re.findall(r"^extern [^;(]*?(\w+)\(", header, re.MULTILINE)))


def _compiled(folder: Path) -> list[Subject]:
    found = []
    for one in corpus.planted():
        source, made = folder / f"{one.name}.bpf.c", folder / f"{one.name}.bpf.o"
        source.write_text(one.source, "utf-8")
        done = subprocess.run(
            [*_CLANG, "-c", str(source), "-o", str(made)], capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
        if done.returncode:
            raise LabError(f"{one.name}: does not compile: {done.stderr.strip().splitlines()[0]}")
        found.append(Subject(name=one.name, object=made, source=source, composed=True))
    return found


def _spoiled(folder: Path) -> list[Subject]:
    whole = (folder / f"{corpus.planted()[0].name}.bpf.o").read_bytes()
    spoiled = {
        "cut-short": whole[: len(whole) // 2],
        "of-another-machine": whole[:18] + (183).to_bytes(2, "little") + whole[20:],  # EM_AARCH64
        "a-script": b"#!/bin/sh\nexec scx_simple\n",
    }
    for name, data in spoiled.items():
        (folder / name).write_bytes(data)
    return [Subject(name=name, object=folder / name, composed=True) for name in spoiled]


def _of_kernel(folder: Path) -> list[Path]:
    archives = sorted((paths.default().cache / "kernels/source").glob("linux_*.tar.xz"))
    if not archives:
        raise LabError("the lab's kernel has no source here; run `asa lab setup --guests`")
    words = ["tar", "--extract", "--file", str(archives[-1]), "--directory", str(folder), "--wildcards", *_PARTS]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    if done.returncode:
        raise LabError(f"{archives[-1]}: cannot be unpacked: {done.stderr.strip()}")
    return sorted(folder.glob("*/tools/**/*.bpf.c"))


def _portfolio() -> list[Subject]:
    portfolio = Portfolio.load(paths.manifest(), paths.default().schedulers)
    looked = [(name, portfolio.look(name)) for name in portfolio.names()]
    return [
        Subject(name=f"{name} (object)", object=one.path)
        for name, one in looked
        if isinstance(one, Available) and one.path is not None
    ]
