"""What a training log says, in one shape for every dialect.

Everything is optional: a log that says nothing of a thing leaves it None. A number that is not finite is never
a value here; it is a sentence in `Reading.problems`.
"""

from __future__ import annotations

import msgspec

from ffsim.records import CurvePoint, Score, StepTime

SLOW_STEP = 3.0  # a step of more than this many phase medians was a compile, or something as bad


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run has come, for a progress bar; `fraction` and `left_s` are of the charged time."""

    started: bool = False
    step: int | None = None
    charged_s: float | None = None
    fraction: float | None = None
    left_s: float | None = None
    loss: float | None = None


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """From optimizer step `step` (index from 0) on, `label` holds; `charged_s` is the clock at that moment."""

    label: str
    step: int
    charged_s: float | None = None


class Compile(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took more than `SLOW_STEP` medians of its batch phase, most likely because it compiled.

    `charged` is False within the free steps. `source` says what it was read from: the line of the step itself, or the
    charged seconds between two lines, of which `step` is then the first step and `seconds` an estimate.
    """

    step: int
    phase: str
    seconds: float
    source: str
    charged: bool


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What one log, or one run's folder, says.

    Attributes
    ----------
    dialect
        The dialect that it was read in.
    finished
        Whether a complete summary was seen; without one a run was killed and is no result.
    steps
        Optimizer steps: last index + 1.
    tokens, parameters, seed, peak_memory_bytes
        As the log says.
    budget_s, target_s
        The contest's charged seconds, and those that the trainer aimed at.
    startup_s
        Seconds from the launch until the clock started.
    charged_s
        Charged seconds of the whole run, a charged final save included.
    trained_s
        Charged seconds until the end of the last step, before the save.
    save_s
        Charged seconds after that, by the trainer's own account.
    total_s
        Seconds of the wall, launch to end.
    free_steps
        Steps at the start that are not charged: as given, or more where the log shows that its clock started later.
    first_phase
        Batch phase of step 0.
    switches
        Changes of the batch phase; a label is the number of micro-batches in one update.
    stages
        Changes of the training objective.
    step_times
        By batch phase, free steps aside. `count` and `mean_s` are of all steps of the phase where the log has
        the seconds at which phases began, otherwise of the steps that were printed; `median_s` is the
        summary's where it has one; `p95_s` is always of the printed steps.
    scores
        Bits per byte by text, recomputed from nats and bytes where those are there; ``val`` is the main text.
    loss
        [step index, charged_s, training loss]; comparable between runs only if their objectives are the same.
    compiles, late_compiles
        Slow steps, and how many of them were charged. Of steps that are not printed only those are seen that took
        longer than the rounding of the clock, 1 s, lets hide.
    exit_code
        Of the trainer.
    settings
        The environment that the trainer was given.
    problems
        What contradicts itself, is damaged or is not a number: one sentence each.
    flags
        What a reader must know and what is no fault: ``loss_not_comparable``, ``thinned`` (not every step is
        printed), ``rounded_switches`` (to 1 s), ``braces_lost`` (of a score file), ``over_budget``.
    """

    dialect: str
    finished: bool = False
    steps: int | None = None
    tokens: int | None = None
    parameters: int | None = None
    seed: int | None = None
    peak_memory_bytes: int | None = None
    budget_s: float | None = None
    target_s: float | None = None
    startup_s: float | None = None
    charged_s: float | None = None
    trained_s: float | None = None
    save_s: float | None = None
    total_s: float | None = None
    free_steps: int = 0
    first_phase: str | None = None
    switches: tuple[Switch, ...] = ()
    stages: tuple[Switch, ...] = ()
    step_times: dict[str, StepTime] = {}
    scores: dict[str, Score] = {}
    loss: tuple[CurvePoint, ...] = ()
    compiles: tuple[Compile, ...] = ()
    late_compiles: int = 0
    exit_code: int | None = None
    settings: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
