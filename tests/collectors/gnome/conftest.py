# SPDX-License-Identifier: GPL-2.0-only
"""Gives the tests of the GNOME part a running shell."""

import os
import shutil

import headless  # it lies in a folder of its own, because tests of other parts use it too
import pytest


def _needs_a_shell():
    lacking = [program for program in headless.PROGRAMS if shutil.which(program) is None]
    if lacking and os.environ.get("CI") != "true":
        pytest.skip(f"not on PATH: {', '.join(lacking)}; this {headless.NEEDED}")
    assert not lacking, f"not on PATH: {lacking}; this {headless.NEEDED}"


@pytest.fixture
def make_shell(tmp_path):
    """Function that makes a HeadlessShell, not started; all are stopped at the end."""
    _needs_a_shell()
    shells = []

    def make(**options):
        shells.append(headless.HeadlessShell(tmp_path / f"shell{len(shells)}", **options))
        return shells[-1]

    yield make
    for shell in shells:
        shell.stop()


@pytest.fixture
def shell(make_shell):
    """A running GNOME Shell with our extension enabled: headless.HeadlessShell."""
    return make_shell().start()
