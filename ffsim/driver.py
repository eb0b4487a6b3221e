"""git's merge driver for data.dvc: a plain `git merge`, `git pull` or `git rebase` merges it entry by entry.

git hands over three temporary files and wants the result in the second. A driver cannot stage anything, git
holds the index meanwhile: the merged listing is written into dvcstore/, and a hook puts it into the commit that
git has just made (`post-merge` after a merge, `post-rewrite` after a rebase). git runs no hook after a
cherry-pick that could: there the printed line says what to do.

The driver judges no record, and what the branch says of its runs and scores stands. `ffsim validate` afterwards holds
the records against the contract; only `ffsim merge` looks a second time.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from ffsim import combine, journal, jsonio, listing
from ffsim.errors import FfsimError, StoreError
from ffsim.project import Project

ATTRIBUTES = (f"/{listing.POINTER} merge=ffsim", f"/{listing.STORE}/** -text")
HOOKS = ("post-merge", "post-rewrite")
MARK = "# written by `ffsim driver install`"


@dataclasses.dataclass(frozen=True)
class Installed:
    """What `install` found and wrote.

    Parameters
    ----------
    in_git
        Whether the project is the top folder of a git repository; else nothing was done.
    hooks
        The hooks that are there now.
    skipped
        The hooks that are somebody else's and were left as they are.
    """

    in_git: bool
    hooks: list[str]
    skipped: list[str]

    def summary(self) -> str:
        """The outcome in one line."""
        if not self.in_git:
            return "not the top of a git repository: no merge driver is needed"
        also = f"; {', '.join(self.skipped)} is yours: add `ffsim driver complete` to it" if self.skipped else ""
        return f"git merges {listing.POINTER} entry by entry{also}"


def install(project: Project) -> Installed:
    """Register the driver with git, in this repository only. Doing it twice changes nothing more.

    It writes `merge.ffsim.*` into the repository's git configuration, two lines into .gitattributes, and two hooks
    where there are none yet.
    """
    top = (project.git("rev-parse", "--show-toplevel", check=False) or "").strip()
    if not top or Path(top).resolve() != project.root.resolve():
        return Installed(False, [], [])
    project.git("config", "--local", "merge.ffsim.name", f"{listing.POINTER}, entry by entry")
    project.git("config", "--local", "merge.ffsim.driver", f"{_command('merge-driver')} %O %A %B %P")
    path = project.root / ".gitattributes"
    lines = path.read_text().splitlines() if path.is_file() else []
    missing = [line for line in ATTRIBUTES if line not in lines]
    if missing:
        jsonio.write_atomic(path, "\n".join([*lines, *missing]) + "\n")
    hooks, skipped = _hooks(project)
    return Installed(True, hooks, skipped)


def _hooks(project: Project) -> tuple[list[str], list[str]]:
    if project.git("config", "core.hooksPath", check=False):
        return [], list(HOOKS)  # a folder that belongs to another tool, perhaps to other repositories as well
    folder = project.root / (project.git("rev-parse", "--git-path", "hooks") or "").strip()
    hooks, skipped = [], []
    for name in HOOKS:
        path = folder / name
        if path.is_symlink() or (path.exists() and MARK not in path.read_text(errors="replace")):
            skipped.append(name)
            continue
        jsonio.write_atomic(path, f"#!/bin/sh\n{MARK}\nexec {_command('driver complete')}\n")
        path.chmod(0o755)
        hooks.append(name)
    return hooks, skipped


def _command(words: str) -> str:
    """Ffsim as git calls it: this Python, with nothing imported from the folder that is being merged."""
    return f"{shlex.quote(sys.executable)} -P -m ffsim {words}"


def merge(project: Project, base: Path, ours: Path, theirs: Path, name: str) -> combine.Combined:
    """Merge three versions of data.dvc for git, and write the result over `ours`.

    Parameters
    ----------
    project
        The project, in the top folder of its repository.
    base, ours, theirs
        git's temporary files.
    name
        What is merged, as git says; it is compared and never used as a path.

    Raises
    ------
    StoreError
        If it cannot be merged; `ours` then has git's conflict markers.
    """
    texts = [path.read_text(errors="replace") if path.is_file() else "" for path in (base, ours, theirs)]
    try:
        if name != listing.POINTER:
            raise StoreError(f"{name[:80]!r} is not {listing.POINTER}; correct .gitattributes")
        if journal.pending(project):
            raise StoreError("a change of the dataset was cut off; run `ffsim status`, then merge again")
        combined = combine.pointers(combine.Objects(project, _revisions()), *texts)
        combine.write_objects(project, combined)
        jsonio.write_atomic(ours, combined.pointer, scratch=project.scratch / "tmp")
    except FfsimError as error:
        _mark_conflict(project, base, ours, theirs)
        raise StoreError(f"{listing.POINTER} is not merged: {error}") from None
    return combined


def _revisions() -> list[str]:
    """HEAD and what is being merged: git names it in its environment; a rebase does not, history has it."""
    heads = [name.removeprefix("GITHEAD_") for name in os.environ if re.fullmatch(r"GITHEAD_[0-9a-f]{40,64}", name)]
    return ["HEAD", *heads]


def _mark_conflict(project: Project, base: Path, ours: Path, theirs: Path) -> None:
    """What git itself would have left."""
    command = ["git", "merge-file", "-L", "ours", "-L", "base", "-L", "theirs", str(ours), str(base), str(theirs)]
    subprocess.run(command, cwd=project.root, capture_output=True, check=False)


def stage(project: Project) -> list[str]:
    """Stage the objects that data.dvc needs and that git does not know yet.

    Returns
    -------
    list of str
        Their paths, relative to the project.
    """
    paths = listing.not_tracked(project)
    if paths:
        project.git("add", "--", *paths)
    return paths


def complete(project: Project) -> tuple[list[str], bool]:
    """Stage as `stage` does, and put it into the last commit: it is the merge that names these objects.

    `git commit --amend` refuses to work in a hook of a merge, so the commit is written anew with another tree.

    Returns
    -------
    tuple
        (the staged paths, whether the last commit has them). A signed commit stays as it is.
    """
    paths = stage(project)
    head = (project.git("rev-parse", "-q", "--verify", "HEAD", check=False) or "").strip()
    if not paths or not head or listing.pointer(project, "HEAD") != listing.pointer(project):
        return paths, False
    text = project.git("cat-file", "commit", head) or ""
    tree, rest = text.split("\n", 1)
    staged = (project.git("diff", "--cached", "--name-only", "-z", "HEAD") or "").split("\0")
    if "\ngpgsig" in rest.split("\n\n")[0] or set(filter(None, staged)) != set(paths) or not tree.startswith("tree "):
        return paths, False
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write(f"tree {(project.git('write-tree') or '').strip()}\n{rest}")
        file.flush()
        made = (project.git("hash-object", "-t", "commit", "-w", "--", file.name) or "").strip()
    project.git("update-ref", "-m", "ffsim: with the merged listing", "HEAD", made, head)
    return paths, True
