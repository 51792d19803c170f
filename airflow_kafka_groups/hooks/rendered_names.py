"""What templates are rendered to: each to one name, and to something.

Each template is rendered by itself. So Jinja makes no number or object of a name, and one that is rendered to nothing
is found wherever it stands: ``None`` is a group's name, and a pattern, like any other.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from airflow_kafka_groups.hooks.json_templates import TEMPLATE, Given, Text, Value, read_json

Render = Callable[[Any], Any]
NOTHING = "its template rendered to nothing: check what it refers to"
_SEVERAL = "an item of it: its template rendered to several: pass all of them as one template, '{{ … | tojson }}'"
_LINE_END = (
    "an item of it: its template rendered to a line end, which is part of the name: take it off by '| trim'; if it is "
    "meant, pass all of them as one template, '{{ … | tojson }}'"
)
_QUOTES = (
    "an item of it: its template rendered to a quote or a backslash, which JSON does not take for text: pass all of "
    "them as one template, '{{ … | tojson }}'"
)
_NO_VALUE = "a value in it: its template rendered to no JSON: write it as {{ … | tojson }}"
_TWICE = "an item of it: its template rendered to a name that is there already, so that one of them is lost: check it"
_NONE = re.compile(r"(?<![^\W_])None(?![^\W_])")


def rendered(parsed: Any, as_text: Render, as_given: Render, *, names: bool) -> Any:
    """Return what ``parse`` or ``text_of`` returned with each text rendered.

    :param as_text: renders a template to a string.
    :param as_given: renders a value as Airflow does.
    :param names: whether the strings are names, and not any text.

    Raises ``ValueError`` with the remedy and the text, for one that was rendered to no name, to several, or to one that
    is there already.
    """
    match parsed:
        case list():
            return [_item(each, as_text, as_given, names=names) for each in parsed]
        case dict():
            found = dict[Any, Any]()
            for key, value in parsed.items():
                name = _item(key, as_text, as_given, names=names)
                if name in found:
                    raise ValueError(_TWICE, name)
                found[name] = _item(value, as_text, as_given, names=names)
            return found
        case Text():
            return _only(parsed, as_text, names=names)
        case Value():
            return _value(parsed, as_text)
        case Given():
            return as_given(parsed.value)
    return parsed


def _only(parsed: Text, as_text: Render, *, names: bool) -> str:
    """Return what a string was rendered to that is all of an argument."""
    pieces = _pieces(parsed, as_text)
    text = "".join(pieces)
    if text.strip() == "None":  # also where it may be left out: whoever wrote a template did not mean that
        raise ValueError(NOTHING)
    if names and _has_none(parsed, pieces):  # a part of a storage's path makes another storage, without a journal
        raise ValueError(f"a part of it: {NOTHING}", text)
    return text


def _value(parsed: Value, as_text: Render) -> Any:
    text = as_text(parsed.template)
    try:
        return read_json(text)
    except json.JSONDecodeError:
        raise ValueError(_NO_VALUE, text) from None


def _item(parsed: Any, as_text: Render, as_given: Render, *, names: bool) -> Any:
    """Return what an item was rendered to: if it is a name, then one, and not nothing."""
    if not isinstance(parsed, Text):
        return rendered(parsed, as_text, as_given, names=names)
    pieces = _pieces(parsed, as_text)
    text = "".join(pieces)
    if text.strip() == "None":
        raise ValueError(f"an item of it: {NOTHING}", "".join(parsed.pieces))
    if not names:
        return text
    if _has_none(parsed, pieces):
        raise ValueError(f"an item of it: {NOTHING}", text)
    if any("\n" in each or _is_text_of_list(each) for each in map(str.strip, (text, *pieces[1::2]))):
        raise ValueError(_SEVERAL, text)
    if _has_more(text, parsed, "\r\n"):
        raise ValueError(_LINE_END, text)
    if parsed.in_json and _has_more(text, parsed, '"\\'):
        raise ValueError(_QUOTES, text)  # as of a macro that joins several names for JSON
    return text


def _pieces(parsed: Text, as_text: Render) -> list[str]:
    return [as_text(each) if number % 2 else each for number, each in enumerate(parsed.pieces)]


def _has_none(parsed: Text, pieces: Sequence[str]) -> bool:
    """Return whether a template in a string was rendered to nothing.

    Only Jinja knows what is beside a block: there the word is taken for nothing, unless it is written there.
    """
    if not parsed.has_block:
        return any(each.strip() == "None" for each in pieces[1::2])
    written, (_, text) = parsed.pieces[1], pieces
    is_meant = _NONE.search(TEMPLATE.sub("", written)) or text.lstrip()[:1] in ("[", "{")
    return not is_meant and _NONE.search(text) is not None


def _has_more(text: str, parsed: Text, signs: str) -> bool:
    """Return whether there are more of some signs in a string than beside the templates that it was rendered from."""
    beside = TEMPLATE.sub("", parsed.pieces[1]) if parsed.has_block else "".join(parsed.pieces[::2])
    return any(text.count(sign) > beside.count(sign) for sign in signs)


def _is_text_of_list(text: str) -> bool:
    """Return whether a string is a list of strings, in Python or JSON. ``[0-9]`` is none: it is a pattern."""
    if (text[:1], text[-1:]) not in (("[", "]"), ("(", ")")):
        return False
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def whole_letters(value: Any) -> Any:
    """Return a value in which letters are whole: JSON writes some as two halves, and Python's reader leaves these."""
    if isinstance(value, str):
        halves = any("\ud800" <= letter <= "\udfff" for letter in value)
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if halves else value
    for kind in (list, tuple, set):
        if isinstance(value, kind):
            return kind(map(whole_letters, value))
    if isinstance(value, dict):
        return {whole_letters(key): whole_letters(each) for key, each in value.items()}
    return value
