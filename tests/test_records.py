"""Records survive their files; content hashes see the content only."""

from __future__ import annotations

import json
from typing import Any

import factories
import pytest

from ffsim import jsonio, records
from ffsim.contest import Contest
from ffsim.errors import RecordError


def test_a_record_is_what_a_reader_of_its_file_gets(laptop: Contest) -> None:
    run = records.run_from(factories.run(laptop), where="x")
    value = records.as_json(run)
    assert value == json.loads(jsonio.pretty(value))
    assert records.run_from(value, where="x") == run
    upload = records.upload_from(factories.upload(laptop, "u", factories.run(laptop), 2.5), where="x")
    assert records.as_json(upload)["selected_from"] == []


@pytest.mark.parametrize(
    "change", [{"surprise": 1}, {"steps": 10.7}, {"kind": "final"}, {"seed": "1"}, {"format": "x"}]
)
def test_what_is_no_record_names_the_field(laptop: Contest, change: dict[str, Any]) -> None:
    with pytest.raises(RecordError, match=r"here: not a valid run record: .*\$?"):
        records.run_from(factories.run(laptop) | change, where="here")


def test_labels_do_not_change_the_content_hash_and_numbers_do(laptop: Contest) -> None:
    run = factories.run(laptop)
    relabelled = factories.changed(
        run,
        {
            "run_id": "other",
            "contributor": "x",
            "notes": "y",
            "recipe__name": "z",
            "created_utc": "2026-01-01T00:00:00Z",
        },
    )
    assert records.content_hash(relabelled) == records.content_hash(run)
    for change in ({"seed": 2}, {"scores__public__bpb": 2.71}, {"steps": 801}, {"knobs__lr": 0.011}):
        assert records.content_hash(factories.changed(run, change)) != records.content_hash(run)


def test_times_are_written_as_the_contract_wants_them() -> None:
    import re

    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", records.utc_now())
