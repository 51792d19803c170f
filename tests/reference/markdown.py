"""Tables, and docstrings as Markdown. Pure."""

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

Row = tuple[str, ...]
NOTE = "<!-- Generated from the code by `make reference`; a test compares. -->"


def page(title: str, introduction: str, *sections: str) -> str:
    return "\n\n".join([f"# {title}", NOTE, introduction.strip(), *(section.strip() for section in sections)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. A cell may have several lines and bars."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(cell(text) for text in row)} |" for row in rows]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Return text on one line, as a table's cell. Outside of code, ``<`` would begin a tag, and ``*`` emphasis."""
    parts = " ".join(text.replace("|", "\\|").split()).split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def code(value: object) -> str:
    """Return a value as JSON, marked as code; ``None`` is empty."""
    return "" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def from_docstring(text: str) -> str:
    """Return the text with Markdown's marks instead of those of reStructuredText."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text: a reference says what each part is, and other pages how to use it."""
    return re.split(r"(?<!e\.g\.)(?<=[.!?])\s+(?=[A-Z`])", " ".join(text.split()), maxsplit=1)[0]


def shared_by(sections: Mapping[str, Sequence[Row]], least: int) -> list[Row]:
    """Return the rows that at least so many sections have in the same words, the most frequent one of each name."""
    counted = Counter(row for rows in sections.values() for row in dict.fromkeys(rows))
    by_name = {row[0]: row for row, count in reversed(counted.most_common()) if count >= least}
    return [row for row in counted if by_name.get(row[0]) == row]


def listing(rows: Iterable[Sequence[str]]) -> str:
    """Return a list: of each row the first cell, what the others but the last have in brackets, and the last."""
    lines = []
    for name, *notes, meaning in rows:
        noted = f" ({', '.join(cell(note) for note in notes if note)})" if any(notes) else ""
        lines.append(f"- {cell(name)}{noted}: {cell(meaning)}")
    return "\n".join(lines).replace("\\|", "|")  # a bar divides cells in tables only


def without(rows: Sequence[Row], shared: Sequence[Row]) -> str:
    """Return the list of a section's own rows."""
    return listing(row for row in rows if row not in shared)


def parameters(thing: object) -> dict[str, str]:
    """Return what a docstring says about each parameter, in its order."""
    text = inspect.cleandoc(thing.__doc__ or "")
    found = re.findall(r"^:param (\w+):(.*?)(?=^:param |\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return {name: from_docstring(" ".join(said.split())) for name, said in found}
