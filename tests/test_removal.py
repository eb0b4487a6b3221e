"""Taking a run out of the dataset: with a verdict, whole or not at all, and with nothing pulled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import factories
import pytest

from ffsim import contribute, dataset, journal, listing, store, verdicts
from ffsim.errors import ProjectError, StoreError
from ffsim.project import Project

RUN = "runs/mini/a.json"
VERDICT = "verdicts/mini/a.json"


def _removed(project: Project) -> dict[str, str]:
    verdict = verdicts.said(
        verdicts.of_run(project, "mini", "a"), "mini", "a", verdicts.event("removed", "tester", "wrong text")
    )
    return {VERDICT: verdicts.text(verdict)}


def _remove(project: Project) -> None:
    with store.locked(project):
        store.add(project, _removed(project), replace=True, remove=[RUN])


def _standing(project: Project) -> str:
    return verdicts.read((project.data / VERDICT).read_bytes(), VERDICT).standing


def _unpull(project: Project) -> None:
    shutil.rmtree(project.data)
    shutil.rmtree(project.root / ".dvc/cache")


def _dvc(project: Project, *arguments: str) -> str:
    done = subprocess.run(["dvc", *arguments], cwd=project.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def with_run(dvc_project: Project, tmp_path: Path) -> Project:
    """A project whose HEAD holds the runs a and b."""
    contest = dvc_project.contest()
    files = [
        str(factories.write(tmp_path / "in" / f"{n}.json", factories.run(contest, n, bpb=2.6 + i / 9)))
        for i, n in enumerate("ab")
    ]
    assert not contribute.add_runs(dvc_project, files).violations
    dvc_project.git("commit", "-q", "-m", "a and b")
    return dvc_project


@pytest.mark.parametrize("pulled", [True, False])
def test_a_removed_run_leaves_the_listing_and_nothing_else_does(with_run: Project, pulled: bool) -> None:
    before = listing.read(with_run)
    if not pulled:
        _unpull(with_run)
    _remove(with_run)
    assert set(listing.read(with_run)) == {*before, VERDICT} - {RUN}
    assert not (with_run.data / RUN).exists()
    assert listing.not_stored(with_run) == []
    assert (with_run.root / listing.store_path(before[RUN])).is_file()


@pytest.mark.parametrize("pulled", [True, False])
def test_dvc_finds_a_dataset_with_a_removed_run_in_order(with_run: Project, pulled: bool) -> None:
    if not pulled:
        _unpull(with_run)
    _remove(with_run)
    _dvc(with_run, "pull", "-q", "data")
    assert "up to date" in _dvc(with_run, "status", "data.dvc")
    assert not (with_run.data / RUN).exists()
    dataset.require_complete(with_run)


def test_the_size_that_dvc_shows_stays_right(with_run: Project) -> None:
    _remove(with_run)
    files = [path for path in with_run.data.rglob("*") if path.is_file()]
    text = listing.pointer(with_run) or ""
    assert f"size: {sum(path.stat().st_size for path in files)}\n" in text
    assert f"nfiles: {len(files)}\n" in text


def test_a_removal_is_staged_whole(with_run: Project) -> None:
    _remove(with_run)
    lines = (with_run.git("status", "--porcelain") or "").splitlines()
    assert "M  data.dvc" in lines
    assert all(line[1] == " " for line in lines)
    assert sum(line.endswith(".dir") for line in lines) == 1


def test_the_next_add_keeps_the_removal(with_run: Project, tmp_path: Path) -> None:
    _remove(with_run)
    file = factories.write(tmp_path / "c.json", factories.run(with_run.contest(), "c", bpb=2.5))
    assert contribute.add_runs(with_run, [str(file)]).run_ids == ["c"]
    runs = {name for name in listing.read(with_run) if name.startswith("runs/") and name.endswith(".json")}
    assert runs == {"runs/mini/b.json", "runs/mini/c.json"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("runs/mini/none.json", "is not in the dataset"),
        ("recipes/mini/base.yaml", "only a run leaves"),
        ("runs/mini/README.md", "only a run leaves"),
        ("runs/mini/b.json", "only with a verdict"),
    ],
)
def test_what_no_verdict_removes_stays(with_run: Project, name: str, words: str) -> None:
    before = listing.read(with_run)
    with pytest.raises(StoreError, match=words), store.locked(with_run):
        store.add(with_run, _removed(with_run), replace=True, remove=[name])
    assert listing.read(with_run) == before
    assert _standing(with_run) == "fitted"


def test_a_verdict_that_accepts_removes_nothing(with_run: Project) -> None:
    verdict = verdicts.said(None, "mini", "a", verdicts.event("accepted", "tester"))
    with pytest.raises(StoreError, match="only with a verdict"), store.locked(with_run):
        store.add(with_run, {VERDICT: verdicts.text(verdict)}, replace=True, remove=[RUN])


def test_a_verdict_that_is_in_the_dataset_already_suffices(with_run: Project) -> None:
    with store.locked(with_run):
        store.add(with_run, _removed(with_run), replace=True)
        store.add(with_run, {}, remove=[RUN])
    assert RUN not in listing.read(with_run)


@pytest.mark.parametrize("removed", [True, False])
def test_a_repro_on_files_of_before_a_pull_does_not_undo_what_was_said(with_run: Project, removed: bool) -> None:
    """`git pull` brings a decision, `dvc pull` is forgotten, and `dvc repro` takes data/ for what is meant."""
    stale = shutil.copytree(with_run.data, with_run.root.parent / "stale")
    if removed:
        _remove(with_run)
    else:
        quarantined = verdicts.said(
            verdicts.of_run(with_run, "mini", "a"), "mini", "a", verdicts.event("quarantined", "t")
        )
        with store.locked(with_run):
            store.add(with_run, {VERDICT: verdicts.text(quarantined)}, replace=True)
    with_run.git("commit", "-q", "-m", "decided")
    shutil.rmtree(with_run.data)
    shutil.copytree(stale, with_run.data)
    _dvc(with_run, "add", "-q", "data")
    with pytest.raises(ProjectError, match=r"another content than HEAD in 1 runs or verdicts.*dvc pull data"):
        dataset.require_complete(with_run)


def test_a_run_that_was_edited_by_hand_is_found(with_run: Project) -> None:
    path = with_run.data / RUN
    path.chmod(0o644)
    text = path.read_text()
    path.unlink()
    path.write_text(text.replace('"notes": ""', '"notes": "edited"'))
    _dvc(with_run, "add", "-q", "data")
    with pytest.raises(ProjectError, match="another content than HEAD"):
        dataset.require_complete(with_run)


@pytest.mark.parametrize("broken", ["git", "push"])
def test_when_a_step_fails_the_run_is_still_there(
    with_run: Project, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from dvc.repo import Repo

    before, text = listing.read(with_run), (with_run.data / RUN).read_text()
    monkeypatch.setattr(journal, "GIT_WAIT_S", 0.0)
    if broken == "git":
        (with_run.root / ".git/index.lock").touch()
    else:
        monkeypatch.setattr(Repo, "push", lambda *_a, **_k: 1 / 0)
    with pytest.raises((StoreError, ProjectError)):
        _remove(with_run)
    assert listing.read(with_run) == before
    assert (with_run.data / RUN).read_text() == text
    assert _standing(with_run) == "fitted"
    (with_run.root / ".git/index.lock").unlink(missing_ok=True)
    assert with_run.git("status", "--porcelain") == ""


@pytest.fixture
def elsewhere(with_run: Project, tmp_path: Path) -> Project:
    """The same dataset with its remote in a folder outside of the repository."""
    _dvc(with_run, "remote", "modify", "store", "url", str(tmp_path / "remote"))
    _dvc(with_run, "push", "-q", "data")
    with_run.git("rm", "-r", "-q", "dvcstore")
    shutil.rmtree(with_run.root / "dvcstore", ignore_errors=True)
    with_run.git("commit", "-q", "-a", "-m", "another remote")
    return with_run


def test_with_another_remote_the_new_listing_is_pushed(elsewhere: Project, tmp_path: Path) -> None:
    assert not listing.is_embedded(elsewhere)
    _remove(elsewhere)
    elsewhere.git("commit", "-q", "-m", "removed")
    subprocess.run(["git", "clone", "-q", str(elsewhere.root), str(tmp_path / "clone")], check=True)
    clone = Project(tmp_path / "clone")
    _dvc(clone, "pull", "-q", "data")
    assert not (clone.data / RUN).exists()
    assert (clone.data / VERDICT).is_file()


def test_with_another_remote_a_clone_without_the_listing_is_told_to_fetch(elsewhere: Project) -> None:
    _unpull(elsewhere)
    with pytest.raises(ProjectError, match="dvc fetch data"):
        _remove(elsewhere)


def test_with_another_remote_the_listing_alone_suffices_to_remove(elsewhere: Project, tmp_path: Path) -> None:
    """Nothing pulled but the listing: what the remote has need not be here."""
    md5 = listing.directory_md5(listing.pointer(elsewhere) or "") or ""
    cached = elsewhere.root / ".dvc/cache/files/md5" / md5[:2] / md5[2:]
    text = cached.read_bytes()
    _unpull(elsewhere)
    cached.parent.mkdir(parents=True)
    cached.write_bytes(text)
    _remove(elsewhere)
    new = listing.directory_md5(listing.pointer(elsewhere) or "") or ""
    assert (tmp_path / "remote/files/md5" / new[:2] / new[2:]).is_file()
    _dvc(elsewhere, "pull", "-q", "data")
    assert "up to date" in _dvc(elsewhere, "status", "data.dvc")
