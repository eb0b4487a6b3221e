"""Lines out of pieces of output, bounded whatever a program prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LINE_MAX = 65_536  # bytes of a line that are handed on; an ff_summary has 1,500
_BREAK = re.compile(rb"[\r\n]")


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines ended by line feeds or carriage returns, as progress bars print them.

    Parameters
    ----------
    pieces
        Output as it comes, cut anywhere.

    Yields
    ------
    bytes
        A line without its end; of a long one the first `LINE_MAX` bytes. Empty lines are left out.
    """
    rest, skipping = b"", False
    for piece in pieces:
        *whole, rest = _BREAK.split(rest + piece)
        for line in whole:
            if line and not skipping:
                yield line[:LINE_MAX]
            skipping = False
        if skipping:
            rest = b""
        elif len(rest) >= LINE_MAX:
            yield rest[:LINE_MAX]
            rest, skipping = b"", True
    if rest:
        yield rest
