# SPDX-License-Identifier: GPL-2.0-only
"""gjs, the JavaScript of GNOME Shell, of another Debian release than this one, run in place.

Its packages are fetched from the machine's own mirror and unpacked below ASA's cache; nothing is installed. It runs
through its own release's dynamic linker; libraries it shares with gjs of this machine (cairo, X11) come from here.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from asa import debian, paths

_PACKAGES = {
    # GNOME 43, the last but one with the legacy format: mozjs 102
    debian.Codename.BOOKWORM: (
        *("gjs", "libgjs0g", "libmozjs-102-0", "libicu72"),
        *("libc6", "libstdc++6", "libglib2.0-0", "libgirepository-1.0-1", "libffi8", "libmount1"),
    ),
    # GNOME 48: mozjs 128
    debian.Codename.TRIXIE: (
        *("gjs", "libgjs0g", "libmozjs-128-0", "libicu76"),
        *("libc6", "libstdc++6", "libglib2.0-0t64", "libgirepository-1.0-1", "libffi8", "libmount1"),
    ),
}
_LIMIT_S = 60.0


def gjs(codename):
    """Command that runs gjs of that Debian release."""
    own = shutil.which("gjs")
    if own is None and os.environ.get("CI") != "true":
        pytest.skip("not on PATH: gjs; this needs gnome-shell, which brings it; `asa lab setup --tests` installs it")
    assert own, "not on PATH: gjs; `asa lab setup --tests` installs it"
    return [own] if debian.release() is codename else _fetched(codename)


def _fetched(codename):
    cache = paths.default().cache / "gjs" / codename
    roots = []
    for package in _PACKAGES[codename]:
        deb = debian.download(package, cache, suites=[codename], report=print)
        roots.append(debian.unpack(deb, cache / deb.stem))
    libraries = [folder for root in roots for folder in sorted(root.glob("usr/lib/*-linux-gnu"))]
    libraries += [folder for root in roots for folder in sorted(root.glob("lib/*-linux-gnu"))]
    (linker,) = {path.resolve() for folder in libraries for path in folder.glob("ld-linux*.so.*")}
    (program,) = [path for root in roots for path in root.glob("usr/bin/gjs-console")]
    own = sorted(Path("/usr/lib").glob("*-linux-gnu"))
    return [str(linker), "--library-path", ":".join(map(str, [*libraries, *own])), str(program)]


def parse_legacy(engine, script):
    """ "" when `script` is what an engine takes for a legacy extension, else its complaint. It is not run."""
    done = _run([*engine, "-c", f"new Function({json.dumps(script)}); print('parsed');"])
    return "" if done.stdout == "parsed\n" else done.stderr


def parse_esm(engine, script, folder):
    """ "" when `script` is a module, else the engine's complaint.

    Outside the Shell it comes as far as its first import from the Shell, which is after it was parsed.
    """
    (folder / "extension.js").write_text(script)
    done = _run([*engine, "-m", str(folder / "extension.js")])
    missing = "ImportError: Unable to load file from: resource:///org/gnome/shell/"
    return "" if missing in done.stderr and "SyntaxError" not in done.stderr else done.stderr or "it ran"


def evaluate(engine, script):
    """What `script` prints, decoded from JSON."""
    done = _run([*engine, "-c", script])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
