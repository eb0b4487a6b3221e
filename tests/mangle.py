"""Hostile files: the bytes of a mutated record or of any other document, mutated again."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import yaml
from hostile import FILES, NOT_THERE, Case, Mutation, honest
from hostile_form import BROKEN, RARE, secret_of
from hostile_physics import CLOSE

from ffsim.contest import Contest

SPELLINGS = [
    "NaN", "-NaN", "Infinity", "-Infinity", "1e400", "-1e400", "nan", "inf", "1e-400", "0x1F", "01", "+1", ".5",
    "5.", "1_0", "1e5", "1E+05",
    "-0", "1" * 400, "1" * 5000, "0." + "3" * 3000, "True", "None", "undefined", "\uff11", "'a'", "", "null",
    '"\\ud800"', '"\\udc00x"', '"\\u0000"', '"\\u001b[1m"',
    '"\x01"', '"\\x41"', "/*c*/1", "1//c", "[", "{", '{"a":1,"a":2}', "1e999999999", "1" + "0" * 310,
]  # fmt: skip


def _spelling(blob: bytes, m: Mutation) -> bytes:
    """A value in the text spelt as no JSON number is."""
    found = list(re.finditer(rb"(?<=: )(-?[0-9][0-9.e+-]*|\"[^\"]*\"|null|true)(?=[,}\]])", blob))
    if not found:
        return blob + SPELLINGS[m.what % len(SPELLINGS)].encode()
    match = found[m.where % len(found)]
    return blob[: match.start()] + SPELLINGS[m.what % len(SPELLINGS)].encode() + blob[match.end() :]


def _random_bytes(m: Mutation) -> bytes:
    return random.Random(m.what).randbytes(m.where % 5000)


def _put(blob: bytes, m: Mutation) -> bytes:
    pieces = (
        b"\0",
        b"\xff",
        b"\x1b[31m",
        b"\xc3",
        b"\xed\xa0\x80",
        b",",
        b'"',
        b"\\",
        b"}",
        b"\n",
        b"\xe2\x80\xae",
        b"\xc2\x9b",
        b"//",
        b"\xf0\x9f\x98\x80",
    )
    at = m.where % (len(blob) + 1)
    return blob[:at] + pieces[m.what % len(pieces)] + blob[at:]


def _flip(blob: bytes, m: Mutation) -> bytes:
    at = m.where % max(1, len(blob))
    return blob[:at] + bytes([(blob[at] if blob else 0) ^ 1 << m.what % 8]) + blob[at + 1 :]


def _twice(blob: bytes, m: Mutation) -> bytes:
    """A key that stands twice."""
    keys = (b"seed", b"run_id", b"contest", b"kind", b"consent", b"format")
    return b'{"' + keys[m.what % len(keys)] + b'": 1, ' + blob[1:]


def _values(blob: bytes) -> Any:
    try:
        return json.loads(blob)
    except ValueError:
        return {"a": blob.decode(errors="replace")}


def _yaml(blob: bytes, _: Mutation) -> bytes:
    return yaml.safe_dump(_values(blob)).encode()


def _pickle(blob: bytes, _: Mutation) -> bytes:
    return pickle.dumps(_values(blob))


BYTES: dict[str, Callable[[bytes, Mutation], bytes]] = {
    "spelling": _spelling,
    "cut": lambda b, m: b[: m.where % (len(b) + 1)],
    "flip": _flip,
    "put": _put,
    "twice": _twice,
    "random": lambda _, m: _random_bytes(m),
    "bom": lambda b, m: b"\xef\xbb\xbf" + b,
    "utf16": lambda b, m: b.decode(errors="replace").encode(("utf-16", "utf-16-le", "utf-32", "utf-7")[m.what % 4],
    errors="replace"),
    "latin1": lambda b, m: b.replace(b"Test", b"T\xe9st"),
    "yaml": _yaml,
    "pickle": _pickle,
    "empty": lambda b, m: (b"", b" ", b"\n", b"null", b"0", b'""', b"[]", b"{}", b"\0", b"true")[m.what % 10],
    "list": lambda b, m: b"[" + b + b"]" if m.what % 2 else b + b"\n" + b,
    "tail": lambda b, m: b + (b"x", b"}", b",", b"\0", b"\n\n", b"#c", b"\x1a")[m.what % 7],
    "brackets": lambda b, m: (b"[", b"{", b'{"a":', b"[[", b'["a",')[m.what % 5] * (m.where % 200_000),
    "single": lambda b, m: b.replace(b'"', b"'"),
    "crlf": lambda b, m: b.replace(b", ", b",\r\n"),
}  # fmt: skip
KINDS_OF = (*CLOSE, *BROKEN, *BYTES)


def drawn(seed: int, number: int) -> Case:
    """The case of a number: a third of them consistent, a third broken in one place, a third in any way."""
    rng = random.Random(f"{seed}/{number}")
    share = rng.random()

    def some(kinds: Sequence[str], n: int) -> list[Mutation]:
        weights = [RARE.get(kind, 1.0) for kind in kinds]
        return [Mutation(kind, rng.randrange(10**6), rng.randrange(10**6)) for kind in rng.choices(kinds, weights, k=n)]

    mutations = some([*CLOSE], rng.choice((0, 1, 1, 2, 3)))
    if share > 0.45:
        mutations += some([*BROKEN], rng.choice((1, 1, 1, 2, 4)))
    if share > 0.8:
        mutations = [] if rng.random() < 0.5 else mutations
        mutations += some([*BYTES], rng.choice((1, 1, 2)))
    name = rng.randrange(len(FILES)) if rng.random() < 0.3 else 0
    return Case(rng.choice(("mini", "mini", "laptop")), number, tuple(mutations), name)


def made(case: Case, contest: Contest) -> bytes:
    """The bytes of a case's record."""
    run = honest(contest, 1000 + case.number, f"new-{case.number}")
    blob: bytes | None = None
    for mutation in case.mutations:
        if mutation.kind in BYTES:
            blob = _mangled(_dumped(run) if blob is None else blob, mutation)
        elif blob is None:
            # A consistent change of a record that another one has broken is none.
            with contextlib.suppress(*NOT_THERE):
                {**CLOSE, **BROKEN}[mutation.kind](run, mutation, contest)
    return _dumped(run) if blob is None else blob


def _mangled(blob: bytes, mutation: Mutation) -> bytes:
    try:
        return BYTES[mutation.kind](blob, mutation)
    except RecursionError:  # the writers of YAML and pickle
        return blob


def _dumped(run: Any) -> bytes:
    try:
        return json.dumps(run, ensure_ascii=False).encode(errors="surrogatepass")
    except RecursionError:  # nested deeper than this writer goes: the text of it, which no reader may fall over either
        return b"[" * 5000 + b"]" * 5000


def secrets_of(case: Case, blob: bytes) -> list[str]:
    """What was planted in a record and is still whole in it."""
    found = [secret_of(m) for m in case.mutations if m.kind == "secret"]
    return [secret for secret in found if secret.encode() in blob]


def mangled(valid: Any, mutations: Sequence[Mutation], contest: Contest, *, as_yaml: bool = False) -> bytes:
    """The bytes of a valid document after mutations; a list is mutated below its first key."""
    document = json.loads(json.dumps(valid if isinstance(valid, dict) else {"entries": valid}))
    for mutation in mutations:
        if mutation.kind in BROKEN:
            with contextlib.suppress(*NOT_THERE):
                BROKEN[mutation.kind](document, mutation, contest)
    value = document if isinstance(valid, dict) else document.get("entries", document)
    blob = _dumped(value)
    if as_yaml:
        with contextlib.suppress(Exception):  # what cannot be written as YAML stays JSON, which is YAML too
            blob = yaml.safe_dump(value, allow_unicode=True).encode()
    for mutation in mutations:
        if mutation.kind in BYTES:
            blob = _mangled(blob, mutation)
    return blob
