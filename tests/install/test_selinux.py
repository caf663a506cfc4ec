# SPDX-License-Identifier: GPL-2.0-only
"""What restorecon(8) is asked, and what is made of its words: a program of ours stands for it."""

import os
from pathlib import Path

import pytest

from asa.install import selinux

# as restorecon of policycoreutils 3.x says it
STANDIN = """\
#!/bin/sh
echo "$@" >> {calls}
[ "$3" = -v ] || exit 0
echo "Would relabel {first} from system_u:object_r:default_t:s0 to system_u:object_r:bin_t:s0"
echo "Would relabel {second} from unconfined_u:object_r:user_home_t:s0 to system_u:object_r:lib_t:s0"
"""


@pytest.fixture
def places(tmp_path):
    found = (tmp_path / "bin/asa", tmp_path / "lib/asa")
    found[0].parent.mkdir()
    found[0].touch()
    found[1].mkdir(parents=True)
    return (*found, tmp_path / "none")


@pytest.fixture
def restorecon(tmp_path, places, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir()
    calls = tmp_path / "calls"
    program = folder / "restorecon"
    program.write_text(STANDIN.format(calls=calls, first=places[0], second=places[1] / "a.py"))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return calls


@pytest.mark.parametrize(("text", "mode"), [("1", "enforcing"), ("0", "permissive"), (None, "")])
def test_whether_it_is_on(tmp_path, text, mode):
    if text is not None:
        (tmp_path / "fs/selinux").mkdir(parents=True)
        (tmp_path / "fs/selinux/enforce").write_text(text)
    assert selinux.mode(tmp_path) == mode


def test_files_whose_context_is_not_the_policys(restorecon, places):
    assert selinux.wrong(places) == (str(places[0]), f"{places[1]}/a.py")
    assert restorecon.read_text() == f"-R -n -v {places[0]} {places[1]}\n"  # what is not there is not asked for


def test_an_installation_has_them_set(restorecon, places):
    assert selinux.restore(places) == []
    assert restorecon.read_text() == f"-R {places[0]} {places[1]}\n"


def test_where_it_is_missing_or_fails_that_is_said(restorecon, places, tmp_path, monkeypatch):
    program = tmp_path / "programs/restorecon"
    program.write_text("#!/bin/sh\necho 'restorecon: no policy' >&2\nexit 255\n")
    (said,) = selinux.restore(places)
    assert said.startswith("SELinux: restorecon ended with 255: 'restorecon: no policy'; `sudo restorecon -R ")
    with pytest.raises(OSError, match="restorecon: no policy"):
        selinux.wrong(places)
    monkeypatch.setattr(selinux.shutil, "which", lambda *_, **__: None)
    (said,) = selinux.restore(places)
    assert "restorecon is missing" in said
    assert "install policycoreutils" in said


def test_nothing_there_asks_nobody(restorecon, tmp_path):
    assert selinux.wrong((tmp_path / "none",)) == ()
    assert selinux.restore((tmp_path / "none",)) == []
    assert not restorecon.exists()


def test_either_prefix_is_looked_at():
    told = {str(place) for place in selinux.PLACES}
    assert {"/usr/lib/asa", "/usr/local/lib/asa", "/usr/bin/asa", "/usr/local/bin/asa", "/var/lib/asa"} <= told
    assert {f"{top}/systemd/system/asa-helper.service" for top in ("/usr/lib", "/etc")} <= told
    assert all(isinstance(place, Path) and place.is_absolute() for place in selinux.PLACES)
