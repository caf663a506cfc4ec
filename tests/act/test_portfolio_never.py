# SPDX-License-Identifier: GPL-2.0-only
"""`switch.never`: what the settings name is brought up by nothing."""

import pytest

from asa.act.portfolio import Portfolio
from asa.config import SwitchSettings
from asa.core.decision import SchedulerName, bar
from asa.core.errors import InputError, SchedulerError

LAVD, SAVING, FLASH = SchedulerName("scx_lavd"), SchedulerName("scx_lavd:powersave"), SchedulerName("scx_flash")


@pytest.mark.parametrize(
    ("never", "barred"),
    [
        ((), set()),
        (("scx_lavd",), {LAVD, SAVING}),
        (("scx_lavd:powersave",), {SAVING}),
        (("scx_lavd:default",), {LAVD}),
        (("scx_flash", "scx_lavd:powersave"), {FLASH, SAVING}),
    ],
)
def test_with_and_without_a_mode(tmp_path, never, barred):
    portfolio = Portfolio.of_host(SwitchSettings(never=never), tmp_path)
    assert {name for name in (LAVD, SAVING, FLASH) if portfolio.barred(name)} == barred
    assert {name for name in (LAVD, SAVING, FLASH) if bar(name, never)} == barred
    for name in barred:
        with pytest.raises(SchedulerError, match=f"{name}: switch.never in the settings names"):
            portfolio.open(name)


def test_a_mode_that_there_is_not_is_told_the_modes(tmp_path):
    allowed = "scx_lavd, scx_lavd:default, scx_lavd:autopilot, scx_lavd:performance, scx_lavd:powersave$"
    with pytest.raises(InputError, match=rf"switch.never\[0\]: 'scx_lavd:fast' is not accepted; allowed: {allowed}"):
        Portfolio.of_host(SwitchSettings(never=("scx_lavd:fast",)), tmp_path)


@pytest.mark.parametrize("name", ["scx_lawd", "scx_lawd:fast", "eevdf", "eevdf:default"])
def test_a_name_that_there_is_not_is_one_clear_line(tmp_path, name):
    with pytest.raises(
        InputError, match=rf"switch.never\[1\]: '{name}' is not accepted; allowed: one of scx_"
    ) as caught:
        Portfolio.of_host(SwitchSettings(never=("scx_flash", name)), tmp_path)
    assert "\n" not in str(caught.value)


def test_owners_are_the_settings(tmp_path):
    binary = tmp_path / "scx_flash"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    trusting = Portfolio.of_host(SwitchSettings(trusted_owners=(12345,)), tmp_path, owners=(54321,))
    assert trusting.hash_of(FLASH, binary)
