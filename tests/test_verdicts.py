"""Verdict files: what is kept of a run's standing, and what a damaged or foreign one does."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        json.dumps(
            {
                "format": "ffsim-verdict/1",
                "contest": "mini",
                "run_id": "run-a",
                "events": [{"what": "accepted", "at_utc": "later", "by": "ada"}],
            }
        ).encode(),
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


TIMES = ["2026-11-01T10:00:00Z", "2026-11-02T10:00:00Z", "2026-11-03T10:00:00Z"]
EVENTS = st.lists(
    st.builds(
        verdicts.Event,
        what=st.sampled_from(["quarantined", "accepted", "removed"]),
        at_utc=st.sampled_from(TIMES),
        by=st.sampled_from(["a", "b"]),
    ),
    max_size=4,
)


@given(EVENTS, EVENTS, EVENTS)
def test_a_union_keeps_every_event_whatever_side_it_is_on(
    shared: list[verdicts.Event], mine: list[verdicts.Event], theirs: list[verdicts.Event]
) -> None:
    a, b = (verdicts.Verdict(contest="mini", run_id="a", events=(*shared, *rest)) for rest in (mine, theirs))
    both = verdicts.union(a, b)
    assert both == verdicts.union(b, a)
    assert set(both.events) == {*a.events, *b.events}
    assert both.events[: len(shared)] == tuple(shared)


@given(EVENTS, EVENTS)
def test_a_union_is_in_the_order_of_time(mine: list[verdicts.Event], theirs: list[verdicts.Event]) -> None:
    def by_time(event: verdicts.Event) -> str:
        return event.at_utc

    a, b = (
        verdicts.Verdict(contest="mini", run_id="a", events=tuple(sorted(events, key=by_time)))
        for events in (mine, theirs)
    )
    events = verdicts.union(a, b).events
    assert list(events) == sorted(events, key=by_time)


@pytest.mark.parametrize("path", ["runs/a.json", "runs/mini/a.yaml", "uploads/mini/a.json", "runs/mini/x/a.json"])
def test_only_a_run_has_a_verdict(path: str) -> None:
    assert verdicts.path_for(path) is None


def test_an_entry_is_lost_unless_a_readable_verdict_removes_it() -> None:
    removed = verdicts.text(verdicts.said(None, *RUN, verdicts.event("removed", "tester"))).encode()
    name, run = verdicts.name_of(*RUN), "runs/mini/run-a.json"
    for blob, lost in ((removed, []), (b"{", [run]), (None, [run])):
        assert verdicts.lost({run: "1"}, {name: "2"}, {"2": blob}.get) == lost
    assert verdicts.lost({run: "1"}, {}, {}.get) == [run]
    assert verdicts.lost({"recipes/mini/a.yaml": "1"}, {name: "2"}, {"2": removed}.get) == ["recipes/mini/a.yaml"]
