"""Contracts compiled to pandera: every violation of every record at once, one line each.

pandera's own YAML round trip drops frame-level checks, so the contract is ours and small; the
engine that applies it is pandera, always lazily.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import pandera.pandas as pa

from ffsim import shape
from ffsim.contest import Contest
from ffsim.contract import Column, Contract, Rule
from ffsim.rowrules import EACH, Expression
from ffsim.shape import Violation

DTYPES: dict[str, Any] = {
    "str": pd.StringDtype(),
    "utc": pd.StringDtype(),
    "int": pd.Int64Dtype(),
    "float": pd.Float64Dtype(),
    "bool": pd.BooleanDtype(),
}


@dataclasses.dataclass(frozen=True)
class Report:
    """What a check found.

    Parameters
    ----------
    frame
        One row a record, columns by dotted path; wrong values are null in it.
    violations
        In the order of the records.
    unverified
        Record -> the names of the rules whose operands it does not carry.
    """

    frame: pd.DataFrame
    violations: list[Violation]
    unverified: dict[str, list[str]]


def check(contract: Contract, contest: Contest, documents: Iterable[tuple[str, dict[str, Any]]]) -> Report:
    """Hold records of one contest against a contract.

    Parameters
    ----------
    contract, contest
        Which contract, filled in with which contest's knobs, texts and phases.
    documents
        (label, record as JSON values); the label names the record in messages and must be unique.
    """
    columns = contract.expand(contest)
    labels: list[str] = []
    rows: list[dict[str, Any]] = []
    found: list[Violation] = []
    for label, document in documents:
        row, wrong = shape.check(label, shape.flatten(document, columns), columns)
        labels.append(label)
        rows.append(row)
        found += wrong
    frame = pd.DataFrame(
        {path: pd.Series([row[path] for row in rows], index=labels, dtype=DTYPES.get(column.dtype, object))
         for path, column in columns.items()}
    )  # fmt: skip
    if frame.empty:
        return Report(frame, found, {})
    rules = _rules(contract, contest)
    try:
        # Of a column without a value there is nothing to check, and that is a third of them.
        used = [path for path in columns if frame[path].notna().any()]
        compile_contract(contract, contest, used).validate(frame, lazy=True)
    except pa.errors.SchemaErrors as errors:
        broken = {(violation.record, violation.field) for violation in found}
        # A value of a wrong type is null in the frame: it must not be called missing as well.
        found += [
            violation
            for violation in _violations(errors.failure_cases, frame, columns, {rule.key: rule for rule in rules})
            if (violation.record, violation.field) not in broken
        ]
    rank = {label: index for index, label in enumerate(labels)}
    found.sort(key=lambda violation: rank[violation.record])
    return Report(frame, found, _unverified(frame, rules))


def compile_contract(contract: Contract, contest: Contest, used: Sequence[str] | None = None) -> pa.DataFrameSchema:
    """The contract as a pandera schema over nullable columns, all of them or those `used`."""
    columns = contract.expand(contest)
    if used is not None:
        columns = {path: columns[path] for path in used}
    frame_checks = [
        pa.Check(functools.partial(_holds, rule), name=rule.key, error=rule.key) for rule in _rules(contract, contest)
    ]
    return pa.DataFrameSchema(
        {path: pa.Column(DTYPES.get(column.dtype, object), _column_checks(column), nullable=True)
         for path, column in columns.items()},
        checks=frame_checks,
        strict=used is None,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _BoundRule:
    """A rule for one text or phase, with its parsed expression."""

    rule: Rule
    each: str
    field: str
    expression: Expression

    @property
    def key(self) -> str:
        return f"{self.rule.name}/{self.each}" if self.each else self.rule.name

    def applies(self, frame: pd.DataFrame) -> pd.Series:
        when = self.rule.when
        if when is None:
            return pd.Series(True, index=frame.index)
        return frame[when.replace(f"{{{self.rule.each}}}", self.each)].notna()


def _rules(contract: Contract, contest: Contest) -> list[_BoundRule]:
    rules = [
        _BoundRule(rule, each, field, Expression(rule.expr.replace(f"{{{rule.each}}}", EACH)))
        for rule in contract.rules
        for each, field in rule.instances(contest)
    ]
    for path, column in contract.columns.items():
        if column.required_when is not None:
            words = f"is required when {column.required_when}"
            rule = Rule(
                name=f"required:{path}",
                expr=column.required_when,
                field=path,
                message=words,
                fix=column.remedy(),
            )
            rules.append(_BoundRule(rule, "", path, Expression(column.required_when)))
    return rules


def _holds(bound: _BoundRule, frame: pd.DataFrame) -> pd.Series:
    value = bound.expression.evaluate(frame, bound.each)
    if bound.rule.name.startswith("required:"):
        return ~(value.fillna(False) & frame[bound.field].isna()).astype(bool)
    return (value.fillna(True) | ~bound.applies(frame)).astype(bool)


def _column_checks(column: Column) -> list[pa.Check]:
    checks: list[pa.Check] = []
    if column.min is not None:
        checks.append(pa.Check.ge(column.min, error="range|is too small"))
    if column.above is not None:
        checks.append(pa.Check.gt(column.above, error=f"range|must be above {column.above:g}"))
    if column.max is not None:
        checks.append(pa.Check.le(column.max, error="range|is too large"))
    if column.choices:
        checks.append(pa.Check.isin(column.choices, error="choice|is not one of the allowed values"))
    if column.equals is not None:
        checks.append(pa.Check.eq(column.equals, error=f"choice|must be {str(column.equals).lower()}"))
    if column.pattern is not None:
        # \Z and not $: a trailing newline is not part of an id.
        checks.append(pa.Check.str_matches(rf"\A(?:{column.pattern})\Z", error="form|does not have the right form"))
    if column.max_length is not None:
        checks.append(pa.Check.str_length(max_value=column.max_length, error="length|is too long"))
    if column.knob is not None:
        checks.append(pa.Check(_knob_ok(column), element_wise=True, name="knob", error="knob|"))
    return checks


def _knob_ok(column: Column) -> Callable[[Any], bool]:
    return lambda value: column.knob is None or column.knob.problem(value) is None


def _violations(
    cases: pd.DataFrame, frame: pd.DataFrame, columns: dict[str, Column], rules: dict[str, _BoundRule]
) -> list[Violation]:
    found: dict[tuple[Any, str, str], Violation] = {}
    for case in cases.to_dict("records"):
        label, check_name = case["index"], str(case["check"])
        if check_name in rules:
            bound = rules[check_name]
            field, message, fix = bound.field, bound.rule.message, bound.rule.fix
            rule_name = bound.rule.name.split(":")[0]
        else:
            field = str(case["column"])
            column = columns[field]
            rule_name, _, message = check_name.partition("|")
            fix = column.remedy()
            if column.knob is not None:
                message = str(column.knob.problem(frame.at[label, field]))
                fix = f"{column.knob.about}: {column.knob.range_text()}"
        value = frame.at[label, field]
        shown = "null" if value is None or value is pd.NA else shape.show(value)
        found.setdefault((label, field, message), Violation(str(label), field, shown, rule_name, message, fix))
    return list(found.values())


def _unverified(frame: pd.DataFrame, rules: list[_BoundRule]) -> dict[str, list[str]]:
    """Rules that a null operand left undecided, by record."""
    flags: dict[str, list[str]] = {}
    for bound in rules:
        if bound.rule.name.startswith("required:"):
            continue
        undecided = bound.expression.evaluate(frame, bound.each).isna() & bound.applies(frame)
        if bound.rule.when is None and bound.rule.each is not None:
            # A text that was not scored, a phase that did not happen: nothing to verify.
            undecided &= frame[bound.field].notna()
        for label in frame.index[undecided.to_numpy(bool)]:
            names = flags.setdefault(str(label), [])
            if bound.rule.name not in names:
                names.append(bound.rule.name)
    return flags
