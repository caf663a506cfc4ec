# SPDX-License-Identifier: GPL-2.0-only
"""Packages against the one list of files, and how each form names what is in it."""

import io
import tarfile
import zipfile

import pytest

from calibration.users import packages
from calibration.users.packages import Kind, faults, names

LISTED = {
    "etc/asa/asa.yaml",
    "usr/bin/asa",
    "usr/lib/asa/asa/main.py",
    "usr/lib/asa/models/members.so",
    "usr/lib/asa/msgspec/__init__.py",
    "usr/share/zsh/site-functions/_asa",
}
RIGHT = {
    Kind.DEB: LISTED - {"usr/share/zsh/site-functions/_asa"}
    | {"usr/share/zsh/vendor-completions/_asa", "usr/share/doc/asa/copyright"},
    Kind.RPM: LISTED | {"usr/lib/asa/asa/__pycache__/main.cpython-311.pyc", "usr/share/licenses/asa/LICENSE"},
    Kind.WHEEL: {"asa/main.py", "models/members.so", "adaptive_scheduling_agent-0.1.0.dist-info/METADATA"},
    Kind.SDIST: {"asa/main.py", "PKG-INFO", "packaging/wheel_tag.py"},
    Kind.PKGBUILD: LISTED | {".PKGINFO", ".MTREE", "usr/share/libalpm/hooks/asa.hook"},
}


@pytest.mark.parametrize("kind", Kind)
def test_what_a_package_has_is_what_the_list_has(kind):
    assert list(faults(kind, RIGHT[kind], LISTED)) == []
    own = next(name for name in RIGHT[kind] if name.endswith("asa/main.py"))
    assert list(faults(kind, RIGHT[kind] - {own}, LISTED)) == [f"{kind}: {own} is missing"]
    assert list(faults(kind, RIGHT[kind] | {"calibration/x.py"}, LISTED)) == [f"{kind}: calibration/x.py is in no list"]


def test_names_are_those_of_the_unpacked_files(tmp_path):
    wheel, sdist = tmp_path / "asa.whl", tmp_path / "asa.tar.gz"
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("asa/main.py", "")
    with tarfile.open(sdist, "w:gz") as made:
        made.addfile(tarfile.TarInfo("asa-0.1.0/asa/main.py"), io.BytesIO())
    assert names(Kind.WHEEL, wheel) == names(Kind.SDIST, sdist) == {"asa/main.py"}


def test_a_fault_ends_the_command_with_1(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(packages, "checked", lambda _: {Kind.DEB: (), Kind.RPM: ("rpm: usr/bin/asa is missing",)})
    assert packages.main(["--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == "deb: built and checked\nrpm: wrong\n"
    assert said.err == "asa: rpm: usr/bin/asa is missing\n"
