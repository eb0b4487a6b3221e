"""Hostile files at the door: `scripts/fuzz.py` in small, and what must hold for any list of mutations."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import factories
import pytest
from hostile import Case, Mutation, honest
from hostile_form import BROKEN
from hostile_physics import CLOSE
from hypothesis import given, settings
from hypothesis import strategies as st
from mangle import BYTES, made, mangled

from ffsim import combine, guard, listing, verdicts
from ffsim.contest import Contest
from ffsim.errors import FfsimError
from ffsim.guard import Source
from ffsim.identity import Index
from ffsim.project import Project

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

import fuzz

PARTS, RECORDS = 4, 125
NUMBERS = st.integers(0, 10**6)


def mutations(*kinds: str) -> st.SearchStrategy[list[Mutation]]:
    """Lists of mutations; those of megabytes are left to the script."""
    return st.lists(
        st.builds(Mutation, st.sampled_from([k for k in kinds if k != "junk"]), NUMBERS, NUMBERS), max_size=4
    )


ANY = st.builds(
    lambda number, close, broken: Case("mini", number, (*close, *broken)),
    NUMBERS,
    mutations(*CLOSE),
    mutations(*BROKEN, *BYTES),
)
CONSISTENT = st.builds(lambda number, close: Case("mini", number, tuple(close)), NUMBERS, mutations(*CLOSE))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(factories.write_project(tmp_path_factory.mktemp("fuzz") / "project"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fuzz.template(tmp_path_factory.mktemp("template") / "project")


@pytest.mark.parametrize("part", range(PARTS))
def test_no_record_crashes_the_door_slips_in_or_changes_what_refuses_it(source: Path, part: int) -> None:
    counts, faults, _ = fuzz.run_part(source, 1, part * RECORDS, RECORDS, 63)
    assert faults == []
    assert counts["records"] == RECORDS
    # The deep layers are reached, not only the first ones.
    assert counts["models asked"] >= RECORDS // 5
    assert counts["stored"] > 0


@settings(max_examples=30)
@given(case=ANY)
def test_a_record_is_accepted_or_refused_and_never_both(scratch: Project, mini: Contest, case: Case) -> None:
    verdict = guard.judge(scratch, [Source("a.json", made(case, mini))], Index(), refuse_official=True)
    assert len(verdict.runs) + bool(verdict.violations) == 1
    for violation in verdict.violations:
        assert violation.line().isprintable()


@settings(max_examples=30)
@given(case=CONSISTENT)
def test_an_accepted_record_reads_back_equal(scratch: Project, mini: Contest, case: Case) -> None:
    verdict = guard.judge(scratch, [Source("a.json", made(case, mini))], Index())
    for run in verdict.runs:
        again = guard.parse(Source("a.json", fuzz.written(run)))
        assert again == run
        assert guard.normal(again, mini) == run
        assert fuzz.written(guard.normal(again, mini)) == fuzz.written(run)


@given(case=ANY)
def test_normal_is_a_normal_form(mini: Contest, case: Case) -> None:
    try:
        once = guard.normal(guard.parse(Source("a.json", made(case, mini))), mini)
    except FfsimError:
        return
    assert guard.normal(once, mini) == once


@given(changes=mutations(*BROKEN, *BYTES))
def test_hostile_verdicts_are_refused_in_words(mini: Contest, changes: list[Mutation]) -> None:
    check = {"rule": "speed", "outcome": "found", "value": 1.5, "limit": 4.0, "message": "", "fix": ""}
    event = {"what": "entered", "at_utc": "2026-11-01T10:00:00Z", "by": "guard", "checks": [check]}
    name = verdicts.name_of("mini", "a")
    blob = mangled({"format": verdicts.FORMAT, "contest": "mini", "run_id": "a", "events": [event]}, changes, mini)
    try:
        read = verdicts.read(blob, name)
    except FfsimError:
        return
    assert verdicts.read(verdicts.text(read), name) == read


@given(changes=mutations(*BROKEN, *BYTES))
def test_hostile_listings_are_refused_in_words_and_merge_with_anything(mini: Contest, changes: list[Mutation]) -> None:
    ours = {f"runs/mini/r{i}.json": f"{i:032x}" for i in range(5)}
    blob = mangled([{"md5": md5, "relpath": path} for path, md5 in ours.items()], changes, mini)
    try:
        theirs = listing.parse(blob, "x.dir")
        assert listing.parse(listing.dump(theirs)[0], "x.dir") == theirs
        merged = combine.listings({}, ours, theirs)
    except FfsimError:
        return
    assert set(merged) == {*ours, *theirs}


@given(changes=mutations(*BROKEN, *BYTES))
def test_a_hostile_pointer_is_refused_in_words(mini: Contest, changes: list[Mutation]) -> None:
    text = listing.pointer_text("0" * 32 + ".dir", 5, 1)
    blob = mangled({"outs": [{"md5": "0" * 32 + ".dir", "size": 5, "nfiles": 1, "path": "data"}]}, changes, mini)
    for hostile in (blob.decode(errors="replace"), text + blob.decode(errors="replace")):
        try:
            found = listing.directory_md5(hostile)
            assert found is None or re.fullmatch(r"[0-9a-f]{32}\.dir", found)
        except FfsimError as error:
            assert str(error).isprintable()


@settings(max_examples=10)
@given(number=NUMBERS)
def test_what_the_mutations_start_from_is_valid(scratch: Project, mini: Contest, number: int) -> None:
    run = honest(mini, number, f"run-{number}")
    assert guard.judge(scratch, [Source("a.json", json.dumps(run).encode())], Index()).violations == []
