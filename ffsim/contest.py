"""A contest: its budget, clock policy, texts, hosts, launch and knobs, read from one YAML file.

Everything that differs between contests stands in that file; no other module may branch on a
contest's, a host's or a knob's name. Adding a contest is adding a file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ffsim.contestfile import NAME, PACKAGED, RESERVED, VARIABLE, File, Launch, Text, resolved
from ffsim.errors import ContestError, RecipeError
from ffsim.knobs import KnobTable
from ffsim.policy import ClockPolicy

__all__ = ["PACKAGED", "Contest", "Launch", "Text", "available", "load"]


class Contest:
    """One contest.

    Parameters
    ----------
    file
        The parsed contest file; its fields are attributes of the contest, `knobs` as a `KnobTable`.
    source
        Where it was read.
    sha256
        Of the file, and of those that it extends.
    """

    def __init__(self, file: File, source: Path, sha256: str) -> None:
        self.name = file.contest
        self.title = file.title
        self.about = file.about
        self.embedded = file.embedded  # what a project is made of where no contest is named
        self.budget_s = file.budget_s
        self.clock = file.clock
        self.metric = file.metric
        self.texts = file.texts
        self.official = file.official
        self.curve_at = file.curve_at
        self.hosts = file.hosts
        self.artifact = file.artifact
        self.launch = file.launch
        self.trainers = file.trainers
        self.tokens_per_step = file.tokens_per_step
        self.phases = file.phases
        self.schedule = file.schedule
        self.knobs = KnobTable(file.knobs)
        self.source = source
        self.sha256 = sha256
        self.clock_policy = ClockPolicy.from_dict(file.clock)
        self._check()

    def text(self, role: str) -> str:
        """The name of the text with a role."""
        return next(name for name, text in self.texts.items() if text.role == role)

    @property
    def held_texts(self) -> dict[str, Text]:
        """The texts that lie below data/texts, by name."""
        return {name: text for name, text in self.texts.items() if text.path}

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

    def step_tokens(self, knobs: Mapping[str, Any]) -> int:
        """Tokens of one micro-batch of a recipe: of one optimizer step in the phase ``"1"``."""
        tokens = 1
        for factor in self.tokens_per_step:
            tokens *= factor if isinstance(factor, int) else int(knobs[factor])
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
        if bad := next((phase for phase in self.phases if not re.fullmatch(r"[1-9][0-9]{0,3}", phase)), None):
            raise ContestError(f"{where}: phase {bad!r}: a phase is named by its number of micro-batches")
        if not self.trainers.versions:
            raise ContestError(f"{where}: trainers.eras needs at least one trainer version")
        self._check_launch(where)
        self._check_names(where)
        try:
            self.schedule.batches(self.knobs.defaults())
        except (RecipeError, ValueError, OverflowError) as error:
            raise ContestError(f"{where}: schedule: {error}") from None

    def _check_launch(self, where: str) -> None:
        if self.launch.trainer is None and not self.launch.command:
            raise ContestError(f"{where}: launch needs a trainer or a command")
        if self.artifact.file in RESERVED or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", self.artifact.file):
            raise ContestError(f"{where}: artifact.file {self.artifact.file[:60]!r}: a file name, no path")
        for name in (*self.launch.cache_folders, *self.launch.environment):
            if not VARIABLE.fullmatch(name):
                raise ContestError(f"{where}: launch: {name[:60]!r} is no name of an environment variable")
        for name, value in self.launch.environment.items():
            if "\0" in value:
                raise ContestError(f"{where}: launch.environment: {name} holds a NUL")

    def _check_names(self, where: str) -> None:
        """Knobs that other sections name are knobs of the table, and are numbers."""
        sections = {"tokens_per_step": {f for f in self.tokens_per_step if isinstance(f, str)}}
        sections["schedule"] = self.schedule.names()
        for section, names in sections.items():
            for name in sorted(names):
                if name not in self.knobs:
                    raise ContestError(f"{where}: {section}: {name} {self.knobs.unknown(name)}")
                if self.knobs[name].type not in ({"int"} if section == "tokens_per_step" else {"int", "float"}):
                    raise ContestError(f"{where}: {section}: {name} is no number")
        for knob in self.knobs:
            if knob.since is not None and knob.since not in self.trainers.versions:
                raise ContestError(f"{where}: knob {knob.name}: since {knob.since}: no trainer version of an era")

    def _check_texts(self, where: str) -> None:
        roles = [text.role for text in self.texts.values()]
        for role in ("train", "rehearsal", "official"):
            if roles.count(role) != 1:
                raise ContestError(f"{where}: needs exactly one text with the role {role}")
        for name, text in self.texts.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ContestError(f"{where}: the text name {name!r} must be a lower-case word")
            if not text.path:
                continue
            if text.bytes is None or not text.sha256:
                raise ContestError(f"{where}: text {name} has a path; it needs bytes and sha256 too")
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
    document, sha256 = resolved(path)
    try:
        return Contest(msgspec.convert(document, File), path, sha256)
    except msgspec.ValidationError as error:
        raise ContestError(f"{path}: {error}") from None
