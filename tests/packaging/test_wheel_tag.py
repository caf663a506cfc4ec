# SPDX-License-Identifier: GPL-2.0-only
"""For which machines a wheel says it is."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "packaging/wheel_tag.py"
MATHS = "#include <math.h>\ndouble f(double x) { return exp(x); }\n"


@pytest.fixture(scope="module")
def tag():
    found = importlib.util.spec_from_file_location("wheel_tag", PATH)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module.tag


def built(folder, *words):
    (folder / "one.c").write_text(MATHS)
    made = folder / "one.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "one.c", *words], check=True)
    return made.read_bytes()


def test_nothing_compiled_is_for_all(tag):
    assert tag(None, "x86_64") == "py3-none-any"


def test_the_c_library_alone_is_manylinux_of_the_newest_symbol(tag, tmp_path):
    compiled = built(tmp_path, "-lm")
    text = subprocess.run(["readelf", "-V", tmp_path / "one.so"], capture_output=True, text=True, check=True).stdout
    newest = max(tuple(map(int, word[6:].split("."))) for word in text.split() if word.startswith("GLIBC_"))
    major, minor = max((2, 17), newest)
    assert tag(compiled, "aarch64") == f"py3-none-manylinux_{major}_{minor}_aarch64"


def test_another_library_is_for_machines_like_this_one(tag, tmp_path):
    assert tag(built(tmp_path, "-Wl,--no-as-needed", "-ldl", "-l:libelf.so.1"), "x86_64") == "py3-none-linux_x86_64"


def test_probes_alone_are_for_this_kind_of_machine(tag):
    assert tag(b"", "aarch64") == "py3-none-manylinux_2_17_aarch64"
