"""The package's sources as syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a source file, which several tests look through: they leave it as it is."""
    return ast.parse(path.read_text())


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Return all statements, those within others too. Much quicker than ``ast.walk``, which visits every expression."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        for blocks in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(node, blocks, ()):
                waiting.append(inner)
                if isinstance(inner, ast.stmt):
                    yield inner
