# SPDX-License-Identifier: GPL-2.0-only
"""apt for set-up code, on Debian 12 and 13: install what is missing, fetch and unpack packages of other suites.

Reads the machine's apt configuration (the mirror comes from there) and asks dpkg what is installed. Makes private
source and package lists below the cache, so that another suite serves one call and /etc/apt stays as it is. Only
`install` needs root, or sudo; every package is checked by apt against the archive's signature.
"""

import fcntl
import functools
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import quote

from asa import paths
from asa.core.errors import SetupError

Report = Callable[[str], None]

_FRESH_S = 24 * 3600.0  # package lists older than this are fetched again: mirrors drop superseded backports
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # package debian-archive-keyring
_ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "NEEDRESTART_MODE": "l", "LC_ALL": "C.UTF-8"}
_APT_OPTIONS = ("-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3")
_KEEP_CONFIGURATION = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
_LAST_LINES = 4


class Codename(StrEnum):
    """The releases that set-up knows package names for."""

    BOOKWORM = "bookworm"  # Debian 12
    TRIXIE = "trixie"  # Debian 13


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One version of one package that a suite offers now."""

    package: str
    version: str


def release(os_release: Path = Path("/etc/os-release")) -> Codename:
    """The Debian release this machine is, or is derived from (os-release(5)).

    Raises SetupError elsewhere, or where apt-get is missing.
    """
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError as error:
        text, reason = "", f"{os_release}: {error.strerror}"
    else:
        reason = f"{os_release}: neither Debian 12 nor 13"
    facts = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in text.splitlines())}
    for key in ("VERSION_CODENAME", "DEBIAN_CODENAME"):  # the second one: Linux Mint Debian Edition and others
        if facts.get(key) in list(Codename):
            if shutil.which("apt-get") is None:
                raise SetupError("apt-get is not on PATH; install what is needed by hand, docs/install.md lists it")
            return Codename(facts[key])
    name = facts.get("PRETTY_NAME", "")
    raise SetupError(f"{reason}, but {name!r}; install what is needed by hand, docs/install.md lists it")


def missing(packages: Sequence[str]) -> tuple[str, ...]:
    """Those of `packages` that are not installed, in the order given. See `install` for how one is written."""
    wanted = [_parse(package) for package in packages]
    asked = [name for name, _ in wanted]
    if not asked:
        return ()
    command = ["dpkg-query", "--show", "--showformat", "${Package}\\t${db:Status-Status}\\t${Version}\\n", *asked]
    try:
        # exit code 1 only says that one of them is unknown; the known ones are printed all the same
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SetupError(f"dpkg-query: {error.strerror}; install by hand: {' '.join(asked)}") from error
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    installed = {name: version for name, status, version in rows if status == "installed"}
    return tuple(
        package
        for package, (name, least) in zip(packages, wanted, strict=True)
        if name not in installed or (least is not None and _compare(installed[name], least) < 0)
    )


def install(packages: Sequence[str], *, suites: Sequence[str] = (), report: Report, cache: Path | None = None) -> None:
    """Install those of `packages` that are missing; nothing to do means that apt is not called at all.

    A package is `name`, or `name>=version` when an older one will not do. `suites`, such as `bookworm-backports`,
    serve this one call; the first is preferred over the machine's own sources. Raises SetupError.
    """
    lacking = missing(packages)
    if not lacking:
        return
    release()
    names = [_parse(package)[0] for package in lacking]
    options = list(_APT_OPTIONS)
    if suites:
        folder = _folder(cache, ["install", *suites])
        options += _lists(folder, _install_sources(suites), report, keep_parts=True)
    else:
        try:
            _run("fetching package lists", [*_as_root(names), "apt-get", *options, "-qq", "update"])
        except SetupError as error:
            report(f"{error}; going on with the lists there are")  # one broken third-party source must not stop us
    report(f"installing {' '.join(names)}")
    target = ["-t", suites[0]] if suites else []
    flags = ["-qq", "-y", "--no-install-recommends", *_KEEP_CONFIGURATION, *target]
    _run(f"installing {' '.join(names)}", [*_as_root(names), "apt-get", *options, *flags, "install", *names])
    still = missing(packages)
    if still:
        raise SetupError(f"apt-get installed, but not what was asked for: {' '.join(still)}; look at `apt policy`")


def versions(
    pattern: str, suites: Sequence[str], *, report: Report, cache: Path | None = None, architecture: str = ""
) -> tuple[Offer, ...]:
    """Packages of `suites` whose name matches the shell pattern, newest version first; () when there is none.

    `architecture`: another than this machine's, as Debian names it. Raises SetupError when the lists cannot be had.
    """
    options = _lists(_folder(cache, suites, architecture), _sources(suites), report, architecture=architecture)
    known = _run("listing package names", ["apt-cache", *options, "pkgnames"]).splitlines()
    names = sorted(name for name in known if fnmatchcase(name, pattern))
    if not names:
        return ()
    rows = _run("listing package versions", ["apt-cache", *options, "madison", *names]).splitlines()
    columns = [[field.strip() for field in row.split("|")] for row in rows]
    offers = {(package, version) for package, version, _ in columns}
    ordered = sorted(offers, key=lambda offer: functools.cmp_to_key(_compare)(offer[1]), reverse=True)
    return tuple(Offer(package=package, version=version) for package, version in ordered)


def download(
    package: str,
    folder: Path,
    *,
    suites: Sequence[str],
    report: Report,
    version: str | None = None,
    cache: Path | None = None,
    architecture: str = "",
) -> Path:
    """The package's .deb in `folder`; fetched from `suites` only when no (or, given `version`, not that) .deb is there.

    The first of `suites` is preferred. `architecture` as in `versions`; a folder has packages of one. Raises
    SetupError; an interrupted call leaves nothing under the final name.
    """
    with _locked(folder):
        found = _downloaded(package, folder, version)
        if found:
            return found
        lists = _lists(_folder(cache, suites, architecture), _sources(suites), report, architecture=architecture)
        options = [*_APT_OPTIONS, *lists]
        wanted = f"{package}={version}" if version else package
        report(f"downloading {wanted}")
        with tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as part:
            _run(
                f"downloading {wanted}",
                ["apt-get", *options, "-qq", "-t", suites[0], "download", wanted],
                cwd=Path(part),
            )
            for deb in Path(part).glob("*.deb"):
                deb.rename(folder / deb.name)
        found = _downloaded(package, folder, version)
    if not found:
        raise SetupError(f"downloading {wanted}: apt-get left no .deb in {folder}; try again")
    return found


def source_versions(package: str, suites: Sequence[str], *, report: Report, cache: Path | None = None) -> list[str]:
    """Versions of the source package that `suites` list, newest first. Raises SetupError."""
    options = _source_lists(suites, cache, report)
    rows = _run("listing source versions", ["apt-cache", *options, "madison", package]).splitlines()
    found = {row.split("|")[1].strip() for row in rows}
    return sorted(found, key=functools.cmp_to_key(_compare), reverse=True)


def download_source(
    package: str, version: str, folder: Path, *, suites: Sequence[str], report: Report, cache: Path | None = None
) -> Path:
    """The upstream tarball of a source package, in `folder`; without Debian's own part, which mirrors drop earlier.

    Raises SetupError; an interrupted call leaves nothing under the final name.
    """
    options = [*_APT_OPTIONS, *_source_lists(suites, cache, report)]
    wanted = f"{package}={version}"
    report(f"downloading the source of {wanted}")
    with _locked(folder), tempfile.TemporaryDirectory(prefix=".part-", dir=folder) as part:
        flags = ["-qq", "--download-only", "--tar-only"]
        _run(f"downloading the source of {wanted}", ["apt-get", *options, *flags, "source", wanted], cwd=Path(part))
        for tarball in Path(part).glob(f"{package}_*.orig.tar.*"):
            return tarball.rename(folder / tarball.name)
    raise SetupError(f"downloading the source of {wanted}: apt-get left no tarball in {folder}; try again")


def unpack(deb: Path, folder: Path) -> Path:
    """`folder` with the package's files in it; a folder that is there already is whole and stays. Raises SetupError."""
    with _locked(folder.parent):
        if not folder.exists():
            with tempfile.TemporaryDirectory(prefix=".part-", dir=folder.parent) as part:
                root = Path(part) / "root"
                _run(f"unpacking {deb}", ["dpkg-deb", "--extract", str(deb), str(root)])
                root.rename(folder)
    return folder


def _parse(package: str) -> tuple[str, str | None]:
    name, _, least = package.partition(">=")
    return name, least or None


def _compare(left: str, right: str) -> int:
    # deb-version(7) order is dpkg's own business
    for operator, result in (("lt", -1), ("gt", 1)):
        command = ["dpkg", "--compare-versions", left, operator, right]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return result
    return 0


def _downloaded(package: str, folder: Path, version: str | None) -> Path | None:
    # apt names files package_version_architecture.deb and writes an epoch's colon as %3a
    wanted = quote(version, safe="+~").lower() if version else None
    found = [deb for deb in folder.glob(f"{package}_*.deb") if wanted in (None, deb.name.split("_")[1])]
    key = functools.cmp_to_key(_compare)
    return max(found, key=lambda deb: key(deb.name.split("_")[1].replace("%3a", ":")), default=None)


def _folder(cache: Path | None, suites: Sequence[str], architecture: str = "") -> Path:
    return (cache or paths.default().cache) / "apt" / "_".join((*suites, architecture) if architecture else suites)


def _lists(
    folder: Path, sources: str, report: Report, *, keep_parts: bool = False, architecture: str = ""
) -> list[str]:
    """Fetch the lists of `sources` into `folder` unless they are fresh; gives the options that make apt use them."""
    source_list, stamp = folder / "sources.list", folder / "fetched"
    options = ["-o", f"Dir::Etc::sourcelist={source_list}", "-o", f"Dir::State::Lists={folder / 'lists'}"]
    options += ["-o", f"Dir::Cache::pkgcache={folder / 'pkgcache.bin'}"]
    options += ["-o", f"Dir::Cache::srcpkgcache={folder / 'srcpkgcache.bin'}"]
    options += ["-o", "APT::Sandbox::User=root"]  # the user _apt may not enter a home directory
    options += ["-o", "Acquire::Languages=none", "-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]
    if architecture:
        options += ["-o", f"APT::Architecture={architecture}", "-o", f"APT::Architectures::={architecture}"]
    if not keep_parts:
        options += ["-o", "Dir::Etc::sourceparts=/dev/null"]
    with _locked(folder):
        same = source_list.exists() and source_list.read_text(encoding="utf-8") == sources
        if same and stamp.exists() and 0 <= time.time() - stamp.stat().st_mtime < _FRESH_S:
            return options
        stamp.unlink(missing_ok=True)
        (folder / "lists/partial").mkdir(parents=True, exist_ok=True)
        source_list.write_text(sources, encoding="utf-8")
        report(f"fetching the package lists of {folder.name.replace('_', ' ')}")
        # not as root even where installing is: what lies in the user's cache stays the user's
        _run("fetching package lists", ["apt-get", *_APT_OPTIONS, *options, "-qq", "update"])
        stamp.touch()
    return options


def _source_lists(suites: Sequence[str], cache: Path | None, report: Report) -> list[str]:
    return _lists(_folder(cache, ["source", *suites]), _sources(suites, "deb-src"), report)


def _sources(suites: Sequence[str], kind: str = "deb") -> str:
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.exists() else ""
    return "".join(f"{kind} {signed}{mirror()} {suite} main\n" for suite in suites)


def _install_sources(suites: Sequence[str]) -> str:
    # Ours takes the place of the one-line file, so its text comes along; a suite the machine has already is not
    # named twice, because apt refuses a source with two different keyrings.
    shell = _run("reading apt's configuration", ["apt-config", "shell", "LIST", "Dir::Etc::sourcelist/f"])
    own = Path(shell.strip().removeprefix("LIST=").strip("'"))
    text = own.read_text(encoding="utf-8") if own.is_file() else ""
    there = {suite for _, suite in _served()}
    return text + "\n" + _sources([suite for suite in suites if suite not in there])


def mirror() -> str:
    """The address of the Debian archive that this machine uses for its own release."""
    own = release()
    served = _served()
    # Vendors name their suites after ours too; Debian's own archive serves the updates beside it.
    found = [uri for uri, suite in served if suite == own]
    found.sort(key=lambda uri: ((uri, f"{own}-updates") not in served, not uri.endswith("/debian")))
    if not found:
        raise SetupError(f"no source of apt serves {str(own)!r}; add a Debian mirror to /etc/apt/sources.list.d")
    return found[0]


def _served() -> list[tuple[str, str]]:
    # (address, suite) of each configured source. `apt-get indextargets` would tell only those whose lists have been
    # fetched, and a fresh container has none; this asks for addresses and fetches nothing.
    lines = _run("listing apt's sources", ["apt-get", "update", "--print-uris"]).splitlines()
    found = (re.match(r"'(.+)/dists/(.+)/InRelease'", line) for line in lines)
    return [(match[1], match[2]) for match in found if match]


def _as_root(names: Sequence[str]) -> list[str]:
    environment = ["env", *(f"{key}={value}" for key, value in _ENVIRONMENT.items())]  # sudo drops ours
    if os.geteuid() == 0:
        return environment
    if shutil.which("sudo") is None:
        raise SetupError(f"not root, and sudo is missing; run as root: apt-get install {' '.join(names)}")
    return ["sudo", *environment]


def _run(step: str, command: Sequence[str], *, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, env=os.environ | _ENVIRONMENT, stdin=None, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise SetupError(f"{step} failed: {command[0]}: {error.strerror}; is this Debian?") from error
    if done.returncode:
        lines = [line for line in re.split(r"[\r\n]+", done.stderr + "\n" + done.stdout) if line.strip()]
        words = " / ".join(lines[-_LAST_LINES:])
        raise SetupError(f"{step} failed with code {done.returncode}: {words!r}; mend that and run again")
    return done.stdout


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    # Two set-ups at once: the second waits, then finds the first one's work. Left-overs of a killed one go here.
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for part in folder.glob(".part-*"):
            shutil.rmtree(part, ignore_errors=True)
        yield
