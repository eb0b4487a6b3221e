"""`ffsim review`: what a branch would bring, found without running or checking out any of it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import factories
import pytest

from ffsim import cli, combine, contribute, listing, merge, review, store, verdicts
from ffsim.errors import StoreError
from ffsim.project import Project


def _tree(project: Project) -> dict[str, bytes]:
    files = [path for path in project.root.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {str(path.relative_to(project.root)): path.read_bytes() for path in files}


@pytest.fixture
def branch(dvc_project: Project, tmp_path: Path) -> Callable[..., Project]:
    """Makes a branch `other` with runs and raw entries, and goes back to main."""

    def make(
        *names: str, entries: dict[str, bytes | None] | None = None, files: dict[str, str] | None = None
    ) -> Project:
        project = dvc_project
        project.git("switch", "-q", "-c", "other")
        contest = project.contest()
        paths = [
            str(factories.write(tmp_path / f"{n}.json", factories.run(contest, n, bpb=2.6 + i / 50)))
            for i, n in enumerate(names)
        ]
        if paths:
            assert not contribute.add_runs(project, paths).violations
        if entries is not None:
            known: dict[str, str] = listing.read(project)
            for name, blob in entries.items():
                if blob is None:
                    del known[name]
                    continue
                known[name] = hashlib.md5(blob).hexdigest()
                target = project.root / listing.store_path(known[name])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(blob)
            text, md5 = listing.dump(known)
            target = project.root / listing.store_path(md5)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            (project.root / "data.dvc").write_text(listing.pointer_text(md5, None, len(known)))
        for name, text in (files or {}).items():
            (project.root / name).parent.mkdir(parents=True, exist_ok=True)
            (project.root / name).write_text(text)
        project.git("add", "-A")
        project.git("commit", "-q", "-m", "other")
        project.git("switch", "-q", "main")
        subprocess.run(["dvc", "checkout", "-q"], cwd=project.root, check=True)
        return project

    return make


def test_a_good_branch_is_listed_and_nothing_is_changed(branch: Callable[..., Project]) -> None:
    project = branch("a", "b")
    before, head = _tree(project), project.git("rev-parse", "HEAD")
    result = review.review(project, "other")
    assert result.problems == []
    assert result.added == [f"{kind}/mini/{name}.json" for kind in ("runs", "verdicts") for name in "ab"]
    assert result.changed == result.removed == result.other == []
    assert _tree(project) == before
    assert project.git("rev-parse", "HEAD") == head
    assert project.git("status", "--porcelain") == ""


def test_a_review_and_the_merge_agree(branch: Callable[..., Project]) -> None:
    project = branch("a")
    reviewed = review.review(project, "other")
    merged = merge.merge(project, "other")
    assert (reviewed.added, reviewed.removed, reviewed.total) == (merged.added, merged.removed, merged.total)


def test_the_exit_code_says_whether_there_are_findings(
    branch: Callable[..., Project], capsys: pytest.CaptureFixture[str]
) -> None:
    branch(entries={"runs/mini/bad.json": b"{}"})
    with pytest.raises(SystemExit) as ended:
        cli.main(["review", "other", "--json"])
    assert ended.value.code == 1
    assert "is no run record" in json.loads(capsys.readouterr().out)["problems"][0]


VERDICT = {"format": "ffsim-verdict/1", "contest": "mini", "run_id": "x", "events": []}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"../ffsim/evil.py": b"x"}, "no place of a dataset"),
        ({"runs/mini/bad.json": b"\xff\xfe"}, "not UTF-8"),
        ({"runs/mini/script.sh": b"x"}, "is no record"),
        ({"uploads/mini/u.json": b"{}"}, "not a valid upload"),
        ({"uploads/nowhere/u.json": b"{}"}, "is no contest of this project"),
        ({"recipes/mini/r.yaml": b"contest: mini\nknobs: {no_such: 1}\n"}, "recipes/mini/r.yaml|no_such"),
        ({"recipes/mini/r.yaml": b"!!python/object/apply:os.system [x]\n"}, "tags are not allowed"),
        ({"recipes/mini/-r.yaml": b"contest: mini\n"}, "a recipe's name"),
        ({"verdicts/mini/y.json": json.dumps(VERDICT).encode()}, "verdict on another run"),
        ({"recipes/mini/base.yaml": None}, "lost 1 entries"),
        ({"recipes/mini/big.yaml": b"#" * 4_000_001}, "too many"),
        ({"texts/mini/train.txt": b"another text"}, "texts/mini/train.txt: changed"),
    ],
)
def test_what_a_branch_must_not_bring(
    branch: Callable[..., Project], entries: dict[str, bytes | None], words: str
) -> None:
    project = branch(entries=entries)
    (problem, *_) = review.review(project, "other").problems
    assert any(word in problem for word in words.split("|"))


def test_an_object_that_is_not_what_its_name_says_is_found(branch: Callable[..., Project]) -> None:
    project = branch("a")
    path = listing.store_path(listing.read(project, "other")["runs/mini/a.json"])
    project.git("switch", "-q", "other")
    (project.root / path).chmod(0o644)
    (project.root / path).write_text("{}")
    project.git("commit", "-q", "-a", "-m", "swap")
    project.git("switch", "-q", "main")
    assert "not what its name says" in review.review(project, "other").problems[0]


@pytest.mark.parametrize("how", ["change", "remove", "link"])
def test_a_branch_that_touches_objects_of_others_is_refused(branch: Callable[..., Project], how: str) -> None:
    """An object that is there already would be replaced below an unchanged listing."""
    project = branch("a")
    path = project.root / listing.store_path(listing.read(project)["recipes/mini/base.yaml"])
    project.git("switch", "-q", "other")
    path.chmod(0o644)
    if how == "change":
        path.write_text("contest: mini\n")
    else:
        path.unlink()
    if how == "link":
        path.symlink_to("/etc/passwd")
    project.git("commit", "-q", "-a", "-m", how)
    project.git("switch", "-q", "main")
    assert "objects are only added" in review.review(project, "other").problems[0]
    with pytest.raises(StoreError, match="objects are only added"):
        merge.merge(project, "other")


def test_the_settings_of_the_branch_do_not_count(branch: Callable[..., Project]) -> None:
    """A branch that brings weaker contracts along is judged by ours."""
    project = branch(entries={"runs/mini/bad.json": b"{}"}, files={"schemas/run.yaml": "x", "contests/mini.yaml": "x"})
    result = review.review(project, "other")
    assert result.other == ["contests/mini.yaml", "schemas/run.yaml"]
    assert "is no run record" in result.problems[0]
    assert result.problems[-1] == f"changes 2 files besides the dataset, {review.ONLY_TRUSTED}"


def test_an_earlier_event_of_a_verdict_cannot_be_dropped(branch: Callable[..., Project], dvc_project: Project) -> None:
    quarantined = verdicts.said(None, "mini", "a", verdicts.event("quarantined", "tester", "odd"))
    with store.locked(dvc_project):
        store.add(dvc_project, {"verdicts/mini/a.json": verdicts.text(quarantined)})
    dvc_project.git("commit", "-q", "-m", "quarantined")
    accepted = verdicts.said(None, "mini", "a", verdicts.event("accepted", "somebody"))
    project = branch(entries={"verdicts/mini/a.json": verdicts.text(accepted).encode()})
    assert "events are only added" in review.review(project, "other").problems[0]


def test_contributed_words_cannot_leave_the_block(branch: Callable[..., Project]) -> None:
    evil = "```\n# @everyone <img src=x onerror=alert(1)> [x](javascript:1) \x1b[31m\u202e"
    project = branch(entries={f"runs/mini/{evil}.json": json.dumps({"format": evil}).encode()})
    text = review.review(project, "other").markdown()
    begin, end = text.index("```text\n"), text.rindex("```")
    inside = text[begin + len("```text\n") : end]
    assert "@everyone" in inside
    assert "@everyone" not in text[:begin]
    assert "`" not in inside
    assert all(line.isprintable() for line in inside.splitlines())


def test_a_long_review_is_cut() -> None:
    result = review.Review("b", "c" * 40, [f"runs/mini/{'x' * 900}{i}" for i in range(999)], [], [], [], [], [], 999)
    assert len(result.markdown()) < 30_000
    assert "and 949 more" in result.markdown()


def test_what_is_no_revision_is_refused(dvc_project: Project) -> None:
    for name in ("nowhere", "--all", "", "main..main"):
        with pytest.raises(StoreError, match="is no branch"):
            review.review(dvc_project, name)


def test_two_branches_that_speak_of_one_run_are_reviewed_as_one(
    branch: Callable[..., Project], dvc_project: Project
) -> None:
    project = branch(entries={"verdicts/mini/a.json": verdicts.text(_accepted("b")).encode()})
    with store.locked(project):
        store.add(project, {"verdicts/mini/a.json": verdicts.text(_accepted("c"))})
    project.git("commit", "-q", "-m", "ours")
    result = review.review(project, "other")
    assert result.problems == [
        *(
            f"decides about a run or a score, {review.ONLY_TRUSTED}: a: {words}"
            for words in ("a verdict on a run that is not in the dataset", "accepted by b")
        ),
        "the merged dataset: verdict on a: says fitted, and the run is not in the dataset",
    ]
    assert result.changed == ["verdicts/mini/a.json"]


def _accepted(by: str) -> verdicts.Verdict:
    return verdicts.said(None, "mini", "a", verdicts.event("accepted", by))


def test_objects_that_are_not_made_yet_are_read(dvc_project: Project) -> None:
    objects = combine.Objects(dvc_project)
    objects.made["0" * 32] = b"x"
    assert (objects.read("0" * 32), objects.size("0" * 32)) == (b"x", 1)
