"""The dialects by name, and which of them a log is in."""

from __future__ import annotations

from collections.abc import Iterable

from ffsim.errors import LogError
from ffsim.logs.autoresearch import Autoresearch
from ffsim.logs.events import Events
from ffsim.logs.frontier import Frontier
from ffsim.logs.parser import Parser

DIALECTS: dict[str, type[Parser]] = {kind.name: kind for kind in (Events, Autoresearch, Frontier)}


def dialect(name: str) -> type[Parser]:
    """The parser of a dialect; call it with the contest's `free_steps`.

    Raises
    ------
    LogError
        If there is none of that name.
    """
    if name not in DIALECTS:
        raise LogError(f"no log dialect {name[:40]!r}; known: {', '.join(DIALECTS)}")
    return DIALECTS[name]


def guessed(lines: Iterable[str | bytes], free_steps: int = 0) -> Parser:
    """The parser that recognised most lines, after it read them all.

    Raises
    ------
    LogError
        If none recognised any.
    """
    parsers = [kind(free_steps) for kind in DIALECTS.values()]
    for line in lines:
        for parser in parsers:
            parser.feed(line)
    best = max(parsers, key=lambda parser: parser.recognised)
    if not best.recognised:
        raise LogError(f"no line of any known log dialect ({', '.join(DIALECTS)}); name it with --dialect")
    return best
