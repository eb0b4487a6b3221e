"""The compile ledger: which graph was compiled at which step, how long that took and who paid for it.

A graph that is first compiled after the clock started steals steps, and a warm cache hides it. So every compiled
function has a name, and what Dynamo compiles while it runs is written down under it, with the step.

Traps: a compile is over before anybody could see it from outside, so Dynamo's own callbacks are used, and its
count of graphs tells a compile from a frame that it merely looked at; importing Dynamo takes a second, so a run
that compiles nothing never does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch

from ffsim.clock import ChargedClock
from ffsim.errors import RunError
from ffsim.parts import Compile

Function = Callable[..., Any]
Backend = str | Function


class Ledger:
    """Compiles functions by name and keeps the ledger, in seconds of the contest's time source.

    Parameters
    ----------
    clock
        Charges compiles or pauses for them, as its policy says; says whether a step is free.
    backend
        What `torch.compile` gets; None compiles nothing.
    on_entry
        Called with every entry when its compile is over.
    """

    def __init__(
        self, clock: ChargedClock, backend: Backend | None, on_entry: Callable[[Compile], None] = lambda entry: None
    ) -> None:
        self.entries: list[Compile] = []
        self._clock, self._backend, self._on_entry = clock, backend, on_entry
        self._graph = self._phase = ""
        self._step: int | None = None
        self._on_the_clock = False
        self._begun: tuple[float, int, ExitStack] | None = None

    def wrap(self, name: str, function: Function) -> Function:
        """`function`, compiled where this run compiles; static shapes only."""
        if self._backend is None:
            return function
        compiled = torch.compile(function, backend=self._backend, dynamic=False, fullgraph=True)

        def call(*arguments: Any) -> Any:
            self._graph = name  # it stays the name of what follows: a backward pass may be compiled when it runs
            return compiled(*arguments)

        return call

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Listen to the compiler inside the block."""
        if self._backend is None:
            yield
            return
        from torch._dynamo.callback import callback_handler

        callback_handler.register_start_callback(self._on_start)
        callback_handler.register_end_callback(self._on_end)
        try:
            yield
        finally:
            callback_handler.remove_start_callback(self._on_start)
            callback_handler.remove_end_callback(self._on_end)

    @contextmanager
    def at(self, phase: str, step: int | None = None) -> Iterator[None]:
        """Say where the run is; after the free steps a compile is refused there if the policy wants that.

        Raises
        ------
        RunError
            A graph was to be compiled that must not be; it names graph and step.
        """
        before = self._phase, self._step, self._on_the_clock
        self._phase, self._step = phase, step
        self._on_the_clock = step is not None and not self._clock.free
        refused = self._on_the_clock and self._clock.policy.recompiles == "refused"
        try:
            with self._stance() if refused and self._backend is not None else ExitStack():
                yield
        except RuntimeError as error:
            if refused and "fail_on_recompile" in str(error):
                raise RunError(
                    f"the graph {self._graph} (phase {phase}) would be compiled at step {step}, inside the charged "
                    "clock; make it in the steps that are free (prewarm), or allow it (--allow-recompiles)"
                ) from None
            raise
        finally:
            self._phase, self._step, self._on_the_clock = before

    @property
    def late(self) -> list[Compile]:
        """The compiles that were charged."""
        return [entry for entry in self.entries if entry.charged]

    def seconds(self, *, charged: bool) -> float:
        """Seconds of the compiles that were charged, or of those that were not."""
        return sum(entry.seconds for entry in self.entries if entry.charged is charged)

    def _stance(self) -> AbstractContextManager[Any]:
        stance: AbstractContextManager[Any] = torch.compiler.set_stance("fail_on_recompile")
        return stance

    def _on_start(self, _arguments: Any) -> None:
        stack = ExitStack()
        now_s = self._clock.now_s
        stack.enter_context(self._clock.spending("late_compiles"))
        self._begun = now_s, _graphs(), stack

    def _on_end(self, arguments: Any) -> None:
        if self._begun is None:
            return
        started_s, graphs, stack = self._begun
        self._begun = None
        stack.close()
        seconds = self._clock.now_s - started_s
        backward = "BACKWARD" in str(getattr(arguments, "callback_trigger", ""))
        if _graphs() > graphs or backward:
            charged = self._on_the_clock and "late_compiles" in self._clock.policy.charged
            name = f"{self._graph} backward" if backward else self._graph
            self.entries.append(
                Compile(
                    graph=name, step=self._step, phase=self._phase, seconds=seconds, source="dynamo", charged=charged
                )
            )
            self._on_entry(self.entries[-1])


def _graphs() -> int:
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])
