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
