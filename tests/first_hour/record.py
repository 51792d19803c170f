"""What the commands printed, and how long they took: a page for people, and a file for programs. Pure."""

from dataclasses import asdict, dataclass
from typing import Any

_SHOWN_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One command that ran.

    :param title: the heading above it.
    :param command: as it was typed.
    :param exit_code: how it ended; ``None`` for one that runs until the end.
    :param seconds: how long it took, with its repetitions.
    :param printed: what it printed at last.
    """

    title: str
    command: str
    exit_code: int | None
    seconds: float
    printed: str


def as_page(name: str, words: int, commands: list[Ran]) -> str:
    """Return everything in Markdown.

    :param name: the page whose commands these are.
    :param words: how many words it has for its reader.
    :param commands: in their order.
    """
    total = sum(ran.seconds for ran in commands)
    lines = [
        f"# {name}",
        "",
        f"{words} words to read, {len(commands)} commands to type, {total:.0f} s for them to run.",
    ]
    title = ""
    for ran in commands:
        if ran.title != title:
            title = ran.title
            lines += ["", f"## {title}"]
        code = "runs until the end" if ran.exit_code is None else f"exit code {ran.exit_code}"
        lines += ["", f"{ran.seconds:.1f} s, {code}", "", "```", f"$ {ran.command}", *shortened(ran.printed), "```"]
    return "\n".join([*lines, ""])


def shortened(printed: str) -> list[str]:
    """Return the lines of an output; of a long one the first and the last."""
    lines = printed.splitlines()
    if len(lines) <= _SHOWN_LINES:
        return lines
    half = _SHOWN_LINES // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]


def as_summary(name: str, words: int, commands: list[Ran]) -> dict[str, Any]:
    """Return the figures, without what was printed."""
    rows = [{key: value for key, value in asdict(ran).items() if key != "printed"} for ran in commands]
    return {"page": name, "words": words, "seconds": sum(ran.seconds for ran in commands), "commands": rows}
