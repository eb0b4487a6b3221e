"""What a contest file may say, section by section; the vocabulary is closed.

A file may extend another contest: mappings are merged key by key, null removes a key, all else replaces.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ffsim import jsonio, yamlio
from ffsim.errors import ContestError
from ffsim.knobs import Knob
from ffsim.schedule import Schedule

PACKAGED = Path(__file__).parent / "contests"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
MOST_EXTENDS = 5
Limit = Annotated[float, msgspec.Meta(ge=0, le=1e7)]
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = {"job.json", "home", "tmp"}  # what else lies in a submission's work folder


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A text: its path below data/texts, its size and hash, and who may read it.

    One without a path is not ffsim's to read: a submission brings it, or the organiser keeps it.
    """

    role: Literal["train", "rehearsal", "official"]
    path: str = ""
    bytes: int | None = None
    sha256: str = ""

    def job(self, texts: Path) -> dict[str, Any]:
        """The text as a trainer's job names it."""
        return {"path": str(texts / self.path), "bytes": self.bytes, "sha256": self.sha256}


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is scored; `impossible_below_bpb` is a score that only a wrong unit reaches."""

    name: str
    vocabulary: int
    impossible_below_bpb: float


class Official(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who scores an upload: ffsim itself (an embedded contest) or an organiser elsewhere."""

    scored_by: Literal["ffsim", "organiser"]


class Hosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fingerprint fields: hosts that agree in all of `block_by` pool into one block.

    `flags` names the environment variables that change numerics or speed; they enter the fingerprint.
    """

    block_by: tuple[str, ...]
    flags: tuple[str, ...] = ()


class Artifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is submitted: the file's name as the launch command knows it, and its size limit (null: none)."""

    file: str = "train.py"
    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**30)] | None = None


class Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a rehearsal starts: trainer or command, environment, cache folders that a cold start empties.

    Parameters
    ----------
    trainer
        Module of ffsim's own trainer, which runs recipes; null where the contest has none.
    command
        Starts a submission that ffsim did not write; ``{python}``, ``{artifact}`` and ``{job}`` stand for the
        interpreter, the submitted file and a JSON file that says what the contest tells a trainer. Empty: none.
    log
        The dialect of the lines that `command` prints.
    environment, cache_folders
        Variables that are set, and those that name the folder of a cache: fresh and empty for a cold start.
    devices
        Those the contest runs on; the first is the default.
    wall_limit_startup_s, wall_limit_factor
        A run is ended after the first plus the second x its budget by the wall.
    """

    trainer: str | None = None
    command: tuple[str, ...] = ()
    log: str = "events"
    environment: dict[str, str]
    cache_folders: tuple[str, ...]
    devices: tuple[str, ...]
    wall_limit_factor: Limit
    wall_limit_startup_s: Limit


class Trainers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which trainer versions are comparable in quality: era -> versions, the oldest first."""

    eras: dict[str, tuple[str, ...]]

    @property
    def versions(self) -> tuple[str, ...]:
        """All versions, the oldest first."""
        return tuple(version for versions in self.eras.values() for version in versions)

    @property
    def latest(self) -> str:
        """The youngest version."""
        return self.versions[-1]


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole contest file; `ffsim.contest.Contest` says what its fields are for."""

    contest: str
    title: str
    about: str
    embedded: bool = False
    budget_s: float
    clock: dict[str, Any]
    metric: Metric
    texts: dict[str, Text]
    official: Official
    curve_at: tuple[float, ...] = ()
    hosts: Hosts
    artifact: Artifact = Artifact()
    launch: Launch
    trainers: Trainers
    tokens_per_step: tuple[str | Annotated[int, msgspec.Meta(ge=1)], ...]
    phases: tuple[str, ...]
    schedule: Schedule = Schedule()
    knobs: dict[str, Knob]


def resolved(path: Path, above: tuple[Path, ...] = ()) -> tuple[Any, str]:
    """A contest file with what it extends filled in, and the hash of all that was read."""
    if path in above or len(above) > MOST_EXTENDS:
        raise ContestError(f"{path}: extends itself, or more than {MOST_EXTENDS} others in a row")
    document = yamlio.load_file(path, ContestError)
    sha256 = jsonio.sha256_file(path)
    base = document.pop("extends", None) if isinstance(document, dict) else None
    if base is None:
        return document, sha256
    if not isinstance(base, str) or not NAME.fullmatch(base):
        raise ContestError(f"{path}: extends {str(base)[:60]!r}: give the name of a contest")
    places = [folder / f"{base}.yaml" for folder in (path.parent, PACKAGED)]
    found = next((place for place in places if place.is_file() and place != path), None)
    if found is None:
        raise ContestError(f"{path}: extends {base}: there is no such contest")
    below, base_sha256 = resolved(found, (*above, path))
    return _merged(below, document), jsonio.sha256_of([sha256, base_sha256])


def _merged(below: Any, own: Any) -> Any:
    """`own` over `below`: mappings key by key, null removes a key, anything else replaces."""
    if not isinstance(below, dict) or not isinstance(own, dict):
        return own
    merged = {key: _merged(value, own.get(key, value)) for key, value in below.items()}
    merged |= {key: value for key, value in own.items() if key not in below}
    return {key: value for key, value in merged.items() if value is not None or key not in own}
