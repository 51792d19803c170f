"""How strings from elsewhere are shown: a group id can have 32,767 characters, and a report has hundreds of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

NO_LINK = "\u200b"
_LINK_BEGINS = re.compile(r"(?<=:)(?=/)|(?<=www)(?=\.)|(?=@)", re.I)
_BROKEN = re.compile(rf"(?<=:){NO_LINK}(?=/)|(?<=www){NO_LINK}(?=\.)|{NO_LINK}(?=@)", re.I)

MOST = 200
"""The maximum number of characters of an id or a reason; the files have them in full."""

MOST_ALIKE = 20
"""The most warnings of one kind: of 2,000 rules, each may have one."""


def shortened(value: str, most: int = MOST) -> str:
    """Return the beginning of a long string with an ellipsis and its length."""
    return value if len(value) <= most else f"{value[:most]}… ({len(value):,} characters)"


def first_of(sentences: Sequence[str], what: str) -> list[str]:
    """Return the first of many sentences of one kind, and one about the others: they are mailed, and stored often.

    :param what: what the others say, as the end of a sentence: ``rule(s) wait for too long``.
    """
    more = len(sentences) - MOST_ALIKE
    return list(sentences) if more <= 0 else [*sentences[:MOST_ALIKE], f"{more:,} more {what}"]


def printable(value: str) -> str:
    """Escape line ends and all else that shows nothing: a terminal, a log or a mail would obey it."""
    return value if value.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in value)


def without_links(value: str) -> str:
    """Put an invisible character into what programs would make a link of: into ``https://``, ``www.`` and before ``@``.

    A pattern that keeps groups is also read without that character, so that a name may be copied from a message.
    """
    return _LINK_BEGINS.sub(NO_LINK, value)


def with_links(value: str) -> str:
    """Return a name as it was before ``without_links``: that character elsewhere is the name's own."""
    return _BROKEN.sub("", value)


def storable(value: T) -> T:
    """Escape the zero bytes of JSON: PostgreSQL, where Airflow stores XComs and events, refuses a string with one."""
    made: Any = value
    if isinstance(value, str):
        made = value.replace("\0", r"\x00")
    elif isinstance(value, dict):
        made = {storable(name): storable(item) for name, item in value.items()}
    elif isinstance(value, list):
        made = [storable(item) for item in value]
    found: T = made
    return found


def one_line(value: str) -> str:
    """Return a name from the cluster for a line of a log or a message: short, and without a line end."""
    return printable(shortened(value))


_TRACEBACK = "Traceback (most recent call last):"


_CAUSE = "Caused by: "


def first_line(exc: BaseException) -> str:
    """Return the line of Spark's long message that says what happened, with its last cause.

    Of a write that failed, Spark's own line has no more than the folder. A worker's cause is its last error in Python.
    """
    raised_in_java = getattr(exc, "java_exception", None)
    text = exc if raised_in_java is None else raised_in_java.toString()
    lines = [line for line in str(text).splitlines() if line.strip()]
    if not lines:
        return type(exc).__name__
    said = lines[0].strip()
    begins = [number for number, line in enumerate(lines) if line.endswith(_TRACEBACK)]
    after = lines[begins[-1] + 1 :] if begins else []
    raised = next((line.strip() for line in after if not line.startswith(" ")), "")  # ends the last traceback
    if raised:
        return f"{said.removesuffix(_TRACEBACK).strip()} {raised}"
    causes = [line.removeprefix(_CAUSE).strip() for line in str(exc).splitlines() if line.startswith(_CAUSE)]
    return f"{said} {_CAUSE}{causes[-1]}" if causes and causes[-1] not in said else said
