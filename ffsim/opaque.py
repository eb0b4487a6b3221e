"""Whether a string was made by people or by a random generator.

Words, identifiers and file names are built of common pairs of letters and keep their digits
together; keys and tokens do neither. Entropy cannot tell the two apart at 20 to 40 characters, so
pairs are counted instead: one pass, no dictionary, any language with Latin letters.
"""

from __future__ import annotations

import itertools
import re

# The frequent bigrams of English prose (Norvig's counts over Google books, the top of the list),
# and those of technical abbreviations in run names and compiler flags.
_BIGRAMS = (
    "th he in er an re on at en nd ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro "
    "ic ne ea ra ce li ch ll be ma si om ur ca el ta la ns di fo ho pe ec pr no ct us ac ot il tr ly nc et ut ss so "
    "rs un lo wa ge ie wh ee wi em ad ol rt po we na ul ni ts mo ow pa im mi ai sh ir su id os iv ia am fi ci vi pl "
    "ig tu ev ld ry mp fe bl ab gh ty op wo sa ay ex ke ui fr oo ag if ap ck sp do ke lu ep rm gr bo ga qu ff mm ru "
    "tt ba fa bi av ue sc cl da ef up va um rd tc br ow ht rn cr ob dd dr sk eq nu pt ok od gu ub ua cu dl lt rk kn "
    "je by ys my ey ks lf cc nn rr gp cp kv mb gb ln lm hf bf fp tp dp"
)
_COMMON = frozenset(_BIGRAMS.split())
_PIECE = re.compile(r"[A-Za-z0-9]+")
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
DIGEST_LENGTHS = frozenset({32, 40, 56, 64, 96, 128})


def strangeness(text: str) -> float:
    """Share of neighbouring characters that no word, number or CamelCase name would put side by side.

    About 0.2 for English, 0.35 for run ids, 0.8 for random letters and digits; 0 without any pair.
    """
    pairs = strange = 0
    for piece in _PIECE.findall(text):
        for a, b in itertools.pairwise(piece):
            pairs += 1
            if a.isdigit() and b.isdigit():
                continue
            natural = a.isalpha() and b.isalpha() and (b.islower() or a.isupper())
            strange += not natural or (a + b).lower() not in _COMMON
    return strange / pairs if pairs else 0.0


def classes(text: str) -> int:
    """How many of lower case, upper case and digits occur."""
    return any(map(str.islower, text)) + any(map(str.isupper, text)) + any(map(str.isdigit, text))


def is_hex(text: str) -> bool:
    """Whether it is hexadecimal of one case."""
    return _HEX.fullmatch(text) is not None


def random_piece(piece: str) -> bool:
    """Whether a run of letters and digits, without any mark, looks generated; a digest does not count."""
    if len(piece) < 16 or piece.isdigit() or len(set(piece.lower())) < 8:
        return False
    if is_hex(piece):
        return len(piece) >= 20 and len(piece) not in DIGEST_LENGTHS and classes(piece) == 2
    if classes(piece) == 1:
        return len(piece) >= 20 and strangeness(piece) >= 0.7
    return strangeness(piece) >= (0.55 if len(piece) >= 20 else 0.65)


def random_token(token: str) -> bool:
    """Whether a token of letters, digits and ``+/=_-`` looks generated: a piece of it, or all of it."""
    if any(random_piece(piece) for piece in _PIECE.findall(token)):
        return True
    core = "".join(_PIECE.findall(token))
    return len(core) >= 24 and classes(core) == 3 and len(set(core)) >= 14 and strangeness(token) >= 0.62


def guessable(value: str) -> bool:
    """Whether a short value reads as a word, a number or a setting, and not as a secret."""
    if len(value) < 6 or classes(value) < 2 or not any(map(str.isalpha, value)):
        return True
    if re.fullmatch(r"[-+v]?[0-9][0-9.,_]*(?:[eE][-+]?[0-9]+)?[A-Za-z%]{0,6}", value):
        return True  # 1.4e9, 20s, v2.13.0, 512MiB
    return strangeness(value) < 0.35 and not (value[-1:].isdigit() and len(value) >= 12)
