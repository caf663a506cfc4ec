# SPDX-License-Identifier: GPL-2.0-only
"""`asa lab bench scale` from end to end: a guest of the lab, two schedulers, one short turn each."""

import argparse
import json

import pytest

from asa.cli.lab.bench import scale as bench_scale
from asa.core.errors import AsaError
from calibration.scale.samples import METRICS

SHORT = ("--cpus", "2", "--scheduler", "eevdf,scx_simple", "--repeat", "1", "--seconds", "0.2", "--json")


def run(*words):
    parser = argparse.ArgumentParser()
    bench_scale.register(parser.add_subparsers())
    arguments = parser.parse_args(["scale", *words])
    return arguments.run(arguments)


@pytest.mark.vm
@pytest.mark.slow
def test_two_schedulers_in_the_lab(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # the console of a guest that fails is kept there
    out = tmp_path / "scale.md"
    assert run(*SHORT, "--out", str(out)) == 0
    printed = capsys.readouterr()
    lines = {line["name"]: line for line in map(json.loads, printed.out.splitlines())}
    assert lines.pop("scale_failures")["value"] == 0, printed.err
    assert len(lines) == 2 * len(METRICS)
    assert all(line["value"] is not None for line in lines.values()), lines
    # What holds whatever these two do: a global queue in slices of 20 ms, and one of the kernel's own of 3.
    late = [lines[f"scale_wakeup_p99_ms_{name}_2_cpus"]["value"] for name in ("eevdf", "scx_simple")]
    assert 0.0 < late[0] < late[1]
    assert lines["scale_throughput_jobs_per_s_eevdf_2_cpus"]["value"] > 10.0
    text = out.read_text()
    assert "| eevdf | " in text
    assert "Doubtful" not in text
    assert out.with_suffix(".svg").read_text().startswith("<svg ")
    assert (
        'asa_scale_wakeup_p99_seconds{scheduler="scx_simple",cpus="2",guest="2 CPUs"} '
        in out.with_suffix(".prom").read_text()
    )
    assert "alike-2, 1000 Hz: round 1 of 1: scx_simple" in printed.err


def test_a_document_that_cannot_be_written_is_said_before_a_guest_boots(tmp_path):
    with pytest.raises(AsaError, match="cannot be written"):
        run(*SHORT, "--out", str(tmp_path / "none/scale.md"))
    (tmp_path / "scale.prom").mkdir()
    with pytest.raises(AsaError, match=r"scale\.prom: cannot be written"):
        run(*SHORT, "--out", str(tmp_path / "scale.md"))
