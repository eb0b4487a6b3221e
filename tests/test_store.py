"""Adding to the dataset: whole or not at all, granular, pushed and staged."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import factories
import pytest

from ffsim import contribute, dataset, journal, store
from ffsim.errors import ProjectError, StoreError
from ffsim.project import Project


def _tree(project: Project) -> dict[str, bytes]:
    """Every file that git or DVC would see, with its content."""
    places = [project.data, project.root / "dvcstore", project.root / "data.dvc"]
    files = [p for place in places for p in ([place] if place.is_file() else sorted(place.rglob("*"))) if p.is_file()]
    return {str(path.relative_to(project.root)): path.read_bytes() for path in files}


def _status(project: Project) -> str:
    return project.git("status", "--porcelain") or ""


def _files(project: Project, folder: Path, *names: str) -> list[str]:
    contest = project.contest()
    return [
        str(factories.write(folder / f"{name}.json", factories.run(contest, name, bpb=2.6 + i / 100)))
        for i, name in enumerate(names)
    ]


def test_added_runs_are_listed_pushed_and_staged(dvc_project: Project, tmp_path: Path) -> None:
    before = dataset.listing(dvc_project)
    result = contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a", "b"))
    assert result.run_ids == ["a", "b"]
    after = dataset.listing(dvc_project)
    assert set(after) - set(before) == {f"{kind}/mini/{name}.json" for kind in ("runs", "verdicts") for name in "ab"}
    assert all((dvc_project.root / dataset.store_path(md5)).is_file() for md5 in after.values())
    staged = _status(dvc_project).splitlines()
    assert "M  data.dvc" in staged
    assert all(line[1] == " " for line in staged)


def test_a_fresh_clone_can_pull_what_was_added_and_committed(dvc_project: Project, tmp_path: Path) -> None:
    contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a"))
    dvc_project.git("commit", "-q", "-m", "add a")
    subprocess.run(["git", "clone", "-q", str(dvc_project.root), str(tmp_path / "clone")], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=tmp_path / "clone", check=True)
    assert json.loads((tmp_path / "clone/data/runs/mini/a.json").read_text())["run_id"] == "a"


def test_an_add_on_a_clone_that_has_pulled_nothing_keeps_the_other_entries(
    dvc_project: Project, tmp_path: Path
) -> None:
    files = _files(dvc_project, tmp_path / "in", "a")
    before = dataset.listing(dvc_project)
    shutil.rmtree(dvc_project.data)
    shutil.rmtree(dvc_project.root / ".dvc/cache")
    contribute.add_runs(dvc_project, files)
    assert set(dataset.listing(dvc_project)) == {*before, "runs/mini/a.json", "verdicts/mini/a.json"}


def test_a_superseded_listing_that_no_commit_holds_is_dropped(dvc_project: Project, tmp_path: Path) -> None:
    def listings() -> int:
        return len(list((dvc_project.root / "dvcstore").rglob("*.dir")))

    committed = listings()
    for name in ("a", "b", "c"):
        contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / name, name))
    assert listings() == committed + 1
    assert len(dataset.listing(dvc_project)) == len(dataset.listing(dvc_project, "HEAD")) + 6


def test_a_refusal_changes_nothing(dvc_project: Project, tmp_path: Path) -> None:
    before, status = _tree(dvc_project), _status(dvc_project)
    good = _files(dvc_project, tmp_path / "in", "good")
    bad = factories.write(tmp_path / "in/bad.json", factories.run(dvc_project.contest(), "bad", seed=-1))
    result = contribute.add_runs(dvc_project, [*good, str(bad)])
    assert result.violations
    assert "nothing was added" in result.summary()
    assert (_tree(dvc_project), _status(dvc_project)) == (before, status)


def test_a_dry_run_changes_nothing(dvc_project: Project, tmp_path: Path) -> None:
    before, status = _tree(dvc_project), _status(dvc_project)
    result = contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a"), dry_run=True)
    assert result.run_ids == ["a"]
    assert result.as_json()["added"] == []
    assert (_tree(dvc_project), _status(dvc_project)) == (before, status)


@pytest.mark.parametrize("broken", ["add", "push"])
def test_when_dvc_fails_the_dataset_is_as_it_was(
    dvc_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    def fail(*_args: object, **_options: object) -> None:
        raise DvcException("no space left")

    before, listing = _status(dvc_project), dataset.listing(dvc_project)
    monkeypatch.setattr(Repo, broken, fail)
    with pytest.raises(StoreError, match="no space left; nothing was changed"):
        contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a"))
    assert _status(dvc_project) == before
    assert dataset.listing(dvc_project) == listing
    assert not (dvc_project.data / "runs/mini/a.json").exists()


def test_a_file_of_the_dataset_never_changes(dvc_project: Project) -> None:
    with pytest.raises(StoreError, match="never changes"):
        store.add(dvc_project, {"recipes/mini/base.yaml": "x"})
    with pytest.raises(StoreError, match="outside"):
        store.add(dvc_project, {"../evil.json": "x"})


def test_a_failed_add_leaves_no_object_for_the_next_one_to_commit(
    dvc_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault of a stale .git/index.lock: DVC has pushed, git refuses."""
    monkeypatch.setattr(journal, "GIT_WAIT_S", 0.0)
    lock = dvc_project.root / ".git/index.lock"
    lock.touch()
    before = _tree(dvc_project)
    with pytest.raises(ProjectError, match=r"index\.lock"):
        contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a"))
    assert _tree(dvc_project) == before
    lock.unlink()
    assert contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a")).run_ids == ["a"]


def test_strays_of_a_killed_command_are_not_staged(dvc_project: Project, tmp_path: Path) -> None:
    stray = dvc_project.root / "dvcstore/files/md5/ab/stray.tmp"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_text("half")
    contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a"))
    assert "?? dvcstore/files/md5/ab/" in _status(dvc_project)


def test_names_differ_by_more_than_case(dvc_project: Project) -> None:
    """On a file system that ignores case the second would be the first."""
    with pytest.raises(StoreError, match=r"recipes/mini/base\.yaml exists"):
        store.add(dvc_project, {"recipes/mini/BASE.yaml": "x"})
    shutil.rmtree(dvc_project.data / "recipes")
    with pytest.raises(StoreError, match=r"recipes/mini/base\.yaml exists"):
        store.add(dvc_project, {"recipes/mini/base.yaml": "x"})


def test_a_terminated_add_is_undone(dvc_project: Project, tmp_path: Path) -> None:
    """SIGTERM in the middle of it, sent by the process itself once the file has been written."""
    file = _files(dvc_project, tmp_path / "in", "a")[0]
    before = _tree(dvc_project)
    code = (
        "import os, signal; from ffsim import cli, store\n"
        "store._track = lambda *a, **k: os.kill(os.getpid(), signal.SIGTERM)\n"
        f"cli.main(['add-run', {file!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=dvc_project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 130
    assert "interrupted" in done.stderr
    assert _tree(dvc_project) == before


def test_a_remote_that_cannot_be_reached_is_one_line(
    dvc_project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dvc.repo import Repo

    def fail(*_args: object, **_options: object) -> None:
        raise ImportError("s3 is supported, but requires 'dvc-s3'")

    monkeypatch.setattr(Repo, "push", fail)
    with pytest.raises(StoreError, match="dvc-s3"):
        contribute.add_runs(dvc_project, _files(dvc_project, tmp_path / "in", "a"))


def test_the_same_run_twice_is_refused_the_second_time(dvc_project: Project, tmp_path: Path) -> None:
    files = _files(dvc_project, tmp_path / "in", "a")
    assert not contribute.add_runs(dvc_project, files).violations
    again = contribute.add_runs(dvc_project, files)
    assert [violation.rule for violation in again.violations] == ["unique_id"]


def test_the_outbox_is_emptied_of_what_the_dataset_holds(dvc_project: Project) -> None:
    _files(dvc_project, dvc_project.outbox, "a", "b")
    (dvc_project.outbox / "a.log").write_text("log")
    assert contribute.add_runs(dvc_project, ["runs"]).run_ids == ["a", "b"]
    assert [path.name for path in dvc_project.outbox.iterdir()] == ["a.log"]


def test_two_writers_at_once_lose_nothing(dvc_project: Project, tmp_path: Path) -> None:
    """Four processes add a run each at the same time."""
    files = _files(dvc_project, tmp_path / "in", "a", "b", "c", "d")
    writers = [
        subprocess.Popen(["ffsim", "add-run", file], cwd=dvc_project.root, stdout=subprocess.DEVNULL) for file in files
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    added = {name for name in dataset.listing(dvc_project) if name.endswith(".json")}
    assert added == {f"{kind}/mini/{name}.json" for kind in ("runs", "verdicts") for name in "abcd"}
    assert dataset.missing(dvc_project) == []
