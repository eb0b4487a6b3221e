"""The progress of a training run on the terminal, or as plain lines where there is none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from ffsim.cli import output

PLAIN_EVERY_S = 5.0


@contextlib.contextmanager
def training(label: str, *, quiet: bool = False) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show a run's events; yields the function that takes them."""
    printer = output.console(err=True)
    if quiet:
        yield lambda event: None
    elif printer.is_terminal:
        with _bar(label) as show:
            yield show
    else:
        yield _plain(label)


@contextlib.contextmanager
def _bar(label: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=output.console(err=True)) as progress:
        task = progress.add_task(label, total=1.0, words="starting")

        def show(event: dict[str, Any]) -> None:
            words = _words(event)
            if event["event"] == "step":
                progress.update(task, completed=event["fraction"], words=words)
            elif words:
                progress.update(task, words=words)

        yield show


def _plain(label: str) -> Callable[[dict[str, Any]], None]:
    last = [float("-inf")]

    def show(event: dict[str, Any]) -> None:
        words = _words(event)
        due = event["event"] != "step" or time.monotonic() - last[0] >= PLAIN_EVERY_S
        if words and due:
            last[0] = time.monotonic()
            output.console(err=True).print(f"{label}: {words}")

    return show


def _words(event: dict[str, Any]) -> str:
    if event["event"] == "start":
        return f"{event['parameters']:,} parameters, started in {event['startup_s']:.1f} s"
    if event["event"] == "step":
        return (
            f"step {event['step']:,}  charged {event['charged_s']:.1f} s  "
            f"loss {event['loss_nats']:.3f} nats  left {event['left_s']:.0f} s"
        )
    if event["event"] == "score":
        return f"step {event['step']:,}  {event['text']} {event['bpb']:.4f} bpb"
    return ""
