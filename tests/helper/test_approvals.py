# SPDX-License-Identifier: GPL-2.0-only
"""What an administrator approved and revoked is kept, and believed only from a file that is root's."""

import errno
import os
import stat
from unittest.mock import Mock

import pytest

from asa.core.errors import AsaError, InputError
from asa.helper.approvals import Approvals

KNOWN = ("scx_p2dq", "scx_lavd", "scx_lavd:performance", "scx_lavd:powersave")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "approvals.json"


@pytest.fixture
def written(path):
    path.parent.mkdir()

    def write(text, mode=0o644):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return Approvals(path)

    return write


def test_what_is_installed_is_approved_when_nothing_was_said(path):
    assert Approvals(path).approved(KNOWN) == set(KNOWN)
    assert Approvals(path).approved(()) == set()
    assert not path.parent.exists()  # to look writes nothing


def test_revoked_and_approved_again(path):
    Approvals(path).set("scx_p2dq", approved=False)
    assert Approvals(path).approved(KNOWN) == set(KNOWN) - {"scx_p2dq"}
    Approvals(path).set("scx_p2dq", approved=True)
    assert Approvals(path).approved(KNOWN) == set(KNOWN)


def test_one_that_is_not_known_can_be_added(path):
    Approvals(path).set("scx_rusty", approved=True)
    assert Approvals(path).approved(KNOWN) == {*KNOWN, "scx_rusty"}
    Approvals(path).set("scx_rusty", approved=False)
    assert Approvals(path).approved((*KNOWN, "scx_rusty")) == set(KNOWN)


def test_a_scheduler_takes_its_modes_with_it(path):
    approvals = Approvals(path)
    approvals.set("scx_lavd:powersave", approved=True)
    approvals.set("scx_lavd", approved=False)
    assert approvals.approved(KNOWN) == {"scx_p2dq"}
    approvals.set("scx_lavd:performance", approved=True)
    assert approvals.approved(KNOWN) == {"scx_p2dq", "scx_lavd:performance"}
    approvals.set("scx_lavd", approved=True)
    approvals.set("scx_lavd:performance", approved=False)
    assert approvals.approved(KNOWN) == {"scx_p2dq", "scx_lavd", "scx_lavd:powersave"}
    approvals.set("scx_lavd", approved=True)  # which does not take back what was said of a mode
    assert approvals.approved(KNOWN) == {"scx_p2dq", "scx_lavd", "scx_lavd:powersave"}


def test_the_file_is_for_all_to_read_and_for_root_to_write(path):
    old = os.umask(0)
    try:
        Approvals(path).set("scx_p2dq", approved=False)
        os.umask(0o077)
        Approvals(path).set("scx_lavd", approved=False)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"scx_p2dq"',
        '{"revoked": "scx_p2dq"}',
        '{"revoked": [1]}',
        '{"approved": ["scx_p2dq"]}',
        '{"added": ["../../bin/sh"]}',
        '{"added": ["scx_p2dq\\nscx_lavd"]}',
        '{"added": ["scx_lavd:a:b"]}',
        '{"added": ["scx_lavd:"]}',
        '{"revoked": [""]}',
        b'{"added": ["\xff"]}',
        "[" * 30_000,
        '{"added": [' + ",".join(['"scx_p2dq"'] * 10_000) + "]}",
    ],
)
def test_a_damaged_file_is_refused_in_one_line_and_stays(path, written, text):
    approvals = written(text)
    before = path.read_bytes()
    for act in (lambda: approvals.approved(KNOWN), lambda: approvals.set("scx_p2dq", approved=True)):
        with pytest.raises(AsaError) as caught:
            act()
        assert str(path) in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 500
    assert path.read_bytes() == before


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_is_refused(written, mode):
    with pytest.raises(InputError, match=f"mode {mode:o}"):
        written('{"added": ["scx_rusty"]}', mode).approved(KNOWN)


@pytest.mark.root
def test_a_file_of_another_user_is_refused(path, written):
    approvals = written('{"added": ["scx_rusty"]}')
    os.chown(path, 65534, 65534)
    with pytest.raises(AsaError, match="belongs to user 65534"):
        approvals.approved(KNOWN)


def test_what_is_no_plain_file_is_refused(path, tmp_path):
    path.parent.mkdir()
    (tmp_path / "elsewhere").write_text("{}")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AsaError, match="cannot be read"):
        Approvals(path).approved(KNOWN)
    path.unlink()
    os.mkfifo(path, 0o644)
    with pytest.raises(AsaError, match="not a regular file"):
        Approvals(path).approved(KNOWN)


@pytest.mark.parametrize("name", ["", "../x", "scx_p2dq ", "SCX", "scx:", ":fast", "scx_p2dq\n", "a" * 65, "a:b:c"])
def test_what_is_no_name_is_not_kept(path, name):
    with pytest.raises(AsaError, match="no name of a scheduler"):
        Approvals(path).set(name, approved=True)
    assert not path.exists()


def test_it_does_not_grow_without_end(path):
    path.parent.mkdir()
    listed = ",".join(f'"scx_{number}"' for number in range(256))
    path.write_text(f'{{"revoked": [{listed}]}}')
    path.chmod(0o644)
    Approvals(path).set("scx_7", approved=True)
    with pytest.raises(AsaError, match="256 names"):
        Approvals(path).set("scx_more", approved=False)
    assert "scx_7" in Approvals(path).approved(())


def test_what_cannot_be_written_is_said_and_nothing_changes(path, monkeypatch):
    Approvals(path).set("scx_p2dq", approved=False)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
        with pytest.raises(AsaError, match="cannot be written"):
            Approvals(path).set("scx_lavd", approved=False)
    assert Approvals(path).approved(KNOWN) == set(KNOWN) - {"scx_p2dq"}
