# SPDX-License-Identifier: GPL-2.0-only
"""Machines for the collectors' tests."""

import proc_tree
import pytest


@pytest.fixture
def laptop(tmp_path):
    return proc_tree.grow(tmp_path / "laptop", "laptop")


@pytest.fixture
def vm(tmp_path):
    return proc_tree.grow(tmp_path / "vm", "two_core_vm")
