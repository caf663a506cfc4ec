# SPDX-License-Identifier: GPL-2.0-only
"""Schedulers of root's cache, taken along into an installation: the recorded file, or none."""

import hashlib
import os

import pytest

from asa import paths
from asa.act.portfolio import Origin, Portfolio, Record
from asa.install import schedulers
from asa.install.change import What

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="installed files are root's; run the tests as root"),
]

PLACE = "var/lib/asa/scx"


def built(path, text):
    path.write_text(text)
    path.chmod(0o755)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return Record(path=str(path), origin=Origin.BUILT, version="1", sha256=sha256, flags=None, installed="2026-01-01")


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "cache/scx"
    folder.mkdir(parents=True)
    portfolio = Portfolio.load(paths.manifest(), folder)
    portfolio.write_records({name: built(folder / name, f"# {name}\n") for name in ("scx_rusty", "scx_lavd")})
    return portfolio


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def there(root):
    return Portfolio.load(paths.manifest(), root / PLACE).records()


def told(copies):
    return {one.name: one.what for one in copies}


def test_they_are_copied_with_records_of_their_new_place(root, source):
    old_mask = os.umask(0o077)
    try:
        assert told(schedulers.copy(root, source, dry=False)) == dict.fromkeys(["scx_rusty", "scx_lavd"], What.CREATE)
    finally:
        os.umask(old_mask)
    assert {name: one.path for name, one in there(root).items()} == {
        name: f"/{PLACE}/{name}" for name in ("scx_rusty", "scx_lavd")
    }
    assert (root / PLACE / "scx_rusty").read_text() == "# scx_rusty\n"
    modes = [(root / PLACE / name).stat().st_mode & 0o7777 for name in ("", "scx_rusty", "installed.json")]
    assert modes == [0o755, 0o755, 0o644]
    assert set(told(schedulers.copy(root, source, dry=False)).values()) == {What.SAME}


def test_a_dry_run_copies_nothing(root, source):
    assert set(told(schedulers.copy(root, source, dry=True)).values()) == {What.CREATE}
    assert list(root.iterdir()) == []


def test_a_file_that_is_not_the_recorded_one_stays_where_it_is(root, source):
    (source.folder / "scx_rusty").write_text("# another\n")
    copies = {one.name: one for one in schedulers.copy(root, source, dry=False)}
    assert copies["scx_rusty"].what is What.KEEP
    assert "is not the recorded file" in copies["scx_rusty"].fault
    assert list(there(root)) == ["scx_lavd"]
    assert not (root / PLACE / "scx_rusty").exists()


def test_a_copy_that_was_spoilt_is_made_anew(root, source):
    schedulers.copy(root, source, dry=False)
    (root / PLACE / "scx_lavd").write_text("spoilt")
    assert told(schedulers.copy(root, source, dry=False)) == {"scx_rusty": What.SAME, "scx_lavd": What.REPLACE}
    assert (root / PLACE / "scx_lavd").read_text() == "# scx_lavd\n"


def test_the_hosts_own_stay_in_their_place(root, source, tmp_path):
    own = built(tmp_path / "scx_rusty", "host's")
    records = dict(source.records())
    source.write_records({**records, "scx_rusty": Record(**{**_fields(own), "origin": Origin.PATH})})
    schedulers.copy(root, source, dry=False)
    assert there(root)["scx_rusty"].path == str(tmp_path / "scx_rusty")
    assert not (root / PLACE / "scx_rusty").exists()


def test_what_only_the_installation_has_is_kept(root, source):
    schedulers.copy(root, source, dry=False)
    records = dict(source.records())
    del records["scx_lavd"]
    source.write_records(records)
    assert told(schedulers.copy(root, source, dry=False)) == {"scx_rusty": What.SAME}
    assert set(there(root)) == {"scx_rusty", "scx_lavd"}


def _fields(record):
    return {name: getattr(record, name) for name in record.__struct_fields__}
