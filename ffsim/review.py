"""A review of a branch: what it would bring into the dataset and what the guard says, with nothing changed.

Everything is read out of git as data; no file of the branch is checked out, so none of its code or settings
counts. The merged dataset is then laid out in a temporary folder and validated as a whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ffsim import adopt, arrivals, combine, listing, merge
from ffsim.errors import FfsimError
from ffsim.project import DATA, Project
from ffsim.shape import plural

SHOWN = 50
WIDTH = 400
ONLY_TRUSTED = "which only a merge with --trusted takes in"


@dataclasses.dataclass(frozen=True)
class Review:
    """What a branch would bring.

    Parameters
    ----------
    branch, commit
        What was reviewed, and its commit.
    added, changed, removed
        Entries, as paths below data/.
    other
        Files that it changes besides data.dvc and the store; they are listed and not judged.
    problems
        One line each; empty if it can be merged.
    quarantined
        What the second look finds; these runs are stored and not fitted until a maintainer accepts them.
    total
        Entries after a merge.
    """

    branch: str
    commit: str
    added: list[str]
    changed: list[str]
    removed: list[str]
    other: list[str]
    problems: list[str]
    quarantined: list[str]
    total: int

    def lines(self) -> list[str]:
        """The review as lines of text, long lists cut."""
        verdict = "can be merged" if not self.problems else f"{plural(len(self.problems), 'problem')}; not to be merged"
        counts = f"{len(self.added)} added, {len(self.changed)} changed, {len(self.removed)} removed"
        found = [f"{self.commit[:12]}: {verdict}", f"entries: {counts}, {self.total} after the merge"]
        for word, names in (
            ("problem", self.problems),
            ("quarantine", self.quarantined),
            ("added", self.added),
            ("changed", self.changed),
            ("removed", self.removed),
            ("not judged", self.other),
        ):
            found += [f"{word}: {name}" for name in names[:SHOWN]]
            if len(names) > SHOWN:
                found.append(f"{word}: and {len(names) - SHOWN} more")
        return [plain(line) for line in found]

    def markdown(self) -> str:
        """The review as one fenced block of text: nothing in it is formatting, a link or a mention."""
        lines = self.lines()
        return "\n".join(["**ffsim review**", "", "```text", *lines, "```", ""])

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


def plain(line: str) -> str:
    """A line of foreign text that can neither leave a fenced block nor fill a page."""
    printable = "".join(c if c.isprintable() else "?" for c in line).replace("`", "'")
    return printable if len(printable) <= WIDTH else printable[:WIDTH] + " ..."


def review(project: Project, branch: str) -> Review:
    """Say what a merge of a branch into HEAD would do to the dataset; nothing is changed.

    Parameters
    ----------
    project
        On the branch that would take the contribution in; its contests, contracts and code judge.
    branch
        A branch or another revision.

    Raises
    ------
    StoreError
        If it is no revision, or shares no history with HEAD.
    """
    merge.require_revision(project, branch)
    commit = (project.git("rev-parse", f"{branch}^{{commit}}") or "").strip()
    problems = merge.faults(project, commit)
    objects = combine.Objects(project, ("HEAD", commit))
    base = (project.git("merge-base", "HEAD", commit) or "").strip()
    before: Mapping[str, str] = {}
    after: Mapping[str, str] = {}
    try:
        texts = (listing.pointer(project, revision) or "" for revision in (base, "HEAD", commit))
        combined = combine.pointers(objects, *texts)
        before, after = combined.before, combined.entries
        objects.made = {md5: text.encode() for md5, text in combined.objects.items()}
        if listing.is_embedded(project):
            problems += _not_carried(project, before, after, commit, set(combined.objects))
        problems += arrivals.problems(project, before, after, objects)
    except FfsimError as error:
        problems.append(str(error))
    held: list[str] = []
    if not problems:
        decided = adopt.decisions(before, after, objects.read)
        problems += [f"decides about a run or a score, {ONLY_TRUSTED}: {line}" for line in decided]
        found, held = _whole(project, before, after, objects, branch)
        problems += found
    other = merge.others(project, commit)
    if other:
        problems.append(f"changes {plural(len(other), 'file')} besides the dataset, {ONLY_TRUSTED}")
    return Review(
        branch=branch,
        commit=commit,
        added=sorted(set(after) - set(before)),
        changed=sorted(path for path in set(after) & set(before) if after[path] != before[path]),
        removed=sorted(set(before) - set(after)),
        other=other,
        problems=problems,
        quarantined=held,
        total=len(after),
    )


def _not_carried(
    project: Project, before: Mapping[str, str], after: Mapping[str, str], commit: str, made: set[str]
) -> list[str]:
    """New entries whose objects the branch's own tree lacks or forges: a cache here may have the right ones."""
    known = {*before.values(), *made}
    lost, forged = [], []
    for path, md5 in sorted(after.items()):
        if md5 in known:
            continue
        blob = project.git_blob(commit, listing.store_path(md5))
        if blob is None:
            lost.append(path)
        elif hashlib.md5(blob, usedforsecurity=False).hexdigest() != md5:
            forged.append(path)
    fix = "on the branch: dvc push, git add dvcstore"
    lines = [f"{len(lost)} files are in no store (e.g. {DATA}/{lost[0]}); {fix}"] if lost else []
    return lines + [f"the object of {DATA}/{path} is not what its name says" for path in forged]


def _whole(
    project: Project, before: Mapping[str, str], entries: Mapping[str, str], objects: combine.Objects, branch: str
) -> tuple[list[str], list[str]]:
    """Validate the merged dataset in a folder of its own, with the settings of HEAD's side; (problems, quarantine)."""
    from ffsim import validate

    with tempfile.TemporaryDirectory(prefix="ffsim-review-") as folder:
        scratch = Project(Path(folder))
        for path in (project.root / "params.yaml", project.root / "dvc.yaml"):
            shutil.copy(path, scratch.root)
        for source, target in ((project.schemas, scratch.schemas), (project.contests, scratch.contests)):
            if source.is_dir():
                shutil.copytree(source, target)
        for name, md5 in entries.items():
            blob = objects.read(md5)
            if blob is None:
                return [f"the object of {DATA}/{name} is in no store; run `dvc pull data`"], []
            (scratch.data / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch.data / name).write_bytes(blob)
        try:
            problems = [
                f"the merged dataset: {problem}"
                for contest in project.contest_names()
                for problem in validate.run(scratch, scratch.contest(contest)).problems
            ]
            _, checks = adopt.judged(scratch, before, entries, objects.read, branch)
        except FfsimError as error:
            return [f"the merged dataset: {error}"], []
    held = [f"{name}: {check.line()}" for name, said in checks.items() for check in said if check.outcome == "found"]
    return problems, held
