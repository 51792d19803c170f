"""What the commands printed, and how long they took, as a page for people. Pure."""

from dataclasses import dataclass


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


def as_page(name: str, commands: list[Ran]) -> str:
    """Return everything in Markdown."""
    lines = [f"# {name}: {len(commands)} commands, {sum(ran.seconds for ran in commands):.0f} s"]
    for ran in commands:
        code = "runs until the end" if ran.exit_code is None else f"exit code {ran.exit_code}"
        lines.append(f"## {ran.title}: {ran.seconds:.1f} s, {code}")
        lines.append(f"```\n$ {ran.command}\n{ran.printed}\n```")
    return "\n\n".join(lines) + "\n"
