"""Three versions of data.dvc into one, entry by entry.

data.dvc names one listing of the whole dataset, so two branches always conflict in it, and DVC's own merge
driver wants every object of both branches in the local cache. The listings themselves lie in git, in the
embedded store of each branch: they are read there, with nothing pulled. With another remote they are read
from DVC's cache.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence

from ffsim import jsonio, listing, verdicts
from ffsim.errors import RecordError, StoreError
from ffsim.project import DATA, Project

# (path below data/, MD5 in the base, in ours, in theirs) -> MD5 of the file that is both, or None.
Resolve = Callable[[str, str | None, str, str], str | None]


class Objects:
    """The objects of a project's store: of the working tree, of DVC's cache, of revisions, of all history.

    Parameters
    ----------
    project
        The project.
    revisions
        Git revisions whose trees are looked into, in this order.
    """

    def __init__(self, project: Project, revisions: Sequence[str] = ()) -> None:
        self.project = project
        self.revisions = list(revisions)
        self.made: dict[str, bytes] = {}  # objects that no store holds yet

    def read(self, md5: str) -> bytes | None:
        """The bytes of an object, or None if no store here has it."""
        if md5 in self.made:
            return self.made[md5]
        path = listing.store_path(md5)
        for place in (self.project.root / path, self.project.root / listing.cache_path(md5)):
            if place.is_file():
                return place.read_bytes()
        for revision in self.revisions:
            blob = self.project.git_blob(revision, path)
            if blob is not None:
                return blob
        # A listing that no branch's tree holds any more, from any commit that did.
        log = ("log", "--all", "--reflog", "-m", "-1", "--format=%H", "--diff-filter=A")
        found = self.project.git(*log, "--", path, check=False)
        if not found or not found.strip():
            return None
        self.revisions.append(found.strip())  # what it lists is likely there too
        return self.project.git_blob(found.strip(), path)

    def listing(self, pointer: str) -> dict[str, str]:
        """The entries that the text of data.dvc names.

        Raises
        ------
        StoreError
            If its listing is in no commit, or is another one than its name says.
        """
        md5 = listing.directory_md5(pointer) if pointer else None
        if md5 is None:
            return {}
        blob = self.read(md5)
        if blob is None:
            raise StoreError(f"the listing {listing.store_path(md5)} is in no commit; {self.remedy}")
        if hashlib.md5(blob, usedforsecurity=False).hexdigest() != md5.removesuffix(".dir"):
            raise StoreError(f"the listing {listing.store_path(md5)} is not what its name says; do not take it in")
        return listing.parse(blob, md5)

    def size(self, md5: str) -> int:
        """The bytes of an object.

        Raises
        ------
        StoreError
            If no store has it.
        """
        if md5 in self.made:
            return len(self.made[md5])
        path = listing.store_path(md5)
        if (self.project.root / path).is_file():
            return (self.project.root / path).stat().st_size
        for revision in self.revisions:
            said = self.project.git("cat-file", "-s", f"{revision}:{path}", check=False)
            if said is not None:
                return int(said)
        blob = self.read(md5)
        if blob is not None:
            return len(blob)
        raise StoreError(f"the object {md5} is in no store of the two branches; {self.remedy}")

    @property
    def remedy(self) -> str:
        """How an object that is nowhere comes here."""
        if listing.is_embedded(self.project):
            return "the branch forgot `git add dvcstore`"
        return "run `dvc fetch --all-commits data` first"


@dataclasses.dataclass(frozen=True)
class Combined:
    """What a merge of three versions of data.dvc gave.

    Parameters
    ----------
    pointer
        The text of the merged data.dvc.
    before
        The listing of our side: path below data/ -> MD5.
    entries
        The merged one.
    objects
        What the store needs besides the objects of both sides: MD5 (``.dir`` for the listing) -> text.
    """

    pointer: str
    before: dict[str, str]
    entries: dict[str, str]
    objects: dict[str, str]


def pointers(objects: Objects, base: str, ours: str, theirs: str) -> Combined:
    """Merge three versions of data.dvc.

    Parameters
    ----------
    objects
        Where the listings are.
    base, ours, theirs
        The texts of data.dvc; empty where there was none.

    Raises
    ------
    StoreError
        If both sides changed or removed the same file differently, if their side lost entries or changed runs, or if
        an object is in no store.
    """
    was, mine, other = (objects.listing(text) for text in (base, ours, theirs))
    lost = verdicts.lost(was, other, objects.read)
    if lost:
        raise StoreError(
            f"the branch lost {len(lost)} entries of the dataset (e.g. {DATA}/{lost[0]}), as `dvc add data` does on a "
            f"clone that has not pulled; on the branch: git checkout $(git merge-base HEAD main) -- {listing.POINTER}, "
            "then `ffsim add-run` of its runs"
        )
    stale = verdicts.overwritten(was, other, objects.read)
    if stale:
        raise StoreError(
            f"the branch changed {DATA}/{stale[0]}: a run never changes, and in a verdict events are only added; on "
            f"the branch: git checkout $(git merge-base HEAD main) -- {listing.POINTER}, then `ffsim amend`"
        )
    made: dict[str, str] = {}
    joined: dict[str, verdicts.Verdict] = {}

    def both(path: str, md5_was: str | None, md5_mine: str, md5_other: str) -> str | None:
        verdict = _verdict(objects, path, md5_mine, md5_other)
        if verdict is None:
            return None
        joined[path], text = verdict, verdicts.text(verdict)
        md5 = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        made[md5] = text
        return md5

    entries = listings(was, mine, other, both)
    for path, verdict in joined.items():
        # One side removed the run and the other spoke of it later: the last word counts.
        run = f"runs/{path.removeprefix('verdicts/')}"
        md5_run = mine.get(run) or other.get(run)
        if verdict.standing != "removed" and md5_run is not None:
            entries.setdefault(run, md5_run)
    text, md5 = listing.dump(entries)
    size = sum(len(made[name].encode()) if name in made else objects.size(name) for name in entries.values())
    return Combined(listing.pointer_text(md5, size, len(entries)), mine, entries, {**made, md5: text})


def amended(objects: Objects, combined: Combined, files: Mapping[str, str]) -> Combined:
    """The merge with some files put in its place.

    Parameters
    ----------
    objects
        Where the objects are.
    combined
        The merge.
    files
        Path below data/ -> text.
    """
    made = {hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(): text for text in files.values()}
    names = {path: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() for path, text in files.items()}
    entries = {**combined.entries, **names}
    text, md5 = listing.dump(entries)
    kept = {name: content for name, content in combined.objects.items() if not name.endswith(".dir")}
    known = {**kept, **made}
    size = sum(len(known[name].encode()) if name in known else objects.size(name) for name in entries.values())
    return Combined(listing.pointer_text(md5, size, len(entries)), combined.before, entries, {**known, md5: text})


def listings(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str], resolve: Resolve | None = None
) -> dict[str, str]:
    """Merge three listings (path -> MD5) entry by entry.

    Parameters
    ----------
    base, ours, theirs
        The listings.
    resolve
        Asked about a file that both sides have and changed differently.

    Raises
    ------
    StoreError
        Naming the files that both sides changed.
    """
    merged: dict[str, str] = {}
    clashes = []
    for path in sorted({**base, **ours, **theirs}):
        was, mine, other = base.get(path), ours.get(path), theirs.get(path)
        kept = other if mine == was else mine
        if mine != other and was not in (mine, other):
            kept = resolve(path, was, mine, other) if resolve and mine and other else None
            if kept is None:
                clashes.append(path)
        if kept is not None:
            merged[path] = kept
    if clashes:
        files = ", ".join(f"{DATA}/{path}" for path in clashes[:5])
        raise StoreError(f"both sides changed {files}: rename one of them on its branch, then merge")
    return merged


def _verdict(objects: Objects, path: str, mine: str, other: str) -> verdicts.Verdict | None:
    """Two versions of a verdict's file as one, or None if it is no verdict."""
    blobs = (objects.read(mine), objects.read(other))
    if not path.startswith("verdicts/") or blobs[0] is None or blobs[1] is None:
        return None
    try:
        return verdicts.union(verdicts.read(blobs[0], path), verdicts.read(blobs[1], path))
    except RecordError as error:
        raise StoreError(f"both sides changed a verdict, and one cannot be read: {error}") from None


def write(project: Project, combined: Combined) -> list[str]:
    """Write the objects and then data.dvc into the working tree.

    Returns
    -------
    list of str
        The paths to stage, relative to the project.
    """
    paths = write_objects(project, combined)
    jsonio.write_atomic(project.root / listing.POINTER, combined.pointer, scratch=project.scratch / "tmp")
    return [*paths, listing.POINTER]


def write_objects(project: Project, combined: Combined) -> list[str]:
    """Write the objects that the store needs besides those of both sides; with another remote into DVC's cache.

    Returns
    -------
    list of str
        Their paths in the embedded store, relative to the project.

    Raises
    ------
    StoreError
        If a link leads out of the store: a branch can bring one.
    """
    embedded = listing.is_embedded(project)
    for md5, text in combined.objects.items():
        path = project.root / (listing.store_path(md5) if embedded else listing.cache_path(md5))
        if embedded and not path.parent.resolve().is_relative_to(project.root.resolve() / listing.STORE):
            raise StoreError(f"{listing.STORE}/ has a link that leads out of it ({md5[:2]}); remove it")
        jsonio.write_atomic(path, text, scratch=project.scratch / "tmp")
    return [listing.store_path(md5) for md5 in combined.objects] if embedded else []
