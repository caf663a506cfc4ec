# SPDX-License-Identifier: GPL-2.0-only
"""Places: what is asked for in each tick is looked up once."""

from asa import paths


def test_shipped_files_are_there():
    assert paths.manifest().is_file()
    assert paths.base_model().is_file()
    assert (paths.mapping_tables() / "default.yaml").is_file()


def test_a_shipped_file_is_looked_up_once(monkeypatch):
    """The status names the model in each tick. Looking it up anew interns strings that die at once, by which the
    interpreter's table of interned strings came to be doubled after some hundred ticks: 530 KiB."""
    first = paths.base_model()

    def forbidden(package):
        raise AssertionError(f"{package} is looked up again")

    monkeypatch.setattr(paths, "files", forbidden)
    assert paths.base_model() == first


def test_schedulers_of_an_installed_asa_are_everybodys_but_those_of_root_in_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "installed", lambda: paths.Places(cache=tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1001)
    assert paths.default().schedulers == paths.default().cache / "scx"
    (tmp_path / "scx").mkdir()
    assert paths.default().schedulers == tmp_path / "scx"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert paths.default().schedulers == paths.default().cache / "scx"
    monkeypatch.setattr(paths, "PROGRAM", paths.Path(paths.__file__).parent)
    assert paths.default().schedulers == tmp_path / "scx"
