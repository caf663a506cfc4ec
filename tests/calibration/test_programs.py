# SPDX-License-Identifier: GPL-2.0-only
"""The benchmarks' C programs: what is compiled runs, and what cannot be compiled is said with the remedy."""

import subprocess

import pytest

from asa.core.errors import AsaError
from calibration.programs import STATIC, compiled

SOURCE = "int main(void)\n{\n\treturn 42;\n}\n"


@pytest.mark.parametrize("flags", [(), STATIC])
def test_the_program_has_its_sources_name_and_runs(tmp_path, flags):
    (tmp_path / "answer.c").write_text(SOURCE)
    program = compiled(tmp_path / "answer.c", tmp_path, flags)
    assert program == tmp_path / "answer"
    assert subprocess.run([program], check=False).returncode == 42


def test_without_a_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AsaError, match=r"answer\.c: no C compiler .*; run: apt-get install gcc libc6-dev"):
        compiled(tmp_path / "answer.c", tmp_path)


def test_a_source_that_does_not_compile(tmp_path):
    (tmp_path / "answer.c").write_text(SOURCE.replace("int main(", "int main{"))
    with pytest.raises(AsaError, match=r"answer\.c: .* fails on it: .*error"):
        compiled(tmp_path / "answer.c", tmp_path)
