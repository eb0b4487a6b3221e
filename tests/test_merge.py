"""Branches that both added runs: nothing is lost, and nothing needs to be in anybody's cache."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import factories
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffsim import combine, contribute, curate, dataset, listing, merge, review, store, validate, verdicts
from ffsim.errors import FfsimError, StoreError
from ffsim.project import Project


def _clone(source: Path, target: Path, *, pull: bool = True) -> Project:
    subprocess.run(["git", "clone", "-q", str(source), str(target)], check=True)
    if pull:
        subprocess.run(["dvc", "pull", "-q", "data"], cwd=target, check=True)
    return Project(target)


def _contribute(project: Project, branch: str, *names: str, push: bool = True) -> None:
    contest = project.contest()
    project.git("switch", "-q", "-c", branch)
    inbox = project.root.parent / f"{branch}-in"
    files = [str(factories.write(inbox / f"{n}.json", factories.run(contest, n, bpb=2.6 + len(n) / 50))) for n in names]
    assert not contribute.add_runs(project, files).violations
    project.git("commit", "-q", "-m", branch)
    if push:
        project.git("push", "-q", "origin", branch)


@pytest.fixture
def hub(dvc_project: Project, tmp_path: Path) -> Path:
    """A bare repository that everybody clones."""
    bare = tmp_path / "hub.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(dvc_project.root), str(bare)], check=True)
    return bare


def test_three_clones_lose_nothing(hub: Path, tmp_path: Path) -> None:
    """A and B add different runs at once; C, which has pulled neither, merges both; D pulls them all."""
    _contribute(_clone(hub, tmp_path / "A"), "a", "run-a", "another-from-a")
    _contribute(_clone(hub, tmp_path / "B"), "b", "run-of-b")
    c = _clone(hub, tmp_path / "C", pull=False)
    one, two = merge.merge(c, "origin/a"), merge.merge(c, "origin/b")
    of_a, of_b = ("another-from-a", "run-a"), ("run-of-b",)
    for merged, names in ((one, of_a), (two, of_b)):
        assert merged.added == [f"{kind}/mini/{name}.json" for kind in ("runs", "verdicts") for name in names]
    assert one.removed == two.removed == []
    assert c.git("status", "--porcelain") == ""
    c.git("push", "-q", "origin", "HEAD:main")
    d = _clone(hub, tmp_path / "D")
    names = {path.stem for path in dataset.run_files(d, "mini")}
    assert names == {"run-a", "another-from-a", "run-of-b"}
    assert dataset.missing(d) == []
    said = subprocess.run(["dvc", "status", "data.dvc"], cwd=d.root, capture_output=True, text=True, check=True)
    assert "up to date" in said.stdout


def test_the_listing_is_spelled_as_dvc_spells_it(dvc_project: Project) -> None:
    md5 = dataset.directory_md5((dvc_project.root / "data.dvc").read_text())
    assert md5 is not None
    text = (dvc_project.root / dataset.store_path(md5)).read_text()
    assert listing.dump(dataset.listing(dvc_project))[0] == text


def test_a_branch_with_derived_files_is_told_what_to_do(hub: Path, tmp_path: Path) -> None:
    a = _clone(hub, tmp_path / "A")
    _contribute(a, "a", "run-a", push=False)
    (a.root / "dvc.lock").write_text("schema: '2.0'\n")
    a.git("add", "dvc.lock")
    a.git("commit", "-q", "-m", "lock")
    a.git("push", "-q", "origin", "a")
    c = _clone(hub, tmp_path / "C")
    before = c.git("rev-parse", "HEAD")
    with pytest.raises(StoreError, match=r"changes dvc\.lock, which are made on main.*git checkout"):
        merge.merge(c, "origin/a")
    assert c.git("rev-parse", "HEAD") == before


def test_a_branch_that_forgot_its_objects_is_refused_and_the_merge_undone(hub: Path, tmp_path: Path) -> None:
    a = _clone(hub, tmp_path / "A")
    _contribute(a, "a", "run-a", push=False)
    lost = dataset.store_path(dataset.listing(a)["runs/mini/run-a.json"])
    a.git("rm", "-q", lost)
    a.git("commit", "-q", "-m", "forgot")
    a.git("push", "-q", "origin", "a")
    c = _clone(hub, tmp_path / "C")
    with pytest.raises(StoreError, match="git add dvcstore"):
        merge.merge(c, "origin/a")
    assert c.git("status", "--porcelain") == ""
    assert "runs/mini/run-a.json" not in dataset.listing(c)


def test_uncommitted_changes_and_unknown_branches_are_refused(dvc_project: Project) -> None:
    for name in ("nowhere", "--abort", ""):
        with pytest.raises(StoreError, match="is no branch"):
            merge.merge(dvc_project, name)
    with pytest.raises(StoreError, match="merged already"):
        merge.merge(dvc_project, "HEAD")
    _contribute(dvc_project, "other", "run-o", push=False)
    dvc_project.git("switch", "-q", "main")
    (dvc_project.root / "params.yaml").write_text("contests: [mini]\n")
    with pytest.raises(StoreError, match="uncommitted"):
        merge.merge(dvc_project, "other")


def test_both_sides_changing_one_file_is_named() -> None:
    with pytest.raises(StoreError, match=r"both sides changed data/a, data/b"):
        combine.listings({"a": "1", "b": "1"}, {"a": "2", "b": "2"}, {"a": "3"})


LISTING = st.dictionaries(st.sampled_from(["a", "b/c", "b/d", "e"]), st.sampled_from(["1", "2", "3"]))


@given(LISTING, LISTING, LISTING)
def test_a_merge_keeps_what_either_side_did(base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]) -> None:
    try:
        merged = combine.listings(base, ours, theirs)
    except StoreError:
        return
    assert merged == combine.listings(base, theirs, ours)
    for path in {**base, **ours, **theirs}:
        if ours.get(path) != base.get(path):
            assert merged.get(path) == ours.get(path)
        elif theirs.get(path) != base.get(path):
            assert merged.get(path) == theirs.get(path)
        else:
            assert merged.get(path) == base.get(path)


def test_the_cache_is_not_needed(hub: Path, tmp_path: Path) -> None:
    _contribute(_clone(hub, tmp_path / "A"), "a", "run-a")
    c = _clone(hub, tmp_path / "C", pull=False)
    shutil.rmtree(c.root / ".dvc/cache", ignore_errors=True)
    assert merge.merge(c, "origin/a").total == len(dataset.listing(c))


def _branch_with_listing(project: Project, extra: dict[str, bytes]) -> None:
    """A branch whose listing and store hold more entries, made without ffsim, as an attacker would."""
    import hashlib

    project.git("switch", "-q", "-c", "evil")
    entries = dataset.listing(project)
    for path, blob in extra.items():
        md5 = hashlib.md5(blob).hexdigest()
        target = project.root / dataset.store_path(md5)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(blob)
        entries[path] = md5
    text = listing.dump(entries)[0]
    md5 = hashlib.md5(text.encode()).hexdigest() + ".dir"
    target = project.root / dataset.store_path(md5)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    (project.root / "data.dvc").write_text(f"outs:\n- md5: {md5}\n  size: 1\n  nfiles: 1\n  hash: md5\n  path: data\n")
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "evil")
    project.git("switch", "-q", "main")


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"../ffsim/evil.py": b"x"}, "no place of a dataset"),
        ({"runs/mini/bad.json": b"{}"}, "is no run record"),
    ],
)
def test_a_branch_that_would_do_harm_is_refused(dvc_project: Project, extra: dict[str, bytes], words: str) -> None:
    before = dataset.listing(dvc_project)
    _branch_with_listing(dvc_project, extra)
    with pytest.raises(FfsimError, match=words):
        merge.merge(dvc_project, "evil")
    assert dataset.listing(dvc_project) == before
    assert dvc_project.git("status", "--porcelain") == ""


def _scored(project: Project) -> dict[str, bytes]:
    rehearsal = json.loads((project.data / "runs/mini/a.json").read_bytes())
    official = factories.run(project.contest(), "of-a", bpb=2.0, kind="official", steps=790)
    return {
        "uploads/mini/u.json": json.dumps(factories.upload(project.contest(), "u", rehearsal, 2.0)).encode(),
        "runs/mini/of-a.json": json.dumps(official).encode(),
        "recipes/mini/muon.yaml": b"contest: mini\nname: muon\nknobs: {}\n",
        "verdicts/mini/later.json": b'{"format":"ffsim-verdict/1","contest":"mini","run_id":"later","events":[]}',
    }


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("uploads/mini/u.json", "u: official score 2"),
        ("runs/mini/of-a.json", "of-a: an official run"),
        ("recipes/mini/muon.yaml", "data/recipes/mini/muon.yaml: changed"),
        ("verdicts/mini/later.json", "later: a verdict on a run that is not in the dataset"),
    ],
)
def test_what_its_author_may_not_decide_needs_trust(
    dvc_project: Project, tmp_path: Path, path: str, words: str
) -> None:
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    contribute.add_runs(dvc_project, [str(file)])
    dvc_project.git("commit", "-q", "-m", "a")
    _branch_with_listing(dvc_project, {path: _scored(dvc_project)[path]})
    assert any(words in problem for problem in review.review(dvc_project, "evil").problems)
    with pytest.raises(StoreError, match=f"{words}.*--trusted"):
        merge.merge(dvc_project, "evil")
    assert merge.merge(dvc_project, "evil", trusted=True).total


@pytest.mark.parametrize("path", ["params.yaml", "schemas/run.yaml", "contests/mini.yaml", "ffsim/schema.py"])
def test_a_branch_does_not_bring_what_judges_it(dvc_project: Project, path: str) -> None:
    """Maintainers, limits and contracts of the branch would count: git has them in the working tree by then."""
    dvc_project.git("switch", "-q", "-c", "other")
    (dvc_project.root / path).parent.mkdir(exist_ok=True)
    with (dvc_project.root / path).open("a") as file:
        file.write("# weaker\n")
    dvc_project.git("add", path)
    dvc_project.git("commit", "-q", "-m", "settings")
    dvc_project.git("switch", "-q", "main")
    with pytest.raises(StoreError, match=f"changes {path} besides the dataset.*--trusted"):
        merge.merge(dvc_project, "other")
    merge.merge(dvc_project, "other", trusted=True)


def test_a_merge_that_git_does_not_begin_changes_nothing(dvc_project: Project) -> None:
    _contribute(dvc_project, "other", "run-o", push=False)
    (dvc_project.root / "extra.txt").write_text("theirs")
    dvc_project.git("add", "extra.txt")
    dvc_project.git("commit", "-q", "-m", "extra")
    dvc_project.git("switch", "-q", "main")
    (dvc_project.root / "extra.txt").write_text("mine, untracked")
    before = dvc_project.git("rev-parse", "HEAD")
    with pytest.raises(StoreError, match="did not begin the merge"):
        merge.merge(dvc_project, "other", trusted=True)
    assert dvc_project.git("rev-parse", "HEAD") == before
    assert dvc_project.git("status", "--porcelain") == "?? extra.txt\n"


def test_nothing_is_added_in_the_middle_of_a_merge(dvc_project: Project) -> None:
    _contribute(dvc_project, "other", "run-o", push=False)
    dvc_project.git("switch", "-q", "main")
    dvc_project.git("merge", "--no-commit", "--no-ff", "-q", "other")
    with pytest.raises(StoreError, match="a merge is in the middle"), store.locked(dvc_project):
        pass


def _say(project: Project, what: str, by: str, at: str) -> None:
    event = verdicts.Event(what=what, at_utc=at, by=by)  # type: ignore[arg-type]
    name = verdicts.name_of("mini", "a")
    said = verdicts.said(verdicts.of_run(project, "mini", "a"), "mini", "a", event)
    with store.locked(project):
        store.add(project, {name: verdicts.text(said)}, replace=True)
    project.git("commit", "-q", "-m", what)


@pytest.mark.parametrize("earlier", [True, False])
def test_two_branches_that_speak_of_one_run_are_merged_by_time(dvc_project: Project, earlier: bool) -> None:
    _say(dvc_project, "quarantined", "tester", "2026-11-01T10:00:00Z")
    dvc_project.git("switch", "-q", "-c", "other")
    _say(dvc_project, "accepted", "theirs", "2026-11-02T10:00:00Z")
    dvc_project.git("switch", "-q", "main")
    subprocess.run(["dvc", "checkout", "-q"], cwd=dvc_project.root, check=True)
    _say(dvc_project, "removed", "ours", "2026-11-01T20:00:00Z" if earlier else "2026-11-03T10:00:00Z")
    merge.merge(dvc_project, "other", trusted=True)
    subprocess.run(["dvc", "checkout", "-q"], cwd=dvc_project.root, check=False)
    subprocess.run(["dvc", "pull", "-q", "data"], cwd=dvc_project.root, check=True)
    verdict = verdicts.of_run(dvc_project, "mini", "a")
    assert verdict is not None
    order = ["ours", "theirs"] if earlier else ["theirs", "ours"]
    assert [event.by for event in verdict.events] == ["tester", *order]
    assert verdict.standing == ("fitted" if earlier else "removed")
    assert dvc_project.git("status", "--porcelain") == ""
    assert listing.not_stored(dvc_project) == []


@pytest.mark.parametrize("accepted", ["2026-11-02T10:00:00Z", "2026-11-04T10:00:00Z"])
def test_where_one_side_removes_and_the_other_accepts_the_last_word_counts(
    dvc_project: Project, tmp_path: Path, accepted: str
) -> None:
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    contribute.add_runs(dvc_project, [str(file)])
    _say(dvc_project, "quarantined", "tester", "2026-11-01T10:00:00Z")
    dvc_project.git("switch", "-q", "-c", "other")
    _say(dvc_project, "removed", "theirs", "2026-11-03T10:00:00Z")
    with store.locked(dvc_project):
        store.add(dvc_project, {}, remove=["runs/mini/a.json"])
    dvc_project.git("commit", "-q", "-m", "gone")
    dvc_project.git("switch", "-q", "main")
    subprocess.run(["dvc", "checkout", "-q"], cwd=dvc_project.root, check=True)
    _say(dvc_project, "accepted", "ours", accepted)
    merge.merge(dvc_project, "other", trusted=True)
    verdict = verdicts.of_run(dvc_project, "mini", "a")
    assert verdict is not None
    assert ("runs/mini/a.json" in listing.read(dvc_project)) == (verdict.standing == "fitted")
    assert verdict.standing == ("removed" if accepted < "2026-11-03" else "fitted")
    assert validate.run(dvc_project, dvc_project.contest()).problems == []


def _drop(project: Project, *names: str) -> None:
    """What `dvc add data` does on a clone that has not pulled, and the commit of it."""
    left = {path: md5 for path, md5 in dataset.listing(project).items() if path not in names}
    text, md5 = listing.dump(left)
    target = project.root / listing.store_path(md5)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    (project.root / "data.dvc").write_text(listing.pointer_text(md5, None, len(left)))
    project.git("add", "-A")
    project.git("commit", "-q", "-m", "dropped")


def test_a_branch_that_lost_entries_is_told_what_to_do(dvc_project: Project) -> None:
    dvc_project.git("switch", "-q", "-c", "other")
    _drop(dvc_project, "recipes/mini/base.yaml", "recipes/mini/muon.yaml")
    dvc_project.git("switch", "-q", "main")
    with pytest.raises(StoreError, match=r"lost 2 entries .*recipes/mini/base\.yaml.*on the branch: git checkout"):
        merge.merge(dvc_project, "other")
    assert dvc_project.git("status", "--porcelain") == ""


def test_a_branch_that_removes_a_run_with_a_verdict_is_merged(dvc_project: Project, tmp_path: Path) -> None:
    file = factories.write(tmp_path / "a.json", factories.run(dvc_project.contest(), "a", bpb=2.6))
    contribute.add_runs(dvc_project, [str(file)])
    dvc_project.git("commit", "-q", "-m", "a")
    dvc_project.git("switch", "-q", "-c", "other")
    curate.remove(dvc_project, "a", "tester", "why")
    dvc_project.git("commit", "-q", "-m", "removed")
    dvc_project.git("switch", "-q", "main")
    with pytest.raises(StoreError, match=r"decides about runs or scores \(a: removed by tester\).*--trusted"):
        merge.merge(dvc_project, "other")
    assert merge.merge(dvc_project, "other", trusted=True).removed == ["runs/mini/a.json"]


def test_a_listing_that_is_not_what_its_name_says_is_refused(dvc_project: Project) -> None:
    _branch_with_listing(dvc_project, {"recipes/mini/x.yaml": b"contest: mini\n"})
    md5 = listing.directory_md5(listing.pointer(dvc_project, "evil") or "") or ""
    dvc_project.git("switch", "-q", "evil")
    (dvc_project.root / listing.store_path(md5)).write_text("[]")
    dvc_project.git("commit", "-q", "-a", "-m", "forged")
    dvc_project.git("switch", "-q", "main")
    with pytest.raises(StoreError, match="not what its name says"):
        merge.merge(dvc_project, "evil")


def test_with_another_remote_the_listings_are_fetched_and_the_merged_one_is_pushed(
    dvc_project: Project, tmp_path: Path
) -> None:
    def dvc(project: Project, *words: str) -> None:
        subprocess.run(["dvc", *words], cwd=project.root, check=True, capture_output=True)

    dvc(dvc_project, "remote", "modify", "store", "url", str(tmp_path / "remote"))
    dvc(dvc_project, "push", "-q", "data")
    dvc_project.git("rm", "-r", "-q", "dvcstore")
    dvc_project.git("commit", "-q", "-a", "-m", "another remote")
    _contribute(dvc_project, "other", "run-o", push=False)
    dvc_project.git("switch", "-q", "main")
    dvc(dvc_project, "checkout", "-q")
    file = factories.write(tmp_path / "m.json", factories.run(dvc_project.contest(), "run-m", bpb=2.5))
    assert not contribute.add_runs(dvc_project, [str(file)]).violations
    dvc_project.git("commit", "-q", "-m", "m")
    clone = _clone(dvc_project.root, tmp_path / "clone")
    with pytest.raises(StoreError, match="dvc fetch --all-commits data"):
        merge.merge(clone, "origin/other")
    dvc(clone, "fetch", "-q", "--all-commits", "data")
    assert merge.merge(clone, "origin/other").added == ["runs/mini/run-o.json", "verdicts/mini/run-o.json"]
    last = _clone(clone.root, tmp_path / "last")
    assert {path.stem for path in dataset.run_files(last, "mini")} == {"run-o", "run-m"}


def test_status_says_that_a_merge_was_cut_off(dvc_project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    from ffsim import cli

    _contribute(dvc_project, "other", "run-o", push=False)
    dvc_project.git("switch", "-q", "main")
    dvc_project.git("merge", "--no-commit", "--no-ff", "-q", "other")
    cli.main(["status"])
    assert "a merge is in the middle" in capsys.readouterr().out
