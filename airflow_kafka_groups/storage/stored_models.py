"""Frozen dataclasses and named tuples as JSON: one writer and one reader of their fields, by name and type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from airflow_kafka_groups.storage.paths import parse_time

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


def read_model(model: type[M], data: Mapping[str, Any]) -> M:
    """Read a model. Fields that it does not know are ignored, and missing ones have their default.

    A number is a count, and a time has a zone. Raises ``KeyError`` for a missing field, and ``TypeError``,
    ``ValueError`` or ``AttributeError`` that names the field and what it is.
    """
    kind: Any = model  # mypy takes no class for hashable
    kinds = _fields(kind)
    read = [name for name, (_, is_required) in kinds.items() if is_required or name in data]
    return model(**{name: _read(name, kinds[name][0], data[name]) for name in read})


@cache
def _fields(model: Any) -> Mapping[str, tuple[Any, bool]]:
    hints = get_type_hints(model)
    known = fields(model) if is_dataclass(model) else ()
    optional = {each.name for each in known if (each.default, each.default_factory) != (MISSING, MISSING)}
    return {name: (kind, name not in optional) for name, kind in hints.items()}


def _read(name: str, kind: Any, value: Any) -> Any:
    if get_origin(kind) is UnionType:  # with None
        return None if value is None else _read(name, get_args(kind)[0], value)
    if kind is datetime:
        return parse_time(value)
    if get_origin(kind) is tuple:
        return tuple(_read(name, get_args(kind)[0], each) for each in value)
    if get_origin(kind) is Mapping:
        each = get_args(kind)[1]
        return dict(value) if each is Any else {str(key): _read(name, each, one) for key, one in value.items()}
    if kind not in _WHAT:
        return read_model(kind, value)
    if type(value) is not kind or (kind is int and value < 0):
        raise TypeError(f"{name} is {value!r}, not {_WHAT[kind]}")
    return value


_WHAT = {str: "a string", bool: "true or false", int: "a count"}
