"""Merging contributions: two branches that both added to the dataset, and the guard for what arrives."""

from __future__ import annotations

import dataclasses
import logging

from ffsim import adopt, arrivals, combine, dataset, listing, store
from ffsim.errors import ProjectError, StoreError
from ffsim.project import DATA, Project

log = logging.getLogger("ffsim")
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
    quarantined
        Run id -> what the second look found, of the new runs that no model reads until they are accepted.
    pulled
        Whether data/ is as the merge says: where it was all there before, it is brought up to date.
    """

    branch: str
    added: list[str]
    removed: list[str]
    total: int
    quarantined: dict[str, list[str]]
    pulled: bool


def merge(project: Project, branch: str, *, trusted: bool = False) -> Merged:
    """Merge a branch into the current one, its dataset entries included, and commit.

    Parameters
    ----------
    project
        On the branch that takes the contribution in, with nothing uncommitted.
    branch
        A branch or another revision.
    trusted
        Whether its author decides here: then its verdicts stand. Else every new run gets one of our own, and a
        branch is refused that accepts, imports, removes or supersedes runs, brings official scores, changes files of
        the dataset, or changes anything beside it: settings and contracts judge what arrives.

    Raises
    ------
    StoreError
        If the branch carries what is made on main, if it decides or changes settings and is not trusted, if both
        changed one file, or if git finds another conflict; the merge is then undone.
    """
    with store.locked(project):
        _require_mergeable(project, branch, trusted=trusted)
        here = not dataset.missing(project)
        base = (project.git("merge-base", "HEAD", branch) or "").strip()
        texts = (listing.pointer(project, revision) or "" for revision in (base, "HEAD", branch))
        try:
            _start(project, branch)
            conflicts = set((project.git("diff", "--name-only", "--diff-filter=U") or "").split())
            if conflicts - {listing.POINTER}:
                raise StoreError(f"conflict in {', '.join(sorted(conflicts - {listing.POINTER}))}: merge these by hand")
            objects = combine.Objects(project, ("HEAD", branch))
            combined = combine.pointers(objects, *texts)
            project.git("add", "--", *combine.write(project, combined))
            _require_objects(project)
            arrivals.require_good(project, combined.before, combined.entries)
            held: dict[str, list[str]] = {}
            if not trusted:
                combined, held = _judged(project, objects, combined, branch)
            store.publish(project)
            project.git("commit", "-q", "-m", f"Merge {branch}")
        except BaseException:
            project.git("merge", "--abort", check=False)
            raise
        pulled = here and _pulled(project)
    before, after = set(combined.before), set(combined.entries)
    return Merged(branch, sorted(after - before), sorted(before - after), len(after), held, pulled)


def _pulled(project: Project) -> bool:
    """A file of before the merge on disk would be taken for a change made after it."""
    try:
        store.pull(project)
    except StoreError as error:
        log.warning("merged, and data/ is as before: %s", error)
        return False
    return True


def _judged(
    project: Project, objects: combine.Objects, combined: combine.Combined, branch: str
) -> tuple[combine.Combined, dict[str, list[str]]]:
    """The merge with our verdict on every new run in it."""
    decided = adopt.decisions(combined.before, combined.entries, objects.read)
    if decided:
        raise StoreError(
            f"{branch} decides about runs or scores ({'; '.join(decided[:3])}); if it is a maintainer's: "
            "ffsim merge --trusted"
        )
    files, checks = adopt.judged(project, combined.before, combined.entries, objects.read, branch)
    if not files:
        return combined, {}
    amended = combine.amended(objects, combined, files)
    # The listing of the step before is superseded.
    project.git("rm", "-q", "--cached", "--ignore-unmatch", "--", *_listing_paths(combined), check=False)
    for path in _listing_paths(combined):
        (project.root / path).unlink(missing_ok=True)
    project.git("add", "--", *combine.write(project, amended))
    found = {name: [check.line() for check in said if check.outcome == "found"] for name, said in checks.items()}
    return amended, {name: lines for name, lines in found.items() if lines}


def _listing_paths(combined: combine.Combined) -> list[str]:
    return [listing.store_path(name) for name in combined.objects if name.endswith(".dir")]


def _require_mergeable(project: Project, branch: str, *, trusted: bool) -> None:
    require_revision(project, branch)
    if project.git("merge-base", "--is-ancestor", branch, "HEAD", check=False) is not None:
        raise StoreError(f"{branch} is merged already")
    if project.git("status", "--porcelain", "--untracked-files=no"):
        raise StoreError("there are uncommitted changes; commit them before a merge")
    found = faults(project, branch)
    if found:
        raise StoreError("; ".join(found))
    beside = [] if trusted else others(project, branch)
    if beside:
        raise StoreError(
            f"{branch} changes {', '.join(beside[:5])} besides the dataset; look at it (git diff HEAD...{branch}), and "
            "if it shall come in: ffsim merge --trusted"
        )


def require_revision(project: Project, branch: str) -> None:
    """Refuse what is no revision with a history of ours.

    Raises
    ------
    StoreError
        With what to do.
    """
    if project.git("rev-parse", "-q", "--verify", f"{branch}^{{commit}}", check=False) is None:
        raise StoreError(f"{branch!r} is no branch or revision of this repository; fetch it first")
    if not project.git("merge-base", "HEAD", branch, check=False):
        raise StoreError(f"{branch} has no commit in common with HEAD; in a shallow clone: git fetch --unshallow")


def others(project: Project, branch: str) -> list[str]:
    """Files that a branch changes besides data.dvc and the store."""
    said = project.git("diff", "--name-only", "--no-renames", "-z", f"HEAD...{branch}") or ""
    return [name for name in said.split("\0") if name and name.split("/")[0] not in {listing.POINTER, listing.STORE}]


def faults(project: Project, branch: str) -> list[str]:
    """What a branch must not change beside data.dvc, one line each: derived files, and objects that are there.

    Parameters
    ----------
    project
        On the branch that takes the contribution in.
    branch
        A branch or another revision.
    """
    lines = []
    changed = (project.git("diff", "--name-only", f"HEAD...{branch}", "--", *DERIVED) or "").split()
    if changed:
        names = " ".join(sorted({name.split("/")[0] for name in changed}))
        lines.append(
            f"{branch} changes {names}, which are made on main after a merge; on the branch: "
            f"git checkout $(git merge-base HEAD main) -- {names} && git commit -m 'Data only'"
        )
    raw = project.git("diff", "--raw", "--no-renames", "-z", f"HEAD...{branch}", "--", listing.STORE) or ""
    facts, paths = raw.split("\0")[:-1:2], raw.split("\0")[1::2]
    for fact, path in zip(facts, paths, strict=True):
        _, mode, _, _, status = fact.split()
        superseded = status == "D" and path.endswith(".dir")
        if (status != "A" or mode != "100644") and not superseded:
            lines.append(
                f"{branch} changes the store itself ({path!r}): objects are only added; on the branch: "
                f"git checkout $(git merge-base HEAD main) -- {listing.STORE}"
            )
            break
    return lines


def _start(project: Project, branch: str) -> None:
    """Begin the merge; a conflict is no failure here, a merge that git refuses to begin is."""
    refusal = "no reason given"
    try:
        # The driver is for a plain `git merge`; here data.dvc is merged below, and judged.
        project.git("-c", "merge.ffsim.driver=false", "merge", "--no-commit", "--no-ff", "-q", branch)
    except ProjectError as error:
        refusal = str(error)
    if project.git("rev-parse", "-q", "--verify", "MERGE_HEAD", check=False) is None:
        raise StoreError(f"git did not begin the merge: {refusal}")


def _require_objects(project: Project) -> None:
    """Every object that data.dvc names must be in the embedded store of the merge."""
    lost = listing.not_stored(project)
    if lost:
        raise StoreError(
            f"{len(lost)} files are in no store (e.g. {DATA}/{lost[0]}); on the branch: dvc push, git add dvcstore"
        )
