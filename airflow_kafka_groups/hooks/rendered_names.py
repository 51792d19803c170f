"""The names that templates are rendered to: each to exactly one, in the delimiters that the DAG chose.

Each template is rendered by itself. So Jinja makes no number or object of a name, and one that is rendered to nothing
is found wherever it stands: ``None`` is a group's name, and a pattern, like any other.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from airflow_kafka_groups.exceptions import ConfigurationError
from airflow_kafka_groups.hooks.fields import read_json
from airflow_kafka_groups.hooks.json_templates import TEMPLATE, Given, Text, Value, Whole
from airflow_kafka_groups.storage.url_secrets import has_secret

_OF_LINES = "line_statement_prefix"
_DELIMITERS = {"variable_start_string": "{{", "block_start_string": "{%", _OF_LINES: ""}


def require_rendered(task: Any, literals: Collection[str], templates: Collection[str], parsed: Collection[str]) -> None:
    """Raise ``ConfigurationError`` for an argument with a template that is not rendered in a DAG with own delimiters.

    The pattern ``<< team >>-*`` keeps nothing, nor does ``{{ team }}-*`` in a DAG whose templates begin with ``<<``.

    :param literals: the names of arguments without a template.
    :param templates: those of arguments that have one.
    :param parsed: those of them whose templates are rendered one by one.
    """
    own: Mapping[str, Any] = (task.dag.jinja_environment_kwargs or {}) if task.has_dag() else {}
    for kind, usual in _DELIMITERS.items():
        if (start := own.get(kind)) in (None, "{{", "{%"):
            continue
        begins = re.compile((r"^[ \t\v]*" if kind == _OF_LINES else "") + re.escape(str(start)), re.MULTILINE)
        for name in (*literals, *templates):
            value, argument = vars(task)[name], getattr(type(task), name)
            texts = list(_texts(value))
            # All of what Airflow renders is rendered. A program may have templates of its own.
            as_written = texts if name in literals or name in parsed else []
            if any(map(begins.search, as_written)):
                why = f"has {start!r}, which begins a template in this DAG; only {{{{ and {{% do so here"
            elif usual and name in templates and argument.names and any(usual in each for each in texts):
                why = f"has {usual!r}, which begins no template in this DAG, and is not rendered"
            else:
                continue
            is_shown = argument.names and not isinstance(value, Mapping) and not has_secret(str(value))
            remedy = f"{why}: leave these names out of its jinja_environment_kwargs"
            raise ConfigurationError(name, value if is_shown else None, remedy)


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a value, with keys: a template there is meant as one, though Airflow renders none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from chain.from_iterable(map(_texts, chain(value.keys(), value.values())))
    elif isinstance(value, list | tuple):
        yield from chain.from_iterable(map(_texts, value))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The rendering of one argument.

    :param nodes_of: returns what Jinja makes of the parts of a template: strings, and Python's own objects.
    :param as_given: renders a value as Airflow does.
    :param names: whether the strings are names, and not any text.
    """

    nodes_of: Callable[[str], list[Any]]
    as_given: Callable[[Any], Any]
    names: bool

    def rendered(self, parsed: Any) -> Any:
        """Return what ``parse`` or ``text_of`` returned with each template rendered.

        Raises ``ValueError`` with the remedy and the text, for one that was rendered to no name, to several, or to one
        that is there already.
        """
        match parsed:
            case list():
                return [self._item(each) for each in parsed]
            case dict():
                return self._object(parsed)
            case Text():
                return self._only(parsed)
            case Value():
                return self._value(parsed)
            case Whole():
                return self._whole(parsed)
            case Given():
                return self.as_given(parsed.value)
        return parsed

    def _object(self, parsed: dict[Any, Any]) -> dict[Any, Any]:
        found = dict[Any, Any]()
        for key, value in parsed.items():
            name = self._item(key)
            if name in found:
                raise ValueError(_TWICE, name)
            found[name] = self._item(value)
        return found

    def _item(self, parsed: Any) -> Any:
        """Return what an item was rendered to: if it is a name, then one, and not nothing."""
        if not isinstance(parsed, Text):
            return self.rendered(parsed)
        pieces = self._pieces(parsed)
        text = "".join(pieces)
        if text.strip() == "None":
            raise ValueError(f"an item of it: {NOTHING}", "".join(parsed.pieces))
        if not self.names:
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

    def _only(self, parsed: Text) -> str:
        """Return what a string was rendered to that is all of an argument."""
        pieces = self._pieces(parsed)
        text = "".join(pieces)
        if text.strip() == "None":
            raise ValueError(NOTHING)
        if self.names and _has_none(parsed, pieces):  # a part of a storage's path makes another one, without a journal
            raise ValueError(f"a part of it: {NOTHING}", text)
        return text

    def _value(self, parsed: Value) -> Any:
        text = self._text(parsed.template)
        try:
            return read_json(text)
        except json.JSONDecodeError:
            raise ValueError(_NO_VALUE, text) from None

    def _whole(self, parsed: Whole) -> Any:
        """Return an object that Jinja made, or text, which stays text: the argument's reader knows what it is."""
        nodes = self.nodes_of(parsed.template)
        beside_blanks = [node for node in nodes if not isinstance(node, str) or node.strip()]
        is_object = len(beside_blanks) == 1 and not isinstance(beside_blanks[0], str)
        made = beside_blanks[0] if is_object else "".join(map(str, nodes))
        if made is None:  # leaving the argument out may mean "all": whoever wrote a template did not mean that
            raise ValueError(NOTHING)
        return made

    def _pieces(self, parsed: Text) -> list[str]:
        return [self._text(each) if number % 2 else each for number, each in enumerate(parsed.pieces)]

    def _text(self, template: str) -> str:
        return "".join(map(str, self.nodes_of(template)))


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
