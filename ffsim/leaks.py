"""Secrets and personal data in records that will be public: found, refused, never repeated.

A refusal that prints what it found would publish it in the log of whoever checks the record. So a
`Leak` holds the kind and the place and not the value, and `hide` takes the value out of what other
rules say of the same record. The patterns stand in `leakrules`; known forms of tokens come from
detect-secrets, whose checks against the network are never called.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

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
    ("gitlab_token", "GitLabTokenDetector"), ("jwt", "JwtTokenDetector"), ("mailchimp", "MailchimpDetector"),
    ("npm", "NpmDetector"), ("openai", "OpenAIDetector"), ("private_key", "PrivateKeyDetector"),
    ("pypi_token", "PypiTokenDetector"), ("sendgrid", "SendGridDetector"), ("slack", "SlackDetector"),
    ("softlayer", "SoftlayerDetector"), ("square_oauth", "SquareOAuthDetector"), ("stripe", "StripeDetector"),
    ("telegram_token", "TelegramBotTokenDetector"), ("twilio", "TwilioKeyDetector"),
)  # fmt: skip
_WORTH_ASKING = re.compile(r"[\w+/=.:-]{16}|KEY")
# Letters of other alphabets that look like Latin ones; NFKC leaves them as they are.
_LOOK_ALIKES = dict(
    zip(
        "абвгԁеһіјкӏмոорԛѕтυνԝхуАВЕКМНОРСТХУІЅΑΒΕΖΗΙΚΜΝΟΡΤΥΧοас",
        "a6brdehijklmnopqstuvwxyABEKMHOPCTXYISABEZHIKMNOPTYXoac",
        strict=False,
    )
)


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
    for path, what, text in _texts("", document):
        if hashes and path in hashes and re.fullmatch(hashes[path], text):
            continue
        kinds = dict.fromkeys(leak.kind for leak in find(text))
        found += [Violation(label, path, "", RULE, f"{what}holds what looks like {kind}", FIX) for kind in kinds]
    return found


def hide(violations: Iterable[Violation], texts: Sequence[str]) -> list[Violation]:
    """Violations with everything replaced that repeats a leak of the record they are about.

    Parameters
    ----------
    violations
        Of one record.
    texts
        Its texts and keys (`texts_of`), or the whole of a file that could not be parsed.
    """
    pieces: set[str] = set()
    kind = ""
    for text in texts:
        for leak in find(text):
            kind = kind or leak.kind
            secret = text[leak.start : leak.end]
            pieces |= {secret[i : i + _PIECE] for i in range(max(1, len(secret) - _PIECE + 1))}
    if not kind:
        return list(violations)
    return [_hidden(violation, kind, pieces) for violation in violations]


def texts_of(document: Mapping[str, Any]) -> list[str]:
    """Every text and key of a record, for `hide`."""
    return [text for _, _, text in _texts("", document)]


def _hidden(violation: Violation, kind: str, pieces: set[str]) -> Violation:
    # A value may be cut in the middle of a secret: in a record that leaks, no foreign value is shown.
    value = f"(not shown: the record holds what looks like {kind})" if violation.value else ""
    field, message, fix = (
        "(not shown)" if find(text) or any(piece in text for piece in pieces) else text
        for text in (violation.field, violation.message, violation.fix)
    )
    if violation.rule == RULE:
        message, fix = violation.message, violation.fix
    return dataclasses.replace(violation, field=field, value=value, message=message, fix=fix)


def _texts(path: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """(dotted path to show, what it is, text) of every text and key, at any depth."""
    stack: list[tuple[str, Any]] = [(path, value)]
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


_NAMES_A_SECRET = re.compile("pass|pwd|secret|token|key|auth|cred|bearer|user|login|host|addr|node|account", re.I)


@functools.lru_cache(maxsize=16_384)
def _find_short(text: str) -> tuple[Leak, ...]:
    return tuple(_find(text))


def _find(text: str) -> list[Leak]:
    if len(text) < 5:
        return []
    spans: list[Leak] = []
    for view, places in _views(text):
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
    from ffsim import leakrules

    for rule in leakrules.RULES:
        for match in rule.pattern.finditer(window):
            if match.end() > match.start() and rule.decide(match):
                yield rule.kind, match.start(), match.end()
    if _WORTH_ASKING.search(window):
        for kind, detector in _library():
            for secret in detector.analyze_string(window):
                start = window.find(secret)
                if secret and start >= 0:
                    yield kind, start, start + len(secret)


@functools.cache
def _library() -> list[tuple[str, Any]]:
    """The detectors of detect-secrets; only their patterns are used, nothing is verified over the network."""
    import importlib

    kinds = {"private_key": "a private key", "aws": "an AWS access key", "jwt": "a signed token (JWT)"}
    return [
        (
            kinds.get(module, "an access token"),
            getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)(),
        )
        for module, name in _LIBRARY
    ]


def _views(text: str) -> Iterator[tuple[str, list[int] | None]]:
    """The text as it is meant to be read, with each character's place in the original (None: the same)."""
    plain, places = text, None
    if not text.isascii():
        chars: list[str] = []
        places = []
        for index, char in enumerate(text):
            if unicodedata.category(char) not in {"Cf", "Mn"}:
                simple = unicodedata.normalize("NFKC", _LOOK_ALIKES.get(char, char))
                chars.append(simple)
                places += [index] * len(simple)
        plain = "".join(chars)
    yield plain, places
    if _ENCODED.search(plain):
        chars, end = [], 0
        kept: list[int] = []
        for match in _ENCODED.finditer(plain):
            chars.append(plain[end : match.start()])
            kept += range(end, match.start())
            char = chr(int(match[1], 16)) if match[1] else html.unescape(match[0])
            chars.append(char)
            kept += [match.start()] * len(char)
            end = match.end()
        chars.append(plain[end:])
        kept += range(end, len(plain))
        yield "".join(chars), kept if places is None else [places[index] for index in kept]


_ENCODED = re.compile(r"%([2-7][0-9A-Fa-f])|&#?[A-Za-z0-9]{1,8};")
