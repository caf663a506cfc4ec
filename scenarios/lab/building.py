# SPDX-License-Identifier: GPL-2.0-only
"""What the lab compiles for itself: its source; tools run in a folder of the build's own; trouble told in one line.

Nothing of a build outlives it but its log and what it made; a kill leaves a folder that the next build removes.
"""

import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from asa import debian, files
from asa.core.errors import LabError, SetupError

Tell = Callable[[str, float], None]
"""Takes the step under way and the share of the whole that is done, 0 to 1."""

Report = Callable[[str], None]

_KEPT_LINES = 4000
_TRIED = 3  # versions of a source: each may be 150 MB
_TELLING = re.compile(r"(?:fatal )?error:|ERROR|No space left on device|: not found|\*\*\* .* Error |\*\*\* ")
_FULL = os.strerror(errno.ENOSPC)
_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def steps_to(report: Report) -> Tell:
    """Progress for those who want its steps alone, each once."""
    told: list[str] = []

    def tell(what: str, _: float) -> None:
        if told[-1:] != [what]:
            told.append(what)
            report(what)

    return tell


@contextmanager
def folder_of_build(parent: Path, prefix: str, needed_mb: int) -> Iterator[Path]:
    """A new folder `parent/PREFIX…`, gone afterwards; those of killed builds go before. The caller holds a lock.

    Raises LabError where `needed_mb` are not free.
    """
    for old in parent.glob(f"{prefix}*"):
        shutil.rmtree(old, ignore_errors=True)
    free_mb = shutil.disk_usage(parent).free >> 20
    if free_mb < needed_mb:
        raise LabError(f"{parent}: the build takes {needed_mb} MB, {free_mb} MB are free; make room and run again")
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as part:
        yield Path(part)


def put(made: Path, home: Path) -> None:
    """Put a folder that is whole into its place. What is there and was not taken goes. Raises OSError."""
    shutil.rmtree(home, ignore_errors=True)
    files.move(made, home)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source package of this machine's mirror, in `suites`; `what` names the versions of use, for messages."""

    package: str
    suites: Sequence[str]
    what: str

    def tarball(
        self,
        folder: Path,
        *,
        here: Iterable[Path],
        fitting: Callable[[Sequence[str]], Sequence[str]],
        cache: Path,
        report: Report,
    ) -> Path:
        """The first of `here` that is there, else the first that can be downloaded to `folder`.

        `fitting` gets the mirror's versions, newest first, and gives those to try. Raises LabError, SetupError.
        """
        for tarball in here:
            if tarball.is_file():
                return tarball
        offers = debian.source_versions(self.package, self.suites, report=report, cache=cache)
        refused: SetupError | None = None
        for version in fitting(offers)[:_TRIED]:
            try:
                return debian.download_source(
                    self.package, version, folder, suites=self.suites, report=report, cache=cache
                )
            except SetupError as error:  # a mirror may list what it has dropped
                refused = error
                report(f"{error}; trying the next version")
        why = str(refused) if refused else f"it has {', '.join(offers) or 'none'}"
        suites = ", ".join(self.suites)
        raise LabError(f"{suites} of this machine's mirror has no source of {self.what} ({why}); put one in {folder}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """How one thing is built: `what` for messages, in `folder`, with all output in `log`; `packages` have the tools."""

    what: str
    folder: Path
    log: Path
    packages: Sequence[str]
    env: Mapping[str, str]

    def run(self, command: Sequence[str], *, inside: str = "") -> None:
        """Run a tool to its end. Raises LabError with its telling words."""
        for _ in self.steps(command, inside=inside):
            pass

    def steps(self, command: Sequence[str], *, inside: str = "", step: re.Pattern[str] | None = None) -> Iterator[str]:
        """Run a tool in the folder, or `inside` it; gives its lines that match `step`. Raises as `run`."""
        tail: list[str] = []
        with (
            self._process(command, self.folder / inside) as process,
            self.log.open("a", buffering=1, encoding="utf-8") as file,
        ):
            for line in process.stdout or ():
                file.write(line)
                if step is not None and step.match(line):
                    yield line
                else:
                    tail = [*tail[-_KEPT_LINES:], line]
        if process.returncode:
            if any(_FULL in line for line in tail):
                raise LabError(f"{self.folder.parent}: {_FULL} while building {self.what}; make room and run again")
            telling = next((line.strip() for line in tail if _TELLING.search(line)), "".join(tail[-1:]).strip())
            name = Path(command[0]).name
            words = f"{name} ended with {process.returncode} while building {self.what}: {telling!r}"
            raise LabError(f"{words}; see {self.log}")

    @contextmanager
    def _process(self, command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
        guarded = ["setpriv", "--pdeathsig", "TERM", *command]  # util-linux; make and ninja end their compilers
        base = {"PATH": _PATH, "HOME": str(self.folder), "LC_ALL": "C", "TMPDIR": str(self.folder)}
        try:
            process = subprocess.Popen(
                guarded,
                cwd=folder,
                env=base | dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as error:
            raise LabError(f"{guarded[0]}: {error.strerror}; install {' '.join(self.packages)}") from error
        with process:  # closes the pipe and waits
            try:
                yield process
            except BaseException:
                process.terminate()
                raise
