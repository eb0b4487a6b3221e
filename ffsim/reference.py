"""The data contracts for people and for other tools: a Markdown page, and JSON Schema.

Both are made from schemas/*.yaml, so they cannot say anything else than what the guard checks. JSON Schema
has no row rules over several fields; the page lists them.
"""

from __future__ import annotations

from typing import Any

from ffsim.contest import Contest
from ffsim.contract import Column, Contract
from ffsim.knobs import Knob

_TYPES = {"str": "string", "utc": "string", "int": "integer", "float": "number", "bool": "boolean"}


def page(contracts: list[Contract]) -> str:
    """The reference page of contracts: every column with type, range and meaning, then every rule."""
    parts = [
        "# Records",
        "",
        "Made from `schemas/` by `ffsim schema --page`. `{knob}`, `{text}` and `{phase}` stand for every name that",
        "the record's contest declares. A rule whose operands are null is not decided: the record gets the flag",
        "`unverified:<rule>`. The guard also computes hashes, host block, steps, tokens and budget again, and",
        "refuses ids and contents that the dataset has already.",
        "",
    ]
    for contract in contracts:
        parts += [f"## {contract.contract}", "", contract.about, ""]
        parts += ["| field | type | allowed | unit | meaning |", "|---|---|---|---|---|"]
        for path, column in contract.columns.items():
            kind = column.dtype + (" or null" if column.nullable else "") + (", optional" if column.optional else "")
            parts.append(f"| `{path}` | {kind} | {_allowed(column)} | {column.unit} | {column.about} |")
        parts += ["", "| rule | field | holds when | otherwise it |", "|---|---|---|---|"]
        for rule in contract.rules:
            when = f" (where `{rule.when}` is not null)" if rule.when else ""
            parts.append(f"| {rule.name} | `{rule.field}` | `{rule.expr}`{when} | {rule.message} |")
        parts.append("")
    return "\n".join(parts)


def json_schema(contract: Contract, contest: Contest) -> dict[str, Any]:
    """The contract of one contest's records as JSON Schema (draft 2020-12)."""
    root: dict[str, Any] = _object()
    columns = contract.expand(contest)
    for path, column in columns.items():
        *parents, last = path.split(".")
        place = root
        for i, parent in enumerate(parents):
            if not column.optional or i == 0:
                _require(place, parent)
            place = place["properties"].setdefault(parent, _object())
        if not column.optional:
            _require(place, last)
        place["properties"][last] = _property(column)
    for name in list(root["properties"]):
        fields = [column for path, column in columns.items() if path.startswith(f"{name}.")]
        if fields and all(column.nullable for column in fields):
            root["properties"][name]["type"] = ["object", "null"]
            if all(column.optional for column in fields):
                root["required"].remove(name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{contract.contract} of {contest.name}",
        "description": contract.about,
        **root,
    }


def _object() -> dict[str, Any]:
    return {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


def _require(place: dict[str, Any], name: str) -> None:
    if name not in place["required"]:
        place["required"].append(name)


def _property(column: Column) -> dict[str, Any]:
    if column.knob is not None:
        return _knob(column.knob)
    about = column.about + (f" ({column.unit})" if column.unit else "")
    if column.dtype == "curve":
        point = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "number"}, {"type": "number"}]}
        return {"type": "array", "items": point, "description": about}
    if column.dtype == "compiles":
        compile_ = {
            "graph": {"type": "string"},
            "step": {"type": ["integer", "null"]},
            "phase": {"type": "string"},
            "seconds": {"type": "number", "minimum": 0},
            "source": {"type": "string"},
            "charged": {"type": "boolean"},
        }
        items = {"type": "object", "properties": compile_, "required": list(compile_), "additionalProperties": False}
        return {"type": ["array", "null"], "items": items, "description": about}
    if column.dtype == "names":
        return {"type": "array", "items": {"type": "string"}, "description": about}
    if column.dtype == "strings":
        return {"type": "object", "additionalProperties": {"type": "string"}, "description": about}
    kind: Any = _TYPES[column.dtype]
    result: dict[str, Any] = {"type": [kind, "null"] if column.nullable else kind, "description": about}
    limits = {
        "minimum": column.min,
        "maximum": column.max,
        "exclusiveMinimum": column.above,
        "maxLength": column.max_length,
        "const": column.equals,
        "format": "date-time" if column.dtype == "utc" else None,
        "pattern": None if column.pattern is None else f"^(?:{column.pattern})$",
        "enum": list(column.choices) or None,
    }
    return result | {key: value for key, value in limits.items() if value is not None}


def _knob(knob: Knob) -> dict[str, Any]:
    if knob.type == "choice":
        return {"enum": list(knob.choices), "default": knob.default, "description": knob.about}
    kind = {"int": "integer", "float": "number", "bool": "boolean"}[knob.type]
    result: dict[str, Any] = {"type": kind, "default": knob.default, "description": knob.about}
    limits = {"minimum": knob.min, "maximum": knob.max}
    if isinstance(knob.multiple_of, int):
        limits["multipleOf"] = knob.multiple_of
    return result | {key: value for key, value in limits.items() if value is not None}


def _allowed(column: Column) -> str:
    if column.dtype == "utc":
        return "`2026-11-30T18:30:00Z`"
    if column.choices:
        return ", ".join(column.choices)
    if column.equals is not None:
        return str(column.equals).lower()
    bounds = [
        f"{sign} {limit:g}"
        for sign, limit in ((">", column.above), (">=", column.min), ("<=", column.max))
        if limit is not None
    ]
    if column.pattern is not None:
        bounds.append("`" + column.pattern.replace("|", "\\|") + "`")
    if column.max_length is not None:
        bounds.append(f"at most {column.max_length} characters")
    return ", ".join(bounds)
