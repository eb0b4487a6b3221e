"""The organiser's side of an upload."""

from __future__ import annotations

import json
from typing import Any

import factories
import pytest

from ffsim import dataset, jsonio, official, records, rehearse, store
from ffsim.errors import RecordError, RunError
from ffsim.project import Project
from ffsim.rehearse import Plan
from ffsim.train import TRAINER_VERSION


def _stored(project: Project, **changes: Any) -> records.Run:
    run = factories.run(project.contest(), **changes)
    with store.locked(project):
        store.add(project, {f"runs/mini/{run['run_id']}.json": jsonio.pretty(run)})
    return records.run_from(run, where="x")


def test_the_organiser_trains_the_rehearsals_own_seed_and_order_and_scores_hidden(dvc_project: Project) -> None:
    contest = dvc_project.contest()
    out = dvc_project.outbox / "r.json"
    plan = Plan(
        contest=contest, recipe=dvc_project.recipe(contest, "base"), kind="rehearsal", seed=5, order=6, out=out,
        run_id="r", budget_s=contest.budget_s,
    )  # fmt: skip
    rehearsed = rehearse.run(dvc_project, plan)
    with store.locked(dvc_project):
        store.add(dvc_project, {"runs/mini/r.json": out.read_text()})
    _, rehearsal, upload = official.open_upload(dvc_project, "first", "r", "tester")
    upload, run = official.play(dvc_project, contest, rehearsal, upload)
    assert (run.kind, run.seed, run.order) == ("official", 5, 6)
    assert set(run.scores) == {"public", "hidden"}
    assert run.artifact_sha256 == rehearsed.artifact_sha256
    assert upload.official.bpb == run.scores["hidden"].bpb
    assert upload.official.run_id == run.run_id
    listing = dataset.listing(dvc_project)
    assert {f"runs/mini/{run.run_id}.json", "uploads/mini/first.json"} <= set(listing)
    with pytest.raises(RecordError, match="has its official score already"):
        official.open_upload(dvc_project, "first", "r", "tester")


def test_another_artifact_is_refused(dvc_project: Project) -> None:
    rehearsal = _stored(dvc_project, artifact_sha256="0" * 64)
    contest, rehearsal, upload = official.open_upload(dvc_project, "u", rehearsal.run_id, "tester")
    with pytest.raises(RunError, match=f"is not what trainer {TRAINER_VERSION} would run"):
        official.play(dvc_project, contest, rehearsal, upload)
    assert not list((dvc_project.scratch / "official").glob("*"))


def test_nothing_that_the_contracts_refuse_is_stored(dvc_project: Project) -> None:
    run = _stored(dvc_project)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "no/handle", notes="x" * 3000)
    with pytest.raises(RecordError, match=r"contributor.*notes") as caught:
        official.wait(dvc_project, upload)
    assert "\n" not in str(caught.value)
    assert not (dvc_project.data / "uploads/mini/u.json").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "screen", "budget_s": 0.1}, "finished screen"),
        ({"status": "crashed", "scores": {}}, "crashed rehearsal"),
    ],
)
def test_only_a_finished_rehearsal_is_uploaded(dvc_project: Project, changes: dict[str, Any], words: str) -> None:
    run = _stored(dvc_project, **changes)
    with pytest.raises(RecordError, match=words):
        official.open_upload(dvc_project, "u", run.run_id, "tester")


def test_a_run_outside_the_dataset_names_the_remedy(dvc_project: Project) -> None:
    factories.write(dvc_project.outbox / "own.json", factories.run(dvc_project.contest(), "own"))
    with pytest.raises(RecordError, match="ffsim add-run"):
        official.open_upload(dvc_project, "u", "own", "tester")
    with pytest.raises(RecordError, match="upload name"):
        official.open_upload(dvc_project, "../u", "own", "tester")


def test_an_upload_waits_and_takes_the_score_it_receives(dvc_project: Project) -> None:
    run = _stored(dvc_project)
    other = _stored(dvc_project, run_id="other", bpb=2.8)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester", [other.run_id], "hope")
    official.wait(dvc_project, upload)
    assert json.loads((dvc_project.data / "uploads/mini/u.json").read_text())["official"]["bpb"] is None
    with pytest.raises(RecordError, match="waits for the score of base-s1"):
        official.open_upload(dvc_project, "u", "other", "tester")
    _, _, waiting = official.open_upload(dvc_project, "u", run.run_id, "tester")
    scored = official.receive(dvc_project, run, waiting, "2.6210", None, None)
    assert (scored.official.bpb, scored.official.decimals) == (2.621, 4)
    assert scored.selected_from == ("other",)
    assert waiting.submitted_utc == scored.submitted_utc <= (scored.scored_utc or "")
    assert records.read_upload(dvc_project.data / "uploads/mini/u.json") == scored


@pytest.mark.parametrize("score", ["", "abc", "nan", "inf", "-2.6", "3", "1e9", "2_0.5", "٢.٥", "2.5\n"])
def test_a_score_that_is_none_is_refused(dvc_project: Project, score: str) -> None:
    run = _stored(dvc_project)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester")
    with pytest.raises(RecordError, match="give bits per byte"):
        official.receive(dvc_project, run, upload, score, None, None)


def test_a_time_that_is_none_is_refused(dvc_project: Project) -> None:
    run = _stored(dvc_project)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester")
    with pytest.raises(RecordError, match="write UTC as"):
        official.receive(dvc_project, run, upload, "2.5", None, "yesterday")


def test_a_score_is_never_older_than_its_rehearsal_or_younger_than_now(dvc_project: Project) -> None:
    run = _stored(dvc_project)  # created 2026-11-01T10:00:00Z
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester")
    for time in ("2026-11-01T09:59:59Z", "2099-01-01T00:00:00Z"):
        with pytest.raises(RecordError, match="between the rehearsal"):
            official.receive(dvc_project, run, upload, "2.5", None, time)
    scored = official.receive(dvc_project, run, upload, "2.5", None, "2026-11-01T10:30:00Z")
    assert scored.submitted_utc == scored.scored_utc == "2026-11-01T10:30:00Z"


def test_a_waiting_upload_takes_no_score_from_before_its_submission(dvc_project: Project) -> None:
    run = _stored(dvc_project)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester")
    official.wait(dvc_project, upload)
    with pytest.raises(RecordError, match="between the submission"):
        official.receive(dvc_project, run, upload, "2.5", None, "2026-11-01T10:30:00Z")


@pytest.mark.parametrize(
    ("score", "decimals", "words"), [("0.5", None, "impossible here"), ("2.512345", 2, "has 6 decimals, not 2")]
)
def test_an_impossible_score_is_refused(dvc_project: Project, score: str, decimals: int | None, words: str) -> None:
    run = _stored(dvc_project)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester")
    with pytest.raises(RecordError, match=words):
        official.receive(dvc_project, run, upload, score, decimals, None)


def test_of_two_scores_at_once_the_first_stays(dvc_project: Project) -> None:
    """Both commands have read that the upload is new; the second must not write over the first."""
    run = _stored(dvc_project)
    _, _, one = official.open_upload(dvc_project, "u", run.run_id, "tester")
    _, _, two = official.open_upload(dvc_project, "u", run.run_id, "tester")
    official.receive(dvc_project, run, one, "2.1", None, None)
    for late in (
        lambda: official.receive(dvc_project, run, two, "2.9", None, None),
        lambda: official.wait(dvc_project, two),
    ):
        with pytest.raises(RecordError, match="was changed by another command"):
            late()
    assert records.read_upload(dvc_project.data / "uploads/mini/u.json").official.bpb == 2.1


def test_a_waiting_upload_keeps_what_it_was_submitted_with(dvc_project: Project) -> None:
    run = _stored(dvc_project)
    _, _, upload = official.open_upload(dvc_project, "u", run.run_id, "tester", notes="mine")
    official.wait(dvc_project, upload)
    with pytest.raises(RecordError, match="stay as they were submitted"):
        official.open_upload(dvc_project, "u", run.run_id, "tester", notes="other")
