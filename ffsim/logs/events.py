"""ffsim's own dialect: one strict JSON object a line, with the name of the event in `event`.

Other lines are a trainer's talk and are let be. A line that is meant as an event and is not strict JSON (cut off,
or with a NaN in it) is a problem: something that happened is not known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ffsim.logs.parser import STEPS_MAX, Parser, mapping, number, positive, whole
from ffsim.logs.reading import Progress, Reading
from ffsim.records import CurvePoint, Score, StepTime


class Events(Parser):
    """Reads the events of a trainer that speaks ffsim's own dialect."""

    name = "events"

    def __init__(self, free_steps: int = 0) -> None:
        super().__init__(free_steps)
        self._now = Progress()
        self._loss: list[CurvePoint] = []
        self._start: dict[str, Any] = {}
        self._result: dict[str, Any] | None = None
        self._exit_code: int | None = None
        self._failed = False  # whatever else it prints, a trainer that says so has no result

    def progress(self) -> Progress:
        """How far the run has come."""
        return self._now

    def _line(self, line: str) -> None:
        if not line.startswith("{"):
            return
        event = mapping(line)
        kind = event.get("event") if event is not None else None
        if event is None or not isinstance(kind, str):
            if '"event"' in line:
                self.problem(f"a damaged event: {line[:60]}")
            return
        self.recognised += 1
        if kind == "step":
            self._step(event)
        elif kind == "start":
            self._start = event
        elif kind == "result":
            if self._result is not None:
                self.problem("two results: more than one run in this log")
                self._failed = True
            self._result = event
        elif kind == "error":
            self.problem(f"the trainer says: {event.get('message')}"[:200])
            self._failed = True
        elif kind == "interrupted":
            self.problem("the run was interrupted")
            self._failed = True
        elif kind == "exit":
            code = number(event.get("code"))
            self._exit_code = None if code is None else int(code)
            self.problem(f"exit code {self._exit_code}")

    def _step(self, event: dict[str, Any]) -> None:
        step, charged_s, loss = whole(event.get("step")), number(event.get("charged_s")), number(event.get("loss_nats"))
        if step is None or charged_s is None or loss is None:
            self.problem("a step without its number, its charged seconds or its loss")
            return
        if len(self._loss) < STEPS_MAX:
            self._loss.append((step, charged_s, loss))
        fraction = number(event.get("fraction"))
        self._now = Progress(
            started=True,
            step=step,
            charged_s=charged_s,
            fraction=None if fraction is None else min(1.0, max(0.0, fraction)),
            left_s=number(event.get("left_s")),
            loss=loss,
        )

    def reading(self) -> Reading:
        """What the log has said so far. A step event counts finished steps: there is no index 0."""
        result, problems = self._result or {}, Parser()
        clock = result.get("clock")
        clock = clock if isinstance(clock, dict) else {}
        scores = self._typed(result.get("scores", {}), dict[str, Score], "scores", problems) or {}
        for name in [name for name, score in scores.items() if positive(score.bpb) is None]:
            problems.problem(f"the score of {name} is no number above 0")
            del scores[name]
        times = self._typed(result.get("step_times", {}), dict[str, StepTime], "step_times", problems) or {}
        curves = result.get("curves")
        points = curves.get("loss") if isinstance(curves, dict) else None
        curve = self._typed(points, tuple[CurvePoint, ...], "curves.loss", problems) if points else None
        finished = whole(result.get("steps")) is not None and number(clock.get("train_charged_s")) is not None
        if self._result is not None and not finished:
            problems.problem("the result does not say its steps and what it charged")
        charged_s = number(clock.get("train_charged_s"))
        steps = whole(result.get("steps")) if finished else self._now.step
        if finished and self._now.step is not None and steps != self._now.step:
            problems.problem(f"the result counts {steps} steps, the last step event {self._now.step}")
        startup_s = clock.get("startup_s") if "startup_s" in clock else self._start.get("startup_s")
        return Reading(
            dialect=self.name,
            finished=finished and not self._failed,
            steps=steps,
            tokens=whole(result.get("tokens")),
            parameters=whole(result.get("parameters", self._start.get("parameters"))),
            peak_memory_bytes=whole(result.get("peak_memory_bytes")),
            startup_s=number(startup_s),
            charged_s=charged_s,
            trained_s=charged_s,
            total_s=number(clock.get("wall_s")),
            free_steps=self.free_steps,
            first_phase=next(iter(times)) if len(times) == 1 else None,
            step_times=times,
            scores=scores,
            loss=curve or tuple(self._loss),
            exit_code=self._exit_code,
            problems=(*self.problems, *problems.problems),
        )

    def _typed(self, value: Any, kind: Any, name: str, problems: Parser) -> Any:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            problems.problem(f"{name} of the result: {error}")
            return None
