"""Templates in lists and objects that are written in JSON: a name in them is text, and none of JSON's own signs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from jinja2 import Environment

Twin: TypeAlias = Callable[[str], Any]
_EXPRESSION = re.compile(r"(?:\s*\{\{-|\{\{).*?(?:-\}\}\s*|\}\})", re.DOTALL)
_LITERAL = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_NAME = "airflow_kafka_groups_name"
_NO_TEXT = (
    "an item of it: its template rendered to a quote or a backslash, which JSON does not take for text: pass all of "
    "them as one template, '{{ … | tojson }}'"
)
_TWICE = "an item of it: its template rendered to a name that is there already, so that one of them is lost: check it"
_OTHER = re.compile(r"\ue000\d+\ue001")
"""What is rendered in the place of a name: no key of an object is so written. Digits beside it are none of it."""


def items_of(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """Return a list, also one in JSON; ``None`` if it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, list | tuple) else None


def templates_of(value: Any) -> list[Any] | tuple[Any, ...] | None:
    """Return a list with templates in it, also one in JSON, where ``{{ params["group"] }}`` has quotes of its own."""
    if not isinstance(value, str):
        return items_of(value)
    text = _EXPRESSION.sub(lambda found: found[0] if _writes_json(found[0]) else "{{}}", value)
    try:  # which Jinja may make a list of, too
        return items_of(text) or items_of(ast.literal_eval(text.strip()))
    except (TypeError, ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _writes_json(expression: str, quote: str = '"') -> bool:
    """Return whether an expression is to write quotes itself, such as ``{{ names | join('", "') }}``."""
    literals = _LITERAL.findall(expression)
    return "tojson" in expression or "json.dumps(" in expression or any(quote in literal[1:-1] for literal in literals)


def texts_of_both(twin: Any, rendered: Any) -> tuple[list[str] | None, list[str] | None]:
    """Return the strings of a template that was rendered with other names, and of what it was rendered to."""
    if isinstance(twin, set) and isinstance(rendered, set):  # in no order: each template with each of the others
        templates = {_OTHER.sub("{{}}", each) for each in twin - rendered if isinstance(each, str)}
        pairs = [(each, str(name)) for each in sorted(templates) for name in rendered - twin]
        return [each for each, _ in pairs], [name for _, name in pairs]
    return texts_of(twin), texts_of(rendered)


def texts_of(value: Any) -> list[str] | None:
    """Return the strings in a list or an object, also one in JSON, in an order of their places; ``None`` for others.

    Those of ``rendered_with_other_names`` are templates again.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list | tuple | dict):
        return None
    found, left = list[str](), [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            found.append(_OTHER.sub("{{}}", each))
        elif isinstance(each, list | tuple | dict):
            left += chain(each, each.values()) if isinstance(each, dict) else each
    return found


def remedy_of_names(twin: Any, rendered: Any) -> str:
    """Return what to do about a name that adds others, or is one of them, in what ``_has_more_than_text`` takes."""
    if _has_more_than_text(twin, rendered):
        return _NO_TEXT
    return _TWICE if _lacks_names(twin, rendered) else ""  # of text, the reader says so


def _has_more_than_text(twin: Any, rendered: Any) -> bool:
    """Return whether a name in JSON was rendered to the end of its string, as ``b","c`` and ``b"]#``, or to an escape.

    :param twin: what a list or an object in JSON, or in Python where Jinja makes that of it, is rendered to with other
        names: only Jinja knows how many a loop writes. Nothing else has more.
    :param rendered: its text, or what Jinja made of that.
    """
    try:
        sample = json.loads(twin) if isinstance(twin, str) else twin
        if not isinstance(sample, list | tuple | dict | set):
            return False
        texts = [each for each in (twin, rendered) if isinstance(each, str)]
        if len(texts) == 2 and any(texts[0].count(each) < texts[1].count(each) for each in '"\\'):
            return True
        return _has_other_length(sample, json.loads(rendered) if isinstance(rendered, str) else rendered)
    except ValueError:  # the argument's reader says what it must be
        return False


def has_none(template: str, text: str) -> bool:
    """Return whether an expression in a template, such as that of ``{{ team }}-*``, was rendered to ``None``."""
    first, *others = _EXPRESSION.split(template.strip())
    if not (others and text.startswith(first) and text.endswith(others[-1])):
        return False
    parts, begin, end = list[str](), len(first), len(text) - len(others[-1])
    for beside in others[:-1]:  # each where it comes first: a pattern would try all places, for hours in a long text
        if (found := text.find(beside, begin, end)) < 0:
            return False
        parts.append(text[begin:found])
        begin = found + len(beside)
    return begin <= end and "None" in (*parts, text[begin:end])


def rendered_with_other_names(template: str, task: Any, context: Mapping[str, Any], env: Environment) -> Any:
    """Return what a task renders a template to with other strings for the names in its strings; ``None`` without any.

    Expressions that write quotes themselves stay. What one does that joins by a variable with quotes is not known.
    """
    parts, begun, has_names, quote, before = list[str](), "", False, "", list[str]()
    elsewhere = False  # in what is written where a macro or a variable is used
    for _, kind, value in env.lex(template):
        if kind == "data":
            quote = _quote_after(value, quote)
        begun += value if begun or kind in ("variable_begin", "block_begin") else ""
        if kind == "variable_end" and quote and not _writes_json(begun, quote):
            begun, has_names = f"{{{{ {_NAME}() }}}}", True
        elif kind in ("variable_end", "block_end"):
            word = re.findall(r"\w+", begun)[0] if kind == "block_end" else ""
            if (word in ("set", "with") or (elsewhere and not word and not quote)) and _writes_any_json(begun):
                return None
            elsewhere = _is_elsewhere(begun, word, elsewhere)
            quote = _quote_after_block(word, quote, before)
        if not begun or kind in ("variable_end", "block_end"):
            parts.append(begun or value)
            begun = ""
    numbers = count()
    names = {_NAME: lambda: f"\ue000{next(numbers)}\ue001"}
    return task.render_template("".join(parts), {**context, **names}, env) if has_names else None


def _writes_any_json(expression: str) -> bool:
    return _writes_json(expression) or _writes_json(expression, "'")


def _is_elsewhere(block: str, word: str, before: bool) -> bool:
    """Return whether what follows a block is written where a macro or a variable is used."""
    if word in ("endmacro", "endset"):
        return False
    return before or word == "macro" or (word == "set" and "=" not in block)


def _quote_after_block(word: str, quote: str, before: list[str]) -> str:
    """Return the quote of the string that begins or goes on after a block; ``before`` has those before its branches."""
    match word:
        case "if" | "for":
            before.append(quote)
        case "elif" | "else":
            return before[-1]
        case "endif" | "endfor":
            before.pop()
    return quote


def _quote_after(text: str, quote: str) -> str:
    """Return the quote of the string that some data ends in, empty outside; it begins in one of ``quote``."""
    for sign in re.findall(r"""\\.|["']""", text):
        if sign == quote:
            quote = ""
        elif not quote and len(sign) == 1:
            quote = sign
    return quote


def _has_other_length(sample: Any, found: Any) -> bool:
    """Return whether a list is longer or shorter than another, or an object or a set has more: names may be equal."""
    if isinstance(sample, dict) and isinstance(found, dict):
        return len(found) > len(sample) or any(map(_has_other_length, sample.values(), found.values()))
    if isinstance(sample, set) and isinstance(found, set):
        return len(found) > len(sample)
    if not isinstance(sample, list | tuple) or not isinstance(found, list | tuple):
        return False
    return len(found) != len(sample) or any(map(_has_other_length, sample, found))


def _lacks_names(sample: Any, found: Any) -> bool:
    """Return whether an object has fewer names than another one, or one in it."""
    if not isinstance(sample, dict) or not isinstance(found, dict):
        return False
    return len(found) < len(sample) or any(map(_lacks_names, sample.values(), found.values()))
