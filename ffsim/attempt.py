"""From a trainer's events to a run record, whichever way the run ends."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec

from ffsim import host, jsonio, records
from ffsim.contest import Contest
from ffsim.errors import RunError
from ffsim.launch import Event
from ffsim.records import Run, StartKind

CURVE_POINTS = 200
MEASURED = {
    "steps", "tokens", "clock", "step_times", "scores", "curves", "compiles", "weights_sha256", "peak_memory_bytes",
    "parameters",
}  # fmt: skip
MOST_COMPILES = 1000


class Attempt:
    """What has been seen of a run so far.

    Parameters
    ----------
    draft
        The record as it stands at launch: who, what and where, but nothing measured.
    contest
        Names the host block.
    """

    def __init__(self, draft: Run, contest: Contest) -> None:
        self.draft = draft
        self.contest = contest
        self.host = draft.host
        self.observed: StartKind = "unknown"
        self.result: Event | None = None
        self.error = ""
        self.points: list[tuple[int, float, float]] = []
        self.compiles: list[records.Compile] = []

    def see(self, event: Event) -> None:
        """Take an event in.

        Raises
        ------
        RunError
            If it lacks what its kind must have.
        """
        try:
            self._see(event)
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise RunError(f"the trainer printed a damaged event ({event['event'][:40]}: {error!r:.80})") from None

    def _see(self, event: Event) -> None:
        kind = event["event"]
        if kind == "caches":
            self.observed = event["observed"]
        elif kind == "runtime":
            facts = {key: value for key, value in event.items() if key not in {"event", "device_used"}}
            device = self.host.device_requested
            made = host.fingerprint(self.contest, device, event.get("device_used", device), runtime=facts)
            self.host = records.Host(**made)
        elif kind == "step":
            point = (int(event["step"]), float(event["charged_s"]), float(event["loss_nats"]))
            if not all(math.isfinite(value) for value in point):
                raise ValueError("not finite")
            self.points.append(point)
        elif kind == "compile" and len(self.compiles) < MOST_COMPILES:
            entry = {key: value for key, value in event.items() if key != "event"}
            self.compiles.append(msgspec.convert(entry, records.Compile))
        elif kind == "error":
            self.error = str(event["message"])
        elif kind == "exit":
            self.error = self.error or f"exit code {event['code']}: {event['stderr']}"
        elif kind == "result":
            self.result = event | {"clock": dict(event["clock"])}

    def unfinished(self, status: records.Status, message: str) -> Run:
        """The record of a run without a result: no score, but the steps and the loss seen so far."""
        last = self.points[-1] if self.points else None
        return msgspec.structs.replace(
            self.draft,
            host=self.host,
            start=records.Start(requested=self.draft.start.requested, observed=self.observed),
            status=status,
            message=without_paths(message)[:300],
            steps=last[0] if last else None,
            clock=records.Clock(train_charged_s=last[1] if last else None),
            curves=records.Curves(loss=thinned(self.points)),
            compiles=tuple(self.compiles),
        )

    def finished(self, log: Path) -> Run:
        """The record of a run that printed its result.

        Raises
        ------
        RunError
            If it printed none.
        """
        if self.error or self.result is None:
            raise RunError(self.error or "the trainer ended without a result")
        result = {key: value for key, value in self.result.items() if key != "event"}
        if unknown := sorted(set(result) - MEASURED):
            # What is not measured is not the trainer's to say: a result cannot rename a run.
            raise RunError(f"the trainer's result has unknown keys: {', '.join(unknown)[:100]}")
        merged = records.as_json(
            msgspec.structs.replace(
                self.draft,
                host=self.host,
                start=records.Start(requested=self.draft.start.requested, observed=self.observed),
                provenance=records.Provenance(
                    tool_version=self.draft.provenance.tool_version,
                    git_revision=self.draft.provenance.git_revision,
                    source_log_sha256=jsonio.sha256_file(log),
                ),
            )
        )
        merged |= {**result, "status": self._status(result), "message": None}
        return records.run_from(merged, where="the trainer's result")

    def _status(self, result: Event) -> records.Status:
        clock, budget_s = result["clock"], self.draft.budget_s
        charged_s, last_step_s = clock.get("train_charged_s"), clock.get("last_step_s")
        if not all(isinstance(value, int | float) for value in (charged_s, last_step_s)):
            raise RunError("the trainer's result does not say what it charged")
        if "save" in self.contest.clock_policy.charged:
            charged_s += clock.get("save_s") or 0.0
        return "over_budget" if budget_s is not None and charged_s > budget_s + last_step_s else "finished"


def thinned(points: list[records.CurvePoint]) -> tuple[records.CurvePoint, ...]:
    """At most CURVE_POINTS points of a curve, evenly spread, the first and the last among them."""
    if len(points) <= CURVE_POINTS:
        return tuple(points)
    last = CURVE_POINTS - 1
    return tuple(points[round(i * (len(points) - 1) / last)] for i in range(CURVE_POINTS))


def without_paths(text: str) -> str:
    """A message with the folders of absolute paths left out: a record names nobody's home."""
    return re.sub(r"(?<![\w.])(?:/|[A-Za-z]:\\)(?:[^\s'\"/\\]+[/\\])+", "", text)
