"""A contest: its budget, clock policy, texts, hosts, launch and knobs, read from one YAML file.

Everything that differs between contests stands in that file; no other module may branch on a
contest's, a host's or a knob's name. Adding a contest is adding a file.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any, Literal

import msgspec

from ffsim import yamlio
from ffsim.clock import ClockPolicy
from ffsim.errors import ContestError
from ffsim.knobs import Knob, KnobTable

PACKAGED = Path(__file__).parent / "contests"
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


class Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A text: its path below data/texts, its size and hash, and who may read it."""

    path: str
    role: Literal["train", "rehearsal", "official"]
    bytes: int
    sha256: str

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


class Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a rehearsal starts: trainer module, environment, cache folders that a cold start empties.

    A run is ended after `wall_limit_startup_s` + `wall_limit_factor` x its budget by the wall.
    """

    trainer: str
    environment: dict[str, str]
    cache_folders: tuple[str, ...]
    devices: tuple[str, ...]
    wall_limit_factor: float
    wall_limit_startup_s: float


class Trainers(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which trainer versions are comparable in quality: era -> versions."""

    eras: dict[str, tuple[str, ...]]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    contest: str
    title: str
    about: str
    budget_s: float
    clock: dict[str, Any]
    metric: Metric
    texts: dict[str, Text]
    official: Official
    curve_at: tuple[float, ...]
    hosts: Hosts
    launch: Launch
    trainers: Trainers
    tokens_per_step: tuple[str, ...]
    phases: tuple[str, ...]
    knobs: dict[str, Knob]


class Contest:
    """One contest.

    Parameters
    ----------
    file
        The parsed contest file; its fields are attributes of the contest, `knobs` as a `KnobTable`.
    source
        Where it was read.
    """

    def __init__(self, file: _File, source: Path) -> None:
        self.name = file.contest
        self.title = file.title
        self.about = file.about
        self.budget_s = file.budget_s
        self.clock = file.clock
        self.metric = file.metric
        self.texts = file.texts
        self.official = file.official
        self.curve_at = file.curve_at
        self.hosts = file.hosts
        self.launch = file.launch
        self.trainers = file.trainers
        self.tokens_per_step = file.tokens_per_step
        self.phases = file.phases
        self.knobs = KnobTable(file.knobs)
        self.source = source
        self._check()

    def text(self, role: str) -> str:
        """The name of the text with a role."""
        return next(name for name, text in self.texts.items() if text.role == role)

    @property
    def scored_texts(self) -> tuple[str, ...]:
        """The names of the texts that a run may be scored on."""
        return tuple(name for name, text in self.texts.items() if text.role != "train")

    def era(self, trainer_version: str) -> str | None:
        """The era a trainer version belongs to, or None if the file declares none."""
        return next((era for era, versions in self.trainers.eras.items() if trainer_version in versions), None)

    def host_block(self, fingerprint: dict[str, Any]) -> str:
        """The block that a host's fingerprint pools into, such as ``cpu.intel-xeon.avx512``."""
        parts = (str(fingerprint.get(field, "unknown")) for field in self.hosts.block_by)
        return ".".join(re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") or "unknown" for part in parts)

    def device(self, asked: str | None) -> str:
        """The device to use: the one asked for, or the contest's first.

        Raises
        ------
        ContestError
            If the contest does not run on it.
        """
        device = asked or self.launch.devices[0]
        if device not in self.launch.devices:
            allowed = ", ".join(self.launch.devices)
            raise ContestError(f"device {device[:40]!r}: the contest {self.name} runs on {allowed}")
        return device

    def step_tokens(self, knobs: dict[str, Any]) -> int:
        """Tokens of one optimizer step of a recipe."""
        tokens = 1
        for name in self.tokens_per_step:
            tokens *= int(knobs[name])
        return tokens

    def _check(self) -> None:
        where = f"contest {self.name}"
        if not NAME.fullmatch(self.name):
            raise ContestError(f"{where}: the name must match {NAME.pattern}")
        self._check_texts(where)
        if not 0 < self.budget_s < 1e9:
            raise ContestError(f"{where}: budget_s must be above 0 seconds and finite")
        if not all(0 < at < 1 for at in self.curve_at):
            raise ContestError(f"{where}: curve_at takes fractions between 0 and 1")
        if not self.launch.devices:
            raise ContestError(f"{where}: launch.devices needs at least one device")
        if not self.phases:
            raise ContestError(f"{where}: phases needs at least one name")
        ClockPolicy.from_dict(self.clock)
        for name in self.tokens_per_step:
            if name not in self.knobs:
                raise ContestError(f"{where}: tokens_per_step: {name} {self.knobs.unknown(name)}")
            if self.knobs[name].type != "int":
                raise ContestError(f"{where}: tokens_per_step: {name} is no whole number")

    def _check_texts(self, where: str) -> None:
        roles = [text.role for text in self.texts.values()]
        for role in ("train", "rehearsal", "official"):
            if roles.count(role) != 1:
                raise ContestError(f"{where}: needs exactly one text with the role {role}")
        for name, text in self.texts.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ContestError(f"{where}: the text name {name!r} must be a lower-case word")
            if Path(text.path).is_absolute() or ".." in Path(text.path).parts:
                raise ContestError(f"{where}: the path of text {name} must stay below data/texts")


def load(name: str, folder: Path | None = None) -> Contest:
    """Find and read a contest.

    Parameters
    ----------
    name
        A packaged contest's name, one of `folder`, or the path of a contest file (``*.yaml``).
    folder
        Contest files of a project; they win over the packaged ones.

    Raises
    ------
    ContestError
        If there is none, or the file breaks the closed vocabulary; the text names the key.
    """
    if name.endswith((".yaml", ".yml")):
        return _read(Path(name))
    if not NAME.fullmatch(name):
        raise ContestError(f"{name[:60]!r} is no contest name; `ffsim status` lists the contests")
    for place in (folder, PACKAGED):
        if place is not None and (place / f"{name}.yaml").is_file():
            contest = _read(place / f"{name}.yaml")
            if contest.name != name:
                raise ContestError(f"{contest.source}: says `contest: {contest.name}`; it must say {name}, as its name")
            return contest
    raise ContestError(f"no contest {name}; known: {', '.join(available(folder))}, or give a contest file")


def available(folder: Path | None = None) -> list[str]:
    """Names of the contests that `load` finds."""
    places = [place for place in (folder, PACKAGED) if place is not None and place.is_dir()]
    return sorted({file.stem for place in places for file in place.glob("*.yaml")})


def _read(path: Path) -> Contest:
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        raise ContestError(f"{path}: cannot be read ({error.strerror})") from None
    return _parse(path.resolve(), stamp)


@functools.lru_cache(maxsize=32)
def _parse(path: Path, _stamp: int) -> Contest:
    document = yamlio.load_file(path, ContestError)
    try:
        return Contest(msgspec.convert(document, _File), path)
    except msgspec.ValidationError as error:
        raise ContestError(f"{path}: {error}") from None
