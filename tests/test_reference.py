"""The exported contracts say what the guard checks."""

from __future__ import annotations

from pathlib import Path

import factories
import jsonschema
import pytest

from ffsim import contract, records, reference
from ffsim.contest import Contest

ROOT = Path(__file__).parent.parent


def test_the_page_in_docs_is_the_one_the_contracts_make() -> None:
    page = reference.page([contract.load(name) for name in ("run", "upload")])
    assert (ROOT / "docs/records.md").read_text() == page, "run `ffsim schema --page > docs/records.md`"


def test_json_schema_takes_what_the_tool_writes_and_refuses_what_the_guard_refuses(laptop: Contest) -> None:
    schema = reference.json_schema(contract.load("run"), laptop)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    good = records.as_json(records.run_from(factories.run(laptop), where="x"))
    assert list(validator.iter_errors(good)) == []
    for change in (
        {"seed": -1},
        {"steps": 10.7},
        {"knobs__lr": 7.0},
        {"knobs__widht": 3},
        {"consent": False},
        {"seed": factories.DELETE},
        {"run_id": "../x"},
        {"status": "fine"},
    ):
        assert list(validator.iter_errors(factories.changed(good, change))), change


@pytest.mark.parametrize("name", ["run", "upload"])
def test_every_column_and_rule_is_on_the_page(name: str) -> None:
    loaded = contract.load(name)
    page = reference.page([loaded])
    assert all(f"| `{path}` |" in page for path in loaded.columns)
    assert all(f"| {rule.name} |" in page for rule in loaded.rules)
