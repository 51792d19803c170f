"""Templates in lists and objects: each is one name, and no part of the list around it.

A list or an object in JSON with templates in its strings is parsed before it is rendered, and each string is rendered
by itself. So a name in it is one string, whatever signs it has: in the text of a list, ``b","c`` would be two groups.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NOTHING = "its template rendered to nothing: check what it refers to"
_SEVERAL = "an item of it: its template rendered to several: pass all of them as one template, '{{ … | tojson }}'"
_QUOTES = (
    "an item of it: its template rendered to a quote or a backslash, which JSON does not take for text: pass all of "
    "them as one template, '{{ … | tojson }}'"
)
_NO_VALUE = "a value in it: its template rendered to no JSON: write it as {{ … | tojson }}"
UNREADABLE = "its template cannot be rendered"
_TWICE = "an item of it: its template rendered to a name that is there already, so that one of them is lost: check it"
_INSTEAD = "write each name as {{ … | tojson }}, without quotes, or pass all of it as one template, '{{ … | tojson }}'"
_BESIDE_BLOCK = f"has a template within quotes, beside {{% … %}}: {_INSTEAD}"
_WITHIN_QUOTES = f"has a template within quotes that writes quotes itself: {_INSTEAD}"
_NO_JSON = f"has a template within quotes, and is no JSON around it: {_INSTEAD}"

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_EXPRESSION = re.compile(r"(?:\s*\{\{-|\{\{).*?(?:-\}\}\s*|\}\})", re.DOTALL)
_LITERAL = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_MARK = re.compile("[\ue000\ue001]([0-9]+)\ue002")
"""What stands for a template while JSON is parsed: within quotes, or beside strings."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string with templates in it.

    :param beside: what is before, between and after its templates.
    :param in_json: whether it is a string in JSON.
    :param is_value: whether it is a template that stands beside strings, and is rendered to JSON.
    """

    template: str
    beside: tuple[str, ...]
    in_json: bool = False
    is_value: bool = False


def has_template(text: str) -> bool:
    """Return whether a string is to be rendered. One with a comment only, such as ``orders{# x #}``, is not."""
    return "{{" in text or "{%" in text


def parse(given: Any) -> Any:
    """Return a list or an object that is written in JSON, with a ``Text`` for each string that has templates.

    Also a mapping with templates in its keys, of which Airflow renders none, and a list of templates, of which Jinja
    may make Python's own objects. ``None`` for other arguments, which Airflow renders: also for JSON whose templates
    all stand beside strings, since these write JSON themselves.

    Raises ``ValueError``, whose text is the remedy, for templates within quotes of what cannot be parsed.
    """
    if isinstance(given, Mapping) and _has_templates_in_keys(given):
        return _texts(given)
    if isinstance(given, list | tuple) and any(isinstance(each, str) and has_template(each) for each in given):
        return _texts(given)
    if not isinstance(given, str) or not _TEMPLATE.sub("", given).lstrip().startswith(("[", "{")):
        return None
    marked, quote, within = list[str](), "", list[str]()
    parts = list(_parts(given))
    for number, (kind, text) in enumerate(parts):
        quote = _quote_after(text, quote) if kind == "data" else quote
        within += [text] if kind == "variable" and quote else []
        marked.append(text if kind == "data" else f"\ue000{number}\ue002" if quote else f'"\ue001{number}\ue002"')
    if not within:
        return None
    if any(kind not in ("data", "variable") for kind, _ in parts):
        raise ValueError(_BESIDE_BLOCK)
    if any(map(_writes_quotes, within)):
        raise ValueError(_WITHIN_QUOTES)
    try:
        return _with_texts(json.loads("".join(marked)), [text for _, text in parts])
    except ValueError:
        raise ValueError(_NO_JSON) from None


def rendered(parsed: Any, render: Callable[[Any], Any], *, names: bool) -> Any:
    """Return what ``parse`` returned with each string rendered.

    :param render: renders a template to a string, and other values as Airflow does.
    :param names: whether the strings are names, and not any text.

    Raises ``ValueError``, whose text is the remedy, for a string that was rendered to no name, to several, or to one
    that is there already.
    """
    if isinstance(parsed, list):
        return [rendered(each, render, names=names) for each in parsed]
    if isinstance(parsed, dict):
        found = {
            rendered(key, render, names=names): rendered(value, render, names=names) for key, value in parsed.items()
        }
        if len(found) < len(parsed):
            raise ValueError(_TWICE)
        return found
    if not isinstance(parsed, Text):
        return parsed if isinstance(parsed, str) else render(parsed)  # another task's output, in a mapping
    text: str = render(parsed.template)
    if parsed.is_value:
        try:
            return json.loads(text)
        except ValueError:
            raise ValueError(_NO_VALUE) from None
    if remedy := remedy_of(parsed.beside, text, names=names):
        raise ValueError(remedy)
    if names and parsed.in_json and any(text.count(sign) > "".join(parsed.beside).count(sign) for sign in '"\\'):
        raise ValueError(_QUOTES)  # as of a macro that joins several names for JSON
    return text


def beside_of(template: str) -> tuple[str, ...]:
    """Return what is before, between and after the expressions in a template."""
    return tuple(_EXPRESSION.split(template.strip()))


def remedy_of(beside: Sequence[str], text: str, *, names: bool) -> str:
    """Return what to do about an item whose template was rendered to nothing or to several; empty for a good one."""
    text = text.strip()
    if text == "None" or (names and has_none(beside, text)):
        return f"an item of it: {NOTHING}"
    return _SEVERAL if names and ("\n" in text or _is_text_of_list(text)) else ""


def has_none(beside: Sequence[str], text: str) -> bool:
    """Return whether an expression in a template, such as that of ``{{ team }}-*``, was rendered to ``None``."""
    first, *others = beside
    if not (others and text.startswith(first) and text.endswith(others[-1])):
        return False
    parts, begin, end = list[str](), len(first), len(text) - len(others[-1])
    for each in others[:-1]:  # each where it comes first: a pattern would try all places, for hours in a long text
        if (found := text.find(each, begin, end)) < 0:
            return False
        parts.append(text[begin:found])
        begin = found + len(each)
    return begin <= end and "None" in (*parts, text[begin:end])


def _is_text_of_list(text: str) -> bool:
    """Return whether a string is a list of strings, in Python or JSON. ``[0-9]`` is none: it is a pattern."""
    if (text[:1], text[-1:]) not in (("[", "]"), ("(", ")")):
        return False
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)


def _has_templates_in_keys(given: Any) -> bool:
    if isinstance(given, Mapping):
        return any(map(has_template, map(str, given))) or any(map(_has_templates_in_keys, given.values()))
    return isinstance(given, list | tuple) and any(map(_has_templates_in_keys, given))


def _texts(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {_texts(key): _texts(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [_texts(each) for each in given]
    return Text(given, beside_of(given)) if isinstance(given, str) and has_template(given) else given


def _parts(template: str) -> Iterator[tuple[str, str]]:
    """Yield what a template consists of: its ``data``, each ``variable`` and each ``block`` as a whole; no comments."""
    from jinja2 import Environment, TemplateSyntaxError  # heavy, and seldom needed when a DAG file is parsed

    begun = ""
    try:
        for _, kind, text in Environment(autoescape=True).lex(template):
            begun += text
            if kind == "data" or kind.endswith("_end"):
                if kind != "comment_end":
                    yield kind.removesuffix("_end"), begun
                begun = ""
    except TemplateSyntaxError as exc:
        raise ValueError(f"{UNREADABLE}: {exc.message}") from None


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
    return "tojson" in expression or "json.dumps(" in expression or any('"' in literal[1:-1] for literal in literals)


def _with_texts(found: Any, parts: Sequence[str]) -> Any:
    """Return parsed JSON with the templates where their marks are."""
    if isinstance(found, list):
        return [_with_texts(each, parts) for each in found]
    if isinstance(found, dict):
        if any(key.startswith("\ue001") for key in found):
            raise ValueError("a key is a string")
        return {_with_texts(key, parts): _with_texts(value, parts) for key, value in found.items()}
    if not isinstance(found, str) or not _MARK.search(found):
        return found
    template = _MARK.sub(lambda mark: parts[int(mark[1])], found)
    return Text(template, tuple(_MARK.split(found)[::2]), in_json=True, is_value=found.startswith("\ue001"))


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
