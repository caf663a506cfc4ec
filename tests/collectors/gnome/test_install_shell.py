# SPDX-License-Identifier: GPL-2.0-only
"""The extension installed into the home of a real GNOME Shell, followed until it is gone again."""

import pytest
from waiting import until

from collectors.gnome import extension, install
from collectors.gnome.install import Condition, Installation

pytestmark = pytest.mark.gnome


@pytest.fixture
def bare(make_shell):
    """A running shell that has never heard of the extension."""
    return make_shell(with_extension=False).start()


def condition(shell):
    return Installation(shell.env).status().condition


def traces(shell):
    """All files below home that have our name, in theirs or in their text."""
    name = extension.UUID
    found = [path for path in shell.home.rglob("*") if name in str(path)]
    return found + [path for path in shell.home.rglob("*") if path.is_file() and name.encode() in path.read_bytes()]


def test_from_nothing_to_active_and_back(bare):
    assert condition(bare) is Condition.ABSENT
    status = Installation(bare.env).install()
    assert status.condition is Condition.NOT_LOADED
    assert status.remedy == "log out and in once"
    assert status.folder == str(bare.extension_folder)
    bare.kill_shell()
    assert condition(bare) is Condition.NOT_RUNNING
    bare.start_shell()
    status = Installation(bare.env).status()
    assert (status.condition, status.remedy) == (Condition.ACTIVE, "")
    assert status.shell_version.startswith(f"{bare.major()}.")
    assert bare.state()["pid"] == 0
    assert Installation(bare.env).install().condition is Condition.ACTIVE
    assert Installation(bare.env).remove() is True
    until(lambda: not bare.owns(extension.NAME), "the running shell has switched it off")
    assert traces(bare) == []
    assert condition(bare) is Condition.ABSENT
    assert Installation(bare.env).remove() is False


def test_one_that_was_disabled_by_hand(shell):
    shell.disable_extension()
    assert condition(shell) is Condition.NOT_ENABLED
    assert Installation(shell.env).install().condition is Condition.ACTIVE
    assert shell.owns(extension.NAME)


def test_switched_off_with_all_others_or_by_the_lock_screen(shell):
    shell.lock()
    assert condition(shell) is Condition.OFF
    shell.unlock()
    shell.eval("global.settings.set_boolean('disable-user-extensions', true)")
    until(lambda: not shell.owns(extension.NAME), "all are off")
    status = Installation(shell.env).status()
    assert status.condition is Condition.OFF
    assert status.remedy == "gsettings set org.gnome.shell disable-user-extensions false"
    shell.eval("global.settings.set_boolean('disable-user-extensions', false)")
    until(lambda: condition(shell) is Condition.ACTIVE, "on again")


def test_an_older_one_is_replaced_and_the_shell_has_to_start_again(make_shell):
    shell = make_shell()
    for name, text in older(shell).items():
        (shell.extension_folder / name).write_text(text)
    shell.start()
    status = Installation(shell.env).status()
    assert status.condition is Condition.OUTDATED
    assert str(shell.extension_folder) in status.text
    status = Installation(shell.env).install()
    assert status.condition is Condition.NOT_LOADED
    assert "another text" in status.text
    shell.kill_shell()
    shell.start_shell()
    assert condition(shell) is Condition.ACTIVE


def test_an_error_inside_the_shell_is_told(make_shell, monkeypatch):
    shell = make_shell()
    broken = older(shell, "throw new Error('no bus today');")
    for name, text in broken.items():
        (shell.extension_folder / name).write_text(text)
    with pytest.raises(AssertionError, match="our extension on the bus"):
        shell.start(answers_within_s=0.5)
    monkeypatch.setattr(install, "render", lambda _: broken)
    status = Installation(shell.env).status()
    assert status.condition is Condition.ERROR
    assert "no bus today" in status.text


def test_another_major_version_has_another_file(shell, monkeypatch):
    """After an upgrade of GNOME across 45, what lies there is of the wrong format."""
    other = next(format_ for format_ in extension.Format if format_ is not extension.format_for(shell.major()))
    for name, text in extension.render(other).items():
        (shell.extension_folder / name).write_text(text)
    assert condition(shell) is Condition.OUTDATED


def older(shell, first_act="this._inputs = 0;"):
    """The extension as another ASA would have made it: with a line more in `enable`."""
    format_ = extension.format_for(shell.major())
    made = extension.render(format_)
    line = "        this._seq = 0;\n"
    assert line in made["extension.js"]
    script = made["extension.js"].replace(line, f"{line}        {first_act}\n", 1)
    digest = extension.digest_of(made)
    return {"extension.js": script, "metadata.json": made["metadata.json"].replace(digest, "0" * len(digest))}
