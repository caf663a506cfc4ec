# SPDX-License-Identifier: GPL-2.0-only
"""probes.h compiled for this machine. Makes the loads and second sources importable, which the tests in the lab use as
well."""

import subprocess
from pathlib import Path

import pytest
from probes_machine import Machine

from collectors.ebpf import layout
from collectors.ebpf.build import SOURCES

HERE = Path(__file__).parent
PROBES = next(path for path in SOURCES if path.name == "probes.h")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probes")
    (folder / "stats.h").write_text(layout.render())
    options = ["-O2", "-shared", "-fPIC", "-Wall", "-Werror", f"-I{folder}", f"-I{PROBES.parent}"]
    subprocess.run(["cc", *options, str(HERE / "probes_host.c"), "-o", str(folder / "probes.so")], check=True)
    return folder / "probes.so"


@pytest.fixture(scope="module")
def loaded(library):
    return Machine(library)


@pytest.fixture
def machine(loaded):
    loaded.reset()
    for pid in range(64):  # entries that earlier tests left
        loaded.wakeup(pid, 1)
        loaded.leave(0, 0, pid, 0)
    loaded.reset()
    return loaded
