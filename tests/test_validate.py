"""The stage `validate`, and the store that everybody else pulls from."""

from __future__ import annotations

import pytest

from ffsim import listing, validate, verdicts
from ffsim.errors import RecordError
from ffsim.project import Project


def test_a_dataset_that_the_store_carries_has_no_problems(dvc_project: Project) -> None:
    assert validate.run(dvc_project, dvc_project.contest()).problems == []


@pytest.mark.parametrize("what", ["file", "listing"])
def test_an_object_that_the_store_lacks_is_a_problem_with_its_remedy(dvc_project: Project, what: str) -> None:
    """The cache has it, so nothing fails here; every other clone would."""
    md5 = listing.read(dvc_project)["recipes/mini/base.yaml"]
    if what == "listing":
        md5 = listing.directory_md5(listing.pointer(dvc_project) or "") or ""
    (dvc_project.root / listing.store_path(md5)).unlink()
    (problem,) = validate.run(dvc_project, dvc_project.contest()).problems
    assert "1 files of the dataset are not in dvcstore/" in problem
    assert problem.endswith("dvc push data && git add dvcstore")


def test_an_object_that_git_does_not_know_is_a_problem(dvc_project: Project) -> None:
    path = listing.store_path(listing.read(dvc_project)["recipes/mini/base.yaml"])
    dvc_project.git("rm", "-q", "--cached", path)
    (problem,) = validate.run(dvc_project, dvc_project.contest()).problems
    assert "1 objects of the dataset are not in git" in problem


def test_with_another_remote_the_embedded_store_is_not_asked(dvc_project: Project) -> None:
    config = dvc_project.root / ".dvc/config"
    config.write_text(config.read_text().replace("../dvcstore", "../elsewhere"))
    assert not listing.is_embedded(dvc_project)
    assert listing.not_stored(dvc_project) == listing.not_tracked(dvc_project) == []


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (b"{", "not JSON"),
        (b'{"format": "ffsim-verdict/1", "contest": "mini", "run_id": "b", "events": []}', "another run"),
        (b'{"format": "ffsim-verdict/1", "contest": "mini", "run_id": "a", "events": []}', "not in the dataset"),
    ],
)
def test_a_verdict_that_is_none_or_on_no_run_is_a_problem(project: Project, blob: bytes, words: str) -> None:
    (project.data / "verdicts/mini/a.json").write_bytes(blob)
    problems = validate.run(project, project.contest()).problems
    assert any(words in problem and "\n" not in problem for problem in problems), problems


def _says(run_id: str, why: str = "") -> str:
    return verdicts.text(
        verdicts.said(
            None, "mini", run_id, verdicts.Event(what="accepted", at_utc="2026-11-30T10:00:00Z", by="t", why=why)
        )
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"format": 1', "dvc checkout data"),
        (_says("another"), "on another run"),
        (_says("nobody"), "the run is not in the dataset"),
        (_says("nobody", "ask ada@lab.example.org"), "[private]"),
    ],
)
def test_a_verdict_that_is_damaged_planted_or_private_is_a_problem(dvc_project: Project, text: str, words: str) -> None:
    (dvc_project.data / "verdicts/mini/nobody.json").write_text(text)
    problems = validate.run(dvc_project, dvc_project.contest()).problems
    assert any(words in problem for problem in problems)
    assert "ada@lab" not in str(problems)


def test_a_damaged_verdict_is_one_line_with_a_remedy(dvc_project: Project) -> None:
    (dvc_project.data / "verdicts/mini/a.json").write_text("{")
    with pytest.raises(RecordError, match="remove the file and run `dvc checkout data`"):
        verdicts.on_disk(dvc_project, "mini")
