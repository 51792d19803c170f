"""The commands of a page, as they are printed: pure.

A block of shell commands is a step if a comment stands before it: ``<!-- RUN -->``, ``<!-- RUN AFTER 60 s -->``,
``<!-- RUN UNTIL word -->`` (again and again until the output has the word), ``<!-- RUN IN BACKGROUND -->``, or
``<!-- RUN look -->`` with a name of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

_PART = re.compile(r"^## (?P<title>[^\n]+)$|^<!-- RUN(?P<how>[^>]*) -->\n```shell\n(?P<code>.*?)^```$", re.M | re.S)
_BLOCK = re.compile(r"^```shell\n", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One block of commands.

    :param title: the heading above it.
    :param commands: its lines, with continued lines as one.
    :param wait_seconds: how long to wait before it.
    :param until: the word that ends its repetitions; empty: it runs once.
    :param in_background: whether it runs until the end.
    :param name: its own name, if it has one.
    """

    title: str
    commands: tuple[str, ...]
    wait_seconds: float = 0.0
    until: str = ""
    in_background: bool = False
    name: str = ""


def read_steps(page: str) -> list[Step]:
    """Return the steps of a page in their order. Raises ValueError for a block of commands without a mark."""
    steps, title = [], ""
    for part in _PART.finditer(page):
        if part["title"]:
            title = part["title"]
        else:
            steps.append(_step(title, part["how"].strip(), part["code"]))
    if len(_BLOCK.findall(page)) != len(steps):
        raise ValueError("the page has commands without a mark: nobody tries them")
    return steps


def with_own_values(step: Step, values: Mapping[str, str]) -> Step:
    """Return the step as its reader types it."""
    commands = step.commands
    for printed, own in values.items():
        commands = tuple(command.replace(printed, own) for command in commands)
    return replace(step, commands=commands)


def _step(title: str, how: str, code: str) -> Step:
    commands = tuple(line for line in code.replace("\\\n", " ").splitlines() if line.strip())
    if found := re.fullmatch(r"AFTER (\d+) s", how):
        return Step(title=title, commands=commands, wait_seconds=float(found[1]))
    if found := re.fullmatch(r"UNTIL (\w+)", how):
        return Step(title=title, commands=commands, until=found[1])
    if how == "IN BACKGROUND":
        return Step(title=title, commands=commands, in_background=True)
    if not re.fullmatch(r"[a-z]*", how):
        raise ValueError(f"<!-- RUN {how} --> is not known")
    return Step(title=title, commands=commands, name=how)
