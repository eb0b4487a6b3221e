"""The dataset on disk: what is there, what is missing, what two records may not both be."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import factories
import pytest

from ffsim import contribute, curate, dataset, listing, records
from ffsim.errors import ProjectError, RecordError
from ffsim.project import Project


def _write(project: Project, *runs: dict[str, object]) -> None:
    for run in runs:
        factories.write(project.folder("runs", "mini") / f"{run['run_id']}.json", run)


def test_runs_are_loaded_in_the_order_of_their_ids(project: Project) -> None:
    contest = project.contest()
    _write(project, factories.run(contest, "b"), factories.run(contest, "a", bpb=2.6))
    assert [run.run_id for run in dataset.load_runs(project, "mini")] == ["a", "b"]


def test_a_damaged_file_of_the_dataset_is_named(project: Project) -> None:
    _write(project, factories.run(project.contest()) | {"steps": "many"})
    with pytest.raises(RecordError, match=r"base-s1\.json.*steps"):
        dataset.load_runs(project, "mini")


def test_a_torn_file_of_the_dataset_is_named_by_the_index(project: Project) -> None:
    _write(project, factories.run(project.contest()))
    path = project.folder("runs", "mini") / "base-s1.json"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RecordError, match=r"base-s1\.json: is damaged .*dvc checkout data"):
        dataset.index(project)


def test_the_listing_needs_no_pull(dvc_project: Project) -> None:
    shutil.rmtree(dvc_project.data)
    shutil.rmtree(dvc_project.root / ".dvc/cache")
    listing = dataset.listing(dvc_project)
    assert "texts/mini/train.txt" in listing
    assert set(dataset.missing(dvc_project)) == set(listing)


def test_a_partial_dataset_is_refused(dvc_project: Project) -> None:
    dataset.require_complete(dvc_project)
    (dvc_project.data / "recipes/mini/base.yaml").unlink()
    with pytest.raises(ProjectError, match=r"1 files of the dataset are not here.*dvc pull data"):
        dataset.require_complete(dvc_project)


def test_entries_lost_against_head_are_refused(dvc_project: Project) -> None:
    """What `dvc add data` on a partial clone does: data.dvc itself shrinks without a word."""
    (dvc_project.data / "recipes/mini/base.yaml").unlink()
    subprocess.run(["dvc", "add", "-q", "data"], cwd=dvc_project.root, check=True)
    assert dataset.missing(dvc_project) == []
    with pytest.raises(ProjectError, match=r"lost 1 entries against HEAD.*base.yaml"):
        dataset.require_complete(dvc_project)


def test_find_run_never_leaves_its_folders(project: Project) -> None:
    factories.write(project.root / "data/secret.json", factories.run(project.contest(), "secret"))
    for name in ("../../secret", "../secret", "", "x" * 200):
        with pytest.raises(RecordError, match="no run"):
            dataset.find_run(project, name)


def test_find_run_looks_in_the_dataset_the_outbox_and_rehearsed(project: Project) -> None:
    contest = project.contest()
    _write(project, factories.run(contest, "in-data"))
    factories.write(project.outbox / "own.json", factories.run(contest, "own"))
    factories.write(project.rehearsed / "mini.json", factories.run(contest, "candidate"))
    for name in ("in-data", "own", "candidate"):
        assert dataset.find_run(project, name)[0].run_id == name


def test_the_table_has_one_row_a_run_and_dotted_columns(laptop: object, project: Project) -> None:
    contest = project.contest()
    runs = [records.run_from(factories.run(contest, name), where="x") for name in ("a", "b")]
    table = dataset.table(runs)
    assert list(table["run_id"]) == ["a", "b"]
    assert {"knobs.lr", "clock.train_charged_s", "scores.public.bpb", "step_times.1.mean_s"} <= set(table.columns)


def test_an_upload_of_another_artifact_is_a_problem(project: Project) -> None:
    contest = project.contest()
    run = factories.run(contest)
    loaded = [records.run_from(run, where="x")]

    def problems(**changes: object) -> list[str]:
        upload = records.upload_from(factories.upload(contest, "u", run, 2.5, **changes), where="x")
        return dataset.uploads_problems(contest, [upload], loaded)

    assert problems() == []
    assert "artifact, seed or order differ" in problems(seed=2)[0]
    assert "not in the dataset" in problems(run_id="gone")[0]
    assert "official run gone is not" in problems(official__run_id="gone")[0]
    assert "is no official run" in problems(official__run_id=run["run_id"])[0]
    scored = factories.run(contest, "off", kind="official", bpb=2.5)
    loaded.append(records.run_from(scored, where="x"))
    assert problems(official__run_id="off") == []
    assert "its score is not the one" in problems(official__run_id="off", official__bpb=1.5)[0]


def test_a_changed_text_is_noticed(project: Project) -> None:
    contest = project.contest()
    assert dataset.texts_problems(project, contest.texts.items()) == []
    (project.texts / "mini/public.txt").write_bytes(b"x" * 3000)
    (project.texts / "mini/hidden.txt").unlink()
    found = dataset.texts_problems(project, contest.texts.items())
    assert len(found) == 2
    assert "sha256 differs" in found[0]
    assert "dvc pull data" in found[1]


@pytest.mark.parametrize(
    "path", ["../evil.py", "runs/../../x", "/etc/passwd", "runs//x", "runs/./x", "runs\\..\\x", "other/x", ""]
)
def test_a_listing_that_leads_out_of_data_is_refused(path: str) -> None:
    """`dvc pull` would write it where it says."""
    text = json.dumps([{"md5": "a" * 32, "relpath": path}])
    with pytest.raises(ProjectError, match="no place of a dataset"):
        dataset.entries(text, "x")


def test_an_entry_that_left_the_listing_is_lost_though_its_file_is_there(dvc_project: Project) -> None:
    left = {path: md5 for path, md5 in dataset.listing(dvc_project).items() if path != "recipes/mini/base.yaml"}
    text = listing.dump(left)[0]
    md5 = hashlib.md5(text.encode()).hexdigest() + ".dir"
    target = dvc_project.root / dataset.store_path(md5)
    target.parent.mkdir(exist_ok=True)
    target.write_text(text)
    (dvc_project.root / "data.dvc").write_text(f"outs:\n- md5: {md5}\n  path: data\n")
    with pytest.raises(ProjectError, match="lost 1 entries against HEAD"):
        dataset.require_complete(dvc_project)


def _point_to(project: Project, entries: dict[str, str]) -> None:
    text, md5 = listing.dump(entries)
    target = project.root / listing.store_path(md5)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    (project.root / "data.dvc").write_text(listing.pointer_text(md5, None, len(entries)))
    project.git("add", "-A")


def test_entries_that_the_last_commit_lost_are_refused(dvc_project: Project) -> None:
    """Committed already: HEAD itself is the half."""
    known = dataset.listing(dvc_project)
    _point_to(dvc_project, {path: md5 for path, md5 in known.items() if path != "recipes/mini/base.yaml"})
    dvc_project.git("commit", "-q", "-m", "half")
    with pytest.raises(ProjectError, match=r"lost 1 entries against HEAD\^1 \(e\.g\. recipes.*git checkout HEAD\^ --"):
        dataset.require_complete(dvc_project)


@pytest.mark.parametrize(("kept", "lost"), [("main", "HEAD^2"), ("other", "HEAD^1")])
def test_a_merge_that_kept_one_side_only_is_refused(dvc_project: Project, kept: str, lost: str) -> None:
    """`git merge -X ours`, or a conflict that was solved by taking one side."""
    known = dataset.listing(dvc_project)
    md5 = known["recipes/mini/base.yaml"]
    for branch in ("other", "main"):
        dvc_project.git("switch", "-q", *(["-c"] if branch == "other" else []), branch)
        _point_to(dvc_project, {**known, f"recipes/mini/{branch}.yaml": md5})
        dvc_project.git("commit", "-q", "-m", branch)
        (dvc_project.data / f"recipes/mini/{branch}.yaml").write_text("contest: mini\nname: base\nknobs: {}\n")
    dvc_project.git("merge", "-q", "--no-edit", "-X", "ours" if kept == "main" else "theirs", "other")
    other = dvc_project.git("rev-parse", "--short=12", "other")
    with pytest.raises(
        ProjectError, match=rf"against {re.escape(lost)} .*git reset --keep HEAD\^1 && ffsim merge"
    ) as e:
        dataset.require_complete(dvc_project)
    assert str(e.value).endswith(f"ffsim merge {(other or '').strip()}")


def test_a_run_that_a_verdict_removes_is_not_lost(dvc_project: Project, tmp_path: Path) -> None:
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    contribute.add_runs(dvc_project, [str(file)])
    dvc_project.git("commit", "-q", "-m", "a")
    curate.remove(dvc_project, "a", "tester", "why")
    dataset.require_complete(dvc_project)
    dvc_project.git("commit", "-q", "-m", "removed")
    dataset.require_complete(dvc_project)


def test_a_shallow_clone_has_no_parent_to_compare_with(dvc_project: Project, tmp_path: Path) -> None:
    dvc_project.git("commit", "-q", "--allow-empty", "-m", "more")
    url = f"file://{dvc_project.root}"
    subprocess.run(["git", "clone", "-q", "--depth", "1", url, str(tmp_path / "clone")], check=True)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=tmp_path / "clone", check=True)
    dataset.require_complete(Project(tmp_path / "clone"))


def test_files_of_another_branch_that_lie_about_are_not_the_dataset(dvc_project: Project) -> None:
    (dvc_project.data / "runs/mini/stray.json").write_text("{}")
    assert dataset.index(dvc_project).ids == {}


def test_a_pointer_in_conflict_is_one_line(dvc_project: Project) -> None:
    (dvc_project.root / "data.dvc").write_text("<<<<<<< HEAD\nouts:\n=======\n>>>>>>> x\n")
    with pytest.raises(ProjectError, match="in conflict"):
        dataset.listing(dvc_project)


@pytest.mark.parametrize(
    "blob",
    [
        b"\xa4\xff\x00",
        "outs:\n- md5: x\n".encode("utf-16"),
        b"outs: []\n",
        b"just words\n",
        b"outs:\n- md5: 2026-99-99\n",
        b"[" * 9_000,
        b"outs:\n- md5: x\n" * 100_000,
        b"outs:\n- {path: data}\n",
    ],
)
def test_a_damaged_data_dvc_does_not_pass_for_an_empty_dataset(dvc_project: Project, blob: bytes) -> None:
    (dvc_project.root / "data.dvc").write_bytes(blob)
    with pytest.raises(ProjectError, match="in conflict or damaged"):
        dataset.listing(dvc_project)
