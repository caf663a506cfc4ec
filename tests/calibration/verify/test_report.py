# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts are ordered, and what died is never a pass."""

from asa.core.errors import LabError
from calibration.verify import report
from calibration.verify.report import Finding, Level, Report, Stage, StageReport, Verdict


def found(level):
    return Finding(rule="r", level=level, text="t")


def staged(*levels, died=""):
    return StageReport(stage=Stage.SOURCE, findings=tuple(map(found, levels)), died=died)


def test_the_worst_verdict_counts():
    assert report.worst([Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL]) is Verdict.FAIL
    assert report.worst([Verdict.PASS, Verdict.INCONCLUSIVE]) is Verdict.INCONCLUSIVE
    assert report.worst([Verdict.PASS]) is Verdict.PASS
    assert report.worst([]) is Verdict.INCONCLUSIVE


def test_a_note_changes_nothing_a_doubt_hinders_a_fault_fails():
    assert staged(Level.NOTE).verdict is Verdict.PASS
    assert staged(Level.NOTE, Level.DOUBT).verdict is Verdict.INCONCLUSIVE
    assert staged(Level.DOUBT, Level.FAULT).verdict is Verdict.FAIL


def test_a_stage_that_died_is_inconclusive_and_keeps_its_faults():
    def dies(*levels):
        yield from map(found, levels)
        raise LabError("the guest ended")

    assert report.stage(Stage.LOAD, dies).verdict is Verdict.INCONCLUSIVE
    assert report.stage(Stage.LOAD, lambda: dies(Level.NOTE)).died == "the guest ended"
    assert report.stage(Stage.LOAD, lambda: dies(Level.FAULT)).verdict is Verdict.FAIL


def test_what_caught_it_is_the_first_stage_that_failed():
    stages = (
        StageReport(stage=Stage.OBJECT, findings=(found(Level.DOUBT),)),
        StageReport(stage=Stage.SOURCE, findings=(found(Level.FAULT),)),
    )
    made = Report(subject="one", sha256={}, stages=stages)
    assert (made.verdict, made.caught) == (Verdict.FAIL, Stage.SOURCE)
    assert "fault r: t" in "\n".join(report.lines(made))
