"""YAML as plain data: no tags, no aliases, no duplicate keys.

PyYAML's safe loader lets the last of two equal keys win and expands aliases without limit; a recipe
that says ``lr`` twice is a mistake, and a nest of aliases is an attack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from ffsim.errors import FfsimError

# libyaml's loader is about five times faster and just as safe; wheels of every platform carry it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Strict(_Base):  # type: ignore[misc]
    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise yaml.YAMLError(f"the key {key!r} stands twice (line {node.start_mark.line + 1})")
        result: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return result


def load_file(path: Path, error: type[FfsimError]) -> Any:
    """Read one YAML file as plain values.

    Parameters
    ----------
    path
        The file.
    error
        The class to raise, one of `ffsim.errors`.

    Raises
    ------
    FfsimError
        Of the given class, in one line that names the file and the place.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Base)):
            raise yaml.YAMLError("aliases (*name) are not allowed; write the value out")
        return yaml.load(text, Loader=_Strict)  # noqa: S506  (a subclass of the safe loader)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror}); check the path") from None
    except UnicodeError:
        raise error(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except RecursionError:
        raise error(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise error(f"{path}: not plain YAML: {' '.join(str(problem).split())[:200]}") from None


def dump(value: Any) -> str:
    """YAML text in the order of the keys."""
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100))
