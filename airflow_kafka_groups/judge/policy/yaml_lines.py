"""YAML with its lines: plain values, and where in the file each of them is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from typing import Any, TypeAlias

from airflow_kafka_groups.exceptions import PolicyError
from airflow_kafka_groups.shown import one_line

Path: TypeAlias = tuple[str | int, ...]
_MOST_VALUES = 200_000
_MOST_KNOWN = 30
"""The most words that a message names: each of 2,000 rules may have a message, and each of 500 teams is a word."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as values.

    :param name: the file's name, for messages.
    :param value: dicts, lists, strings, numbers, booleans and ``None``.
    :param lines: the line of each key and item, from 1, by its path.
    """

    name: str
    value: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest one around it."""
        while path not in self.lines and path:
            path = path[:-1]
        return self.lines.get(path, 1)

    def where(self, path: Path) -> str:
        """Return the file and the line of a path, or of the nearest one around it."""
        return f"{self.name}, line {self.line(path)}"


@dataclass(slots=True)
class Problems:
    """What is wrong with a file, collected so that one look at the message is enough."""

    document: Document
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: Path, text: str) -> None:
        """Add a problem at a place."""
        self.found.append((self.document.line(path), f"{self.document.where(path)}: {shown(path)}{text}"))

    def raise_if_any(self) -> None:
        """Raise ``PolicyError`` with all problems, in the order of their lines."""
        if self.found:
            raise PolicyError(
                "\n".join(dict.fromkeys(text for _, text in sorted(self.found, key=lambda item: item[0])))
            )


def shown(path: Path) -> str:
    """Return a path as people write it, such as ``rules[2].match.groups``, and a space."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    return f"{text} " if text else ""


def did_you_mean(word: str, known: list[str]) -> str:
    """Return the nearest known word as a question, or the known ones; of many, the first."""
    near = get_close_matches(word, known, n=1)
    more = f" and {len(known) - _MOST_KNOWN:,} more" if len(known) > _MOST_KNOWN else ""
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known)[:_MOST_KNOWN])}{more}"


def read_yaml(content: bytes, name: str, needed: Sequence[str] = ()) -> Document:
    """Read a YAML file with one document.

    :param content: its bytes, UTF-8.
    :param needed: keys of which a mapping that is meant has at least one; an empty file is none. Default: any file.

    Raises ``PolicyError`` for what is no YAML, has a key twice, or has more than 200,000 values. Of what is no YAML, or
    cannot be meant, it shows the line's number only: whoever triggers a run may name any file, such as one of
    passwords.
    """
    import yaml

    lines: dict[Path, int] = {}
    try:
        loader = yaml.SafeLoader(content.decode("utf-8-sig"))
        _limit_values(loader, name)
        node = loader.get_single_node()
        if needed and node is not None and not _has_any(node, needed):
            whole = f"a mapping with the keys {' and '.join(needed)}"
            line = node.start_mark.line + 1
            raise PolicyError(f"{name}, line {line}: this is no policy, and none of it is shown: it must be {whole}")
        value = _value(loader, node, (), lines, name) if node is not None else None
    except UnicodeDecodeError as exc:
        raise PolicyError(f"{name} is not UTF-8: {exc}; save it as UTF-8") from exc
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = 1 if mark is None else mark.line + 1
        remedy = "quote special characters, and indent by spaces"
        raise PolicyError(f"{name}, line {line}: this is no YAML: {remedy}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as exc:
        raise PolicyError(f"{name}: this is no YAML: {exc}") from exc
    return Document(name, value, lines)


def _has_any(node: Any, keys: Sequence[str]) -> bool:
    pairs = node.value if node.id == "mapping" else ()
    return any(key.id == "scalar" and key.value in keys for key, _ in pairs)


def _limit_values(loader: Any, name: str) -> None:
    """Make a loader stop at the values that are too many: all of 4 MiB would take a minute, and more than 1 GiB."""
    compose, number = loader.compose_node, count(1)

    def compose_counted(parent: Any, index: Any) -> Any:
        is_key = parent is not None and index is None  # an owner file has a line for each of 120,000 groups
        if not is_key and next(number) > _MOST_VALUES:
            raise PolicyError(f"{name} has more than {_MOST_VALUES:,} values: leave some out")
        return compose(parent, index)

    loader.compose_node = compose_counted


def _value(loader: Any, node: Any, path: Path, lines: dict[Path, int], name: str) -> Any:
    """Return a node's value. Aliases are read again where they stand, so the number of values is limited."""
    import yaml

    lines.setdefault(path, node.start_mark.line + 1)
    if len(lines) > _MOST_VALUES:
        raise PolicyError(f"{name} has more than {_MOST_VALUES:,} values: do aliases contain each other?")
    if isinstance(node, yaml.MappingNode):
        return dict(_items(loader, node, path, lines, name))
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*path, place), lines, name) for place, item in enumerate(node.value)]
    return _scalar(loader, node, name)


def _scalar(loader: Any, node: Any, name: str) -> Any:
    try:
        value = loader.construct_object(node)
        if isinstance(value, int):  # a hexadecimal one is read at any length, and no message or plan can have it
            str(value)
    except (ValueError, LookupError, AttributeError) as exc:  # the latter: of ``!!bool x`` and the like
        line = node.start_mark.line + 1
        remedy = "quote it if it is a string, and give a shorter number otherwise"
        raise PolicyError(f"{name}, line {line}: {one_line(str(node.value))} cannot be read: {exc}; {remedy}") from exc
    return value


def _items(loader: Any, node: Any, path: Path, lines: dict[Path, int], name: str) -> Iterator[tuple[str, Any]]:
    seen = set()
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = _scalar(loader, key_node, name)
        if not isinstance(key, str):
            raise PolicyError(f"{name}, line {line}: the key {key!r} must be a string: put it in quotes")
        if key in seen:
            raise PolicyError(f"{name}, line {line}: {shown((*path, key))}is there twice: remove one")
        seen.add(key)
        lines[(*path, key)] = line
        yield key, _value(loader, value_node, (*path, key), lines, name)
