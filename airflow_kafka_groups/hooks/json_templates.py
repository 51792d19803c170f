"""Templates in lists and objects that are written in JSON: a name in them is text, and none of JSON's own signs."""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from typing import Any

EXPRESSION = re.compile(r"(?:\s*\{\{-|\{\{).*?(?:-\}\}\s*|\}\})", re.DOTALL)
_LITERAL = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\"""")
_CODE = re.compile(rf"{EXPRESSION.pattern}|\{{%.*?%\}}|\{{#.*?#\}}", re.DOTALL)
_BLOCK = re.compile(r"\{%[-+]?\s*(end)?(?:for|if|filter|with|call|macro)\b")


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
    return items_of(EXPRESSION.sub(lambda found: found[0] if _writes_json(found[0]) else "{{}}", value))


def _writes_json(expression: str) -> bool:
    """Return whether an expression is to write quotes itself, such as ``{{ names | join('", "') }}``."""
    literals = _LITERAL.findall(expression)
    return "tojson" in expression or "json.dumps(" in expression or any('"' in literal[1:-1] for literal in literals)


def has_more_than_text(template: str, rendered: Any) -> bool:
    """Return whether a name in JSON was rendered to the end of its string, as ``b","c`` is, or to an escape.

    :param template: a list or an object in JSON; nothing else has more.
    :param rendered: its text, or what Jinja made of that.
    """
    text = re.sub(r"\r\n?", "\n", template.strip())  # as Jinja does
    if not text.startswith(("[", "{")) or text.startswith(("{{", "{%", "{#")):
        return False
    if "{%" in text or "{#" in text:
        return _has_more_beside_blocks(text, rendered)
    parts, expressions = EXPRESSION.split(text), EXPRESSION.findall(text)
    if any("{" in each.strip()[2:] for each in expressions):  # where it ends is not known
        return False
    in_string, expected, sample = False, list[str](), ""
    for number, (part, expression) in enumerate(zip_longest(parts, expressions, fillvalue="")):
        in_string ^= re.sub(r"\\.", "", part).count('"') % 2 == 1
        if in_string and _writes_json(expression):
            return False
        expected += (re.escape(part), r'[^"\\]*' if in_string else ".*" if expression else "")
        sample += part + (f"{{{{{number}}}}}" if in_string else "null" if expression else "")  # no key is so written
    if ".*" in expected:  # between two of them, a search would take hours for two lists of 60,000 names
        first, last = expected.index(".*"), len(expected) - expected[::-1].index(".*")
        expected[first:last] = [".*"]
    if isinstance(rendered, str) and not re.fullmatch("".join(expected), rendered.strip(), re.DOTALL):
        return True
    try:
        return _is_longer(json.loads(sample), json.loads(rendered) if isinstance(rendered, str) else rendered)
    except ValueError:  # the argument's reader says what it must be
        return False


def _is_longer(sample: Any, found: Any) -> bool:
    """Return whether a list or an object has more than its template, in which ``None`` stands for any JSON."""
    if isinstance(sample, dict) and isinstance(found, dict):
        sample, found = list(sample.values()), list(found.values())
    if not isinstance(sample, list) or not isinstance(found, list | tuple) or None in sample:
        return False
    return len(found) > len(sample) or any(map(_is_longer, sample, found))


def _has_more_beside_blocks(template: str, rendered: Any) -> bool:
    """Count the quotes and items. Items that hold a part of a block, or of an expression, are any number of names."""
    text = _CODE.sub(lambda code: code[0] if _writes_json(code[0]) else code[0].replace('"', "'"), template)
    items, found = items_of(text), items_of(rendered)
    if items is None or found is None:
        return False
    texts = [item for item in items if isinstance(item, str)]
    if any(each.count(begin) != each.count(end) for each in texts for begin, end in (("{{", "}}"), ("{%", "%}"))):
        return False
    if any(sum(-1 if end else 1 for end in _BLOCK.findall(each)) for each in texts):
        return False
    more = isinstance(rendered, str) and any(rendered.count(each) > text.count(each) for each in '"\\')
    return more or len(items) != len(found)
