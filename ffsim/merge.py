"""Merging contributions: two branches that both added to the dataset.

data.dvc names one listing of the whole dataset, so two branches always conflict in it, and DVC's own merge
driver wants every object of both branches in the local cache. The listings themselves lie in git, in the
embedded store of each branch: here they are merged entry by entry, with nothing pulled.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json

import yaml

from ffsim import dataset, guard, jsonio, store
from ffsim.errors import ProjectError, StoreError
from ffsim.project import DATA, Project

# What follows from the dataset is made again on main after a merge; a branch that carries it conflicts.
DERIVED = ("dvc.lock", "metrics", "rehearsed")


@dataclasses.dataclass(frozen=True)
class Merged:
    """What a merge did to the dataset.

    Parameters
    ----------
    branch
        What was merged.
    added, removed
        Entries that it brought, and that it took away.
    total
        Entries afterwards.
    """

    branch: str
    added: list[str]
    removed: list[str]
    total: int


def merge(project: Project, branch: str) -> Merged:
    """Merge a branch into the current one, its dataset entries included, and commit.

    Parameters
    ----------
    project
        On the branch that takes the contribution in, with nothing uncommitted.
    branch
        A branch or another revision.

    Raises
    ------
    StoreError
        If the branch carries what is made on main, if both changed one file, or if git finds another
        conflict; the merge is then undone.
    """
    with store.locked(project):
        _require_mergeable(project, branch)
        before = dataset.listing(project)
        base = (project.git("merge-base", "HEAD", branch) or "").strip()
        was, ours, theirs = (project.git("show", f"{rev}:{dataset.POINTER}") or "" for rev in (base, "HEAD", branch))
        try:
            _start(project, branch)
            conflicts = set((project.git("diff", "--name-only", "--diff-filter=U") or "").split())
            if conflicts - {dataset.POINTER}:
                raise StoreError(f"conflict in {', '.join(sorted(conflicts - {dataset.POINTER}))}: merge these by hand")
            text, path, listing = merge_pointers(project, was, ours, theirs, ("HEAD", branch))
            jsonio.write_atomic(project.root / path, listing, scratch=project.scratch / "tmp")
            jsonio.write_atomic(project.root / dataset.POINTER, text, scratch=project.scratch / "tmp")
            project.git("add", "--", dataset.POINTER, path)
            _require_objects(project)
            _require_good(project, before)
            project.git("commit", "-q", "-m", f"Merge {branch}")
        except BaseException:
            project.git("merge", "--abort", check=False)
            raise
    after = dataset.listing(project)
    return Merged(branch, sorted(set(after) - set(before)), sorted(set(before) - set(after)), len(after))


def merge_pointers(
    project: Project, base: str, ours: str, theirs: str, revisions: tuple[str, str]
) -> tuple[str, str, str]:
    """Merge three versions of data.dvc.

    Parameters
    ----------
    project
        Whose store holds the listings.
    base, ours, theirs
        The texts of data.dvc.
    revisions
        Git revisions of ours and theirs, whose stores hold the objects.

    Returns
    -------
    tuple
        (text of the merged data.dvc, path of its listing in the embedded store, text of the listing).

    Raises
    ------
    StoreError
        If both sides changed or removed the same file differently.
    """
    listings = [_listing(project, text, revisions) for text in (base, ours, theirs)]
    entries = merge_listings(*listings)
    text = listing_text(entries)
    md5 = f"{hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()}.dir"
    size = sum(_size(project, object_md5, revisions) for object_md5 in entries.values())
    out = {"md5": md5, "size": size, "nfiles": len(entries), "hash": "md5", "path": DATA}
    return yaml.safe_dump({"outs": [out]}, sort_keys=False), dataset.store_path(md5), text


def merge_listings(base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]) -> dict[str, str]:
    """Merge three listings (path -> MD5) entry by entry.

    Raises
    ------
    StoreError
        Naming the files that both sides changed.
    """
    merged: dict[str, str] = {}
    clashes = []
    for path in sorted({**base, **ours, **theirs}):
        was, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if mine != other and was not in (mine, other):
            clashes.append(path)
        kept = other if mine == was else mine
        if kept is not None:
            merged[path] = kept
    if clashes:
        files = ", ".join(f"{DATA}/{path}" for path in clashes[:5])
        raise StoreError(f"both sides changed {files}: rename one of them on its branch, then merge")
    return merged


def listing_text(entries: dict[str, str]) -> str:
    """A listing as DVC writes it: its MD5 is the object's name, so every byte counts."""
    return json.dumps([{"md5": entries[path], "relpath": path} for path in sorted(entries, key=_parts)])


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def _require_mergeable(project: Project, branch: str) -> None:
    if project.git("rev-parse", "-q", "--verify", f"{branch}^{{commit}}", check=False) is None:
        raise StoreError(f"{branch!r} is no branch or revision of this repository; fetch it first")
    if project.git("merge-base", "--is-ancestor", branch, "HEAD", check=False) is not None:
        raise StoreError(f"{branch} is merged already")
    if project.git("status", "--porcelain", "--untracked-files=no"):
        raise StoreError("there are uncommitted changes; commit them before a merge")
    changed = (project.git("diff", "--name-only", f"HEAD...{branch}", "--", *DERIVED) or "").split()
    if changed:
        names = " ".join(sorted({name.split("/")[0] for name in changed}))
        raise StoreError(
            f"{branch} changes {names}, which are made on main after a merge; on the branch: "
            f"git checkout $(git merge-base HEAD main) -- {names} && git commit -m 'Data only'"
        )


def _start(project: Project, branch: str) -> None:
    """Begin the merge; a conflict is no failure here, a merge that git refuses to begin is."""
    refusal = "no reason given"
    try:
        project.git("merge", "--no-commit", "--no-ff", "-q", branch)
    except ProjectError as error:
        refusal = str(error)
    if project.git("rev-parse", "-q", "--verify", "MERGE_HEAD", check=False) is None:
        raise StoreError(f"git did not begin the merge: {refusal}")


def _require_good(project: Project, before: dict[str, str]) -> None:
    """What a branch brings passes the guard as a file at the door would: it was written by somebody else."""
    sources = []
    for path, md5 in dataset.listing(project).items():
        if before.get(path) == md5:
            continue
        blob = (project.root / dataset.store_path(md5)).read_bytes()
        if hashlib.md5(blob, usedforsecurity=False).hexdigest() != md5:
            raise StoreError(f"the object of {DATA}/{path} is not what its name says; do not take this branch in")
        if path.startswith("runs/") and path.endswith(".json"):
            sources.append(guard.Source(path, blob))
    index = dataset.index(project, set(before))
    violations = guard.judge(project, sources, index).violations
    if violations:
        raise StoreError("; ".join(violation.line() for violation in violations[:5]))


def _listing(project: Project, pointer: str, revisions: tuple[str, str]) -> dict[str, str]:
    md5 = dataset.directory_md5(pointer)
    if md5 is None:
        return {}
    path = dataset.store_path(md5)
    for revision in revisions:
        text = project.git("show", f"{revision}:{path}", check=False)
        if text is not None:
            return dataset.entries(text, md5)
    return dict(dataset.listing(project)) if _is_current(project, md5) else _from_history(project, path)


def _is_current(project: Project, md5: str) -> bool:
    return dataset.directory_md5((project.root / dataset.POINTER).read_text()) == md5


def _from_history(project: Project, path: str) -> dict[str, str]:
    """A listing that neither branch's tree holds any more, from any commit that did."""
    commit = (project.git("log", "--all", "-1", "--format=%H", "--diff-filter=A", "--", path) or "").strip()
    text = project.git("show", f"{commit}:{path}", check=False) if commit else None
    if text is None:
        raise StoreError(f"the listing {path} is in no commit; the branch forgot `git add dvcstore`")
    return dataset.entries(text, path)


def _size(project: Project, md5: str, revisions: tuple[str, str]) -> int:
    path = project.root / dataset.store_path(md5)
    if path.is_file():
        return path.stat().st_size
    for revision in revisions:
        said = project.git("cat-file", "-s", f"{revision}:{dataset.store_path(md5)}", check=False)
        if said is not None:
            return int(said)
    raise StoreError(f"the object {md5} is in no store of the two branches; the branch forgot `git add dvcstore`")


def _require_objects(project: Project) -> None:
    """Every object that data.dvc names must be in the embedded store of the merge."""
    lost = [
        path for path, md5 in dataset.listing(project).items() if not (project.root / dataset.store_path(md5)).is_file()
    ]
    if lost:
        raise StoreError(
            f"{len(lost)} files are in no store (e.g. {DATA}/{lost[0]}); on the branch: dvc push, git add dvcstore"
        )
