"""Everything else that comes to the door: hostile verdicts, uploads, recipes, listings, pointers and amendments."""

from __future__ import annotations

import functools
import hashlib
import os
import random
from collections.abc import Callable
from typing import Any

import factories
import yaml
from door import Door, line_of
from hostile import TEXTS, Mutation, honest, places
from hostile_form import BROKEN, KEYS, RARE
from mangle import BYTES, SPELLINGS, mangled

from ffsim import arrivals, combine, listing, verdicts
from ffsim.errors import FfsimError


def others(door: Door, seed: int, number: int) -> None:
    """A hostile verdict, upload, recipe, listing and data.dvc."""
    rng = random.Random(f"{seed}/others/{number}")
    objects = combine.Objects(door.project)
    after = dict(door.entries)
    made_of: list[Any] = []
    for kind, valid, path in _valid(door):
        mutations = [
            Mutation(k, rng.randrange(10**6), rng.randrange(10**6))
            for k in rng.choices(
                [*BROKEN, *BYTES], [RARE.get(k, 1.0) for k in (*BROKEN, *BYTES)], k=rng.choice((1, 1, 2))
            )
        ]
        blob = mangled(valid, mutations, door.contests["mini"], as_yaml=kind == "recipes")
        what = f"{kind} {mutations}"
        door.counts["others"] += 1
        if kind == "verdicts":
            _attempt(door, functools.partial(verdicts.read, blob, path), what)
        if kind == "listing":
            found = _attempt(door, functools.partial(listing.parse, blob, "x.dir"), what)
            if found is not None:
                _attempt(door, functools.partial(combine.listings, door.entries, found, door.entries), what)
        elif kind == "pointer":
            _pointer(door, blob, number, what)
        else:
            md5 = hashlib.md5(blob).hexdigest()
            objects.made[md5] = blob
            after[path] = md5
            made_of.append(what)
    after[f"runs/mini/{TEXTS[rng.randrange(len(TEXTS))].replace('/', '_')}.json"] = next(iter(objects.made))
    lines = _attempt(door, lambda: arrivals.problems(door.project, door.entries, after, objects), f"{made_of}")
    for line in lines or []:
        if not line.isprintable():
            door.counts["unprintable messages"] += 1


def amend(door: Door, seed: int, number: int) -> None:
    """Hostile arguments of `ffsim amend`."""
    rng = random.Random(f"{seed}/amend/{number}")
    run = honest(door.contests["mini"], 3, "kept-mini-3", "tester")
    paths = [".".join(map(str, path)) for path in places(run)]
    hostile = (
        "",
        ".",
        "..",
        "a.b",
        "knobs",
        "recipe",
        "--set",
        "\udcff",
        "knobs.",
        ".knobs",
        "curves.loss.0",
        *KEYS,
    )
    values = (*SPELLINGS, *TEXTS, "{}", "[]", "5", '"width"', "null", '{"width": 16}', "[1]", "0.5", "[[1,2,3]]")
    sets = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        path = rng.choice(paths) if rng.random() < 0.8 else rng.choice(hostile)
        sets += ["--set", f"{path}={rng.choice(values)}" if rng.random() < 0.95 else path]
    target = rng.choice(("kept-mini-3", "kept-mini-5", "kept-mini", "--force", "\x1b[1m", "kept-laptop-2"))
    who = rng.choice(("tester", "stranger", "\x1b[1m", "", "-"))
    given = ["amend", target, *sets, "--by", who, "--why", rng.choice(("a reason", "a reason", *TEXTS)), "--json"]
    what = f"{given}"
    door.counts["others"] += 1
    before = door.state()
    code, text = door.call(given, what)
    if code == 0:
        door.whole(what, [])
        door.reset()
    elif before != door.state():
        door.fault("partial", "changed after a refused amend", what)
        door.reset()
    if text:
        door.answer(text, what)


def _attempt(door: Door, action: Callable[[], Any], what: str) -> Any:
    """Call a reader on hostile bytes: its value, or None where it refused."""
    try:
        return action()
    except FfsimError as error:
        if not str(error).isprintable():
            door.counts["unprintable messages"] += 1
        return None
    except Exception as error:
        door.fault("traceback", f"{type(error).__name__}: {error!s:.200} at {line_of(error)}", what)
        return None


def _valid(door: Door) -> list[tuple[str, Any, str]]:
    """(kind, a valid document, its path) of all that a branch may bring besides runs."""
    run = honest(door.contests["mini"], 3, "kept-mini-3", "tester")
    check = {"rule": "speed", "outcome": "found", "value": 1.5, "limit": 4.0, "message": "m", "fix": "f"}
    event = {"what": "entered", "at_utc": "2026-11-01T10:00:00Z", "by": "guard", "checks": [check]}
    event |= {"why": "", "successor": None}
    verdict = {"format": "ffsim-verdict/1", "contest": "mini", "run_id": "kept-mini-3", "events": [event, event]}
    upload = factories.upload(door.contests["mini"], "other", run, 2.7)
    entries = [{"md5": md5, "relpath": path} for path, md5 in list(door.entries.items())[:30]]
    pointer = yaml.safe_load((door.project.root / "data.dvc").read_text())
    return [
        ("verdicts", verdict, "verdicts/mini/kept-mini-3.json"),
        ("uploads", upload, "uploads/mini/other.json"),
        (
            "recipes",
            {"contest": "mini", "name": "new", "notes": "n", "knobs": {"lr": 0.01}},
            "recipes/mini/new.yaml",
        ),
        ("listing", entries, ""),
        ("pointer", pointer, ""),
    ]


def _pointer(door: Door, blob: bytes, number: int, what: str) -> None:
    """Commands on a hostile data.dvc."""
    path = door.project.root / "data.dvc"
    before, about = path.read_bytes(), path.stat()
    text = blob.decode(errors="replace")
    _attempt(door, lambda: listing.directory_md5(text), what)
    file = factories.write(door.inbox / "p.json", honest(door.contests["mini"], 5000, "p"))
    try:
        path.write_bytes(blob)
        door.call(["runs"], what)
        if number % 4 == 0:
            door.call(["add-run", "--dry-run", "--json", str(file)], what)
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        file.unlink()
