r"""Regular expressions that users write. RE2 matches them, in time linear in the string, whatever the expression.

Python's ``re`` backtracks and holds the interpreter's lock: one expression and one id of 32 letters stopped the event
loop of a triggerer for half a minute. RE2 has no look-around and no back-references, which are refused; its ``\d``,
``\w``, ``\s`` and ``\b`` mean ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import re2

_NO_LEAST = re.compile(r"\{,\d*\}")
_PART = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]])*\]", re.DOTALL)
# They end with a class: RE2 takes the "-" after one for itself, as in [\w-.].
_WIDE = {r"\w": r"_\pL\pM\pN", r"\d": r"\d\p{Nd}", r"\s": r"\x0b\x1c-\x1f\x{85}\s\pZ"}
_MEMORY, _MEMORY_EACH = 8 << 20, 16 << 10
"""Bytes that a set of expressions may use for its states, and bytes more for each expression."""


def compile_regex(expression: str) -> re2._Regexp:
    """Compile an expression; raise ``ValueError`` where RE2 does not know it, or reads it otherwise than Python."""
    if no_least := _NO_LEAST.search(re.sub(r"\\.", "", expression, flags=re.DOTALL)):
        found = no_least[0]
        raise ValueError(
            f"correct the regular expression: write {{0{found[1:]} for {found}, or \\{found} for these characters"
        )
    try:
        return re2.compile(expression, _options(_MEMORY))
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error.args[0]
        raise ValueError(
            f"correct the regular expression: {why} (RE2 matches it: no look-around, no back-references)"
        ) from None
    except UnicodeEncodeError:
        raise ValueError("has half of a character: write a complete one") from None


def widened(expression: str) -> str:
    r"""Return a valid expression in which ``\w``, ``\d`` and ``\s`` have the characters of all alphabets.

    All that it matched matches still. Sets that begin with ``^`` are left as they are.
    """

    def part(found: re.Match[str]) -> str:
        if (text := found[0])[0] != "[":
            return f"[{_WIDE[text]}]" if text in _WIDE else text
        return (
            text if text[1] == "^" else re.sub(r"\\.", lambda each: _WIDE.get(each[0], each[0]), text, flags=re.DOTALL)
        )

    return _PART.sub(part, expression)


class RegexSet:
    """Valid expressions, compiled together: one pass over a string finds those that match it completely."""

    def __init__(self, expressions: Sequence[str]) -> None:
        self._expressions = expressions
        self._set = re2.Set.FullMatchSet(_options(_MEMORY + _MEMORY_EACH * len(expressions)))
        for expression in expressions:
            self._set.Add(expression)
        # RE2 reports no match at all when its memory does not suffice. This one matches any text.
        self._set.Add(r"\C*")
        try:
            self._set.Compile()
        except re2.error:  # together they are too large
            self._set = None

    def matching(self, text: str) -> Sequence[int]:
        """Return the numbers of the expressions that match the complete text, in any order."""
        encoded = text.encode("utf-8", "replace")  # half of a pair, which no broker has in an id
        if self._set is None or not (found := self._set.Match(encoded)):
            return [number for number, each in enumerate(self._each) if each.fullmatch(encoded)]
        found.remove(len(self._expressions))
        return found  # type: ignore[no-any-return]

    @cached_property
    def _each(self) -> list[re2._Regexp]:
        return [re2.compile(expression, _options(_MEMORY)) for expression in self._expressions]


def _options(memory: int) -> re2.Options:
    options = re2.Options()
    options.log_errors = False  # to the standard error stream
    options.max_mem = memory
    return options
