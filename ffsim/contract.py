"""The data contracts in schemas/*.yaml: columns, row rules, and how to fix what breaks them.

A contract is written once for all contests; `expand` fills in what a contest declares: its knobs,
its scored texts, its batch phases. It needs no pandas: `ffsim.schema` compiles it to pandera.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ffsim import yamlio
from ffsim.contest import Contest
from ffsim.errors import SchemaError
from ffsim.knobs import Knob

Dtype = Literal["str", "utc", "int", "float", "bool", "knob", "curve", "strings", "names", "compiles"]
PACKAGED = Path(__file__).parent / "schemas"
BESIDE = Path(__file__).parent.parent / "schemas"  # an editable install has no copy in the package


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One column of a contract.

    `nullable` allows null, `optional` also allows the field to be absent; `required_when` is a row
    rule that makes a nullable column obligatory. `min` and `max` are inclusive, `above` is not.
    """

    dtype: Dtype
    about: str
    fix: str = ""
    unit: str = ""
    nullable: bool = False
    optional: bool = False
    required_when: str | None = None
    min: float | None = None
    max: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    max_length: int | None = None
    equals: bool | None = None
    knob: Knob | None = None

    def remedy(self) -> str:
        """What to do about a bad value, from `fix` or from what is allowed."""
        if self.fix:
            return self.fix
        if self.choices:
            return f"use one of {', '.join(self.choices)}"
        bounds = [
            f"{word} {limit:,.0f}" if abs(limit) >= 1e6 else f"{word} {limit:g}"
            for word, limit in (("above", self.above), ("at least", self.min), ("at most", self.max))
            if limit is not None
        ]
        what = f"{self.about}" + (f", in {self.unit}" if self.unit else "")
        if bounds:
            return f"{what}: {' and '.join(bounds)}"
        return f"{what}: must match {self.pattern}" if self.pattern else what


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A rule over several columns of a row; `each` repeats it for every text or phase."""

    name: str
    expr: str
    field: str
    message: str
    fix: str
    each: Literal["text", "phase"] | None = None
    when: str | None = None

    def instances(self, contest: Contest) -> Iterator[tuple[str, str]]:
        """(the text or phase, the field it is about) for every repetition."""
        names = {"text": contest.scored_texts, "phase": contest.phases, None: ("",)}[self.each]
        for name in names:
            yield name, self.field.replace(f"{{{self.each}}}", name)


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A contract as its file has it."""

    contract: str
    about: str
    columns: dict[str, Column]
    rules: tuple[Rule, ...] = ()

    def hashes(self) -> dict[str, str]:
        """Path -> pattern of the fields that may hold nothing but a hash."""
        patterns = {path: column.pattern for path, column in self.columns.items()}
        return {path: pattern for path, pattern in patterns.items() if pattern and pattern.startswith("[0-9a-f]{")}

    def expand(self, contest: Contest) -> dict[str, Column]:
        """The columns of a record of one contest, by dotted path, in the contract's order."""
        columns: dict[str, Column] = {}
        for path, column in self.columns.items():
            if "{knob}" in path:
                for knob in contest.knobs:
                    columns[path.replace("{knob}", knob.name)] = _knob_column(column, knob)
            elif "{text}" in path:
                columns |= {path.replace("{text}", text): column for text in contest.scored_texts}
            elif "{phase}" in path:
                columns |= {path.replace("{phase}", phase): column for phase in contest.phases}
            else:
                columns[path] = column
        return columns


def _knob_column(column: Column, knob: Knob) -> Column:
    # A knob that came later is not in older records; `ffsim.identity` knows which those are.
    return msgspec.structs.replace(
        column, knob=knob, about=knob.about, unit=knob.unit, nullable=column.nullable or knob.since is not None
    )


def load(name: str, folder: Path | None = None) -> Contract:
    """Read a contract.

    Parameters
    ----------
    name
        ``run`` or ``upload``.
    folder
        Contracts of a project; they win over the packaged ones.

    Raises
    ------
    SchemaError
        If there is none, or it does not hold together.
    """
    for place in (folder, PACKAGED, BESIDE):
        path = place / f"{name}.yaml" if place is not None else None
        if path is not None and path.is_file():
            try:
                return msgspec.convert(yamlio.load_file(path, SchemaError), Contract)
            except msgspec.ValidationError as error:
                raise SchemaError(f"{path}: {error}") from None
    raise SchemaError(f"no contract {name}: the package is incomplete; install it again")
