"""The parts of a run record: what was run, where, when it was charged for what, and what it scored."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["rehearsal", "screen", "official"]
Status = Literal["finished", "crashed", "cut_off", "over_budget"]
StartKind = Literal["cold", "warm", "mixed", "unknown"]
CurvePoint = tuple[int, float, float]


class RecipeRef(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The recipe's name and hash; its values stand in the run's `knobs`."""

    name: str
    hash: str


class Host(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The host block and the fingerprint it was made of; no host name, no load."""

    block: str
    device_requested: str
    device_used: str
    cpu_model: str
    cpu_capability: str
    machine: str
    system: str
    python: str
    torch: str
    compiler: str
    flags: dict[str, str]


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """State of the compile caches: as asked for, and as seen."""

    requested: StartKind
    observed: StartKind


class Clock(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Seconds of a run. Charged ones count against the budget; startup, eval and wall do not.

    `save_s` counts where the contest says so; `startup_charged_s` (above a cap) and `compile_charged_s` are parts
    of `train_charged_s`.
    """

    startup_s: float | None = None
    train_charged_s: float | None = None
    eval_s: float | None = None
    wall_s: float | None = None
    core_share: float | None = None
    load_1m: float | None = None
    last_step_s: float | None = None
    longest_step_s: float | None = None
    first_step_s: float | None = None
    startup_charged_s: float | None = None
    compile_startup_s: float | None = None
    compile_charged_s: float | None = None
    late_compiles: int | None = None
    save_s: float | None = None


class Compile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One compile: which graph, the index of the step that needed it, its batch phase, seconds, and who paid.

    `step` is null before the first and after the last; `phase` may be ``save`` or ``evaluation`` too; `source` says
    who tells it: ``dynamo``, or the dialect of a log.
    """

    graph: str
    step: int | None
    phase: str
    seconds: float
    source: str
    charged: bool


class StepTime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Charged seconds of one optimizer step in one batch phase."""

    count: int
    median_s: float
    mean_s: float
    p95_s: float


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Score on one text: bits per byte, and the nats, bytes and tokens it was computed from."""

    bpb: float
    nats: float | None = None
    bytes: int | None = None
    tokens: int | None = None


class Curves(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """[step, charged_s, loss in nats] of training and [step, charged_s, bpb] of the rehearsal text."""

    loss: tuple[CurvePoint, ...] = ()
    bpb: tuple[CurvePoint, ...] = ()


class Artifact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A submitted file that ffsim did not write: its name and its size."""

    file: str
    bytes: int


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What wrote the record."""

    tool_version: str
    git_revision: str | None = None
    source_log_sha256: str | None = None
    original_id: str | None = None
