"""A text as it is meant to be read: the spellings undone that hide a secret from a pattern.

Undone are compatibility forms, characters that are not seen, letters of other alphabets that look
like Latin ones, percent-encoding and HTML entities. What was found is still told by its place in
the original.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator

# NFKC leaves these as they are: they are other letters, and look the same.
_LOOK_ALIKES = dict(
    zip(
        "авгԁеһіјкӏмոорԛѕтυνԝхуАВЕКМНОРСТХУІЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧοας",
        "abrdehijklmnopqstuvwxyABEKMHOPCTXYISABEZHIKMNOPTYXoac",
        strict=True,
    )
)
_UNSEEN = frozenset({"Cf", "Mn"})
_ENCODED = re.compile(r"%([2-7][0-9A-Fa-f])|&#?[A-Za-z0-9]{1,8};")

Places = list[int]  # of every character of a view in the original


def views(text: str) -> Iterator[tuple[str, Places | None]]:
    """The text in plain characters, and, if something in it is encoded, decoded once more.

    Yields
    ------
    tuple
        (view, the place of each of its characters in `text`; None if they are the same).
    """
    plain, places = (text, None) if text.isascii() else _simple(text)
    yield plain, places
    if _ENCODED.search(plain):
        decoded, kept = _decoded(plain)
        yield decoded, kept if places is None else [places[index] for index in kept]


def _simple(text: str) -> tuple[str, Places]:
    chars: list[str] = []
    places: Places = []
    for index, char in enumerate(text):
        if unicodedata.category(char) not in _UNSEEN:
            simple = unicodedata.normalize("NFKC", _LOOK_ALIKES.get(char, char))
            chars.append(simple)
            places += [index] * len(simple)
    return "".join(chars), places


def _decoded(text: str) -> tuple[str, Places]:
    chars: list[str] = []
    places: Places = []
    end = 0
    for match in _ENCODED.finditer(text):
        char = chr(int(match[1], 16)) if match[1] else html.unescape(match[0])
        chars += [text[end : match.start()], char]
        places += [*range(end, match.start()), *[match.start()] * len(char)]
        end = match.end()
    chars.append(text[end:])
    places += range(end, len(text))
    return "".join(chars), places
