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
                progress.update(task, completed=event["fraction"] or 0.0, words=words)
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
        # A submission's log may tell less than ffsim's own trainer.
        charged_s, loss, left_s = event["charged_s"], event["loss_nats"], event["left_s"]
        said = [f"step {event['step']:,}"]
        said += [] if charged_s is None else [f"charged {charged_s:.1f} s"]
        said += [] if loss is None else [f"loss {loss:.3f} nats"]
        return "  ".join([*said, *([] if left_s is None else [f"left {left_s:.0f} s"])])
    if event["event"] == "compile":
        who = "charged" if event["charged"] else "free"
        where = "before the first step" if event["step"] is None else f"at step {event['step']:,}"
        return f"compiled {event['graph']} {where} in {event['seconds']:.1f} s ({who})"
    if event["event"] == "score":
        return f"step {event['step']:,}  {event['text']} {event['bpb']:.4f} bpb"
    return ""
