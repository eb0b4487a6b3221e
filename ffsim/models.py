"""Model files: JSON with a manifest that says what they were made of; never a pickle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ffsim import __version__, jsonio, records
from ffsim.contest import Contest
from ffsim.errors import ModelError, RecordError
from ffsim.linear import Linear
from ffsim.oracle import MeanOffset
from ffsim.project import Project
from ffsim.quality import QualityModel
from ffsim.records import Run, Upload
from ffsim.steps import StepModel

FORMAT = "ffsim-models/1"


@dataclasses.dataclass(frozen=True)
class Models:
    """The fitted models of a contest; one that lacks data is None, and `reasons` says why.

    Parameters
    ----------
    steps, quality, oracle
        The three parts.
    reasons
        Part -> why it is None.
    data_hash
        Of the runs and uploads they were fitted on.
    """

    steps: StepModel | None
    quality: QualityModel | None
    oracle: MeanOffset | None
    reasons: dict[str, str]
    data_hash: str


def path(project: Project, contest: str) -> Path:
    """Where a contest's models lie."""
    return project.build / contest / "models.json"


def hash_of_data(runs: Sequence[Run], uploads: Sequence[Upload]) -> str:
    """SHA-256 over all records, whatever their order."""
    members: list[Run | Upload] = [*runs, *uploads]
    return jsonio.sha256_of(sorted(jsonio.sha256_of(records.as_json(record)) for record in members))


def save(project: Project, contest: Contest, models: Models) -> Path:
    """Write the models of a contest with their manifest."""
    parts = {
        "steps": None if models.steps is None else models.steps.linear.to_dict(),
        "quality": None if models.quality is None else models.quality.linear.to_dict(),
        "oracle": None if models.oracle is None else models.oracle.to_dict(),
    }
    manifest = {
        "format": FORMAT,
        "contest": contest.name,
        "tool_version": __version__,
        "data_hash": models.data_hash,
        "reasons": models.reasons,
        "parts_hash": jsonio.sha256_of(parts),
    }
    target = path(project, contest.name)
    jsonio.write_atomic(target, jsonio.pretty({"manifest": manifest, "parts": parts}))
    return target


def load(project: Project, contest: Contest) -> Models:
    """Read the models of a contest.

    Raises
    ------
    ModelError
        If they are missing, damaged, edited, or belong to another contest or format.
    """
    file = path(project, contest.name)
    if not file.is_file():
        raise ModelError(f"no models of {contest.name} yet; run `dvc repro`")
    try:
        document = jsonio.load_file(file)
        manifest, parts = document["manifest"], document["parts"]
        if manifest["format"] != FORMAT or manifest["contest"] != contest.name:
            raise ModelError(f"{file.name} is {manifest['format']} of {manifest['contest']}; run `dvc repro`")
        if manifest["parts_hash"] != jsonio.sha256_of(parts):
            raise ModelError(f"{file.name} was changed after it was written; run `dvc repro`")
        return Models(
            steps=parts["steps"] and StepModel(Linear.from_dict(parts["steps"])),
            quality=parts["quality"] and QualityModel(Linear.from_dict(parts["quality"])),
            oracle=parts["oracle"] and MeanOffset.from_dict(parts["oracle"]),
            reasons=dict(manifest["reasons"]),
            data_hash=str(manifest["data_hash"]),
        )
    except (RecordError, KeyError, TypeError) as error:
        raise ModelError(f"{file.name} is damaged ({error}); run `dvc repro`") from None
