"""What a merged branch says of runs: its author's word, which does not count by itself.

A verdict decides whether a run is fitted, and a branch brings its own. The side that merges therefore looks at
every new run a second time and says its own verdict, and refuses decisions about runs unless the branch is
trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ffsim import contribute, guard, verdicts
from ffsim.guard import Source
from ffsim.project import DATA, Project
from ffsim.verdicts import Check, Event, Verdict

DECISIONS = {"accepted", "imported", "removed", "superseded"}
Read = Callable[[str], bytes | None]


def decisions(before: Mapping[str, str], after: Mapping[str, str], read: Read) -> list[str]:
    """What a branch brings that its author may not decide alone, one line each, as `run: accepted by somebody`.

    That is a decision about a run, any word on a run that is here or that nobody has, an official score or run, and
    another content of a file that is here.

    Parameters
    ----------
    before, after
        The listings of our side and of the merge: path below data/ -> MD5. Every verdict can be read.
    read
        MD5 -> bytes of an object.
    """
    found: list[str] = []
    for path, md5 in sorted(after.items()):
        if before.get(path) == md5:
            continue
        blob = read(md5)
        verdict = _verdict(path, blob)
        if verdict is None:
            found += _organisers(path, blob)
            if path in before:
                found.append(f"{DATA}/{path}: changed")
            continue
        if _run_of(path) not in after and verdict.standing != "removed":
            found.append(f"{verdict.run_id}: a verdict on a run that is not in the dataset")
        ours = _verdict(path, read(before[path])) if path in before else None
        known = set(ours.events) if ours is not None else set()
        found += [
            f"{verdict.run_id}: {event.what} by {event.by}"
            for event in verdict.events
            if event not in known and (event.what in DECISIONS or ours is not None or _run_of(path) in before)
        ]
    return found


def judged(
    project: Project, before: Mapping[str, str], after: Mapping[str, str], read: Read, branch: str
) -> tuple[dict[str, str], dict[str, list[Check]]]:
    """Our verdict on every run that a branch brings.

    Parameters
    ----------
    project
        Whose data.dvc is that of the merge.
    before, after, read
        As in `decisions`; every run has passed the guard.
    branch
        Where the runs come from; it is kept with the verdict.

    Returns
    -------
    tuple
        (path below data/ -> text of the verdict, run id -> what was found).
    """
    new = {path: md5 for path, md5 in after.items() if before.get(path) != md5 and _is_run(path)}
    documents = [guard.parse(Source(path, read(md5) or b"")) for path, md5 in sorted(new.items())]
    # What only the organiser can say has no second look.
    documents = [document for document in documents if document["kind"] != "official"]
    checks = contribute.second_look(project, documents)
    maintainers = {name.casefold() for name in project.params().guard.maintainers}
    files: dict[str, str] = {}
    for document in documents:
        contest, run_id = document["contest"], document["run_id"]
        checks[run_id].append(_handle(document["contributor"], maintainers))
        event: Event = contribute.event_of(checks[run_id], why=f"merged from {branch[:200]}")
        # What the branch says of its own run is dropped: nothing that we say later may be ordered before it.
        files[verdicts.name_of(contest, run_id)] = verdicts.text(verdicts.said(None, contest, run_id, event))
    return files, checks


def _organisers(path: str, blob: bytes | None) -> list[str]:
    """What only the organiser can say: an official score, an official run."""
    if blob is None or not path.endswith(".json") or path.split("/", maxsplit=1)[0] not in {"runs", "uploads"}:
        return []
    document = guard.parse(Source(path, blob))
    if path.startswith("runs/"):
        return [f"{document['run_id']}: an official run"] if document["kind"] == "official" else []
    score = document["official"]["bpb"]
    return [] if score is None else [f"{document['name']}: official score {score:.6g}"]


def _handle(contributor: str, maintainers: set[str]) -> Check:
    if contributor.casefold() not in maintainers:
        return Check(rule="handle", outcome="passed")
    return Check(
        rule="handle",
        outcome="found",
        message=f"carries the handle of the maintainer {contributor}, and comes from a branch",
        fix="a maintainer accepts it, or merges the branch with --trusted",
    )


def _run_of(path: str) -> str:
    return f"runs/{path.removeprefix('verdicts/')}"


def _is_run(path: str) -> bool:
    return path.startswith("runs/") and path.endswith(".json")


def _verdict(path: str, blob: bytes | None) -> Verdict | None:
    if not path.startswith("verdicts/") or not path.endswith(".json") or blob is None:
        return None
    return verdicts.read(blob, path)
