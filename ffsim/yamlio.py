"""YAML as plain data: no tags, no aliases, no duplicate keys, and numbers as JSON and people write them.

PyYAML's safe loader lets the last of two equal keys win and expands aliases without limit; a recipe
that says ``lr`` twice is a mistake, and a nest of aliases is an attack. It also follows YAML 1.1, where
``010`` is eight, ``1:30`` is ninety, ``on`` is true and ``1e-2`` is text: here a scalar is null, a boolean or
a decimal number only where it looks like one in JSON or in the YAML 1.2 core schema, and else it is text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import yaml

from ffsim.errors import FfsimError

# libyaml's loader is about five times faster and just as safe; wheels of every platform carry it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Strict(_Base):  # type: ignore[misc]
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for index, key in enumerate(keys):
            if key in keys[:index]:
                raise yaml.YAMLError(f"the key {key!r} stands twice (line {node.start_mark.line + 1})")
        result: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return result


_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (
        r"[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.inf)|\.nan",
        list("-+0123456789."),
    ),
}
for _name, (_pattern, _first) in _SCALARS.items():
    _Strict.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


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
        for event in yaml.parse(text, Loader=_Base):
            if isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not allowed; write the value out")
            if getattr(event, "tag", None) is not None:
                raise yaml.YAMLError(f"tags are not allowed ({getattr(event, 'tag', '')}); write the plain value")
        return yaml.load(text, Loader=_Strict)  # noqa: S506  (a subclass of the safe loader)
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror}); check the path") from None
    except UnicodeError:
        raise error(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except RecursionError:
        raise error(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError) as problem:
        raise error(f"{path}: not plain YAML: {' '.join(str(problem).split())[:200]}") from None


class _Dumper(yaml.SafeDumper):
    """Writes what `load_file` reads back: texts that YAML 1.1 would take for a number are quoted too."""


def dump(value: Any) -> str:
    """YAML text in the order of the keys."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


def _quoted_if_ambiguous(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = any(re.fullmatch(pattern, text) for pattern, _ in _SCALARS.values())
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if plain else None)


_Dumper.add_representer(str, _quoted_if_ambiguous)
