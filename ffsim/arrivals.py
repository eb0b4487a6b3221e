"""What a branch brings into the dataset is judged as a file at the door would be: somebody else wrote it."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ffsim import combine, contract, dataset, guard, jsonio, records, verdicts
from ffsim import recipe as recipes
from ffsim.contest import Contest
from ffsim.errors import FfsimError, RecipeError, RecordError, StoreError
from ffsim.project import DATA, Project

LIMITS = {"texts": 256_000_000}  # bytes; a record has at most `guard.MAX_BYTES`
SUFFIX = {"runs": ".json", "uploads": ".json", "verdicts": ".json", "recipes": ".yaml"}


def require_good(project: Project, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse a change of the dataset with a fault in it.

    Parameters
    ----------
    project
        The project.
    before, after
        The listings: path below data/ -> MD5.

    Raises
    ------
    StoreError
        With the first five faults, in one line.
    """
    found = problems(project, before, after)
    if found:
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        raise StoreError("; ".join(found[:5]) + more)


def problems(
    project: Project, before: Mapping[str, str], after: Mapping[str, str], objects: combine.Objects | None = None
) -> list[str]:
    """What is wrong with the entries that `after` has and `before` has not, one line each.

    Parameters
    ----------
    project
        Whose contests, contracts and runs count.
    before, after
        The listings: path below data/ -> MD5.
    objects
        Where the objects are (default: the working tree).
    """
    found = objects or combine.Objects(project)
    lines: list[str] = []
    sources = []
    for path, md5 in sorted(after.items()):
        if before.get(path) == md5:
            continue
        try:
            size = found.size(md5)
        except StoreError as error:
            lines.append(f"{DATA}/{path}: {error}")
            continue
        if size > LIMITS.get(path.split("/")[0], guard.MAX_BYTES):
            lines.append(f"{DATA}/{path}: {size:,} bytes are too many for a file of this kind")
            continue
        blob = found.read(md5)
        if blob is None:
            lines.append(f"the object of {DATA}/{path} is in no store; on the branch: dvc push, git add dvcstore")
        elif hashlib.md5(blob, usedforsecurity=False).hexdigest() != md5:
            lines.append(f"the object of {DATA}/{path} is not what its name says; do not take this branch in")
        elif path.startswith("runs/") and path.endswith(".json"):
            sources.append(guard.Source(path, blob))
        else:
            was = before.get(path)
            try:
                _require_readable(project, path, blob, None if was is None else found.read(was))
            except FfsimError as error:
                lines.append(str(error))
    verdict = guard.judge(project, sources, dataset.index(project, set(before)))
    places = {f"runs/{run['contest']}/{run['run_id']}.json" for run in verdict.runs}
    if not verdict.violations:
        lines += [f"{s.name}: is the file of another run" for s in sources if s.name not in places]
    return [violation.line() for violation in verdict.violations] + lines


def _require_readable(project: Project, path: str, blob: bytes, was: bytes | None) -> None:
    kind, *rest = path.split("/")
    if kind not in SUFFIX or rest[1:] == ["README.md"]:
        return
    if len(rest) != 2 or not rest[1].endswith(SUFFIX[kind]):
        raise StoreError(f"{DATA}/{path}: is no record; they are {DATA}/{kind}/<contest>/<name>{SUFFIX[kind]}")
    contest = project.contest(_known(project, rest[0]))
    if kind == "verdicts":
        _require_appended(verdicts.read(blob, path), was, path)
    elif kind == "recipes":
        _require_recipe(project, path, blob, contest)
    else:
        _require_upload(project, path, blob, contest)


def _known(project: Project, name: str) -> str:
    if name not in project.contest_names():
        raise StoreError(f"{name[:40]!r} is no contest of this project; it has {', '.join(project.contest_names())}")
    return name


def _require_appended(verdict: verdicts.Verdict, was: bytes | None, path: str) -> None:
    """What was said of a run once stays said."""
    if was is None:
        return
    if not set(verdicts.read(was, path).events) <= set(verdict.events):
        raise RecordError(f"{path}: an earlier event is gone or was changed; events are only added")


def _require_recipe(project: Project, path: str, blob: bytes, contest: Contest) -> None:
    name = path.rpartition("/")[2]
    if not recipes.NAME.fullmatch(name):
        raise StoreError(f"{DATA}/{path}: a recipe's name has letters, digits, _ . and -, 80 at most")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(blob)
        try:
            recipes.read(file, contest)
        except RecipeError as error:
            raise RecipeError(str(error).replace(str(file), f"{DATA}/{path}")) from None


def _require_upload(project: Project, path: str, blob: bytes, contest: Contest) -> None:
    from ffsim import schema

    document = jsonio.loads(blob, where=path)
    upload = records.upload_from(document, where=path)
    if f"uploads/{upload.contest}/{upload.name}.json" != path:
        raise RecordError(f"{path}: is the file of another upload")
    report = schema.check(contract.load("upload", project.schemas), contest, [(path, document)])
    if report.violations:
        raise RecordError("; ".join(violation.line() for violation in report.violations[:3]))
