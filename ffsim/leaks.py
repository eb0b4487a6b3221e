"""Secrets and personal data in records that will be public: found, refused, never repeated.

A refusal that prints what it found would publish it in the log of whoever checks the record. So a
`Leak` holds the kind and the place and not the value, and `hide` takes the value out of what other
rules say of the same record. The patterns stand in `leakrules`; known forms of tokens come from
detect-secrets, whose checks against the network are never called.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ffsim import unmask
from ffsim.errors import RecordError
from ffsim.shape import Violation

RULE = "private"
FIX = "remove it; what enters the dataset is public for good"
# Patterns see windows of this size, each beginning a quarter before the end of the last: whatever a
# pattern costs on a window, a text costs linear time, and what is shorter than a quarter is seen whole.
WINDOW = 1024
_PIECE = 5  # characters in a row that two texts share by more than chance

_LIBRARY = (
    ("artifactory", "ArtifactoryDetector"), ("aws", "AWSKeyDetector"), ("azure_storage_key", "AzureStorageKeyDetector"),
    ("cloudant", "CloudantDetector"), ("discord", "DiscordBotTokenDetector"), ("github_token", "GitHubTokenDetector"),
    ("gitlab_token", "GitLabTokenDetector"), ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"), ("openai", "OpenAIDetector"), ("private_key", "PrivateKeyDetector"),
    ("pypi_token", "PypiTokenDetector"), ("sendgrid", "SendGridDetector"), ("slack", "SlackDetector"),
    ("softlayer", "SoftlayerDetector"), ("square_oauth", "SquareOAuthDetector"), ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"), ("twilio", "TwilioKeyDetector"),
)  # fmt: skip
_KEY_BLOCK = "a private key"
# A value is read together with such a key: `{"API_KEY": "..."}` is an assignment.
_NAMES_A_SECRET = re.compile("pass|pwd|secret|token|key|auth|cred|bearer|user|login|host|addr|node|account", re.I)
_WORTH_ASKING = re.compile(r"[\w+/=.:-]{16}|KEY")


@dataclasses.dataclass(frozen=True)
class Leak:
    """What was found where; never the value.

    Parameters
    ----------
    kind
        In words, with an article: ``an e-mail address``.
    start, end
        Its place in the text, as a slice.
    """

    kind: str
    start: int
    end: int


def find(text: str) -> list[Leak]:
    """Whatever in a text looks like a secret or personal data, by place.

    Spellings that hide it are undone first: compatibility forms, invisible characters, letters of
    other alphabets, percent-encoding, HTML entities, ``name [at] host [dot] org``.

    Parameters
    ----------
    text
        Any text; the time is linear in its length.
    """
    return list(_find_short(text) if len(text) <= 200 else _find(text))


def check(label: str, document: Mapping[str, Any], hashes: Mapping[str, str] | None = None) -> list[Violation]:
    """Every text and every key of a record that holds a leak, without its value.

    Parameters
    ----------
    label
        Names the record in messages.
    document
        The record as JSON values.
    hashes
        Fields whose form the contract fixes as a hash, with the pattern (`Contract.hashes`): what fits it there is
        no leak.
    """
    found: list[Violation] = []
    for path, what, text in _texts(document):
        if hashes and path in hashes and re.fullmatch(hashes[path], text):
            continue
        kinds = dict.fromkeys(leak.kind for leak in find(text))
        found += [Violation(label, path, "", RULE, f"{what}holds what looks like {kind}", FIX) for kind in kinds]
    return found


def refuse(given: Mapping[str, str]) -> None:
    """Stop a command that would write a leak into a record, before it runs for half an hour.

    Parameters
    ----------
    given
        Texts by what the command calls them: ``--notes``.

    Raises
    ------
    RecordError
        Naming the first text that holds a leak, and not the leak.
    """
    for name, text in given.items():
        for leak in find(text):
            raise RecordError(f"{name} holds what looks like {leak.kind}; {FIX}")


def label(name: str, instead: str) -> str:
    """The name of a record for messages, or `instead` where the name itself holds a leak."""
    return instead if find(name) else name


def hide(violations: Iterable[Violation], read: Mapping[str, Any]) -> list[Violation]:
    """Violations, in their order, with everything replaced that repeats a leak of the record they are about.

    Parameters
    ----------
    violations
        Of any records.
    read
        A record's label -> its JSON value; of a file that could not be parsed, a list with its text.
    """
    given = list(violations)
    leaked = {label: _leaked(texts_of(read.get(label))) for label in {violation.record for violation in given}}
    return [_hidden(violation, leaked[violation.record]) for violation in given]


def hide_text(message: str, texts: Iterable[str]) -> str:
    """A message about texts, or words in its place if it repeats a leak that they hold."""
    leaked = _leaked(texts)
    return _not_shown(message, *leaked) if leaked else message


def texts_of(value: Any) -> list[str]:
    """Every text and key of a JSON value, for `hide`."""
    return [text for _, _, text in _texts(value)]


def _leaked(texts: Iterable[str]) -> tuple[str, set[str]] | None:
    """(kind of the first leak, the pieces of all of them); None without one."""
    kind = ""
    pieces: set[str] = set()
    for text in texts:
        for leak in find(text):
            kind = kind or leak.kind
            secret = text[leak.start : leak.end]
            pieces |= {secret[i : i + _PIECE] for i in range(max(1, len(secret) - _PIECE + 1))}
    return (kind, pieces) if kind else None


def _hidden(violation: Violation, leaked: tuple[str, set[str]] | None) -> Violation:
    if leaked is None or violation.rule == RULE:
        return violation
    return dataclasses.replace(
        violation,
        # Shown values are cut, perhaps in the middle of a secret: of a record that leaks, none is shown.
        value=f"(not shown: the record holds what looks like {leaked[0]})" if violation.value else "",
        field=_not_shown(violation.field, *leaked),
        message=_not_shown(violation.message, *leaked),
        fix=_not_shown(violation.fix, *leaked),
    )


def _not_shown(text: str, kind: str, pieces: set[str]) -> str:
    return f"(not shown: looks like {kind})" if any(piece in text for piece in pieces) or find(text) else text


def _texts(document: Any) -> Iterator[tuple[str, str, str]]:
    """(dotted path to show, what it is, text) of every text and key, at any depth."""
    stack: list[tuple[str, Any]] = [("", document)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, str):
            yield path, "", value
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                name = str(key)
                yield path, "a key ", name
                shown = "(a key)" if find(name) else name
                below = f"{path}.{shown}" if path else shown
                if isinstance(inner, str) and _NAMES_A_SECRET.search(name):
                    yield below, "", f"{name}={inner}"
                stack.append((below, inner))
        elif isinstance(value, list | tuple):
            stack += [(path, inner) for inner in value if not isinstance(inner, int | float)]


@functools.lru_cache(maxsize=16_384)
def _find_short(text: str) -> tuple[Leak, ...]:
    return tuple(_find(text))


def _find(text: str) -> list[Leak]:
    if len(text) < 5:
        return []
    spans: list[Leak] = []
    for view, places in unmask.views(text):
        for start in range(0, max(1, len(view) - WINDOW // 4), WINDOW * 3 // 4):
            for kind, first, last in _match(view[start : start + WINDOW]):
                a, b = start + first, start + last
                spans.append(Leak(kind, a, b) if places is None else Leak(kind, places[a], places[b - 1] + 1))
    found: list[Leak] = []
    for leak in sorted(spans, key=lambda leak: (leak.start, -leak.end)):
        if not found or leak.end > found[-1].end:
            found.append(leak)
    return found


def _match(window: str) -> Iterator[tuple[str, int, int]]:
    from ffsim import leakjudge, leakrules

    for rule in leakrules.RULES:
        for match in rule.pattern.finditer(window):
            if match.end() > match.start() and rule.decide(match):
                yield rule.kind, match.start(), match.end()
    if _WORTH_ASKING.search(window):
        for kind, pattern in _library():
            for match in pattern.finditer(window):
                if kind == _KEY_BLOCK or leakjudge.generated(re.sub(r"[^A-Za-z0-9]", "", match[0])):
                    yield kind, match.start(), match.end()


@functools.cache
def _library() -> list[tuple[str, re.Pattern[str]]]:
    """The patterns of detect-secrets; nothing else of it runs, and nothing is verified over the network."""
    import importlib

    kinds = {"private_key": _KEY_BLOCK, "aws": "an AWS access key"}
    return [
        (kinds.get(module, "an access token"), pattern)
        for module, name in _LIBRARY
        for pattern in getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name).denylist
    ]
