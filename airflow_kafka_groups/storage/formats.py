"""The version of the stored formats, the digest (SHA-256 of canonical JSON) of content, and dataclasses as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import EnumType
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from airflow_kafka_groups.storage.paths import parse_time

FORMAT = 1
"""The version of every JSON file (manifests, plans, backups, journals, backlogs) and of the rows it vouches for."""

TABLE_FORMAT = 1
"""The version of the columns of catalogue tables. A job refuses to write to a table of another version."""


class UnknownFormatError(ValueError):
    """A file of a version that this package does not read."""

    def __init__(self, found: object) -> None:
        super().__init__(f"it has the format {found!r}; this version reads {FORMAT}")
        self.found = found


def check_format(content: Mapping[str, Any]) -> None:
    """Raise ``UnknownFormatError`` for a file of a version that this package does not read."""
    found = content.get("format")
    if isinstance(found, bool) or found != FORMAT:
        raise UnknownFormatError(found)


def canonical_json(content: Mapping[str, Any]) -> bytes:
    """Write the same content always as the same bytes: keys sorted, no spaces, ASCII, no NaN."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_of(content: Mapping[str, Any]) -> str:
    """Return the digest of all fields except ``digest``. Raises ``TypeError`` or ``ValueError`` for what is no JSON."""
    return hashlib.sha256(canonical_json({name: content[name] for name in content if name != "digest"})).hexdigest()


M = TypeVar("M")


def plain(value: Any) -> Any:
    """Return a model, or what one has, as JSON has it."""
    if is_dataclass(value) or hasattr(value, "_fields"):
        kind: Any = type(value)
        return {name: plain(getattr(value, name)) for name in _fields(kind)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def read_model(model: type[M], data: Mapping[str, Any], *, exactly: bool = False) -> M:
    """Read a model. Fields that it does not know are ignored, and missing ones have their default.

    An integer is a count, and a time has a zone.

    :param exactly: whether it must have all fields, and no other, as must what is in it. Default false.

    Raises ``KeyError`` for a missing field, and ``TypeError``,
    ``ValueError`` or ``AttributeError`` that names the field and what it is.
    """
    kind: Any = model  # mypy takes no class for hashable
    kinds = _fields(kind)
    if exactly and (lacking := kinds.keys() - data.keys()):
        raise TypeError(f"{model.__name__} lacks {', '.join(sorted(lacking))}")
    if exactly and (unknown := data.keys() - kinds.keys()):
        raise TypeError(f"{model.__name__} has no {', '.join(sorted(unknown))}")
    read = [name for name, (_, is_required) in kinds.items() if is_required or name in data]
    return model(**{name: _read(name, kinds[name][0], data[name], exactly) for name in read})


@cache
def _fields(model: Any) -> Mapping[str, tuple[Any, bool]]:
    hints = get_type_hints(model)
    known = fields(model) if is_dataclass(model) else ()
    optional = {each.name for each in known if (each.default, each.default_factory) != (MISSING, MISSING)}
    return {name: (kind, name not in optional) for name, kind in hints.items()}


def _read(name: str, kind: Any, value: Any, exactly: bool) -> Any:
    if get_origin(kind) is UnionType:  # with None
        return None if value is None else _read(name, get_args(kind)[0], value, exactly)
    if kind is datetime:
        return parse_time(value)
    if isinstance(kind, EnumType):
        return kind(value)
    if get_origin(kind) is tuple:
        return tuple(_read(name, get_args(kind)[0], each, exactly) for each in value)
    if get_origin(kind) is Mapping:
        each = get_args(kind)[1]
        return dict(value) if each is Any else {str(key): _read(name, each, one, exactly) for key, one in value.items()}
    if kind not in _WHAT:
        return read_model(kind, value, exactly=exactly)
    if type(value) not in ((int, float) if kind is float else (kind,)) or (kind is int and value < 0):
        raise TypeError(f"{name} is {value!r}, not {_WHAT[kind]}")
    return value


_WHAT = {str: "a string", bool: "true or false", int: "a count", float: "a number"}
