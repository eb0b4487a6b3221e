"""git's own merge, pull, rebase and cherry-pick with the driver: entry by entry, with nothing pulled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import factories
import pytest

from ffsim import contribute, dataset, driver, listing, merge, store
from ffsim.errors import StoreError
from ffsim.project import Project


def _commit_run(project: Project, name: str, bpb: float) -> None:
    file = factories.write(project.root.parent / "in" / f"{name}.json", factories.run(project.contest(), name, bpb=bpb))
    assert not contribute.add_runs(project, [str(file)]).violations
    project.git("commit", "-q", "-m", name)


def _git(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=project.root, capture_output=True, text=True, check=False)


def _runs(project: Project) -> set[str]:
    return {Path(n).stem for n in listing.read(project) if n.startswith("runs/") and n.endswith(".json")}


@pytest.fixture
def forked(dvc_project: Project) -> Project:
    """On main, which added run `ours`; the branch `other` added run `theirs`; the cache is empty."""
    driver.install(dvc_project)
    dvc_project.git("add", ".gitattributes")
    dvc_project.git("commit", "-q", "-m", "driver")
    dvc_project.git("switch", "-q", "-c", "other")
    _commit_run(dvc_project, "theirs", 2.6)
    dvc_project.git("switch", "-q", "main")
    subprocess.run(["dvc", "checkout", "-q"], cwd=dvc_project.root, check=True)
    _commit_run(dvc_project, "ours", 2.7)
    shutil.rmtree(dvc_project.data)
    shutil.rmtree(dvc_project.root / ".dvc/cache")
    return dvc_project


def _clone_has(project: Project, target: Path, runs: set[str]) -> None:
    """A fresh clone pulls exactly these runs: the listing and every object are in git."""
    subprocess.run(["git", "clone", "-q", str(project.root), str(target)], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=target, check=True)
    clone = Project(target)
    assert {path.stem for path in dataset.run_files(clone, "mini")} == runs
    dataset.require_complete(clone)


def test_git_merge_merges_and_commits_the_listing(forked: Project, tmp_path: Path) -> None:
    done = _git(forked, "merge", "-q", "--no-edit", "other")
    assert done.returncode == 0, done.stderr
    assert _runs(forked) == {"ours", "theirs"}
    assert forked.git("status", "--porcelain") == ""
    _clone_has(forked, tmp_path / "clone", {"ours", "theirs"})


def test_git_pull_merges_a_branch_that_is_not_here(forked: Project, tmp_path: Path) -> None:
    subprocess.run(["git", "clone", "-q", str(forked.root), str(tmp_path / "C")], check=True)
    clone = Project(tmp_path / "C")
    driver.install(clone)
    done = _git(clone, "pull", "-q", "--no-rebase", "--no-edit", "origin", "other")
    assert done.returncode == 0, done.stderr
    assert _runs(clone) == {"ours", "theirs"}
    assert clone.git("status", "--porcelain") == ""


def test_git_rebase_merges_and_commits_the_listing(forked: Project, tmp_path: Path) -> None:
    forked.git("switch", "-q", "other")
    done = _git(forked, "rebase", "-q", "main")
    assert done.returncode == 0, done.stderr
    assert _runs(forked) == {"ours", "theirs"}
    assert forked.git("status", "--porcelain") == ""
    _clone_has(forked, tmp_path / "clone", {"ours", "theirs"})


def test_a_completed_commit_keeps_author_message_and_parents(forked: Project) -> None:
    author = {"GIT_AUTHOR_NAME": "Zoë", "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+0100"}
    command = ["git", "merge", "-q", "-m", "Über\n\nall", "other"]
    subprocess.run(command, cwd=forked.root, env={**os.environ, **author}, check=True, capture_output=True)
    said = forked.git("log", "-1", "--format=%an %ad %B", "--date=iso-strict") or ""
    assert said.strip() == "Zoë 2026-01-02T03:04:05+01:00 Über\n\nall"
    assert len((forked.git("rev-parse", "HEAD^@") or "").split()) == 2
    assert forked.git("fsck", "--strict", check=False) is not None


def test_git_cherry_pick_merges_and_says_what_to_do(forked: Project, tmp_path: Path) -> None:
    done = _git(forked, "cherry-pick", "other")
    assert done.returncode == 0, done.stderr
    assert "ffsim driver complete" in done.stderr
    assert driver.complete(forked)[1]
    assert forked.git("status", "--porcelain") == ""
    _clone_has(forked, tmp_path / "clone", {"ours", "theirs"})


def test_what_was_staged_by_hand_is_not_committed_along(forked: Project) -> None:
    _git(forked, "cherry-pick", "other")
    (forked.root / "mine.txt").write_text("mine")
    forked.git("add", "mine.txt")
    paths, done = driver.complete(forked)
    assert (len(paths), done) == (1, False)
    assert forked.git("cat-file", "-e", "HEAD:mine.txt", check=False) is None


def test_validate_finds_objects_that_git_does_not_know(forked: Project) -> None:
    _git(forked, "cherry-pick", "other")
    assert len(listing.not_tracked(forked)) == 1
    driver.stage(forked)
    assert listing.not_tracked(forked) == []


def test_objects_of_a_change_that_is_not_staged_are_no_finding(forked: Project) -> None:
    """`dvc add` and `dvc push` by hand, before `git add`."""
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=forked.root, check=True)
    (forked.data / "recipes/mini/new.yaml").write_text("contest: mini\nname: new\nknobs: {}\n")
    subprocess.run(["dvc", "add", "-q", "data"], cwd=forked.root, check=True)
    subprocess.run(["dvc", "push", "-q", "data"], cwd=forked.root, check=True)
    assert listing.not_tracked(forked) == []


def test_a_merge_of_a_merge_finds_its_listings(forked: Project) -> None:
    """A listing that only a merge commit brought is in no other commit's changes."""
    _git(forked, "merge", "-q", "--no-edit", "other")
    forked.git("switch", "-q", "-c", "third", "HEAD~1")
    _commit_run(forked, "more", 2.8)
    forked.git("switch", "-q", "main")
    _commit_run(forked, "late", 2.9)
    done = _git(forked, "merge", "-q", "--no-edit", "third")
    assert done.returncode == 0, done.stderr
    assert _runs(forked) == {"ours", "theirs", "more", "late"}


def test_what_cannot_be_merged_is_left_as_a_conflict_of_git(forked: Project) -> None:
    for branch, text in (("other", "a"), ("main", "b")):
        forked.git("switch", "-q", branch)
        with store.locked(forked):
            store.add(forked, {"recipes/mini/base.yaml": f"contest: mini\nnotes: {text}\n"}, replace=True)
        forked.git("commit", "-q", "-m", "base")
    head = forked.git("rev-parse", "HEAD")
    done = _git(forked, "merge", "--no-edit", "other")
    assert done.returncode == 1
    assert "both sides changed data/recipes/mini/base.yaml" in done.stderr
    assert "<<<<<<<" in (forked.root / "data.dvc").read_text()
    forked.git("merge", "--abort")
    assert forked.git("rev-parse", "HEAD") == head
    assert forked.git("status", "--porcelain") == ""


def test_ffsim_merge_judges_although_the_driver_is_installed(forked: Project) -> None:
    forked.git("switch", "-q", "other")
    with store.locked(forked):
        store.add(forked, {"runs/mini/bad.json": "{}"})
    forked.git("commit", "-q", "-m", "bad")
    forked.git("switch", "-q", "main")
    with pytest.raises(StoreError, match="is no run record"):
        merge.merge(forked, "other")
    assert forked.git("status", "--porcelain") == ""


def test_a_name_from_elsewhere_is_no_path(dvc_project: Project, tmp_path: Path) -> None:
    files = [tmp_path / name for name in "OAB"]
    for file in files:
        file.write_text((dvc_project.root / "data.dvc").read_text())
    for name in ("../data.dvc", "/etc/passwd", "sub/data.dvc", ""):
        with pytest.raises(StoreError, match=r"is not data\.dvc"):
            driver.merge(dvc_project, files[0], files[1], files[2], name)


def test_a_pointer_that_names_no_listing_of_ours_is_refused(dvc_project: Project, tmp_path: Path) -> None:
    ours = (dvc_project.root / "data.dvc").read_text()
    for theirs in (
        "outs:\n- md5: ../../../etc/passwd.dir\n",
        "outs: 1\n",
        "- x\n",
        "{",
        f"outs:\n- md5: {'0' * 32}.dir\n",
    ):
        files = [tmp_path / name for name in "OAB"]
        for file, text in zip(files, (ours, ours, theirs), strict=True):
            file.write_text(text)
        with pytest.raises(StoreError, match=r"data\.dvc is not merged"):
            driver.merge(dvc_project, files[0], files[1], files[2], "data.dvc")


def test_installing_twice_changes_nothing_and_keeps_other_lines(dvc_project: Project) -> None:
    path = dvc_project.root / ".gitattributes"
    path.write_text("*.png binary\n")
    first = driver.install(dvc_project)
    text = path.read_text()
    assert driver.install(dvc_project) == first
    assert path.read_text() == text
    assert text.splitlines() == ["*.png binary", *driver.ATTRIBUTES]
    assert first.hooks == list(driver.HOOKS)


def test_a_hook_of_somebody_else_stays(dvc_project: Project) -> None:
    hook = dvc_project.root / ".git/hooks/post-merge"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    result = driver.install(dvc_project)
    assert result.skipped == ["post-merge"]
    assert "ffsim driver complete" in result.summary()
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"


def test_a_shared_folder_of_hooks_is_left_alone(dvc_project: Project, tmp_path: Path) -> None:
    dvc_project.git("config", "core.hooksPath", str(tmp_path / "hooks"))
    assert driver.install(dvc_project).hooks == []
    assert not (tmp_path / "hooks").exists()


def test_outside_of_git_there_is_nothing_to_install(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.root.parent))
    result = driver.install(project)
    assert not result.in_git
    assert not (project.root / ".gitattributes").exists()


def test_a_link_out_of_the_store_is_not_followed(forked: Project, tmp_path: Path) -> None:
    """A branch can bring a link where the merged listing's folder will be."""
    outside = tmp_path / "outside"
    outside.mkdir()
    texts = [forked.git("show", f"{rev}:data.dvc") or "" for rev in ("main~1", "main", "other")]
    from ffsim import combine

    combined = combine.pointers(combine.Objects(forked, ("main", "other")), *texts)
    folder = (forked.root / listing.store_path(next(iter(combined.objects)))).parent
    shutil.rmtree(folder, ignore_errors=True)
    folder.symlink_to(outside)
    with pytest.raises(StoreError, match="a link that leads out"):
        combine.write(forked, combined)
    assert list(outside.iterdir()) == []
