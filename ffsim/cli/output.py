"""What every command prints with: JSON, tables, and the project it works in."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ffsim.errors import ProjectError, printable
from ffsim.project import Project

if TYPE_CHECKING:
    from rich.console import Console

    from ffsim.contest import Contest

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """The option ``--json``, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def contest_option(command: F) -> F:
    """The option ``--contest``, as the parameter `contest_name`."""
    return click.option(
        "--contest", "contest_name", metavar="NAME", help="Contest (default: the first of params.yaml)."
    )(command)


def project() -> Project:
    """The project around the working directory; what a killed command left half done is undone first."""
    found = Project.find()
    if (found.scratch / "journal.json").is_file():
        from ffsim import store

        store.repair(found)
    return found


def contest(name: str) -> Contest:
    """A contest by name, of the project here or else one that the package brings."""
    from ffsim import contest as contests

    try:
        return project().contest(name)
    except ProjectError:
        return contests.load(name)


def shown(project: Project, path: Path) -> str:
    """A path as people type it: below the project from its root, else whole."""
    whole = path.resolve()
    return str(whole.relative_to(project.root) if whole.is_relative_to(project.root) else whole)


def emit(value: Any) -> None:
    """Print a value as JSON; what a terminal would obey is escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def console(*, err: bool = False) -> Console:
    """A rich console that takes no markup, colour or terminal code from what it prints."""
    from rich.console import Console as RichConsole

    class Quiet(RichConsole):
        def print(self, *objects: Any, **options: Any) -> None:
            """Text line by line without what a terminal would obey; tables are made of `cell`."""
            clean = ("\n".join(map(printable, o.split("\n"))) if isinstance(o, str) else o for o in objects)
            super().print(*clean, **options)

        def on_broken_pipe(self) -> None:
            """`| head` has what it wanted; that is no failure."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0)

    return Quiet(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; numbers are set to the right, a last column of text may wrap, nothing is ever cut.

    Where the terminal is too narrow, the rows are printed one below the other. Piped output is as wide as the
    table needs.
    """
    from rich import box
    from rich.table import Table

    shown = [[cell(value) for value in row] for row in rows]
    numeric = [bool(shown) and all(_number_like(row[i]) for row in shown) for i in range(len(columns))]
    out = Table(title=title or None, box=box.SIMPLE_HEAD, show_edge=False, title_justify="left", pad_edge=False)
    for i, name in enumerate(columns):
        wraps = i == len(columns) - 1 and not numeric[i]
        out.add_column(name, justify="right" if numeric[i] else "left", no_wrap=not wraps)
    for row in shown:
        out.add_row(*row)
    printer = console()
    terminal_width, printer.width = printer.width, 10_000
    size = printer.measure(out)
    if not printer.is_terminal:
        printer.width = max(80, size.maximum)
    elif size.minimum <= terminal_width:
        printer.width = terminal_width
    else:
        _stacked(printer, title, columns, shown)
        return
    printer.print(out)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table as Markdown, columns set under each other, numbers to the right."""
    shown = [[cell(value).replace("|", "/") for value in row] for row in rows]
    widths = [max(len(text) for text in column) for column in zip(columns, *shown, strict=True)]
    numeric = [all(_number_like(row[i]) for row in shown) for i in range(len(columns))]
    rule = ["-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric, strict=True)]
    for row in (list(columns), rule, *shown):
        cells = zip(row, widths, numeric, strict=True)
        click.echo("| " + " | ".join(f"{text:>{w}}" if right else f"{text:<{w}}" for text, w, right in cells) + " |")


def _stacked(printer: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Every row as lines of its own: the first cell, then name and value of the others that are not empty."""
    if title:
        printer.print(title)
    width = max(len(name) for name in columns)
    for row in rows:
        printer.print(row[0])
        for name, value in zip(columns[1:], row[1:], strict=True):
            if value:
                printer.print(f"  {name:<{width}}  {value}")


def hint_missing(project: Project) -> None:
    """Say on standard error that the dataset, or a part of it, is not here."""
    from ffsim import dataset

    lost = dataset.missing(project)
    if lost:
        console(err=True).print(f"{len(lost)} files of the dataset are not here: run `dvc pull data`")


def cell(value: Any) -> str:
    """A value as table cells show it: 4 decimals, nothing for null, no control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4f}"
    return printable(str(value))


def signed(value: float | None) -> str | None:
    """A difference with its sign."""
    return None if value is None else f"{value:+.4f}"


def _number_like(text: str) -> bool:
    return text == "" or text.lstrip("+-")[:1].isdigit()
