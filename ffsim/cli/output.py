"""What every command prints with: JSON, tables, and the project it works in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ffsim.project import Project

if TYPE_CHECKING:
    from rich.console import Console

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
    """The project around the working directory."""
    return Project.find()


def emit(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False))


def console(*, err: bool = False) -> Console:
    """A rich console that takes no markup or colour from what it prints."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; columns whose every cell is a number, or empty, are set to the right."""
    from rich import box
    from rich.table import Table

    shown = [[cell(value) for value in row] for row in rows]
    out = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, name in enumerate(columns):
        numeric = bool(shown) and all(_number_like(row[index]) for row in shown)
        out.add_column(name, justify="right" if numeric else "left", no_wrap=True)
    for row in shown:
        out.add_row(*row)
    printer = console()
    # Piped output is as wide as the table needs: nothing is cut where nobody can scroll.
    if not printer.is_terminal:
        printer.width = 10_000
        printer.width = max(80, printer.measure(out).maximum)
    printer.print(out)


def cell(value: Any) -> str:
    """A value as table cells show it: 4 decimals, nothing for null, no control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}"
    return "".join(c if c.isprintable() else "?" for c in str(value))


def signed(value: float | None) -> str | None:
    """A difference with its sign."""
    return None if value is None else f"{value:+.4f}"


def _number_like(text: str) -> bool:
    return text == "" or text.lstrip("+-")[:1].isdigit()
