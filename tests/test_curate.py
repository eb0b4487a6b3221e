"""Quarantine and what ends it: accept, amend, remove, import. Runs never change, and every word is kept."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import factories
import pytest

from ffsim import contribute, curate, dataset, evidence, fit, listing, merge, records, validate, verdicts
from ffsim.errors import RecordError, StoreError
from ffsim.guard import Source
from ffsim.project import Project

MUON = {"optimizer": "muon", "width": 16}
ODD = "odd-one"


@pytest.fixture(scope="module")
def filled(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template with 30 honest runs of a maintainer in it, committed."""
    root = tmp_path_factory.mktemp("filled") / "project"
    shutil.copytree(template, root, symlinks=True)
    project = Project(root)
    folder = root / "runs"
    for run in factories.campaign(project.contest(), 30):
        factories.write(folder / f"{run.run_id}.json", records.as_json(run))
    added = contribute.add_runs(project, [str(folder)])
    assert (len(added.run_ids), added.quarantined) == (30, [])
    project.git("commit", "-q", "-m", "filled")
    return root


@pytest.fixture
def project(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    root = tmp_path / "project"
    shutil.copytree(filled, root, symlinks=True)
    monkeypatch.chdir(root)
    return Project(root)


def _run(project: Project, run_id: str, bpb: float, **changes: object) -> dict[str, object]:
    changes = {"contributor": "newcomer", "knobs": MUON, "seed": 700, "steps": 727, **changes}
    made = factories.trained(project.contest(), run_id, bpb, random.Random(run_id), **changes)
    return records.as_json(made)


def _add(project: Project, tmp_path: Path, *documents: dict[str, object], **options: object) -> contribute.Added:
    files = [str(factories.write(tmp_path / "in" / f"{d['run_id']}.json", d)) for d in documents]
    return contribute.add_runs(project, files, **options)  # type: ignore[arg-type]


def _odd(project: Project, tmp_path: Path) -> None:
    assert _add(project, tmp_path, _run(project, ODD, 2.2)).quarantined == [ODD]


def _fitted(project: Project) -> set[str]:
    return {run.run_id for run in evidence.load(project, project.contest()).runs}


def _standing(project: Project, run_id: str) -> str:
    verdict = verdicts.of_run(project, "mini", run_id)
    assert verdict is not None
    return verdict.standing


def test_a_surprising_run_is_stored_and_shown_and_not_fitted(project: Project, tmp_path: Path) -> None:
    _odd(project, tmp_path)
    assert f"runs/mini/{ODD}.json" in listing.read(project)
    assert dataset.find_run(project, ODD)[0].run_id == ODD
    assert ODD not in _fitted(project)
    verdict = verdicts.of_run(project, "mini", ODD)
    assert verdict is not None
    (event,) = verdict.events
    found = {check.rule: check for check in event.checks if check.outcome == "found"}
    assert abs(found["surprise"].value or 0) > (found["surprise"].limit or 99)
    assert "maintainer accepts it" in found["surprise"].fix


def test_an_honest_run_enters_with_a_verdict_that_says_what_was_looked_at(project: Project, tmp_path: Path) -> None:
    result = _add(project, tmp_path, _run(project, "fine", 2.619))
    assert (result.run_ids, result.quarantined) == (["fine"], [])
    assert "fine" in _fitted(project)
    verdict = verdicts.of_run(project, "mini", "fine")
    assert verdict is not None
    assert verdict.events[0].what == "entered"
    assert {check.rule for check in verdict.events[0].checks} >= {"near_duplicate", "surprise", "speed"}


def test_a_dry_run_says_what_would_be_held_back_and_changes_nothing(project: Project, tmp_path: Path) -> None:
    before = project.git("status", "--porcelain")
    result = _add(project, tmp_path, _run(project, ODD, 2.2), dry_run=True)
    assert "1 run would be added, 1 of them in quarantine" in result.summary()
    assert project.git("status", "--porcelain") == before


def test_what_is_found_is_in_the_json(project: Project, tmp_path: Path) -> None:
    value = json.loads(json.dumps(_add(project, tmp_path, _run(project, ODD, 2.2)).as_json()))
    assert value["quarantined"] == [ODD]
    (surprise,) = [check for check in value["checks"][ODD] if check["rule"] == "surprise"]
    assert surprise["outcome"] == "found"


def test_on_a_clone_that_has_pulled_nothing_the_second_look_sees_as_much(project: Project, tmp_path: Path) -> None:
    shutil.rmtree(project.data)
    shutil.rmtree(project.root / ".dvc/cache")
    _odd(project, tmp_path)
    assert len(listing.read(project)) == len(listing.read(project, "HEAD")) + 2


def test_accepted_it_is_fitted_and_belongs_to_the_reference(project: Project, tmp_path: Path) -> None:
    _odd(project, tmp_path)
    assert curate.accept(project, ["odd"], "tester", "repeated on a second host") == [ODD]
    known = evidence.load(project, project.contest())
    assert ODD in {run.run_id for run in known.runs}
    assert known.trust.effect(dataset.find_run(project, ODD)[0]) == {}
    verdict = verdicts.of_run(project, "mini", ODD)
    assert verdict is not None
    assert [event.what for event in verdict.events] == ["quarantined", "accepted"]
    assert verdict.events[1].why == "repeated on a second host"


@pytest.mark.parametrize(
    ("run", "by", "why", "words"),
    [
        ("r1-000", "tester", "why", "is not in quarantine"),
        ("nowhere", "tester", "why", "no run 'nowhere'"),
        ("r1", "tester", "why", "30 runs start with"),
        (ODD, "newcomer", "why", "is no maintainer"),
        (ODD, "tester", "  ", "--why is empty"),
        (ODD, "tester", "two\nlines", "one line"),
    ],
)
def test_what_cannot_be_accepted_says_why(
    project: Project, tmp_path: Path, run: str, by: str, why: str, words: str
) -> None:
    _odd(project, tmp_path)
    with pytest.raises(RecordError, match=words):
        curate.accept(project, [run], by, why)
    assert _standing(project, ODD) == "quarantined"


def test_a_removed_run_is_gone_and_its_verdict_stays(project: Project, tmp_path: Path) -> None:
    _odd(project, tmp_path)
    project.git("commit", "-q", "-m", "odd")
    assert curate.remove(project, ODD, "tester", "withdrawn") == ODD
    assert f"runs/mini/{ODD}.json" not in listing.read(project)
    assert _standing(project, ODD) == "removed"
    assert validate.run(project, project.contest()).problems == []
    dataset.require_complete(project)
    with pytest.raises(RecordError, match="no run"):
        curate.remove(project, ODD, "tester", "again")


def test_a_removed_run_may_come_back_with_its_history(project: Project, tmp_path: Path) -> None:
    document = _run(project, "fine", 2.619)
    _add(project, tmp_path, document)
    curate.remove(project, "fine", "tester", "by mistake")
    assert _add(project, tmp_path, document).run_ids == ["fine"]
    verdict = verdicts.of_run(project, "mini", "fine")
    assert verdict is not None
    assert [event.what for event in verdict.events] == ["entered", "removed", "entered"]


def test_a_run_that_comes_back_is_not_accepted_with_the_old_one(project: Project, tmp_path: Path) -> None:
    _odd(project, tmp_path)
    curate.accept(project, [ODD], "tester", "repeated")
    curate.remove(project, ODD, "tester", "by mistake")
    _add(project, tmp_path, _run(project, ODD, 2.619))
    known = evidence.load(project, project.contest())
    assert ODD in {run.run_id for run in known.runs}
    assert ODD not in known.vouched


def _upload(project: Project, tmp_path: Path, run_id: str) -> None:
    from ffsim import jsonio, store

    document = factories.upload(project.contest(), "up", records.as_json(dataset.find_run(project, run_id)[0]), 2.65)
    with store.locked(project):
        store.add(project, {"uploads/mini/up.json": jsonio.pretty(document)})


def test_a_run_that_an_upload_rests_on_is_not_removed(project: Project, tmp_path: Path) -> None:
    _upload(project, tmp_path, "r1-000")
    with pytest.raises(RecordError, match=r"the upload up rests on r1-000; .*amend"):
        curate.remove(project, "r1-000", "tester", "why")


def test_a_record_that_an_upload_follows_to_is_not_removed(project: Project, tmp_path: Path) -> None:
    """Its artifact cannot be amended away in a second step either."""
    _upload(project, tmp_path, "r1-000")
    new = curate.amend(project, "r1-000", "tester", "one", changes=["notes=one"]).successor
    with pytest.raises(RecordError, match=f"the upload up rests on {new}"):
        curate.remove(project, new, "tester", "why")
    with pytest.raises(RecordError, match="artifact, seed and order cannot change"):
        curate.amend(project, new, "tester", "why", changes=["seed=99"])


def test_an_amended_run_takes_the_place_of_the_old_one_and_its_uploads_follow(project: Project, tmp_path: Path) -> None:
    _upload(project, tmp_path, "r1-000")
    old = (project.data / "runs/mini/r1-000.json").read_bytes()
    result = curate.amend(project, "r1-000", "newcomer", "on battery", changes=["notes=on battery"])
    assert (result.successor, result.standing, result.violations) == ("r1-000-a1", "fitted", [])
    assert (project.data / "runs/mini/r1-000.json").read_bytes() == old
    assert _fitted(project) >= {"r1-000-a1"}
    assert "r1-000" not in _fitted(project)
    assert dataset.find_run(project, "r1-000-a1")[0].notes == "on battery"
    known = evidence.load(project, project.contest())
    assert [upload.run_id for upload in known.uploads] == ["r1-000-a1"]
    assert len(fit.offsets(project.contest(), known.runs, known.uploads)) == 1


def test_amended_again_the_number_grows_and_the_chain_is_followed(project: Project, tmp_path: Path) -> None:
    _upload(project, tmp_path, "r1-000")
    curate.amend(project, "r1-000", "tester", "one", changes=["notes=one"])
    with pytest.raises(RecordError, match="amended before; amend r1-000-a1"):
        curate.amend(project, "r1-000", "tester", "two", changes=["notes=two"])
    assert curate.amend(project, "r1-000-a1", "tester", "two", changes=["notes=two"]).successor == "r1-000-a2"
    assert [u.run_id for u in evidence.load(project, project.contest()).uploads] == ["r1-000-a2"]
    checked = validate.run(project, project.contest())
    assert checked.problems == []
    assert (checked.counts["runs"], checked.counts["superseded"]) == (32, 2)


def test_knobs_that_were_declared_wrong_are_amended_with_their_hashes(project: Project) -> None:
    result = curate.amend(project, "r1-000", "tester", "the width was 24", changes=["knobs.width=24", "tokens=null"])
    assert result.violations == []
    run = dataset.find_run(project, result.successor)[0]
    assert run.knobs["width"] == 24
    assert run.recipe.hash != dataset.find_run(project, "r1-000")[0].recipe.hash


def test_an_amended_record_passes_the_guard_like_any_other(project: Project) -> None:
    before = listing.read(project)
    result = curate.amend(project, "r1-000", "tester", "why", changes=["steps=10.5", "seed=-1"])
    assert {violation.field for violation in result.violations} == {"steps", "seed"}
    assert listing.read(project) == before


@pytest.mark.parametrize("change", ["nothing", "no.such=1", "=1", "notes.deep=1", "scores=", "run_id=R1-001"])
def test_a_change_that_makes_no_record_changes_nothing(project: Project, change: str) -> None:
    before = listing.read(project)
    try:
        assert curate.amend(project, "r1-000", "tester", "why", changes=[change]).violations
    except RecordError as error:
        assert "\n" not in str(error)
    assert listing.read(project) == before


def test_a_corrected_file_may_bring_its_own_id(project: Project) -> None:
    document = records.as_json(dataset.find_run(project, "r1-000")[0]) | {"run_id": "better", "notes": "checked"}
    source = Source("better.json", json.dumps(document).encode())
    assert curate.amend(project, "r1-000", "tester", "why", source=source).successor == "better"


def test_an_uploads_artifact_cannot_be_amended_away(project: Project, tmp_path: Path) -> None:
    _upload(project, tmp_path, "r1-000")
    with pytest.raises(RecordError, match="artifact, seed and order cannot change"):
        curate.amend(project, "r1-000", "tester", "why", changes=["seed=99"])


def test_an_import_records_what_is_found_and_holds_nothing_back(project: Project, tmp_path: Path) -> None:
    vouch = verdicts.event("imported", "tester", "checked against the logs")
    assert _add(project, tmp_path, _run(project, ODD, 2.2), vouch=vouch).quarantined == []
    verdict = verdicts.of_run(project, "mini", ODD)
    assert verdict is not None
    assert (verdict.standing, verdict.events[0].why) == ("fitted", "checked against the logs")
    assert any(check.outcome == "found" for check in verdict.events[0].checks)
    assert ODD in _fitted(project)


def test_a_copy_of_a_run_in_quarantine_is_a_copy(project: Project, tmp_path: Path) -> None:
    _odd(project, tmp_path)
    document = _run(project, ODD, 2.2) | {"run_id": "copy", "seed": 701}
    checks = _add(project, tmp_path, document).checks["copy"]
    assert [check.message for check in checks if check.rule == "near_duplicate"] == [f"has the clock readings of {ODD}"]


def _branch(project: Project, tmp_path: Path, *documents: dict[str, object]) -> None:
    project.git("switch", "-q", "-c", "other")
    _add(project, tmp_path, *documents)
    project.git("commit", "-q", "-m", "other")


def _take(project: Project, **options: bool) -> merge.Merged:
    project.git("switch", "-q", "main")
    return merge.merge(project, "other", **options)


def test_a_branch_cannot_vouch_for_its_own_runs(project: Project, tmp_path: Path) -> None:
    """Its author says that an odd run simply entered."""
    project.git("switch", "-q", "-c", "other")
    vouch = verdicts.event("entered", "guard")
    _add(project, tmp_path, _run(project, ODD, 2.2), vouch=vouch)
    project.git("commit", "-q", "-m", "other")
    merged = _take(project)
    assert list(merged.quarantined) == [ODD]
    assert _standing(project, ODD) == "quarantined"
    assert project.git("status", "--porcelain") == ""
    assert listing.not_stored(project) == []


def test_a_branch_that_accepts_its_own_run_is_refused_unless_it_is_trusted(project: Project, tmp_path: Path) -> None:
    _branch(project, tmp_path, _run(project, ODD, 2.2))
    curate.accept(project, [ODD], "tester", "trust me")
    project.git("commit", "-q", "-m", "accepted")
    with pytest.raises(StoreError, match=r"decides about runs or scores \(odd-one: accepted by tester\)"):
        _take(project)
    assert merge.merge(project, "other", trusted=True).quarantined == {}
    assert _standing(project, ODD) == "fitted"


def test_a_branch_that_speaks_of_a_run_that_is_here_is_refused(project: Project, tmp_path: Path) -> None:
    """An event of the far future would decide for good."""
    from ffsim import store

    _odd(project, tmp_path)
    project.git("commit", "-q", "-m", "odd")
    project.git("switch", "-q", "-c", "other")
    said = verdicts.of_run(project, "mini", ODD)
    late = verdicts.Event(what="entered", at_utc="2999-01-01T00:00:00Z", by="guard")
    with store.locked(project):
        text = verdicts.text(verdicts.said(said, "mini", ODD, late))
        store.add(project, {verdicts.name_of("mini", ODD): text}, replace=True)
    project.git("commit", "-q", "-m", "late")
    with pytest.raises(StoreError, match="decides about runs"):
        _take(project)


def test_a_maintainers_handle_on_somebody_elses_branch_counts_for_nothing(project: Project, tmp_path: Path) -> None:
    _branch(project, tmp_path, _run(project, "fine", 2.619, contributor="Tester"))
    assert "carries the handle of the maintainer" in _take(project).quarantined["fine"][0]


def test_an_honest_branch_is_merged_with_a_verdict_of_ours(project: Project, tmp_path: Path) -> None:
    _branch(project, tmp_path, _run(project, "fine", 2.619))
    assert _take(project).quarantined == {}
    verdict = verdicts.of_run(project, "mini", "fine")
    assert verdict is not None
    assert [(event.what, event.why) for event in verdict.events] == [("entered", "merged from other")]


def test_submitting_a_run_in_quarantine_is_said(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ffsim import cli

    _odd(project, tmp_path)
    cli.main(["official", "up", "--run", ODD, "--wait", "--contributor", "ada"])
    assert f"{ODD} is quarantined: no model learns from this upload" in capsys.readouterr().err
