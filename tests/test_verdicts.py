"""Verdict files: what is kept of a run's standing, and what a damaged or foreign one does."""

from __future__ import annotations

import json

import pytest

from ffsim import store, verdicts
from ffsim.errors import RecordError
from ffsim.project import Project
from ffsim.verdicts import Check

RUN = ("mini", "run-a")


def test_the_last_event_decides_and_the_earlier_ones_stay() -> None:
    verdict = None
    standings = []
    for what in ("quarantined", "accepted", "superseded", "removed"):
        verdict = verdicts.said(verdict, *RUN, verdicts.event(what, "tester", "because"))
        standings.append(verdict.standing)
    assert standings == ["quarantined", "fitted", "superseded", "removed"]
    assert verdict is not None
    assert [event.what for event in verdict.events] == ["quarantined", "accepted", "superseded", "removed"]


def test_a_verdict_reads_back_as_it_was_written() -> None:
    check = Check(rule="surprise", outcome="found", value=7.5, limit=5.0, message="is off", fix="look")
    verdict = verdicts.said(None, *RUN, verdicts.event("quarantined", "tester", checks=[check]))
    assert verdicts.read(verdicts.text(verdict).encode(), "verdicts/mini/run-a.json") == verdict


@pytest.mark.parametrize(
    "blob",
    [
        b"{}",
        b"[]",
        b"{",
        json.dumps({"format": "ffsim-verdict/1", "contest": "mini", "run_id": "run-b", "events": []}).encode(),
        json.dumps({"format": "ffsim-verdict/1", "contest": "mini", "run_id": "run-a", "events": [1]}).encode(),
        json.dumps({"format": "ffsim-verdict/1", "contest": "mini", "run_id": "run-a", "events": [], "x": 1}).encode(),
    ],
)
def test_a_file_that_is_no_verdict_on_its_run_is_refused(blob: bytes) -> None:
    with pytest.raises(RecordError):
        verdicts.read(blob, "verdicts/mini/run-a.json")


@pytest.mark.parametrize(("by", "why"), [("../x", ""), ("", ""), ("tester", "two\nlines"), ("tester", "x" * 1001)])
def test_who_and_why_are_checked(by: str, why: str) -> None:
    with pytest.raises(RecordError):
        verdicts.event("accepted", by, why)


def test_only_accepting_and_importing_vouch_for_a_run() -> None:
    entered = verdicts.said(None, *RUN, verdicts.event("entered", "tester"))
    assert not entered.accepted
    accepted = verdicts.said(entered, *RUN, verdicts.event("accepted", "tester"))
    assert accepted.accepted
    assert not verdicts.said(accepted, *RUN, verdicts.event("removed", "tester")).accepted


def test_a_verdict_is_read_where_nothing_is_pulled(dvc_project: Project) -> None:
    verdict = verdicts.said(None, *RUN, verdicts.event("removed", "tester", "wrong text"))
    name = verdicts.name_of(*RUN)
    with store.locked(dvc_project):
        store.add(dvc_project, {name: verdicts.text(verdict)})
    assert verdicts.of_contest(dvc_project, "mini") == {"run-a": verdict}
    (dvc_project.data / name).unlink()
    assert verdicts.of_run(dvc_project, *RUN) == verdict
    assert verdicts.of_run(dvc_project, "mini", "run-b") is None
