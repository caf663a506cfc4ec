# SPDX-License-Identifier: GPL-2.0-only
"""What the distribution says of the programs at work: section, facets and synopsis of the package that each is from.

Sections are those of Debian Policy 2.4, facets those of Debtags (https://wiki.debian.org/Debtags) that tell a use, and
of the synopsis (Debian Policy 3.4.1) the words count that are not the package's name. Without dpkg nothing is known.
The program is the file that /proc/PID/exe names, which another user's process does not show. dpkg-query(1) and
apt-cache(8) are asked once for each file, for all new ones together, beside the tick: half a second of CPU time, and no
nicer than programs are, or a busy machine would never answer. Neither names nor paths leave this module.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asa.core.sample import PackageUse, ProcessUsage
from collectors.procfs.work import LEAST_CORES, Work

_FACETS = frozenset({"use", "works-with", "game", "sound", "web", "office", "devel", "admin", "hardware"})
_PACKAGE, _SECTION, _TAG, _SYNOPSIS = "Package", "Section", "Tag", "Description"
_MOST_FACETS, _LONGEST_FACET = 24, 48
_MOST_WORDS = 16
_WORD = re.compile(r"[a-z]{3,}")
_MOST_KEPT = 256  # files
_MOST_WAITING = 16
_MOST_BYTES = 1 << 20  # of an answer
_LIMIT_NS = 20_000_000_000  # for it
_PATTERN = frozenset("*?[\\")  # dpkg-query takes them for more than themselves

Ask = Callable[[Sequence[str]], "subprocess.Popen[str]"]


def _ask(words: Sequence[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pipesize=_MOST_BYTES,  # it is read when all is said
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
        process_group=0,  # apt-cache has children: it asks dpkg for the architectures
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    files: tuple[str, ...]
    packages: Mapping[str, str]  # of each file, once it is known
    child: "subprocess.Popen[str]"
    until_ns: int


class Packages:
    """A cache of files and what is said of them. `tools`: dpkg-query and apt-cache are there."""

    def __init__(
        self,
        proc: Path,
        now_ns: Callable[[], int] = time.monotonic_ns,
        *,
        ask: Ask = _ask,
        tools: bool | None = None,
        work: Work | None = None,
    ) -> None:
        self._proc, self._now_ns, self._ask = proc, now_ns, ask
        self._tools = all(map(shutil.which, ("dpkg-query", "apt-cache"))) if tools is None else tools
        self._known: dict[str, tuple[str, ...]] = {}  # by file
        self._waiting: dict[str, None] = {}
        self._asked: _Asked | None = None
        self._work = work or Work()

    def at_work(self, processes: tuple[ProcessUsage, ...]) -> tuple[PackageUse, ...] | None:
        """Those that used the CPU since the last call, the same facets together; None where nothing is told.

        `processes` are those of this tick. Never raises.
        """
        if not self._tools:
            return None
        now_ns = self._now_ns()
        self._hear(now_ns)
        cores: dict[tuple[str, ...], float] = {}
        for (pid, _), share in self._work.cores(processes, now_ns).items():
            if share >= LEAST_CORES and (facets := self._facets(pid)):
                cores[facets] = cores.get(facets, 0.0) + share
        if self._waiting and self._asked is None:
            self._start(tuple(self._waiting))
        return tuple(PackageUse(facets=facets, cores=round(used, 2)) for facets, used in sorted(cores.items()))

    def close(self) -> None:
        """Ask nobody any more. Never raises."""
        if self._asked is not None:
            self._give_up(self._asked.child)
        self._asked = None

    def _facets(self, pid: int) -> tuple[str, ...]:
        try:
            file = os.readlink(f"{self._proc}/{pid}/exe")  # noqa: PTH115  # each tick: no Path is made
        except OSError:
            return ()  # it has ended, or is another user's
        found = self._known.get(file)
        if found is None and len(self._waiting) < _MOST_WAITING and file.isprintable() and not _PATTERN & set(file):
            self._waiting[file] = None
        return found or ()

    def _hear(self, now_ns: int) -> None:
        asked = self._asked
        if asked is None or (asked.child.poll() is None and now_ns < asked.until_ns):
            return
        self._asked, text = None, self._answer(asked.child)
        if asked.packages:
            told = facets_of(text)
            self._learn({file: told.get(asked.packages.get(file, ""), ()) for file in asked.files})
        elif packages := packages_of(text, asked.files):
            self._start(asked.files, packages)
        else:
            self._learn(dict.fromkeys(asked.files, ()))

    def _start(self, files: tuple[str, ...], packages: Mapping[str, str] | None = None) -> None:
        # which packages the files are of, or what is said of these packages
        if packages:
            words = ["apt-cache", "show", "--no-all-versions", "--", *sorted(set(packages.values()))]
        else:
            words = ["dpkg-query", "--search", "--", *files, *filter(None, map(_other_name, files))]
        try:
            self._asked = _Asked(files, packages or {}, self._ask(words), self._now_ns() + _LIMIT_NS)
        except (OSError, subprocess.SubprocessError):
            self._learn(dict.fromkeys(files, ()))

    def _learn(self, told: Mapping[str, tuple[str, ...]]) -> None:
        for file, facets in told.items():
            self._waiting.pop(file, None)
            if len(self._known) >= _MOST_KEPT:
                del self._known[next(iter(self._known))]  # the oldest
            self._known[file] = facets

    def _answer(self, child: "subprocess.Popen[str]") -> str:
        if child.poll() is None:
            self._give_up(child)
            return ""
        with child:
            return child.stdout.read() if child.stdout else ""

    @staticmethod
    def _give_up(child: "subprocess.Popen[str]") -> None:
        if child.poll() is None:  # else its number may be another's
            with suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)
        with child:
            pass


def packages_of(text: str, files: Collection[str]) -> dict[str, str]:
    """Of these files the first package each in an answer of `dpkg-query --search`, without its architecture."""
    named = dict.fromkeys(files, "") | {other: file for file in files if (other := _other_name(file))}
    found: dict[str, str] = {}
    for line in text.splitlines():
        names, _, path = line.partition(": ")
        first = names.split(",")[0].partition(":")[0]
        if path in named and first and " " not in first:  # else a diversion
            found.setdefault(named[path] or path, first)
    return found


def facets_of(text: str) -> dict[str, tuple[str, ...]]:
    """By package in an answer of `apt-cache show`: the section, the facets, and the words of the synopsis, as
    `section::games`, `use::gameplaying` and `about::racing`, sorted."""
    found: dict[str, tuple[str, ...]] = {}
    for paragraph in text.split("\n\n"):
        fields = _fields(paragraph)
        found.setdefault(fields.get(_PACKAGE, ""), _facets(fields))
    return found


def _other_name(file: str) -> str:
    # where /bin is a link to /usr/bin, a package may have its files in either
    return file.removeprefix("/usr") if file.startswith("/usr/") else ""


def _facets(fields: Mapping[str, str]) -> tuple[str, ...]:
    section = fields.get(_SECTION, "").rpartition("/")[2]
    words = [f"section::{section}"] if section else []
    words += [word for word in fields.get(_TAG, "").replace(",", " ").split() if word.partition("::")[0] in _FACETS]
    name = _WORD.findall(fields.get(_PACKAGE, "").lower())
    about = [word for word in dict.fromkeys(_WORD.findall(fields.get(_SYNOPSIS, "").lower())) if word not in name]
    told = [f"about::{word}" for word in about[:_MOST_WORDS]]
    return tuple(sorted(word for word in {*sorted(set(words))[:_MOST_FACETS], *told} if len(word) <= _LONGEST_FACET))


def _fields(paragraph: str) -> Mapping[str, str]:
    # deb822(5); of a description the first line alone, its synopsis
    found: dict[str, str] = {}
    name = ""
    for line in paragraph.splitlines():
        if line[:1].isspace():
            if name != _SYNOPSIS:
                found[name] = f"{found.get(name, '')} {line.strip()}"
            continue
        name, _, value = line.partition(":")
        name = _SYNOPSIS if name == "Description-en" else name
        found[name] = value.strip()
    return found
