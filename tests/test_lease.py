# SPDX-License-Identifier: GPL-2.0-only
"""A client's lease: one at a time, and gone with its process."""

import subprocess
import sys

import pytest

from asa.core.errors import AsaError
from asa.lease import BusyError, Lease, Note, Watch
from asa.requests import Hold, Switch


def note(lease="one", client="bot"):
    return Note(lease=lease, client=client, what="tries scx_flash", pid=1, since_ns=2)


def test_the_second_client_is_refused_by_the_name_of_the_first(tmp_path):
    lease = Lease(tmp_path, note())
    with pytest.raises(BusyError, match=r"the client 'bot' .pid 1. changes something already: tries scx_flash"):
        Lease(tmp_path, note("two", "another"))
    lease.close()
    Lease(tmp_path, note("two", "another")).close()


def test_the_agent_sees_that_it_was_given_back_and_says_it_once(tmp_path):
    watch, lease = Watch(tmp_path), Lease(tmp_path, note())
    assert watch.gone() == ()
    watch.note(Hold(client="bot", lease="one"))
    assert watch.gone() == ()
    lease.close()
    assert (watch.gone(), watch.gone()) == (("one",), ())


def test_the_next_client_has_not_the_lease_of_the_last(tmp_path):
    watch, lease = Watch(tmp_path), Lease(tmp_path, note())
    watch.note(Switch(scheduler="scx_flash", client="bot", lease="one"))
    lease.close()
    second = Lease(tmp_path, note("two"))
    assert watch.gone() == ("one",)
    second.close()


def test_what_is_kept_is_not_looked_after(tmp_path):
    watch = Watch(tmp_path)
    watch.note(Switch(scheduler="scx_flash", client="bot", lease="one"))
    watch.note(Switch(scheduler="scx_flash", client="bot", lease="one", kept=True))
    assert watch.gone() == ()


def test_a_client_that_is_killed_has_none(tmp_path):
    code = """
import pathlib, sys
from asa.lease import Lease, Note
held = Lease(pathlib.Path(sys.argv[1]), Note(lease="far", client="other", what="w", pid=7, since_ns=1))
print("has it", flush=True)
sys.stdin.read()
"""
    client = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    watch = Watch(tmp_path)
    try:
        assert client.stdout.readline() == "has it\n"
        watch.note(Hold(client="other", lease="far"))
        assert watch.gone() == ()
    finally:
        client.kill()
        client.communicate()
    assert watch.gone() == ("far",)


def test_a_folder_that_is_not_there_and_a_link_in_its_place(tmp_path):
    with pytest.raises(AsaError, match="cannot be written"):
        Lease(tmp_path / "none", note())
    (tmp_path / "lease").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AsaError, match="cannot be written"):
        Lease(tmp_path, note())
    assert not (tmp_path / "elsewhere").exists()
