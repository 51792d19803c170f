"""Templates in strings, lists and objects, told apart from what is around them before anything is rendered.

A list or an object in JSON with templates in its strings is parsed first. So what is filled in is one string, whatever
signs it has: in the text of a list, ``b","c`` would be two groups. ``rendered_names`` renders what is found here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_kafka_groups.hooks.fields import each_once, read_json

if TYPE_CHECKING:
    from jinja2 import Environment

_INSTEAD = "write each name as {{ … | tojson }}, without quotes, or pass all of it as one template, '{{ … | tojson }}'"
_BESIDE_BLOCK = f"has a template within quotes, beside {{% … %}}: {_INSTEAD}"
_WITHIN_QUOTES = f"has a template within quotes that writes quotes itself: {_INSTEAD}"
_NO_JSON = f"has a template within quotes, and is no JSON around it: {_INSTEAD}"
_HAS_MARK = f"has a template within quotes, and a sign U+E000 to U+E002, which stands for templates here: {_INSTEAD}"
_UNREADABLE = "has a template that Jinja cannot read: close each {{ … }} and {% … %}"

TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_LITERAL = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_TO_JSON = re.compile(r"\|\s*tojson\b|\bjson\.dumps\(")
_MARK = re.compile("[\ue000\ue001]([0-9]+)\ue002")
"""What stands for a template while JSON is parsed: within quotes, or beside strings."""
_LINE_END = re.compile(r"(?:\r\n|\r|\n)\Z")
_MARK_SIGN = re.compile(r"[\ue000-\ue002]|\\ue00[0-2]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Text:
    """A string with templates in it.

    :param pieces: what is before a template, the template, what is before the next one, and so on.
    :param in_json: whether it is written in JSON. Default false.
    :param has_block: whether it has ``{% … %}``, and so is a single template: ``("", template)``. Default false.
    """

    pieces: tuple[str, ...]
    in_json: bool = False
    has_block: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A template that stands beside strings in JSON, and is rendered to any value in it."""

    template: str


@dataclass(frozen=True, slots=True)
class Whole:
    """A template that is all of an argument, and is rendered to text, or to one of Python's objects."""

    template: str


@dataclass(frozen=True, slots=True)
class Given:
    """What Airflow renders: a value beside a template in a key, or another task's output."""

    value: Any


def has_template(text: str) -> bool:
    """Return whether a string is to be rendered. One with a comment only, such as ``orders{# x #}``, is not."""
    return "{{" in text or "{%" in text


def is_template(value: Any) -> bool:
    """Return whether a value is not known yet: a template, another task's output, or a collection with one in it."""
    if isinstance(value, str):
        return has_template(value)
    if isinstance(value, list | tuple):
        return any(is_template(item) for item in value)
    if isinstance(value, Mapping):
        return any(is_template(item) for pair in value.items() for item in pair)
    return hasattr(value, "iter_references")  # an XComArg


def listed(value: Any) -> Any:
    """Return a set, or what can be looked through once, as a list: only there, templates are found and rendered."""
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)  # of strings, each process has another order
    single = isinstance(value, str | bytes | list | tuple | Mapping) or hasattr(value, "iter_references")
    return list(value) if isinstance(value, Iterable) and not single else value


def parse(given: Any) -> Any:
    """Return a list or an object with a ``Text`` for each string that has templates: one in JSON, or Python's own.

    Other strings are a ``Whole``: also JSON whose templates all stand beside strings, since these write JSON
    themselves. ``None`` for what Airflow renders, such as a mapping without a template in a key.

    Raises ``ValueError``, whose text is the remedy, for templates within quotes of what cannot be parsed.
    """
    if isinstance(given, list | tuple):
        return [text_of(each) if isinstance(each, str) else Given(each) for each in given]
    if isinstance(given, Mapping):
        return _keyed(given) if _has_templates_in_keys(given) else None
    if not isinstance(given, str):
        return None
    if not TEMPLATE.sub("", given).lstrip().startswith(("[", "{")):
        return Whole(given)
    return _parsed(list(_parts(given))) or Whole(given)


def _parsed(parts: Sequence[tuple[str, str]]) -> Any:
    """Return a list or an object in JSON, ``None`` if no template of it is within quotes."""
    marked, quote, within = list[str](), "", list[str]()
    for number, (kind, text) in enumerate(parts):
        quote = _quote_after(text, quote) if kind == "data" else quote
        within += [text] if kind == "variable" and quote else []
        marked.append(text if kind == "data" else f"\ue000{number}\ue002" if quote else f'"\ue001{number}\ue002"')
    if not within:
        return None
    if any(kind not in ("data", "variable") for kind, _ in parts):
        raise ValueError(_BESIDE_BLOCK)
    if any(kind == "data" and _MARK_SIGN.search(text) for kind, text in parts):
        raise ValueError(_HAS_MARK)
    if any(map(_writes_quotes, within)):
        raise ValueError(_WITHIN_QUOTES)
    try:
        return _with_texts(read_json("".join(marked)), [text for _, text in parts])
    except json.JSONDecodeError:
        raise ValueError(_NO_JSON) from None


def text_of(given: str) -> Text | str:
    """Return a string with its templates apart; itself if it has none. One with blocks is a single template.

    Raises ``ValueError``, whose text is the remedy, for a template without an end.
    """
    if not has_template(given):
        return given
    pieces, parts = [""], list(_parts(given))
    if any(kind not in ("data", "variable") for kind, _ in parts):
        return Text(("", _LINE_END.sub("", given)), has_block=True)  # as Jinja takes it off, and from the others here
    for kind, text in parts:
        if kind == "data":
            pieces[-1] += text
        else:
            pieces += [text, ""]
    return Text(tuple(pieces))


def _has_templates_in_keys(given: Any) -> bool:
    return isinstance(given, Mapping) and any(
        (isinstance(key, str) and has_template(key)) or _has_templates_in_keys(value) for key, value in given.items()
    )


def _keyed(given: Any) -> Any:
    """Return a mapping with the templates in its keys apart, of which Airflow renders none."""
    if not isinstance(given, Mapping):
        return given if isinstance(given, str) and not has_template(given) else Given(given)
    return {text_of(key) if isinstance(key, str) else key: _keyed(value) for key, value in given.items()}


@cache
def _environment() -> Environment:
    from jinja2 import Environment  # heavy, and seldom needed when a DAG file is parsed

    return Environment(autoescape=True)


def _parts(template: str) -> Iterator[tuple[str, str]]:
    """Yield what a template consists of: its ``data``, each ``variable`` and each ``block`` as a whole; no comments."""
    from jinja2 import TemplateSyntaxError

    begun = ""
    try:
        for _, kind, text in _environment().lex(template):
            begun += text
            if kind == "data" or kind.endswith("_end"):
                if kind != "comment_end":
                    yield kind.removesuffix("_end"), begun
                begun = ""
    except TemplateSyntaxError as exc:
        raise ValueError(f"{_UNREADABLE} ({exc.message})") from None
    if begun:
        raise ValueError(_UNREADABLE)


def _quote_after(text: str, quote: str) -> str:
    """Return the quote of the string that some data ends in, empty outside; it begins in one of ``quote``."""
    for sign in re.findall(r"""\\.|["']""", text):
        if sign == quote:
            quote = ""
        elif not quote and len(sign) == 1:
            quote = sign
    return quote


def _writes_quotes(expression: str) -> bool:
    """Return whether an expression writes quotes itself, such as ``{{ names | join('", "') }}``."""
    literals = _LITERAL.findall(expression)
    return _TO_JSON.search(expression) is not None or any('"' in literal[1:-1] for literal in literals)


def _with_texts(found: Any, parts: Sequence[str]) -> Any:
    """Return parsed JSON with the templates where their marks are."""
    if isinstance(found, list):
        return [_with_texts(each, parts) for each in found]
    if isinstance(found, dict):
        if any(key.startswith("\ue001") for key in found):
            raise ValueError(_NO_JSON)
        return each_once((_with_texts(key, parts), _with_texts(value, parts)) for key, value in found.items())
    if not isinstance(found, str) or not _MARK.search(found):
        return found
    pieces = _MARK.split(found)
    pieces[1::2] = [parts[int(number)] for number in pieces[1::2]]
    return Value(pieces[1]) if found.startswith("\ue001") else Text(tuple(pieces), in_json=True)
