# SPDX-License-Identifier: GPL-2.0-only
"""The lab's figures from what guests found, with made-up guests, and what is printed of those that are kept."""

import json

import pytest

from asa.core.errors import AsaError
from calibration.kept import collect, write
from calibration.lab import __main__ as command
from calibration.lab import benchmark
from calibration.lab.benchmark import LabFigure, effect, mean, repeated
from calibration.lab.guests import HALVES, expected, sets, speed_errors
from calibration.lab.samples import Found
from calibration.scale.samples import METRICS, Mode

JOBS = next(metric for metric in METRICS if metric.name == "throughput")
MISSED = next(metric for metric in METRICS if metric.name == "deadlines_missed")


def played(*jobs):
    readings = tuple({Mode.THROUGHPUT: {"jobs": count, "elapsed_ns": 2_000_000_000}} for count in jobs)
    return Found(kernel="6", cpus=4, readings=readings)


def test_loops_are_played_alone_by_core_beside_their_neighbour_and_all():
    assert sets(HALVES) == ((0,), (2,), (0, 1), (2, 3), (0, 2), (0, 1, 2, 3))


def test_a_busy_neighbour_takes_its_share_of_the_core_alone():
    assert expected(HALVES, [2]) == {2: 0.5}
    assert expected(HALVES, [0, 2]) == {0: 1.0, 2: 0.5}
    assert expected(HALVES, [0, 1, 2]) == {0: 0.6, 1: 0.6, 2: 0.5}


def test_errors_are_of_what_the_description_says():
    errors = speed_errors(HALVES, {"0": {"0": 1000}, "2": {"2": 495}, "0 1": {"0": 612, "1": 600}})
    assert errors == pytest.approx({"0 of 0": 0.0, "2 of 2": -1.0, "0 of 0 1": 2.0, "1 of 0 1": 0.0})
    with pytest.raises(AsaError, match="no loop ran on CPU 0 alone"):
        speed_errors(HALVES, {"2": {"2": 495}})


def test_a_mean_is_of_all_rounds():
    assert mean(JOBS, played(100, 300)) == 100.0
    with pytest.raises(AsaError, match="deadlines_missed: not one value in 2 rounds"):
        mean(MISSED, played(100, 300))


def test_a_repeat_is_a_share_of_the_middle():
    assert repeated(JOBS, [99.0, 101.0]) == (2.0, "99 and 101 jobs_per_s")


def test_the_effect_is_of_the_metric_that_changed_most_either_way():
    value, words = effect({JOBS: (95.0, 100.0), MISSED: (0.0, 0.0)})
    assert value == pytest.approx(5.0)
    assert words == "throughput -5.0 %"
    assert effect({MISSED: (0.1, 0.0)})[0] == 100.0  # from nothing to something


class Toy:
    """A bench whose guests are made up."""

    def __init__(self, *_):
        pass

    def counts(self):
        return {LabFigure.SCALING: lambda: (7.9, "by hand"), LabFigure.BOOT: lambda: 1 / 0}


def test_a_figure_that_is_asked_for_is_measured_alone_and_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "Bench", Toy)
    kept = tmp_path / "lab.json"
    write(collect({LabFigure.QEMU: lambda: (180.0, "")}), kept)
    assert command.main(["--measure", "--only", "parallel_scaling_8", "--kept", str(kept)]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["name"], line["value"], line["ok"]) == ("parallel_scaling_8", 7.9, True)
    assert command.main(["--kept", str(kept)]) == 0
    lines = {line["name"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert list(lines) == [str(name) for name in LabFigure]
    assert lines["qemu_build_s"]["value"] == 180.0
    assert lines["boot_s"]["reason"] == "not measured; run `make bench-lab`"


def test_a_figure_that_is_none_is_said(capsys):
    assert command.main(["--only", "speed"]) == 2
    assert capsys.readouterr().err.startswith("asa: --only: 'speed' is no figure of this benchmark; ")


def test_all_figures_can_be_measured():
    bench = benchmark.Bench(benchmark.paths.default(), print)
    assert set(bench.counts()) == set(LabFigure)
