# SPDX-License-Identifier: GPL-2.0-only
"""Installs the portfolio: takes the host's binaries where it has them, builds the others, records hashes and flags.

Reads the manifest and PATH; makes binaries and `installed.json` in the portfolio's folder, and build trees and logs
below the cache. Can be interrupted and run again: what is installed and unchanged is kept. One scheduler that fails
does not stop the others. Says nothing itself; a `Watcher` is told.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Protocol

from asa import debian, files, wire
from asa.act.manifest import Composed, Crate, Host, Kernel, KernelSource, SchedulerEntry
from asa.act.policies import Policy
from asa.act.portfolio import Origin, Portfolio, Record
from asa.core.decision import SchedulerName
from asa.core.errors import AsaError, InputError, SchedulerError, SetupError

_CLANG = "clang-19"
_LLVM_STRIP = "llvm-strip-19"
_RUST_VERSION = (1, 91)  # `rust-version` of the scx crates 1.1.x
_CRATE_PACKAGES = (
    "build-essential",
    _CLANG,
    "libbpf-dev",
    "libelf-dev",
    "libseccomp-dev",
    "pkg-config",
    "protobuf-compiler",
    "zlib1g-dev",
)
_RUST_PACKAGES = ("cargo-web", "rustc-web")  # 1.96 in Debian 12 and 13; the plain rustc is 1.63 and 1.85
# bpftool of the kernel tree wants OpenSSL, and Python for the list of BPF helpers
_KERNEL_PACKAGES = (
    "build-essential",
    _CLANG,
    "libelf-dev",
    "libssl-dev",
    "llvm-19",
    "pkg-config",
    "python3",
    "xz-utils",
    "zlib1g-dev",
)
_KERNEL_PARTS = ("tools", "scripts", "kernel/bpf", "include")  # what `make -C tools/sched_ext` reads
_LOADER = Crate(crate="scx_loader", version="1.1.3")
_PROBE_LIMIT_S = 20.0
_LAST_LINES = 5
_LAST_WORDS = 600  # characters


class Status(StrEnum):
    """What became of one scheduler."""

    KERNEL = "kernel"  # nothing to do
    FOUND = "found"  # the host's own was recorded
    KEPT = "kept"  # was installed already, hash and source unchanged
    BUILT = "built"
    UNAVAILABLE = "unavailable"  # not on this host, and it cannot be built
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One scheduler's end: `detail` is the path, or for failures what went wrong, in one line."""

    name: SchedulerName
    status: Status
    detail: str
    elapsed_s: float


class Watcher(Protocol):
    """Is told how it goes on."""

    def begin(self, name: SchedulerName, position: int, total: int) -> None:
        """Work on one scheduler begins, `position` of `total`, from 1."""
        ...

    def line(self, text: str) -> None:
        """What is going on now: a line of a build's output, or a step."""
        ...

    def end(self, outcome: Outcome) -> None:
        """That scheduler is done."""
        ...


def install(
    portfolio: Portfolio,
    cache: Path,
    watcher: Watcher,
    names: Sequence[SchedulerName] = (),
    *,
    recorded: bool = False,
) -> tuple[Outcome, ...]:
    """Make `names` (all when empty) usable, in the manifest's order.

    `recorded`: only those that are recorded as the host's own, which a package may have updated; nothing is built.

    Raises SchedulerError for a name that the manifest has not; every later failure is an Outcome.
    """
    for name in names:
        portfolio.entry(name)
    chosen = [name for name in portfolio.names() if not names or name in names]
    portfolio.folder.mkdir(parents=True, exist_ok=True)
    with (portfolio.folder / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second installation waits, then finds everything done
        job = _Job(portfolio, cache, watcher, build=not recorded)
        chosen = [name for name in chosen if not recorded or job.is_hosts(name)]
        outcomes = tuple(job.run(name, position, len(chosen)) for position, name in enumerate(chosen, 1))
        if not any(outcome.status is Status.FAILED for outcome in outcomes):
            # 1.9 GB that only an update of the manifest would use again, and then mostly with other crates
            shutil.rmtree(job.work, ignore_errors=True)
    return outcomes


def loader(portfolio: Portfolio, cache: Path, watcher: Watcher) -> Path:
    """scx_loader, built unless it is there; for tests, as who uses it has it installed. Raises SetupError."""
    path = cache / f"tools/{_LOADER.crate}-{_LOADER.version}" / _LOADER.crate
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _place(_Job(portfolio, cache, watcher).build_crate(SchedulerName(_LOADER.crate), _LOADER), path)
    return path


class _Job:
    """One call of `install`."""

    def __init__(self, portfolio: Portfolio, cache: Path, watcher: Watcher, *, build: bool = True) -> None:
        self.work = cache / "build"
        self._build = build
        self._logs = cache / "logs"
        self._portfolio = portfolio
        self._cache = cache
        self._watcher = watcher
        try:
            self._records = portfolio.records()
        except InputError as error:
            watcher.line(f"{error}; starting a new one")
            self._records = {}

    def run(self, name: SchedulerName, position: int, total: int) -> Outcome:
        self._watcher.begin(name, position, total)
        start = monotonic()
        try:
            status, detail = self._install(name)
        except SchedulerError as error:
            status, detail = Status.FAILED, error.reason
        except (AsaError, OSError) as error:
            status, detail = Status.FAILED, str(error)
        outcome = Outcome(name=name, status=status, detail=detail, elapsed_s=monotonic() - start)
        self._watcher.end(outcome)
        return outcome

    def is_hosts(self, name: SchedulerName) -> bool:
        """Whether it is recorded as the host's own."""
        record = self._records.get(name)
        return record is not None and record.origin is Origin.PATH

    def _install(self, name: SchedulerName) -> tuple[Status, str]:
        entry = self._portfolio.entry(name)
        source = entry.source
        if isinstance(source, Kernel):
            return Status.KERNEL, "the kernel's own"
        found = self._portfolio.find_on_path(name)
        path = found or self._portfolio.folder / name
        if self._is_recorded(entry, path, Origin.PATH if found else Origin.BUILT):
            # its flags are asked for again: the manifest's modes, or this kernel, may be others now
            self._record(entry, path, self._records[name].origin, self._records[name].version)
            return Status.KEPT, str(path)
        if found:
            self._record(entry, found, Origin.PATH, None)
            return Status.FOUND, str(found)
        if not self._build:
            self._forget(name)
            return Status.UNAVAILABLE, "not on PATH any more"
        match source:
            case Host() | Composed():
                self._forget(name)
                return Status.UNAVAILABLE, f"not on PATH, and {source.reason}"
            case Crate():
                binary, version = self.build_crate(name, source), source.version
            case KernelSource():
                binary, version = self._build_from_kernel(name, source)
        _place(binary, path)
        self._record(entry, path, Origin.BUILT, version)
        return Status.BUILT, str(path)

    def _is_recorded(self, entry: SchedulerEntry, path: Path, origin: Origin) -> bool:
        record = self._records.get(SchedulerName(entry.name))
        if record is None or record.path != str(path) or record.origin is not origin:
            return False
        if origin is Origin.BUILT and record.source != _described(entry):
            return False  # the manifest names another version now
        try:
            return self._portfolio.hash_of(SchedulerName(entry.name), path) == record.sha256
        except SchedulerError:
            return False  # gone, or in a state that nobody should run

    def _record(self, entry: SchedulerEntry, path: Path, origin: Origin, version: str | None) -> None:
        name = SchedulerName(entry.name)
        sha256 = self._portfolio.hash_of(name, path)
        flags, reason = _read_flags(entry, path)
        if flags is not None:
            _check_policies(name, self._portfolio.policies.values(), flags)
        self._records[name] = Record(
            path=str(path),
            origin=origin,
            version=version or _read_version(entry, path),
            sha256=sha256,
            flags=flags,
            flags_reason=reason,
            source=_described(entry) if origin is Origin.BUILT else "",
            installed=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        self._portfolio.write_records(self._records)

    def _forget(self, name: SchedulerName) -> None:
        if self._records.pop(name, None) is not None:  # the host's own was removed
            self._portfolio.write_records(self._records)

    def build_crate(self, name: SchedulerName, source: Crate) -> Path:
        """The binary that cargo made. Raises SetupError."""
        debian.install(_CRATE_PACKAGES, report=self._watcher.line, cache=self._cache)
        environment = {
            "CARGO_TARGET_DIR": str(self.work / "target"),
            "BPF_CLANG": _CLANG,
            "CARGO_TERM_COLOR": "never",
            "CARGO_TERM_PROGRESS_WHEN": "never",
        }
        cargo = shutil.which("cargo")
        if cargo is None or _tool_version(cargo) < _RUST_VERSION or _tool_version("rustc") < _RUST_VERSION:
            debian.install(_RUST_PACKAGES, report=self._watcher.line, cache=self._cache)
            cargo = "/usr/bin/cargo"
            environment["RUSTC"] = "/usr/bin/rustc"  # not the old one that stands first on PATH
        staging = self.work / "root"
        crate = f"{source.crate}@{source.version}"
        self._make(name, [cargo, "install", "--locked", "--root", str(staging), crate], environment)
        return staging / "bin" / name

    def _build_from_kernel(self, name: SchedulerName, source: KernelSource) -> tuple[Path, str]:
        debian.install(_KERNEL_PACKAGES, report=self._watcher.line, cache=self._cache)
        header = self._fetch(source.headers, None, source.suite)
        offer = self._offer(source)
        package = self._fetch(offer.package, offer.version, source.suite)
        tree = self._unpack_tarball(package, offer.package)
        headers = sorted(header.glob("usr/include/**/vmlinux.h"))
        if not headers:
            raise SetupError(
                f"{source.headers} has no vmlinux.h below usr/include; name another package in the manifest"
            )
        tools = tree / "tools/sched_ext"
        tool_names = [f"CLANG={_CLANG}", f"LLVM_STRIP={_LLVM_STRIP}", f"VMLINUX_H={headers[0]}"]
        # the Makefile stops on a machine without BTF, though it reads none when it is given the header
        tool_names.append(f"VMLINUX_BTF={headers[0]}")
        command = ["make", "-C", str(tools), f"-j{os.cpu_count() or 1}", *tool_names, source.target]
        self._make(name, command, {})
        return tools / "build/bin" / source.target, offer.version

    def _offer(self, source: KernelSource) -> debian.Offer:
        for pattern in source.packages:
            offers = debian.versions(pattern, (source.suite,), report=self._watcher.line, cache=self._cache)
            if offers:
                return offers[0]
        wanted = ", ".join(source.packages)
        raise SetupError(f"{source.suite} holds none of {wanted}; name a package that it has in the manifest")

    def _fetch(self, package: str, version: str | None, suite: str) -> Path:
        deb = debian.download(
            package, self.work, suites=(suite,), report=self._watcher.line, version=version, cache=self._cache
        )
        self._watcher.line(f"unpacking {deb.name}")
        return debian.unpack(deb, deb.with_suffix(""))

    def _unpack_tarball(self, package: Path, name: str) -> Path:
        tree = package / name
        if tree.exists():
            return tree
        tarball = package / f"usr/src/{name}.tar.xz"
        self._watcher.line(f"unpacking {tarball.name}")
        members = [f"{name}/{part}" for part in _KERNEL_PARTS]
        with tempfile.TemporaryDirectory(prefix=".part-", dir=package) as part:
            command = ["tar", "--extract", "--file", str(tarball), "--directory", part, *members]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                words = _last_words(done.stderr.splitlines())
                raise SetupError(f"unpacking {tarball}: tar said {words!r}; remove {package} and run again")
            (Path(part) / name).rename(tree)
        return tree

    def _make(self, name: SchedulerName, command: Sequence[str], environment: dict[str, str]) -> None:
        """Run a build, its output into a log and to the watcher. Raises SetupError."""
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"build-{name}.log"
        lines: list[str] = []
        try:
            with (
                log.open("w", buffering=1, encoding="utf-8") as file,
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=os.environ | environment,
                    encoding="utf-8",
                    errors="replace",
                ) as child,
            ):
                for line in child.stdout or ():
                    file.write(line)
                    lines = [*lines, line.rstrip()][-_LAST_LINES:]
                    self._watcher.line(line.rstrip())
        except OSError as error:
            raise SetupError(f"building {name}: {command[0]}: {error.strerror}; install it and run again") from error
        if child.returncode:
            words = _last_words(lines)
            tool = Path(command[0]).name
            raise SetupError(f"building {name}: {tool} ended with {child.returncode}: {words!r}; all of it is in {log}")


def _place(binary: Path, path: Path) -> None:
    """Copy a built file to its place: readers see the old one or the whole new one."""
    if not binary.exists():
        raise SetupError(f"the build ended well, but made no {binary}; is the manifest's source right?")
    # whatever the umask: a group-writable binary would be refused
    with binary.open("rb") as made, files.fresh(path, mode=0o755) as file:
        shutil.copyfileobj(made, file)


def _described(entry: SchedulerEntry) -> str:
    return wire.json_text(entry.source)


def _probe(path: Path, arguments: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            [path, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PROBE_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {_PROBE_LIMIT_S:g} s"
    except OSError as error:
        return 1, str(error.strerror)
    return done.returncode, done.stdout + done.stderr


def _read_flags(entry: SchedulerEntry, path: Path) -> tuple[tuple[str, ...] | None, str]:
    """Flags from the binary's own help, or None and why not."""
    if entry.help is None:
        return None, "the manifest knows no way to ask it"
    _, text = _probe(path, entry.help)  # p2dq and lavd print their help on stderr and end with 255
    flags = parse_flags(text)
    if "usage:" not in text.lower() or not flags:
        return None, f"{' '.join(entry.help)} gave none: {_last_words(text.splitlines())!r}"
    return flags, ""


def parse_flags(text: str) -> tuple[str, ...]:
    """Flags that a help text describes, such as `-s` and `--slice-us`, in its order.

    Knows the form of clap (`  -s, --slice-us <SLICE_US>`) and of the C schedulers (`  -f            Use FIFO`).
    """
    found: dict[str, None] = {}
    for line in text.splitlines():
        match = re.match(r"\s+(-\w)?(?:(?(1), |)(--[a-z0-9][\w-]*))?(?=[\s=\[.]|$)", line)
        found |= dict.fromkeys(flag for flag in (match.groups() if match else ()) if flag)
    return tuple(found)


def _check_policies(name: SchedulerName, policies: Iterable[Policy], flags: tuple[str, ...]) -> None:
    for policy in policies:
        unknown = [flag for flag in policy.flags if policy.name.bare == name and flag not in flags]
        if unknown:
            reason = f"its own help does not name {unknown[0]!r}, which the policy {policy.id} sets; mend the policy"
            raise SchedulerError(scheduler=name, reason=reason)


def _read_version(entry: SchedulerEntry, path: Path) -> str | None:
    if entry.help is None or "--help" not in entry.help:
        return None  # only those with long flags have --version; others would start
    code, text = _probe(path, ["--version"])
    match = re.search(r"\b\d+\.\d+\S*", text)
    return match[0] if match and not code else None


def _tool_version(tool: str) -> tuple[int, int]:
    # (0, 0) when it is missing or says nothing: older than anything
    code, text = _probe(Path(tool), ["--version"])
    match = re.search(r"\b(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match and not code else (0, 0)


def _last_words(lines: Sequence[str]) -> str:
    return " / ".join([line.strip() for line in lines if line.strip()][-_LAST_LINES:])[-_LAST_WORDS:]
