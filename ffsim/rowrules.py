"""Row rules of the contracts: small expressions over columns, parsed and never evaluated as Python.

``pandas.eval`` runs code, so a contract's expression is parsed with `ast` and only comparisons,
arithmetic, boolean operators, column names and constants are walked. Nulls follow three-valued
logic: a rule that cannot be decided because an operand is null is neither kept nor broken.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import pandas as pd

from ffsim.errors import SchemaError

EACH = "_each_"  # stands for the text or phase of a rule that is repeated

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class Expression:
    """A parsed row rule.

    Parameters
    ----------
    text
        E.g. ``0 < a.b - c / 2 <= 1 or status in ('crashed', 'cut_off')``.

    Raises
    ------
    SchemaError
        If it is not an expression, or uses anything beyond the closed vocabulary.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise SchemaError(f"row rule {text[:80]!r} is not an expression") from None
        self.columns = frozenset(_columns(self._tree, text))

    def evaluate(self, frame: pd.DataFrame, each: str = "") -> pd.Series:
        """True, False or null for every row of a frame with nullable columns, shape (n_rows,)."""
        result = self._value(self._tree, frame, each)
        if not isinstance(result, pd.Series):
            result = pd.Series(result, index=frame.index)
        return result.astype("boolean")

    def _value(self, node: ast.expr, frame: pd.DataFrame, each: str) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name | ast.Attribute):
            return frame[_dotted(node).replace(EACH, each)]
        if isinstance(node, ast.BinOp):
            return _ARITHMETIC[type(node.op)](self._value(node.left, frame, each), self._value(node.right, frame, each))
        if isinstance(node, ast.UnaryOp):
            inner = self._value(node.operand, frame, each)
            return ~inner.astype("boolean") if isinstance(node.op, ast.Not) else -inner
        if isinstance(node, ast.BoolOp):
            parts = [self._value(part, frame, each).astype("boolean") for part in node.values]
            result = parts[0]
            for part in parts[1:]:
                result = result & part if isinstance(node.op, ast.And) else result | part
            return result
        assert isinstance(node, ast.Compare)  # noqa: S101  (the constructor let nothing else through)
        return self._compare(node, frame, each)

    def _compare(self, node: ast.Compare, frame: pd.DataFrame, each: str) -> Any:
        result: Any = None
        left = self._value(node.left, frame, each)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                values = [element.value for element in right_node.elts]  # type: ignore[attr-defined]
                part = left.isin(values).astype("boolean").mask(left.isna())
                part = ~part if isinstance(op, ast.NotIn) else part
                right = left
            else:
                right = self._value(right_node, frame, each)
                part = _COMPARE[type(op)](left, right)
            part = part.astype("boolean") if isinstance(part, pd.Series) else part
            result = part if result is None else result & part
            left = right
        return result


def _columns(node: ast.expr, text: str) -> set[str]:
    """The column names below a node, having made sure that nothing else is in it."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float | str):
        return set()
    if isinstance(node, ast.Name | ast.Attribute):
        return {_dotted(node)}
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        return _columns(node.left, text) | _columns(node.right, text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        return _columns(node.operand, text)
    if isinstance(node, ast.BoolOp) and not any(isinstance(part, ast.Constant) for part in node.values):
        return set().union(*(_columns(part, text) for part in node.values))
    if isinstance(node, ast.Compare):
        found = _columns(node.left, text)
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.In | ast.NotIn):
                if not isinstance(right, ast.Tuple | ast.List) or not all(
                    isinstance(element, ast.Constant) for element in right.elts
                ):
                    raise SchemaError(f"row rule {text[:80]!r}: `in` takes a list of constants")
            elif type(op) in _COMPARE:
                found |= _columns(right, text)
            else:
                raise SchemaError(f"row rule {text[:80]!r}: {type(op).__name__} is not allowed")
        return found
    raise SchemaError(
        f"row rule {text[:80]!r}: {type(node).__name__} is not allowed; only comparisons, arithmetic, "
        "and/or/not, column names and constants are"
    )


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    raise SchemaError(f"{type(node).__name__} is not allowed in a column name")
